/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures that others have published for the shapes of `--seed-table`: facts to stand beside what is measured here,
 * never measured here themselves.
 */
#ifndef BENCH_PUBLISHED_H
#define BENCH_PUBLISHED_H

#include <stdint.h>

typedef struct published_figure {
    const char *where; /* repository and file */
    const char *device, *dtype;
    double seconds; /* of `tokens` tokens; 0: it did not run to its end there */
    int64_t tokens;
    double memory_bytes; /* 0: none was given */
    const char *includes, *wrong;
} published_figure;

/* One configuration of those reports, and what they say of it. */
typedef struct published_case {
    const char *name;
    int64_t batch, length, heads, dim;
    const char *pattern;
    int ranks;
    published_figure figure;
} published_case;

extern const published_case published_cases[];
extern const int published_count;

#endif
