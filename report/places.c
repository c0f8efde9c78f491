/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing, at most half full, over memory of an arena. */
#include "places.h"

#include <string.h>

struct place {
    uint64_t hash;
    int next; /* the index and 1; 0: free */
};

enum { LEAST_ROOM = 16 };

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

uint64_t places_hash(uint64_t before, const void *bytes, size_t length)
{
    const char *b = bytes;
    uint64_t hash = mix(before, length), word;
    for (; length >= sizeof word; length -= sizeof word, b += sizeof word) {
        memcpy(&word, b, sizeof word);
        hash = mix(hash, word);
    }
    word = 0;
    memcpy(&word, b, length);
    return mix(hash, word);
}

int places_find(const places *p, uint64_t hash, places_same *same, const void *user)
{
    if (!p->room)
        return -1;
    size_t mask = (size_t)p->room - 1;
    for (size_t i = hash & mask; p->slots[i].next; i = (i + 1) & mask)
        if (p->slots[i].hash == hash && same(user, p->slots[i].next - 1))
            return p->slots[i].next - 1;
    return -1;
}

static void put(places *p, const struct place *new)
{
    size_t mask = (size_t)p->room - 1, i = new->hash &mask;
    while (p->slots[i].next)
        i = (i + 1) & mask;
    p->slots[i] = *new;
}

void places_add(arena *a, places *p, uint64_t hash, int index)
{
    if (2 * (p->count + 1) > p->room) {
        places larger = {.room = p->room ? 2 * p->room : LEAST_ROOM, .count = p->count};
        larger.slots = arena_take(a, (size_t)larger.room * sizeof *larger.slots);
        for (int i = 0; i < p->room; i++)
            if (p->slots[i].next)
                put(&larger, &p->slots[i]);
        *p = larger;
    }
    put(p, &(struct place){hash, index + 1});
    p->count++;
}
