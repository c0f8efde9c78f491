/* The table of strategies. */
#include "ring/strategy_table.h"

extern const ra_strategy_kind ra_strategy_of_ring, ra_strategy_of_allgather, ra_strategy_of_broadcast;

static const ra_strategy_kind *const kinds[] = {&ra_strategy_of_ring, &ra_strategy_of_allgather,
                                                &ra_strategy_of_broadcast};

const ra_strategy_kind *ra_strategy_find(ra_strategy strategy)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i]->id == strategy)
            return kinds[i];
    return NULL;
}
