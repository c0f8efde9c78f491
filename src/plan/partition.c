/* SPDX-License-Identifier: Apache-2.0 */
/* Makes partitions by order or by the caller's pieces, and answers which rank has which rows. See partition.h. */
#include "plan/partition.h"

#include "base/blocking.h"
#include "base/checked.h"

#include <stdlib.h>

/* ---- Shares ------------------------------------------------------------------------------------------------------ */

static int64_t blocks_of(int64_t first, int64_t end)
{
    return first < end ? (end - 1) / RA_KEY_BLOCK - first / RA_KEY_BLOCK + 1 : 0;
}

ra_share ra_share_of_range(int64_t first, int64_t end)
{
    ra_share share = {0};
    if (first >= end)
        return share;
    share.rows = end - first;
    share.ranges = 1;
    share.blocks = blocks_of(first, end);
    share.whole = (ra_range){first, end, 0, 0};
    return share;
}

ra_range ra_share_range(const ra_share *s, int64_t i)
{
    if (s->list)
        return s->list[i];
    if (!s->step)
        return s->whole;
    int64_t first = (s->first + i * s->step) * RA_KEY_BLOCK;
    return (ra_range){first, ra_min(first + RA_KEY_BLOCK, s->length), i * RA_KEY_BLOCK, i};
}

/* Of stripes: the first from the position's own block on. The last one may end before its block does. */
static int64_t find_stripe(const ra_share *s, int64_t position)
{
    int64_t before = ra_max(0, position / RA_KEY_BLOCK - s->first);
    return position < s->length ? ra_min(ra_ceil_div(before, s->step), s->ranges) : s->ranges;
}

int64_t ra_share_find(const ra_share *s, int64_t position)
{
    if (!s->list && s->step)
        return find_stripe(s, position);
    int64_t low = 0, high = s->ranges;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ra_share_range(s, middle).end > position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int64_t ra_share_rows_below(const ra_share *s, int64_t position)
{
    int64_t i = ra_share_find(s, position);
    if (i == s->ranges)
        return s->rows;
    ra_range range = ra_share_range(s, i);
    return range.row + ra_max(0, position - range.first);
}

int64_t ra_share_rows_between(const ra_share *s, int64_t lo, int64_t hi)
{
    return lo < hi ? ra_share_rows_below(s, hi) - ra_share_rows_below(s, lo) : 0;
}

/* ---- Partitions -------------------------------------------------------------------------------------------------- */

ra_piece ra_even_part(int64_t length, int64_t parts, int64_t i)
{
    int64_t blocks = ra_ceil_div(length, RA_KEY_BLOCK), each = blocks / parts, more = blocks % parts;
    /* The first `more` parts have a block more: i * blocks / parts without its overflow. */
    int64_t first = i * each + ra_min(i, more), end = (i + 1) * each + ra_min(i + 1, more);
    return (ra_piece){ra_min(first * RA_KEY_BLOCK, length), ra_min(end * RA_KEY_BLOCK, length), (int)i};
}

void ra_partition_clear(ra_partition *p)
{
    free(p->parts);
    free(p->ranges);
    free(p->starts);
    *p = (ra_partition){0};
}

static ra_status check_pieces(const char *what, int64_t length, int ranks, const ra_piece *pieces, int64_t count)
{
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const ra_piece *piece = &pieces[i];
        if (piece->first != at || piece->end < piece->first || piece->end > length)
            return ra_fail(
                RA_ERROR_ARGUMENT, "%s pieces: piece %lld is rows [%lld, %lld): must begin at %lld and end by %lld",
                what, (long long)i, (long long)piece->first, (long long)piece->end, (long long)at, (long long)length);
        if (piece->rank < 0 || piece->rank >= ranks)
            return ra_fail(RA_ERROR_ARGUMENT, "%s pieces: piece %lld is on rank %d: must be 0..%d", what, (long long)i,
                           piece->rank, ranks - 1);
        at = piece->end;
    }
    if (at != length)
        return ra_fail(RA_ERROR_ARGUMENT, "%s pieces: they end at row %lld of %lld", what, (long long)at,
                       (long long)length);
    return RA_OK;
}

/* The i-th piece of the sequence, by the order or by the caller's list. */
static ra_piece piece_at(const ra_partition *p, ra_order order, const ra_piece *pieces, int64_t i)
{
    if (pieces)
        return pieces[i];
    ra_piece piece = ra_even_part(p->length, order == RA_ORDER_ZIGZAG ? 2 * (int64_t)p->ranks : p->ranks, i);
    if (order == RA_ORDER_ZIGZAG && i >= p->ranks)
        piece.rank = (int)(2 * (int64_t)p->ranks - 1 - i);
    return piece;
}

/*
 * The lists by position and by rank. Empty pieces are left out, and a rank's neighbouring ones become one range, but
 * not those of an order: ranges of the same sizes on all ranks are easier to keep.
 */
static void fill(ra_partition *p, ra_order order, const ra_piece *pieces, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        ra_piece piece = piece_at(p, order, pieces, i);
        ra_owned *last = p->part_count ? &p->parts[p->part_count - 1] : NULL;
        if (piece.first == piece.end)
            continue;
        if (pieces && last && last->rank == piece.rank)
            last->end = piece.end;
        else
            p->parts[p->part_count++] = (ra_owned){piece.first, piece.end, 0, piece.rank};
    }
    for (int64_t i = 0; i < p->part_count; i++)
        p->starts[p->parts[i].rank + 1]++;
    for (int r = 0; r < p->ranks; r++)
        p->starts[r + 1] += p->starts[r];
    /* starts[r] walks through rank r's ranges as they are filled, and is put back afterwards. */
    for (int64_t i = 0; i < p->part_count; i++) {
        ra_owned *part = &p->parts[i];
        ra_range *range = &p->ranges[p->starts[part->rank]++];
        *range = (ra_range){part->first, part->end, 0, 0};
    }
    for (int r = p->ranks; r > 0; r--)
        p->starts[r] = p->starts[r - 1];
    p->starts[0] = 0;
    for (int r = 0; r < p->ranks; r++)
        for (int64_t i = p->starts[r] + 1; i < p->starts[r + 1]; i++) {
            const ra_range *before = &p->ranges[i - 1];
            p->ranges[i].row = before->row + before->end - before->first;
            p->ranges[i].block = before->block + blocks_of(before->first, before->end);
        }
    for (int64_t i = 0; i < p->part_count; i++) {
        ra_share share = ra_partition_share(p, p->parts[i].rank);
        p->parts[i].row = ra_share_rows_below(&share, p->parts[i].first);
    }
}

ra_status ra_partition_make(ra_partition *p, const char *what, int64_t length, int ranks, ra_order order,
                            const ra_piece *pieces, int64_t count)
{
    *p = (ra_partition){.length = length, .ranks = ranks};
    ra_status status = pieces ? check_pieces(what, length, ranks, pieces, count) : RA_OK;
    if (status)
        return status;
    if (!pieces && order == RA_ORDER_STRIPED && ranks > 1) {
        p->stripes = ranks;
        return RA_OK;
    }
    if (!pieces)
        count = order == RA_ORDER_ZIGZAG ? 2 * (int64_t)ranks : ranks;
    p->room = count;
    p->parts = calloc((size_t)count, sizeof *p->parts);
    p->ranges = calloc((size_t)count, sizeof *p->ranges);
    p->starts = calloc((size_t)ranks + 1, sizeof *p->starts);
    if (!p->parts || !p->ranges || !p->starts)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the split of %lld rows over %d ranks", (long long)length,
                       ranks);
    fill(p, order, pieces, count);
    return RA_OK;
}

ra_share ra_partition_share(const ra_partition *p, int rank)
{
    ra_share share = {0};
    if (p->stripes) {
        int64_t blocks = ra_ceil_div(p->length, RA_KEY_BLOCK);
        share.length = p->length;
        share.first = rank;
        share.step = p->stripes;
        share.ranges = share.blocks = rank < blocks ? ra_ceil_div(blocks - rank, p->stripes) : 0;
    } else {
        share.list = p->ranges + p->starts[rank];
        share.ranges = p->starts[rank + 1] - p->starts[rank];
    }
    if (share.ranges == 0)
        return (ra_share){0};
    ra_range last = ra_share_range(&share, share.ranges - 1);
    share.rows = last.row + last.end - last.first;
    share.blocks = last.block + blocks_of(last.first, last.end);
    return share;
}

int64_t ra_partition_find(const ra_partition *p, int64_t position)
{
    int64_t low = 0, high = p->part_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (p->parts[middle].end > position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

ra_owned ra_partition_owner(const ra_partition *p, int64_t position)
{
    if (p->stripes) {
        int64_t block = position / RA_KEY_BLOCK, first = block * RA_KEY_BLOCK;
        return (ra_owned){first, ra_min(first + RA_KEY_BLOCK, p->length), block / p->stripes * RA_KEY_BLOCK,
                          (int)(block % p->stripes)};
    }
    return p->parts[ra_partition_find(p, position)];
}

int64_t ra_partition_bytes(const ra_partition *p)
{
    int64_t entries = p->stripes ? 0 : p->room, starts = p->stripes ? 0 : p->ranks + 1;
    return entries * (int64_t)(sizeof *p->parts + sizeof *p->ranges) + starts * (int64_t)sizeof *p->starts;
}
