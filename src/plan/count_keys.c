/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visible pairs of a share of the keys, from the pattern: the sum over all queries that see them. count.c counts for a
 * share of the queries. If all terms are intervals, they are counted by stretches of queries over which each bound is
 * constant or moves with the query; in dilated patterns key by key; in block-sparse ones by rows of blocks.
 */
#include "base/bits.h"
#include "base/checked.h"
#include "plan/batch.h"
#include "plan/row_bits.h"
#include "plan/taken.h"

#include <stdlib.h>

typedef struct counter {
    const ra_plan *plan;
    const ra_share *keys;
    int64_t head;
    int branch;
    ra_lattice lattice;
    uint64_t *bits;   /* block-sparse: the blocks that a row of them keeps, */
    int64_t *columns; /* and how many keys of the share each column has */
} counter;

static ra_interval all_queries(const ra_plan *p)
{
    return (ra_interval){p->offset, p->offset + p->q_len};
}

/* ---- Intervals --------------------------------------------------------------------------------------------------- */

/* The sum of first, first + step, ... (`count` of them, step 0 or 1), each at least 0 and at most `most`. */
static double sum_between(int64_t first, int64_t step, int64_t count, int64_t most)
{
    if (step == 0)
        return (double)count * (double)ra_max(0, ra_min(first, most));
    int64_t below = ra_max(0, ra_min(count, -first)), above = ra_max(0, ra_min(count, first + count - most));
    int64_t inner = ra_max(0, count - below - above), lowest = first + below;
    return (double)above * (double)most + (double)inner * (double)lowest + (double)inner * (double)(inner - 1) / 2;
}

/* Count for the queries at `count` positions from `first` on, over which each bound is constant or moves with the
 * query. */
static double count_steady(const counter *c, int64_t first, int64_t count)
{
    ra_interval head = ra_pattern_interval(&c->plan->pattern, first);
    ra_interval tail = ra_pattern_interval(&c->plan->pattern, first + count - 1);
    double pairs = 0;
    if (head.lo >= head.hi)
        return 0;
    for (int64_t i = ra_share_find(c->keys, head.lo); i < c->keys->ranges; i++) {
        ra_range range = ra_share_range(c->keys, i);
        int64_t rows = range.end - range.first;
        if (range.first >= tail.hi)
            break;
        pairs += sum_between(head.hi - range.first, tail.hi > head.hi, count, rows) -
                 sum_between(head.lo - range.first, tail.lo > head.lo, count, rows);
    }
    return pairs;
}

static double count_intervals(const counter *c)
{
    ra_interval queries = all_queries(c->plan);
    double pairs = 0;
    for (int64_t at = queries.lo, next; at < queries.hi; at = next) {
        next = ra_pattern_steady_end(&c->plan->pattern, at, queries.hi);
        pairs += count_steady(c, at, next - at);
    }
    return pairs;
}

/* ---- Dilated ----------------------------------------------------------------------------------------------------- */

static double count_key(const counter *c, int64_t member, ra_interval queries)
{
    const ra_pattern *p = &c->plan->pattern;
    ra_interval seers = ra_branch_seers(p, &c->lattice, (ra_interval){member, member + 1}, queries);
    if (seers.lo >= seers.hi || !ra_pattern_exclusive(p, c->branch))
        return (double)(seers.hi - seers.lo);
    int64_t lo = ra_lattice_position(&c->lattice, seers.lo), hi = ra_lattice_position(&c->lattice, seers.hi - 1) + 1;
    return (double)ra_not_taken(p, c->head, c->branch, ra_lattice_position(&c->lattice, member), lo, hi);
}

static double count_by_key(const counter *c)
{
    ra_interval all = all_queries(c->plan), queries = ra_branch_members(&c->lattice, all.lo, all.hi);
    double pairs = 0;
    for (int64_t i = 0; i < c->keys->ranges; i++) {
        ra_range range = ra_share_range(c->keys, i);
        ra_interval members = ra_branch_members(&c->lattice, range.first, range.end);
        for (int64_t member = members.lo; member < members.hi; member++)
            pairs += count_key(c, member, queries);
    }
    return pairs;
}

/* ---- Block-sparse ------------------------------------------------------------------------------------------------ */

static bool kept(const counter *c, int64_t column)
{
    return c->bits[column / 64] >> (column % 64) & 1;
}

/* What a query sees of the members of a range of keys. */
static double count_members(const counter *c, int64_t position, ra_interval members)
{
    const ra_pattern *p = &c->plan->pattern;
    double pairs = 0;
    if (!ra_pattern_exclusive(p, c->branch))
        return (double)ra_max(0, members.hi - members.lo);
    for (int64_t member = members.lo; member < members.hi; member++)
        pairs += !ra_is_taken(p, c->head, c->branch, position, ra_lattice_position(&c->lattice, member));
    return pairs;
}

/* What a query sees of a column of blocks: the members `seen`, as far as they are in it and in the share. */
static double count_column(const counter *c, int64_t position, int64_t column, ra_interval seen)
{
    int64_t size = c->plan->pattern.blocks->size, lo = column * size, hi = lo + size;
    double pairs = 0;
    for (int64_t i = ra_share_find(c->keys, lo); i < c->keys->ranges; i++) {
        ra_range range = ra_share_range(c->keys, i);
        if (range.first >= hi)
            break;
        ra_interval in = ra_branch_members(&c->lattice, ra_max(lo, range.first), ra_min(hi, range.end));
        in = (ra_interval){ra_max(in.lo, seen.lo), ra_min(in.hi, seen.hi)};
        pairs += count_members(c, position, in);
    }
    return pairs;
}

static double count_query(const counter *c, int64_t member)
{
    int64_t size = c->plan->pattern.blocks->size, position = ra_lattice_position(&c->lattice, member);
    ra_interval seen = ra_branch_interval(&c->plan->pattern, &c->lattice, member);
    double pairs = 0;
    if (seen.lo >= seen.hi)
        return 0;
    int64_t last = ra_lattice_position(&c->lattice, seen.hi - 1) / size;
    for (int64_t column = ra_lattice_position(&c->lattice, seen.lo) / size; column <= last; column++)
        if (kept(c, column) && c->columns[column])
            pairs += count_column(c, position, column, seen);
    return pairs;
}

/* The queries at positions first <= i < end, all of the row of blocks that is at hand. */
static double count_row(const counter *c, int64_t first, int64_t end)
{
    const ra_pattern *p = &c->plan->pattern;
    double pairs = 0;
    if (!p->bounded && !p->dilation) {
        for (int64_t column = 0; column < p->blocks->count; column++)
            pairs += kept(c, column) ? (double)c->columns[column] : 0;
        return pairs * (double)(end - first);
    }
    ra_interval queries = ra_branch_members(&c->lattice, first, end);
    for (int64_t member = queries.lo; member < queries.hi; member++)
        pairs += count_query(c, member);
    return pairs;
}

static double count_by_row(const counter *c)
{
    const ra_blocks *b = c->plan->pattern.blocks;
    ra_interval queries = all_queries(c->plan);
    double pairs = 0;
    for (int64_t at = ra_max(0, queries.lo), next; at < queries.hi; at = next) {
        next = ra_min(queries.hi, (at / b->size + 1) * b->size);
        ra_blocks_row(b, c->head, at / b->size, 0, ra_blocks_words(b->count), c->bits);
        pairs += count_row(c, at, next);
    }
    return pairs;
}

static ra_status take_memory(counter *c)
{
    const ra_blocks *b = c->plan->pattern.blocks;
    if (!b)
        return RA_OK;
    c->bits = malloc((size_t)ra_blocks_words(b->count) * sizeof *c->bits);
    c->columns = calloc((size_t)b->count, sizeof *c->columns);
    if (!c->bits || !c->columns)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: counting the pairs of a pattern of %lld blocks",
                       (long long)b->count);
    for (int64_t column = 0; column < b->count; column++)
        c->columns[column] = ra_share_rows_between(c->keys, column * b->size, (column + 1) * b->size);
    return RA_OK;
}

/* ---- Masks ------------------------------------------------------------------------------------------------------- */

/* Count the keys of a range that the current query sees. */
static int64_t masked_between(ra_row_bits *bits, ra_range range)
{
    int64_t lo = ra_max(range.first, bits->seen.lo), hi = ra_min(range.end, bits->seen.hi), pairs = 0;
    for (int64_t first = lo / 64 * 64; first < hi; first += 64)
        pairs += __builtin_popcountll(ra_row_bits_word(bits, first) & ra_bits(ra_max(0, lo - first), hi - first));
    return pairs;
}

/* Query by query. */
static double count_masked(const counter *c)
{
    ra_interval queries = all_queries(c->plan);
    ra_row_bits bits;
    double pairs = 0;
    ra_row_bits_begin(&bits, &c->plan->pattern, c->head, c->branch);
    for (int64_t position = queries.lo; position < queries.hi; position++) {
        if (!ra_row_bits_turn(&bits, position))
            continue;
        for (int64_t i = 0; i < c->keys->ranges; i++)
            pairs += (double)masked_between(&bits, ra_share_range(c->keys, i));
    }
    return pairs;
}

/* ---- Heads ------------------------------------------------------------------------------------------------------- */

static double count_head(counter *c, int64_t head)
{
    const ra_pattern *p = &c->plan->pattern;
    double pairs = 0;
    c->head = head;
    if (ra_pattern_is_interval(p))
        return count_intervals(c);
    for (c->branch = 0; c->branch < ra_pattern_branches(p, head); c->branch++) {
        c->lattice = ra_pattern_lattice(p, head, c->branch);
        pairs += (p->mask ? count_masked : p->blocks ? count_by_row : count_by_key)(c);
    }
    return pairs;
}

/* Heads that see the same keys have the same counts; such heads are seldom far apart. */
enum { REMEMBERED = 64 };

static double count_element(counter *c, const ra_plan *p, int64_t batch)
{
    double known[REMEMBERED], pairs = 0;
    ra_plan copy;
    c->plan = ra_plan_of_batch(p, batch, &copy);
    for (int64_t head = 0; head < p->heads; head++) {
        int64_t like = ra_max(0, head - REMEMBERED + 1);
        while (like < head && !ra_pattern_same(&p->pattern, like, head))
            like++;
        known[head % REMEMBERED] = like < head ? known[like % REMEMBERED] : count_head(c, head);
        pairs += known[head % REMEMBERED];
    }
    return pairs;
}

ra_status ra_count_key_pairs(const ra_plan *p, const ra_share *keys, double *pairs)
{
    counter c = {.plan = p, .keys = keys};
    double one = 0, times = ra_plan_by_batch(p) ? 1 : (double)p->batch;
    *pairs = 0;
    ra_status status = take_memory(&c);
    for (int64_t batch = 0; batch < ra_plan_elements(p) && keys->rows > 0 && !status; batch++) {
        if (batch == 0 || !ra_plan_same_element(p, batch, batch - 1))
            one = count_element(&c, p, batch);
        *pairs += times * one;
    }
    free(c.bits);
    free(c.columns);
    return status;
}
