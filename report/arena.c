/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in pieces that are freed together, texts made in it, and an order of numbers. See arena.h. */
#include "arena.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_piece {
    struct arena_piece *before;
    size_t used, room; /* of the bytes */
    max_align_t bytes[];
};

enum { PIECE_BYTES = 256 << 10, ALIGNMENT = _Alignof(max_align_t) };

static struct arena_piece *new_piece(size_t bytes)
{
    size_t room = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
    struct arena_piece *piece = calloc(1, sizeof *piece + room);
    if (!piece) {
        fprintf(stderr, "ringattn: out of memory for a report: %zu bytes\n", bytes);
        exit(1);
    }
    piece->room = room;
    return piece;
}

/* What is large has a piece of its own, behind the one that is being filled. */
void *arena_take(arena *a, size_t bytes)
{
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct arena_piece *piece = a->last;
    if (!piece || piece->room - piece->used < rounded) {
        piece = new_piece(rounded);
        bool large = a->last && rounded > PIECE_BYTES / 4;
        piece->before = large ? a->last->before : a->last;
        *(large ? &a->last->before : &a->last) = piece;
    }
    void *taken = (char *)piece->bytes + piece->used;
    piece->used += rounded;
    return taken;
}

/* There is room for the next power of two. */
void *arena_more(arena *a, void *elements, int count, size_t size)
{
    if (count & (count - 1))
        return elements;
    void *larger = arena_take(a, (count ? 2 * (size_t)count : 1) * size);
    if (count)
        memcpy(larger, elements, (size_t)count * size);
    return larger;
}

/* Most texts are short and are made once. */
char *arena_vtext(arena *a, const char *format, va_list arguments)
{
    char brief[256];
    va_list again;
    va_copy(again, arguments);
    size_t size = (size_t)vsnprintf(brief, sizeof brief, format, again) + 1;
    va_end(again);
    char *text = arena_take(a, size);
    if (size <= sizeof brief)
        memcpy(text, brief, size);
    else
        vsnprintf(text, size, format, arguments);
    return text;
}

char *arena_text(arena *a, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = arena_vtext(a, format, arguments);
    va_end(arguments);
    return text;
}

char *arena_join(arena *a, const char *const *texts, int count, const char *between)
{
    size_t length = 0, used = 0, gap = strlen(between);
    for (int i = 0; i < count; i++)
        length += strlen(texts[i]) + gap;
    char *all = arena_take(a, length + 1);
    for (int i = 0; i < count; i++) {
        memcpy(all + used, between, i ? gap : 0);
        used += i ? gap : 0;
        size_t more = strlen(texts[i]);
        memcpy(all + used, texts[i], more);
        used += more;
    }
    return all;
}

typedef struct keyed {
    double key;
    int index;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

int *arena_order(arena *a, const double *keys, int count)
{
    keyed *pairs = calloc((size_t)count + 1, sizeof *pairs);
    int *order = arena_take(a, (size_t)count * sizeof *order);
    if (!pairs) {
        fprintf(stderr, "ringattn: out of memory for a report: %d rows to be ordered\n", count);
        exit(1);
    }
    for (int i = 0; i < count; i++)
        pairs[i] = (keyed){keys[i], i};
    qsort(pairs, (size_t)count, sizeof *pairs, by_key);
    for (int i = 0; i < count; i++)
        order[i] = pairs[i].index;
    free(pairs);
    return order;
}

void arena_free(arena *a)
{
    while (a->last) {
        struct arena_piece *piece = a->last;
        a->last = piece->before;
        free(piece);
    }
}
