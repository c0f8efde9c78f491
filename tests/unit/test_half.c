/* SPDX-License-Identifier: Apache-2.0 */
/* float16 and bfloat16: every value there is, and the numbers half way between. */
#include "base/half.h"
#include "support/unit.h"

#include <math.h>
#include <stdbool.h>

typedef struct half_format {
    const char *name;
    int fraction_bits, bias;
    float (*widen)(uint16_t half);
    uint16_t (*round)(float value);
} half_format;

static const half_format formats[] = {
    {"float16", 10, 15, ra_f16_to_f32, ra_f32_to_f16},
    {"bfloat16", 7, 127, ra_bf16_to_f32, ra_f32_to_bf16},
};
enum { FORMATS = sizeof formats / sizeof *formats, SIGN = 0x8000 };

/* The pattern of +infinity; those above it are NaN. */
static uint32_t infinity_of(const half_format *f)
{
    return 0x7fffU >> f->fraction_bits << f->fraction_bits;
}

/* A value by the definition of the format. */
static double defined(const half_format *f, uint32_t half)
{
    int fraction = (int)(half & ((1U << f->fraction_bits) - 1)), exponent = (int)((half & 0x7fff) >> f->fraction_bits);
    if (exponent > 0)
        fraction += 1 << f->fraction_bits;
    double magnitude = ldexp(fraction, (exponent > 0 ? exponent : 1) - f->bias - f->fraction_bits);
    return half & SIGN ? -magnitude : magnitude;
}

static void every_value_is_as_defined_and_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++)
        for (uint32_t half = 0; half <= 0xffff; half++) {
            const half_format *f = &formats[i];
            float wide = f->widen((uint16_t)half);
            uint16_t back = f->round(wide);
            if ((half & 0x7fff) > infinity_of(f)) {
                REQUIRE(isnan(wide) && isnan(f->widen(back)), "%s %#x: a NaN became %g", f->name, half, wide);
                continue;
            }
            double expected = (half & 0x7fff) == infinity_of(f) ? (double)INFINITY : defined(f, half);
            REQUIRE(fabs((double)wide) == fabs(expected) && !signbit(wide) == !(half & SIGN), "%s %#x: %g", f->name,
                    half, wide);
            REQUIRE(back == half, "%s %#x came back as %#x", f->name, half, back);
        }
}

/* Between each value and the next: the middle goes to the even one, anything off the middle to the nearer. */
static void rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++)
        for (uint32_t sign = 0; sign <= SIGN; sign += SIGN)
            for (uint32_t half = 0; half < infinity_of(&formats[i]); half++) {
                const half_format *f = &formats[i];
                uint32_t near = half | sign, far = near + 1, even = half & 1 ? far : near;
                /* Past the last value lies infinity, rounded to as if the next power of two were there. */
                float middle = (float)((defined(f, near) + defined(f, far)) / 2);
                REQUIRE(f->round(middle) == even, "%s: %a became %#x", f->name, middle, f->round(middle));
                REQUIRE(f->round(nextafterf(middle, 0)) == near, "%s: below %a", f->name, middle);
                REQUIRE(f->round(nextafterf(middle, middle * INFINITY)) == far, "%s: above %a", f->name, middle);
            }
}

static void overflow_is_infinite(void **state)
{
    (void)state;
    assert_int_equal(ra_f32_to_f16(65504), 0x7bff);
    assert_int_equal(ra_f32_to_f16(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(ra_f32_to_f16(65520), 0x7c00);
    assert_int_equal(ra_f32_to_f16(-65520), 0xfc00);
    assert_int_equal(ra_f32_to_f16(0x1.fffffep127f), 0x7c00);
    assert_int_equal(ra_f32_to_bf16(0x1.fffffep127f), 0x7f80);
    assert_int_equal(ra_f32_to_bf16(-0x1.fffffep127f), 0xff80);
    assert_int_equal(ra_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(ra_f32_to_f16(-0x1p-149f), SIGN);
}

/* Cutting the low bits must not make an infinity of a NaN. */
static void nan_stays_nan(void **state)
{
    (void)state;
    static const uint32_t patterns[] = {0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff, 0x7fc00000, 0x7fbfffff};
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (int i = 0; i < FORMATS; i++) {
            const half_format *f = &formats[i];
            uint16_t half = f->round(ra_bits_float(patterns[p]));
            REQUIRE((half & 0x7fffU) > infinity_of(f), "%s: NaN %#x became %#x", f->name, patterns[p], half);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_as_defined_and_comes_back),
        cmocka_unit_test(rounds_to_nearest_even),
        cmocka_unit_test(overflow_is_infinite),
        cmocka_unit_test(nan_stays_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
