/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding with a key/value cache. The cache has room for CAPACITY tokens and holds `length` of them; each step appends
 * one token and lets its query see everything so far. One plan, for CAPACITY keys, serves all steps: a run has as many
 * keys as its views. Nothing is copied: a view says how many rows of the cache count, and its batch stride skips the
 * room that is left. Eight query heads share two key/value heads.
 */
#include <math.h>
#include <ringattn/ringattn.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 2, CAPACITY = 96, PROMPT = 64, STEPS = 4, HEADS = 8, KV_HEADS = 2, DIM = 64 };
enum { Q_COUNT = BATCH * HEADS * DIM, ROW = KV_HEADS * DIM, CACHE_COUNT = BATCH * CAPACITY * ROW };

typedef struct cache {
    float k[CACHE_COUNT], v[CACHE_COUNT]; /* [batch, capacity, kv head, dim] */
} cache;

/* The first `length` tokens of each sequence in the cache. */
static ra_tensor cache_view(const float *data, int64_t length)
{
    ra_tensor view = ra_tensor_dense(data, RA_F32, RA_BSHD, BATCH, CAPACITY, KV_HEADS, DIM);
    view.seq = length;
    return view;
}

/* Tokens [first, first + count) of every sequence, made up: a model would project its activations here. */
static void cache_append(cache *cache, int64_t first, int64_t count)
{
    for (int64_t b = 0; b < BATCH; b++) {
        int64_t at = (b * CAPACITY + first) * ROW;
        ra_generate(RA_NORMAL, 1, at, count * ROW, cache->k + at);
        ra_generate(RA_NORMAL, 2, at, count * ROW, cache->v + at);
    }
}

/* The plan of every step: one query over a full cache. A query sits at the end of the keys, so causal shows it all. */
static ra_status make_plan(ra_plan **plan)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = BATCH, problem.q_len = 1, problem.kv_len = CAPACITY;
    problem.heads = HEADS, problem.kv_heads = KV_HEADS, problem.head_dim = DIM;
    problem.pattern = "causal";
    return ra_plan_create(&problem, NULL, plan);
}

/* One step: the newest token's queries over the cache. Returns the largest error against the oracle, or -1. */
static double decode(const ra_plan *plan, const cache *cache, int64_t length, const float *queries, float *outputs)
{
    ra_tensor q = ra_tensor_dense(queries, RA_F32, RA_BSHD, BATCH, 1, HEADS, DIM);
    ra_tensor o = ra_tensor_dense(outputs, RA_F32, RA_BSHD, BATCH, 1, HEADS, DIM);
    ra_tensor k = cache_view(cache->k, length), v = cache_view(cache->v, length);

    double row[DIM], error = 0;
    if (ra_forward(plan, &q, &k, &v, &o, NULL, NULL))
        error = -1;
    for (int64_t i = 0; i < (int64_t)BATCH * HEADS && error >= 0; i++) {
        int64_t b = i / HEADS, h = i % HEADS;
        if (ra_reference_row(plan, &q, &k, &v, b, h, 0, row, NULL))
            error = -1;
        for (int64_t d = 0; d < DIM && error >= 0; d++)
            error = fmax(error, fabs(row[d] - ra_tensor_get(&o, b, 0, h, d)));
    }
    return error;
}

int main(void)
{
    cache *cache = malloc(sizeof *cache);
    float queries[Q_COUNT], outputs[Q_COUNT];
    ra_plan *plan = NULL;
    if (!cache || make_plan(&plan))
        return 1;
    cache_append(cache, 0, PROMPT);

    double error = 0;
    for (int64_t length = PROMPT + 1; length <= PROMPT + STEPS && error >= 0; length++) {
        cache_append(cache, length - 1, 1);
        ra_generate(RA_NORMAL, 3, length * Q_COUNT, Q_COUNT, queries);
        error = decode(plan, cache, length, queries, outputs);
        if (error >= 0)
            printf("token %lld: largest error %.1e\n", (long long)length, error);
        else
            fprintf(stderr, "%s\n", ra_last_message());
    }
    ra_plan_free(plan);
    free(cache);
    return error >= 0 && error < 2e-6 ? 0 : 1;
}
