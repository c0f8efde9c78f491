/* SPDX-License-Identifier: Apache-2.0 */
/* Marks on rows: see marks.h. */
#include "ring/marks.h"

#include "base/bits.h"
#include "base/checked.h"
#include "plan/batch.h"
#include "plan/row_bits.h"

#include <string.h>

void ra_mark_range(const ra_share *share, int64_t lo, int64_t hi, uint64_t *words)
{
    for (int64_t i = ra_share_find(share, lo); i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        int64_t first = ra_max(range.first, lo), end = ra_min(range.end, hi);
        if (first >= end)
            break;
        int64_t origin = range.first / RA_KEY_BLOCK;
        for (int64_t block = first / RA_KEY_BLOCK; block * RA_KEY_BLOCK < end; block++)
            words[range.block + block - origin] |=
                ra_bits(ra_max(0, first - block * RA_KEY_BLOCK), end - block * RA_KEY_BLOCK);
    }
}

int64_t ra_mark_planes(const ra_plan *p)
{
    for (int64_t head = 1; head < p->heads; head++)
        if (!ra_pattern_same(&p->pattern, 0, head))
            return p->kv_heads;
    return 1;
}

/*
 * The keys that the queries of a share see, where all terms of the pattern are intervals. Those of neighbouring ranges
 * overlap mostly, and are joined.
 */
typedef struct joined_walk {
    const ra_plan *plan;
    const ra_share *queries;
    int64_t range;
    int64_t next; /* query of that range; INT64_MIN: its first */
} joined_walk;

/* Step to the next queries of one packed sequence, or of a range; false at the end. */
static bool queries_at(const joined_walk *w, ra_range *queries)
{
    const ra_plan *p = w->plan;
    if (w->range >= w->queries->ranges)
        return false;
    *queries = ra_share_range(w->queries, w->range);
    queries->first = ra_max(queries->first, w->next);
    queries->end = ra_pattern_packed_end(&p->pattern, queries->first + p->offset, queries->end + p->offset) - p->offset;
    return true;
}

static void go_on(joined_walk *w, int64_t end)
{
    bool done = end >= ra_share_range(w->queries, w->range).end;
    w->range += done;
    w->next = done ? INT64_MIN : end;
}

static bool next_joined(joined_walk *w, ra_interval *joined)
{
    const ra_plan *p = w->plan;
    *joined = (ra_interval){0, 0};
    for (ra_range at; queries_at(w, &at); go_on(w, at.end)) {
        ra_interval seen = ra_pattern_reach(&p->pattern, at.first + p->offset, at.end - at.first);
        if (seen.lo >= seen.hi)
            continue;
        if (joined->lo == joined->hi)
            *joined = seen;
        else if (seen.lo > joined->hi)
            break;
        joined->hi = ra_max(joined->hi, seen.hi);
    }
    return joined->lo < joined->hi;
}

static void mark_intervals(const ra_plan *p, const ra_share *queries, const ra_share *keys, uint64_t *words)
{
    joined_walk walk = {p, queries, 0, INT64_MIN};
    ra_interval seen;
    while (next_joined(&walk, &seen))
        ra_mark_range(keys, seen.lo, seen.hi, words);
}

/* Mark the rows `offset` before the members of a lattice at positions lo <= i < hi, all in the block of the word. */
static void mark_in_block(const ra_lattice *lattice, int64_t lo, int64_t hi, int64_t offset, uint64_t *word)
{
    ra_interval members = ra_branch_members(lattice, lo, hi);
    for (int64_t member = members.lo; member < members.hi; member++)
        *word |= UINT64_C(1) << ((ra_lattice_position(lattice, member) - offset) % RA_KEY_BLOCK);
}

/* Mark the rows of a share that are members of a lattice at positions lo <= i < hi. Row 0 is at position `offset`. */
static void mark_members(const ra_lattice *lattice, const ra_share *share, int64_t lo, int64_t hi, int64_t offset,
                         uint64_t *words)
{
    lo -= offset, hi -= offset;
    if (ra_lattice_plain(lattice)) {
        ra_mark_range(share, lo, hi, words);
        return;
    }
    for (int64_t i = ra_share_find(share, lo); i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        int64_t first = ra_max(range.first, lo), end = ra_min(range.end, hi), origin = range.first / RA_KEY_BLOCK;
        if (first >= end)
            break;
        for (int64_t block = first / RA_KEY_BLOCK; block * RA_KEY_BLOCK < end; block++) {
            uint64_t *word = &words[range.block + block - origin];
            /* Mostly a branch of rate 1 has marked everything already. */
            if (*word != UINT64_MAX)
                mark_in_block(lattice, offset + ra_max(first, block * RA_KEY_BLOCK),
                              offset + ra_min(end, (block + 1) * RA_KEY_BLOCK), offset, word);
        }
    }
}

/*
 * Mark the keys that queries at positions first <= i < end see in a branch. If the pattern has blocks, the queries are
 * in one row of blocks. `done` is marked already: queries of one segment see the same keys.
 */
static void mark_branch(const ra_plan *p, int64_t head, const ra_lattice *lattice, int64_t first, int64_t end,
                        const ra_share *keys, ra_interval *done, uint64_t *words)
{
    const ra_blocks *blocks = p->pattern.blocks;
    ra_interval queries = ra_branch_members(lattice, first, end);
    if (queries.lo >= queries.hi)
        return;
    ra_interval seen = ra_branch_reach(&p->pattern, lattice, queries.lo, queries.hi - queries.lo);
    if (seen.lo >= seen.hi)
        return;
    int64_t lo = ra_lattice_position(lattice, seen.lo), hi = ra_lattice_position(lattice, seen.hi - 1) + 1;
    if (!blocks) {
        if (lo < done->lo || hi > done->hi)
            mark_members(lattice, keys, lo, hi, 0, words);
        *done = (ra_interval){lo, hi};
        return;
    }
    int64_t column, column_end;
    ra_blocks_walk walk =
        ra_blocks_walk_begin(blocks, head, first / blocks->size, lo / blocks->size, (hi - 1) / blocks->size + 1);
    while (ra_blocks_walk_next(&walk, &column, &column_end))
        mark_members(lattice, keys, ra_max(lo, column * blocks->size), ra_min(hi, column_end * blocks->size), 0, words);
}

static void mark_head(const ra_plan *p, int64_t head, const ra_share *queries, const ra_share *keys, uint64_t *words)
{
    const ra_blocks *blocks = p->pattern.blocks;
    for (int branch = 0; branch < ra_pattern_branches(&p->pattern, head); branch++) {
        ra_lattice lattice = ra_pattern_lattice(&p->pattern, head, branch);
        int64_t begin = ra_branch_first(&p->pattern, &lattice);
        ra_interval done = {0, 0};
        for (int64_t i = 0; i < queries->ranges; i++) {
            ra_range range = ra_share_range(queries, i);
            int64_t end = range.end + p->offset;
            for (int64_t at = ra_max(begin, range.first + p->offset), next; at < end; at = next) {
                next = blocks ? ra_min(end, (at / blocks->size + 1) * blocks->size) : end;
                mark_branch(p, head, &lattice, at, next, keys, &done, words);
            }
        }
    }
}

/* Call `mark` for every plane: for its first query head, and for each further one that sees other keys. */
typedef void (*head_marker)(const ra_plan *p, int64_t head, const ra_share *from, const ra_share *on, uint64_t *words);

static void mark_planes(const ra_plan *p, int64_t planes, head_marker mark, const ra_share *from, const ra_share *on,
                        uint64_t *words)
{
    int64_t heads = p->heads / planes;
    for (int64_t plane = 0; plane < planes; plane++)
        for (int64_t first = plane * heads, head = first; head < first + heads; head++)
            if (head == first || !ra_pattern_same(&p->pattern, first, head))
                mark(p, head, from, on, words + plane * on->blocks);
}

/* Mark the keys of a share that one query sees. */
static void mark_row(ra_row_bits *bits, const ra_share *keys, uint64_t *words)
{
    for (int64_t i = ra_share_find(keys, bits->seen.lo); i < keys->ranges; i++) {
        ra_range range = ra_share_range(keys, i);
        int64_t lo = ra_max(range.first, bits->seen.lo), hi = ra_min(range.end, bits->seen.hi);
        int64_t origin = range.first / RA_KEY_BLOCK;
        for (int64_t block = lo / RA_KEY_BLOCK; block * RA_KEY_BLOCK < hi; block++)
            words[range.block + block - origin] |=
                ra_row_bits_word(bits, block * RA_KEY_BLOCK) &
                ra_bits(ra_max(0, lo - block * RA_KEY_BLOCK), hi - block * RA_KEY_BLOCK);
    }
}

/* Where there is a mask: query by query. */
static void mark_masked(const ra_plan *p, int64_t head, const ra_share *queries, const ra_share *keys, uint64_t *words)
{
    for (int branch = 0; branch < ra_pattern_branches(&p->pattern, head); branch++) {
        ra_row_bits bits;
        ra_row_bits_begin(&bits, &p->pattern, head, branch);
        for (int64_t i = 0; i < queries->ranges; i++) {
            ra_range range = ra_share_range(queries, i);
            for (int64_t query = range.first; query < range.end; query++)
                if (ra_row_bits_turn(&bits, query + p->offset))
                    mark_row(&bits, keys, words);
        }
    }
}

void ra_mark_needed(const ra_plan *plan, int64_t planes, const ra_share *queries, const ra_share *keys, uint64_t *words)
{
    for (int64_t batch = 0; batch < ra_plan_elements(plan); batch++) {
        ra_plan copy;
        const ra_plan *p = ra_plan_of_batch(plan, batch, &copy);
        if (batch > 0 && ra_plan_same_element(plan, batch, batch - 1))
            continue;
        if (ra_pattern_is_interval(&p->pattern))
            mark_intervals(p, queries, keys, words);
        else if (keys->rows > 0)
            mark_planes(p, planes, p->pattern.mask ? mark_masked : mark_head, queries, keys, words);
    }
}

/* ---- The queries that see some keys ------------------------------------------------------------------------------ */

/* The state of marking the queries of a share that see keys in a branch. */
typedef struct seer_marker {
    const ra_plan *plan;
    ra_lattice lattice;
    const ra_share *keys, *queries;
    uint64_t *words;
    int64_t done; /* members below this one are finished: rows of blocks come in order */
} seer_marker;

/* Mark the queries at positions `within` that see a key at positions lo <= k < hi. Calls come in order of the keys. */
static void mark_seers_of(seer_marker *m, int64_t lo, int64_t hi, ra_interval within)
{
    const ra_lattice *l = &m->lattice;
    const ra_pattern *p = &m->plan->pattern;
    ra_seers_walk walk = ra_seers_begin(p, l, ra_branch_members(l, lo, hi), ra_branch_members(l, within.lo, within.hi));
    for (ra_interval seers; ra_seers_next(&walk, &seers);) {
        seers.lo = ra_max(seers.lo, m->done);
        if (seers.lo >= seers.hi)
            continue;
        if (!p->ragged) /* packed sequences have gaps that other keys fill */
            m->done = seers.hi;
        mark_members(l, m->queries, ra_lattice_position(l, seers.lo), ra_lattice_position(l, seers.hi - 1) + 1,
                     m->plan->offset, m->words);
    }
}

/* The keys of the share at positions lo <= k < hi. */
static void mark_seers_between(seer_marker *m, int64_t lo, int64_t hi, ra_interval within)
{
    for (int64_t i = ra_share_find(m->keys, lo); i < m->keys->ranges; i++) {
        ra_range range = ra_share_range(m->keys, i);
        if (range.first >= hi)
            break;
        mark_seers_of(m, ra_max(lo, range.first), ra_min(hi, range.end), within);
    }
}

/* Queries at positions `within`, all of one row of blocks: the keys of the blocks that it keeps. */
static void mark_seers_in_row(seer_marker *m, int64_t head, ra_interval within)
{
    const ra_blocks *b = m->plan->pattern.blocks;
    int64_t first = ra_share_range(m->keys, 0).first / b->size, column, column_end;
    int64_t last = (ra_share_range(m->keys, m->keys->ranges - 1).end - 1) / b->size;
    ra_blocks_walk walk = ra_blocks_walk_begin(b, head, within.lo / b->size, first, last + 1);
    while (ra_blocks_walk_next(&walk, &column, &column_end))
        mark_seers_between(m, column * b->size, column_end * b->size, within);
}

/* Queries of a range: one row of blocks after the other. */
static void mark_seers_in_range(seer_marker *m, int64_t head, ra_range range)
{
    const ra_blocks *b = m->plan->pattern.blocks;
    int64_t end = range.end + m->plan->offset;
    for (int64_t at = ra_max(0, range.first + m->plan->offset), next; at < end; at = next) {
        next = ra_min(end, (at / b->size + 1) * b->size);
        mark_seers_in_row(m, head, (ra_interval){at, next});
    }
}

static void mark_seers_of_head(const ra_plan *p, int64_t head, const ra_share *keys, const ra_share *queries,
                               uint64_t *words)
{
    const ra_interval all = {p->offset, p->offset + p->q_len};
    for (int branch = 0; branch < ra_pattern_branches(&p->pattern, head); branch++) {
        seer_marker m = {p, ra_pattern_lattice(&p->pattern, head, branch), keys, queries, words, INT64_MIN};
        if (!p->pattern.blocks)
            mark_seers_between(&m, 0, p->kv_len, all);
        for (int64_t i = 0; i < queries->ranges && p->pattern.blocks; i++)
            mark_seers_in_range(&m, head, ra_share_range(queries, i));
    }
}

/* Where there is a mask: query by query. */
static void mark_masked_seers(const ra_plan *p, int64_t head, const ra_share *keys, const ra_share *queries,
                              uint64_t *words)
{
    for (int branch = 0; branch < ra_pattern_branches(&p->pattern, head); branch++) {
        ra_row_bits bits;
        ra_row_bits_begin(&bits, &p->pattern, head, branch);
        for (int64_t i = 0; i < queries->ranges; i++) {
            ra_range range = ra_share_range(queries, i);
            for (int64_t query = range.first; query < range.end; query++)
                if (ra_row_bits_turn(&bits, query + p->offset) && ra_row_bits_sees(&bits, keys))
                    ra_mark_range(queries, query, query + 1, words);
        }
    }
}

void ra_mark_seers(const ra_plan *plan, int64_t planes, const ra_share *keys, const ra_share *queries, uint64_t *words)
{
    for (int64_t batch = 0; batch < ra_plan_elements(plan) && keys->rows > 0 && queries->rows > 0; batch++) {
        ra_plan copy;
        const ra_plan *p = ra_plan_of_batch(plan, batch, &copy);
        if (batch == 0 || !ra_plan_same_element(plan, batch, batch - 1))
            mark_planes(p, planes, p->pattern.mask ? mark_masked_seers : mark_seers_of_head, keys, queries, words);
    }
}

void ra_mark_extract(const uint64_t *whole, int64_t whole_blocks, int64_t planes, const ra_share *keys, uint64_t *words)
{
    for (int64_t plane = 0; plane < planes; plane++)
        for (int64_t i = 0; i < keys->ranges; i++) {
            ra_range range = ra_share_range(keys, i);
            int64_t first = range.first / RA_KEY_BLOCK, last = (range.end - 1) / RA_KEY_BLOCK;
            for (int64_t block = first; block <= last; block++)
                words[plane * keys->blocks + range.block + block - first] =
                    whole[plane * whole_blocks + block] &
                    ra_bits(ra_max(0, range.first - block * RA_KEY_BLOCK), range.end - block * RA_KEY_BLOCK);
        }
}

void ra_mark_shared(const ra_share *other, int64_t lo, int64_t hi, const ra_share *keys, uint64_t *words)
{
    memset(words, 0, (size_t)keys->blocks * sizeof *words);
    for (int64_t i = ra_share_find(other, lo); i < other->ranges; i++) {
        ra_range range = ra_share_range(other, i);
        if (range.first >= hi)
            break;
        ra_mark_range(keys, ra_max(lo, range.first), ra_min(hi, range.end), words);
    }
}

int64_t ra_marked(const uint64_t *words, int64_t blocks)
{
    int64_t marks = 0;
    for (int64_t i = 0; i < blocks; i++)
        marks += __builtin_popcountll(words[i]);
    return marks;
}

void ra_marks_before(const uint64_t *words, int64_t blocks, int64_t *before)
{
    int64_t marks = 0;
    for (int64_t i = 0; i < blocks; i++) {
        before[i] = marks;
        marks += __builtin_popcountll(words[i]);
    }
}

ra_mark_walk ra_mark_walk_begin(const uint64_t *some, const uint64_t *held, int64_t blocks)
{
    return (ra_mark_walk){some, held, blocks, 0, 0, blocks ? some[0] : 0};
}

bool ra_mark_walk_next(ra_mark_walk *w, ra_mark_run *run)
{
    run->rows = 0;
    while (w->block < w->blocks) {
        uint64_t held = w->held[w->block];
        if (w->left) {
            int first = __builtin_ctzll(w->left);
            /* From here on: a mark of `held` that is not one of `some` ends the run. */
            uint64_t missing = held & ~w->left & ~ra_bits(0, first);
            int end = missing ? __builtin_ctzll(missing) : RA_KEY_BLOCK;
            int64_t row = w->row + __builtin_popcountll(held & ra_bits(0, first));
            int64_t rows = __builtin_popcountll(w->left & ra_bits(0, end));
            if (run->rows && run->row + run->rows != row)
                return true;
            if (!run->rows)
                run->row = row;
            run->rows += rows;
            w->left &= ~ra_bits(0, end);
            if (missing)
                return true;
        }
        w->row += __builtin_popcountll(held);
        w->block++;
        w->left = w->block < w->blocks ? w->some[w->block] : 0;
    }
    return run->rows > 0;
}

bool ra_position_walk_next(ra_position_walk *w, ra_position_run *run)
{
    run->rows = 0;
    for (; w->range < w->share->ranges && !run->rows; w->range += w->at == INT64_MIN) {
        ra_range range = ra_share_range(w->share, w->range);
        int64_t origin = range.first / RA_KEY_BLOCK, at = ra_max(w->at, range.first);
        while (at < range.end) {
            int64_t block = at / RA_KEY_BLOCK;
            uint64_t from = w->words[range.block + block - origin] & ra_bits(at % RA_KEY_BLOCK, RA_KEY_BLOCK);
            if (!run->rows) { /* look for the first mark */
                at = from ? block * RA_KEY_BLOCK + __builtin_ctzll(from) : (block + 1) * RA_KEY_BLOCK;
                if (!from)
                    continue;
                *run = (ra_position_run){at, 0, w->row};
            }
            uint64_t gap = ~from & ra_bits(at % RA_KEY_BLOCK, RA_KEY_BLOCK);
            int64_t end = gap ? block * RA_KEY_BLOCK + __builtin_ctzll(gap) : (block + 1) * RA_KEY_BLOCK;
            run->rows += end - at;
            at = end;
            if (gap)
                break;
        }
        w->row += run->rows;
        w->at = at < range.end ? at : INT64_MIN;
    }
    return run->rows > 0;
}
