/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the machine can do right now: multiply-adds, matrix products, memory bandwidth. The loops are in
 * probe_*.c, one file for each instruction set. See probe.h.
 */
#include "probe.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Long enough to time, short enough to run around every sample. */
enum { FMA_STEPS = 1 << 20, GEMM_STEPS = 1 << 19 };

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double probe_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double probe_processor_seconds(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static const probe_loops *loops_of(ra_kernel_id kernel)
{
#ifdef BENCH_HAVE_X86
    if (kernel == RA_KERNEL_AVX2)
        return &probe_avx2;
    if (kernel == RA_KERNEL_AVX512 || kernel == RA_KERNEL_AVX512BF16) /* in parts of the float32 peak, too */
        return &probe_avx512;
#endif
    (void)kernel;
    return &probe_generic;
}

/* Every thread times its own loop: what counts is what each core gives, not when the threads started. */
static double rate(double (*loop)(int64_t), int64_t steps, int threads)
{
    double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
#pragma omp barrier
        double start = probe_seconds();
        double each = loop(steps);
        sum += each * (double)steps / (probe_seconds() - start);
    }
    return sum;
}

probe_reading probe_now(ra_kernel_id kernel, int threads)
{
    const probe_loops *loops = loops_of(kernel);
    double gemm = rate(loops->gemm, GEMM_STEPS, threads); /* first: it wakes the cores up for the peak */
    return (probe_reading){rate(loops->fma, FMA_STEPS, threads), gemm};
}

/*
 * Two streams a thread, asked for a page ahead: the fastest way to read that was found. The lines are combined, and the
 * outcome kept by a side effect.
 */
static void read_lines(const char *from, int64_t bytes)
{
    typedef uint64_t line __attribute__((vector_size(64)));
    enum { STREAMS = 2, STEP = 256, AHEAD = 4096 };
    line sum[STEP / 64] = {{0}};
    int64_t part = bytes / STREAMS / STEP * STEP;
    for (int64_t at = 0; at < part; at += STEP)
        for (int stream = 0; stream < STREAMS; stream++) {
            const char *lines = from + stream * part + at;
            for (int i = 0; i < STEP / 64; i++) {
                line l;
                memcpy(&l, lines + 64L * i, sizeof l);
                __builtin_prefetch(lines + AHEAD + 64L * i);
                sum[i] ^= l;
            }
        }
    for (int i = 1; i < STEP / 64; i++)
        sum[0] ^= sum[i];
    __asm__ volatile("" ::"m"(sum));
}

double probe_bandwidth(const void *memory, int64_t bytes, int threads)
{
    double start = probe_seconds();
#pragma omp parallel num_threads(threads)
    {
        int64_t me = omp_get_thread_num(), of = omp_get_num_threads();
        int64_t first = bytes / of * me / 256 * 256, end = me + 1 == of ? bytes : bytes / of * (me + 1) / 256 * 256;
        read_lines((const char *)memory + first, end - first);
    }
    return (double)bytes / (probe_seconds() - start);
}

int64_t probe_resident_peak(void)
{
    char line[256];
    long long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    if (!status)
        return 0;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1)
            break;
    fclose(status);
    return kib * 1024;
}
