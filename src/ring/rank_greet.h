/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting: ranks compare what they are about to do, and say where their rows are. */
#ifndef RA_RING_RANK_GREET_H
#define RA_RING_RANK_GREET_H

#include "ring/rank.h"

ra_status ra_rank_greet(ra_rank *e);

#endif
