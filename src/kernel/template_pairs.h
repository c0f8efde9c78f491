/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of template.h for tables with products of bfloat16: a word, as long as a float, has a pair of numbers, which lie
 * side by side in the dimension that a product sums over. The lower half has the first one.
 *
 *     queries [pair of columns][lane]        keys    [key][pair of columns]           scores
 *     weights [pair of keys][lane]           values  panels [pair of keys][4]         output
 *     weights [key][pair of lanes]           columns [pair of rows][column]           gradients by keys and values
 *
 * The source rows are bfloat16; float32 is rounded, and where the caller has widened such rows, that changes nothing.
 * Pairs that the last row or column leaves half empty are filled up with zeros.
 */
#ifndef RA_KERNEL_TEMPLATE_PAIRS_H
#define RA_KERNEL_TEMPLATE_PAIRS_H

#include "kernel/template_packing.h"

#if PAIR == 2

/* A pair of ones in each lane. */
INLINE vec ones(void)
{
    return v_pairs(v_set(1.0f), v_set(1.0f));
}

/* What sums of rounded weights are multiplied by, so that the weights add up to what they did before; 1 for none. */
INLINE vec made_up_for(vec sum, vec rounded)
{
    return v_select(v_above(rounded, v_set(0.0f)), v_div(sum, rounded), v_set(1.0f));
}

/* Columns that are looked at together, if rows have to be copied first. */
enum { HALVES = 64 };

/* Columns first .. first + count - 1 of a row as bfloat16, zeros up to `room`. A row below 0 has zeros alone. */
INLINE void copy_halves(const ra_rows *src, int row, int first, int count, int room, void *to)
{
    char *at = to, *end = at + (ptrdiff_t)room * (ptrdiff_t)sizeof(uint16_t);
    if (row >= 0 && (!src->index || src->index[row] >= 0)) {
        int64_t from = row_at(src, row) + first * src->dim_stride;
        if (src->dtype == RA_BF16 && src->dim_stride == 1) {
            memcpy(at, (const uint16_t *)src->data + from, (size_t)count * sizeof(uint16_t));
            at += (ptrdiff_t)count * (ptrdiff_t)sizeof(uint16_t);
            count = 0;
        }
        for (int d = 0; d < count; d++, at += sizeof(uint16_t)) {
            uint16_t half = src->dtype == RA_BF16 ? ((const uint16_t *)src->data)[from + d * src->dim_stride]
                                                  : ra_f32_to_bf16(load_one(src, from + d * src->dim_stride));
            memcpy(at, &half, sizeof half);
        }
    }
    memset(at, 0, (size_t)(end - at));
}

/* The same in place, where that can be read; `spare` has `room` numbers. */
INLINE const uint16_t *find_halves(const ra_rows *src, int row, int first, int count, int room, uint16_t *spare)
{
    bool here = row >= 0 && (!src->index || src->index[row] >= 0);
    if (here && count == room && src->dtype == RA_BF16 && src->dim_stride == 1)
        return (const uint16_t *)src->data + row_at(src, row) + first;
    copy_halves(src, row, first, count, room, spare);
    return spare;
}

/* src [rows][dim] -> dst [rows][pair of columns] */
static void pack_key(const ra_rows *src, int rows, int dim, float *dst)
{
    const int words = WORDS(dim);
    for (int r = 0; r < rows; r++, dst += words) {
        fetch_lines(row_ahead(src, r), row_floats(src, dim));
        copy_halves(src, r, 0, dim, PAIR * words, dst);
    }
}

/* src [rows][dim] -> dst [pair of columns][LANES]; the factor is left to the scores. */
static void pack_query(const ra_rows *src, int rows, int dim, float factor, float *dst)
{
    (void)factor;
    for (int r = 0; r < LANES; r += 4)
        for (int d = 0; d < dim; d += HALVES) {
            float words[4][HALVES / PAIR];
            int count = dim - d < HALVES ? dim - d : HALVES, pairs = (WORDS(count) + 3) / 4 * 4;
            for (int i = 0; i < 4; i++)
                copy_halves(src, r + i < rows ? r + i : -1, d, count, PAIR * pairs, words[i]);
            for (int w = 0; w < WORDS(count); w += 4) {
                const quad from[4] = {quad_at(words[0] + w), quad_at(words[1] + w), quad_at(words[2] + w),
                                      quad_at(words[3] + w)};
                quad columns[4];
                transpose(from, columns);
                for (int i = 0; i < 4 && w + i < WORDS(count); i++)
                    memcpy(dst + (ptrdiff_t)(d / PAIR + w + i) * LANES + r, &columns[i], sizeof columns[i]);
            }
        }
}

/* WIDTH columns of rows `row` and `row` + 1 as pairs, zeros for rows that are not there; 0 * each is added to poison.
 */
INLINE vec zip_rows(const ra_rows *src, int row, int rows, int first, int dim, vec *poison)
{
    uint16_t spare[PAIR][WIDTH];
    int count = dim - first < WIDTH ? dim - first : WIDTH;
    const uint16_t *even = find_halves(src, row < rows ? row : -1, first, count, WIDTH, spare[0]);
    const uint16_t *odd = find_halves(src, row + 1 < rows ? row + 1 : -1, first, count, WIDTH, spare[1]);
    *poison = v_fma(v_load_bf16(even), v_set(0.0f), *poison);
    *poison = v_fma(v_load_bf16(odd), v_set(0.0f), *poison);
    return v_zip(even, odd);
}

INLINE bool all_finite(vec poison)
{
    float lane[WIDTH], sum = 0;
    v_store(lane, poison);
    for (int i = 0; i < WIDTH; i++)
        sum += lane[i];
    return sum == 0.0f;
}

/* src [rows][dim] -> panels [ceil(dim / 4)][32][4] of pairs of keys, zero up to a multiple of 4 keys and columns */
static bool pack_value(const ra_rows *src, int rows, int dim, float *staging, float *dst)
{
    const ptrdiff_t panel = RA_KEY_BLOCK / PAIR * RA_PANEL;
    vec poison = v_set(0.0f);
    (void)staging;
    for (int k = 0; k < rows; k += RA_KEY_UNIT)
        for (int first = 0; first < dim; first += WIDTH)
            for (int pair = k; pair < k + RA_KEY_UNIT; pair += PAIR) {
                float words[WIDTH];
                v_store(words, zip_rows(src, pair, rows, first, dim, &poison));
                for (int column = 0; column < WIDTH && first + column < dim; column += RA_PANEL)
                    memcpy(dst + (first + column) / RA_PANEL * panel + (ptrdiff_t)(pair / PAIR) * RA_PANEL,
                           words + column, RA_PANEL * sizeof *words);
            }
    return all_finite(poison);
}

/* src [rows][dim] -> dst [slice][pair of rows][vectors of the slice] */
static bool pack_columns(const ra_rows *src, int rows, int dim, float *dst)
{
    vec poison = v_set(0.0f);
    for (int slice = 0, first = 0; slice < column_slices(dim); slice++) {
        int vectors = slice_vectors(dim, slice);
        for (int r = 0; r < rows; r += PAIR)
            for (int i = 0; i < vectors; i++, dst += WIDTH)
                v_store(dst, zip_rows(src, r, rows, first + i * WIDTH, dim, &poison));
        first += vectors * WIDTH;
    }
    return all_finite(poison);
}

#endif
#endif
