/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caches: keys and values in pages and in 8 bits, against the same keys and values in one piece. Pages are permuted,
 * shared and repeated; entries of the table that no key needs are anything.
 */
#include "compare.h"
#include "support/ragged.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUICK = 60, ORACLE_ROWS = 8, TEXT = 512 };

/* A cache, and the same keys and values in one piece: of 8 bits as doubles, data times scale. */
typedef struct cached {
    ra_cache cache;
    ra_tensor pools[2], scales[2], table, dense[2];
    void *memory[2][3]; /* of a pool, its scales, what is dense */
    int32_t *entries;
    int64_t pages, size, columns, keys;
} cached;

static void *take(int64_t bytes)
{
    void *memory = calloc(1, (size_t)(bytes > 0 ? bytes : 1));
    assert_non_null(memory);
    return memory;
}

/* A view of new memory with an order of axes, gaps and directions of its own. */
static ra_tensor choose_view(choices *c, ra_dtype dtype, int64_t pages, int64_t size, int64_t heads, int64_t dim,
                             void **memory)
{
    int64_t dim_stride = chance(c, 6) ? 2 : 1, row = dim * dim_stride + choose(c, 0, 3);
    bool inside = chance(c, 2);
    ra_tensor t = {NULL, dtype, pages, size, heads, dim, 0, 0, 0, dim_stride};
    t.head_stride = inside ? row : row * size + choose(c, 0, 3);
    t.seq_stride = inside ? row * heads + choose(c, 0, 3) : row;
    t.batch_stride = row * size * heads + 4 * size + 4 * heads;
    int64_t elements = t.batch_stride * pages, bytes = (int64_t)ra_dtype_size(dtype), first = 0;
    *memory = take(elements * bytes);
    if (chance(c, 6))
        first += t.batch_stride * (pages - 1), t.batch_stride = -t.batch_stride;
    if (chance(c, 6))
        first += t.seq_stride * (size - 1), t.seq_stride = -t.seq_stride;
    t.data = (char *)*memory + first * bytes;
    return t;
}

static void fill(choices *c, const ra_tensor *t)
{
    for (int64_t i = 0; i < t->batch * t->seq * t->heads * t->dim; i++) {
        int64_t row = i / t->dim, place = row / t->heads;
        ra_tensor_set(t, place / t->seq, place % t->seq, row % t->heads, i % t->dim, choose_normal(c));
    }
}

/* A pool of a dtype; of 8 bits it has scales. */
static void choose_pool(choices *c, cached *k, int which, ra_dtype dtype, int64_t heads, int64_t dim)
{
    ra_tensor *pool = &k->pools[which], *scale = &k->scales[which];
    *pool = choose_view(c, dtype, k->pages, k->size, heads, dim, &k->memory[which][0]);
    if (dtype != RA_I8) {
        fill(c, pool);
        return;
    }
    void *memory;
    ra_tensor rows = choose_view(c, (ra_dtype)choose(c, RA_F32, RA_BF16), k->pages, k->size, heads, dim, &memory);
    *scale = choose_view(c, RA_F32, k->pages, k->size, heads, 1, &k->memory[which][1]);
    fill(c, &rows);
    REQUIRE(!ra_quantize_rows(&rows, pool, scale), "%s", ra_last_message());
    free(memory);
}

/* Pages in any order; or any pages, so that some are there twice. What no valid key is in, is anything. */
static void choose_table(choices *c, cached *k, const ra_problem *p)
{
    static const int32_t wild[] = {-1, INT32_MIN, INT32_MAX};
    const ra_tensor *lengths = p->score_arrays ? p->score_arrays->lengths : NULL;
    bool repeated = chance(c, 2);
    k->entries = take(p->batch * k->columns * (int64_t)sizeof *k->entries);
    k->table = (ra_tensor){k->entries, RA_I32, p->batch, 1, 1, k->columns, k->columns, 0, 0, 1};
    for (int64_t i = 0; i < p->batch * k->columns; i++)
        k->entries[i] = (int32_t)(repeated ? choose(c, 0, k->pages - 1) : i);
    for (int64_t i = p->batch * k->columns - 1; i > 0; i--) {
        int64_t other = choose(c, 0, i);
        int32_t kept = k->entries[i];
        k->entries[i] = k->entries[other];
        k->entries[other] = kept;
    }
    for (int64_t i = 0; i < p->batch * k->columns; i++) {
        int64_t b = i / k->columns, page = i % k->columns;
        int64_t lo = lengths ? (int64_t)ra_tensor_get(lengths, b, 0, 0, 0) : 0;
        int64_t hi = lengths ? (int64_t)ra_tensor_get(lengths, b, 0, 0, 1) : k->keys;
        if (page * k->size >= hi || (page + 1) * k->size <= lo || lo >= hi)
            k->entries[i] = wild[choose(c, 0, 2)];
    }
}

/* The rows that the table leads to, one behind the other. What no key needs is NaN. */
static void gather(cached *k, int which, const ra_problem *p)
{
    const ra_tensor *pool = &k->pools[which], *scale = &k->scales[which];
    ra_dtype dtype = pool->dtype == RA_I8 ? RA_F64 : pool->dtype;
    k->memory[which][2] = take(p->batch * k->keys * p->kv_heads * pool->dim * (int64_t)ra_dtype_size(dtype));
    ra_tensor *dense = &k->dense[which];
    *dense = ra_tensor_dense(k->memory[which][2], dtype, RA_BSHD, p->batch, k->keys, p->kv_heads, pool->dim);
    for (int64_t i = 0; i < p->batch * k->keys * p->kv_heads * pool->dim; i++) {
        int64_t d = i % pool->dim, head = i / pool->dim % p->kv_heads, key = i / pool->dim / p->kv_heads % k->keys;
        int64_t batch = i / pool->dim / p->kv_heads / k->keys, page = k->entries[batch * k->columns + key / k->size];
        double x = NAN;
        if (page >= 0 && page < k->pages)
            x = ra_tensor_get(pool, page, key % k->size, head, d) *
                (scale->data ? ra_tensor_get(scale, page, key % k->size, head, 0) : 1);
        ra_tensor_set(dense, batch, key, head, d, x);
    }
}

static void choose_cache(choices *c, cached *k, const ra_problem *p, int64_t keys, bool bits)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 32, 33, 64, 128, 256};
    *k = (cached){.cache = RA_CACHE_INIT, .keys = keys};
    k->size = sizes[choose(c, 0, 9)];
    k->columns = (keys + k->size - 1) / k->size + choose(c, 0, 2);
    k->pages = p->batch * k->columns + choose(c, 0, 3);
    k->pages = k->pages > 0 ? k->pages : 1;
    for (int which = 0; which < 2; which++) {
        ra_dtype dtype = bits && !chance(c, 4) ? RA_I8 : (ra_dtype)choose(c, RA_F32, RA_BF16);
        choose_pool(c, k, which, dtype, p->kv_heads, which ? p->value_dim : p->head_dim);
    }
    choose_table(c, k, p);
    gather(k, 0, p);
    gather(k, 1, p);
    k->cache.k = &k->pools[0], k->cache.v = &k->pools[1];
    k->cache.k_scale = k->scales[0].data ? &k->scales[0] : NULL;
    k->cache.v_scale = k->scales[1].data ? &k->scales[1] : NULL;
    k->cache.page_table = &k->table;
    k->cache.keys = keys;
}

static void cached_free(cached *k)
{
    for (int i = 0; i < 6; i++)
        free(k->memory[i / 3][i % 3]);
    free(k->entries);
}

/* ---- Random problems --------------------------------------------------------------------------------------------- */

static void choose_problem(choices *c, ra_problem *p, char *pattern, size_t size)
{
    static const char *const scores[] = {NULL, NULL, "softcap:9", "alibi", "dropout:0.3:seed=5", "softcap:4,alibi"};
    p->batch = choose(c, 1, 3);
    p->kv_heads = choose(c, 1, chance(c, 5) ? 9 : 3);
    p->heads = p->kv_heads * choose(c, 1, 4);
    p->head_dim = choose(c, 1, chance(c, 5) ? 140 : 70);
    p->value_dim = choose(c, 1, chance(c, 5) ? 140 : 70);
    p->q_len = choose(c, 1, chance(c, 2) ? 6 : 150);
    p->kv_len = choose(c, 1, chance(c, 3) ? 800 : 300);
    if (chance(c, 8)) { /* several spans of keys */
        p->batch = p->heads = p->kv_heads = 1;
        p->kv_len = choose(c, 4096, 5000);
        p->head_dim = p->value_dim = choose(c, 1, 20);
    }
    p->pattern = pattern;
    p->scores = scores[choose(c, 0, 4)];
    choose_pattern(c, p->kv_len, pattern, size);
    choose_positions(c, p);
    choose_ragged(c, p, pattern, size);
}

/* A run of fewer keys than the plan has, where the problem lets it. */
static int64_t choose_keys(choices *c, const ra_problem *p)
{
    bool fixed = strstr(p->pattern, "documents") || strstr(p->pattern, "lengths") || strstr(p->pattern, "mask");
    return fixed || chance(c, 2) ? p->kv_len : choose(c, 1, p->kv_len);
}

static void run_cached(uint64_t seed, const sample *s, const ra_plan *plan, const ra_cache *cache, ra_stats *stats)
{
    const ra_tensor *t = s->tensors;
    sample_wipe(s);
    REQUIRE(!ra_forward_cached(plan, &t[SAMPLE_QUERY], cache, &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE], stats),
            "seed %llu, %s: %s", (unsigned long long)seed, sample_text(s), ra_last_message());
    REQUIRE(sample_padding_kept(s), "seed %llu, %s: padding was written", (unsigned long long)seed, sample_text(s));
}

/* The oracle over the cache is the oracle over tensors. */
static void check_oracle(uint64_t seed, const sample *s, const ra_plan *plan, const cached *k,
                         const oracle_rows *expected)
{
    double row[140], lse;
    for (int i = 0; i < expected->count; i++) {
        const int64_t *at = expected->at[i];
        REQUIRE(!ra_reference_row_cached(plan, &s->tensors[SAMPLE_QUERY], &k->cache, at[0], at[1], at[2], row, &lse),
                "%s", ra_last_message());
        REQUIRE(!memcmp(row, expected->output + i * s->problem.value_dim, (size_t)s->problem.value_dim * sizeof *row) &&
                    lse == expected->lse[i],
                "seed %llu, %s: the oracle differs", (unsigned long long)seed, sample_text(s));
    }
}

/* With rows in one piece: the same bits. */
static void check_in_one_piece(uint64_t seed, const sample *s, const ra_plan *plan, const cached *k)
{
    const ra_tensor *t = s->tensors;
    char *kept = sample_keep(s);
    sample_wipe(s);
    REQUIRE(!ra_forward(plan, &t[SAMPLE_QUERY], &k->dense[0], &k->dense[1], &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE], NULL),
            "seed %llu, %s: %s", (unsigned long long)seed, sample_text(s), ra_last_message());
    REQUIRE(sample_same(s, kept), "seed %llu, %s, pages of %lld: other bits than in one piece",
            (unsigned long long)seed, sample_text(s), (long long)k->size);
    free(kept);
}

static ra_plan *plan_of(const ra_problem *problem, ra_kernel_id kernel, int threads)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_plan *plan = NULL;
    options.kernel = kernel, options.threads = threads;
    REQUIRE(!ra_plan_create(problem, &options, &plan), "%s", ra_last_message());
    return plan;
}

static void check_kernel(uint64_t seed, const sample *s, const ra_plan *plan, const cached *k,
                         const oracle_rows *expected, ra_variant *variant)
{
    ra_stats stats = RA_STATS_INIT;
    double output_error, lse_error, scale = sample_score_scale(s);
    run_cached(seed, s, plan, &k->cache, &stats);
    sample_errors(s, expected, &output_error, &lse_error);
    REQUIRE(output_error <= OUTPUT_TOLERANCE * scale && lse_error <= LSE_TOLERANCE * scale,
            "seed %llu, %s, %s, pages of %lld: output off by %.2e, lse by %.2e", (unsigned long long)seed,
            ra_kernel_name(stats.kernel), sample_text(s), (long long)k->size, output_error, lse_error);
    if (!k->cache.k_scale && !k->cache.v_scale)
        check_in_one_piece(seed, s, plan, k);
    *variant = stats.variant;
}

static void random_caches(bool bits)
{
    bool reached[2] = {false};
    seed_range range = seeds(QUICK);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT, here;
        char pattern[TEXT];
        sample s;
        cached k;
        choose_problem(&c, &problem, pattern, sizeof pattern);
        here = problem;
        here.kv_len = choose_keys(&c, &problem);
        sample_make_any(&s, &here, ANY_DTYPE, &c);
        choose_cache(&c, &k, &here, here.kv_len, bits);
        s.tensors[SAMPLE_KEY] = k.dense[0], s.tensors[SAMPLE_VALUE] = k.dense[1];
        oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &c);
        FOR_EACH_KERNEL (kernel) {
            ra_plan *plan = plan_of(&problem, kernel, (int)choose(&c, 1, 3));
            ra_variant variant;
            check_kernel(seed, &s, plan, &k, &expected, &variant);
            check_oracle(seed, &s, plan, &k, &expected);
            reached[variant] = true;
            ra_plan_free(plan);
        }
        oracle_free(&expected);
        cached_free(&k);
        sample_free(&s);
    }
    assert_true(reached[RA_VARIANT_TILE] && reached[RA_VARIANT_DECODE]);
}

static void pages(void **state)
{
    (void)state;
    random_caches(false);
}

static void pages_of_8_bits(void **state)
{
    (void)state;
    random_caches(true);
}

/* ---- The bound of 8 bits ----------------------------------------------------------------------------------------- */

static double largest_scale(const ra_tensor *scale, int64_t batch, int64_t head)
{
    double most = 0;
    for (int64_t j = 0; j < scale->seq; j++)
        most = fmax(most, ra_tensor_get(scale, batch, j, head, 0));
    return most;
}

/* Of one row, as docs/MATH.md has it: the largest error in parts of the bound. */
static double part_of_bound(const sample *s, const ra_plan *plan, const ra_cache *cache, const ra_row *row)
{
    enum { DIM = 24 };
    double exact[DIM], got[DIM], spread[DIM], size, norm = 0, most = 0;
    int64_t kv_head = row->head / (s->problem.heads / s->problem.kv_heads);
    ra_storage *in[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(ra_storage_memory(&s->tensors[i], &in[i]), RA_OK);
    assert_int_equal(ra_reference_rows_sized(plan, in[0], in[1], in[2], row, 1, exact, NULL, spread, &size), RA_OK);
    for (int i = 0; i < 3; i++)
        ra_storage_free(in[i]);
    REQUIRE(!ra_reference_row_cached(plan, &s->tensors[0], cache, row->batch, row->head, row->seq, got, NULL), "%s",
            ra_last_message());
    for (int64_t d = 0; d < s->problem.head_dim; d++)
        norm += fabs(ra_tensor_get(&s->tensors[0], row->batch, row->seq, row->head, d));
    double e = norm / sqrt((double)s->problem.head_dim) * largest_scale(cache->k_scale, row->batch, kv_head) / 2;
    for (int64_t d = 0; d < s->problem.value_dim; d++) {
        double bound = largest_scale(cache->v_scale, row->batch, kv_head) / 2 + expm1(2 * e) * spread[d];
        most = fmax(most, fabs(got[d] - exact[d]) / bound);
    }
    return most;
}

static void errors_of_8_bits_are_within_their_bound(void **state)
{
    (void)state;
    enum { BATCH = 2, KEYS = 90, KV_HEADS = 2, DIM = 24, ROWS = BATCH * KEYS * KV_HEADS };
    static int8_t data[2][ROWS * DIM];
    static float scales[2][ROWS];
    ra_tensor of_data[2], of_scale[2];
    ra_problem problem = RA_PROBLEM_INIT;
    double most = 0;
    sample s;
    problem.batch = BATCH, problem.q_len = 7, problem.kv_len = KEYS, problem.heads = 4, problem.kv_heads = KV_HEADS;
    problem.head_dim = problem.value_dim = DIM, problem.pattern = "causal";
    sample_make(&s, &problem);
    for (int i = 0; i < 2; i++) {
        of_data[i] = ra_tensor_dense(data[i], RA_I8, RA_BSHD, BATCH, KEYS, KV_HEADS, DIM);
        of_scale[i] = ra_tensor_dense(scales[i], RA_F32, RA_BSHD, BATCH, KEYS, KV_HEADS, 1);
        assert_int_equal(ra_quantize_rows(&s.tensors[SAMPLE_KEY + i], &of_data[i], &of_scale[i]), RA_OK);
    }
    ra_cache cache = RA_CACHE_INIT;
    cache.k = &of_data[0], cache.v = &of_data[1], cache.k_scale = &of_scale[0], cache.v_scale = &of_scale[1];
    ra_plan *plan = plan_of(&s.problem, RA_KERNEL_AUTO, 1);
    for (int64_t i = 0; i < BATCH * 7 * 4; i++) {
        const ra_row row = {i / 28, i / 4 % 7, i % 4};
        double part = part_of_bound(&s, plan, &cache, &row);
        REQUIRE(part <= 1, "row %lld: %g of the bound", (long long)i, part);
        most = fmax(most, part);
    }
    assert_true(most > 0.02); /* the bound says something */
    ra_plan_free(plan);
    sample_free(&s);
}

/* ---- What is refused --------------------------------------------------------------------------------------------- */

/* Two sequences of 40 keys in pages of 16 rows, of which there are seven. */
typedef struct paged {
    float rows[7 * 16 * 8], output[2 * 8], query[2 * 8], scale[7 * 16];
    int8_t bits[7 * 16 * 8];
    int32_t entries[2][3];
    ra_tensor q, k, v, o, scales, table;
    ra_cache cache;
    ra_plan *plan;
} paged;

static void set_up(paged *x)
{
    *x = (paged){.entries = {{5, 0, 3}, {6, 6, 1}}, .cache = RA_CACHE_INIT};
    x->q = ra_tensor_dense(x->query, RA_F32, RA_BSHD, 2, 1, 1, 8);
    x->o = ra_tensor_dense(x->output, RA_F32, RA_BSHD, 2, 1, 1, 8);
    x->k = x->v = ra_tensor_dense(x->rows, RA_F32, RA_BSHD, 7, 16, 1, 8);
    x->scales = ra_tensor_dense(x->scale, RA_F32, RA_BSHD, 7, 16, 1, 1);
    x->table = (ra_tensor){x->entries, RA_I32, 2, 1, 1, 3, 3, 0, 0, 1};
    x->cache.k = &x->k, x->cache.v = &x->v, x->cache.page_table = &x->table;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = 2, problem.q_len = 1, problem.kv_len = 40, problem.heads = 1, problem.head_dim = 8;
    x->plan = plan_of(&problem, RA_KERNEL_AUTO, 1);
}

static void refused(const paged *x, const char *message)
{
    double row[8];
    assert_int_equal(ra_forward_cached(x->plan, &x->q, &x->cache, &x->o, NULL, NULL), RA_ERROR_ARGUMENT);
    REQUIRE(strstr(ra_last_message(), message), "%s", ra_last_message());
    if (strstr(message, "output"))
        return;
    assert_int_equal(ra_reference_row_cached(x->plan, &x->q, &x->cache, 0, 0, 0, row, NULL), RA_ERROR_ARGUMENT);
    REQUIRE(strstr(ra_last_message(), message), "%s", ra_last_message());
}

static void accepted(const paged *x)
{
    REQUIRE(!ra_forward_cached(x->plan, &x->q, &x->cache, &x->o, NULL, NULL), "%s", ra_last_message());
}

static void tables_that_lead_nowhere_are_refused(void **state)
{
    (void)state;
    paged x;
    set_up(&x);
    accepted(&x);
    x.entries[1][2] = 7;
    refused(&x, "page_table: entry [1, 2] is 7: must be 0..6");
    x.entries[0][1] = -1;
    refused(&x, "page_table: entry [0, 1] is -1");
    x.cache.keys = 16; /* the first pages alone */
    accepted(&x);
    x.cache.keys = 41;
    refused(&x, "keys 41: must be 0..40");
    x.cache.keys = RA_SAME;
    x.table.dim = 2;
    refused(&x, "page_table: 2 pages of 16 rows for a sequence of 40 keys");
    x.table.dim = 3;
    x.table.dtype = RA_I64;
    refused(&x, "page_table: dtype int64: must be int32");
    x.table.dtype = RA_I32;
    x.table.batch = 1;
    refused(&x, "page_table: [batch 1");
    x.table.batch = 2;
    x.k.seq = 0;
    refused(&x, "key: pages of 0 rows");
    x.k.seq = 16;
    x.v.batch = 6;
    refused(&x, "value: [batch 6");
    ra_plan_free(x.plan);
}

static void scales_without_8_bits_and_8_bits_without_scales_are_refused(void **state)
{
    (void)state;
    paged x;
    set_up(&x);
    x.cache.v_scale = &x.scales;
    refused(&x, "v_scale: scales are for int8, and the dtype of value is float32");
    x.v = ra_tensor_dense(x.bits, RA_I8, RA_BSHD, 7, 16, 1, 8);
    accepted(&x);
    x.scales.dtype = RA_F16;
    refused(&x, "v_scale: dtype float16: must be float32");
    x.scales.dtype = RA_F32;
    x.scales.dim = 8;
    refused(&x, "v_scale: [batch 7, seq 16, heads 1, dim 8]");
    x.cache.v_scale = NULL;
    refused(&x, "value: dtype int8 needs scales: v_scale is NULL");
    x.v = x.k;
    x.o.data = x.entries;
    refused(&x, "output");
    x.o.data = x.output;
    x.cache.page_table = NULL;
    x.cache.keys = 3;
    refused(&x, "keys 3: they are for a page_table");
    assert_int_equal(ra_forward_cached(x.plan, &x.q, NULL, &x.o, NULL, NULL), RA_ERROR_ARGUMENT);
    x.k.dtype = RA_I8;
    assert_int_equal(ra_forward(x.plan, &x.q, &x.k, &x.v, &x.o, NULL, NULL), RA_ERROR_ARGUMENT);
    ra_plan_free(x.plan);
}

/* The same plan with another table, without any key, and in one piece: what is read is what the cache says now. */
static void a_plan_serves_every_table(void **state)
{
    (void)state;
    paged x;
    set_up(&x);
    for (int i = 0; i < 7 * 16 * 8; i++)
        x.rows[i] = (float)(i / 128); /* the number of the page; the query is 0, so outputs are means */
    accepted(&x);
    assert_true(fabs(x.output[0] - (5 * 16 + 0 * 16 + 3 * 8) / 40.0) < 1e-6);
    assert_true(fabs(x.output[8] - (6 * 32 + 1 * 8) / 40.0) < 1e-6);
    x.entries[0][0] = 2;
    accepted(&x);
    assert_true(fabs(x.output[0] - (2 * 16 + 0 * 16 + 3 * 8) / 40.0) < 1e-6);
    x.cache.keys = 0;
    accepted(&x);
    assert_true(x.output[0] == 0);
    ra_plan_free(x.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages),
        cmocka_unit_test(pages_of_8_bits),
        cmocka_unit_test(errors_of_8_bits_are_within_their_bound),
        cmocka_unit_test(tables_that_lead_nowhere_are_refused),
        cmocka_unit_test(scales_without_8_bits_and_8_bits_without_scales_are_refused),
        cmocka_unit_test(a_plan_serves_every_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
