/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the table of a cache with pages, and as the shape of what it leads to: refused, and then with the first
 * entry that is no page and that a valid key needs; or accepted, and then rows are as the oracle has them.
 */
#include "fuzz.h"
#include "ringattn/ringattn.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { HEAD = 8, BATCH = 2, HEADS = 2, DIM = 5, MOST_PAGES = 16, MOST_ROWS = 20, MOST_KEYS = 255 };

typedef struct tried {
    ra_problem problem;
    ra_score_arrays arrays;
    int64_t lengths[BATCH][2];
    ra_tensor of_lengths, table, k, v, k_scale, q, output;
    float queries[BATCH * 4 * HEADS * DIM], outputs[BATCH * 4 * HEADS * DIM];
    float values[MOST_PAGES * MOST_ROWS * DIM], scales[MOST_PAGES * MOST_ROWS];
    int8_t keys[MOST_PAGES * MOST_ROWS * DIM];
    ra_cache cache;
} tried;

static void choose(tried *t, const uint8_t head[HEAD], int32_t *entries, int64_t columns)
{
    int64_t pages = 1 + head[0] % MOST_PAGES, rows = 1 + head[1] % MOST_ROWS, queries = 1 + head[2] % 4;
    int64_t keys = columns * rows < MOST_KEYS ? columns * rows : MOST_KEYS;
    t->problem = (ra_problem)RA_PROBLEM_INIT;
    t->problem.batch = BATCH, t->problem.heads = HEADS, t->problem.kv_heads = 1, t->problem.head_dim = DIM;
    t->problem.q_len = queries, t->problem.kv_len = keys, t->problem.pattern = "causal+lengths";
    t->problem.query_position = keys;
    for (int b = 0; b < BATCH; b++) {
        t->lengths[b][0] = head[3 + b] % (keys + 1);
        t->lengths[b][1] = t->lengths[b][0] + head[5 + b] % (keys - t->lengths[b][0] + 1);
    }
    t->arrays = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    t->of_lengths = (ra_tensor){t->lengths, RA_I64, BATCH, 1, 1, 2, 2, 0, 0, 1};
    t->arrays.lengths = &t->of_lengths;
    t->problem.score_arrays = &t->arrays;
    t->table = (ra_tensor){entries, RA_I32, BATCH, 1, 1, columns, columns, 0, 0, 1};
    t->k = ra_tensor_dense(t->keys, RA_I8, RA_BSHD, pages, rows, 1, DIM);
    t->v = ra_tensor_dense(t->values, RA_F32, RA_BHSD, pages, rows, 1, DIM);
    t->k_scale = ra_tensor_dense(t->scales, RA_F32, RA_BSHD, pages, rows, 1, 1);
    t->q = ra_tensor_dense(t->queries, RA_F32, RA_BSHD, BATCH, queries, HEADS, DIM);
    t->output = t->q;
    t->output.data = t->outputs;
    t->cache = (ra_cache)RA_CACHE_INIT;
    t->cache.k = &t->k, t->cache.v = &t->v, t->cache.k_scale = &t->k_scale, t->cache.page_table = &t->table;
}

/* The first entry that a valid key needs and that is no page, as batch * columns + page; -1: none. */
static int64_t find_wrong(const tried *t, const int32_t *entries)
{
    int64_t columns = t->table.dim;
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t key = t->lengths[b][0]; key < t->lengths[b][1]; key++) {
            int32_t page = entries[b * columns + key / t->k.seq];
            if (page < 0 || page >= t->k.batch)
                return b * columns + key / t->k.seq;
        }
    return -1;
}

static void check_rows(const tried *t, const ra_plan *plan)
{
    double row[DIM];
    for (int64_t i = 0; i < BATCH * t->q.seq * HEADS; i++) {
        int64_t batch = i / HEADS / t->q.seq, query = i / HEADS % t->q.seq, head = i % HEADS;
        MUST(!ra_reference_row_cached(plan, &t->q, &t->cache, batch, head, query, row, NULL));
        for (int d = 0; d < DIM; d++)
            MUST(fabs(row[d] - ra_tensor_get(&t->output, batch, query, head, d)) < 1e-4);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tried t;
    if (size < HEAD + BATCH * sizeof(int32_t))
        return 0;
    int64_t columns = (int64_t)((size - HEAD) / BATCH / sizeof(int32_t));
    size_t bytes = (size_t)columns * BATCH * sizeof(int32_t);
    int32_t *entries = malloc(bytes); /* exactly, so that an overrun is noticed */
    MUST(entries);
    memcpy(entries, data + HEAD, bytes);
    for (int i = 0; data[7] % 2 && i < BATCH * columns; i++) /* half of the tables have small numbers */
        entries[i] &= MOST_PAGES - 1;
    ra_generate(RA_NORMAL, 1, 0, BATCH * 4 * HEADS * DIM, t.queries);
    ra_generate(RA_NORMAL, 2, 0, MOST_PAGES * MOST_ROWS * DIM, t.values);
    for (int i = 0; i < MOST_PAGES * MOST_ROWS * DIM; i++)
        t.keys[i] = (int8_t)(i % 255 - 127);
    for (int i = 0; i < MOST_PAGES * MOST_ROWS; i++)
        t.scales[i] = 0.01f;
    choose(&t, data, entries, columns);
    ra_plan *plan = NULL;
    MUST(!ra_plan_create(&t.problem, NULL, &plan));
    int64_t wrong = find_wrong(&t, entries);
    ra_status status = ra_forward_cached(plan, &t.q, &t.cache, &t.output, NULL, NULL);
    if (wrong < 0) {
        MUST(!status);
        check_rows(&t, plan);
    } else {
        char entry[64];
        snprintf(entry, sizeof entry, "entry [%lld, %lld] is %d:", (long long)(wrong / columns),
                 (long long)(wrong % columns), entries[wrong]);
        MUST(status == RA_ERROR_ARGUMENT && strstr(ra_last_message(), entry));
    }
    ra_plan_free(plan);
    free(entries);
    return 0;
}
