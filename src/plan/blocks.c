/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks a row of blocks keeps, as bits and as a count, for every setting of a block-sparse pattern. The order of
 * random blocks: shuffle.c; parsing: term_blocks.c. See blocks.h.
 */
#include "plan/blocks.h"

#include "base/checked.h"
#include "plan/shuffle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ra_blocks_free(ra_blocks *blocks)
{
    if (blocks)
        free(blocks->mask);
    free(blocks);
}

int64_t ra_blocks_bytes(const ra_blocks *b)
{
    int64_t masks = !b->mask ? 0 : b->mask_by_head ? b->heads : 1;
    return (int64_t)sizeof *b + masks * b->count * ra_blocks_words(b->count) * (int64_t)sizeof *b->mask;
}

/* ---- Rows of blocks ---------------------------------------------------------------------------------------------- */

/* How many blocks a row is filled to: `extra` rows, spread evenly over those that are not global, have one more. */
static int64_t row_target(const ra_blocks *b, int64_t row)
{
    int64_t rows = b->count - b->global, i = row - b->global;
    /* floor((i + 1) extra / rows) - floor(i extra / rows), in 128 bits */
    __extension__ typedef __int128 wide;
    int64_t more = (int64_t)(((wide)i + 1) * b->extra / rows - (wide)i * b->extra / rows);
    return b->filled + more;
}

/* Blocks that local and global terms keep in a row that is not global. Without a mask, so the diagonal is kept. */
static int64_t row_local(const ra_blocks *b, int64_t row)
{
    int64_t lo = ra_max(b->global, ra_max(0, row - b->local)), hi = ra_min(b->count, ra_add_clamped(row + 1, b->local));
    return b->global + hi - lo;
}

/* Random blocks of a row. */
static int64_t row_random(const ra_blocks *b, int64_t row)
{
    if (b->wanted == 0)
        return b->random;
    return row < b->global ? 0 : row_target(b, row) - row_local(b, row);
}

bool ra_blocks_countable(const ra_blocks *b)
{
    return b->wanted > 0 || (!b->stride && !b->mask);
}

int64_t ra_blocks_kept(const ra_blocks *b, int64_t row)
{
    if (row < b->global)
        return b->count;
    return b->wanted > 0 ? row_target(b, row) : ra_min(b->count, ra_add_clamped(row_local(b, row), b->random));
}

/* A window of columns as bits. */
typedef struct window {
    int64_t first, end; /* columns */
    uint64_t *bits;
} window;

static void set_range(const window *w, int64_t lo, int64_t hi)
{
    lo = ra_max(lo, w->first) - w->first;
    hi = ra_min(hi, w->end) - w->first;
    for (int64_t word = lo / 64; word * 64 < hi; word++) {
        uint64_t from = lo > word * 64 ? UINT64_MAX << (lo - word * 64) : UINT64_MAX;
        uint64_t to = hi < (word + 1) * 64 ? (UINT64_C(1) << (hi - word * 64)) - 1 : UINT64_MAX;
        w->bits[word] |= from & to;
    }
}

static const uint64_t *mask_row(const ra_blocks *b, int64_t head, int64_t row)
{
    return b->mask + ((b->mask_by_head ? head : 0) * b->count + row) * ra_blocks_words(b->count);
}

/* Set the bits of all blocks that are kept without random ones. */
static void set_regular(const ra_blocks *b, int64_t head, int64_t row, const window *w)
{
    if (row < b->global) {
        set_range(w, 0, b->count);
        return;
    }
    set_range(w, 0, b->global);
    set_range(w, row - b->local, ra_add_clamped(row + 1, b->local));
    if (b->stride) {
        int64_t column = row % b->stride;
        if (column < w->first)
            column = ra_add_clamped(column, ra_ceil_div(w->first - column, b->stride) * b->stride);
        for (; column < w->end; column = ra_add_clamped(column, b->stride))
            w->bits[(column - w->first) / 64] |= UINT64_C(1) << (column - w->first) % 64;
    }
    if (b->mask)
        for (int64_t i = 0; w->first + 64 * i < w->end; i++)
            w->bits[i] |= mask_row(b, head, row)[w->first / 64 + i];
}

/* Whether a block is kept without the random ones, for columns outside of a window. */
static bool regular(const ra_blocks *b, int64_t head, int64_t row, int64_t column)
{
    int64_t distance = row > column ? row - column : column - row;
    return distance <= b->local || row < b->global || column < b->global || (b->stride && distance % b->stride == 0) ||
           (b->mask && mask_row(b, head, row)[column / 64] >> (column % 64) & 1);
}

/* If the window is the whole row, its bits are the regular blocks: shuffled columns never come twice. */
static int64_t set_in_row(const int64_t *columns, int64_t count, int64_t left, const window *w)
{
    for (int64_t i = 0; i < count && left > 0; i++) {
        uint64_t *word = &w->bits[columns[i] / 64], bit = UINT64_C(1) << (columns[i] % 64);
        left -= !(*word & bit);
        *word |= bit;
    }
    return left;
}

static int64_t set_in_window(const ra_blocks *b, int64_t head, int64_t row, const int64_t *columns, int64_t count,
                             int64_t left, const window *w)
{
    for (int64_t i = 0; i < count && left > 0; i++) {
        int64_t column = columns[i], at = column - w->first;
        if (regular(b, head, row, column))
            continue;
        if (column >= w->first && column < w->end)
            w->bits[at / 64] |= UINT64_C(1) << (at % 64);
        left--;
    }
    return left;
}

/*
 * Go through the blocks of a shuffled row until `random` of them were not kept already. Several are drawn at a time, so
 * that a draw does not wait for the result of the one before.
 */
static void set_random(const ra_blocks *b, int64_t head, int64_t row, const window *w)
{
    enum { DRAWN = 64 };
    int64_t left = row_random(b, row), columns[DRAWN];
    ra_shuffle shuffle = ra_shuffle_make(b->count, b->seed, (uint64_t)head, (uint64_t)row);
    bool all = w->first == 0 && w->end == b->count;
    for (int64_t i = 0, count; i < b->count && left > 0; i += count) {
        count = ra_min(ra_min(DRAWN, left), b->count - i);
        for (int64_t j = 0; j < count; j++)
            columns[j] = ra_shuffle_at(&shuffle, i + j);
        left = all ? set_in_row(columns, count, left, w) : set_in_window(b, head, row, columns, count, left, w);
    }
}

void ra_blocks_row(const ra_blocks *b, int64_t head, int64_t row, int64_t first, int64_t words, uint64_t *bits)
{
    window w = {first, ra_min(first + 64 * words, b->count), bits};
    memset(bits, 0, (size_t)words * sizeof *bits);
    if (row >= b->count)
        return;
    set_regular(b, head, row, &w);
    if (row >= b->global)
        set_random(b, head, row, &w);
}

/*
 * A random block is kept if fewer than `random` of the blocks before it in the shuffled row are not kept already. Most
 * of the time its place alone decides.
 */
static bool drawn(const ra_blocks *b, int64_t head, int64_t row, int64_t column)
{
    int64_t random = row_random(b, row);
    ra_shuffle shuffle = ra_shuffle_make(b->count, b->seed, (uint64_t)head, (uint64_t)row);
    int64_t place = ra_shuffle_place(&shuffle, column), before = 0;
    if (place < random)
        return true;
    for (int64_t i = 0; i < place && before < random; i++)
        before += !regular(b, head, row, ra_shuffle_at(&shuffle, i));
    return before < random;
}

bool ra_blocks_keeps(const ra_blocks *b, int64_t head, int64_t row, int64_t column)
{
    return row < b->count && (regular(b, head, row, column) || drawn(b, head, row, column));
}

bool ra_blocks_same(const ra_blocks *b)
{
    return !b->mask_by_head && b->random == 0 && b->wanted == 0;
}

int64_t ra_blocks_reach(const ra_blocks *b)
{
    bool near = !b->global && !b->stride && !b->mask && !b->random && b->wanted == 0;
    return near ? ra_min(b->local, b->count) : b->count;
}

/* ---- Density ----------------------------------------------------------------------------------------------------- */

/*
 * Of a row's blocks a quarter is local, a quarter global (half of that is other rows' columns), and the rest random.
 * Rows that are not global are filled to the same number, give or take one, so that the total is what was asked for.
 */
void ra_blocks_choose(ra_blocks *b)
{
    enum { PARTS = 8 };
    double total = b->wanted * (double)b->count * (double)b->count;
    int64_t each = (int64_t)(b->wanted * (double)b->count);
    b->local = b->global = each / PARTS;
    int64_t rows = b->count - b->global;
    double left = round(total) - (double)b->global * (double)b->count;
    b->filled = ra_max(1, ra_min(b->count, (int64_t)floor(left / (double)rows)));
    b->extra = b->filled == b->count ? 0 : (int64_t)(left - (double)b->filled * (double)rows);
    b->extra = ra_max(0, ra_min(b->extra, rows));
}

static double kept_in_row(const ra_blocks *b, int64_t head, int64_t row)
{
    double kept = 0;
    int64_t first, end;
    ra_blocks_walk walk = ra_blocks_walk_begin(b, head, row, 0, b->count);
    while (ra_blocks_walk_next(&walk, &first, &end))
        kept += (double)(end - first);
    return kept;
}

void ra_blocks_measure(ra_blocks *b)
{
    double kept = 0, all = (double)b->count * (double)b->count;
    if (b->wanted > 0) { /* rows have what they were filled to */
        kept = (double)b->global * (double)b->count + (double)b->filled * (double)(b->count - b->global) +
               (double)b->extra;
        b->density = kept / all;
        return;
    }
    if (ra_blocks_countable(b)) { /* a row's random blocks are as many as there is room for */
        for (int64_t row = 0; row < b->count; row++)
            kept += (double)ra_blocks_kept(b, row);
        b->density = kept / all;
        return;
    }
    int64_t masks = b->mask_by_head ? b->heads : 1;
    for (int64_t head = 0; head < masks; head++)
        for (int64_t row = 0; row < b->count; row++)
            kept += kept_in_row(b, head, row);
    b->density = kept / all / (double)masks;
}

/* ---- Walks ------------------------------------------------------------------------------------------------------- */

ra_blocks_walk ra_blocks_walk_begin(const ra_blocks *b, int64_t head, int64_t row, int64_t first, int64_t end)
{
    ra_blocks_walk walk;
    walk.blocks = b;
    walk.head = head;
    walk.row = row;
    walk.at = first;
    walk.end = ra_min(end, b->count);
    walk.window = -1;
    return walk;
}

bool ra_blocks_walk_next(ra_blocks_walk *w, int64_t *first, int64_t *end)
{
    enum { COLUMNS = 64 * RA_BLOCKS_WINDOW };
    while (w->at < w->end) {
        if (w->window < 0 || w->at >= w->window + COLUMNS) {
            w->window = w->at / 64 * 64;
            int64_t words = ra_min(RA_BLOCKS_WINDOW, ra_blocks_words(w->blocks->count - w->window));
            ra_blocks_row(w->blocks, w->head, w->row, w->window, words, w->bits);
        }
        int64_t at = w->at - w->window;
        uint64_t set = w->bits[at / 64] >> (at % 64);
        if (!set) {
            w->at = w->window + (at / 64 + 1) * 64;
            continue;
        }
        *first = w->at + __builtin_ctzll(set);
        uint64_t clear = ~(w->bits[at / 64] >> (*first - w->window) % 64);
        int64_t rest = 64 - (*first - w->window) % 64;
        *end = *first + (clear ? ra_min(__builtin_ctzll(clear), rest) : rest);
        *end = ra_min(*end, w->end);
        w->at = *end;
        return *first < *end;
    }
    return false;
}
