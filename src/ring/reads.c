/* The rows that a rank reads: from the pattern, or as they were kept. */
#include "ring/reads.h"

#include "base/checked.h"

#include <string.h>

static int64_t key_blocks(const ra_ring_plan *ring)
{
    return ra_ceil_div(ring->keys.length, RA_KEY_BLOCK);
}

int64_t ra_reads_words(const ra_ring_plan *ring)
{
    bool kept = ring->plan->pattern.blocks && !ring->strategy->reads_everything;
    return kept ? ring->planes * key_blocks(ring) : 0;
}

int64_t ra_reads_share_words(const ra_ring_plan *ring, const ra_share *keys)
{
    return ring->planes * keys->blocks;
}

static void clear(const ra_ring_plan *ring, const ra_share *keys, uint64_t *words)
{
    memset(words, 0, (size_t)ra_reads_share_words(ring, keys) * sizeof *words);
}

void ra_reads_find(ra_reads *r, const ra_ring_plan *ring, int rank, int known, uint64_t *words)
{
    static const int steps[RA_KNOWN_MOST] = {0, 1, -1};
    int64_t each = ra_reads_words(ring);
    ra_share keys = ra_share_of_range(0, ring->keys.length);
    *r = (ra_reads){.ring = ring, .words = words};
    for (int i = 0; i < known && i < RA_KNOWN_MOST && each > 0; i++) {
        ra_share queries = ra_partition_share(&ring->queries, ra_rank_before(ring, rank, steps[i]));
        r->rank[i] = ra_rank_before(ring, rank, steps[i]);
        memset(words + i * each, 0, (size_t)each * sizeof *words);
        ra_mark_needed(ring->plan, ring->planes, &queries, &keys, words + i * each);
        r->known++;
    }
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

static void mark_all(const ra_ring_plan *ring, const ra_share *keys, uint64_t *words)
{
    clear(ring, keys, words);
    for (int64_t plane = 0; plane < ring->planes; plane++)
        ra_mark_range(keys, 0, INT64_MAX, words + plane * keys->blocks);
}

/* NULL: it is not kept. */
static const uint64_t *known_words(const ra_reads *r, int rank)
{
    for (int i = 0; i < r->known; i++)
        if (r->rank[i] == rank)
            return r->words + i * ra_reads_words(r->ring);
    return NULL;
}

bool ra_reads_mark(const ra_reads *r, int rank, const ra_share *keys, uint64_t *words)
{
    const ra_ring_plan *ring = r->ring;
    ra_share queries = ra_partition_share(&ring->queries, rank);
    if (ring->strategy->reads_everything && keys->rows > 0) {
        mark_all(ring, keys, words);
        return true;
    }
    if (!in_reach(ring, &queries, keys))
        return false;
    const uint64_t *known = known_words(r, rank);
    if (known) {
        ra_mark_extract(known, key_blocks(ring), ring->planes, keys, words);
    } else {
        clear(ring, keys, words);
        ra_mark_needed(ring->plan, ring->planes, &queries, keys, words);
    }
    return true;
}

void ra_reads_set(const ra_reads *r, int rank, const ra_share *keys, uint64_t *words)
{
    if (!ra_reads_mark(r, rank, keys, words))
        clear(r->ring, keys, words);
}
