/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that can go on after its processes have ended.
 *
 * Virtual ranks of one process share one checkpoint. PATH has a description of the run, the finished ranks, the point
 * that the current rank has reached and the states of its rows; it is replaced as a whole. PATH.rows has the results of
 * finished ranks.
 *
 * Ranks that are processes have a file each, PATH.RANK. They save independently, because what a rank has done does not
 * depend on how far the others are. PATH ties the files together: it exists when all of them do, and has a description
 * of the run and a number that is also in each file.
 */
#ifndef RA_RING_CHECKPOINT_H
#define RA_RING_CHECKPOINT_H

#include "ring/point.h"
#include "ring/ring_plan.h"
#include "ring/tensors.h"

/* The rank that the checkpoint belongs to; -1: all virtual ranks. */
int ra_checkpoint_rank(const ra_checkpoint *checkpoint);

/* If there is a checkpoint: read where its run stands into *point, and the statistics of finished ranks into stats. */
bool ra_checkpoint_continues(const ra_checkpoint *checkpoint, ra_point *point, ra_rank_stats *stats);

/* Read the saved states: point.state_bytes bytes. */
ra_status ra_checkpoint_restore_states(ra_checkpoint *checkpoint, void *states, int64_t bytes);

/* Whether it is time to stop; and whether to save, or to stop. */
int ra_checkpoint_stops(void *checkpoint);
bool ra_checkpoint_due(ra_checkpoint *checkpoint, bool *stop);

/* Save; states may be NULL where point->state_bytes is 0. After a failure the last checkpoint is still there. */
ra_status ra_checkpoint_save(ra_checkpoint *checkpoint, const ra_point *point, const void *states);

/* The same, but the run goes on if saving fails: the failure is reported to ra_checkpoint_options.failed. */
bool ra_checkpoint_try(ra_checkpoint *checkpoint, const ra_point *point, const void *states);

/* Tell the caller that a save begins or has ended (ra_checkpoint_options.saving). */
void ra_checkpoint_tell(const ra_checkpoint *checkpoint, bool begins);

/* Called now and then while states are saved and restored: a disk may be slow. */
void ra_checkpoint_between(ra_checkpoint *checkpoint, void (*between)(void *user), void *user);

/* ---- checkpoint_rows.c: results of virtual ranks ----------------------------------------------------------------- */

/* Call it before a run: the storages of its results. Both must outlive the run. */
void ra_checkpoint_attach(ra_checkpoint *checkpoint, const ra_ring_plan *ring, const ra_tensors *tensors);

/* Copy the results of finished ranks from the checkpoint to storage. */
ra_status ra_checkpoint_restore_rows(ra_checkpoint *checkpoint, const ra_ring_plan *ring, const ra_tensors *tensors);

/*
 * Results of the current rank: views [batch, rows, heads, dim] and [batch, heads, rows] of rows from `first` on, which
 * are in storage already. Rows that cannot be written now are read from storage and written at the next save.
 */
void ra_checkpoint_rows(ra_checkpoint *checkpoint, int rank, int64_t first, const ra_tensor *output,
                        const ra_tensor *lse);

/* Tell that all results of a rank were given. */
void ra_checkpoint_rank_done(ra_checkpoint *checkpoint, int rank, const ra_rank_stats *stats);

/* ---- checkpoint_set.c: the files of ranks that are processes ----------------------------------------------------- */

/* The number of the set, and whether the set exists, for all ranks to compare. NULL: the run is not saved. */
uint64_t ra_checkpoint_set(const ra_checkpoint *checkpoint);
void ra_checkpoint_describe(const ra_checkpoint *checkpoint, char *text, size_t size);

/* Begin a set with this number. Call it before this rank's first save. */
void ra_checkpoint_join(ra_checkpoint *checkpoint, uint64_t set);

/*
 * Call it after the first saves of all ranks; `all_saved` is false if one has failed or may have. If all have
 * succeeded, rank 0 writes PATH: from now on there is a checkpoint. If not, or if PATH cannot be written, rank 0 tries
 * again after each of its later saves.
 */
void ra_checkpoint_begin_set(ra_checkpoint *checkpoint, bool all_saved);

/* For a rank that is to stop: RA_ERROR_FILE if there is no PATH yet. */
ra_status ra_checkpoint_check_set(ra_checkpoint *checkpoint);

#endif
