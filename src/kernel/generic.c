/* SPDX-License-Identifier: Apache-2.0 */
/* Any processor: four-float vectors of the compiler, 8 queries a group, 2 x 4 accumulators. */
#include "base/dropout.h"
#include "base/half.h"

#include <stdint.h>
#include <string.h>

#define KERNEL_NAME ra_kernel_generic
#define KERNEL_ID RA_KERNEL_GENERIC
#define WIDTH 4
#define VECTORS 2
#define EXP2_KEYS 4
#define TILE_GROUPS 32
#define TILE_BYTES (256 << 10)
#define DECODE_QUERIES 2

typedef float vec __attribute__((vector_size(16)));
typedef int32_t mask __attribute__((vector_size(16)));

static inline vec v_load(const float *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void v_store(float *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

static inline vec v_set(float x)
{
    return (vec){x, x, x, x};
}

static inline vec v_add(vec a, vec b)
{
    return a + b;
}

static inline vec v_sub(vec a, vec b)
{
    return a - b;
}

static inline vec v_mul(vec a, vec b)
{
    return a * b;
}

static inline vec v_div(vec a, vec b)
{
    return a / b;
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return a * b + c;
}

static inline vec v_select(mask m, vec yes, vec no)
{
    return (vec)((m & (mask)yes) | (~m & (mask)no));
}

static inline mask v_above(vec a, vec b)
{
    return a > b;
}

static inline vec v_max(vec a, vec b)
{
    return v_select(a > b, a, b);
}

static inline vec v_min(vec a, vec b)
{
    return v_select(a < b, a, b);
}

static inline vec v_quotient(vec a, vec b)
{
    return a / b;
}

static inline void v_begin(vec *c, vec a, vec b)
{
    *c = a * b;
}

static inline void v_accumulate(vec *c, vec a, vec b)
{
    *c = a * b + *c;
}

static inline vec v_exponent(vec t)
{
    typedef uint32_t bits __attribute__((vector_size(16)));
    return (vec)((bits)t << 23);
}

static inline mask v_in_range(int key, const int32_t *lo, const int32_t *hi)
{
    mask from, to, k = {key, key, key, key};
    memcpy(&from, lo, sizeof from);
    memcpy(&to, hi, sizeof to);
    return (from <= k) & (to > k);
}

static inline mask v_bits(uint32_t bits)
{
    mask lane = {1, 2, 4, 8}, all = {(int32_t)bits, (int32_t)bits, (int32_t)bits, (int32_t)bits};
    return (all & lane) == lane;
}

static inline vec v_load_f16(const uint16_t *from)
{
    return (vec){ra_f16_to_f32(from[0]), ra_f16_to_f32(from[1]), ra_f16_to_f32(from[2]), ra_f16_to_f32(from[3])};
}

static inline vec v_load_bf16(const uint16_t *from)
{
    return (vec){ra_bf16_to_f32(from[0]), ra_bf16_to_f32(from[1]), ra_bf16_to_f32(from[2]), ra_bf16_to_f32(from[3])};
}

static inline vec v_load_i8(const int8_t *from)
{
    return (vec){from[0], from[1], from[2], from[3]};
}

/* r[i] lane j becomes r[j] lane i. */
static inline void v_transpose(vec r[WIDTH])
{
    for (int i = 0; i < WIDTH; i++)
        for (int j = 0; j < i; j++) {
            float kept = r[i][j];
            r[i][j] = r[j][i];
            r[j][i] = kept;
        }
}

/* Lane i of the result is the sum of r[i]. */
static inline vec v_sums(const vec r[WIDTH])
{
    vec sum;
    for (int i = 0; i < WIDTH; i++)
        sum[i] = (r[i][0] + r[i][2]) + (r[i][1] + r[i][3]);
    return sum;
}

/* ra_draw of base/dropout.h for WIDTH rows or columns and one of the other; the lanes whose draw is not below. */
static inline mask v_kept(const uint32_t *a, const uint32_t *b, uint32_t other_a, uint32_t other_b, uint32_t threshold)
{
    mask kept;
    for (int i = 0; i < WIDTH; i++)
        kept[i] = -(ra_draw((ra_draw_key){a[i], b[i]}, (ra_draw_key){other_a, other_b}) >= threshold);
    return kept;
}

#include "kernel/template.h"
