/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a query sees no key at all. Every run asks this for every row that it finishes. See pattern.h. */
#include "base/checked.h"
#include "plan/row_bits.h"

/* Whether a block that the position's row of blocks keeps has one of these members of a lattice. */
static bool keeps_any(const ra_pattern *p, int64_t head, int64_t position, const ra_lattice *l, ra_interval members)
{
    const ra_blocks *b = p->blocks;
    if (members.lo >= members.hi)
        return false;
    int64_t first = ra_lattice_position(l, members.lo) / b->size,
            last = ra_lattice_position(l, members.hi - 1) / b->size;
    ra_blocks_walk walk = ra_blocks_walk_begin(b, head, position / b->size, first, last + 1);
    while (ra_blocks_walk_next(&walk, &first, &last)) {
        ra_interval kept = ra_branch_members(l, first * b->size, last * b->size);
        if (ra_max(kept.lo, members.lo) < ra_min(kept.hi, members.hi))
            return true;
    }
    return false;
}

/* With a mask of pairs: the search ends at the first word with a visible key. */
static bool blind_by_mask(const ra_pattern *p, int64_t head, int64_t position)
{
    for (int branch = 0; branch < ra_pattern_branches(p, head); branch++) {
        ra_row_bits bits;
        ra_row_bits_begin(&bits, p, head, branch);
        if (!ra_row_bits_turn(&bits, position))
            continue;
        for (int64_t first = bits.seen.lo / 64 * 64; first < bits.seen.hi; first += 64)
            if (ra_row_bits_word(&bits, first))
                return false;
    }
    return true;
}

/*
 * A position of the sequence sees itself through every term, with three exceptions: a dilated term whose branches do
 * not select it, kept blocks without the diagonal, and lengths that hide its key. If a query behind the last key sees a
 * key through intervals, it sees the last one (of its row of blocks, if there are blocks). Through a branch it need
 * not.
 */
bool ra_pattern_blind(const ra_pattern *p, int64_t head, int64_t position)
{
    if (p->blocks && ra_blocks_row_at(p->blocks, position) < 0)
        return true;
    if (p->mask)
        return blind_by_mask(p, head, position);
    ra_interval seen = ra_pattern_interval(p, position);
    bool itself = !p->blocks || (p->blocks->local >= 0 && !p->lengths && (!p->dilation || position < p->kv_len));
    if ((!p->dilation && itself) || seen.lo >= seen.hi)
        return seen.lo >= seen.hi;
    for (int i = 0; i < ra_pattern_branches(p, head); i++) {
        ra_lattice lattice = ra_pattern_lattice(p, head, i);
        if (!ra_lattice_has(&lattice, position))
            continue;
        ra_interval members = ra_branch_interval(p, &lattice, ra_lattice_below(&lattice, position));
        if (members.lo < members.hi && (itself || keeps_any(p, head, position, &lattice, members)))
            return false;
    }
    return true;
}
