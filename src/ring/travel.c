#include "ring/travel.h"

#include "base/checked.h"

#include <string.h>

int64_t ra_step_count(const ra_ring_plan *ring)
{
    return ring->options.strategy == RA_STRATEGY_ALLGATHER ? 1 : ring->options.ranks;
}

int ra_rank_before(const ra_ring_plan *ring, int rank, int64_t steps)
{
    int64_t ranks = ring->options.ranks;
    return (int)(((rank - steps) % ranks + ranks) % ranks);
}

ra_share ra_step_keys(const ra_ring_plan *ring, int rank, int64_t step)
{
    if (ring->options.strategy == RA_STRATEGY_RING)
        return ra_partition_share(&ring->keys, ra_rank_before(ring, rank, step));
    ra_piece part = ra_even_part(ring->keys.length, ra_step_count(ring), step);
    return ra_share_of_range(part.first, part.end);
}

static bool in_parts(const ra_ring_plan *ring, const ra_share *share)
{
    return !ring->by_reference && share->ranges <= RA_PARTS;
}

int ra_part_count(const ra_ring_plan *ring, const ra_share *share)
{
    return in_parts(ring, share) ? (int)share->ranges : share->rows > 0;
}

ra_share ra_part_of(const ra_ring_plan *ring, const ra_share *share, int part)
{
    if (!in_parts(ring, share))
        return *share;
    ra_range range = ra_share_range(share, part);
    return ra_share_of_range(range.first, range.end);
}

int64_t ra_part_block(const ra_ring_plan *ring, const ra_share *share, int part)
{
    return in_parts(ring, share) ? ra_share_range(share, part).block : 0;
}

int64_t ra_most_blocks(const ra_ring_plan *ring)
{
    int64_t most = 1;
    for (int rank = 0; rank < ring->options.ranks; rank++) {
        most = ra_max(most, ra_partition_share(&ring->keys, rank).blocks);
        if (rank < ra_step_count(ring))
            most = ra_max(most, ra_step_keys(ring, 0, rank).blocks);
    }
    return most;
}

/* Whether a rank can read anything of `keys` at all, by the ends of what it sees. */
static bool in_reach(const ra_ring_plan *ring, const ra_share *queries, const ra_share *keys)
{
    if (queries->rows == 0 || keys->rows == 0)
        return false;
    const ra_plan *p = ring->plan;
    int64_t first = ra_share_range(queries, 0).first, end = ra_share_range(queries, queries->ranges - 1).end;
    ra_interval seen = ra_pattern_hull(&p->pattern, first + p->offset, end - first);
    return seen.lo < ra_share_range(keys, keys->ranges - 1).end && ra_share_range(keys, 0).first < seen.hi;
}

int64_t ra_words_of(const ra_ring_plan *ring, const ra_share *keys)
{
    return ring->sets * keys->blocks;
}

static void clear(uint64_t *words, int64_t count)
{
    memset(words, 0, (size_t)count * sizeof *words);
}

static void all_rows(const ra_ring_plan *ring, const ra_share *keys, uint64_t *words)
{
    clear(words, ra_words_of(ring, keys));
    for (int64_t set = 0; set < ring->sets; set++)
        ra_mark_range(keys, 0, INT64_MAX, words + set * keys->blocks);
}

bool ra_needed_rows(const ra_ring_plan *ring, int rank, const ra_share *keys, uint64_t *words)
{
    bool gathers = ring->options.strategy == RA_STRATEGY_ALLGATHER;
    ra_share queries = ra_partition_share(&ring->queries, rank);
    if (keys->rows == 0 || (!gathers && !in_reach(ring, &queries, keys)))
        return false;
    if (gathers) {
        all_rows(ring, keys, words);
        return true;
    }
    if (ring->needs) {
        int64_t blocks = ra_ceil_div(ring->keys.length, RA_KEY_BLOCK);
        ra_mark_extract(ring->needs + rank * ring->sets * blocks, blocks, ring->sets, keys, words);
        return true;
    }
    clear(words, ra_words_of(ring, keys));
    ra_mark_needed(ring->plan, ring->sets, &queries, keys, words);
    return true;
}

void ra_step_needed(const ra_ring_plan *ring, int rank, int64_t step, uint64_t *words)
{
    ra_share keys = ra_step_keys(ring, rank, step);
    if (!ra_needed_rows(ring, rank, &keys, words))
        clear(words, ra_words_of(ring, &keys));
}

void ra_phase_rows(const ra_ring_plan *ring, int from, int to, int64_t phase, uint64_t *words, uint64_t *scratch)
{
    ra_share keys = ra_step_keys(ring, to, phase);
    if (!ra_needed_rows(ring, to, &keys, words)) {
        clear(words, ra_words_of(ring, &keys));
        return;
    }
    if (ring->options.strategy == RA_STRATEGY_RING) {
        int owner = ra_rank_before(ring, to, phase), before = ra_rank_before(ring, to, 1);
        if (before == owner)
            return;
        if (!ra_needed_rows(ring, before, &keys, scratch))
            clear(scratch, ra_words_of(ring, &keys));
        for (int64_t i = 0; from == owner && i < ra_words_of(ring, &keys); i++)
            scratch[i] = ~scratch[i];
    } else {
        ra_share owned = ra_partition_share(&ring->keys, from);
        clear(scratch, ra_words_of(ring, &keys));
        ra_mark_owned(&owned, &keys, ring->sets, scratch);
    }
    for (int64_t i = 0; i < ra_words_of(ring, &keys); i++)
        words[i] &= scratch[i];
}

ra_share ra_held_keys(const ra_ring_plan *ring, int from, int to, int64_t phase)
{
    return ring->options.strategy == RA_STRATEGY_RING ? ra_step_keys(ring, to, phase)
                                                      : ra_partition_share(&ring->keys, from);
}

void ra_phase_held(const ra_ring_plan *ring, int from, int to, int64_t phase, uint64_t *words, uint64_t *scratch)
{
    if (ring->options.strategy == RA_STRATEGY_RING) {
        ra_phase_rows(ring, from, to, phase, words, scratch);
        return;
    }
    ra_share owned = ra_partition_share(&ring->keys, from);
    ra_piece part = ra_even_part(ring->keys.length, ra_step_count(ring), phase);
    if (!ra_needed_rows(ring, to, &owned, words))
        clear(words, ra_words_of(ring, &owned));
    clear(scratch, ra_words_of(ring, &owned));
    for (int64_t set = 0; set < ring->sets; set++)
        ra_mark_range(&owned, part.first, part.end, scratch + set * owned.blocks);
    for (int64_t i = 0; i < ra_words_of(ring, &owned); i++)
        words[i] &= scratch[i];
}
