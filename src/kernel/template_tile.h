/* Part of template.h: one group of queries against one block of keys. */
#ifndef RA_KERNEL_TEMPLATE_TILE_H
#define RA_KERNEL_TEMPLATE_TILE_H

#include "kernel/template_exp2.h"
#include "kernel/template_packing.h"

/* Ask for the next few lines of rows that come later. */
INLINE void fetch_burst(ra_fetch *f)
{
    for (int i = 0; i < f->burst && f->rows > 0; i++) {
        __builtin_prefetch(f->row + f->at, 0, 2);
        f->at += LINE_FLOATS * (int)sizeof(float);
        if (f->at >= f->bytes) {
            f->at = 0;
            f->row += f->stride;
            f->rows--;
        }
    }
}

/*
 * In what follows `n` is how many vectors of a group are worked: all, or all but the last where that has no rows.
 *
 * block[j][lane] (+)= column[lane] * b[j * step]: the whole arithmetic of both products. The first product of a sum is
 * a plain one: to clear the sums and then store them costs a cycle more for each.
 */
INLINE void add_product(const float *column, const float *const b[4], ptrdiff_t at, bool first, int n,
                        vec block[4][VECTORS])
{
    vec x[VECTORS];
    for (int i = 0; i < n; i++)
        x[i] = v_load(column + i * WIDTH);
    for (int j = 0; j < 4; j++) {
        vec broadcast = v_set(b[j][at]);
        for (int i = 0; i < n; i++)
            if (first)
                v_begin(&block[j][i], broadcast, x[i]);
            else
                v_accumulate(&block[j][i], broadcast, x[i]);
    }
    /* Loads stay in their step: moved ahead, they need registers that the accumulators have. */
    __asm__ volatile("" ::: "memory");
}

/* block[j][lane] to and from memory, [4][LANES]. */
INLINE void store_block(float *to, int n, vec block[4][VECTORS])
{
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < n; i++)
            v_store(to + j * LANES + i * WIDTH, block[j][i]);
}

INLINE void add_block(const float *from, int n, vec block[4][VECTORS])
{
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < n; i++)
            block[j][i] = v_add(v_load(from + j * LANES + i * WIDTH), block[j][i]);
}

/* UNROLL steps of a dot product from d on, the first of which may begin it. */
INLINE void score_steps(const float *column, const float *const row[RA_KEY_UNIT], const float *ahead, ptrdiff_t d,
                        bool first, int n, vec block[4][VECTORS])
{
    fetch_lines(ahead + RA_KEY_UNIT * d, RA_KEY_UNIT * UNROLL);
    add_product(column, row, d, first, n, block);
    WRITE_OUT
    for (int u = 1; u < UNROLL; u++)
        add_product(column + u * LANES, row, d + u, false, n, block);
}

/* block[j][lane] = sum of row[j][d] query[d][lane] over begin <= d < end; `ahead` is what will be read after it. */
INLINE void score_chunk(const float *query, const float *const row[RA_KEY_UNIT], const float *ahead, ptrdiff_t begin,
                        ptrdiff_t end, int n, vec block[4][VECTORS])
{
    ptrdiff_t d = begin;
    const float *column = query + d * LANES;
    if (d + UNROLL <= end) {
        score_steps(column, row, ahead, d, true, n, block);
        d += UNROLL;
        column += UNROLL * LANES;
    } else {
        add_product(column, row, d, true, n, block);
        d++;
        column += LANES;
    }
    for (; d + UNROLL <= end; d += UNROLL, column += UNROLL * LANES)
        score_steps(column, row, ahead, d, false, n, block);
    for (; d < end; d++, column += LANES)
        add_product(column, row, d, false, n, block);
}

/* How keys are hidden from lanes. */
typedef enum hidden { NOTHING, OUTSIDE_RANGE, BITS_NOT_SET } hidden;

/* The lanes of vector i that see key k. */
INLINE mask lanes_that_see(const ra_tile_call *c, hidden by, int k, int i)
{
    if (by == BITS_NOT_SET)
        return v_bits((uint32_t)(c->seen[k] >> (i * WIDTH)));
    return v_in_range(k, c->lo + i * WIDTH, c->hi + i * WIDTH);
}

/* 1. scores[k][lane] = sum_d key[k][d] query[d][lane], masked with -inf; top[] = their maximum over the keys. */
INLINE void tile_scores(const ra_tile_call *c, hidden by, bool chunked, int n, vec top[VECTORS])
{
    const vec minus_infinity = v_set(-INFINITY);
    for (int i = 0; i < n; i++)
        top[i] = minus_infinity;
    for (int k = c->begin; k < c->end; k += RA_KEY_UNIT) {
        fetch_burst(c->fetch_key);
        const float *row[RA_KEY_UNIT];
        for (int j = 0; j < RA_KEY_UNIT; j++) /* past the last row: any row will do, its scores are masked */
            row[j] = c->key + (k + j < c->key_rows ? k + j : c->key_rows - 1) * c->key_stride;
        const float *ahead = k + RA_KEY_UNIT < c->end ? row[0] + RA_KEY_UNIT * c->key_stride : c->value;
        float *scores = c->scores + (ptrdiff_t)k * LANES;
        vec s[RA_KEY_UNIT][VECTORS];
        score_chunk(c->query, row, ahead, 0, chunked ? DOT_CHUNK : c->head_dim, n, s);
        for (int d = DOT_CHUNK; chunked && d < c->head_dim; d += DOT_CHUNK) {
            store_block(scores, n, s);
            score_chunk(c->query, row, ahead, d, d + DOT_CHUNK < c->head_dim ? d + DOT_CHUNK : c->head_dim, n, s);
            add_block(scores, n, s);
        }
        if (c->factor != 1.0f)
            for (int j = 0; j < RA_KEY_UNIT; j++)
                for (int i = 0; i < n; i++)
                    s[j][i] = v_mul(s[j][i], v_set(c->factor));
        for (int j = 0; j < RA_KEY_UNIT; j++)
            for (int i = 0; i < n; i++) {
                if (by != NOTHING)
                    s[j][i] = v_select(lanes_that_see(c, by, k + j, i), s[j][i], minus_infinity);
                top[i] = v_max(s[j][i], top[i]); /* a NaN is left out here and comes back through exp2 */
            }
        store_block(scores, n, s);
    }
}

/* 2. scores -> weights exp2(score - max) in place; max and sum of the state follow, alpha[] rescales what was there. */
INLINE void tile_softmax(const ra_tile_call *c, int n, const vec top[VECTORS], vec alpha[VECTORS])
{
    vec minus_reference[VECTORS], sum[VECTORS];
    for (int i = 0; i < n; i++) {
        vec old = v_load(c->state + i * WIDTH), max = v_max(top[i], old);
        vec reference = finite_or_zero(max);
        alpha[i] = v_sub(old, reference);
        minus_reference[i] = v_sub(v_set(0.0f), reference); /* to be added: a load folds into an addition */
        v_store(c->state + i * WIDTH, max);
        sum[i] = v_set(0.0f);
    }
    exp2_nonpositive(alpha, n);
    for (int k = c->begin; k < c->end; k++) {
        float *scores = c->scores + (ptrdiff_t)k * LANES;
        vec p[VECTORS];
        for (int i = 0; i < n; i++)
            p[i] = v_add(minus_reference[i], v_load(scores + i * WIDTH));
        exp2_nonpositive(p, n);
        for (int i = 0; i < n; i++) {
            v_store(scores + i * WIDTH, p[i]);
            sum[i] = v_add(sum[i], p[i]);
        }
    }
    for (int i = 0; i < n; i++) {
        float *at = c->state + LANES + i * WIDTH;
        v_store(at, v_fma(v_load(at), alpha[i], sum[i]));
    }
}

/* add_product for lanes that see key k alone: 0 * Inf would not be 0. */
INLINE void add_guarded(const ra_tile_call *c, int k, const float *weight, const float *b, bool first, int n,
                        vec block[4][VECTORS])
{
    for (int i = 0; i < n; i++) {
        mask seen = lanes_that_see(c, c->seen ? BITS_NOT_SET : OUTSIDE_RANGE, k, i);
        vec x = v_load(weight + i * WIDTH);
        for (int j = 0; j < 4; j++) {
            vec old = first ? v_set(0.0f) : block[j][i];
            block[j][i] = v_select(seen, v_fma(v_set(b[j]), x, old), old);
        }
    }
}

/* The keys of a unit from k on against four value columns; the first unit begins the sums. */
INLINE void value_steps(const ra_tile_call *c, bool guarded, int k, const float *panel, bool first, int n,
                        vec block[4][VECTORS])
{
    const float *weight = c->scores + (ptrdiff_t)k * LANES, *b = panel + (ptrdiff_t)k * RA_PANEL;
    const float *const columns[RA_PANEL] = {b, b + 1, b + 2, b + 3};
    __builtin_prefetch(b + RA_KEY_BLOCK * RA_PANEL, 0, 3);
    WRITE_OUT
    for (int u = 0; u < RA_KEY_UNIT; u++) {
        if (guarded)
            add_guarded(c, k + u, weight + u * LANES, b + u * RA_PANEL, first && u == 0, n, block);
        else
            add_product(weight + u * LANES, columns, u * RA_PANEL, first && u == 0, n, block);
    }
}

/* 3. acc[column][lane] = alpha acc + sum_k value[k][column] weight[k][lane], four columns at a time. */
INLINE void tile_values(const ra_tile_call *c, bool guarded, int n, const vec alpha[VECTORS])
{
    float *acc = c->state + 2 * LANES;
    const float *panel = c->value;
    /* What comes next is asked for in small portions: the sums of the next panel, and the queries of the next call. */
    enum { PORTIONS = 4, PORTION_KEYS = RA_KEY_BLOCK / PORTIONS };
    int query_portion = c->head_dim * LANES / ((c->value_dim + RA_PANEL - 1) / RA_PANEL * PORTIONS) + 1;
    const float *next_query = c->next_query;
    for (int column = 0; column < c->value_dim; column += RA_PANEL) {
        fetch_burst(c->fetch_value);
        vec a[RA_PANEL][VECTORS];
        value_steps(c, guarded, c->begin, panel, true, n, a);
        for (int k = c->begin + RA_KEY_UNIT; k < c->end; k += RA_KEY_UNIT) {
            if (k % PORTION_KEYS == RA_KEY_UNIT) {
                fetch_lines(acc + (RA_PANEL + k / PORTION_KEYS) * LANES, LANES);
                fetch_lines(next_query, query_portion);
                next_query += query_portion;
            }
            value_steps(c, guarded, k, panel, false, n, a);
        }
        for (int j = 0; j < RA_PANEL; j++, acc += LANES)
            for (int i = 0; i < n; i++)
                v_store(acc + i * WIDTH, v_fma(v_load(acc + i * WIDTH), alpha[i], a[j][i]));
        panel += RA_KEY_BLOCK * RA_PANEL;
    }
}

/*
 * The passes as functions of their own: compilers give the accumulators registers in one inner loop, not in six at
 * once.
 */
#define PASS static __attribute__((noinline)) void

#define PASSES(name, n)                                                                                                \
    PASS scores_plain_##name(const ra_tile_call *c, vec top[VECTORS])                                                  \
    {                                                                                                                  \
        tile_scores(c, NOTHING, false, n, top);                                                                        \
    }                                                                                                                  \
    PASS scores_masked_##name(const ra_tile_call *c, vec top[VECTORS])                                                 \
    {                                                                                                                  \
        tile_scores(c, OUTSIDE_RANGE, false, n, top);                                                                  \
    }                                                                                                                  \
    PASS scores_sifted_##name(const ra_tile_call *c, vec top[VECTORS])                                                 \
    {                                                                                                                  \
        tile_scores(c, BITS_NOT_SET, false, n, top);                                                                   \
    }                                                                                                                  \
    PASS scores_long_##name(const ra_tile_call *c, vec top[VECTORS])                                                   \
    {                                                                                                                  \
        tile_scores(c, c->seen ? BITS_NOT_SET : c->lo ? OUTSIDE_RANGE : NOTHING, true, n, top);                        \
    }                                                                                                                  \
    PASS softmax_##name(const ra_tile_call *c, const vec top[VECTORS], vec alpha[VECTORS])                             \
    {                                                                                                                  \
        tile_softmax(c, n, top, alpha);                                                                                \
    }                                                                                                                  \
    PASS values_plain_##name(const ra_tile_call *c, const vec alpha[VECTORS])                                          \
    {                                                                                                                  \
        tile_values(c, false, n, alpha);                                                                               \
    }                                                                                                                  \
    PASS values_guarded_##name(const ra_tile_call *c, const vec alpha[VECTORS])                                        \
    {                                                                                                                  \
        tile_values(c, true, n, alpha);                                                                                \
    }                                                                                                                  \
    static void tile_##name(const ra_tile_call *c)                                                                     \
    {                                                                                                                  \
        vec top[VECTORS], alpha[VECTORS];                                                                              \
        (c->head_dim > DOT_CHUNK ? scores_long_##name                                                                  \
         : c->seen               ? scores_sifted_##name                                                                \
         : c->lo                 ? scores_masked_##name                                                                \
                                 : scores_plain_##name)(c, top);                                                                       \
        softmax_##name(c, top, alpha);                                                                                 \
        ((c->lo || c->seen) && c->guard ? values_guarded_##name : values_plain_##name)(c, alpha);                      \
    }

PASSES(whole, VECTORS)
PASSES(narrow, VECTORS - 1)

static void tile(const ra_tile_call *c)
{
    if (c->narrow)
        tile_narrow(c);
    else
        tile_whole(c);
}

#endif
