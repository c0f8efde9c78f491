/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn.h - exact softmax attention, planned before it runs and counted while it runs, in one process or spread over
 * ranks.
 *
 * The header has five tiers. Each one needs only those before it:
 *     1  The first program   tensors, the problem, plan and run
 *     2  Plans               options, presets, what a plan will do, the oracle, the machine
 *     3  Files               arrays in files, tensors that are read and written by rows
 *     4  Ranks               one sequence over many ranks
 *     5  Saving              runs over ranks that can go on after they were stopped
 *
 * A complete program: causal attention of 8 heads over 1000 tokens.
 *
 *     #include <ringattn/ringattn.h>
 *     #include <stdio.h>
 *     #include <stdlib.h>
 *
 *     int main(void)
 *     {
 *         enum { SEQ = 1000, HEADS = 8, DIM = 64, COUNT = SEQ * HEADS * DIM };
 *         float *x = malloc(4 * (size_t)COUNT * sizeof(float));
 *         if (!x)
 *             return 1;
 *         for (int i = 0; i < 3; i++)
 *             ra_generate(RA_NORMAL, 1 + (uint64_t)i, 0, COUNT, x + (size_t)i * COUNT);
 *         ra_tensor q = ra_tensor_dense(x, RA_F32, RA_BSHD, 1, SEQ, HEADS, DIM), k = q, v = q, o = q;
 *         k.data = x + COUNT, v.data = x + 2 * COUNT, o.data = x + 3 * COUNT;
 *
 *         ra_problem problem = RA_PROBLEM_INIT;
 *         problem.q_len = SEQ, problem.heads = HEADS, problem.head_dim = DIM;
 *         problem.pattern = "causal";
 *         ra_plan *plan = NULL;
 *         ra_stats stats = RA_STATS_INIT;
 *         if (ra_plan_create(&problem, NULL, &plan) || ra_forward(plan, &q, &k, &v, &o, NULL, &stats)) {
 *             fprintf(stderr, "%s\n", ra_last_message());
 *             return 1;
 *         }
 *         printf("%.3f ms, %lld bytes of scratch\n", 1e3 * stats.seconds_compute, (long long)stats.peak_bytes);
 *         ra_plan_free(plan);
 *         free(x);
 *         return 0;
 *     }
 *
 * Build it with `cc program.c $(pkg-config --cflags --libs ringattn)`.
 *
 * Rules that hold everywhere:
 *  - A function that can fail returns ra_status. ra_last_message() then says what was wrong, with the values. The
 *    message belongs to the calling thread and lasts until that thread's next failing call.
 *  - What was asked for runs, or a status says why not. There is no fallback.
 *  - NULL where an object is required is RA_ERROR_ARGUMENT. Functions without a status return 0, NULL or -1 for it, or
 *    do nothing. Freeing NULL is legal.
 *  - Structs that begin with `size` can grow in later versions. Set them up with their RA_..._INIT macro or with the
 *    ra_..._init function beside it: ra_problem_init(&problem, sizeof problem). The function gives the same defaults,
 *    and writes no more than the size that it is told: callers in other languages need not repeat them.
 *  - Tensors are views: the library never owns, copies or frees the memory behind them.
 *  - Threads: any function may be called from several threads at once, on different objects. An ra_plan is read only
 *    after it is made, so several threads may run the same plan at the same time, on different outputs. An ra_array
 *    may be read by several threads at once, and written by several in ranges that do not overlap; apart from that it
 *    is for one thread at a time. So are a communicator (ra_comm) and a storage (ra_storage).
 *  - The result has the same bits for any number of threads; spread over ranks, see ra_strategy.
 *  - After fork() a child runs with one thread: OpenMP runtimes do not survive a fork. There 0 threads means one, and
 *    more are RA_ERROR_UNSUPPORTED. A child that calls exec() starts anew.
 */
#ifndef RINGATTN_H
#define RINGATTN_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && defined(RA_BUILDING)
#define RA_API __attribute__((visibility("default")))
#else
#define RA_API
#endif

/* ==== Tier 1: the first program ================================================================================= */

/* ---- Version --------------------------------------------------------------------------------------------------- */

#define RA_VERSION_MAJOR 0
#define RA_VERSION_MINOR 2
#define RA_VERSION_PATCH 0

/* The version of the library that is running, "0.2.0". */
RA_API const char *ra_version(void);

/* ---- Status ---------------------------------------------------------------------------------------------------- */

typedef enum ra_status {
    RA_OK = 0,
    RA_ERROR_ARGUMENT = 1,    /* a value that is never legal, or values that disagree */
    RA_ERROR_UNSUPPORTED = 2, /* legal, but not on this processor, in this build or in this process */
    RA_ERROR_MEMORY = 3,      /* an allocation failed, or a size does not fit the address space */
    RA_ERROR_FILE = 4,        /* a file could not be opened, read or written */
    RA_ERROR_FORMAT = 5,      /* a file was read, and is not what it should be */
    RA_ERROR_CANCELLED = 6,   /* the progress callback asked to stop */
    RA_ERROR_INTERNAL = 7,    /* the run did not do what the plan said: a defect in the library */
    RA_ERROR_TIMEOUT = 8,     /* a rank was silent for too long */
    RA_ERROR_PEER = 9,        /* another rank failed, left, or has another problem than this one */
    RA_ERROR_BUDGET = 10      /* the plan needs more memory than was allowed */
} ra_status;

/* "ok", "argument", "unsupported", ... */
RA_API const char *ra_status_name(ra_status status);

/* What went wrong in the calling thread's last failing call; never NULL. */
RA_API const char *ra_last_message(void);

/* Bytes for people: "24 bytes", "385.3 MiB", in the largest unit of which there is one at least. Returns `text`. */
#define RA_BYTES_TEXT 32
RA_API const char *ra_bytes_text(int64_t bytes, char text[RA_BYTES_TEXT]);

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

/*
 * Element types. Attention takes RA_F32, RA_F16 and RA_BF16, and RA_I8 in caches (ra_cache). The oracles of tensors in
 * memory take RA_F64 as well. The others occur in files (ra_array) and in arrays of patterns and caches.
 */
typedef enum ra_dtype {
    RA_F32 = 0,
    RA_F16 = 1,
    RA_BF16 = 2,
    RA_I64 = 3,
    RA_U8 = 4,
    RA_BOOL = 5,
    RA_F64 = 6, /* of ra_reference_row and ra_reference_backward alone */
    RA_I8 = 7,
    RA_I32 = 8
} ra_dtype;

RA_API const char *ra_dtype_name(ra_dtype dtype);
RA_API size_t ra_dtype_size(ra_dtype dtype);

typedef enum ra_layout {
    RA_BSHD = 0, /* [batch, seq, heads, dim] */
    RA_BHSD = 1  /* [batch, heads, seq, dim] */
} ra_layout;

/*
 * A view of a four-dimensional tensor in the caller's memory. `data` points at element [0, 0, 0, 0], and is aligned as
 * elements of its dtype are; a view without elements may have NULL. Strides count elements. Those of a tensor that is
 * read may be anything, zero and negative included. A tensor that is written must not have two indices with the same
 * memory, and must not share memory with any other tensor of the call: that is RA_ERROR_ARGUMENT. Views that lie
 * between each other and share no element are fine, such as every second head of one array.
 */
typedef struct ra_tensor {
    void *data;
    ra_dtype dtype;
    int64_t batch, seq, heads, dim;
    int64_t batch_stride, seq_stride, head_stride, dim_stride;
} ra_tensor;

/* The view of a contiguous tensor. `data` is const here because inputs often are; an output must be writable. */
RA_API ra_tensor ra_tensor_dense(const void *data, ra_dtype dtype, ra_layout layout, int64_t batch, int64_t seq,
                                 int64_t heads, int64_t dim);

/* One element of a floating-point tensor, widened or rounded (nearest even). Indices are not checked. */
RA_API double ra_tensor_get(const ra_tensor *tensor, int64_t batch, int64_t seq, int64_t head, int64_t dim);
RA_API void ra_tensor_set(const ra_tensor *tensor, int64_t batch, int64_t seq, int64_t head, int64_t dim, double value);

/* ---- Made-up data ---------------------------------------------------------------------------------------------- */

/* Zero mean, unit variance. */
typedef enum ra_distribution { RA_UNIFORM = 0, RA_NORMAL = 1 } ra_distribution;

/*
 * Values [first, first + count) of the stream `seed`. A value depends on seed and index alone, so any process can make
 * any part by itself. The bits are the same on every machine.
 */
RA_API void ra_generate(ra_distribution distribution, uint64_t seed, int64_t first, int64_t count, float *values);

/* The same as elements of RA_F32, or rounded to RA_F16 or RA_BF16 (nearest even). */
RA_API ra_status ra_generate_as(ra_distribution distribution, uint64_t seed, int64_t first, int64_t count,
                                ra_dtype dtype, void *elements);

/* ---- The problem ----------------------------------------------------------------------------------------------- */

/* "Like its counterpart": kv_len like q_len, kv_heads like heads, value_dim like head_dim. */
#define RA_SAME ((int64_t)-1)
/* scale = 1 / sqrt(head_dim). A marker of its own, because 0 and negative scales are legal. */
#define RA_SCALE_DEFAULT DBL_MAX

/*
 * Arrays in the caller's memory for terms of the pattern and of the scores that name no file. A view that no term uses
 * must be NULL. Dimensions that are not named are 1, and strides may be anything. The views are copied when a plan is
 * made. The elements are read by every run: they must stay until the plan is freed. Slopes, table, bias and sinks may
 * have other elements in another run. Lengths may have fewer keys, and so may documents, if these are pairs of lengths
 * that are not all alike. A mask and other documents stay as they are. Over ranks, every rank has the arrays of the
 * whole problem, and lengths and documents stay as they are, too.
 */
typedef struct ra_score_arrays {
    size_t size;
    const ra_tensor *slopes;    /* alibi: RA_F32, heads */
    const ra_tensor *table;     /* relative: RA_F32, heads or 1, dim 2M + 1 */
    const ra_tensor *bias;      /* bias: floating point, batch or 1, seq q_len or 1, heads or 1, dim kv_len */
    const ra_tensor *sinks;     /* sinks: RA_F32, heads */
    const ra_tensor *mask;      /* mask: RA_BOOL, batch or 1, seq q_len, heads or 1, dim kv_len */
    const ra_tensor *lengths;   /* lengths: RA_I64, batch, dim 2 or 3 */
    const ra_tensor *documents; /* documents: RA_I64, seq as many as there are, dim 1 or 2 */
    /*
     * Where ra_backward puts the gradients of these arrays: RA_F32, of the same shapes. NULL: not computed. Over ranks
     * the total is on every rank; ranks of one process may have the same arrays. Those of slopes, table, sinks and of a
     * bias with one row for all queries have the same bits for any number of threads and ranks, strategy, order and
     * transport, from the same output and lse. An array of a file has a gradient too, and so have slopes that the
     * text alone gives. Runs that write the same gradients must not be at the same time.
     */
    const ra_tensor *d_slopes, *d_table, *d_bias, *d_sinks;
} ra_score_arrays;

#define RA_SCORE_ARRAYS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(ra_score_arrays), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                      \
    }

RA_API ra_status ra_score_arrays_init(ra_score_arrays *arrays, size_t size);

/*
 * What is to be computed: for each batch, query head h and query i
 *     output[i] = sum_j softmax_j(scale * q[i] . k[j]) v[j]   over the keys j that the pattern lets i see,
 * with key/value head h / (heads / kv_heads). Query i sits at position query_position + i, key j at key_position + j.
 * By default key 0 is at position 0 and the last query at the last key. Patterns go by position. Blocks of `blocks:`
 * and lengths of documents go by index, counted from key 0. A query without a key at its position is in no document.
 * One outside of all blocks is in none; the last block may reach beyond the last key. Positions stay below 2^62.
 * A row that sees no key gives +0 and a log-sum-exp of -infinity. A row whose visible scores include +inf or NaN, or
 * are all -inf, gives NaN. Scores above 2.3e38 count as infinite, and so do sums of values past the range of a float.
 * Finite scores that `scores` makes lower than -2.3e38 count as -2.3e38; a row of nothing else gives no gradients.
 * Keys and values that a query does not see never touch it, whatever they contain.
 * Without a batch or without queries there is nothing to do. Without keys every row is one that sees no key.
 *
 * `pattern` is a text (NULL: "full"), read by ra_plan_create and not kept. Terms joined with '+' all apply:
 *     full                     every key
 *     causal                   keys at positions up to the query's own
 *     causal:prefix=N          the same, and the first N positions see each other
 *     window:LEFT,RIGHT        keys from position - LEFT to position + RIGHT; one number means both sides
 *     chunks:SIZE              keys of the query's own chunk of SIZE positions
 *     documents:LEN,LEN,...    packed sequences that do not see each other; lengths add up to kv_len
 *     documents:@FILE.npy      the same, from a one-dimensional int64 array (see ra_array for its path)
 *     documents:Q/K,Q/K,...    packed sequences of Q queries at the end of K keys each, which do not see each other; Q
 *                              and K >= 0 add up to q_len and kv_len. A query's position, for all terms and scores, is
 *                              that of the packed key it is aligned with; query_position must be RA_SAME
 *     documents:@FILE.npy      the same, from an int64 array [sequences, 2]
 *     lengths:@FILE.npy        padded batches, from an int64 array [batch, 2]: the first valid key and the end of the
 *                              valid keys of each batch element, by index; [batch, 3] has the position of query 0 of
 *                              the element, too. It hides keys and nothing else
 *     mask:@FILE.npy           any single pairs, by index, from a bool array [q_len, kv_len], [heads, q_len, kv_len] or
 *                              [batch, heads or 1, q_len, kv_len]; 1: the key is seen
 *     dilated:W/R,W/R,...[:mode=paper|union|grouped|torchscale]
 *                              segments of W positions, of which every R-th takes part. The first of them goes by query
 *                              head. A key in two branches counts twice, unless mode=union
 *     blocks:SIZE[:local=N][:global=N][:stride=N][:random=N][:seed=S][:density=F][:mask=@FILE.npy]
 *                              blocks of SIZE positions, of whose pairs some are kept: the diagonal, or what the mask
 *                              says, and what the other settings add
 * Documents, lengths and masks that name no file are those of the `score_arrays`.
 * docs/PATTERNS.md has pictures and the details. Prefixes, chunks and segments count from position 0, on all ranks.
 *
 * `scores` is a text of the same kind (NULL: scores are as they are). Terms apply to the scaled score s of a query at
 * position p and a key at position j, in the order written and before the pattern hides keys. A term is there once at
 * most:
 *     softcap:C                C tanh(s / C), C > 0
 *     alibi[:@FILE.npy]        s - m |p - j| with slopes m, float32 [heads]. Without a file or a view, those of the
 *                              ALiBi paper. Where heads are no power of two and P is the next one below: the paper's
 *                              slopes for P heads, then every other one of those for 2P
 *     relative:@FILE.npy       adds entry j - p + M of a table, float32 [heads or 1, 2M + 1], clipped to its ends
 *     bias:@FILE.npy           adds element [batch or 1, heads or 1, q_len or 1, kv_len], by index. Its dtype is any
 *                              floating-point one; it is read as it is needed, never whole
 *     sinks:@FILE.npy          float32 [heads]: one more logit in the softmax of each row, without a value. It is part
 *                              of the log-sum-exp. A row that sees no key gives +0 and its sink
 *     dropout:P[:seed=S]       after the softmax, weights become 0 with probability P < 1, and others are divided by
 *                              1 - P. Draws depend on the seed (0), batch, query head and both positions alone. The
 *                              log-sum-exp is of the scores before it
 * An array without a file is the view among the `score_arrays`. Slopes, tables and sinks must be finite.
 */
typedef struct ra_problem {
    size_t size;
    int64_t batch;     /* >= 0 */
    int64_t q_len;     /* >= 0 */
    int64_t kv_len;    /* >= 0, or RA_SAME */
    int64_t heads;     /* >= 1, a multiple of kv_heads */
    int64_t kv_heads;  /* >= 1, or RA_SAME */
    int64_t head_dim;  /* 1..1024 */
    int64_t value_dim; /* 1..1024, or RA_SAME */
    double scale;      /* finite as a float, or RA_SCALE_DEFAULT */
    const char *pattern;
    const char *scores;                  /* NULL: scores are as they are */
    const ra_score_arrays *score_arrays; /* NULL: none */
    int64_t query_position;              /* of query 0; RA_SAME: key_position + kv_len - q_len */
    int64_t key_position;                /* of key 0 */
} ra_problem;

#define RA_PROBLEM_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(ra_problem), 1, 0, RA_SAME, 0, RA_SAME, 0, RA_SAME, RA_SCALE_DEFAULT, NULL, NULL, NULL, RA_SAME, 0      \
    }

/*
 * The defaults of RA_PROBLEM_INIT for a struct of `size` bytes, which becomes its size. A smaller struct, of an older
 * header, gets the fields that it has. A size that no version has had is RA_ERROR_ARGUMENT. There is such a function
 * for every struct that grows.
 */
RA_API ra_status ra_problem_init(ra_problem *problem, size_t size);

/* ---- Plan and run ---------------------------------------------------------------------------------------------- */

typedef struct ra_plan ra_plan;
typedef struct ra_options ra_options; /* tier 2 */

/*
 * Check the problem and lay out the run. `options` may be NULL for the defaults. On success *plan is the caller's, to
 * be freed with ra_plan_free; on failure it is NULL.
 */
RA_API ra_status ra_plan_create(const ra_problem *problem, const ra_options *options, ra_plan **plan);
RA_API void ra_plan_free(ra_plan *plan);

typedef enum ra_kernel_id {
    RA_KERNEL_AUTO = 0, /* the RA_KERNEL environment variable if set, else the fastest this machine has */
    RA_KERNEL_GENERIC = 1,
    RA_KERNEL_AVX2 = 2,
    RA_KERNEL_AVX512 = 3,
    RA_KERNEL_AVX512BF16 = 4 /* fast: see ra_precision */
} ra_kernel_id;

/* How rows are computed. Chosen from the problem alone, never from the number of threads. */
typedef enum ra_variant {
    RA_VARIANT_TILE = 0,  /* groups of queries in the vector lanes */
    RA_VARIANT_DECODE = 1 /* few queries against many keys: bound by memory */
} ra_variant;

/* What a run did. */
typedef struct ra_stats {
    size_t size;
    ra_kernel_id kernel;
    ra_variant variant;
    int threads;                                      /* that really worked */
    double seconds_compute;                           /* the attention alone */
    double tiles, pairs_visible, pairs_worked, flops; /* as in ra_plan_info, for the keys of this run */
    int64_t planned_peak_bytes;
    int64_t peak_bytes; /* by the library's own accountant */
} ra_stats;

#define RA_STATS_INIT                                                                                                  \
    {                                                                                                                  \
        sizeof(ra_stats), RA_KERNEL_AUTO, RA_VARIANT_TILE, 0, 0, 0, 0, 0, 0, 0, 0                                      \
    }

RA_API ra_status ra_stats_init(ra_stats *stats, size_t size);

/*
 * Run the plan. q is [batch, q_len, heads, head_dim], k and v have kv_len and kv_heads, v and output have value_dim;
 * each has a dtype and strides of its own. `lse`, if not NULL, receives the natural logarithm of the sum of the
 * exponentials of the scaled scores, after all terms of `scores` and with the sink: an RA_F32 view with dim 1. `stats`
 * may be NULL. After a failure the contents of output and lse are undefined.
 *
 * k and v may have fewer keys than the plan: seq, the same in both, from 0 to kv_len. The result is that of a plan for
 * this many keys, within rounding, and takes no more memory than was planned. By default queries sit at the end of
 * these keys, query i at position key_position + seq - q_len + i: one plan serves a cache that grows. A query_position
 * of the problem stays as it is (a static cache). Documents, masks of blocks and a bias are for one length, and refuse
 * others. Lengths in the caller's memory may change from run to run, as long as no batch element has keys that the plan
 * has not.
 */
RA_API ra_status ra_forward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                            const ra_tensor *output, const ra_tensor *lse, ra_stats *stats);

/*
 * The gradient of ra_forward. `output` and `lse` are what ra_forward gave for q, k and v. `d_output` is the gradient of
 * a loss with respect to the output, with the output's shape. `d_lse` is the one with respect to the log-sum-exp, with
 * the shape of lse, or NULL if the loss does not use it. d_q, d_k and d_v have the shapes of q, k and v. They receive
 * the gradients of the loss, each rounded once to the dtype of its view; NULL: not computed. lse and d_lse are RA_F32.
 *
 * It is the gradient of the function that ra_forward computes: a key that a pattern counts twice gets twice the
 * gradient, query heads that share a key/value head add up, and a row that sees no key has a gradient of zero and gives
 * none. NaN and infinity reach the gradients that depend on them and no others. All sums are float32. The bits do not
 * depend on the number of threads.
 *
 * Scores are those of the forward pass, and dropout drops the same weights. Gradients of the arrays of scores go to the
 * views of ra_problem.score_arrays, whichever of d_q, d_k and d_v are NULL.
 *
 * stats->flops are 2 * pairs_visible * (3 head_dim + 2 value_dim), whichever gradients are wanted. After a failure the
 * contents of the gradients are undefined. k and v may have fewer keys than the plan, as in ra_forward.
 */
RA_API ra_status ra_backward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                             const ra_tensor *output, const ra_tensor *lse, const ra_tensor *d_output,
                             const ra_tensor *d_lse, const ra_tensor *d_q, const ra_tensor *d_k, const ra_tensor *d_v,
                             ra_stats *stats);

/* ==== Tier 2: plans ============================================================================================= */

/* ---- Options --------------------------------------------------------------------------------------------------- */

/* "generic", "avx2", "avx512", "avx512bf16"; "auto" for RA_KERNEL_AUTO; NULL for anything else. */
RA_API const char *ra_kernel_name(ra_kernel_id kernel);

/* 1 if this processor and operating system can run it, 0 otherwise. */
RA_API int ra_kernel_available(ra_kernel_id kernel);

/*
 * With which products attention is computed. Exact: every product and sum in float32. Fast: products of bfloat16, sums
 * and the softmax in float32, by the kernel avx512bf16; refused unless query, key, value and output (of a backward pass
 * the output's gradient) are all RA_BF16, and the processor has AVX512_BF16. Auto: fast where it can be, else exact;
 * exact where a kernel is named, be it by RA_KERNEL, and exact in decoding, which is bound by memory. docs/MATH.md
 * states the errors of both.
 */
typedef enum ra_precision { RA_PRECISION_AUTO = 0, RA_PRECISION_EXACT = 1, RA_PRECISION_FAST = 2 } ra_precision;

/* "auto", "exact", "fast"; NULL for anything else. */
RA_API const char *ra_precision_name(ra_precision precision);

/* What a kernel computes with, RA_PRECISION_EXACT or RA_PRECISION_FAST. */
RA_API ra_precision ra_kernel_precision(ra_kernel_id kernel);

/*
 * Called from the thread that called ra_forward, between key blocks: `done` of `total` visible pairs are finished. Over
 * ranks, each rank calls it for its own pairs, from its own thread; the simulation calls it for all of them.
 * Returning non-zero stops the run with RA_ERROR_CANCELLED. The last call of a run that succeeds has done == total.
 */
typedef int (*ra_progress)(void *user, double done, double total);

/*
 * The order in which tiles are worked. A tile is a group of queries against a block of keys. Row: all groups of a task
 * against a block, then the next block. The others go through squares of 8 groups and 8 blocks: serpentine back and
 * forth, hilbert along a Hilbert curve. Data stay where they are, and results agree within rounding.
 */
typedef enum ra_tile_order { RA_TILES_ROW = 0, RA_TILES_SERPENTINE = 1, RA_TILES_HILBERT = 2 } ra_tile_order;

/* "row", "serpentine", "hilbert"; NULL for anything else. */
RA_API const char *ra_tile_order_name(ra_tile_order order);

struct ra_options {
    size_t size;
    int threads; /* 0: as many as this process may use cores; one in the child of a fork */
    ra_kernel_id kernel;
    ra_progress progress; /* NULL: none */
    void *progress_user;
    ra_tile_order tiles;
    int reserved; /* 0. Smaller structs, of 0.1.0, have padding here: it is not read */
    ra_precision precision;
};

#define RA_OPTIONS_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(ra_options), 0, RA_KERNEL_AUTO, NULL, NULL, RA_TILES_ROW, 0, RA_PRECISION_AUTO                          \
    }

RA_API ra_status ra_options_init(ra_options *options, size_t size);

/* ---- Presets --------------------------------------------------------------------------------------------------- */

/*
 * The pattern of a preset: "longnet", "longnet-causal", "bigbird", "longformer", "sparse90", or that of a
 * model, such as "llama", "gemma2" and "gemma2-local". NULL, and a message that lists all names, for any other.
 */
RA_API const char *ra_preset(const char *name);

/* The scores of such a model, for ra_problem.scores: "softcap:50" for "gemma2". NULL: it has none, or is unknown. */
RA_API const char *ra_preset_scores(const char *name);

/* The names, one after the other from 0 on; NULL after the last. */
RA_API const char *ra_preset_name(int i);

/* ---- Tables of relative positions ------------------------------------------------------------------------------ */

/*
 * A table for `relative` from the buckets of T5: table[heads][2 * max_distance + 1] from weights[buckets][heads], as
 * the model has them (relative_attention_bias.weight). If `bidirectional` (encoders), half of the buckets are for keys
 * behind the query. If not (decoders), keys behind the query have the bucket of distance 0. T5 has 32 buckets and a
 * max_distance of 128; all distances from there on share a bucket. T5 uses a scale of 1.
 */
RA_API ra_status ra_relative_from_buckets(const float *weights, int64_t buckets, int64_t heads, int bidirectional,
                                          int64_t max_distance, float *table);

/* ---- What a plan will do --------------------------------------------------------------------------------------- */

/* Known before anything is allocated. Counts are summed over batch and query heads. */
typedef struct ra_plan_info {
    size_t size;
    ra_kernel_id kernel; /* of a plan that leaves the precision open, the exact one: see ra_precision */
    ra_variant variant;
    int threads;
    int64_t query_tile;   /* queries that share one pass over a block of keys */
    int64_t key_block;    /* 64 positions */
    int64_t key_spans;    /* parts of the key sequence worked independently and merged in order; mostly 1 */
    double tiles;         /* (query group, key block) tiles that are computed */
    double pairs_visible; /* (query, key) pairs the pattern lets through */
    double pairs_worked;  /* the same with the masked lanes of edge tiles */
    double flops;         /* 2 * pairs_visible * (head_dim + value_dim) */
    int64_t peak_bytes;   /* what ra_forward will allocate beyond its tensors */
    double density;       /* the fraction of all blocks that a block-sparse term keeps; 1 without one */
} ra_plan_info;

#define RA_PLAN_INFO_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(ra_plan_info), RA_KERNEL_AUTO, RA_VARIANT_TILE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                            \
    }

RA_API ra_status ra_plan_info_init(ra_plan_info *info, size_t size);

RA_API ra_status ra_plan_describe(const ra_plan *plan, ra_plan_info *info);

/*
 * The same for ra_backward with all three gradients in RA_F32. Gradients of keys and values in 16 bits also take
 * float32 sums for the heads that are worked on at a time.
 */
RA_API ra_status ra_plan_describe_backward(const ra_plan *plan, ra_plan_info *info);

/*
 * How often query `query` of head `head` sees each of the `count` keys from `first_key` on: counts[0..count). If
 * batch elements see different keys, the answer is for element 0.
 */
RA_API ra_status ra_plan_visible(const ra_plan *plan, int64_t head, int64_t query, int64_t first_key, int64_t count,
                                 uint8_t *counts);

/* The same for a batch element: with lengths, or a mask of each element, elements see different keys. */
RA_API ra_status ra_plan_visible_element(const ra_plan *plan, int64_t batch, int64_t head, int64_t query,
                                         int64_t first_key, int64_t count, uint8_t *counts);

/*
 * The oracle: one output row in double precision, by the definition, with none of the code that makes ra_forward fast.
 * output[0..value_dim) and *lse are the caller's; lse may be NULL. As in ra_forward, k and v may have fewer keys. The
 * tensors may be RA_F64.
 */
RA_API ra_status ra_reference_row(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                                  int64_t batch, int64_t head, int64_t query, double *output, double *lse);

/*
 * The oracle of ra_backward: whole gradients in double precision, by the definition, with none of the code that makes
 * ra_backward fast. It computes its own softmax, so it takes neither output nor lse. d_lse may be NULL. d_q [batch,
 * q_len, heads, head_dim], d_k [batch, seq, kv_heads, head_dim] and d_v [batch, seq, kv_heads, value_dim] are the
 * caller's, dense, and may be NULL. The tensors may be RA_F64, d_lse is RA_F32 or RA_F64. Gradients of the arrays of
 * scores go where ra_backward puts them. It takes memory of O(kv_len) beside those gradients, and time in proportion
 * to all pairs.
 */
RA_API ra_status ra_reference_backward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                                       const ra_tensor *d_output, const ra_tensor *d_lse, double *d_q, double *d_k,
                                       double *d_v);

/* ---- Caches ---------------------------------------------------------------------------------------------------- */

/*
 * Keys and values as programs that serve models keep them: in pages, in 8 bits, or both. docs/CACHES.md has examples.
 *
 * Pages: k and v are pools [pages, page_size, kv_heads, dim] that all sequences share (batch is the page, seq the row
 * in it), with any strides. Key j of batch element b is row j % page_size of page page_table[b][j / page_size]. Pages
 * may be in any order, shared by batch elements, or there twice. Entries of pages without a valid key (the pattern's
 * `lengths:`) or behind `keys` are not read; any other one outside of 0 .. pages - 1 is RA_ERROR_ARGUMENT, and the
 * message has it. The table may be another one in each run of a plan, and must not change during a run.
 *
 * 8 bits: elements of k or v are RA_I8, and each is multiplied by the scale of its row and head. Scales are RA_F32 in
 * the shape of k or v with dim 1, and finite (ra_quantize_rows makes them so). k and v have scales, or not, each for
 * itself.
 */
typedef struct ra_cache {
    size_t size;
    const ra_tensor *k, *v;             /* without a table [batch, keys, kv_heads, dim], as in ra_forward */
    const ra_tensor *k_scale, *v_scale; /* of RA_I8; NULL for any other dtype */
    const ra_tensor *page_table;        /* NULL: no pages. RA_I32: batch, dim at least keys / page_size, rounded up */
    int64_t keys;                       /* with a table: of this run, 0 to kv_len, or RA_SAME: kv_len of the plan */
} ra_cache;

#define RA_CACHE_INIT                                                                                                  \
    {                                                                                                                  \
        sizeof(ra_cache), NULL, NULL, NULL, NULL, NULL, RA_SAME                                                        \
    }

RA_API ra_status ra_cache_init(ra_cache *cache, size_t size);

/*
 * ra_forward over a cache. Results have the bits of ra_forward over the same keys and values in one piece, as long as
 * these are not RA_I8. There is no backward pass over a cache, and none over ranks.
 */
RA_API ra_status ra_forward_cached(const ra_plan *plan, const ra_tensor *q, const ra_cache *cache,
                                   const ra_tensor *output, const ra_tensor *lse, ra_stats *stats);

/* ra_reference_row over a cache. Of RA_I8 it multiplies elements by their scales in double precision. */
RA_API ra_status ra_reference_row_cached(const ra_plan *plan, const ra_tensor *q, const ra_cache *cache, int64_t batch,
                                         int64_t head, int64_t query, double *output, double *lse);

/*
 * Rows as a cache of 8 bits has them. Of each row and head: scale = its largest magnitude / 127, data = its elements /
 * scale, to the nearest integer, -127 to 127. So an element changes by half a scale at most. Of a row of zeros the
 * scale is 0; no other is below 2^-126. `rows` is a view of any shape of RA_F32, RA_F16 or RA_BF16; data is RA_I8 of
 * that shape, scale RA_F32 with dim 1. Data and scale may be places in a cache: new rows are added to it by a call. NaN
 * and infinity are RA_ERROR_ARGUMENT, with their place, and nothing is written.
 */
RA_API ra_status ra_quantize_rows(const ra_tensor *rows, const ra_tensor *data, const ra_tensor *scale);

/* ---- The machine ----------------------------------------------------------------------------------------------- */

typedef struct ra_system_info {
    size_t size;
    char processor[64];
    char instruction_sets[128];                         /* those that matter here, separated by blanks */
    int cores;                                          /* that this process may use */
    int64_t l1_bytes, l2_bytes, l3_bytes, memory_bytes; /* 0: unknown */
    char compiler[64];
    char openmp[32];     /* "201511", or "" when built without */
    ra_kernel_id kernel; /* what RA_KERNEL_AUTO means here and now */
} ra_system_info;

#define RA_SYSTEM_INFO_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(ra_system_info), "", "", 0, 0, 0, 0, 0, "", "", RA_KERNEL_AUTO                                          \
    }

RA_API ra_status ra_system_info_init(ra_system_info *info, size_t size);

/* Fails when RA_KERNEL names a kernel that does not exist or cannot run here. */
RA_API ra_status ra_system_describe(ra_system_info *info);

/* ==== Tier 3: files ============================================================================================= */

/* ---- Tensors in files ------------------------------------------------------------------------------------------ */

#define RA_ARRAY_MAX_DIMS 8

/*
 * An array in a file: read by range, or written as FILE.partial, which becomes FILE on commit. Its path is one of
 *     FILE.safetensors#NAME    the tensor NAME of a .safetensors file
 *     FILE.safetensors         the only tensor of such a file; one that is made so is called "output"
 *     anything else            a .npy file; it has no RA_BF16
 * A file that is made has one tensor, unless ra_array_create_parts makes it, and replaces the whole file that was
 * there. A file that is opened may have any header: what is wrong with it is RA_ERROR_FORMAT, with the values. Arrays
 * may have dimensions of 0.
 */
typedef struct ra_array ra_array;

/*
 * The length of the part of an array's path that names the file. *name is the rest: it points into `path`. It is "" if
 * there is no name, and NULL if the format has no names.
 */
RA_API size_t ra_array_split_path(const char *path, const char **name);

typedef struct ra_array_info {
    size_t size;
    ra_dtype dtype;
    int dims;
    int64_t shape[RA_ARRAY_MAX_DIMS];
    int64_t count; /* elements in all */
} ra_array_info;

#define RA_ARRAY_INFO_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(ra_array_info), RA_F32, 0, {0}, 0                                                                       \
    }

RA_API ra_status ra_array_info_init(ra_array_info *info, size_t size);

/*
 * Open for reading; the header is checked against the size of the file. Close with ra_array_close. A name that is not
 * in the file is RA_ERROR_ARGUMENT, and so is no name if the file has several arrays; the message lists the names.
 */
RA_API ra_status ra_array_open(const char *path, ra_array **array);

/*
 * Create for writing. Nothing appears at `path` until ra_array_commit. A PATH.partial that a killed process has left is
 * replaced; one that is being written, by any process, is refused with RA_ERROR_FILE.
 */
RA_API ra_status ra_array_create(const char *path, ra_dtype dtype, int dims, const int64_t *shape, ra_array **array);

/* One of the tensors of a file. */
typedef struct ra_array_part {
    const char *name;
    int dims;
    int64_t shape[RA_ARRAY_MAX_DIMS];
} ra_array_part;

/*
 * Create a .safetensors file with several tensors of one dtype, one behind the other. The array that is written has one
 * dimension: the elements of all of them. The path has no #NAME; otherwise as ra_array_create.
 */
RA_API ra_status ra_array_create_parts(const char *path, ra_dtype dtype, int count, const ra_array_part *parts,
                                       ra_array **array);

/*
 * The same with a dtype for each tensor. What is written are bytes: the array is RA_U8. Tensors are not aligned to more
 * than what is before them leaves: those of large elements come first.
 */
RA_API ra_status ra_array_create_mixed(const char *path, int count, const ra_array_part *parts, const ra_dtype *dtypes,
                                       ra_array **array);

/*
 * Write to an array that another process of the same job has created and not yet committed: same path, same shape. Its
 * maker commits it, after all who have joined it have closed it.
 */
RA_API ra_status ra_array_join(const char *path, ra_dtype dtype, int dims, const int64_t *shape, ra_array **array);

RA_API ra_status ra_array_describe(const ra_array *array, ra_array_info *info);

/* Elements [first, first + count) in row-major order, to or from the caller's buffer. */
RA_API ra_status ra_array_read(ra_array *array, int64_t first, int64_t count, void *elements);
RA_API ra_status ra_array_write(ra_array *array, int64_t first, int64_t count, const void *elements);

/* Put a finished array at its path, in one step, over whatever was there. The array stays open: close it. */
RA_API ra_status ra_array_commit(ra_array *array);

/* Close; an array that was created and not committed leaves nothing behind. */
RA_API void ra_array_close(ra_array *array);

/* ---- Where tensors live ---------------------------------------------------------------------------------------- */

/* A tensor that is read or written by ranges of rows. For one thread at a time. */
typedef struct ra_storage ra_storage;

/* In memory: read and written in place, never copied as a whole. The view is copied, its data stays the caller's. */
RA_API ra_status ra_storage_memory(const ra_tensor *tensor, ra_storage **storage);

/*
 * In a file: `view` says how the array's elements are laid out as a tensor (its data is ignored, its strides count
 * elements of the file). The array stays the caller's and must outlive the storage; it may serve several storages,
 * each used by a thread of its own.
 */
RA_API ra_status ra_storage_array(ra_array *array, const ra_tensor *view, ra_storage **storage);

/*
 * Made up when it is read, and held nowhere: element i is value i of the stream (ra_generate_as), in the order in which
 * a file would have them. `view` as for a file, of any floating-point dtype. Writing is an error.
 */
RA_API ra_status ra_storage_generator(ra_distribution distribution, uint64_t seed, const ra_tensor *view,
                                      ra_storage **storage);

/*
 * 8 bits in a file, read as float32: elements of `data`, RA_I8, times the scales of their rows and heads, which are the
 * elements of `scale`, RA_F32, in the same order of axes with dim 1. `view` says how the elements of data lie, with a
 * dtype of RA_F32. Both arrays stay the caller's, as in ra_storage_array. Writing is an error.
 */
RA_API ra_status ra_storage_quantized(ra_array *data, ra_array *scale, const ra_tensor *view, ra_storage **storage);

/* One head of one position of a tensor: `dim` elements. */
typedef struct ra_row {
    int64_t batch, seq, head;
} ra_row;

/*
 * Kept nowhere: written rows only go into a checksum. The rows that `rows` [count] names are also copied to `elements`
 * [count][dim], in the view's dtype. Both arrays stay the caller's and must outlive the storage; count may
 * be 0. Of the view only shape and dtype matter. Reading is an error.
 */
RA_API ra_status ra_storage_null(const ra_tensor *view, const ra_row *rows, int64_t count, void *elements,
                                 ra_storage **storage);

/*
 * The checksum of all rows written so far: the sum modulo 2^64 of a hash of each row's place and bits. It does not
 * depend on the order of writing or on the layout. Sums of several storages, each written in part, add up. A row that
 * is written twice counts twice.
 */
RA_API ra_status ra_storage_checksum(const ra_storage *storage, uint64_t *checksum);

/*
 * Rows first .. first + count - 1 of one batch. `into` / `from` is a view [1, count, heads, dim] of the storage's
 * dtype, with any strides; it shares no memory with the storage. All heads are written; what is read may be some of
 * them, as many as `into` has, from `head` on.
 */
RA_API ra_status ra_storage_read(ra_storage *storage, int64_t batch, int64_t first, int64_t count, int64_t head,
                                 const ra_tensor *into);
RA_API ra_status ra_storage_write(ra_storage *storage, int64_t batch, int64_t first, int64_t count,
                                  const ra_tensor *from);

/*
 * What it is made of, as a text of less than RA_FINGERPRINT_TEXT bytes: of a file its size, the time of its last change
 * and a checksum of sampled elements; of made-up data distribution, seed and shape. "" in memory, and for what is kept
 * nowhere. Ranks compare these before a run (ra_ring_run). Ask again after a run: another text means that the file was
 * changed meanwhile.
 */
#define RA_FINGERPRINT_TEXT 128
RA_API ra_status ra_storage_fingerprint(const ra_storage *storage, char *text, size_t size);

RA_API void ra_storage_free(ra_storage *storage);

/*
 * The oracle for tensors that need not fit in memory: the output rows `rows` [count] in double precision, by one pass
 * over the keys and values that any of them sees. Holds the rows and some hundred KiB, whatever the length. outputs
 * [count][value_dim] and lses [count] are the caller's; lses may be NULL. Calls the plan's progress with the (row, key)
 * pairs that it has gone through.
 */
RA_API ra_status ra_reference_rows(const ra_plan *plan, ra_storage *q, ra_storage *k, ra_storage *v, const ra_row *rows,
                                   int64_t count, double *outputs, double *lses);

/*
 * The same, with two measures that rounding errors of float32 arithmetic grow with (docs/MATH.md, "Tolerances"). sizes
 * [count] is the size of the products whose sums are a row's scores. spreads [count][value_dim] is the deviation of a
 * row's values from their mean, which is the output. Both are root mean squares under the weights of the softmax, and 0
 * for a row that sees no key.
 */
RA_API ra_status ra_reference_rows_sized(const ra_plan *plan, ra_storage *q, ra_storage *k, ra_storage *v,
                                         const ra_row *rows, int64_t count, double *outputs, double *lses,
                                         double *spreads, double *sizes);

/*
 * The same, with a third: roundings [count][value_dim] is what the output grows by if each weight is rounded on its own
 * with a relative error of 1, the root of the sum of (weight (value - output))^2. Products of bfloat16 round weights.
 */
RA_API ra_status ra_reference_rows_rounded(const ra_plan *plan, ra_storage *q, ra_storage *k, ra_storage *v,
                                           const ra_row *rows, int64_t count, double *outputs, double *lses,
                                           double *spreads, double *sizes, double *roundings);

/* A gradient, by the input that it belongs to. */
typedef enum ra_gradient { RA_GRADIENT_QUERY = 0, RA_GRADIENT_KEY = 1, RA_GRADIENT_VALUE = 2 } ra_gradient;

/*
 * The oracle for gradients of tensors that need not fit in memory: rows `rows` [count] of one gradient in double
 * precision, [count][dim of that gradient]. `output` and `lse` are the rounded results of the forward pass from which
 * the gradient under test was computed. Rows of the gradient of queries take a pass over the keys and values that they
 * see, with a softmax of their own. Rows of the gradients of keys and values take a pass over the queries that see
 * them, with the softmax from `lse`. d_lse may be NULL. sizes [count], if not NULL, receives the measure that rounding
 * errors of float32 arithmetic grow with (docs/MATH.md, "Tolerances of gradients"). Calls the plan's progress with the
 * pairs that it has gone through.
 */
RA_API ra_status ra_reference_gradient_rows(const ra_plan *plan, ra_storage *q, ra_storage *k, ra_storage *v,
                                            ra_storage *output, ra_storage *lse, ra_storage *d_output,
                                            ra_storage *d_lse, ra_gradient gradient, const ra_row *rows, int64_t count,
                                            double *gradients, double *sizes);

/* ==== Tier 4: ranks ============================================================================================= */

/* What travels. */
typedef enum ra_strategy {
    RA_STRATEGY_RING = 0,      /* keys and values go round; a rank holds two chunks of them at a time */
    RA_STRATEGY_ALLGATHER = 1, /* every rank gathers all keys and values: simple, and O(n) memory in each */
    RA_STRATEGY_BROADCAST = 2 /* all ranks get the parts of the sequence in order of position: the bits of ra_forward */
} ra_strategy;

/* Which rank holds which rows. A rank holds its rows in order of position, in parts of 64 positions or more. */
typedef enum ra_order {
    RA_ORDER_CONTIGUOUS = 0, /* rank r: the r-th of R parts */
    RA_ORDER_ZIGZAG = 1,     /* rank r: the r-th of 2R parts, and the r-th from the end */
    RA_ORDER_STRIPED = 2     /* rank r: the 64-position blocks b with b mod R = r */
} ra_order;

/* How bytes move. This also decides what a rank must hold. */
typedef enum ra_transport_kind {
    RA_TRANSPORT_SIM = 0,     /* virtual ranks of one process, one after the other: a receive is a read from storage */
    RA_TRANSPORT_THREADS = 1, /* threads of one process: a chunk is read where it lies */
    RA_TRANSPORT_MPI = 2      /* processes: chunks are copied into buffers */
} ra_transport_kind;

/* "ring", "zigzag", "threads", ...; NULL for anything else. */
RA_API const char *ra_strategy_name(ra_strategy strategy);
RA_API const char *ra_order_name(ra_order order);
RA_API const char *ra_transport_name(ra_transport_kind transport);

/* Rows first <= i < end of a sequence, on a rank. */
typedef struct ra_piece {
    int64_t first, end;
    int rank;
} ra_piece;

/* Where a run stands, at the beginning of a step. */
typedef struct ra_ring_moment {
    int rank;
    int64_t chunk, chunks; /* steps begun, and steps in all: of this rank, or of all virtual ranks */
    double seconds_wait;   /* so far: waiting for other ranks or, in the simulation, for reads and writes */
} ra_ring_moment;

typedef struct ra_ring_options {
    size_t size;
    int ranks; /* >= 1 */
    ra_strategy strategy;
    ra_order order;
    ra_transport_kind transport;
    ra_dtype q_dtype, k_dtype, v_dtype;
    int lent; /* 1: tensors are in the caller's memory and stay there; 0: in files, a rank reads its rows */
    /*
     * The caller's own split instead of `order`: pieces in order of position that cover the sequence, for
     * queries and for keys. NULL: split by `order`. Broadcast gives ra_forward's bits only if the pieces
     * of the keys begin at multiples of 64. Copied.
     */
    const ra_piece *q_pieces, *kv_pieces;
    int64_t q_piece_count, kv_piece_count;
    int64_t memory;   /* bytes that a process may hold, 0: no limit. A plan that needs more is refused */
    double timeout;   /* seconds of silence of a rank before it is given up; 0: 60 */
    ra_dtype o_dtype; /* of the output, */
    int lse;          /* and whether there is a log-sum-exp: for the memory of runs from and to files */
    /* NULL, or called from the rank's own thread at the beginning of each step. */
    void (*watch)(void *user, const ra_ring_moment *moment);
    void *watch_user;
    /*
     * RA_ALL_RANKS, or the one rank that is planned: enough for one process of many, in time and memory that hardly
     * depend on their number. The plan serves that rank alone; ra_ring_plan_rank still answers for the others.
     */
    int rank;
    /*
     * 1: the plan is of a backward pass, for ra_ring_backward and ra_ring_run_backward. The fields below describe its
     * tensors; a forward pass ignores them.
     */
    int backward;
    /*
     * Bits 1 << ra_gradient: those that are computed. The others are NULL in the run. 0: none but those that
     * score_arrays ask for.
     */
    unsigned gradients;
    int d_lse; /* whether there is a gradient of the log-sum-exp */
    ra_dtype d_output_dtype, d_q_dtype, d_k_dtype, d_v_dtype;
    /*
     * For virtual ranks: bits 1 << ra_gradient of the gradients whose storages can be read while they are written: all
     * except those of ra_storage_null. Virtual ranks keep sums there if they are float32; otherwise the run takes
     * longer.
     */
    unsigned gradients_kept;
} ra_ring_options;

enum { RA_ALL_RANKS = -1 };

#define RA_RING_OPTIONS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(ra_ring_options), 1, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS, RA_TRANSPORT_SIM, RA_F32, RA_F32, RA_F32,   \
            1, NULL, NULL, 0, 0, 0, 0, RA_F32, 1, NULL, NULL, RA_ALL_RANKS, 0, 7, 0, RA_F32, RA_F32, RA_F32, RA_F32, 7 \
    }

RA_API ra_status ra_ring_options_init(ra_ring_options *options, size_t size);

typedef struct ra_ring_plan ra_ring_plan;

/* What one rank will do. Counts are summed over batch and heads. */
typedef struct ra_rank_info {
    size_t size;
    int64_t q_rows, kv_rows;            /* that it holds */
    int64_t steps;                      /* parts of the keys that it works one after the other */
    int64_t hops;                       /* how many of them come from other ranks */
    int64_t bytes_sent, bytes_received; /* keys and values; of a backward pass all that travels */
    /*
     * As in ra_plan_info, for its queries; of a backward pass see ra_ring_backward. A run works on more pairs if chunks
     * divide tiles. Where queries travel, the pairs worked are not known before the run: 0.
     */
    double pairs_visible, pairs_worked;
    int64_t peak_bytes; /* what it will hold beside the caller's own tensors */
    int64_t lent_bytes; /* bytes of the caller's tensors that it reads and writes in place */
} ra_rank_info;

#define RA_RANK_INFO_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(ra_rank_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                             \
    }

RA_API ra_status ra_rank_info_init(ra_rank_info *info, size_t size);

/*
 * Plan a problem over ranks. `options` as in ra_plan_create; threads are those of each rank, and 0 means the cores
 * divided by the ranks that run at the same time on this machine as far as it is known: all cores for the simulation,
 * a share for threads and MPI. On success *plan is the caller's, to be freed with ra_ring_plan_free. With a `memory`
 * limit that the plan exceeds: RA_ERROR_BUDGET, and the message has both figures and the smallest ring that would fit,
 * or, if none does, the smallest limit with which a run is possible.
 */
RA_API ra_status ra_ring_plan_create(const ra_problem *problem, const ra_options *options, const ra_ring_options *ring,
                                     ra_ring_plan **plan);
RA_API void ra_ring_plan_free(ra_ring_plan *plan);

/* The problem's own plan: its describe, visible and reference functions serve here too. Owned by the ring plan. */
RA_API const ra_plan *ra_ring_plan_problem(const ra_ring_plan *plan);

RA_API ra_status ra_ring_plan_rank(const ra_ring_plan *plan, int rank, ra_rank_info *info);

/* What the largest process will hold: one rank for the simulation and MPI, all of them for threads. */
RA_API int64_t ra_ring_plan_process_bytes(const ra_ring_plan *plan);

/*
 * The smallest number of ranks, up to 4096, whose plan fits into ring->memory; *ranks = 0: none does. ring->ranks is
 * ignored; a split of the caller's own is refused.
 */
RA_API ra_status ra_ring_smallest(const ra_problem *problem, const ra_options *options, const ra_ring_options *ring,
                                  int *ranks);

/* The index-th run of rows of a rank's queries or keys: *piece, in order; index past the last: RA_ERROR_ARGUMENT. */
RA_API ra_status ra_ring_plan_queries(const ra_ring_plan *plan, int rank, int64_t index, ra_piece *piece);
RA_API ra_status ra_ring_plan_keys(const ra_ring_plan *plan, int rank, int64_t index, ra_piece *piece);

/* Copy a rank's rows out of a whole tensor into its part, or back; keys: 0 queries (and outputs), 1 keys (values). */
RA_API ra_status ra_ring_split(const ra_ring_plan *plan, int rank, int keys, const ra_tensor *whole, ra_tensor *part);
RA_API ra_status ra_ring_gather(const ra_ring_plan *plan, int rank, int keys, const ra_tensor *part, ra_tensor *whole);

/*
 * A rank's end of what connects the ranks. Used by one thread at a time; unusable after a run on it has failed. Unless
 * ranks are virtual, it keeps the memory of its last run for the next one until it is freed: a process that has several
 * communicators holds that of each.
 */
typedef struct ra_comm ra_comm;

/* All `ranks` virtual ranks, in one communicator. */
RA_API ra_status ra_comm_sim(int ranks, ra_comm **comm);

/* One communicator for each of `ranks` threads, in comms[0..ranks). Each is freed by itself, in any order. */
RA_API ra_status ra_comm_threads(int ranks, ra_comm **comms);

RA_API int ra_comm_rank(const ra_comm *comm);
RA_API int ra_comm_ranks(const ra_comm *comm);
RA_API void ra_comm_free(ra_comm *comm);

/*
 * Wait until all ranks have called this, each with a status of its own. Returns `mine` if it is not RA_OK, and
 * RA_ERROR_PEER if the status of another rank is not. Call it before something that one rank may do only if all have
 * succeeded.
 */
RA_API ra_status ra_comm_agree(ra_comm *comm, ra_status mine, double timeout);

/* What one rank did. */
typedef struct ra_rank_stats {
    size_t size;
    int rank, threads;
    ra_kernel_id kernel;
    int64_t q_rows, kv_rows, steps, hops, bytes_sent, bytes_received;
    double pairs_visible, pairs_worked;
    double seconds_compute; /* in tiles */
    double seconds_wait;    /* for other ranks; in the simulation, for what is read and written in the background */
    double seconds_io;      /* reading and writing storage */
    double seconds_total;
    int64_t planned_peak_bytes;
    int64_t peak_bytes;     /* by the library's own accountant */
    int64_t rss_peak_bytes; /* by the operating system, for the whole process; 0: unknown */
    int64_t lent_bytes;
} ra_rank_stats;

#define RA_RANK_STATS_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(ra_rank_stats), 0, 0, RA_KERNEL_AUTO, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                    \
    }

RA_API ra_status ra_rank_stats_init(ra_rank_stats *stats, size_t size);

/*
 * Run the plan. On a simulated communicator one call runs all ranks, and the tensors are whole. Otherwise every rank
 * calls it, with its own rows: the rows that ra_ring_plan_queries and ra_ring_plan_keys give, one after the other.
 * `lse` may be NULL (on all ranks or on none). `stats`, if not NULL, is an array with an element for each rank; the
 * first must have its size set. Every rank gets all of them. At the end hops, bytes and visible pairs are compared with
 * the plan; a difference is RA_ERROR_INTERNAL. All ranks succeed or none does.
 */
RA_API ra_status ra_ring_forward(const ra_ring_plan *plan, ra_comm *comm, const ra_tensor *q, const ra_tensor *k,
                                 const ra_tensor *v, const ra_tensor *output, const ra_tensor *lse,
                                 ra_rank_stats *stats);

/*
 * The same from and to storages of the whole tensors, whatever the communicator: a rank touches its own rows only.
 * Ranks whose inputs are different files, or are made up differently, are refused before the first hop:
 * RA_ERROR_ARGUMENT.
 */
RA_API ra_status ra_ring_run(const ra_ring_plan *plan, ra_comm *comm, ra_storage *q, ra_storage *k, ra_storage *v,
                             ra_storage *output, ra_storage *lse, ra_rank_stats *stats);

/*
 * The gradient of ra_ring_forward: ra_backward over ranks, from a plan with `backward` set. Tensors are those of
 * ra_backward. On a simulated communicator one call runs all ranks and the tensors are whole; otherwise every rank
 * calls it with its own rows: of q, output, lse, d_output, d_lse and d_q those of ra_ring_plan_queries, of k, v, d_k
 * and d_v those of ra_ring_plan_keys. Gradients that the plan does not have are NULL.
 *
 * Sums are float32 until one rounding at the end, on all ranks. Bits do not depend on the number of threads. With
 * RA_STRATEGY_BROADCAST they are those of ra_backward, for any ring, order and transport, dilated patterns aside.
 *
 * Hops, bytes and pairs are proven as in a forward pass. With RA_STRATEGY_RING, ranks that are not virtual go once
 * through the problem: keys and values travel with the sums of their gradients, or queries with theirs, whichever are
 * fewer bytes for the whole problem. Otherwise, if gradients of both sides are wanted, a run goes twice through it:
 * keys and values travel for d_q, then queries for d_k and d_v. Statistics add up all that travels; pairs_visible is
 * that of the first time.
 */
RA_API ra_status ra_ring_backward(const ra_ring_plan *plan, ra_comm *comm, const ra_tensor *q, const ra_tensor *k,
                                  const ra_tensor *v, const ra_tensor *output, const ra_tensor *lse,
                                  const ra_tensor *d_output, const ra_tensor *d_lse, const ra_tensor *d_q,
                                  const ra_tensor *d_k, const ra_tensor *d_v, ra_rank_stats *stats);

/* The same from and to storages of the whole tensors, as ra_ring_run. It cannot be saved. */
RA_API ra_status ra_ring_run_backward(const ra_ring_plan *plan, ra_comm *comm, ra_storage *q, ra_storage *k,
                                      ra_storage *v, ra_storage *output, ra_storage *lse, ra_storage *d_output,
                                      ra_storage *d_lse, ra_storage *d_q, ra_storage *d_k, ra_storage *d_v,
                                      ra_rank_stats *stats);

/* ==== Tier 5: saving ============================================================================================ */

/*
 * A run from and to storages that can go on after its processes were killed, and gives the same bits as if they had not
 * been. The files of a checkpoint at PATH:
 *     virtual ranks (sim)   PATH says where the run stands, and is replaced as a whole. PATH.rows has the results of
 *                           finished ranks.
 *     processes (mpi)       every rank opens a checkpoint of its own with the same path, and saves where it stands in
 *                           PATH.RANK. PATH exists when all of them do. Ranks go on from the last step that all of
 *                           them had reached; what a rank had done after that step is not done again.
 */
typedef struct ra_checkpoint ra_checkpoint;

typedef struct ra_checkpoint_options {
    size_t size;
    const char *path;
    double every; /* seconds between two saves; 0: as often as possible */
    /* Further facts that must be the same for a run to go on, such as sizes and times of inputs: "name: value". Copied.
     */
    const char *const *inputs;
    int input_count;
    /*
     * Asked where the run can go on later, about once a second, and a few times a second while a rank waits for keys or
     * reads. Non-zero: save, and return RA_ERROR_CANCELLED. Other ranks are told, and do the same where they can go on
     * later.
     */
    int (*stop)(void *user);
    void *stop_user;
    int rank; /* of a plan for processes (mpi): which of them opens it. The virtual ranks of one process ignore it */
    /*
     * NULL, or called with the cause if a save has failed in mid-run. The run goes on, the last checkpoint stays,
     * and saving is tried again after the next `every` seconds. A run that is to stop and cannot be saved fails.
     */
    void (*failed)(void *user, const char *message);
    void *failed_user;
    /* NULL, or called when a save begins (1) and when it has ended (0). A process that ends in between loses that save.
     */
    void (*saving)(void *user, int begins);
    void *saving_user;
} ra_checkpoint_options;

#define RA_CHECKPOINT_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(ra_checkpoint_options), NULL, 60, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL                        \
    }

RA_API ra_status ra_checkpoint_options_init(ra_checkpoint_options *options, size_t size);

/*
 * For one run of a plan. If there is a checkpoint at the path, the run will go on from there; one of another run, a
 * damaged one, or one of processes that lacks the file of this rank is refused with the difference, and so is a path
 * that cannot be written. Nothing is written yet. On success it is the caller's, to be freed.
 */
RA_API ra_status ra_checkpoint_open(const ra_checkpoint_options *options, const ra_ring_plan *plan,
                                    ra_checkpoint **checkpoint);
RA_API void ra_checkpoint_free(ra_checkpoint *checkpoint);

/* 1: there is one, and the run goes on from it. */
RA_API int ra_checkpoint_found(const ra_checkpoint *checkpoint);

/* Remove the files of all ranks. Called by one rank, when the results of the run are safe. */
RA_API void ra_checkpoint_remove(ra_checkpoint *checkpoint);

/* ra_ring_run, saved from time to time. */
RA_API ra_status ra_ring_run_saved(const ra_ring_plan *plan, ra_comm *comm, ra_storage *q, ra_storage *k, ra_storage *v,
                                   ra_storage *output, ra_storage *lse, ra_checkpoint *checkpoint,
                                   ra_rank_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
