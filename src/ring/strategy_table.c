/* SPDX-License-Identifier: Apache-2.0 */
/* The table of strategies. */
#include "ring/strategy_table.h"

extern const ra_strategy_kind ra_strategy_of_ring, ra_strategy_of_allgather, ra_strategy_of_broadcast;

static const ra_strategy_kind *const kinds[] = {&ra_strategy_of_ring, &ra_strategy_of_allgather,
                                                &ra_strategy_of_broadcast, NULL};

const ra_strategy_kind *ra_strategy_find(ra_strategy strategy)
{
    const ra_strategy_kind *const *kind = kinds;
    while (*kind && (*kind)->id != strategy)
        kind++;
    return *kind;
}
