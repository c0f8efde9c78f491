/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made-up tensors. The value at an index is a hash of seed and index, so any part of a stream can be made on its own,
 * in any order and on any machine, with the same bits. Values come in blocks that start at multiples of
 * RA_GENERATOR_BLOCK; whole ones are made where they are wanted, of others a part is copied.
 */
#include "io/generator.h"

#include "base/checked.h"
#include "base/cpu.h"
#include "base/half.h"
#include "base/mix.h"
#include "base/status.h"

#include <stdatomic.h>
#include <string.h>

enum { BLOCK = RA_GENERATOR_BLOCK, PIECE = 16 * BLOCK };

/* Asked for once: in a virtual machine the question costs more than many values. */
static const ra_generator *fastest(void)
{
    static _Atomic(const ra_generator *) known;
    const ra_generator *generator = atomic_load_explicit(&known, memory_order_relaxed);
    if (generator)
        return generator;
    generator = &ra_generator_baseline;
#ifdef RA_HAVE_X86
    if ((ra_generator_avx2.needs & ~ra_cpu_features()) == 0)
        generator = &ra_generator_avx2;
#endif
    atomic_store_explicit(&known, generator, memory_order_relaxed);
    return generator;
}

/* Whole blocks from index `first` on, a multiple of BLOCK: runs of them that have the high half in common. */
static void make_blocks(ra_make_blocks make, uint64_t seed, uint64_t first, int64_t blocks, float *values)
{
    while (blocks > 0) {
        uint64_t key = ra_mix64(ra_mix64(seed + 0x9e3779b97f4a7c15U) ^ ra_mix64((first >> 32) + 0xd1b54a32d192ed03U));
        uint32_t low = (uint32_t)first;
        int64_t run = ra_min(blocks, (int64_t)((((uint64_t)1 << 32) - low) / BLOCK));
        make((uint32_t)key, (uint32_t)(key >> 32), low, run, values);
        first += (uint64_t)run * BLOCK;
        values += run * BLOCK;
        blocks -= run;
    }
}

void ra_generate(ra_distribution distribution, uint64_t seed, int64_t first, int64_t count, float *values)
{
    const ra_generator *generator = fastest();
    ra_make_blocks make = distribution == RA_NORMAL ? generator->normal : generator->uniform;
    while (count > 0 && values) {
        int64_t skip = first % BLOCK, taken = count / BLOCK * BLOCK;
        if (skip == 0 && taken > 0) {
            make_blocks(make, seed, (uint64_t)first, taken / BLOCK, values);
        } else {
            float block[BLOCK];
            taken = ra_min(BLOCK - skip, count);
            make_blocks(make, seed, (uint64_t)(first - skip), 1, block);
            memcpy(values, block + skip, (size_t)taken * sizeof *values);
        }
        values += taken;
        first += taken;
        count -= taken;
    }
}

ra_status ra_generate_as(ra_distribution distribution, uint64_t seed, int64_t first, int64_t count, ra_dtype dtype,
                         void *elements)
{
    if (!elements && count > 0)
        return ra_fail(RA_ERROR_ARGUMENT, "made-up data: elements is NULL");
    if (dtype == RA_F32) {
        ra_generate(distribution, seed, first, count, elements);
        return RA_OK;
    }
    if (dtype != RA_F16 && dtype != RA_BF16)
        return ra_fail(RA_ERROR_ARGUMENT, "made-up data as %s: must be float32, float16 or bfloat16",
                       ra_dtype_name(dtype));
    uint16_t *halves = elements;
    for (int64_t done = 0, some; done < count; done += some) {
        float values[PIECE] = {0}; /* a static analyser does not see what fills it */
        some = ra_min(PIECE, count - done);
        ra_generate(distribution, seed, first + done, some, values);
        for (int64_t i = 0; i < some; i++)
            halves[done + i] = dtype == RA_F16 ? ra_f32_to_f16(values[i]) : ra_f32_to_bf16(values[i]);
    }
    return RA_OK;
}
