/* SPDX-License-Identifier: Apache-2.0 */
/* Makes splits and looks at shares position by position. See shares.h. */
#include "shares.h"

#include "base/blocking.h"
#include "support/unit.h"

int64_t choose_pieces(choices *c, int64_t length, int ranks, ra_piece *pieces, int64_t most)
{
    int64_t count = 0, at = 0, longest = chance(c, 2) ? length : 2 * length / most + 1;
    bool aligned = chance(c, 3);
    while (at < length) {
        int64_t end = at + choose(c, chance(c, 5) ? 0 : 1, longest);
        if (aligned)
            end = (end + RA_KEY_BLOCK - 1) / RA_KEY_BLOCK * RA_KEY_BLOCK;
        end = end < length && count < most - 1 ? end : length;
        pieces[count++] = (ra_piece){at, end, (int)choose(c, 0, ranks - 1)};
        at = end;
    }
    return count;
}

void choose_partition(choices *c, int64_t length, int ranks, ra_partition *partition)
{
    ra_piece pieces[40];
    ra_order order = (ra_order)choose(c, 0, 2);
    bool own = chance(c, 2);
    int64_t count = own ? choose_pieces(c, length, ranks, pieces, choose(c, 1, 40)) : 0;
    assert_int_equal(ra_partition_make(partition, "key", length, ranks, order, own ? pieces : NULL, count), RA_OK);
}

int64_t count_marks(const ra_share *share, const uint64_t *words, uint8_t *counts)
{
    int64_t marks = 0, found = 0;
    for (int64_t i = 0; i < share->blocks; i++)
        for (int bit = 0; bit < RA_KEY_BLOCK; bit++)
            marks += (int64_t)(words[i] >> bit & 1);
    for (int64_t i = 0; i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        for (int64_t at = range.first; at < range.end; at++) {
            int64_t word = range.block + at / RA_KEY_BLOCK - range.first / RA_KEY_BLOCK;
            int mark = (int)(words[word] >> at % RA_KEY_BLOCK & 1);
            counts[at] = (uint8_t)(counts[at] + mark);
            found += mark;
        }
    }
    return found == marks ? found : -1;
}
