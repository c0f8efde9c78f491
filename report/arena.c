#include "arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_piece {
    struct arena_piece *before;
    max_align_t bytes[];
};

void *arena_take(arena *a, size_t bytes)
{
    struct arena_piece *piece = calloc(1, sizeof *piece + bytes);
    if (!piece) {
        fprintf(stderr, "ringattn: out of memory for a report: %zu bytes\n", bytes);
        exit(1);
    }
    piece->before = a->last;
    a->last = piece;
    return piece->bytes;
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

char *arena_vtext(arena *a, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = arena_take(a, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, arguments);
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

void arena_free(arena *a)
{
    while (a->last) {
        struct arena_piece *piece = a->last;
        a->last = piece->before;
        free(piece);
    }
}
