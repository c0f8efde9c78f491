/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the bits that a row sees of a block of keys. Kept blocks are asked of blocks.c, a window of them at a time. See
 * sieve.h.
 */
#include "plan/sieve.h"

#include "base/checked.h"

#include <string.h>

/* What the window of kept blocks may take, so that scratch does not grow with the sequence. */
enum { WINDOW_BYTES = 256 << 10 };

bool ra_sieve_needed(const ra_pattern *p, int branch)
{
    return p->blocks || p->mask || ra_pattern_exclusive(p, branch);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

typedef struct room {
    int64_t rows, words, earlier; /* of blocks; of a window; branches before the last */
} room;

static room room_for(const ra_pattern *p, int lanes, int64_t groups)
{
    room r = {0, 0, 0};
    if (p->dilation && p->dilation->mode == RA_DILATED_UNION)
        r.earlier = p->dilation->count - 1;
    if (!p->blocks)
        return r;
    /* Two members of a lattice that follow each other are less than two rates apart. */
    int64_t apart = 1;
    for (int i = 0; p->dilation && i < p->dilation->count; i++)
        apart = ra_max(apart, 2 * ra_min(p->dilation->rate[i], INT32_MAX));
    r.rows = groups * ra_min(lanes, (lanes - 1) * apart / p->blocks->size + 2);
    r.words = ra_min(ra_blocks_words(p->blocks->count), ra_max(1, WINDOW_BYTES / (r.rows * (int64_t)sizeof(uint64_t))));
    return r;
}

/* Of a mask, for each row. */
static int64_t mask_row_bytes(const ra_mask *mask)
{
    return (int64_t)sizeof(int64_t) + (mask->bits ? 1 : 1 + RA_MASK_WINDOW) * (int64_t)sizeof(uint64_t);
}

int64_t ra_sieve_bytes(const ra_pattern *p, int lanes, int64_t groups)
{
    room r = room_for(p, lanes, groups);
    int64_t bytes = groups * lanes * r.earlier * (int64_t)sizeof(ra_interval);
    if (p->mask)
        bytes += groups * lanes * mask_row_bytes(p->mask);
    if (p->blocks)
        bytes += (r.rows * (2 + r.words) + r.words) * (int64_t)sizeof(uint64_t) +
                 groups * lanes * (int64_t)sizeof(int32_t) + 8;
    return bytes;
}

void ra_sieve_begin(ra_sieve *s, void *memory, const ra_pattern *p, int64_t head, int branch, int lanes, int64_t groups)
{
    room r = room_for(p, lanes, groups);
    char *at = memory;
    s->pattern = p;
    s->head = head;
    s->branch = branch;
    s->lanes = lanes;
    s->lattice = ra_pattern_lattice(p, head, branch);
    s->rows_of_blocks = 0;
    s->words = r.words;
    s->first = -1;
    s->earlier = ra_pattern_exclusive(p, branch) ? branch : 0;
    s->taken = (ra_interval *)at;
    at += groups * lanes * r.earlier * (int64_t)sizeof(ra_interval);
    for (int i = 0; i < s->earlier; i++)
        s->before[i] = ra_pattern_lattice(p, head, i);
    s->query = (int64_t *)at;
    s->mask_bits = (uint64_t *)(s->query + groups * lanes);
    s->mask_window = s->mask_bits + groups * lanes;
    s->window_first = -1;
    s->rows_of_mask = 0;
    at += p->mask ? groups * lanes * mask_row_bytes(p->mask) : 0;
    s->row = (int64_t *)at;
    s->bits = (uint64_t *)(s->row + r.rows);
    s->kept = s->bits + r.rows;
    s->any = s->kept + r.rows * r.words;
    s->row_of = (int32_t *)(s->any + r.words);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static void add_row_of_blocks(ra_sieve *s, int group, int lane, int64_t position)
{
    int64_t row = ra_blocks_row_at(s->pattern->blocks, position);
    int i = s->rows_of_blocks - 1;
    /* Rows come in order, mostly: the last one is the likeliest. */
    while (i >= 0 && s->row[i] != row)
        i--;
    if (i < 0) {
        i = s->rows_of_blocks++;
        s->row[i] = row;
    }
    s->row_of[group * s->lanes + lane] = i;
    s->first = -1;
}

/* Lanes without a row have no query. */
static void add_row_of_mask(ra_sieve *s, int group, int lane, int64_t query)
{
    int at = group * s->lanes + lane;
    while (s->rows_of_mask < at)
        s->query[s->rows_of_mask++] = -1;
    s->query[at] = query;
    s->rows_of_mask = at + 1;
    s->window_first = -1;
}

void ra_sieve_add(ra_sieve *s, int group, int lane, int64_t member)
{
    int64_t position = ra_lattice_position(&s->lattice, member);
    if (s->pattern->blocks)
        add_row_of_blocks(s, group, lane, position);
    if (s->pattern->mask)
        add_row_of_mask(s, group, lane, position - s->pattern->offset);
    for (int i = 0; i < s->earlier; i++) {
        const ra_lattice *l = &s->before[i];
        ra_interval *taken = &s->taken[((int64_t)group * s->lanes + lane) * s->earlier + i];
        *taken = (ra_interval){0, 0};
        if (!ra_lattice_has(l, position))
            continue;
        int64_t first = ra_lattice_segment(l, position);
        int64_t end = ra_min(ra_add_clamped(first, l->segment), s->pattern->kv_len);
        *taken = ra_branch_members(&s->lattice, first, end);
    }
}

/* ---- Windows of kept blocks -------------------------------------------------------------------------------------- */

/* Have the window that a column is in. */
static void turn_to(ra_sieve *s, int64_t column)
{
    if (s->first >= 0 && column >= s->first && column < s->first + 64 * s->words)
        return;
    s->first = column / (64 * s->words) * (64 * s->words);
    memset(s->any, 0, (size_t)s->words * sizeof *s->any);
    for (int i = 0; i < s->rows_of_blocks; i++) {
        uint64_t *kept = s->kept + i * s->words;
        if (s->row[i] < 0)
            memset(kept, 0, (size_t)s->words * sizeof *kept);
        else
            ra_blocks_row(s->pattern->blocks, s->head, s->row[i], s->first, s->words, kept);
        for (int64_t w = 0; w < s->words; w++)
            s->any[w] |= kept[w];
    }
}

static bool keeps(const ra_sieve *s, const uint64_t *kept, int64_t column)
{
    return kept[(column - s->first) / 64] >> (column - s->first) % 64 & 1;
}

/* The same as far as kept blocks say. */
static int64_t next_kept(ra_sieve *s, int64_t from)
{
    const ra_blocks *b = s->pattern->blocks;
    if (!b || !ra_sieve_sifts(s))
        return from;
    int64_t position = ra_lattice_position(&s->lattice, from);
    for (int64_t column = position / b->size; column < b->count;) {
        turn_to(s, column);
        uint64_t set = s->any[(column - s->first) / 64] >> (column - s->first) % 64;
        if (set) {
            column += __builtin_ctzll(set);
            return ra_max(from, ra_lattice_below(&s->lattice, column * b->size));
        }
        column = (column / 64 + 1) * 64;
    }
    return INT64_MAX;
}

/* Whether the mask lets some row see one of the keys from `from` to the end of its block. */
static bool mask_lets(const ra_sieve *s, int64_t from)
{
    const ra_pattern *p = s->pattern;
    int64_t first = from / RA_KEY_BLOCK * RA_KEY_BLOCK;
    uint64_t wanted = ra_bits(from - first, RA_KEY_BLOCK);
    for (int i = 0; i < s->rows_of_mask; i++)
        if (s->query[i] >= 0 && ra_mask_word(p->mask, p->batch, s->head, s->query[i], first) & wanted)
            return true;
    return false;
}

int64_t ra_sieve_next(ra_sieve *s, int64_t from)
{
    int64_t next = next_kept(s, from);
    /* Members that are not positions are in several words each: those are looked at when their block is. */
    if (!s->pattern->mask || !ra_lattice_plain(&s->lattice))
        return next;
    while (next < s->pattern->kv_len && !mask_lets(s, next))
        next = next_kept(s, (next / RA_KEY_BLOCK + 1) * RA_KEY_BLOCK);
    return next < s->pattern->kv_len ? next : INT64_MAX;
}

/* ---- A block of keys --------------------------------------------------------------------------------------------- */

/* The bits of positions first .. first + rows - 1 that are in blocks which a row of blocks keeps. */
static uint64_t kept_positions(ra_sieve *s, const uint64_t *kept, int64_t first, int skip, int rows)
{
    int64_t size = s->pattern->blocks->size, at = first + skip, end = first + rows;
    uint64_t bits = 0;
    for (int64_t column = at / size; at < end; column++) {
        int64_t next = ra_min(end, (column + 1) * size);
        if (keeps(s, kept, column))
            bits |= ra_bits(at - first, next - first);
        at = next;
    }
    return bits;
}

/* The same for members of a lattice, which may go past the end of a window: one column after the other. */
static void look_at_members(ra_sieve *s, int64_t first, int skip, int rows)
{
    for (int i = 0; i < s->rows_of_blocks; i++)
        s->bits[i] = 0;
    for (int k = skip; k < rows; k++) {
        int64_t column = ra_lattice_position(&s->lattice, first + k) / s->pattern->blocks->size;
        turn_to(s, column);
        for (int i = 0; i < s->rows_of_blocks; i++)
            s->bits[i] |= (uint64_t)keeps(s, s->kept + i * s->words, column) << k;
    }
}

static void look_at_blocks(ra_sieve *s, int64_t first, int skip, int rows)
{
    int64_t size = s->pattern->blocks->size, last = (first + rows - 1) / size;
    turn_to(s, (first + skip) / size);
    if (!ra_lattice_plain(&s->lattice) || last >= s->first + 64 * s->words) {
        look_at_members(s, first, skip, rows);
        return;
    }
    for (int i = 0; i < s->rows_of_blocks; i++)
        s->bits[i] = kept_positions(s, s->kept + i * s->words, first, skip, rows);
}

/* The bits of a row of the mask, of members that are not positions. */
static uint64_t masked_members(const ra_sieve *s, int64_t query, int64_t first, int skip, int rows)
{
    const ra_pattern *p = s->pattern;
    uint64_t bits = 0;
    for (int k = skip; k < rows; k++)
        bits |= (uint64_t)ra_mask_has(p->mask, p->batch, s->head, query, ra_lattice_position(&s->lattice, first + k))
                << k;
    return bits;
}

/* Ask for the booleans of a window of a row, if there is such a row. */
static void fetch_row(const ra_sieve *s, int row)
{
    const ra_pattern *p = s->pattern;
    if (row < s->rows_of_mask && s->query[row] >= 0)
        ra_mask_fetch(p->mask, p->batch, s->head, s->query[row], s->window_first, RA_MASK_WINDOW);
}

/* Have the bits of the blocks at hand that a block is among. */
static void turn_mask_to(ra_sieve *s, int64_t first)
{
    enum { AHEAD = 4 }; /* rows */
    const ra_pattern *p = s->pattern;
    int64_t window = first / (64 * RA_MASK_WINDOW) * (64 * RA_MASK_WINDOW);
    if (s->window_first == window)
        return;
    s->window_first = window;
    for (int i = 0; i < AHEAD; i++)
        fetch_row(s, i);
    for (int i = 0; i < s->rows_of_mask; i++) {
        uint64_t *words = s->mask_window + (ptrdiff_t)i * RA_MASK_WINDOW;
        fetch_row(s, i + AHEAD);
        for (int64_t key = window; s->query[i] >= 0 && key < ra_min(window + 64 * RA_MASK_WINDOW, p->mask->kv_len);
             key += 64)
            *words++ = ra_mask_word(p->mask, p->batch, s->head, s->query[i], key);
    }
}

static void look_at_mask(ra_sieve *s, int64_t first, int skip, int rows)
{
    const ra_pattern *p = s->pattern;
    bool plain = ra_lattice_plain(&s->lattice), window = plain && !p->mask->bits;
    if (window)
        turn_mask_to(s, first);
    for (int i = 0; i < s->rows_of_mask; i++) {
        if (s->query[i] < 0)
            continue;
        if (window)
            s->mask_bits[i] = s->mask_window[i * RA_MASK_WINDOW + (first - s->window_first) / 64];
        else
            s->mask_bits[i] = plain ? ra_mask_word(p->mask, p->batch, s->head, s->query[i], first)
                                    : masked_members(s, s->query[i], first, skip, rows);
    }
}

void ra_sieve_look(ra_sieve *s, int64_t first, int skip, int rows)
{
    s->block = first;
    if (s->pattern->mask)
        look_at_mask(s, first, skip, rows);
    if (s->pattern->blocks)
        look_at_blocks(s, first, skip, rows);
    for (int i = 0; i < s->earlier; i++) {
        s->key_bits[i] = 0;
        for (int k = skip; k < rows; k++)
            s->key_bits[i] |= (uint64_t)ra_lattice_has(&s->before[i], ra_lattice_position(&s->lattice, first + k)) << k;
    }
}

uint64_t ra_sieve_row(const ra_sieve *s, int group, int lane)
{
    int64_t row = (int64_t)group * s->lanes + lane;
    uint64_t seen = s->pattern->blocks ? s->bits[s->row_of[row]] : UINT64_MAX;
    if (s->pattern->mask)
        seen &= s->mask_bits[row];
    for (int i = 0; i < s->earlier; i++) {
        const ra_interval *taken = &s->taken[row * s->earlier + i];
        seen &= ~(s->key_bits[i] & ra_bits(ra_max(0, taken->lo - s->block), taken->hi - s->block));
    }
    return seen;
}
