/* SPDX-License-Identifier: Apache-2.0 */
/* What a query sees of 64 keys, from all terms of a pattern. See row_bits.h. */
#include "plan/row_bits.h"

#include "base/bits.h"
#include "base/checked.h"
#include "plan/taken.h"

void ra_row_bits_begin(ra_row_bits *b, const ra_pattern *p, int64_t head, int branch)
{
    b->pattern = p;
    b->head = head;
    b->branch = branch;
    b->lattice = ra_pattern_lattice(p, head, branch);
    b->row = b->window = -1;
}

bool ra_row_bits_turn(ra_row_bits *b, int64_t position)
{
    const ra_lattice *l = &b->lattice;
    int64_t member = position;
    if (!ra_lattice_plain(l)) {
        if (position < ra_branch_first(b->pattern, l) || !ra_lattice_has(l, position))
            return false;
        member = ra_lattice_below(l, position);
    }
    ra_interval members = ra_branch_interval(b->pattern, l, member);
    if (members.lo >= members.hi)
        return false;
    b->seen = (ra_interval){ra_lattice_position(l, members.lo), ra_lattice_position(l, members.hi - 1) + 1};
    b->position = position;
    return true;
}

/* Whether the query's row of blocks keeps a column. */
static bool keeps(ra_row_bits *b, int64_t column)
{
    const ra_blocks *blocks = b->pattern->blocks;
    int64_t row = b->position / blocks->size, window = column / (64 * RA_BLOCKS_WINDOW) * (64 * RA_BLOCKS_WINDOW);
    if (b->row != row || b->window != window) {
        int64_t words = ra_min(RA_BLOCKS_WINDOW, ra_blocks_words(blocks->count - window));
        ra_blocks_row(blocks, b->head, row, window, words, b->kept);
        b->row = row;
        b->window = window;
    }
    return b->kept[(column - window) / 64] >> (column - window) % 64 & 1;
}

static uint64_t kept_keys(ra_row_bits *b, int64_t first, uint64_t bits)
{
    int64_t size = b->pattern->blocks->size;
    uint64_t kept = 0;
    while (bits) { /* a column at a time */
        int64_t key = first + __builtin_ctzll(bits), column = key / size;
        uint64_t here = bits & ra_bits(0, (column + 1) * size - first);
        kept |= keeps(b, column) ? here : 0;
        bits &= ~here;
    }
    return kept;
}

/* Keys that are members of the branch, and that no earlier branch has taken. */
static uint64_t member_keys(const ra_row_bits *b, int64_t first, uint64_t bits)
{
    bool exclusive = ra_pattern_exclusive(b->pattern, b->branch);
    uint64_t members = 0;
    for (; bits; bits &= bits - 1) {
        int64_t key = first + __builtin_ctzll(bits);
        bool taken = exclusive && ra_is_taken(b->pattern, b->head, b->branch, b->position, key);
        members |= ra_lattice_has(&b->lattice, key) && !taken ? bits & -bits : 0;
    }
    return members;
}

uint64_t ra_row_bits_word(ra_row_bits *b, int64_t first)
{
    const ra_pattern *p = b->pattern;
    uint64_t bits = ra_bits(ra_max(0, b->seen.lo - first), b->seen.hi - first);
    if (bits && p->mask)
        bits &= ra_mask_word(p->mask, p->batch, b->head, b->position - p->offset, first);
    if (bits && p->blocks)
        bits = kept_keys(b, first, bits);
    return bits && p->dilation ? member_keys(b, first, bits) : bits;
}

bool ra_row_bits_sees(ra_row_bits *b, const ra_share *keys)
{
    for (int64_t i = ra_share_find(keys, b->seen.lo); i < keys->ranges; i++) {
        ra_range range = ra_share_range(keys, i);
        int64_t lo = ra_max(range.first, b->seen.lo), hi = ra_min(range.end, b->seen.hi);
        for (int64_t first = lo / 64 * 64; first < hi; first += 64)
            if (ra_row_bits_word(b, first) & ra_bits(ra_max(0, lo - first), hi - first))
                return true;
    }
    return false;
}
