/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up packed sequences, padded batches and masks for made-up problems. */
#ifndef SUPPORT_RAGGED_H
#define SUPPORT_RAGGED_H

#include "ringattn/ringattn.h"
#include "support/random.h"

/*
 * Perhaps adds documents:Q/K, lengths and a mask to the text of a problem whose other figures are chosen: where no term
 * and no position forbids it. The arrays stay until sixteen more problems have got some.
 */
void choose_ragged(choices *c, ra_problem *problem, char *text, size_t size);

/* documents:Q/K,Q/K,... for so many queries and keys; some have none of either. */
void append_packed(choices *c, int64_t q_len, int64_t kv_len, char *text, size_t size);

#endif
