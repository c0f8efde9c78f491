/* SPDX-License-Identifier: Apache-2.0 */
/* ra_quantize_rows: the bound on its errors, zeros, the least floats, places that it leaves alone, what it refuses. */
#include "ringattn/ringattn.h"
#include "support/random.h"
#include "support/unit.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { ROWS = 5, HEADS = 3, DIM = 33, COUNT = ROWS * HEADS * DIM };

typedef struct quantized {
    float rows[COUNT];
    int8_t data[COUNT];
    float scale[ROWS * HEADS];
    ra_tensor of_rows, of_data, of_scale;
} quantized;

static void set_up(quantized *z)
{
    z->of_rows = ra_tensor_dense(z->rows, RA_F32, RA_BSHD, 1, ROWS, HEADS, DIM);
    z->of_data = ra_tensor_dense(z->data, RA_I8, RA_BSHD, 1, ROWS, HEADS, DIM);
    z->of_scale = ra_tensor_dense(z->scale, RA_F32, RA_BSHD, 1, ROWS, HEADS, 1);
    memset(z->data, 99, sizeof z->data);
    memset(z->scale, 99, sizeof z->scale);
}

/* An element changes by half a scale at most, and a scale is the largest magnitude / 127. */
static void check_row(const quantized *z, int row, double size)
{
    double most = 0, scale = z->scale[row];
    for (int d = 0; d < DIM; d++) {
        double x = z->rows[row * DIM + d], error = fabs(z->data[row * DIM + d] * scale - x);
        most = fmax(most, fabs(x));
        REQUIRE(error <= scale / 2 * (1 + 1e-9), "size %g, row %d: %g becomes %d x %g", size, row, x,
                z->data[row * DIM + d], scale);
    }
    REQUIRE(scale == (most == 0 ? 0 : fmaxf((float)(most / 127), FLT_MIN)), "size %g, row %d: scale %g of %g", size,
            row, scale, most);
}

static void errors_are_within_half_a_scale(void **state)
{
    (void)state;
    static const double sizes[] = {1, 1e-3, 1e30, 1e-36, 1e-39, 1e-44, 0};
    quantized z;
    choices c = {1};
    for (int i = 0; i < 7; i++) {
        set_up(&z);
        for (int j = 0; j < COUNT; j++)
            z.rows[j] = (float)(choose_normal(&c) * sizes[i]);
        assert_int_equal(ra_quantize_rows(&z.of_rows, &z.of_data, &z.of_scale), RA_OK);
        for (int row = 0; row < ROWS * HEADS; row++)
            check_row(&z, row, sizes[i]);
    }
}

static void a_row_of_zeros_has_a_scale_of_zero(void **state)
{
    (void)state;
    quantized z;
    set_up(&z);
    memset(z.rows, 0, sizeof z.rows);
    z.rows[DIM] = -FLT_MAX;
    assert_int_equal(ra_quantize_rows(&z.of_rows, &z.of_data, &z.of_scale), RA_OK);
    assert_true(z.scale[0] == 0 && z.data[0] == 0);
    assert_true(z.data[DIM] == -127 && isfinite(z.scale[1]) && z.data[DIM + 1] == 0);
}

/* The second and third position of data and scales that have more: what is around them stays. */
static void rows_are_added_in_place(void **state)
{
    (void)state;
    quantized z;
    set_up(&z);
    for (int i = 0; i < COUNT; i++)
        z.rows[i] = 1;
    z.of_rows.seq = z.of_data.seq = z.of_scale.seq = 2;
    z.of_data.data = z.data + HEADS * DIM;
    z.of_scale.data = z.scale + HEADS;
    assert_int_equal(ra_quantize_rows(&z.of_rows, &z.of_data, &z.of_scale), RA_OK);
    assert_true(z.data[HEADS * DIM - 1] == 99 && z.data[HEADS * DIM] == 127);
    assert_true(z.data[3 * HEADS * DIM - 1] == 127 && z.data[3 * HEADS * DIM] == 99);
    assert_true(z.scale[HEADS] == 1.0f / 127 && z.scale[3 * HEADS] != 1.0f / 127);
}

static void refused(quantized *z, const char *message)
{
    assert_int_equal(ra_quantize_rows(&z->of_rows, &z->of_data, &z->of_scale), RA_ERROR_ARGUMENT);
    REQUIRE(strstr(ra_last_message(), message), "%s", ra_last_message());
    assert_true(z->data[0] == 99);
}

static void what_has_no_8_bits_is_refused(void **state)
{
    (void)state;
    quantized z;
    set_up(&z);
    memset(z.rows, 0, sizeof z.rows);
    z.rows[(2 * HEADS + 1) * DIM + 7] = NAN;
    refused(&z, "element [batch 0, seq 2, head 1, dim 7] is nan");
    z.rows[(2 * HEADS + 1) * DIM + 7] = -INFINITY;
    refused(&z, "is -inf");
    z.rows[(2 * HEADS + 1) * DIM + 7] = 0;
    z.of_scale.dtype = RA_I32;
    refused(&z, "scale: dtype int32: must be float32");
    z.of_scale.dtype = RA_F32;
    z.of_data.dtype = RA_U8;
    refused(&z, "data: dtype uint8: must be int8");
    z.of_data.dtype = RA_I8;
    z.of_data.head_stride = 0;
    refused(&z, "data");
    set_up(&z);
    z.of_rows.dtype = RA_I8;
    refused(&z, "rows: dtype int8");
    set_up(&z);
    z.of_scale.dim = 2;
    refused(&z, "scale: [batch 1, seq 5, heads 3, dim 2]");
    assert_int_equal(ra_quantize_rows(NULL, &z.of_data, &z.of_scale), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_quantize_rows(&z.of_data, NULL, &z.of_scale), RA_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_within_half_a_scale),
        cmocka_unit_test(a_row_of_zeros_has_a_scale_of_zero),
        cmocka_unit_test(rows_are_added_in_place),
        cmocka_unit_test(what_has_no_8_bits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
