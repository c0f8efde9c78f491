/* SPDX-License-Identifier: Apache-2.0 */
/* Views: where an element lies, what is read and written, which views are refused and why. */
#include "base/tensor.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>

static void dense_views_of_both_layouts(void **state)
{
    (void)state;
    static float data[2 * 3 * 5 * 7];
    for (int i = 0; i < 210; i++)
        data[i] = (float)i;
    ra_tensor bshd = ra_tensor_dense(data, RA_F32, RA_BSHD, 2, 3, 5, 7);
    ra_tensor bhsd = ra_tensor_dense(data, RA_F32, RA_BHSD, 2, 3, 5, 7);
    for (int b = 0; b < 2; b++)
        for (int s = 0; s < 3; s++)
            for (int h = 0; h < 5; h++)
                for (int d = 0; d < 7; d++) {
                    assert_true(ra_tensor_get(&bshd, b, s, h, d) == ((b * 3 + s) * 5 + h) * 7 + d);
                    assert_true(ra_tensor_get(&bhsd, b, s, h, d) == ((b * 5 + h) * 3 + s) * 7 + d);
                }
}

/* Rows and columns turned round, batches the same: what image flips and broadcasting make. */
static void negative_and_zero_strides(void **state)
{
    (void)state;
    float data[2 * 3] = {0, 1, 2, 3, 4, 5};
    ra_tensor t = {data + 5, RA_F32, 4, 2, 1, 3, 0, -3, 0, -1};
    assert_int_equal(ra_tensor_check(&t, "key", 4, 2, 1, 3), RA_OK);
    for (int b = 0; b < 4; b++)
        for (int s = 0; s < 2; s++)
            for (int d = 0; d < 3; d++) {
                assert_true(ra_tensor_get(&t, b, s, 0, d) == 5 - 3 * s - d);
                assert_ptr_equal(ra_tensor_at(&t, b, s, 0, d), data + 5 - 3 * s - d);
            }
    ra_tensor_set(&t, 3, 1, 0, 2, 9);
    assert_true(data[0] == 9);
}

static void every_dtype_is_read_and_written(void **state)
{
    (void)state;
    static const struct {
        ra_dtype dtype;
        const char *name;
        size_t size;
        double stored; /* of 3 + 2^-9: even float16 keeps 3 + 2^-9 */
    } types[] = {{RA_F32, "float32", 4, 3.001953125},
                 {RA_F16, "float16", 2, 3.001953125},
                 {RA_BF16, "bfloat16", 2, 3},
                 {RA_I64, "int64", 8, 3},
                 {RA_U8, "uint8", 1, 3},
                 {RA_BOOL, "bool", 1, 3},
                 {RA_I8, "int8", 1, 3},
                 {RA_I32, "int32", 4, 3}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        int64_t memory[2] = {0, 0};
        ra_tensor t = ra_tensor_dense(memory, types[i].dtype, RA_BSHD, 1, 1, 1, 2);
        ra_tensor_set(&t, 0, 0, 0, 1, 3.001953125);
        assert_true(ra_tensor_get(&t, 0, 0, 0, 1) == types[i].stored);
        assert_true(ra_tensor_get(&t, 0, 0, 0, 0) == 0);
        assert_int_equal(ra_dtype_size(types[i].dtype), types[i].size);
        assert_string_equal(ra_dtype_name(types[i].dtype), types[i].name);
        assert_ptr_equal(ra_tensor_at(&t, 0, 0, 0, 1), (const char *)memory + types[i].size);
    }
    assert_string_equal(ra_dtype_name((ra_dtype)9), "unknown");
    assert_int_equal(ra_dtype_size((ra_dtype)9), 0);
}

static void float16_overflow_is_stored_as_infinity(void **state)
{
    (void)state;
    uint16_t memory[1] = {0};
    ra_tensor t = ra_tensor_dense(memory, RA_F16, RA_BSHD, 1, 1, 1, 1);
    ra_tensor_set(&t, 0, 0, 0, 0, 65520);
    assert_true(ra_tensor_get(&t, 0, 0, 0, 0) == INFINITY);
}

static void refused(const ra_tensor *t, const char *message)
{
    assert_int_equal(ra_tensor_check(t, "value", 2, 3, 5, 7), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), message);
}

static void refusals_say_why(void **state)
{
    (void)state;
    float data[2] = {0};
    char message[128];
    const ra_tensor good = ra_tensor_dense(data, RA_F32, RA_BSHD, 2, 3, 5, 7);
    assert_int_equal(ra_tensor_check(&good, "value", 2, 3, 5, 7), RA_OK);
    refused(NULL, "value: the tensor is NULL");
    ra_tensor t = good;
    t.data = NULL;
    refused(&t, "value: data is NULL");
    t = good;
    t.dtype = RA_I64;
    refused(&t, "value: dtype 3 (int64): must be float32, float16 or bfloat16");
    t.dtype = (ra_dtype)77;
    refused(&t, "value: dtype 77 (unknown): must be float32, float16 or bfloat16");
    t = ra_tensor_dense((const char *)data + 2, RA_F32, RA_BSHD, 2, 3, 5, 7);
    snprintf(message, sizeof message, "value: data %p: must be a multiple of the 4 bytes of float32", t.data);
    refused(&t, message);
    t.dtype = RA_F16;
    assert_int_equal(ra_tensor_check(&t, "value", 2, 3, 5, 7), RA_OK);
    t = ra_tensor_dense(data, RA_F32, RA_BSHD, 2, 5, 3, 7);
    refused(&t,
            "value: [batch 2, seq 5, heads 3, dim 7] does not match the problem's [batch 2, seq 3, heads 5, dim 7]");
}

/* 2^61 - 1 float32 elements are the most that 64-bit byte offsets reach, over all dimensions together. */
static void strides_past_the_address_space(void **state)
{
    (void)state;
    float data[1] = {0};
    const int64_t most = (INT64_MAX - 4) / 4;
    ra_tensor t = {data, RA_F32, 2, 3, 5, 7, most, 0, 0, 0};
    assert_int_equal(ra_tensor_check(&t, "value", 2, 3, 5, 7), RA_OK);
    t.batch_stride = -most;
    assert_int_equal(ra_tensor_check(&t, "value", 2, 3, 5, 7), RA_OK);
    t.dim_stride = -1;
    refused(&t, "value: strides [-2305843009213693950, 0, 0, -1] reach past the address space with this shape");
    const int64_t strides[] = {most + 1, INT64_MIN, INT64_MAX, INT64_MIN / 4};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++)
        for (int at = 0; at < 4; at++) {
            ra_tensor wide = {data, RA_F32, 2, 3, 5, 7, 0, 0, 0, 0};
            int64_t *const stride[] = {&wide.batch_stride, &wide.seq_stride, &wide.head_stride, &wide.dim_stride};
            *stride[at] = strides[i];
            assert_int_equal(ra_tensor_check(&wide, "value", 2, 3, 5, 7), RA_ERROR_ARGUMENT);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_views_of_both_layouts),
        cmocka_unit_test(negative_and_zero_strides),
        cmocka_unit_test(every_dtype_is_read_and_written),
        cmocka_unit_test(float16_overflow_is_stored_as_infinity),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(strides_past_the_address_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
