/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of template.h: what happens to scores between the product and the mask, and to weights after the softmax. Scores
 * are [key][lane], as a tile has them. A plain tile does not come here.
 */
#ifndef RA_KERNEL_TEMPLATE_SCORE_H
#define RA_KERNEL_TEMPLATE_SCORE_H

/*
 * tanh(x) = x p(x^2) / q(x^2) with a relative error of 3.8e-7 at most: NaN for NaN, 1 from TANH_END on. The
 * coefficients are a minimax fit of the relative error on [0, TANH_END].
 */
#define TANH_END 9.02f

INLINE vec v_tanh(vec x)
{
    static const float p[5] = {1.0f, 0x1.1213d4p-3f, 0x1.ca6b40p-9f, 0x1.5a3644p-16f, 0x1.cbe1a8p-27f};
    static const float q[5] = {1.0f, 0x1.de5f38p-2f, 0x1.a816e6p-6f, 0x1.58d386p-12f, 0x1.a23c82p-21f};
    x = v_min(v_set(TANH_END), v_max(v_set(-TANH_END), x)); /* a NaN stays */
    vec square = v_mul(x, x), above = v_set(p[4]), below = v_set(q[4]);
    for (int power = 3; power >= 0; power--) {
        above = v_fma(above, square, v_set(p[power]));
        below = v_fma(below, square, v_set(q[power]));
    }
    return v_quotient(v_mul(x, above), below);
}

/* The derivative goes to `slopes`, if that is not NULL: 1 - tanh^2. */
INLINE vec softcap(vec score, vec cap, vec per_cap, float *slope)
{
    vec t = v_tanh(v_mul(score, per_cap));
    if (slope)
        v_store(slope, v_fma(v_sub(v_set(0.0f), t), t, v_set(1.0f)));
    return v_mul(cap, t);
}

/* Steps are functions of their own, over the first n vectors of the lanes and keys begin <= k < end. */
static __attribute__((noinline)) void step_softcap(const ra_score_step *s, float *scores, float *slopes, int begin,
                                                   int end, int n)
{
    const vec cap = v_set(s->cap), per_cap = v_set(1.0f / s->cap);
    for (ptrdiff_t k = begin; k < end; k++)
        for (int i = 0; i < n; i++) {
            ptrdiff_t at = k * LANES + i * WIDTH;
            v_store(scores + at, softcap(v_load(scores + at), cap, per_cap, slopes ? slopes + at : NULL));
        }
}

static __attribute__((noinline)) void step_add(const ra_score_step *s, float *scores, int begin, int end, int n)
{
    for (ptrdiff_t k = begin; k < end; k++)
        for (int i = 0; i < n; i++) {
            float *at = scores + k * LANES + i * WIDTH;
            v_store(at, v_add(v_load(at), v_load(s->add + k * s->stride + i * WIDTH)));
        }
}

static __attribute__((noinline)) void step_add_key(const ra_score_step *s, float *scores, int begin, int end, int n)
{
    for (ptrdiff_t k = begin; k < end; k++)
        for (int i = 0; i < n; i++) {
            float *at = scores + k * LANES + i * WIDTH;
            v_store(at, v_add(v_load(at), v_set(s->add[k])));
        }
}

/* Four, eight or sixteen keys of as many rows, turned into lanes; rows that are not there are the last one that is. */
INLINE void load_lanes(const ra_score_step *s, ptrdiff_t k, int lane, vec columns[WIDTH])
{
    for (int i = 0; i < WIDTH; i++) {
        ptrdiff_t row = lane + i < s->rows ? lane + i : s->rows - 1;
        columns[i] = v_load(s->add + row * s->stride + k);
    }
    v_transpose(columns);
}

/* ra_added_in_base_2; a NaN stays. */
INLINE vec added_in_base_2(vec factor, vec x)
{
    return v_max(v_min(v_set(-FLT_MAX), x), v_mul(factor, x));
}

/* Keys at the ends of what can be read, one by one. */
static void add_row_keys(const ra_score_step *s, float *scores, int begin, int end)
{
    for (ptrdiff_t k = begin; k < end; k++)
        for (ptrdiff_t i = 0; i < s->rows; i++)
            scores[k * LANES + i] += ra_added_in_base_2(s->factor, s->add[i * s->stride + k]);
}

static __attribute__((noinline)) void step_add_rows(const ra_score_step *s, float *scores, int begin, int end)
{
    const vec factor = v_set(s->factor);
    ptrdiff_t k = begin < s->begin ? s->begin : begin;
    end = end < s->end ? end : s->end;
    for (; k + WIDTH <= end; k += WIDTH)
        for (int lane = 0; lane < s->rows; lane += WIDTH) {
            vec columns[WIDTH];
            load_lanes(s, k, lane, columns);
            for (int j = 0; j < WIDTH; j++) {
                float *at = scores + (k + j) * LANES + lane;
                /* Two roundings, as for the keys that are left over. */
                v_store(at, v_add(v_load(at), added_in_base_2(factor, columns[j])));
            }
        }
    add_row_keys(s, scores, (int)k, end);
}

/* All steps, in their order; slopes: NULL, or [RA_KEY_BLOCK][LANES] for the derivative of a softcap. */
static void apply_steps(const ra_score_stage *stage, float *scores, float *slopes, int begin, int end, int n)
{
    for (int i = 0; i < stage->count; i++) {
        const ra_score_step *s = &stage->step[i];
        switch (s->op) {
        case RA_STEP_SOFTCAP: step_softcap(s, scores, slopes, begin, end, n); break;
        case RA_STEP_ADD: step_add(s, scores, begin, end, n); break;
        case RA_STEP_ADD_KEY: step_add_key(s, scores, begin, end, n); break;
        case RA_STEP_ADD_ROWS: step_add_rows(s, scores, begin, end); break;
        }
    }
}

/* weights of [key][lane]: 0 where dropped, else times what is made up for. */
static __attribute__((noinline)) void drop_weights(const ra_score_stage *stage, float *weights, int begin, int end,
                                                   int n)
{
    const vec kept = v_set(stage->kept), zero = v_set(0.0f);
    for (ptrdiff_t k = begin; k < end; k++)
        for (int i = 0; i < n; i++) {
            float *at = weights + k * LANES + i * WIDTH;
            mask keeps = v_kept(stage->row_a + i * WIDTH, stage->row_b + i * WIDTH, stage->key_a[k], stage->key_b[k],
                                stage->threshold);
            v_store(at, v_mul(v_load(at), v_select(keeps, kept, zero)));
        }
}

#endif
