/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a row sees of a block of keys, where its interval does not say it all: blocks of a block-sparse pattern that are
 * not kept, pairs that a mask hides, and in exclusive branches the pairs of earlier ones. The answer is one bit for
 * each key of the block.
 */
#ifndef RA_PLAN_SIEVE_H
#define RA_PLAN_SIEVE_H

#include "base/bits.h"
#include "base/blocking.h"
#include "plan/pattern.h"

/* Blocks of keys whose booleans become bits at a time. */
enum { RA_MASK_WINDOW = 8 };

typedef struct ra_sieve {
    const ra_pattern *pattern;
    int64_t head;
    int branch, lanes;
    ra_lattice lattice;
    int64_t block; /* of keys that is looked at: its first member */

    /* Block-sparse: the rows of blocks that the rows of the groups are in, and a window of what they keep. */
    int rows_of_blocks;
    int64_t *row;    /* [room]: which one */
    uint64_t *kept;  /* [room][words] */
    uint64_t *any;   /* [words]: kept by one of them */
    uint64_t *bits;  /* [room]: of the block of keys that is looked at */
    int32_t *row_of; /* [groups][lanes]: an index into `row` */
    int64_t words;   /* of a window */
    int64_t first;   /* the first column in the window; -1: none */

    /* Masks: the rows as queries by index, and their bits of the block that is looked at. */
    int rows_of_mask;
    int64_t *query;      /* [groups][lanes]; -1: no such row */
    uint64_t *mask_bits; /* [groups][lanes] */
    /* Booleans of a mask become bits for several blocks at a time: their rows are far apart in memory. */
    uint64_t *mask_window; /* [groups][lanes][RA_MASK_WINDOW] */
    int64_t window_first;  /* its first key; -1: there is none */

    /* Exclusive branches: the members that each earlier branch with the row has in its segment, as far as they go. */
    int earlier;
    ra_interval *taken; /* [groups][lanes][earlier] */
    ra_lattice before[RA_BRANCHES];
    uint64_t key_bits[RA_BRANCHES]; /* of the block that is looked at: keys that are members too */
} ra_sieve;

/* Whether a branch of a pattern needs one. */
bool ra_sieve_needed(const ra_pattern *pattern, int branch);

/* Bytes for `groups` groups, of any head and branch. */
int64_t ra_sieve_bytes(const ra_pattern *pattern, int lanes, int64_t groups);

/* Start over with no groups, in memory of that many bytes, aligned to 8. */
void ra_sieve_begin(ra_sieve *sieve, void *memory, const ra_pattern *pattern, int64_t head, int branch, int lanes,
                    int64_t groups);

/* A row of a group: a member of the branch's lattice. */
void ra_sieve_add(ra_sieve *sieve, int group, int lane, int64_t member);

/* Whether tiles are the keys that some row sees; in an exclusive branch without a mask they are all of its keys. */
static inline bool ra_sieve_sifts(const ra_sieve *s)
{
    return !s->earlier || s->pattern->mask;
}

/* The first member from `from` on that some row may see, as far as kept blocks and masks say; INT64_MAX: none. */
int64_t ra_sieve_next(ra_sieve *sieve, int64_t from);

/* Look at the members first + skip .. first + rows - 1 of a block. */
void ra_sieve_look(ra_sieve *sieve, int64_t first, int skip, int rows);

/* The keys of that block that a row sees, beside what its interval says. */
uint64_t ra_sieve_row(const ra_sieve *sieve, int group, int lane);

/* The same for all rows of a group, where a mask alone says it; NULL: it does not. */
static inline const uint64_t *ra_sieve_mask_rows(const ra_sieve *s, int group)
{
    return s->pattern->mask && !s->pattern->blocks && !s->earlier ? s->mask_bits + (int64_t)group * s->lanes : NULL;
}

/* Whether the first `rows` rows of a group, which are in order, are all in one row of blocks. */
static inline bool ra_sieve_alike(const ra_sieve *s, int group, int rows)
{
    if (s->earlier || s->pattern->mask)
        return false;
    const int32_t *row_of = s->row_of + (int64_t)group * s->lanes;
    return row_of[0] == row_of[rows - 1];
}

#endif
