/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of template.h: the gradients of one group of queries and one block of keys.
 *
 *     scores    [key][lane] = key . query                     1st product, queries in the lanes
 *     d_weights [key][lane] = value . d_output                2nd
 *     weights   [key][lane] = exp2(scores - lse)
 *     d_scores  [key][lane] = weights (d_weights - delta) scale
 *     d_value   [key][column] += weights   . d_output         3rd, columns in the lanes, summed over queries
 *     d_key     [key][column] += d_scores  . query            4th
 *     d_query   [column][lane] += d_scores . key              5th, queries in the lanes, summed over keys
 *
 * The register block is VECTORS x 4 in all five. A key that a lane does not see has a weight and a d_score of exactly
 * 0.
 */
#ifndef RA_KERNEL_TEMPLATE_GRADIENT_H
#define RA_KERNEL_TEMPLATE_GRADIENT_H

#include "kernel/template_exp2.h"
#include "kernel/template_tile.h"

/* ---- The two products that give [key][lane] ------------------------------------------------------------------------
 */

/* out[key][lane] = sum_d rows[key][d] column[d][lane]; long dims in a pass for each chunk, as in a tile's scores. */
INLINE void gradient_product(const ra_gradient_call *c, const float *column, const float *rows, ptrdiff_t stride,
                             int columns, float *out, int n)
{
    const int dim = WORDS(columns), last = last_chunk(dim);
    for (int d = 0; d <= last; d += DOT_CHUNK)
        for (int k = c->begin; k < c->end; k += RA_KEY_UNIT) {
            vec s[RA_KEY_UNIT][VECTORS];
            score_chunk(column + (ptrdiff_t)d * LANES, rows + k * stride + d, stride, d < last ? DOT_CHUNK : dim - d,
                        LANES, n, s);
            if (d > 0)
                add_block(out + (ptrdiff_t)k * LANES, n, s);
            store_block(out + (ptrdiff_t)k * LANES, n, s);
        }
}

/* ---- Weights and the gradients of scores ---------------------------------------------------------------------------
 */

INLINE mask gradient_sees(const ra_gradient_call *c, hidden by, int k, int i)
{
    if (by == BITS_NOT_SET)
        return v_bits((uint32_t)(c->seen[k] >> (i * WIDTH)));
    return v_in_range(k, c->lo + i * WIDTH, c->hi + i * WIDTH);
}

/* In place: scores -> weights, d_weights -> d_scores. Vector after vector, as in tile_softmax. */
INLINE void gradient_weights(const ra_gradient_call *c, hidden by, int n)
{
    const vec zero = v_set(0.0f), factor = v_set(c->factor), scale = v_set(c->scale);
    /* Rounded as a tile's scores are: the log-sum-exp is made of those. */
    const bool scaled = c->factor != 1.0f;
    for (int i = 0; i < n; i++) {
        const vec lse = v_load(c->lse + i * WIDTH), rest = v_load(c->lse_rest + i * WIDTH);
        const vec delta = v_sub(zero, v_load(c->delta + i * WIDTH));
        for (int k = c->begin; k < c->end; k += EXP2_KEYS) {
            float *weight = c->weights + (ptrdiff_t)k * LANES + i * WIDTH;
            float *d_score = c->d_scores + (ptrdiff_t)k * LANES + i * WIDTH;
            vec p[EXP2_KEYS];
            for (int j = 0; j < EXP2_KEYS; j++) {
                p[j] = v_load(weight + j * LANES);
                if (PAIR > 1)
                    p[j] = v_mul(p[j], v_set(c->query_factor));
                if (scaled)
                    p[j] = v_mul(p[j], factor);
                p[j] = v_sub(v_sub(p[j], lse), rest);
            }
            exp2_nonpositive(p, EXP2_KEYS);
            for (int j = 0; j < EXP2_KEYS; j++) {
                vec d = v_mul(p[j], v_fma(v_load(d_score + j * LANES), scale, delta));
                if (by != NOTHING) {
                    mask seen = gradient_sees(c, by, k + j, i);
                    p[j] = v_select(seen, p[j], zero);
                    d = v_select(seen, d, zero);
                }
                v_store(weight + j * LANES, p[j]);
                v_store(d_score + j * LANES, d);
            }
        }
    }
}

/* ---- Weights and gradients of scores as the other products read them ------------------------------------------------
 *
 * With pairs both are rounded once and stored where the unrounded ones were:
 *
 *     weights   [key] weights of pairs of lanes [LANES / 2] | d_scores of pairs of lanes [LANES / 2]
 *     d_scores  [pair of keys][lane]
 */

#if PAIR > 1
INLINE float *d_scores_by_lanes(const ra_gradient_call *c)
{
    return c->weights + LANES / PAIR;
}

/* Lanes of a key in rows, zeros behind the last row: those are no part of a sum over rows, and may be anything. */
INLINE void load_rows(const float *from, const mask here[VECTORS], int n, vec lanes[VECTORS])
{
    for (int i = 0; i < VECTORS; i++)
        lanes[i] = i < n ? v_select(here[i], v_load(from + i * WIDTH), v_set(0.0f)) : v_set(0.0f);
}

INLINE void store_lanes(const vec lanes[VECTORS], float *to)
{
    for (int i = 0; i < VECTORS; i += PAIR)
        v_store(to + i / PAIR * WIDTH, v_neighbours(lanes[i], lanes[i + 1]));
}

INLINE void round_weights(const ra_gradient_call *c, int n)
{
    mask here[VECTORS];
    for (int i = 0; i < VECTORS; i++) {
        int rows = c->rows - i * WIDTH;
        here[i] = v_bits(rows >= WIDTH ? 0xffffU : rows > 0 ? (1U << rows) - 1 : 0);
    }
    for (ptrdiff_t k = c->begin; k < c->end; k += PAIR) {
        float *weight = c->weights + k * LANES, *d_score = c->d_scores + k * LANES;
        vec lanes[VECTORS], even[VECTORS], odd[VECTORS];
        load_rows(d_score, here, n, even);
        load_rows(d_score + LANES, here, n, odd);
        for (int i = 0; i < n; i++)
            v_store(c->d_scores + k / PAIR * LANES + i * WIDTH, v_pairs(even[i], odd[i]));
        load_rows(weight, here, n, lanes);
        store_lanes(lanes, weight);
        store_lanes(even, weight + LANES / PAIR);
        load_rows(weight + LANES, here, n, lanes);
        store_lanes(lanes, weight + LANES);
        store_lanes(odd, weight + LANES + LANES / PAIR);
    }
}
#else
INLINE float *d_scores_by_lanes(const ra_gradient_call *c)
{
    return c->d_scores;
}
#endif

/* ---- The two products that are summed over queries -----------------------------------------------------------------
 */

INLINE bool lane_sees(const ra_gradient_call *c, int k, int lane)
{
    return c->seen ? c->seen[k] >> lane & 1 : c->lo[lane] <= k && k < c->hi[lane];
}

/* The column of lane r times its weight for key k, if it sees the key; or those of lanes r and r + 1. */
INLINE vec add_seen(const ra_gradient_call *c, int k, int r, float weight, vec column, vec sum)
{
#if PAIR > 1
    mask all = v_bits(0xffff), none = v_bits(0), even = lane_sees(c, k, r) ? all : none;
    mask odd = r + 1 < c->rows && lane_sees(c, k, r + 1) ? all : none;
    v_accumulate(&sum, v_set(weight), v_keep(column, even, odd));
    return sum;
#else
    return lane_sees(c, k, r) ? v_fma(v_set(weight), column, sum) : sum;
#endif
}

/* One slice of n vectors for four keys, over lanes that see the key alone: 0 * Inf would not be 0. */
INLINE void add_seen_queries(const ra_gradient_call *c, const float *weight, const float *columns, int k, int n,
                             vec block[RA_KEY_UNIT][VECTORS])
{
    for (int j = 0; j < RA_KEY_UNIT; j++)
        for (int i = 0; i < n; i++)
            block[j][i] = v_set(0.0f);
    for (int r = 0; r < c->rows; r += PAIR)
        for (int j = 0; j < RA_KEY_UNIT; j++)
            for (int i = 0; i < n; i++)
                block[j][i] = add_seen(c, k + j, r, weight[j * LANES + r / PAIR],
                                       v_load(columns + (ptrdiff_t)(r / PAIR * n + i) * WIDTH), block[j][i]);
}

/* sums[key][column] += sum over lanes of weight[key][lane] columns[lane][column], of one slice of n vectors */
INLINE void add_queries(const ra_gradient_call *c, bool guarded, const float *weights, const float *columns,
                        float *sums, ptrdiff_t stride, int n)
{
    for (int k = c->begin; k < c->end; k += RA_KEY_UNIT) {
        const float *weight = weights + (ptrdiff_t)k * LANES;
        float *to = sums + k * stride;
        vec block[RA_KEY_UNIT][VECTORS];
        if (guarded)
            add_seen_queries(c, weight, columns, k, n, block);
        else
            score_chunk(columns, weight, LANES, WORDS(c->rows), n * WIDTH, n, block);
        for (int j = 0; j < RA_KEY_UNIT; j++, to += stride)
            for (int i = 0; i < n; i++)
                v_store(to + i * WIDTH, v_add(v_load(to + i * WIDTH), block[j][i]));
    }
}

#define SLICE_PASSES(n)                                                                                                \
    PASS slice_plain_##n(const ra_gradient_call *c, const float *weights, const float *columns, float *sums,           \
                         ptrdiff_t stride)                                                                             \
    {                                                                                                                  \
        add_queries(c, false, weights, columns, sums, stride, n);                                                      \
    }                                                                                                                  \
    PASS slice_guarded_##n(const ra_gradient_call *c, const float *weights, const float *columns, float *sums,         \
                           ptrdiff_t stride)                                                                           \
    {                                                                                                                  \
        add_queries(c, true, weights, columns, sums, stride, n);                                                       \
    }

typedef void (*slice_pass)(const ra_gradient_call *c, const float *weights, const float *columns, float *sums,
                           ptrdiff_t stride);

SLICE_PASSES(1)
SLICE_PASSES(2)
#if VECTORS > 2
SLICE_PASSES(3)
#endif
#if VECTORS > 3
SLICE_PASSES(4)
#endif
_Static_assert(VECTORS <= 4, "a pass for each number of vectors in a slice");

static const slice_pass slice_passes[2][VECTORS] = {{slice_plain_1, slice_plain_2,
#if VECTORS > 2
                                                     slice_plain_3,
#endif
#if VECTORS > 3
                                                     slice_plain_4
#endif
                                                    },
                                                    {slice_guarded_1, slice_guarded_2,
#if VECTORS > 2
                                                     slice_guarded_3,
#endif
#if VECTORS > 3
                                                     slice_guarded_4
#endif
                                                    }};

/* All slices of the gradients of keys or of values. */
static void add_columns(const ra_gradient_call *c, bool guarded, const float *weights, const float *columns, int dim,
                        float *sums)
{
    ptrdiff_t stride = (dim + WIDTH - 1) / WIDTH * WIDTH;
    for (int slice = 0; slice < column_slices(dim); slice++) {
        int vectors = slice_vectors(dim, slice);
        slice_passes[guarded][vectors - 1](c, weights, columns, sums, stride);
        columns += (ptrdiff_t)WORDS(c->rows) * vectors * WIDTH;
        sums += vectors * WIDTH;
    }
}

/* ---- All of it -----------------------------------------------------------------------------------------------------
 */

#if PAIR > 1
#define ROUNDING_PASS(name, n)                                                                                         \
    PASS round_weights_##name(const ra_gradient_call *c)                                                               \
    {                                                                                                                  \
        round_weights(c, n);                                                                                           \
    }
#define ROUND_WEIGHTS(name, c) round_weights_##name(c);
#else
#define ROUNDING_PASS(name, n)
#define ROUND_WEIGHTS(name, c)
#endif

#define GRADIENT_PASSES(name, n)                                                                                       \
    PASS gradient_scores_##name(const ra_gradient_call *c)                                                             \
    {                                                                                                                  \
        gradient_product(c, c->query, c->key, c->key_stride, c->head_dim, c->weights, n);                              \
    }                                                                                                                  \
    PASS gradient_values_##name(const ra_gradient_call *c)                                                             \
    {                                                                                                                  \
        gradient_product(c, c->d_output, c->value, c->value_stride, c->value_dim, c->d_scores, n);                     \
    }                                                                                                                  \
    PASS weights_plain_##name(const ra_gradient_call *c)                                                               \
    {                                                                                                                  \
        gradient_weights(c, NOTHING, n);                                                                               \
    }                                                                                                                  \
    PASS weights_masked_##name(const ra_gradient_call *c)                                                              \
    {                                                                                                                  \
        gradient_weights(c, OUTSIDE_RANGE, n);                                                                         \
    }                                                                                                                  \
    PASS weights_sifted_##name(const ra_gradient_call *c)                                                              \
    {                                                                                                                  \
        gradient_weights(c, BITS_NOT_SET, n);                                                                          \
    }                                                                                                                  \
    ROUNDING_PASS(name, n)                                                                                             \
    INLINE void gradient_queries_##name(const ra_gradient_call *c)                                                     \
    {                                                                                                                  \
        ra_fetch nothing = {0};                                                                                        \
        ra_tile_call keys = {.begin = c->begin,                                                                        \
                             .end = c->end,                                                                            \
                             .value = c->key_panels,                                                                   \
                             .value_dim = c->head_dim,                                                                 \
                             .lo = c->lo,                                                                              \
                             .hi = c->hi,                                                                              \
                             .seen = c->seen,                                                                          \
                             .fetch_value = &nothing,                                                                  \
                             .scores = c->d_scores,                                                                    \
                             .state = c->d_query};                                                                     \
        vec once[FACTORS][VECTORS];                                                                                    \
        for (int i = 0; i < FACTORS * VECTORS; i++)                                                                    \
            once[i / VECTORS][i % VECTORS] = v_set(1.0f);                                                              \
        ((c->lo || c->seen) && c->guard_keys ? values_guarded_##name : values_plain_##name)(&keys, once);              \
    }                                                                                                                  \
    static void gradient_##name(const ra_gradient_call *c)                                                             \
    {                                                                                                                  \
        gradient_scores_##name(c);                                                                                     \
        gradient_values_##name(c);                                                                                     \
        (c->seen ? weights_sifted_##name : c->lo ? weights_masked_##name : weights_plain_##name)(c);                   \
        ROUND_WEIGHTS(name, c)                                                                                         \
        if (c->d_query)                                                                                                \
            gradient_queries_##name(c);                                                                                \
    }

GRADIENT_PASSES(whole, VECTORS)
GRADIENT_PASSES(narrow, VECTORS - 1)

/* The products that are summed over queries. */
INLINE void gradient_columns(const ra_gradient_call *c)
{
    bool guarded = (c->lo || c->seen) && c->guard_rows;
    if (c->d_value)
        add_columns(c, guarded, c->weights, c->d_output_columns, c->value_dim, c->d_value);
    if (c->d_key)
        add_columns(c, guarded, d_scores_by_lanes(c), c->query_columns, c->head_dim, c->d_key);
}

static void gradient(const ra_gradient_call *c)
{
    (c->narrow ? gradient_narrow : gradient_whole)(c);
    gradient_columns(c);
}

#endif
