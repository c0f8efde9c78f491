/* SPDX-License-Identifier: Apache-2.0 */
/* Part of template.h: states of rows: merged, and turned into results. */
#ifndef RA_KERNEL_TEMPLATE_STATE_H
#define RA_KERNEL_TEMPLATE_STATE_H

#include "kernel/template_exp2.h"
#include "kernel/template_packing.h"

/* Two states of a row, whose numbers are `step` floats apart, into one. */
INLINE void merge_steps(float *into, const float *from, int value_dim, ptrdiff_t step)
{
    float max = into[0] > from[0] ? into[0] : from[0], reference = max > -INFINITY ? max : 0.0f;
    float scale_into = exp2_one(into[0] - reference), scale_from = exp2_one(from[0] - reference);
    into[0] = max;
    for (ptrdiff_t i = step; i < (2 + value_dim) * step; i += step)
        into[i] = into[i] * scale_into + from[i] * scale_from;
}

/* One lane's state with another's, maybe of different groups: a row of a branch with the row itself. */
static void merge_lane(float *into, const float *from, int value_dim)
{
    merge_steps(into, from, value_dim, LANES);
}

/* A row that is decoded. */
static void merge_row(float *into, const float *from, int value_dim)
{
    merge_steps(into, from, value_dim, 1);
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

/* acc[column] to one row; elements that lie together are stored in a loop for each dtype. */
INLINE void store_row(const float *acc, int dim, const ra_rows *output)
{
    if (output->dim_stride == 1 && output->dtype == RA_F32)
        memcpy((float *)output->data, acc, (size_t)dim * sizeof *acc);
    else if (output->dim_stride == 1 && output->dtype == RA_BF16)
        for (int d = 0; d < dim; d++)
            ((uint16_t *)output->data)[d] = ra_f32_to_bf16(acc[d]);
    else
        for (int d = 0; d < dim; d++)
            store_one(output, d * output->dim_stride, acc[d]);
}

/* Whether a row is to be written: one whose index is below 0 is not there. */
INLINE bool has_place(const ra_rows *rows, int row)
{
    return !rows->index || rows->index[row] >= 0;
}

/* 4 lanes x 4 columns from acc[column][LANES] to columns of four rows */
INLINE void store_patch(const float *acc, float *const to[4], int column)
{
    quad columns[4], rows[4];
    for (int i = 0; i < 4; i++)
        columns[i] = quad_at(acc + (ptrdiff_t)i * LANES);
    transpose(columns, rows);
    for (int i = 0; i < 4; i++)
        memcpy(to[i] + column, &rows[i], sizeof rows[i]);
}

INLINE void store_patches(const float *acc, float *const to[4], int dim)
{
    for (int column = 0; column + 4 <= dim; column += 4)
        store_patch(acc + (ptrdiff_t)column * LANES, to, column);
    for (int d = dim / 4 * 4; d < dim; d++)
        for (int i = 0; i < 4; i++)
            to[i][d] = acc[(ptrdiff_t)d * LANES + i];
}

/* 4 lanes to four rows of 16-bit elements from row r on, a few columns at a time. */
INLINE void store_halves(const float *acc, int r, int dim, const ra_rows *output)
{
    enum { COLUMNS = 64 };
    float wide[4][COLUMNS];
    float *const to[4] = {wide[0], wide[1], wide[2], wide[3]};
    for (int d = 0; d < dim; d += COLUMNS) {
        int here = dim - d < COLUMNS ? dim - d : COLUMNS;
        store_patches(acc + (ptrdiff_t)d * LANES, to, here);
        for (int i = 0; i < 4; i++) {
            ra_rows row = *output;
            row.data = (const uint16_t *)output->data + row_at(output, r + i) + d;
            store_row(wide[i], here, &row);
        }
    }
}

/* 4 lanes to four rows from row r on whose elements lie together. */
INLINE void store_rows(const float *acc, int r, int dim, const ra_rows *output)
{
    if (output->dtype != RA_F32) {
        store_halves(acc, r, dim, output);
        return;
    }
    float *first = (float *)output->data;
    float *const to[4] = {first + row_at(output, r), first + row_at(output, r + 1), first + row_at(output, r + 2),
                          first + row_at(output, r + 3)};
    store_patches(acc, to, dim);
}

/* acc[column][LANES] of the first `rows` lanes to rows of any dtype and stride, or to where their indices say */
static void store_group(const float *acc, int rows, int dim, const ra_rows *output)
{
    for (int r = 0; r < rows; r += 4) {
        int here = rows - r < 4 ? rows - r : 4;
        for (int i = 0; i < 4; i++)
            claim_lines(row_ahead(output, r + i), row_floats(output, dim));
        if (here == 4 && output->dim_stride == 1 && all_here(output, r)) {
            store_rows(acc + r, r, dim, output);
            continue;
        }
        for (int i = 0; i < here; i++)
            for (int d = 0; d < dim && has_place(output, r + i); d++)
                store_one(output, row_at(output, r + i) + d * output->dim_stride, acc[(ptrdiff_t)d * LANES + r + i]);
    }
}

/* The same added to rows of RA_F32. */
static void add_group(const float *acc, int rows, int dim, const ra_rows *sums)
{
    for (int r = 0; r < rows; r++) {
        if (!has_place(sums, r))
            continue;
        float *to = (float *)sums->data + row_at(sums, r);
        for (int d = 0; d < dim; d++)
            to[d * sums->dim_stride] += acc[(ptrdiff_t)d * LANES + r];
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
    store_group(acc, rows, value_dim, output);
}

static void finish_row(float *state, int value_dim, const ra_rows *output)
{
    float *acc = state + 2, sum = state[1];
    int d = 0;
    for (; d + WIDTH <= value_dim; d += WIDTH)
        v_store(acc + d, v_add(v_div(v_load(acc + d), v_set(sum)), v_set(0.0f)));
    for (; d < value_dim; d++)
        acc[d] = acc[d] / sum + 0.0f;
    store_row(acc, value_dim, output);
}

#endif
