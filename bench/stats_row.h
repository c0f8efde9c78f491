/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics that `ringattn attend --stats` wrote, as a benchmark's row. */
#ifndef BENCH_STATS_ROW_H
#define BENCH_STATS_ROW_H

#include "results.h"

#include <jansson.h>

/* One run: problem, way, seconds, memory, and the error where the output was kept nowhere. Its texts stay `stats`'. */
void stats_row(const json_t *stats, result_row *row);

/* A number of them; 0 where there is none. */
int64_t stats_integer(const json_t *object, const char *name);
double stats_real(const json_t *object, const char *name);

#endif
