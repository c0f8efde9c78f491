/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the moving side that a rank reads, as marks on a share of them. For block-sparse patterns what a few
 * ranks read of all rows is found once and kept: to draw random blocks again for every chunk would take longer than the
 * tiles.
 */
#ifndef RA_RING_READS_H
#define RA_RING_READS_H

#include "ring/marks.h"
#include "ring/ring_plan.h"

/* Ranks whose rows are kept: this one, the one before it and the one behind it. */
enum { RA_KNOWN_MOST = 3 };

typedef struct ra_reads {
    const ra_pass *pass;
    int known;               /* ranks whose marks are kept */
    int rank[RA_KNOWN_MOST]; /* those ranks */
    uint64_t *words;         /* [known][planes][blocks of the sequence] */
} ra_reads;

/* Words that a rank's rows take where they are kept; 0: they are not. */
int64_t ra_reads_words(const ra_pass *pass);

/* Keep what a rank and its neighbours read, in words for `known` of them. */
void ra_reads_find(ra_reads *reads, const ra_pass *pass, int rank, int known, uint64_t *words);

/* Mark the rows of a share that a rank reads. Returns false if there are none by the ends of what it sees; the words
 * are then unchanged. */
bool ra_reads_mark(const ra_reads *reads, int rank, const ra_share *share, uint64_t *words);

/* The same, on words that are cleared where there are none. */
void ra_reads_set(const ra_reads *reads, int rank, const ra_share *share, uint64_t *words);

/* The same of the rows that a rank needs, also where it is given everything. */
void ra_reads_set_needed(const ra_reads *reads, int rank, const ra_share *share, uint64_t *words);

/* Words of all planes of marks on a share. */
int64_t ra_reads_share_words(const ra_pass *pass, const ra_share *share);

#endif
