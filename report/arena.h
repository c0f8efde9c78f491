/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is given back all at once. There is no report without it: who cannot have it ends the command. */
#ifndef REPORT_ARENA_H
#define REPORT_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct arena {
    struct arena_piece *last;
} arena;

/* Zeroed. */
void *arena_take(arena *a, size_t bytes);

/*
 * Room for one more element behind `count`, which were all added this way:
 *     list = arena_more(a, list, count, sizeof *list);
 *     list[count++] = element;
 */
void *arena_more(arena *a, void *elements, int count, size_t size);

char *arena_text(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vtext(arena *a, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

/* All of them in one, with `between` between two. */
char *arena_join(arena *a, const char *const *texts, int count, const char *between);

/* The indices of the keys from the smallest to the largest; equal ones in the order in which they are. */
int *arena_order(arena *a, const double *keys, int count);

/* Gives everything back; the arena can be used again. */
void arena_free(arena *a);

#endif
