/* SPDX-License-Identifier: Apache-2.0 */
/* Part of template.h: rows of any dtype and stride into what the products read. */
#ifndef RA_KERNEL_TEMPLATE_PACKING_H
#define RA_KERNEL_TEMPLATE_PACKING_H

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

INLINE int64_t element_size(ra_dtype dtype)
{
    return dtype == RA_F32 ? 4 : dtype == RA_I8 ? 1 : 2;
}

/* A row of any dtype, ROWS_AHEAD of `row`; for reading or for writing. */
INLINE const float *row_ahead(const ra_rows *rows, int row)
{
    return (const float *)((const char *)rows->data +
                           (row + ROWS_AHEAD) * rows->row_stride * element_size(rows->dtype));
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
    case RA_I8: return ((const int8_t *)src->data)[at];
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
    case RA_I8:
        for (; d + WIDTH <= dim; d += WIDTH)
            v_store(dst + d, v_load_i8((const int8_t *)src->data + at + d));
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
        if (src->dim_stride == 1)
            widen_row(src, at, dim, dst);
        for (int d = 0; src->dim_stride != 1 && d < dim; d++)
            dst[d] = load_one(src, at + d * src->dim_stride);
        for (int d = 0; src->scale && d < dim; d++)
            dst[d] *= src->scale[r];
    }
}

typedef float quad __attribute__((vector_size(16)));

INLINE quad quad_at(const float *from)
{
    quad values;
    memcpy(&values, from, sizeof values);
    return values;
}

/* out[i][j] = in[j][i] */
INLINE void transpose(const quad in[4], quad out[4])
{
    quad ab = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5),
         ab2 = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
    quad cd = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5),
         cd2 = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
    out[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    out[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    out[2] = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
    out[3] = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}

/* 4 rows x 4 dims, each row from[r], times factor, to dst[dim][LANES] */
INLINE void turn_patch(const float *const from[4], int d, float factor, float *dst)
{
    const quad rows[4] = {quad_at(from[0] + d), quad_at(from[1] + d), quad_at(from[2] + d), quad_at(from[3] + d)};
    quad columns[4];
    transpose(rows, columns);
    for (int i = 0; i < 4; i++) {
        quad scaled = columns[i] * factor;
        memcpy(dst + (ptrdiff_t)(d + i) * LANES, &scaled, sizeof scaled);
    }
}

/* Whether the four rows from r on have no index below 0. */
INLINE bool all_here(const ra_rows *src, int r)
{
    const int64_t *index = src->index;
    return !index || (index[r] | index[r + 1] | index[r + 2] | index[r + 3]) >= 0;
}

/* 4 rows x `dim` dims, each row from[r], times factor, to dst[dim][LANES] */
INLINE void turn_four(const float *const from[4], int dim, float factor, float *dst)
{
    int d = 0;
    for (; d + 4 <= dim; d += 4)
        turn_patch(from, d, factor, dst);
    for (; d < dim; d++)
        for (int i = 0; i < 4; i++)
            dst[(ptrdiff_t)d * LANES + i] = from[i][d] * factor;
}

/* The same of 16-bit rows from row r on, which are widened a few columns at a time. */
INLINE void turn_wide(const ra_rows *src, int r, int dim, float factor, float *dst)
{
    enum { COLUMNS = 64 };
    float wide[4][COLUMNS];
    const float *const from[4] = {wide[0], wide[1], wide[2], wide[3]};
    for (int d = 0; d < dim; d += COLUMNS) {
        int here = dim - d < COLUMNS ? dim - d : COLUMNS;
        for (int i = 0; i < 4; i++)
            widen_row(src, row_at(src, r + i) + d, here, wide[i]);
        turn_four(from, here, factor, dst + (ptrdiff_t)d * LANES);
    }
}

/* src [rows][dim] -> dst [dim][LANES] f32, times factor, zero lanes from `rows` on and where an index is below 0 */
static void turn_rows(const ra_rows *src, int rows, int dim, float factor, float *dst)
{
    int r = 0;
    /* Four rows at a time where their elements lie together. */
    for (; src->dim_stride == 1 && r + 4 <= rows && all_here(src, r); r += 4) {
        const float *row = src->data;
        for (int i = 0; i < 4; i++)
            fetch_lines(row_ahead(src, r + i), row_floats(src, dim));
        if (src->dtype != RA_F32) {
            turn_wide(src, r, dim, factor, dst + r);
            continue;
        }
        const float *const from[4] = {row + row_at(src, r), row + row_at(src, r + 1), row + row_at(src, r + 2),
                                      row + row_at(src, r + 3)};
        turn_four(from, dim, factor, dst + r);
    }
    for (; r < rows; r++) {
        bool here = !src->index || src->index[r] >= 0;
        for (int d = 0; d < dim; d++)
            dst[(ptrdiff_t)d * LANES + r] = here ? load_one(src, row_at(src, r) + d * src->dim_stride) * factor : 0.0f;
    }
    for (int d = 0; r < LANES && d < dim; d++)
        memset(dst + (ptrdiff_t)d * LANES + r, 0, (size_t)(LANES - r) * sizeof *dst);
}

/* ---- Columns in the lanes ---------------------------------------------------------------------------------------- */

/*
 * Columns are worked in slices of up to VECTORS vectors, as even as can be: a slice of one vector would wait for its
 * own sums.
 */
INLINE int column_slices(int dim)
{
    int vectors = (dim + WIDTH - 1) / WIDTH;
    return (vectors + VECTORS - 1) / VECTORS;
}

INLINE int slice_vectors(int dim, int slice)
{
    int vectors = (dim + WIDTH - 1) / WIDTH, slices = column_slices(dim);
    return vectors / slices + (slice < vectors % slices);
}

#if PAIR == 1

/* One row's columns of a slice, zeros behind the last; 0 * column is added to poison. */
INLINE void pack_slice_row(const ra_rows *src, int64_t at, int first, int dim, int vectors, float *dst, vec *poison)
{
    int have = dim - first < vectors * WIDTH ? dim - first : vectors * WIDTH, d = 0;
    if (src->dtype == RA_F32 && src->dim_stride == 1)
        memcpy(dst, (const float *)src->data + at + first, (size_t)have * sizeof *dst), d = have;
    else if (src->dim_stride == 1)
        widen_row(src, at + first, have, dst), d = have;
    for (; d < have; d++)
        dst[d] = load_one(src, at + (first + d) * src->dim_stride);
    for (; d < vectors * WIDTH; d++)
        dst[d] = 0.0f;
    for (int i = 0; i < vectors; i++)
        *poison = v_fma(v_load(dst + i * WIDTH), v_set(0.0f), *poison);
}

/* src [rows][dim], any dtype and stride -> dst [slice][rows][vectors of the slice], f32; true if all are finite */
static bool pack_columns(const ra_rows *src, int rows, int dim, float *dst)
{
    vec poison = v_set(0.0f);
    for (int slice = 0, first = 0; slice < column_slices(dim); slice++) {
        int vectors = slice_vectors(dim, slice);
        for (int r = 0; r < rows; r++, dst += vectors * WIDTH) {
            if (src->index && src->index[r] < 0)
                memset(dst, 0, (size_t)(vectors * WIDTH) * sizeof *dst);
            else
                pack_slice_row(src, row_at(src, r), first, dim, vectors, dst, &poison);
        }
        first += vectors * WIDTH;
    }
    float lane[WIDTH], sum = 0;
    v_store(lane, poison);
    for (int i = 0; i < WIDTH; i++)
        sum += lane[i];
    return sum == 0.0f;
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

#endif
#endif
