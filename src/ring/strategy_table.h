/* SPDX-License-Identifier: Apache-2.0 */
/* The table of strategies: a new one is a line in strategy_table.c. */
#ifndef RA_RING_STRATEGY_TABLE_H
#define RA_RING_STRATEGY_TABLE_H

#include "ring/strategy.h"

/* NULL: there is no such strategy. */
const ra_strategy_kind *ra_strategy_find(ra_strategy strategy);

#endif
