/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instruction sets by cpuid, cores as OpenMP counts them, caches by the system. Which kernel table is chosen from that:
 * kernel/kernel_table.c. See cpu.h.
 */
#include "base/cpu.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t enabled_states(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Register files that the system must save: for AVX, AVX-512 and AMX. */
enum { YMM = 0x6, ZMM = 0xe6, TILES = 0x60000 };

/* Of leaf 7: bits that compilers of some age have no names for. */
static unsigned find_newer(uint64_t states)
{
    enum {
        VNNI_512 = 1 << 11,
        FP16_512 = 1 << 23,
        AMX_BF16 = 1 << 22,
        AMX_TILE = 1 << 24,
        VNNI = 1 << 4,
        BF16 = 1 << 5
    };
    unsigned a = 0, b = 0, c = 0, d = 0, features = 0;
    bool zmm = (states & ZMM) == ZMM;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    if (zmm && (c & VNNI_512))
        features |= RA_CPU_AVX512_VNNI;
    if (zmm && (d & FP16_512))
        features |= RA_CPU_AVX512_FP16;
    if ((states & TILES) == TILES && (d & AMX_TILE) && (d & AMX_BF16))
        features |= RA_CPU_AMX;
    if (a < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d))
        return features;
    if (zmm && (a & BF16))
        features |= RA_CPU_AVX512_BF16;
    if (a & VNNI)
        features |= RA_CPU_AVX_VNNI;
    return features;
}

static unsigned find_features(void)
{
    unsigned a, b, c, d, features = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    uint64_t states = enabled_states();
    if ((states & YMM) != YMM)
        return 0;
    if (c & bit_FMA)
        features |= RA_CPU_FMA;
    if (c & bit_F16C)
        features |= RA_CPU_F16C;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return features;
    if (b & bit_AVX2)
        features |= RA_CPU_AVX2;
    if ((b & bit_AVX512F) && (states & ZMM) == ZMM)
        features |= RA_CPU_AVX512F;
    if ((b & bit_AVX512DQ) && (states & ZMM) == ZMM)
        features |= RA_CPU_AVX512DQ;
    if ((b & bit_AVX512BW) && (states & ZMM) == ZMM)
        features |= RA_CPU_AVX512BW;
    return features | find_newer(states);
}

static void processor_name(char *name, size_t size)
{
    unsigned words[12];
    if ((unsigned)__get_cpuid_max(0x80000000, NULL) < 0x80000004) {
        snprintf(name, size, "x86-64");
        return;
    }
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    snprintf(name, size, "%.48s", (const char *)words);
}
#else
static unsigned find_features(void)
{
    return 0;
}

static void processor_name(char *name, size_t size)
{
    snprintf(name, size, "unknown");
}
#endif

/* Asked once: under a hypervisor, every question to the processor takes microseconds. */
unsigned ra_cpu_features(void)
{
    enum { ASKED = 1 << 30 };
    static _Atomic unsigned found;
    unsigned features = atomic_load_explicit(&found, memory_order_relaxed);
    if (!features) {
        features = find_features() | ASKED;
        atomic_store_explicit(&found, features, memory_order_relaxed);
    }
    return features & ~(unsigned)ASKED;
}

int ra_cpu_cores(void)
{
    return omp_get_num_procs();
}

int ra_cpu_thread_limit(void)
{
    return omp_get_thread_limit();
}

static int64_t system_figure(int name)
{
    long value = sysconf(name);
    return value > 0 ? value : 0;
}

void ra_cpu_describe(ra_system_info *info)
{
    static const struct {
        ra_cpu_feature feature;
        const char *name;
    } names[] = {{RA_CPU_AVX2, "avx2"},
                 {RA_CPU_FMA, "fma"},
                 {RA_CPU_F16C, "f16c"},
                 {RA_CPU_AVX512F, "avx512f"},
                 {RA_CPU_AVX512DQ, "avx512dq"},
                 {RA_CPU_AVX512_VNNI, "avx512_vnni"},
                 {RA_CPU_AVX512_BF16, "avx512_bf16"},
                 {RA_CPU_AVX512_FP16, "avx512_fp16"},
                 {RA_CPU_AVX_VNNI, "avx_vnni"},
                 {RA_CPU_AMX, "amx"}};
    unsigned features = ra_cpu_features();
    processor_name(info->processor, sizeof info->processor);
    info->instruction_sets[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (features & names[i].feature) {
            size_t used = strlen(info->instruction_sets);
            snprintf(info->instruction_sets + used, sizeof info->instruction_sets - used, "%s%s", used ? " " : "",
                     names[i].name);
        }
    info->cores = ra_cpu_cores();
    info->l1_bytes = system_figure(_SC_LEVEL1_DCACHE_SIZE);
    info->l2_bytes = system_figure(_SC_LEVEL2_CACHE_SIZE);
    info->l3_bytes = system_figure(_SC_LEVEL3_CACHE_SIZE);
    info->memory_bytes = system_figure(_SC_PHYS_PAGES) * system_figure(_SC_PAGESIZE);
#if defined(__clang__)
    snprintf(info->compiler, sizeof info->compiler, "clang %d.%d.%d", __clang_major__, __clang_minor__,
             __clang_patchlevel__);
#else
    snprintf(info->compiler, sizeof info->compiler, "gcc %d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
    snprintf(info->openmp, sizeof info->openmp, "%d", _OPENMP);
}
