/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench decode: few queries against long caches, in both layouts, in 16 and in 8 bits, ragged and in pages.
 * Against the bandwidth that reading the same bytes has around each sample; where arithmetic binds, against the peak.
 */
#include "harness.h"
#include "results.h"
#include "tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 128, KV_HEADS = 8, SEQUENCES = 16, LENGTH = 131072, QUICK_LENGTH = 8192, RAGGED_PART = 4 };

typedef struct decode_case {
    const char *name;
    int64_t queries, heads;
    ra_dtype dtype; /* of keys and values; of int8 queries are bfloat16 */
    ra_layout layout;
    int64_t page; /* keys of a page; 0: no pages */
    bool ragged;  /* SEQUENCES of 1 to a quarter of the length, packed */
    bool of_peak; /* bound by arithmetic */
    double goal;
    int64_t keys; /* 0: as many as the suite has; else no more than these */
} decode_case;

static const decode_case cases[] = {
    {"f32 8:8 bshd", 1, 8, RA_F32, RA_BSHD, 0, false, false, 0.80, 0},
    {"f32 8:8 bhsd", 1, 8, RA_F32, RA_BHSD, 0, false, false, 0.80, 0},
    {"f16 8:8 bshd", 1, 8, RA_F16, RA_BSHD, 0, false, false, 0.80, 0},
    {"f16 8:8 bhsd", 1, 8, RA_F16, RA_BHSD, 0, false, false, 0.80, 0},
    {"bf16 8:8 bshd", 1, 8, RA_BF16, RA_BSHD, 0, false, false, 0.80, 0},
    {"bf16 8:8 bhsd", 1, 8, RA_BF16, RA_BHSD, 0, false, false, 0.80, 0},
    {"f32 32:8 bshd", 1, 32, RA_F32, RA_BSHD, 0, false, false, 0.70, 0},
    {"f32 32:8 bhsd", 1, 32, RA_F32, RA_BHSD, 0, false, false, 0.70, 0},
    {"bf16 32:8 bshd", 1, 32, RA_BF16, RA_BSHD, 0, false, false, 0.70, 0},
    {"bf16 32:8 bhsd", 1, 32, RA_BF16, RA_BHSD, 0, false, false, 0.70, 0},
    {"bf16 32:8 ragged 16", 1, 32, RA_BF16, RA_BSHD, 0, true, false, 0.65, 0},
    {"bf16 32:8 pages of 16", 1, 32, RA_BF16, RA_BSHD, 16, false, false, 0.60, 0},
    {"bf16 32:8 pages of 64", 1, 32, RA_BF16, RA_BSHD, 64, false, false, 0.60, 0},
    {"bf16 32:8 pages of 256", 1, 32, RA_BF16, RA_BSHD, 256, false, false, 0.60, 0},
    {"bf16 32:8 pages of 64 bhsd", 1, 32, RA_BF16, RA_BHSD, 64, false, false, 0.60, 0},
    {"bf16 32:8 ragged 16 paged", 1, 32, RA_BF16, RA_BSHD, 64, true, false, 0.65, 0},
    {"int8 8:8 bshd", 1, 8, RA_I8, RA_BSHD, 0, false, false, 0.70, 0},
    {"int8 8:8 bhsd", 1, 8, RA_I8, RA_BHSD, 0, false, false, 0.70, 0},
    {"int8 32:8 bshd", 1, 32, RA_I8, RA_BSHD, 0, false, false, 0, 0},
    {"int8 32:8 bhsd", 1, 32, RA_I8, RA_BHSD, 0, false, false, 0, 0},
    {"int8 32:8 pages of 64", 1, 32, RA_I8, RA_BSHD, 64, false, false, 0, 0},
    {"bf16 64:8 4 queries bshd", 4, 64, RA_BF16, RA_BSHD, 0, false, true, 0.60, 0},
    {"bf16 64:8 4 queries bhsd", 4, 64, RA_BF16, RA_BHSD, 0, false, true, 0.60, 0},
    {"f32 32:8 4 queries on 8192", 4, 32, RA_F32, RA_BSHD, 0, false, true, 0.55, 8192},
    {"bf16 32:8 4 queries on 8192", 4, 32, RA_BF16, RA_BSHD, 0, false, true, 0.55, 8192},
    {"f32 32:8 16 queries on 8192", 16, 32, RA_F32, RA_BSHD, 0, false, true, 0.70, 8192},
    {"bf16 32:8 16 queries on 8192", 16, 32, RA_BF16, RA_BSHD, 0, false, true, 0.70, 8192},
};
enum { CASES = sizeof cases / sizeof cases[0], DTYPES = RA_I8 + 1 };

/* Keys and values of a dtype, which its cases share: rows of DIM elements, and of 8 bits their scales. */
typedef struct rows_of_dtype {
    char *rows; /* keys, then values */
    float *scales;
    int64_t count; /* rows of either */
} rows_of_dtype;

typedef struct decode_run {
    const decode_case *c;
    ra_problem problem;
    ra_score_arrays arrays;
    int64_t lengths[SEQUENCES][2];
    ra_tensor of_lengths, table, k, v, k_scale, v_scale, q, output;
    int32_t *entries;
    ra_cache cache;
    ra_plan *plan;
    int threads;
    int64_t bytes, peak_bytes;
    double flops, error;
} decode_run;

typedef struct decode_bench {
    const bench_options *options;
    ra_kernel_id kernel;
    int threads;
    int64_t length;
    rows_of_dtype rows[DTYPES];
    decode_run runs[CASES];
    harness_case cases[CASES];
} decode_bench;

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static ra_dtype query_dtype(const decode_case *c)
{
    return c->dtype == RA_I8 ? RA_BF16 : c->dtype;
}

/* Made-up rows, CHUNK of them over and over: a gigabyte of different ones takes longer than the suite. */
static ra_status fill_rows(rows_of_dtype *r, ra_dtype dtype, uint64_t seed)
{
    enum { CHUNK = 8192 };
    int64_t all = 2 * r->count, chunk = all < CHUNK ? all : CHUNK, size = DIM * (int64_t)ra_dtype_size(dtype);
    ra_status status = RA_OK;
    if (dtype == RA_I8) {
        float *wide = malloc((size_t)(chunk * DIM) * sizeof *wide);
        if (!wide)
            return RA_ERROR_MEMORY;
        ra_generate(RA_NORMAL, seed, 0, chunk * DIM, wide);
        ra_tensor from = ra_tensor_dense(wide, RA_F32, RA_BSHD, 1, chunk, 1, DIM);
        ra_tensor data = ra_tensor_dense(r->rows, RA_I8, RA_BSHD, 1, chunk, 1, DIM);
        ra_tensor scale = ra_tensor_dense(r->scales, RA_F32, RA_BSHD, 1, chunk, 1, 1);
        status = ra_quantize_rows(&from, &data, &scale);
        free(wide);
    } else {
        status = ra_generate_as(RA_NORMAL, seed, 0, chunk * DIM, dtype, r->rows);
    }
    for (int64_t done = chunk; done < all && !status; done += chunk) {
        int64_t rows = all - done < chunk ? all - done : chunk;
        memcpy(r->rows + done * size, r->rows, (size_t)(rows * size));
        for (int64_t i = 0; r->scales && i < rows; i++)
            r->scales[done + i] = r->scales[i];
    }
    return status;
}

/* Keys of all sequences of a case. */
static int64_t keys_of(const decode_bench *b, const decode_case *c)
{
    if (!c->ragged)
        return c->keys && c->keys < b->length ? c->keys : b->length;
    int64_t keys = 0, most = b->length / RAGGED_PART;
    for (int i = 0; i < SEQUENCES; i++)
        keys += 1 + i * (most - 1) / (SEQUENCES - 1);
    return keys;
}

static ra_status take_rows(decode_bench *b, ra_dtype dtype)
{
    rows_of_dtype *r = &b->rows[dtype];
    int64_t keys = 0;
    for (int i = 0; i < CASES; i++)
        if (cases[i].dtype == dtype && keys_of(b, &cases[i]) > keys)
            keys = keys_of(b, &cases[i]);
    if (r->rows)
        return RA_OK;
    r->count = (keys + 16 * SEQUENCES * 256) * KV_HEADS; /* the last page of a sequence may be part of one */
    r->rows = bench_large_pages(2 * r->count * DIM * (int64_t)ra_dtype_size(dtype), "a cache");
    if (dtype == RA_I8)
        r->scales = bench_large_pages(2 * r->count * (int64_t)sizeof *r->scales, "scales");
    if (!r->rows || (dtype == RA_I8 && !r->scales))
        return RA_ERROR_MEMORY;
    return fill_rows(r, dtype, b->options->seed + 1);
}

/* Pages in an order that nothing can guess, one sequence after the other. */
static ra_status make_table(decode_run *r, int64_t batch, int64_t pages)
{
    int64_t all = batch * pages;
    uint64_t state = 88172645463325252u;
    r->entries = malloc((size_t)all * sizeof *r->entries);
    if (!r->entries)
        return RA_ERROR_MEMORY;
    for (int64_t i = 0; i < all; i++)
        r->entries[i] = (int32_t)i;
    for (int64_t i = all - 1; i > 0; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        int64_t other = (int64_t)(state % (uint64_t)(i + 1));
        int32_t kept = r->entries[i];
        r->entries[i] = r->entries[other];
        r->entries[other] = kept;
    }
    r->table = (ra_tensor){r->entries, RA_I32, batch, 1, 1, pages, pages, 0, 0, 1};
    return RA_OK;
}

/* Views of the rows as the case has them. */
static ra_status make_cache(const decode_bench *b, decode_run *r)
{
    const decode_case *c = r->c;
    const rows_of_dtype *rows = &b->rows[c->dtype];
    int64_t batch = r->problem.batch, seq = r->problem.kv_len, pages = 0;
    ra_status status = RA_OK;
    if (c->page) {
        pages = (seq + c->page - 1) / c->page;
        status = make_table(r, batch, pages);
        batch *= pages, seq = c->page;
    }
    /* A ragged cache in pages: sequences have pages beyond their ends, which are not read and need no rows. */
    int64_t fit = rows->count / KV_HEADS / (seq ? seq : 1);
    for (int64_t i = 0; c->page && i < r->table.batch * pages; i++)
        r->entries[i] = (int32_t)(r->entries[i] % fit);
    batch = c->page && batch > fit ? fit : batch;
    char *values = rows->rows + rows->count * DIM * (int64_t)ra_dtype_size(c->dtype);
    r->k = ra_tensor_dense(rows->rows, c->dtype, c->layout, batch, seq, KV_HEADS, DIM);
    r->v = ra_tensor_dense(values, c->dtype, c->layout, batch, seq, KV_HEADS, DIM);
    r->cache = (ra_cache)RA_CACHE_INIT;
    r->cache.k = &r->k, r->cache.v = &r->v;
    r->cache.page_table = c->page ? &r->table : NULL;
    if (c->dtype == RA_I8) {
        r->k_scale = ra_tensor_dense(rows->scales, RA_F32, c->layout, batch, seq, KV_HEADS, 1);
        r->v_scale = ra_tensor_dense(rows->scales + rows->count, RA_F32, c->layout, batch, seq, KV_HEADS, 1);
        r->cache.k_scale = &r->k_scale, r->cache.v_scale = &r->v_scale;
    }
    return status;
}

/* Queries, which are as many as the problem has, and room for the output. */
static ra_status make_queries(const decode_bench *b, decode_run *r)
{
    const ra_problem *p = &r->problem;
    ra_dtype dtype = query_dtype(r->c);
    int64_t count = p->batch * p->q_len * p->heads * DIM;
    char *memory = malloc((size_t)(2 * count) * ra_dtype_size(dtype));
    if (!memory)
        return RA_ERROR_MEMORY;
    r->q = ra_tensor_dense(memory, dtype, RA_BSHD, p->batch, p->q_len, p->heads, DIM);
    r->output = r->q;
    r->output.data = memory + count * (int64_t)ra_dtype_size(dtype);
    return ra_generate_as(RA_NORMAL, b->options->seed, 0, count, dtype, memory);
}

/* ---- Problems ---------------------------------------------------------------------------------------------------- */

/* Ragged sequences are packed, or in pages with lengths of their own. */
static void make_problem(const decode_bench *b, decode_run *r)
{
    const decode_case *c = r->c;
    int64_t most = b->length / RAGGED_PART;
    r->problem = (ra_problem)RA_PROBLEM_INIT;
    r->arrays = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    r->problem.q_len = c->queries;
    r->problem.kv_len = keys_of(b, c);
    r->problem.heads = c->heads, r->problem.kv_heads = KV_HEADS, r->problem.head_dim = DIM;
    r->problem.pattern = "full";
    if (!c->ragged)
        return;
    for (int i = 0; i < SEQUENCES; i++) {
        int64_t keys = 1 + i * (most - 1) / (SEQUENCES - 1);
        r->lengths[i][0] = c->page ? 0 : c->queries;
        r->lengths[i][1] = keys;
    }
    if (c->page) {
        r->problem.batch = SEQUENCES, r->problem.kv_len = most;
        r->problem.pattern = "lengths";
        r->of_lengths = (ra_tensor){r->lengths, RA_I64, SEQUENCES, 1, 1, 2, 2, 0, 0, 1};
        r->arrays.lengths = &r->of_lengths;
    } else {
        r->problem.q_len = SEQUENCES * c->queries;
        r->problem.pattern = "documents";
        r->of_lengths = (ra_tensor){r->lengths, RA_I64, 1, SEQUENCES, 1, 2, 0, 2, 0, 1};
        r->arrays.documents = &r->of_lengths;
    }
    r->problem.score_arrays = &r->arrays;
}

/* The largest difference to the oracle: of the first and the last head of a few queries. */
static ra_status check(decode_run *r)
{
    const ra_problem *p = &r->problem;
    double row[DIM];
    ra_status status = RA_OK;
    for (int i = 0; i < 4 && !status; i++) {
        int64_t batch = i / 2 * (p->batch - 1), query = i / 2 * (p->q_len - 1), head = i % 2 * (p->heads - 1);
        status = ra_reference_row_cached(r->plan, &r->q, &r->cache, batch, head, query, row, NULL);
        for (int d = 0; d < DIM && !status; d++) {
            double error = fabs(ra_tensor_get(&r->output, batch, query, head, d) - row[d]);
            r->error = error > r->error || error != error ? error : r->error;
        }
    }
    return status;
}

static ra_status run_once(decode_run *r, double *seconds)
{
    ra_stats stats = RA_STATS_INIT;
    ra_status status = ra_forward_cached(r->plan, &r->q, &r->cache, &r->output, NULL, &stats);
    *seconds = stats.seconds_compute;
    r->peak_bytes = stats.peak_bytes;
    return status;
}

/* Planned, run once, and checked. */
static ra_status prepare(decode_bench *b, int index)
{
    decode_run *r = &b->runs[index];
    const decode_case *c = r->c = &cases[index];
    ra_options options = RA_OPTIONS_INIT;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    double unused;
    options.threads = b->threads, options.kernel = b->kernel;
    make_problem(b, r);
    r->bytes = 2 * keys_of(b, c) * KV_HEADS * (DIM * (int64_t)ra_dtype_size(c->dtype) + (c->dtype == RA_I8 ? 4 : 0));
    ra_status status = take_rows(b, c->dtype);
    if (!status)
        status = make_cache(b, r);
    if (!status)
        status = make_queries(b, r);
    if (!status)
        status = ra_plan_create(&r->problem, &options, &r->plan);
    if (!status)
        status = ra_plan_describe(r->plan, &info);
    r->flops = info.flops;
    if (!status)
        status = run_once(r, &unused);
    return status ? status : check(r);
}

/* ---- Samples ----------------------------------------------------------------------------------------------------- */

/* Bytes per second to those of readings of as many bytes around it, or operations per second to the peak. */
static ra_status take(void *user, sample *s)
{
    decode_run *r = user;
    double before = r->c->of_peak ? 0 : probe_bandwidth(r->k.data, r->bytes, r->threads);
    ra_status status = run_once(r, &s->seconds);
    s->value = (r->c->of_peak ? r->flops : (double)r->bytes) / s->seconds;
    if (!r->c->of_peak)
        s->yard = fmax(before, probe_bandwidth(r->k.data, r->bytes, r->threads));
    return status;
}

static int prepare_all(decode_bench *b)
{
    int count = 0;
    for (int i = 0; i < CASES; i++) {
        if (!harness_wanted(b->options, cases[i].name))
            continue;
        count++;
        b->runs[i].threads = b->threads;
        b->cases[i] = (harness_case){
            .name = cases[i].name, .kernel = b->kernel, .threads = b->threads, .run = take, .user = &b->runs[i]};
        ra_status status = prepare(b, i);
        if (status)
            return harness_failed(cases[i].name, status);
    }
    return count ? 0 : harness_nothing(b->options);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static bool right(const decode_run *r)
{
    return r->error <= bench_tolerance(query_dtype(r->c));
}

/* The median seconds to those of the case that bfloat16 has in place of int8; 0: there is none, or it was not run. */
static double time_to_bf16(const decode_bench *b, int index)
{
    const char *rest = strchr(cases[index].name, ' ');
    for (int i = 0; i < CASES && cases[index].dtype == RA_I8; i++) {
        const char *other = strchr(cases[i].name, ' ');
        if (cases[i].dtype != RA_BF16 || strcmp(rest, other) != 0 || !b->cases[i].taken.count)
            continue;
        probe_reading best = harness_undisturbed(b->cases, CASES, &b->cases[i]);
        return sampling_against(&b->cases[index].taken, &b->cases[i].taken, best).ratio;
    }
    return 0;
}

static int report(const decode_bench *b, results *kept, int index)
{
    const decode_run *r = &b->runs[index];
    const harness_case *c = &b->cases[index];
    double relative = time_to_bf16(b, index);
    bool by_time = relative > 0 && r->c->goal == 0;
    result_row row = {.suite = "decode", .name = r->c->name, .problem = r->problem, .dtype = query_dtype(r->c)};
    row.kernel = b->kernel, row.threads = b->threads;
    row.seconds = sampling_of(&c->taken, harness_undisturbed(b->cases, CASES, c));
    row.flops = r->flops;
    row.of_peak = r->c->of_peak;
    row.peak_bytes = r->peak_bytes;
    row.error = r->error, row.tolerance = bench_tolerance(row.dtype), row.rows = 4;
    row.reason = right(r) ? NULL : "out of tolerance";
    row.against = by_time ? "time to bfloat16" : r->c->of_peak ? "of peak" : "of memory bandwidth";
    row.against_value = by_time ? relative : row.seconds.ratio;
    row.goal = by_time ? 0.75 : r->c->goal;
    result_figure(&row, "cache_bytes", (double)r->bytes);
    result_figure(&row, "element_bits", 8 * (double)ra_dtype_size(r->c->dtype));
    result_figure(&row, "page_size", (double)r->c->page);
    if (relative > 0)
        result_figure(&row, "time_to_bf16", relative);
    results_add(kept, &row);
    char beside[16] = "";
    if (relative > 0)
        snprintf(beside, sizeof beside, "%.2f", relative);
    printf("%-28s %9.3f %8.1f %-8s %6.3f %5.2f %8s %5d/%-3d %9.1e%s\n", r->c->name, 1e3 * row.seconds.seconds,
           row.seconds.value / 1e9, r->c->of_peak ? "GFLOP/s" : "GB/s", row.seconds.ratio, row.goal, beside,
           row.seconds.quiet, row.seconds.count, r->error, right(r) ? "" : "  FAILED: out of tolerance");
    fflush(stdout);
    return right(r) ? 0 : 1;
}

static int run_suite(decode_bench *b, results *kept)
{
    int code = prepare_all(b);
    if (!code)
        code = harness_measure(b->options, b->cases, CASES);
    if (code)
        return code;
    printf("%-28s %9s %8s %-8s %6s %5s %8s %9s %9s\n", "case", "median ms", "rate", "", "ratio", "goal", "to bf16",
           "quiet/all", "error");
    for (int i = 0; i < CASES; i++)
        if (b->cases[i].taken.count)
            code |= report(b, kept, i);
    return code;
}

static void give(decode_bench *b)
{
    for (int i = 0; i < CASES; i++) {
        ra_plan_free(b->runs[i].plan);
        free(b->runs[i].entries);
        free(b->runs[i].q.data);
    }
    for (int i = 0; i < DTYPES; i++) {
        free(b->rows[i].rows);
        free(b->rows[i].scales);
    }
    free(b);
}

int bench_decode(const bench_options *options)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    results *kept = NULL;
    decode_bench *b = calloc(1, sizeof *b);
    int code = b ? results_open_here(options, &machine, &kept) : 2;
    if (!code) {
        b->options = options;
        b->kernel = machine.kernel;
        b->threads = options->threads ? options->threads : machine.cores;
        b->length = options->length ? options->length : options->quick ? QUICK_LENGTH : LENGTH;
        printf("ringattn %s, %s, %s, %d threads, %lld keys, head dim %d\n", ra_version(), machine.processor,
               machine.compiler, b->threads, (long long)b->length, (int)DIM);
        printf(
            "ratio: to the bandwidth of reading the same bytes, or (4 queries) to the multiply-add peak, around each "
            "sample;\nto bf16: the time to that of the same case in bfloat16\n\n");
        code = run_suite(b, kept);
    }
    if (b)
        give(b);
    return results_close(kept) ? 1 : code;
}
