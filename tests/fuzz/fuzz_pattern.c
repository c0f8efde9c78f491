/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a pattern: refused with a message, or accepted, and then what is run agrees with the definition. */
#include "fuzz.h"
#include "plan/tiles.h"

#include <string.h>

/* The small problem: two blocks of keys that begin at a position of their own, and queries before and behind them. */
enum { KEYS = 100, HEADS = 3, ORIGIN = 3, FIRST_POSITION = -5, END_POSITION = KEYS + 6 };
enum { ROWS = END_POSITION - FIRST_POSITION, LANES = 8 };
enum { GROUPS = (ROWS + LANES - 1) / LANES };

/* Stands in for files: paths that begin with "no" cannot be read; "pairs" and "bounds" have two columns. */
static ra_status refuse(const char *path)
{
    return strncmp(path, "no", 2) == 0 ? ra_fail(RA_ERROR_FILE, "%.40s: cannot be read", path) : RA_OK;
}

static ra_status load_integers(const char *path, int64_t **lengths, int64_t *count, int64_t *columns)
{
    static const int64_t LENGTHS[] = {10, 20, 70}, PAIRS[] = {10, 20, ROWS - 10, KEYS - 20};
    if (refuse(path))
        return RA_ERROR_FILE;
    bool bounds = strncmp(path, "bounds", 6) == 0, pairs = bounds || strncmp(path, "pairs", 5) == 0;
    *lengths = malloc(sizeof PAIRS);
    MUST(*lengths);
    memcpy(*lengths, pairs ? PAIRS : LENGTHS, pairs ? sizeof PAIRS : sizeof LENGTHS);
    *count = bounds ? 1 : pairs ? 2 : 3;
    *columns = pairs ? 2 : 1;
    return RA_OK;
}

/* Every third block; paths that begin with "heads" have another one for each head. */
static ra_status load_mask(const char *path, int64_t count, int64_t heads, uint64_t **bits, bool *by_head)
{
    if (refuse(path))
        return RA_ERROR_FILE;
    *by_head = strncmp(path, "heads", 5) == 0;
    int64_t rows = count * (*by_head ? heads : 1), words = ra_blocks_words(count);
    *bits = calloc((size_t)(rows * words), sizeof **bits);
    MUST(*bits);
    for (int64_t i = 0; i < rows * count; i++)
        if ((i / count + i % count) % 3 == 1)
            (*bits)[i / count * words + i % count / 64] |= UINT64_C(1) << (i % count % 64);
    return RA_OK;
}

/* Every third pair; paths that begin with "each" have another mask for each batch element, "heads" for each head. */
static ra_status load_pairs(const char *path, const int64_t shape[4], uint64_t **bits, int64_t *batch, int64_t *heads)
{
    if (strncmp(path, "no", 2) == 0)
        return ra_fail(RA_ERROR_FILE, "%.40s: no such file", path);
    *batch = strncmp(path, "each", 4) == 0 ? shape[0] : 1;
    *heads = strncmp(path, "heads", 5) == 0 ? shape[1] : 1;
    int64_t rows = *batch * *heads * shape[2], words = ra_blocks_words(shape[3]);
    *bits = calloc((size_t)(rows * words) + 1, sizeof **bits);
    if (!*bits)
        return ra_fail(RA_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < rows * shape[3]; i++)
        if ((i / shape[3] + i % shape[3]) % 3 == 1)
            (*bits)[i / shape[3] * words + i % shape[3] / 64] |= UINT64_C(1) << (i % shape[3] % 64);
    return RA_OK;
}

/* Each row's interval against the definition, where intervals are all there is. */
static void check_intervals(const ra_pattern *pattern)
{
    for (int64_t position = FIRST_POSITION; position < END_POSITION; position++) {
        ra_interval seen = ra_pattern_interval(pattern, position);
        for (int64_t key = 0; key < KEYS; key++)
            MUST((key >= seen.lo && key < seen.hi) == (ra_pattern_sees(pattern, 0, position, key) > 0));
    }
}

/* How often each row of a head sees each key, by its tiles. */
typedef struct cover {
    const ra_pattern *pattern;
    int64_t head;
    ra_lattice lattice;
    int64_t first; /* member of the first row */
    uint8_t times[ROWS][KEYS];
} cover;

static void cover_tile(cover *c, const ra_tiles *tiles, int group, const ra_block *block, const ra_tile *tile)
{
    int32_t lo[LANES], hi[LANES];
    uint64_t seen[RA_KEY_BLOCK];
    int64_t counted = 0, visible = (int64_t)tiles->groups[group].rows * (tile->end - tile->begin);
    if (tile->masked)
        visible = ra_tiles_mask(tiles, group, block, tile, lo, hi, seen);
    for (int row = 0; row < tiles->groups[group].rows; row++)
        for (int k = tile->begin; k < tile->end; k++) {
            if (tile->masked && (tile->bits ? !(seen[k] >> row & 1) : k < lo[row] || k >= hi[row]))
                continue;
            int64_t query = ra_lattice_position(&c->lattice, c->first + (int64_t)group * LANES + row);
            int64_t key = ra_lattice_position(&c->lattice, block->first + k);
            MUST(query >= FIRST_POSITION && query < END_POSITION && key >= 0 && key < KEYS);
            c->times[query - FIRST_POSITION][key]++;
            counted++;
        }
    MUST(counted == visible);
}

static void cover_branch(cover *c, int branch)
{
    ra_interval rows[GROUPS * LANES];
    ra_group_bounds groups[GROUPS];
    ra_tiles_memory memory = {rows, groups, malloc((size_t)ra_sieve_bytes(c->pattern, LANES, GROUPS) + 1), GROUPS};
    ra_tiles tiles;
    ra_block block;
    ra_tile tile;
    MUST(memory.sieve);
    c->lattice = ra_pattern_lattice(c->pattern, c->head, branch);
    ra_interval members = ra_branch_members(&c->lattice, FIRST_POSITION, END_POSITION);
    c->first = members.lo;
    ra_tiles_begin(&tiles, c->pattern, c->head, branch, LANES, &memory);
    for (int64_t member = members.lo; member < members.hi; member += LANES)
        ra_tiles_add(&tiles, member, (int)(members.hi - member < LANES ? members.hi - member : LANES));
    ra_interval keys = ra_branch_members(&c->lattice, 0, KEYS);
    ra_tiles_seek(&tiles, keys.lo, keys.hi);
    while (ra_tiles_next(&tiles, &block)) {
        ra_tiles_look(&tiles, &block);
        for (int group = 0; group < tiles.group_count; group++)
            if (ra_tiles_part(&tiles, group, &block, &tile))
                cover_tile(c, &tiles, group, &block, &tile);
    }
    free(memory.sieve);
}

static void check_tiles(const ra_pattern *pattern)
{
    for (int64_t head = 0; head < HEADS; head++) {
        cover c = {.pattern = pattern, .head = head};
        for (int branch = 0; branch < ra_pattern_branches(pattern, head); branch++)
            cover_branch(&c, branch);
        for (int64_t row = 0; row < ROWS; row++)
            for (int64_t key = 0; key < KEYS; key++)
                MUST(c.times[row][key] == ra_pattern_sees(pattern, head, row + FIRST_POSITION, key));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ra_pattern_files files = {load_integers, load_mask, load_pairs};
    char *text = malloc(size + 1);
    MUST(text);
    memcpy(text, data, size);
    text[size] = 0;

    ra_pattern pattern;
    const ra_pattern_shape shape = {
        .kv_len = KEYS, .heads = HEADS, .origin = ORIGIN, .q_len = ROWS, .offset = FIRST_POSITION, .batch = 1};
    if (ra_pattern_parse(text, &shape, &files, &pattern))
        MUST(*ra_last_message());
    else {
        const ra_lengths *l = pattern.lengths;
        if (l)
            pattern.valid = (ra_interval){ra_lengths_value(l, 0, 0), ra_lengths_value(l, 0, 1)};
        if (ra_pattern_is_interval(&pattern))
            check_intervals(&pattern);
        check_tiles(&pattern);
        MUST(!pattern.blocks || (pattern.blocks->density > 0 && pattern.blocks->density <= 1));
    }
    ra_pattern_clear(&pattern);
    free(text);
    return 0;
}
