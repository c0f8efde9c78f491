/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: what they carry, and which rows. One function gives a message's rows to whoever sends, receives or counts.
 */
#ifndef RA_RING_MESSAGE_H
#define RA_RING_MESSAGE_H

#include "ring/reads.h"

/* A message of rows with all roles that travel with them, for all heads; the receiver stores it. */
ra_message ra_message_of_rows(const ra_pass *pass, int from, int to, int64_t phase);

/* The message of the sums that go along with the rows of a message. */
ra_message ra_message_of_sums(const ra_pass *pass, const ra_message *rows);

/* Sums that go back to their owner, `to`, from the rank that worked on its chunk in the step before the phase. */
ra_message ra_message_home(const ra_pass *pass, int from, int to, int64_t phase);

/* The share on which the receiver marks the rows of a message, and the sender. */
ra_share ra_message_share(const ra_pass *pass, const ra_message *message);
ra_share ra_message_held(const ra_pass *pass, const ra_message *message);

/* The rows of a message: see `rows` above. */
void ra_message_rows(const ra_reads *reads, const ra_message *message, const ra_share *on, uint64_t *words,
                     uint64_t *scratch);

/* Bytes of `rows` rows of a message: its roles, for the heads of one plane. */
int64_t ra_message_bytes(const ra_pass *pass, const ra_message *message, int64_t rows);

/* The largest number of contiguous runs that `rows` rows of a share can be, where the share lies row after row. */
int64_t ra_message_runs(const ra_pass *pass, int64_t rows);

#endif
