/* SPDX-License-Identifier: Apache-2.0 */
/* Choices that a seed decides, and how many seeds a test should try. */
#ifndef SUPPORT_RANDOM_H
#define SUPPORT_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct choices {
    uint64_t state;
} choices;

/* Seeds first <= seed < end. */
typedef struct seed_range {
    uint64_t first, end;
} seed_range;

/*
 * `quick` seeds: twenty times as many when RINGATTN_SLOW is set, a quarter of many with RINGATTN_SANITIZED, for what a
 * sanitizer looks at is the code and not the results; RINGATTN_SEED picks a single one, to see it again.
 */
seed_range seeds(int quick);

/* The step in which a sweep over all values goes: 1 when RINGATTN_SLOW is set, four times `quick` with the other. */
int stride(int quick);

uint64_t choose_bits(choices *c);

/* A number low .. high, both included. */
int64_t choose(choices *c, int64_t low, int64_t high);

/* True once in `times`. */
bool chance(choices *c, int times);

/* Standard normal, near enough. */
float choose_normal(choices *c);

#endif
