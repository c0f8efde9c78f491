/*
 * A run that can go on after its process has ended. PATH has what the run is of, the ranks that are finished, where the
 * current one stands and the states of its rows, and is replaced as a whole. PATH.rows has the results of finished
 * ranks. For the virtual ranks of one process.
 */
#ifndef RA_RING_CHECKPOINT_H
#define RA_RING_CHECKPOINT_H

#include "exec/exec.h"
#include "ring/engine.h"

/* Where a run stands: everything before these positions of a rank's step is done. */
typedef struct ra_point {
    int64_t rank, step, position;
    int64_t span;        /* of the states, where spans are kept apart */
    int64_t state_bytes; /* 0: the rank has not begun */
    ra_counts counts;
    ra_rank_stats stats; /* with the hops and bytes of phases before the step's */
    double pairs_before, pairs_reported;
} ra_point;

/* The run that there is a checkpoint of, if there is one: *point, and the finished ranks' statistics into stats. */
bool ra_checkpoint_continues(const ra_checkpoint *checkpoint, ra_point *point, ra_rank_stats *stats);

/* The results of finished ranks into storage. */
ra_status ra_checkpoint_restore_rows(ra_checkpoint *checkpoint, const ra_ring_plan *ring, const ra_tensors *tensors);

/* The states that were saved: point.state_bytes of them. */
ra_status ra_checkpoint_restore_states(ra_checkpoint *checkpoint, void *states, int64_t bytes);

/* Whether it is time to save, or to stop. */
bool ra_checkpoint_due(ra_checkpoint *checkpoint, bool *stop);

/* Save; states may be NULL where point->state_bytes is 0. */
ra_status ra_checkpoint_save(ra_checkpoint *checkpoint, const ra_point *point, const void *states);

/* Results of the current rank: views [batch, rows, heads, dim] and [batch, heads, rows] of rows from `first` on. */
ra_status ra_checkpoint_rows(ra_checkpoint *checkpoint, int rank, int64_t first, const ra_tensor *output,
                             const ra_tensor *lse);

/* All results of a rank have been given. */
void ra_checkpoint_rank_done(ra_checkpoint *checkpoint, int rank, const ra_rank_stats *stats);

#endif
