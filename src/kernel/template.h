/*
 * The algorithm of every kernel table, over a handful of vector operations that the including file defines:
 *
 *     KERNEL_NAME, KERNEL_ID, WIDTH (floats in a vector), VECTORS (vectors of queries in a group), TILE_GROUPS,
 *     TILE_BYTES, DECODE_QUERIES
 *     vec, mask; v_load, v_store (unaligned), v_set, v_add, v_sub, v_mul, v_div, v_fma(a, b, c) = a * b + c,
 *     v_begin(&c, a, b): c = a * b and v_accumulate(&c, a, b): c = v_fma(a, b, c) of the inner loops, v_max(a, b) (b
 * when either is NaN), v_in_range(key, lo, hi), v_bits(bits): the lanes whose bit is set, v_above(a, b),
 * v_select(mask, yes, no), v_load_f16, v_load_bf16
 *     v_exponent(t): the low bits of t moved into the exponent field; or, where there are such instructions,
 * v_fraction(x): x without its nearest integer, v_not_below(a, b): also where either is NaN, and the macro
 * v_scale(mask, x, n): x 2^n, 0 where the mask is not set
 *
 * Queries are in the lanes: a group is LANES = WIDTH * VECTORS rows, keys and values are broadcast, and no reduction
 * ever crosses lanes in a tile. The register block is VECTORS x 4 accumulators in both products.
 */
#include "base/half.h"
#include "kernel/kernel.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define LANES (WIDTH * VECTORS)
#define INLINE static inline __attribute__((always_inline))
/* Steps of an inner loop written out: fewer instructions beside the products. */
#define UNROLL 8
#if defined(__clang__)
#define WRITE_OUT _Pragma("clang loop unroll(full)")
#else
#define WRITE_OUT _Pragma("GCC unroll 16")
#endif
/* Head dimensions summed in one go: the rounding of one longer sum would show in the result. */
#define DOT_CHUNK 256

/*
 * x = exp2(x) for x <= 0: NaN for NaN, exactly 1 for 0, exactly 0 from -126.5 down. With f = x - n, where n is the
 * nearest integer, it is 2^n (1 + f q(f)), relative error 1.1e-7. Several vectors go side by side, because one is a
 * long chain of dependent operations.
 */
INLINE void exp2_polynomial(vec *q, const vec *f, int count)
{
    for (int i = 0; i < count; i++)
        q[i] = v_fma(v_set(0x1.5bba14p-10f), f[i], v_set(0x1.3cea88p-7f));
    for (int i = 0; i < count; i++)
        q[i] = v_fma(q[i], f[i], v_set(0x1.c6b752p-5f));
    for (int i = 0; i < count; i++)
        q[i] = v_fma(q[i], f[i], v_set(0x1.ebf9bcp-3f));
    for (int i = 0; i < count; i++)
        q[i] = v_fma(q[i], f[i], v_set(0x1.62e42ap-1f));
}

#ifdef v_scale /* splitting off the integer and scaling by its power are instructions */
INLINE void exp2_nonpositive(vec *x, int count)
{
    vec f[VECTORS], q[VECTORS];
    mask normal[VECTORS];
    for (int i = 0; i < count; i++)
        f[i] = v_fraction(x[i]);
    for (int i = 0; i < count; i++)
        normal[i] = v_not_below(x[i], v_set(-126.0f));
    for (int i = 0; i < count; i++)
        x[i] = v_sub(x[i], f[i]);
    exp2_polynomial(q, f, count);
    for (int i = 0; i < count; i++)
        q[i] = v_fma(q[i], f[i], v_set(1.0f));
    for (int i = 0; i < count; i++)
        x[i] = v_scale(normal[i], q[i], x[i]);
}
#else /* adding `shift` rounds to an integer and leaves the biased exponent in the low bits */
INLINE void exp2_nonpositive(vec *x, int count)
{
    const vec shift = v_set(0x1.8p23f + 127.0f);
    vec f[VECTORS], q[VECTORS], power[VECTORS];
    for (int i = 0; i < count; i++)
        x[i] = v_max(v_set(-127.0f), x[i]);
    for (int i = 0; i < count; i++)
        power[i] = v_add(x[i], shift);
    for (int i = 0; i < count; i++)
        f[i] = v_sub(power[i], shift);
    for (int i = 0; i < count; i++)
        f[i] = v_sub(x[i], f[i]);
    exp2_polynomial(q, f, count);
    for (int i = 0; i < count; i++)
        power[i] = v_exponent(power[i]);
    for (int i = 0; i < count; i++)
        f[i] = v_mul(power[i], f[i]);
    for (int i = 0; i < count; i++)
        x[i] = v_fma(f[i], q[i], power[i]);
}
#endif

/* What is subtracted from scores: the maximum, or 0 while nothing was seen, so that -inf - max stays -inf. */
INLINE vec finite_or_zero(vec max)
{
    return v_select(v_above(max, v_set(-INFINITY)), max, v_set(0.0f));
}

/* ---- Fetching ahead: addresses need not exist -------------------------------------------------------------------- */

enum { LINE_FLOATS = 16, ROWS_AHEAD = 4 };

/* Ask for floats that will be read soon; where they end need not be exact. */
INLINE void fetch_lines(const float *from, int floats)
{
    for (int i = 0; i < floats; i += LINE_FLOATS)
        __builtin_prefetch(from + i, 0, 3);
}

/* The same for floats that will be written: stores that miss the cache wait for one another. */
INLINE void claim_lines(const float *to, int floats)
{
    for (int i = 0; i < floats; i += LINE_FLOATS)
        __builtin_prefetch(to + i, 1, 3);
}

/* A row of any dtype, ROWS_AHEAD of `row`; for reading or for writing. */
INLINE const float *row_ahead(const ra_rows *rows, int row)
{
    int64_t size = rows->dtype == RA_F32 ? 4 : 2;
    return (const float *)((const char *)rows->data + (row + ROWS_AHEAD) * rows->row_stride * size);
}

/* Where a row begins, in elements. */
INLINE int64_t row_at(const ra_rows *rows, int row)
{
    return (rows->index ? rows->index[row] : row) * rows->row_stride;
}

INLINE int row_floats(const ra_rows *rows, int dim)
{
    return rows->dtype == RA_F32 ? dim : dim / 2;
}

/* ---- Packing --------------------------------------------------------------------------------------------------- */

INLINE float load_one(const ra_rows *src, int64_t at)
{
    switch (src->dtype) {
    case RA_F16: return ra_f16_to_f32(((const uint16_t *)src->data)[at]);
    case RA_BF16: return ra_bf16_to_f32(((const uint16_t *)src->data)[at]);
    default: return ((const float *)src->data)[at];
    }
}

/* One contiguous row widened to f32. */
INLINE void widen_row(const ra_rows *src, int64_t at, int dim, float *dst)
{
    int d = 0;
    switch (src->dtype) {
    case RA_F16:
        for (; d + WIDTH <= dim; d += WIDTH)
            v_store(dst + d, v_load_f16((const uint16_t *)src->data + at + d));
        break;
    case RA_BF16:
        for (; d + WIDTH <= dim; d += WIDTH)
            v_store(dst + d, v_load_bf16((const uint16_t *)src->data + at + d));
        break;
    default:
        for (; d + WIDTH <= dim; d += WIDTH)
            v_store(dst + d, v_load((const float *)src->data + at + d));
        break;
    }
    for (; d < dim; d++)
        dst[d] = load_one(src, at + d);
}

/* src [rows][dim], any dtype and stride -> dst [rows][dim] f32 */
static void pack_rows(const ra_rows *src, int rows, int dim, float *dst)
{
    for (int r = 0; r < rows; r++, dst += dim) {
        claim_lines(dst + (ptrdiff_t)ROWS_AHEAD * dim, dim);
        int64_t at = row_at(src, r);
        if (src->index && src->index[r] < 0) {
            memset(dst, 0, (size_t)dim * sizeof *dst);
            continue;
        }
        if (src->dim_stride == 1) {
            widen_row(src, at, dim, dst);
            continue;
        }
        for (int d = 0; d < dim; d++)
            dst[d] = load_one(src, at + d * src->dim_stride);
    }
}

typedef float quad __attribute__((vector_size(16)));

INLINE quad quad_at(const float *from)
{
    quad values;
    memcpy(&values, from, sizeof values);
    return values;
}

/* 4 rows x 4 dims, each row from[r], times factor, to dst[dim][LANES] */
INLINE void pack_query_patch(const float *const from[4], int d, float factor, float *dst)
{
    quad a = quad_at(from[0] + d), b = quad_at(from[1] + d), c = quad_at(from[2] + d), e = quad_at(from[3] + d);
    quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    quad ce = __builtin_shufflevector(c, e, 0, 4, 1, 5), ce2 = __builtin_shufflevector(c, e, 2, 6, 3, 7);
    quad columns[4] = {__builtin_shufflevector(ab, ce, 0, 1, 4, 5), __builtin_shufflevector(ab, ce, 2, 3, 6, 7),
                       __builtin_shufflevector(ab2, ce2, 0, 1, 4, 5), __builtin_shufflevector(ab2, ce2, 2, 3, 6, 7)};
    for (int i = 0; i < 4; i++) {
        quad scaled = columns[i] * factor;
        memcpy(dst + (ptrdiff_t)(d + i) * LANES, &scaled, sizeof scaled);
    }
}

/* src [rows][dim] -> dst [dim][LANES] f32, times factor, zero lanes from `rows` on */
static void pack_query(const ra_rows *src, int rows, int dim, float factor, float *dst)
{
    int r = 0;
    /* Four rows at a time where they can be read as they lie. */
    for (; src->dtype == RA_F32 && src->dim_stride == 1 && r + 4 <= rows; r += 4) {
        const float *row = src->data;
        const float *const from[4] = {row + row_at(src, r), row + row_at(src, r + 1), row + row_at(src, r + 2),
                                      row + row_at(src, r + 3)};
        int d = 0;
        for (int i = 0; i < 4; i++)
            fetch_lines(row_ahead(src, r + i), row_floats(src, dim));
        for (; d + 4 <= dim; d += 4)
            pack_query_patch(from, d, factor, dst + r);
        for (; d < dim; d++)
            for (int i = 0; i < 4; i++)
                dst[(ptrdiff_t)d * LANES + r + i] = from[i][d] * factor;
    }
    for (; r < LANES; r++) {
        fetch_lines(row_ahead(src, r), row_floats(src, dim));
        for (int d = 0; d < dim; d++)
            dst[(ptrdiff_t)d * LANES + r] =
                r < rows ? load_one(src, row_at(src, r) + d * src->dim_stride) * factor : 0.0f;
    }
}

/* keys x columns values, at most 4 x 4, to 4 x 4 padded with zeros; 0 * value shows whether they are finite. */
INLINE void pack_patch(const float *from, int64_t stride, int keys, int columns, float *to, quad poison[RA_KEY_UNIT])
{
    __builtin_prefetch(to + LINE_FLOATS, 1, 3); /* the patch of the next four keys */
    for (int j = 0; j < RA_KEY_UNIT; j++) {
        quad values = {0};
        if (j < keys)
            memcpy(&values, from + j * stride, (size_t)columns * sizeof(float));
        memcpy(to + (ptrdiff_t)j * RA_PANEL, &values, sizeof values);
        poison[j] += values * 0.0f;
    }
}

typedef float octet __attribute__((vector_size(32)));

/* The same for 4 keys and 8 columns, which are two panels: two rows at a time, twice as wide. */
INLINE void pack_patches(const float *from, int64_t stride, float *to, octet poison[RA_KEY_UNIT])
{
    float *to_next = to + (ptrdiff_t)RA_KEY_BLOCK * RA_PANEL;
    __builtin_prefetch(to + LINE_FLOATS, 1, 3);
    __builtin_prefetch(to_next + LINE_FLOATS, 1, 3);
    for (int j = 0; j < RA_KEY_UNIT; j += 2) {
        octet even, odd;
        memcpy(&even, from + j * stride, sizeof even);
        memcpy(&odd, from + (j + 1) * stride, sizeof odd);
        octet left = __builtin_shufflevector(even, odd, 0, 1, 2, 3, 8, 9, 10, 11);
        octet right = __builtin_shufflevector(even, odd, 4, 5, 6, 7, 12, 13, 14, 15);
        memcpy(to + (ptrdiff_t)j * RA_PANEL, &left, sizeof left);
        memcpy(to_next + (ptrdiff_t)j * RA_PANEL, &right, sizeof right);
        poison[j] += even * 0.0f;
        poison[j + 1] += odd * 0.0f;
    }
}

/* src [rows][dim] -> panels [ceil(dim / 4)][64][4] f32, zero up to a multiple of 4 keys and columns; true if every
 * value is finite */
static bool pack_value(const ra_rows *src, int rows, int dim, float *staging, float *dst)
{
    const float *from = src->data;
    int64_t stride = src->row_stride;
    if (src->dtype != RA_F32 || src->dim_stride != 1 || src->index) {
        pack_rows(src, rows, dim, staging);
        from = staging;
        stride = dim;
    }
    /* Four keys at a time: their rows are read from left to right, and a cache line of each panel is written whole. */
    octet wide_poison[RA_KEY_UNIT] = {{0}}; /* becomes NaN as soon as one value is Inf or NaN */
    quad poison[RA_KEY_UNIT] = {{0}};
    const ptrdiff_t panel = RA_KEY_BLOCK * RA_PANEL;
    for (int k = 0; k < rows; k += RA_KEY_UNIT) {
        float *to = dst + (ptrdiff_t)k * RA_PANEL;
        int keys = rows - k < RA_KEY_UNIT ? rows - k : RA_KEY_UNIT, column = 0;
        for (; keys == RA_KEY_UNIT && column + 2 * RA_PANEL <= dim; column += 2 * RA_PANEL, to += 2 * panel)
            pack_patches(from + k * stride + column, stride, to, wide_poison);
        for (; column < dim; column += RA_PANEL, to += panel)
            pack_patch(from + k * stride + column, stride, keys, dim - column < RA_PANEL ? dim - column : RA_PANEL, to,
                       poison);
    }
    octet wide = (wide_poison[0] + wide_poison[1]) + (wide_poison[2] + wide_poison[3]);
    quad all = (poison[0] + poison[1]) + (poison[2] + poison[3]);
    float sum = all[0] + all[1] + all[2] + all[3];
    for (int i = 0; i < 2 * RA_PANEL; i++)
        sum += wide[i];
    return sum == 0.0f;
}

/* ---- The tile -------------------------------------------------------------------------------------------------- */

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

INLINE float exp2_one(float x)
{
    float lane[WIDTH];
    vec v = v_set(x);
    exp2_nonpositive(&v, 1);
    v_store(lane, v);
    return lane[0];
}

/* One lane's state with another's, maybe of different groups: a row of a branch with the row itself. */
static void merge_lane(float *into, const float *from, int value_dim)
{
    float max = into[0] > from[0] ? into[0] : from[0], reference = max > -INFINITY ? max : 0.0f;
    float scale_into = exp2_one(into[0] - reference), scale_from = exp2_one(from[0] - reference);
    into[0] = max;
    for (ptrdiff_t i = 1; i < 2 + value_dim; i++)
        into[i * LANES] = into[i * LANES] * scale_into + from[i * LANES] * scale_from;
}

static void merge_group(float *into, const float *from, int value_dim)
{
    vec scale_into[VECTORS], scale_from[VECTORS];
    for (int i = 0; i < VECTORS; i++) {
        float *max_at = into + i * WIDTH, *sum_at = into + LANES + i * WIDTH;
        vec old = v_load(max_at), other = v_load(from + i * WIDTH), max = v_max(old, other);
        vec reference = finite_or_zero(max);
        scale_into[i] = v_sub(old, reference);
        scale_from[i] = v_sub(other, reference);
        exp2_nonpositive(&scale_into[i], 1);
        exp2_nonpositive(&scale_from[i], 1);
        v_store(max_at, max);
        v_store(sum_at, v_fma(v_load(sum_at), scale_into[i], v_mul(v_load(from + LANES + i * WIDTH), scale_from[i])));
    }
    for (int column = 0; column < value_dim; column++)
        for (int i = 0; i < VECTORS; i++) {
            ptrdiff_t at = (ptrdiff_t)(2 + column) * LANES + i * WIDTH;
            v_store(into + at, v_fma(v_load(into + at), scale_into[i], v_mul(v_load(from + at), scale_from[i])));
        }
}

INLINE void store_one(const ra_rows *output, int64_t at, float value)
{
    switch (output->dtype) {
    case RA_F16: ((uint16_t *)output->data)[at] = ra_f32_to_f16(value); break;
    case RA_BF16: ((uint16_t *)output->data)[at] = ra_f32_to_bf16(value); break;
    default: ((float *)output->data)[at] = value; break;
    }
}

static void finish_group(float *state, int rows, int value_dim, const ra_rows *output)
{
    float *acc = state + 2 * LANES;
    for (int column = 0; column < value_dim; column++)
        for (int i = 0; i < VECTORS; i++) {
            float *at = acc + (ptrdiff_t)column * LANES + i * WIDTH;
            /* + 0 makes every zero positive: an underflow must not show which neighbours a row had. */
            v_store(at, v_add(v_div(v_load(at), v_load(state + LANES + i * WIDTH)), v_set(0.0f)));
        }
    for (int r = 0; r < rows; r++) {
        claim_lines(row_ahead(output, r), row_floats(output, value_dim));
        for (int column = 0; column < value_dim; column++)
            store_one(output, r * output->row_stride + column * output->dim_stride, acc[(ptrdiff_t)column * LANES + r]);
    }
}

/* ---- Decoding: vectors along the head dimension, keys and values read once, in the order of memory --------------- */

INLINE float sum_lanes(vec v)
{
    float lane[WIDTH];
    v_store(lane, v);
    for (int half = WIDTH / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* scores[j] = query . row[j] for RA_KEY_UNIT rows, two accumulators each to cover the latency. */
INLINE void dot_rows(const float *query, const float *const row[RA_KEY_UNIT], int dim, float *scores)
{
    vec even[RA_KEY_UNIT], odd[RA_KEY_UNIT];
    for (int j = 0; j < RA_KEY_UNIT; j++)
        even[j] = odd[j] = v_set(0.0f);
    ptrdiff_t d = 0;
    for (; d + 2 * WIDTH <= dim; d += 2 * WIDTH) {
        vec q0 = v_load(query + d), q1 = v_load(query + d + WIDTH);
        for (int j = 0; j < RA_KEY_UNIT; j++) {
            even[j] = v_fma(q0, v_load(row[j] + d), even[j]);
            odd[j] = v_fma(q1, v_load(row[j] + d + WIDTH), odd[j]);
        }
    }
    for (int j = 0; j < RA_KEY_UNIT; j++) {
        float tail = 0.0f;
        for (ptrdiff_t t = d; t < dim; t++)
            tail += query[t] * row[j][t];
        scores[j] = sum_lanes(v_add(even[j], odd[j])) + tail;
    }
}

/* 1. scores[head][row][k] for the keys of a unit that the row sees. */
INLINE void decode_scores(const ra_decode_call *c, int k)
{
    for (int i = 0; i < c->heads * c->rows; i++) {
        int begin = c->begin[i % c->rows % c->queries], end = c->end[i % c->rows % c->queries];
        if (k + RA_KEY_UNIT <= begin || k >= end)
            continue;
        const float *key = c->key + i / c->rows * c->key_head_stride, *row[RA_KEY_UNIT];
        for (int j = 0; j < RA_KEY_UNIT; j++) /* keys that are not seen: any that is, and the score is not kept */
            row[j] = key + (k + j < begin ? begin : k + j < end ? k + j : end - 1) * c->key_stride;
        float s[RA_KEY_UNIT];
        dot_rows(c->query + (ptrdiff_t)i * c->head_dim, row, c->head_dim, s);
        for (int j = 0; j < RA_KEY_UNIT; j++)
            if (k + j >= begin && k + j < end)
                c->scores[(ptrdiff_t)i * RA_KEY_BLOCK + k + j] = s[j] * c->factor;
    }
}

/* 2. scores -> weights of one row; max and sum of its state follow; sums[0] = what rescales the state. */
INLINE void decode_softmax(const ra_decode_call *c, int begin, int end, float *scores, float *sums, float *state)
{
    float old = state[0], max = old;
    for (int k = begin; k < end; k++)
        max = scores[k] > max ? scores[k] : max;
    float reference = max > -INFINITY ? max : 0.0f;
    vec sum = v_set(0.0f);
    for (int k = 0; k < RA_KEY_BLOCK; k += WIDTH) {
        vec p = v_sub(v_load(scores + k), v_set(reference));
        exp2_nonpositive(&p, 1);
        v_store(scores + k, p);
        sum = v_add(sum, p);
    }
    sums[0] = exp2_one(old - reference);
    for (int d = 0; d < c->value_dim; d++)
        sums[1 + d] = 0.0f;
    state[0] = max;
    state[1] = state[1] * sums[0] + sum_lanes(sum);
}

/* sums[d] += weight[j] value[j][d], key after key, for the `keys` keys of a unit. */
INLINE void add_values(const float *weight, const float *value, int64_t stride, int keys, int dim, float *sums)
{
    ptrdiff_t d = 0;
    for (; d + WIDTH <= dim; d += WIDTH) {
        vec a = v_load(sums + d);
        for (int j = 0; j < keys; j++)
            a = v_fma(v_set(weight[j]), v_load(value + j * stride + d), a);
        v_store(sums + d, a);
    }
    for (; d < dim; d++)
        for (int j = 0; j < keys; j++)
            sums[d] += weight[j] * value[j * stride + d];
}

/* 3. sums[head][row] += the values of a unit's keys that the row sees. */
INLINE void decode_values(const ra_decode_call *c, int k)
{
    for (int i = 0; i < c->heads * c->rows; i++) {
        int begin = c->begin[i % c->rows % c->queries], end = c->end[i % c->rows % c->queries];
        int first = k < begin ? begin : k, last = k + RA_KEY_UNIT < end ? k + RA_KEY_UNIT : end;
        const float *weight = c->scores + (ptrdiff_t)i * RA_KEY_BLOCK + first;
        const float *value = c->value + i / c->rows * c->value_head_stride + first * c->value_stride;
        float *sums = c->sums + (ptrdiff_t)i * (1 + c->value_dim) + 1;
        if (last - first == RA_KEY_UNIT)
            add_values(weight, value, c->value_stride, RA_KEY_UNIT, c->value_dim, sums);
        else if (first < last)
            add_values(weight, value, c->value_stride, last - first, c->value_dim, sums);
    }
}

/*
 * Ask for the rows that are read after those being worked. One head alone is a short stretch of keys, then one of
 * values, which the hardware does not foresee; with several heads the stretches are long enough.
 */
INLINE void fetch_unit(const float *rows, int64_t stride, int k, int dim)
{
    for (int j = 0; j < RA_KEY_UNIT; j++)
        fetch_lines(rows + (k + j) * stride, dim);
}

static void decode(const ra_decode_call *c)
{
    int all = c->heads * c->rows, begin = RA_KEY_BLOCK, end = 0;
    for (int i = 0; i < c->queries; i++) {
        begin = c->begin[i] < begin ? c->begin[i] / RA_KEY_UNIT * RA_KEY_UNIT : begin;
        end = c->end[i] > end ? c->end[i] : end;
    }
    for (ptrdiff_t i = 0; i < (ptrdiff_t)all * RA_KEY_BLOCK; i++)
        c->scores[i] = -INFINITY;
    for (int k = begin; k < end; k += RA_KEY_UNIT) {
        if (c->heads == 1)
            fetch_unit(c->value, c->value_stride, k, c->value_dim);
        decode_scores(c, k);
    }
    for (int i = 0; i < all; i++)
        decode_softmax(c, c->begin[i % c->rows % c->queries], c->end[i % c->rows % c->queries],
                       c->scores + (ptrdiff_t)i * RA_KEY_BLOCK, c->sums + (ptrdiff_t)i * (1 + c->value_dim),
                       c->state + (ptrdiff_t)i * (2 + c->value_dim));
    for (int k = begin; k < end; k += RA_KEY_UNIT) {
        if (c->heads == 1)
            fetch_unit(c->next_key, c->key_stride, k, c->head_dim);
        decode_values(c, k);
    }
    for (int i = 0; i < all; i++) {
        const float *sums = c->sums + (ptrdiff_t)i * (1 + c->value_dim);
        float *state = c->state + (ptrdiff_t)i * (2 + c->value_dim);
        for (int d = 0; d < c->value_dim; d++)
            state[2 + d] = state[2 + d] * sums[0] + sums[1 + d];
    }
}

static void merge_row(float *into, const float *from, int value_dim)
{
    float max = into[0] > from[0] ? into[0] : from[0], reference = max > -INFINITY ? max : 0.0f;
    float scale_into = exp2_one(into[0] - reference), scale_from = exp2_one(from[0] - reference);
    into[0] = max;
    for (int i = 1; i < 2 + value_dim; i++)
        into[i] = into[i] * scale_into + from[i] * scale_from;
}

const ra_kernel KERNEL_NAME = {
    .id = KERNEL_ID,
    .blocking = {LANES, LANES - WIDTH, TILE_GROUPS, TILE_BYTES, DECODE_QUERIES},
    .pack_rows = pack_rows,
    .pack_query = pack_query,
    .pack_value = pack_value,
    .tile = tile,
    .decode = decode,
    .merge_group = merge_group,
    .merge_row = merge_row,
    .merge_lane = merge_lane,
    .finish_group = finish_group,
};
