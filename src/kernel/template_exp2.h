/* Part of template.h: powers of two, which is what a softmax in base 2 needs. */
#ifndef RA_KERNEL_TEMPLATE_EXP2_H
#define RA_KERNEL_TEMPLATE_EXP2_H

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

INLINE float exp2_one(float x)
{
    float lane[WIDTH];
    vec v = v_set(x);
    exp2_nonpositive(&v, 1);
    v_store(lane, v);
    return lane[0];
}

#endif
