/* Any text as a pattern: refused with a message, or accepted, and then what is run agrees with the definition. */
#include "fuzz.h"
#include "plan/tiles.h"

#include <string.h>

/* The small problem: two blocks of keys, and positions below 0, as there are with more queries than keys. */
enum { KEYS = 100, FIRST_POSITION = -5, ROWS = KEYS - FIRST_POSITION, LANES = 8, GROUPS = (ROWS + LANES - 1) / LANES };

/* Stands in for files: paths that begin with "no" cannot be read. */
static ra_status load_lengths(const char *path, int64_t **lengths, int64_t *count)
{
    static const int64_t LENGTHS[] = {10, 20, 70};
    if (strncmp(path, "no", 2) == 0)
        return ra_fail(RA_ERROR_FILE, "%.40s: cannot be read", path);
    *lengths = malloc(sizeof LENGTHS);
    MUST(*lengths);
    memcpy(*lengths, LENGTHS, sizeof LENGTHS);
    *count = sizeof LENGTHS / sizeof *LENGTHS;
    return RA_OK;
}

/* Each row's interval against the definition; returns the pairs that are visible. */
static int64_t check_rows(const ra_pattern *pattern)
{
    int64_t pairs = 0;
    for (int64_t position = FIRST_POSITION; position < KEYS; position++) {
        ra_interval seen = ra_pattern_interval(pattern, position);
        for (int64_t key = 0; key < KEYS; key++) {
            bool sees = ra_pattern_sees(pattern, position, key) > 0;
            MUST((key >= seen.lo && key < seen.hi) == sees);
            pairs += sees;
        }
    }
    return pairs;
}

/* The pairs that the tiles of all rows let through. */
static int64_t pairs_in_tiles(const ra_pattern *pattern)
{
    ra_interval rows[GROUPS * LANES];
    ra_group_bounds groups[GROUPS];
    ra_tiles tiles = {LANES, 0, rows, groups, 0, 0};
    ra_block block;
    ra_tile tile;
    int32_t lo[LANES], hi[LANES];
    int64_t pairs = 0;
    for (int row = 0; row < ROWS; row += LANES)
        ra_tiles_add(&tiles, pattern, FIRST_POSITION + row, ROWS - row < LANES ? ROWS - row : LANES);
    ra_tiles_seek(&tiles, 0, KEYS);
    while (ra_tiles_next(&tiles, &block))
        for (int group = 0; group < tiles.group_count; group++)
            if (ra_tiles_part(&tiles, group, &block, &tile))
                pairs += tile.masked ? ra_tiles_mask(&tiles, group, &block, lo, hi)
                                     : (int64_t)tiles.groups[group].rows * (tile.end - tile.begin);
    return pairs;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    MUST(text);
    memcpy(text, data, size);
    text[size] = 0;

    ra_pattern pattern;
    if (ra_pattern_parse(text, KEYS, load_lengths, &pattern))
        MUST(*ra_last_message());
    else
        MUST(check_rows(&pattern) == pairs_in_tiles(&pattern));
    ra_pattern_clear(&pattern);
    free(text);
    return 0;
}
