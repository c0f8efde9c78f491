#include "ring/need.h"

#include "base/checked.h"

/* Bits from <= i < to of a word. */
static uint64_t bits(int64_t from, int64_t to)
{
    uint64_t upto = to >= RA_KEY_BLOCK ? UINT64_MAX : (UINT64_C(1) << to) - 1;
    return upto & ~((UINT64_C(1) << from) - 1);
}

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
                bits(ra_max(0, first - block * RA_KEY_BLOCK), end - block * RA_KEY_BLOCK);
    }
}

void ra_mark_needed(const ra_plan *p, const ra_share *queries, const ra_share *keys, uint64_t *words)
{
    ra_interval joined = {0, 0};
    for (int64_t i = 0; i < queries->ranges; i++) {
        ra_range range = ra_share_range(queries, i);
        ra_interval seen = ra_pattern_reach(&p->pattern, range.first + p->offset, range.end - range.first);
        if (seen.lo >= seen.hi)
            continue;
        if (seen.lo > joined.hi) {
            ra_mark_range(keys, joined.lo, joined.hi, words);
            joined = seen;
        } else {
            joined.lo = joined.lo < joined.hi ? ra_min(joined.lo, seen.lo) : seen.lo;
            joined.hi = ra_max(joined.hi, seen.hi);
        }
    }
    ra_mark_range(keys, joined.lo, joined.hi, words);
}

void ra_mark_owned(const ra_share *owned, const ra_share *keys, uint64_t *words)
{
    if (keys->rows == 0)
        return;
    int64_t lo = ra_share_range(keys, 0).first, hi = ra_share_range(keys, keys->ranges - 1).end;
    for (int64_t i = ra_share_find(owned, lo); i < owned->ranges; i++) {
        ra_range range = ra_share_range(owned, i);
        if (range.first >= hi)
            break;
        ra_mark_range(keys, range.first, range.end, words);
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
            uint64_t missing = held & ~w->left & ~bits(0, first);
            int end = missing ? __builtin_ctzll(missing) : RA_KEY_BLOCK;
            int64_t row = w->row + __builtin_popcountll(held & bits(0, first));
            int64_t rows = __builtin_popcountll(w->left & bits(0, end));
            if (run->rows && run->row + run->rows != row)
                return true;
            if (!run->rows)
                run->row = row;
            run->rows += rows;
            w->left &= ~bits(0, end);
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
            uint64_t from = w->words[range.block + block - origin] & bits(at % RA_KEY_BLOCK, RA_KEY_BLOCK);
            if (!run->rows) { /* look for the first mark */
                at = from ? block * RA_KEY_BLOCK + __builtin_ctzll(from) : (block + 1) * RA_KEY_BLOCK;
                if (!from)
                    continue;
                *run = (ra_position_run){at, 0, w->row};
            }
            uint64_t gap = ~from & bits(at % RA_KEY_BLOCK, RA_KEY_BLOCK);
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
