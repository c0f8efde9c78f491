/*
 * A run that can go on after its processes have ended.
 *
 * Of the virtual ranks of one process: PATH has what the run is of, the ranks that are finished, where the current one
 * stands and the states of its rows, and is replaced as a whole. PATH.rows has the results of finished ranks.
 *
 * Of ranks that are processes: each has such a file of its own, PATH.RANK, and saves whenever it is time for it, in no
 * step with the others: what a rank has done does not depend on how far they are. PATH is there when all of them are,
 * and has what the run is of and a number that is in all of its files.
 */
#ifndef RA_RING_CHECKPOINT_H
#define RA_RING_CHECKPOINT_H

#include "ring/point.h"
#include "ring/ring_plan.h"
#include "ring/tensors.h"

/* Whose it is: a rank's, or -1 for all virtual ranks. */
int ra_checkpoint_rank(const ra_checkpoint *checkpoint);

/* The run that there is a checkpoint of, if there is one: *point, and the finished ranks' statistics into stats. */
bool ra_checkpoint_continues(const ra_checkpoint *checkpoint, ra_point *point, ra_rank_stats *stats);

/* The states that were saved: point.state_bytes of them. */
ra_status ra_checkpoint_restore_states(ra_checkpoint *checkpoint, void *states, int64_t bytes);

/* Whether it is time to stop; and whether to save, or to stop. */
int ra_checkpoint_stops(void *checkpoint);
bool ra_checkpoint_due(ra_checkpoint *checkpoint, bool *stop);

/* Save; states may be NULL where point->state_bytes is 0. After a failure the last checkpoint is still there. */
ra_status ra_checkpoint_save(ra_checkpoint *checkpoint, const ra_point *point, const void *states);

/* The same where the run goes on whether it was saved or not: a failure is told (ra_checkpoint_options.failed). */
bool ra_checkpoint_try(ra_checkpoint *checkpoint, const ra_point *point, const void *states);

/* Tell the caller that a save begins or has ended (ra_checkpoint_options.saving). */
void ra_checkpoint_tell(const ra_checkpoint *checkpoint, bool begins);

/* Called now and then while states are saved and restored: a disk may be slow. */
void ra_checkpoint_between(ra_checkpoint *checkpoint, void (*between)(void *user), void *user);

/* ---- checkpoint_rows.c: results of virtual ranks ----------------------------------------------------------------- */

/* Before a run: where its results are. Both must outlive it. */
void ra_checkpoint_attach(ra_checkpoint *checkpoint, const ra_ring_plan *ring, const ra_tensors *tensors);

/* The results of finished ranks into storage. */
ra_status ra_checkpoint_restore_rows(ra_checkpoint *checkpoint, const ra_ring_plan *ring, const ra_tensors *tensors);

/*
 * Results of the current rank: views [batch, rows, heads, dim] and [batch, heads, rows] of rows from `first` on, which
 * are in storage already. What cannot be written now is read from there, and written, when the run is next saved.
 */
void ra_checkpoint_rows(ra_checkpoint *checkpoint, int rank, int64_t first, const ra_tensor *output,
                        const ra_tensor *lse);

/* All results of a rank have been given. */
void ra_checkpoint_rank_done(ra_checkpoint *checkpoint, int rank, const ra_rank_stats *stats);

/* ---- checkpoint_set.c: the files of ranks that are processes ----------------------------------------------------- */

/* The number of the set, and whether it is there already; for all ranks to compare. NULL: the run is not saved. */
uint64_t ra_checkpoint_set(const ra_checkpoint *checkpoint);
void ra_checkpoint_describe(const ra_checkpoint *checkpoint, char *text, size_t size);

/* Begin a set that goes by this number: before this rank's first save. */
void ra_checkpoint_join(ra_checkpoint *checkpoint, uint64_t set);

/*
 * After the first saves of all ranks; `all_saved` false: one has failed, or that is not known. If all have succeeded,
 * rank 0 writes PATH: from now on there is a checkpoint. If not, or if PATH cannot be written, rank 0 tries again after
 * each of its later saves.
 */
void ra_checkpoint_begin_set(ra_checkpoint *checkpoint, bool all_saved);

/* For a rank that is to stop: RA_ERROR_FILE if there is no PATH yet. */
ra_status ra_checkpoint_check_set(ra_checkpoint *checkpoint);

#endif
