/* SPDX-License-Identifier: Apache-2.0 */
/* Part of template.h: powers of two, which is what a softmax in base 2 needs. */
#ifndef RA_KERNEL_TEMPLATE_EXP2_H
#define RA_KERNEL_TEMPLATE_EXP2_H

/*
 * x = exp2(x) for x <= 0: NaN for NaN, exactly 1 for 0, exactly 0 from -126.5 down. With f = x - n for an integer n
 * beside x it is 2^n (1 + f q(f)), with a relative error of about 1e-7 before rounding. Up to EXP2_KEYS vectors go
 * side by side, because one is a long chain of dependent operations.
 */
INLINE void exp2_polynomial(vec *q, const vec *f, int count, const float c[5])
{
    for (int i = 0; i < count; i++)
        q[i] = v_fma(v_set(c[4]), f[i], v_set(c[3]));
    for (int power = 2; power >= 0; power--)
        for (int i = 0; i < count; i++)
            q[i] = v_fma(q[i], f[i], v_set(c[power]));
}

#ifdef v_scale /* splitting off the integer below x and scaling by its power are instructions: f is in [0, 1] */
INLINE void exp2_nonpositive(vec *x, int count)
{
    static const float c[5] = {0x1.62e4bap-1f, 0x1.ebdb56p-3f, 0x1.c91ceap-5f, 0x1.27784ap-7f, 0x1.e97512p-10f};
    vec f[EXP2_KEYS], q[EXP2_KEYS];
    mask normal[EXP2_KEYS];
    for (int i = 0; i < count; i++)
        f[i] = v_fraction(x[i]);
    for (int i = 0; i < count; i++)
        normal[i] = v_not_below(x[i], v_set(-126.0f));
    exp2_polynomial(q, f, count, c);
    for (int i = 0; i < count; i++)
        q[i] = v_fma(q[i], f[i], v_set(1.0f));
    for (int i = 0; i < count; i++)
        x[i] = v_scale(normal[i], q[i], x[i]);
}
#else /* adding `shift` rounds to the nearest integer and leaves the biased exponent in the low bits */
INLINE void exp2_nonpositive(vec *x, int count)
{
    static const float c[5] = {0x1.62e42ap-1f, 0x1.ebf9bcp-3f, 0x1.c6b752p-5f, 0x1.3cea88p-7f, 0x1.5bba14p-10f};
    const vec shift = v_set(0x1.8p23f + 127.0f);
    vec f[EXP2_KEYS], q[EXP2_KEYS], power[EXP2_KEYS];
    for (int i = 0; i < count; i++)
        x[i] = v_max(v_set(-127.0f), x[i]);
    for (int i = 0; i < count; i++)
        power[i] = v_add(x[i], shift);
    for (int i = 0; i < count; i++)
        f[i] = v_sub(power[i], shift);
    for (int i = 0; i < count; i++)
        f[i] = v_sub(x[i], f[i]);
    exp2_polynomial(q, f, count, c);
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

INLINE float exp2_one(float x)
{
    float lane[WIDTH];
    vec v = v_set(x);
    exp2_nonpositive(&v, 1);
    v_store(lane, v);
    return lane[0];
}

#endif
