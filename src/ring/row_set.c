#include "ring/row_set.h"

#include "base/checked.h"

#include <assert.h>
#include <string.h>

/* ---- Intervals --------------------------------------------------------------------------------------------------- */

static void append(ra_row_set *s, int64_t lo, int64_t hi)
{
    if (lo >= hi)
        return;
    assert(s->count < RA_SET_MOST);
    s->at[s->count++] = (ra_interval){lo, hi};
}

static ra_row_set both(const ra_row_set *a, const ra_row_set *b)
{
    ra_row_set s = {0};
    for (int i = 0, j = 0; i < a->count && j < b->count;) {
        append(&s, ra_max(a->at[i].lo, b->at[j].lo), ra_min(a->at[i].hi, b->at[j].hi));
        if (a->at[i].hi < b->at[j].hi)
            i++;
        else
            j++;
    }
    return s;
}

/* What is between the intervals of a set. */
static ra_row_set outside(const ra_row_set *a)
{
    ra_row_set s = {0};
    int64_t at = 0;
    for (int i = 0; i < a->count; at = a->at[i++].hi)
        append(&s, at, a->at[i].lo);
    append(&s, at, INT64_MAX);
    return s;
}

/* Rows of a share at positions below `end`. */
static int64_t rows_below(const ra_share *share, const ra_row_set *s, int64_t end)
{
    int64_t rows = 0;
    for (int i = 0; i < s->count && s->at[i].lo < end; i++)
        rows += ra_share_rows_between(share, s->at[i].lo, ra_min(s->at[i].hi, end));
    return rows;
}

/* ---- Either kind ------------------------------------------------------------------------------------------------- */

static size_t bytes_of(const ra_ring_plan *ring, const ra_share *keys)
{
    return (size_t)ra_words_of(ring, keys) * sizeof(uint64_t);
}

void ra_set_stretch(const ra_ring_plan *ring, const ra_share *keys, int64_t first, int64_t end, ra_row_set *s)
{
    if (!s->words) {
        *s = (ra_row_set){0};
        append(s, first, end);
        return;
    }
    memset(s->words, 0, bytes_of(ring, keys));
    for (int64_t set = 0; set < ring->sets; set++)
        ra_mark_range(keys, first, end, s->words + set * keys->blocks);
}

void ra_set_all(const ra_ring_plan *ring, const ra_share *keys, ra_row_set *s)
{
    ra_set_stretch(ring, keys, 0, INT64_MAX, s);
}

void ra_set_owned(const ra_ring_plan *ring, int rank, const ra_share *keys, ra_row_set *s)
{
    ra_share owned = ra_partition_share(&ring->keys, rank);
    if (s->words) {
        memset(s->words, 0, bytes_of(ring, keys));
        ra_mark_owned(&owned, keys, ring->sets, s->words);
        return;
    }
    *s = (ra_row_set){0};
    for (int64_t i = 0; i < owned.ranges; i++)
        append(s, ra_share_range(&owned, i).first, ra_share_range(&owned, i).end);
}

bool ra_set_needed(const ra_ring_plan *ring, int rank, const ra_share *keys, ra_row_set *s)
{
    if (s->words)
        return ra_needed_rows(ring, rank, keys, s->words);
    if (ring->options.strategy == RA_STRATEGY_ALLGATHER)
        ra_set_all(ring, keys, s);
    else {
        const ra_few *few = &ring->reach[rank];
        *s = (ra_row_set){0};
        for (int i = 0; i < few->count; i++)
            append(s, few->at[i].lo, few->at[i].hi);
    }
    return rows_below(keys, s, INT64_MAX) > 0;
}

void ra_set_both(const ra_ring_plan *ring, const ra_share *keys, const ra_row_set *a, const ra_row_set *b,
                 ra_row_set *to)
{
    if (!to->words)
        *to = both(a, b);
    for (int64_t i = 0; to->words && i < ra_words_of(ring, keys); i++)
        to->words[i] = a->words[i] & b->words[i];
}

void ra_set_only(const ra_ring_plan *ring, const ra_share *keys, const ra_row_set *a, const ra_row_set *b,
                 ra_row_set *to)
{
    if (!to->words) {
        ra_row_set others = outside(b);
        *to = both(a, &others);
    }
    for (int64_t i = 0; to->words && i < ra_words_of(ring, keys); i++)
        to->words[i] = a->words[i] & ~b->words[i];
}

void ra_set_copy(const ra_ring_plan *ring, const ra_share *keys, const ra_row_set *from, ra_row_set *to)
{
    if (to->words)
        memcpy(to->words, from->words, bytes_of(ring, keys));
    else
        *to = *from;
}

int64_t ra_set_part_rows(const ra_ring_plan *ring, const ra_share *keys, int part, const ra_row_set *s)
{
    ra_share of = ra_part_of(ring, keys, part);
    if (!s->words)
        return rows_below(&of, s, INT64_MAX);
    int64_t rows = 0, first = ra_part_block(ring, keys, part);
    for (int64_t set = 0; set < ring->sets; set++)
        rows += ra_marked(s->words + set * keys->blocks + first, of.blocks);
    return rows;
}

int64_t ra_set_rows(const ra_ring_plan *ring, const ra_share *keys, const ra_row_set *s)
{
    return s->words ? ra_marked(s->words, ra_words_of(ring, keys)) : rows_below(keys, s, INT64_MAX);
}

static int64_t runs_of_intervals(const ra_share *part, const ra_row_set *some, const ra_row_set *held)
{
    int64_t runs = 0, end = -1; /* of the run before */
    for (int i = 0; i < some->count; i++) {
        int64_t rows = ra_share_rows_between(part, some->at[i].lo, some->at[i].hi);
        int64_t first = rows_below(part, held, some->at[i].lo);
        if (!rows)
            continue;
        runs += first != end;
        end = first + rows;
    }
    return runs;
}

int64_t ra_set_runs(const ra_ring_plan *ring, const ra_share *keys, int part, const ra_row_set *some,
                    const ra_row_set *held)
{
    ra_share of = ra_part_of(ring, keys, part);
    if (!some->words)
        return runs_of_intervals(&of, some, held);
    int64_t runs = 0;
    for (int64_t set = 0; set < ring->sets; set++) {
        int64_t first = set * keys->blocks + ra_part_block(ring, keys, part);
        ra_mark_walk walk = ra_mark_walk_begin(some->words + first, held->words + first, of.blocks);
        ra_mark_run run;
        while (ra_mark_walk_next(&walk, &run))
            runs++;
    }
    return runs;
}
