#include "plan/traffic.h"

#include "base/checked.h"
#include "plan/reach.h"

#include <stdlib.h>
#include <string.h>

/* What all ranks see, for each set of key/value heads. */
typedef struct counter {
    const ra_partition *keys;
    int64_t sets;
    ra_reach *reaches; /* [sets][ranks] */
    ra_traffic *traffic;
} counter;

static const ra_reach *reach_of(const counter *c, int64_t set, int rank)
{
    return &c->reaches[set * c->keys->ranks + rank];
}

/* Rows of a share, in all sets, that a rank sees between lo and hi. */
static int64_t rows_in(const counter *c, const ra_share *share, int rank, int64_t lo, int64_t hi)
{
    int64_t rows = 0;
    for (int64_t set = 0; set < c->sets; set++)
        rows += ra_reach_rows(reach_of(c, set, rank), share, lo, hi);
    return rows;
}

static int64_t rows_in_both(const counter *c, const ra_share *share, int rank, int other)
{
    int64_t rows = 0;
    for (int64_t set = 0; set < c->sets; set++)
        rows += ra_reach_rows_in_both(reach_of(c, set, rank), reach_of(c, set, other), share);
    return rows;
}

/*
 * Round the ring with the rows of one rank. What a rank sees of them comes from the rank before it, as far as that one
 * sees it too, and else from the owner.
 */
static void count_chunk(const counter *c, int owner)
{
    ra_traffic *traffic = c->traffic;
    ra_share chunk = ra_partition_share(c->keys, owner);
    int before = owner;
    for (int step = 1; step < c->keys->ranks; step++) {
        int rank = (int)(((int64_t)owner + step) % c->keys->ranks);
        int64_t received = rows_in(c, &chunk, rank, 0, INT64_MAX);
        int64_t passed_on = before == owner ? received : rows_in_both(c, &chunk, rank, before);
        traffic[rank].rows_received += received;
        traffic[rank].hops += received > 0;
        traffic[before].rows_sent += passed_on;
        traffic[owner].rows_sent += received - passed_on;
        before = rank;
    }
}

static void count_broadcast(const counter *c)
{
    const ra_partition *keys = c->keys;
    for (int from = 0; from < keys->ranks; from++) {
        ra_share owned = ra_partition_share(keys, from);
        for (int to = 0; to < keys->ranks; to++) {
            int64_t rows = to == from ? 0 : rows_in(c, &owned, to, 0, INT64_MAX);
            c->traffic[from].rows_sent += rows;
            c->traffic[to].rows_received += rows;
        }
    }
    for (int rank = 0; rank < keys->ranks; rank++) {
        ra_share owned = ra_partition_share(keys, rank);
        for (int piece = 0; piece < keys->ranks; piece++) {
            ra_piece part = ra_even_part(keys->length, keys->ranks, piece);
            ra_share all = ra_share_of_range(part.first, part.end);
            c->traffic[rank].hops +=
                rows_in(c, &all, rank, 0, INT64_MAX) > rows_in(c, &owned, rank, part.first, part.end);
        }
    }
}

static void count_allgather(const counter *c)
{
    for (int from = 0; from < c->keys->ranks; from++) {
        int64_t rows = c->sets * ra_partition_share(c->keys, from).rows;
        c->traffic[from].rows_sent += rows * (c->keys->ranks - 1);
        for (int to = 0; to < c->keys->ranks; to++)
            if (to != from) {
                c->traffic[to].rows_received += rows;
                c->traffic[to].hops += rows > 0;
            }
    }
}

static bool find_reaches(const counter *c, const ra_plan *plan, const ra_partition *queries)
{
    int64_t heads = plan->heads / c->sets;
    for (int64_t set = 0; set < c->sets; set++)
        for (int rank = 0; rank < c->keys->ranks; rank++) {
            ra_share share = ra_partition_share(queries, rank), own = ra_partition_share(c->keys, rank);
            if (!ra_reach_find(&c->reaches[set * c->keys->ranks + rank], plan, &share, &own, set * heads, heads))
                return false;
        }
    return true;
}

ra_status ra_traffic_count(const ra_plan *plan, int64_t sets, const ra_partition *queries, const ra_partition *keys,
                           ra_strategy strategy, ra_traffic *traffic)
{
    counter c = {.keys = keys, .sets = sets, .traffic = traffic};
    memset(traffic, 0, (size_t)keys->ranks * sizeof *traffic);
    if (strategy == RA_STRATEGY_ALLGATHER) {
        count_allgather(&c);
        return RA_OK;
    }
    int64_t count = sets * keys->ranks;
    c.reaches = calloc((size_t)count, sizeof *c.reaches);
    bool fits = c.reaches && find_reaches(&c, plan, queries);
    if (fits && strategy == RA_STRATEGY_BROADCAST)
        count_broadcast(&c);
    for (int owner = 0; owner < keys->ranks && fits && strategy == RA_STRATEGY_RING; owner++)
        count_chunk(&c, owner);
    for (int64_t i = 0; c.reaches && i < count; i++)
        ra_reach_free(&c.reaches[i]);
    free(c.reaches);
    return fits ? RA_OK : ra_fail(RA_ERROR_MEMORY, "out of memory: counting the traffic of %d ranks", keys->ranks);
}
