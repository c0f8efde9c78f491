/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine can do at this moment. The probes run around every sample: a shared machine is not the same from
 * one second to the next.
 */
#ifndef BENCH_PROBE_H
#define BENCH_PROBE_H

#include <ringattn/ringattn.h>

/* One instruction set's loops. */
typedef struct probe_loops {
    ra_kernel_id kernel;
    /* `steps` steps of independent multiply-adds in registers; returns the floating-point operations of one step. */
    double (*fma)(int64_t steps);
    /* `steps` steps of a register-blocked matrix product on first-level cache; returns the operations of one step. */
    double (*gemm)(int64_t steps);
} probe_loops;

extern const probe_loops probe_generic, probe_avx2, probe_avx512;

/* Operations per second of all threads together; a few milliseconds each. */
typedef struct probe_reading {
    double fma, gemm;
} probe_reading;

probe_reading probe_now(ra_kernel_id kernel, int threads);

/* Bytes per second that `threads` threads read from `bytes` bytes of memory. */
double probe_bandwidth(const void *memory, int64_t bytes, int threads);

double probe_seconds(void);

/* The largest resident set of this process so far, in bytes, by the system's own account; 0: it does not tell. */
int64_t probe_resident_peak(void);

/* Processor time of all threads of this process, in seconds. */
double probe_processor_seconds(void);

#endif
