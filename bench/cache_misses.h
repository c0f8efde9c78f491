/* SPDX-License-Identifier: Apache-2.0 */
/* Cache misses of a piece of work: by the processor's own counters, or by valgrind's model of a cache. */
#ifndef BENCH_CACHE_MISSES_H
#define BENCH_CACHE_MISSES_H

#include "launch.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cache_misses {
    int64_t first_level, last_level; /* data read or written that was not there */
} cache_misses;

/* The processor's counters, of this process with all its threads to come. False: they cannot be read. */
typedef struct cache_counters {
    int first_level, last_level; /* file descriptors */
} cache_counters;

bool cache_counters_open(cache_counters *counters);
void cache_counters_start(const cache_counters *counters);
bool cache_counters_stop(const cache_counters *counters, cache_misses *misses);
void cache_counters_close(cache_counters *counters);

/* `ringattn ARGUMENTS...` (up to a NULL) in valgrind's model of this machine's caches. False, with a message in `why`.
 */
bool cache_model_run(const launch *self, const char *const *arguments, cache_misses *misses, char why[256]);

#endif
