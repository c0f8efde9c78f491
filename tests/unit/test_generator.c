/* Made-up data: the same everywhere, in any order of asking, and of the promised distribution. */
#include <ringattn/ringattn.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
        cmocka_unit_test(goes_on_past_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
