/* SPDX-License-Identifier: Apache-2.0 */
/* Rows between a whole tensor and a rank's part of it. */
#ifndef RA_RING_RING_ROWS_H
#define RA_RING_RING_ROWS_H

#include "ring/ring_plan.h"

/* Copy the rows of a share, which tensors of the same dtype, batch, heads and dim have. `split`: out of the whole. */
void ra_ring_move_rows(const ra_share *share, const ra_tensor *whole, const ra_tensor *part, bool split);

#endif
