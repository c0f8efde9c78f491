/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that a rank reads: from the pattern, or as they were kept. */
#include "ring/reads.h"

#include "base/checked.h"
#include "plan/batch.h"

#include <string.h>

static int64_t all_blocks(const ra_pass *pass)
{
    return ra_ceil_div(ra_pass_moving(pass)->length, RA_KEY_BLOCK);
}

int64_t ra_reads_words(const ra_pass *pass)
{
    const ra_plan *p = pass->ring->plan;
    bool dear = p->pattern.blocks || p->pattern.mask || ra_plan_by_batch(p); /* to find out again for each message */
    bool kept = dear && (!pass->ring->strategy->reads_everything || pass->along);
    return kept ? pass->ring->planes * all_blocks(pass) : 0;
}

int64_t ra_reads_share_words(const ra_pass *pass, const ra_share *share)
{
    return pass->ring->planes * share->blocks;
}

static void clear(const ra_pass *pass, const ra_share *share, uint64_t *words)
{
    memset(words, 0, (size_t)ra_reads_share_words(pass, share) * sizeof *words);
}

/* What a rank's rows that stay need of a share, on words that are zero. */
static void mark_needed(const ra_pass *pass, int rank, const ra_share *share, uint64_t *words)
{
    ra_share stay = ra_partition_share(ra_pass_staying(pass), rank);
    if (pass->moving == RA_SIDE_KEYS)
        ra_mark_needed(pass->ring->plan, pass->ring->planes, &stay, share, words);
    else
        ra_mark_seers(pass->ring->plan, pass->ring->planes, &stay, share, words);
}

void ra_reads_find(ra_reads *r, const ra_pass *pass, int rank, int known, uint64_t *words)
{
    static const int steps[RA_KNOWN_MOST] = {0, 1, -1};
    int64_t each = ra_reads_words(pass);
    ra_share all = ra_share_of_range(0, ra_pass_moving(pass)->length);
    *r = (ra_reads){.pass = pass, .words = words};
    for (int i = 0; i < known && i < RA_KNOWN_MOST && each > 0; i++) {
        r->rank[i] = ra_rank_before(pass, rank, steps[i]);
        memset(words + i * each, 0, (size_t)each * sizeof *words);
        mark_needed(pass, r->rank[i], &all, words + i * each);
        r->known++;
    }
}

/* Rows outside of which the rows first <= i < end that stay need none. */
static ra_interval hull_of(const ra_pass *pass, int64_t first, int64_t end)
{
    const ra_plan *p = pass->ring->plan;
    return pass->moving == RA_SIDE_KEYS ? ra_plan_hull(p, first, end) : ra_plan_seers_hull(p, first, end);
}

/* Whether a rank can read anything of a share at all, by the ends of what it needs. */
static bool in_reach(const ra_pass *pass, int rank, const ra_share *share)
{
    ra_share stay = ra_partition_share(ra_pass_staying(pass), rank);
    if (stay.rows == 0 || share->rows == 0)
        return false;
    ra_interval needed = hull_of(pass, ra_share_range(&stay, 0).first, ra_share_range(&stay, stay.ranges - 1).end);
    return needed.lo < ra_share_range(share, share->ranges - 1).end && ra_share_range(share, 0).first < needed.hi;
}

static void mark_all(const ra_pass *pass, const ra_share *share, uint64_t *words)
{
    clear(pass, share, words);
    for (int64_t plane = 0; plane < pass->ring->planes; plane++)
        ra_mark_range(share, 0, INT64_MAX, words + plane * share->blocks);
}

/* NULL: it is not kept. */
static const uint64_t *known_words(const ra_reads *r, int rank)
{
    for (int i = 0; i < r->known; i++)
        if (r->rank[i] == rank)
            return r->words + i * ra_reads_words(r->pass);
    return NULL;
}

/* As ra_reads_mark, of the rows that a rank needs. */
static bool find_needed(const ra_reads *r, int rank, const ra_share *share, uint64_t *words)
{
    const ra_pass *pass = r->pass;
    if (!in_reach(pass, rank, share))
        return false;
    const uint64_t *known = known_words(r, rank);
    if (known) {
        ra_mark_extract(known, all_blocks(pass), pass->ring->planes, share, words);
    } else {
        clear(pass, share, words);
        mark_needed(pass, rank, share, words);
    }
    return true;
}

bool ra_reads_mark(const ra_reads *r, int rank, const ra_share *share, uint64_t *words)
{
    if (!r->pass->ring->strategy->reads_everything || share->rows == 0)
        return find_needed(r, rank, share, words);
    mark_all(r->pass, share, words);
    return true;
}

void ra_reads_set(const ra_reads *r, int rank, const ra_share *share, uint64_t *words)
{
    if (!ra_reads_mark(r, rank, share, words))
        clear(r->pass, share, words);
}

void ra_reads_set_needed(const ra_reads *r, int rank, const ra_share *share, uint64_t *words)
{
    if (!find_needed(r, rank, share, words))
        clear(r->pass, share, words);
}
