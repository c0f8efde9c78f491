/* The benchmark suites of the command. They use the public header only. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>

typedef struct bench_options {
    int threads;               /* of the kernels measured; 0: as many as cores */
    int rounds;                /* samples of each case */
    const char *only;          /* NULL, or a text that the names of the cases to run contain */
    bool (*interrupted)(void); /* asked between samples: whether to stop */
} bench_options;

/*
 * ringattn bench kernel: the kernels against the machine's arithmetic peak. 0; 1 when a case failed; 2 when there is
 * none of that name. After an interruption what was measured so far is printed.
 */
int bench_kernel(const bench_options *options);

#endif
