/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the element of an array that has a hash, so that no array is searched from its beginning for each of its rows.
 */
#ifndef REPORT_PLACES_H
#define REPORT_PLACES_H

#include "arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct places {
    struct place *slots; /* NULL: there are none */
    int room, count;
} places;

/* Whether the element at `index` of the caller's array is the one that is looked for. */
typedef bool places_same(const void *user, int index);

/* Its index, -1: there is none. */
int places_find(const places *p, uint64_t hash, places_same *same, const void *user);

/* An element that was not found. */
void places_add(arena *a, places *p, uint64_t hash, int index);

/* The hash of what was hashed before, 0 at first, and these bytes. */
uint64_t places_hash(uint64_t before, const void *bytes, size_t length);

#endif
