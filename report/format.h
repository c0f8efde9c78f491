/* SPDX-License-Identifier: Apache-2.0 */
/* Values and rows as a reader sees them. */
#ifndef REPORT_FORMAT_H
#define REPORT_FORMAT_H

#include "arena.h"
#include "rows.h"

/* "-" for what is not a number. */
const char *format_bytes(arena *a, double bytes);     /* 50.3 MiB */
const char *format_seconds(arena *a, double seconds); /* 0.512 s, 3.41 ms */
const char *format_count(arena *a, double count);     /* 65,536 */
const char *format_number(arena *a, double number);   /* three digits that count */
const char *format_percent(arena *a, double fraction);

/* "8 heads", "1 head". */
const char *format_heads(arena *a, const row *r);

/* "8,192 tokens, 8 heads of 64, full, float32". */
const char *format_problem(arena *a, const row *r);

/* "ring of 4, zigzag, mpi, 1 thread", or "one piece, 2 threads"; "backward, " before them for gradients. */
const char *format_run(arena *a, const row *r);

/* The case, and the method where it is not this library. */
const char *format_case(arena *a, const row *r);

/* All that, a line each, for a point of a chart, before the values. */
const char *format_hover(arena *a, const row *r, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* No longer than fits a legend. */
const char *format_short(arena *a, const char *text);

#endif
