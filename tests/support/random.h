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

/* `quick` seeds, twenty times as many when RINGATTN_SLOW is set; RINGATTN_SEED picks a single one, to see it again. */
seed_range seeds(int quick);

uint64_t choose_bits(choices *c);

/* A number low .. high, both included. */
int64_t choose(choices *c, int64_t low, int64_t high);

/* True once in `times`. */
bool chance(choices *c, int times);

/* Standard normal, near enough. */
float choose_normal(choices *c);

#endif
