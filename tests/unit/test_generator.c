/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up data: the same everywhere, in any order of asking, and of the promised distribution. */
#include "base/cpu.h"
#include "base/half.h"
#include "io/generator.h"
#include "support/unit.h"

#include <math.h>
#include <string.h>

enum { COUNT = 1 << 18, DISTRIBUTIONS = 2 };

static float x[COUNT], y[COUNT];

/* How many standard deviations a sum of COUNT independent terms of unit variance lies from 0. */
static double deviations(double sum)
{
    return fabs(sum) / sqrt(COUNT);
}

static void parts_make_the_whole(void **state)
{
    (void)state;
    for (int d = 0; d < DISTRIBUTIONS; d++) {
        ra_generate((ra_distribution)d, 5, 0, COUNT, x);
        for (int64_t at = 0, size = 1; at < COUNT; at += size, size = size * 3 % 1021)
            ra_generate((ra_distribution)d, 5, at, size < COUNT - at ? size : COUNT - at, y + at);
        assert_memory_equal(x, y, sizeof x);
    }
}

/* Another machine, compiler or version must make the same tensors from the same seed. */
static void bits_never_change(void **state)
{
    (void)state;
    static const uint32_t EXPECTED[DISTRIBUTIONS] = {0x917af910U, 0x772209fcU};
    for (int d = 0; d < DISTRIBUTIONS; d++) {
        uint32_t hash = 0;
        ra_generate((ra_distribution)d, 1, 0, COUNT, x);
        for (int i = 0; i < COUNT; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i], sizeof bits);
            hash = hash * 31 + bits;
        }
        assert_int_equal(hash, EXPECTED[d]);
    }
}

/* Every table that this machine can run, on whole blocks with keys and indices of all kinds. */
static void every_table_has_the_same_bits(void **state)
{
    (void)state;
#if defined(__x86_64__)
    enum { BLOCKS = 40, VALUES = BLOCKS * RA_GENERATOR_BLOCK };
    static const uint32_t KEYS[] = {0, 1, 0x80000000U, 0xffffffffU, 0x12345678U};
    enum { KEY_COUNT = sizeof KEYS / sizeof *KEYS };
    if (ra_generator_avx2.needs & ~ra_cpu_features())
        skip();
    for (int i = 0; i < KEY_COUNT * KEY_COUNT; i++) {
        uint32_t key0 = KEYS[i % KEY_COUNT], key1 = KEYS[i / KEY_COUNT];
        uint32_t low = (uint32_t)i * (1U << 27) * RA_GENERATOR_BLOCK; /* whole blocks, up to the end of 32 bits */
        ra_generator_baseline.uniform(key0, key1, low, BLOCKS, x);
        ra_generator_avx2.uniform(key0, key1, low, BLOCKS, y);
        assert_memory_equal(x, y, VALUES * sizeof *x);
        ra_generator_baseline.normal(key0, key1, low, BLOCKS, x);
        ra_generator_avx2.normal(key0, key1, low, BLOCKS, y);
        assert_memory_equal(x, y, VALUES * sizeof *x);
    }
#endif
}

/* A row of a head, wherever it begins, is the same alone as in the tensor. */
static void rows_can_be_made_alone(void **state)
{
    (void)state;
    for (int d = 0; d < DISTRIBUTIONS; d++)
        for (int dim = 1; dim <= 200; dim += 7) {
            ra_generate((ra_distribution)d, 9, 0, (int64_t)dim * 100, x);
            for (int row = 99; row >= 0; row--)
                ra_generate((ra_distribution)d, 9, (int64_t)row * dim, dim, y + row * dim);
            assert_memory_equal(x, y, (size_t)dim * 100 * sizeof *x);
        }
}

static void halves_are_rounded_values(void **state)
{
    (void)state;
    enum { SOME = 5000, FIRST = 77 };
    static uint16_t halves[SOME];
    ra_generate(RA_NORMAL, 4, FIRST, SOME, x);
    assert_int_equal(ra_generate_as(RA_NORMAL, 4, FIRST, SOME, RA_F16, halves), RA_OK);
    for (int i = 0; i < SOME; i++)
        assert_int_equal(halves[i], ra_f32_to_f16(x[i]));
    assert_int_equal(ra_generate_as(RA_NORMAL, 4, FIRST, SOME, RA_BF16, halves), RA_OK);
    for (int i = 0; i < SOME; i++)
        assert_int_equal(halves[i], ra_f32_to_bf16(x[i]));
    assert_int_equal(ra_generate_as(RA_NORMAL, 4, FIRST, SOME, RA_F32, y), RA_OK);
    assert_memory_equal(x, y, SOME * sizeof *x);
    assert_int_equal(ra_generate_as(RA_NORMAL, 4, FIRST, SOME, RA_I64, y), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "made-up data as int64: must be float32, float16 or bfloat16");
}

/* Each of the 24 bits behind a uniform value is as often 1 as 0, whatever the bit beside it and the next value's are.
 */
static void bits_are_fair(void **state)
{
    (void)state;
    enum { BITS = 24 };
    for (uint64_t seed = 0; seed < 4; seed++) {
        int ones[BITS] = {0}, beside[BITS] = {0}, next[BITS] = {0};
        uint32_t before = 0;
        ra_generate(RA_UNIFORM, seed, 0, COUNT, x);
        for (int i = 0; i < COUNT; i++) {
            uint32_t bits = (uint32_t)lrint((double)x[i] / (1.7320508 * 0x1p-23) - 0.5) + (1U << 23);
            for (int b = 0; b < BITS; b++) {
                ones[b] += (int)(bits >> b & 1);
                beside[b] += (int)((bits ^ bits >> 1) >> b & 1);
                next[b] += (int)((bits ^ before) >> b & 1);
            }
            before = bits;
        }
        for (int b = 0; b < BITS; b++) { /* the top bit has none beside it */
            assert_true(deviations(2.0 * ones[b] - COUNT) < 5);
            assert_true(b == BITS - 1 || deviations(2.0 * beside[b] - COUNT) < 5);
            assert_true(deviations(2.0 * next[b] - COUNT) < 5);
        }
    }
}

static void moments_are_as_promised(void **state)
{
    (void)state;
    static const double FOURTH[DISTRIBUTIONS] = {1.8, 3}; /* of unit variance */
    for (int d = 0; d < DISTRIBUTIONS; d++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            double sum = 0, squares = 0, fourths = 0;
            ra_generate((ra_distribution)d, seed, 0, COUNT, x);
            for (int i = 0; i < COUNT; i++) {
                double square = (double)x[i] * x[i];
                assert_true(isfinite(x[i]) && (d != RA_UNIFORM || square < 3));
                sum += x[i];
                squares += square - 1;
                fourths += square * square;
            }
            assert_true(deviations(sum) < 5);
            assert_true(deviations(squares / sqrt(FOURTH[d] - 1)) < 5);
            assert_true(fabs(fourths / COUNT - FOURTH[d]) < 0.1);
        }
}

static void neighbours_and_seeds_are_unrelated(void **state)
{
    (void)state;
    static const int LAGS[] = {1, 2, 64, 128, 1024};
    for (int d = 0; d < DISTRIBUTIONS; d++) {
        double across = 0;
        ra_generate((ra_distribution)d, 1, 0, COUNT, x);
        ra_generate((ra_distribution)d, 2, 0, COUNT, y);
        for (int i = 0; i < COUNT; i++)
            across += (double)x[i] * y[i];
        assert_true(deviations(across) < 5);
        for (size_t lag = 0; lag < sizeof LAGS / sizeof *LAGS; lag++) {
            double along = 0;
            for (int i = 0; i < COUNT; i++)
                along += (double)x[i] * x[(i + LAGS[lag]) % COUNT];
            assert_true(deviations(along) < 5);
        }
    }
}

/* The low half of the index wraps there. */
static void goes_on_past_32_bits(void **state)
{
    (void)state;
    const int64_t edge = (int64_t)1 << 32;
    ra_generate(RA_UNIFORM, 3, edge - 300, 600, x);
    ra_generate(RA_UNIFORM, 3, edge, 300, y);
    assert_memory_equal(x + 300, y, 300 * sizeof *x);
    ra_generate(RA_UNIFORM, 3, 0, 300, x);
    assert_memory_not_equal(x, y, 300 * sizeof *x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_make_the_whole),    cmocka_unit_test(bits_never_change),
        cmocka_unit_test(moments_are_as_promised), cmocka_unit_test(neighbours_and_seeds_are_unrelated),
        cmocka_unit_test(goes_on_past_32_bits),    cmocka_unit_test(every_table_has_the_same_bits),
        cmocka_unit_test(rows_can_be_made_alone),  cmocka_unit_test(halves_are_rounded_values),
        cmocka_unit_test(bits_are_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
