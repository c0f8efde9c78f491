/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithm of every kernel table, over a handful of vector operations that the including file defines:
 *
 *     KERNEL_NAME, KERNEL_ID, WIDTH (floats in a vector), VECTORS (vectors of queries in a group), EXP2_KEYS (keys
 *     whose exponentials go side by side: 1, 2 or 4), TILE_GROUPS, TILE_BYTES, DECODE_QUERIES
 *     vec, mask; v_load, v_store (unaligned), v_set, v_add, v_sub, v_mul, v_div, v_fma(a, b, c) = a * b + c,
 *     v_begin(&c, a, b): c = a * b and v_accumulate(&c, a, b): c = v_fma(a, b, c) of the inner loops, v_max(a, b) (b
 * when either is NaN), v_in_range(key, lo, hi), v_bits(bits): the lanes whose bit is set, v_above(a, b),
 * v_select(mask, yes, no), v_load_f16, v_load_bf16, v_load_i8
 *     v_exponent(t): the low bits of t moved into the exponent field; or, where there are such instructions,
 * v_fraction(x): x without the integer below it, v_not_below(a, b): also where either is NaN, and the macro
 * v_scale(mask, x, y): x 2^n of the integer n below y, 0 where the mask is not set
 *     v_sums(r[WIDTH]): the sum of each vector in a lane of one
 *     v_min(a, b) (b when either is NaN), v_quotient(a, b), v_transpose(r[WIDTH]) and v_kept, the
 * draws of dropout: of scored tiles alone
 *     KERNEL_PRECISION and PAIR, v_pairs, v_even, v_odd, v_neighbours, v_zip, v_keep: of a table with products of
 * bfloat16 alone; its v_begin and v_accumulate multiply pairs
 *
 * Queries are in the lanes: a group is LANES = WIDTH * VECTORS rows, keys and values are broadcast, and no reduction
 * ever crosses lanes in a tile. The register block is VECTORS x 4 accumulators in both products.
 *
 * The parts, which are of no use without what stands here:
 *
 *     template_exp2.h     powers of two, which is what a softmax in base 2 needs
 *     template_packing.h  rows of any dtype and stride into what the products read
 *     template_pairs.h    the same as pairs of bfloat16
 *     template_score.h    softcaps, biases and dropout, between the product, the softmax and the values
 *     template_tile.h     one group of queries against one block of keys
 *     template_decode.h   few queries: vectors along the head dimension, keys and values read once
 *     template_state.h    states of rows: merged, and turned into results
 *     template_gradient.h the gradients of a group and a block
 *     template_gradient_scored.h the same with a score stage
 */
#include "base/half.h"
#include "kernel/kernel.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define LANES (WIDTH * VECTORS)
/* A table whose products are not those of float32 says so, and has PAIR numbers in the place of one: 2 of bfloat16. */
#ifndef KERNEL_PRECISION
#define KERNEL_PRECISION RA_PRECISION_EXACT
#define PAIR 1
#endif
/* Places that n numbers take: see template_pairs.h. */
#define WORDS(n) (((n) + PAIR - 1) / PAIR)
#define INLINE static inline __attribute__((always_inline))
/* Steps of an inner loop written out: fewer instructions beside the products. */
#define UNROLL 8
#if defined(__clang__)
#define WRITE_OUT _Pragma("clang loop unroll(full)")
#else
#define WRITE_OUT _Pragma("GCC unroll 16")
#endif
/*
 * Head dimensions summed in one go, because the rounding of one longer sum would show in the result: all, up to
 * DOT_WHOLE, where a chunk more would be felt; else DOT_CHUNK.
 */
#define DOT_WHOLE 128
#define DOT_CHUNK 64
_Static_assert(RA_KEY_UNIT % EXP2_KEYS == 0, "tiles end with a whole unit of keys");

#include "kernel/template_decode.h"
#include "kernel/template_exp2.h"
#include "kernel/template_gradient.h"
#include "kernel/template_gradient_scored.h"
#include "kernel/template_packing.h"
#include "kernel/template_pairs.h"
#include "kernel/template_score.h"
#include "kernel/template_state.h"
#include "kernel/template_tile.h"

const ra_kernel KERNEL_NAME = {
    .id = KERNEL_ID,
    .precision = KERNEL_PRECISION,
    .blocking = {LANES, LANES - WIDTH, TILE_GROUPS, TILE_BYTES, DECODE_QUERIES},
    .pair = PAIR,
    .pack_rows = pack_rows,
    .turn_rows = turn_rows,
#if PAIR > 1
    .pack_key = pack_key,
    .pack_query = pack_query,
#else
    .pack_key = pack_rows,
    .pack_query = turn_rows,
#endif
    .pack_value = pack_value,
    .tile = tile,
    .decode = decode,
    .tile_scored = tile_scored,
    .decode_scored = decode_scored,
    .merge_group = merge_group,
    .merge_row = merge_row,
    .merge_lane = merge_lane,
    .finish_group = finish_group,
    .finish_row = finish_row,
    .pack_columns = pack_columns,
    .gradient = gradient,
    .gradient_scores = gradient_scores,
    .gradient_products = gradient_products,
    .store_group = store_group,
    .add_group = add_group,
};
