/* SPDX-License-Identifier: Apache-2.0 */
/* float16 and bfloat16 to and from float32 in plain C: the definition that every vector version must match. */
#ifndef RA_BASE_HALF_H
#define RA_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ra_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float ra_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float ra_bf16_to_f32(uint16_t half)
{
    return ra_bits_float((uint32_t)half << 16);
}

/* Nearest even; a NaN stays a NaN although its low bits are cut. */
static inline uint16_t ra_f32_to_bf16(float value)
{
    uint32_t bits = ra_float_bits(value);
    if (value != value)
        return (uint16_t)((bits >> 16) | 0x40);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline float ra_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) /* Inf, or NaN made quiet as the hardware does */
        return ra_bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000 : 0));
    if (rest >= 0x400)
        return ra_bits_float(sign | ((rest << 13) + (112U << 23)));
    return ra_bits_float(sign | ra_float_bits((float)rest * 0x1p-24f));
}

/* Nearest even; past 65504 + half a step: Inf. */
static inline uint16_t ra_f32_to_f16(float value)
{
    uint32_t bits = ra_float_bits(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) /* subnormal: let the float adder round at 2^-24 */
        return (uint16_t)(sign | (ra_float_bits(ra_bits_float(rest) + 0.5f) - ra_float_bits(0.5f)));
    return (uint16_t)(sign | ((rest - (112U << 23) + 0xfff + (rest >> 13 & 1)) >> 13));
}

#endif
