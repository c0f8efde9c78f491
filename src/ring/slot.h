/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: which rows they hold, and moving these to and from storage, messages and other slots. */
#ifndef RA_RING_SLOT_H
#define RA_RING_SLOT_H

#include "ring/rank.h"

/* Say that a slot holds the rows that are marked in `words` on a share from now on; `stride` words are between planes.
 * RA_ERROR_INTERNAL if there is no room for them. */
ra_status ra_slot_set(ra_rank *e, int slot, const ra_share *share, const uint64_t *words, int64_t stride);

/* The same with all rows of a share. */
ra_status ra_slot_set_all(ra_rank *e, int slot, const ra_share *share);

/* Read rows `first` .. of a storage to rows `row` .. of a tensor, all batches; of its heads those from `head` on. */
ra_status ra_slot_read_rows(ra_rank *e, ra_storage *storage, int64_t first, int64_t count, int64_t head,
                            const ra_tensor *into, int64_t row);

/*
 * What the softmax of rows takes off their gradients: rows `row` .. of `delta`, from the same rows of `d_output` and
 * from rows `first` .. of the storages of the output and of the gradient by the log-sum-exp.
 */
ra_status ra_slot_find_delta(ra_rank *e, int64_t first, int64_t count, int64_t head, const ra_tensor *d_output,
                             const ra_tensor *delta, int64_t row);

/* Read some roles of the rows that a slot holds and that are marked in `rows`, `stride` words from plane to plane. */
ra_status ra_slot_read(ra_rank *e, const ra_slot *slot, unsigned roles, const uint64_t *rows, int64_t stride);

/* Write the sums of all rows of a slot to the storages in which virtual ranks keep them. */
ra_status ra_slot_write_sums(ra_rank *e, const ra_slot *slot);

/* Copy the rank's own rows that are marked into a slot that holds them. */
void ra_slot_copy_own(ra_rank *e, const ra_slot *into, const uint64_t *rows);

/* Add the sums in a slot to those of the rank's own rows, for own rows that are marked and that the slot holds. */
void ra_slot_add_home(ra_rank *e, const ra_slot *from, const uint64_t *rows);

/* Add the memory of the marked rows of a message to the segments of the phase: role by role, head by head. */
ra_status ra_slot_add_segments(ra_rank *e, const ra_slot *slot, const ra_message *message, const uint64_t *rows);

/* The storage of a role, or of the gradients that its sums become; and the keys of a slot as the tasks read them. */
ra_storage *ra_slot_storage(const ra_rank *e, ra_role role);
ra_keys ra_slot_keys(const ra_rank *e, const ra_slot *slot);

#endif
