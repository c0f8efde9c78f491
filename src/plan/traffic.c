#include "plan/traffic.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* Sorted intervals that neither overlap nor touch. */
typedef struct list {
    int64_t count, room;
    ra_interval *at;
} list;

static bool append(list *l, int64_t lo, int64_t hi)
{
    if (lo >= hi)
        return true;
    if (l->count && l->at[l->count - 1].hi >= lo) {
        l->at[l->count - 1].hi = ra_max(l->at[l->count - 1].hi, hi);
        return true;
    }
    if (l->count == l->room) {
        int64_t room = 2 * l->room + 4;
        ra_interval *grown = realloc(l->at, (size_t)room * sizeof *grown);
        if (!grown)
            return false;
        l->at = grown;
        l->room = room;
    }
    l->at[l->count++] = (ra_interval){lo, hi};
    return true;
}

/* All keys that the queries of a share see. */
static bool reach(const ra_plan *p, const ra_share *queries, list *l)
{
    for (int64_t i = 0; i < queries->ranges; i++) {
        ra_range range = ra_share_range(queries, i);
        ra_interval seen = ra_pattern_reach(&p->pattern, range.first + p->offset, range.end - range.first);
        if (!append(l, seen.lo, seen.hi))
            return false;
    }
    return true;
}

static int64_t rows_between(const ra_share *share, int64_t lo, int64_t hi)
{
    return lo < hi ? ra_share_rows_below(share, hi) - ra_share_rows_below(share, lo) : 0;
}

/* Rows of a share in the list, between lo and hi. */
static int64_t rows_in(const ra_share *share, const list *l, int64_t lo, int64_t hi)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < l->count; i++)
        rows += rows_between(share, ra_max(l->at[i].lo, lo), ra_min(l->at[i].hi, hi));
    return rows;
}

/* Rows of a share that are in both lists. */
static int64_t rows_in_both(const ra_share *share, const list *a, const list *b)
{
    int64_t rows = 0;
    for (int64_t i = 0, j = 0; i < a->count && j < b->count;) {
        rows += rows_between(share, ra_max(a->at[i].lo, b->at[j].lo), ra_min(a->at[i].hi, b->at[j].hi));
        if (a->at[i].hi < b->at[j].hi)
            i++;
        else
            j++;
    }
    return rows;
}

/*
 * Round the ring with the rows of one rank. What a rank sees of them comes from the rank before it, as far as that one
 * sees it too, and else from the owner.
 */
static void count_chunk(const ra_partition *keys, const list *reaches, int owner, ra_traffic *traffic)
{
    ra_share chunk = ra_partition_share(keys, owner);
    int before = owner;
    for (int step = 1; step < keys->ranks; step++) {
        int rank = (int)(((int64_t)owner + step) % keys->ranks);
        int64_t received = rows_in(&chunk, &reaches[rank], 0, INT64_MAX);
        int64_t passed_on = before == owner ? received : rows_in_both(&chunk, &reaches[rank], &reaches[before]);
        traffic[rank].rows_received += received;
        traffic[rank].hops += received > 0;
        traffic[before].rows_sent += passed_on;
        traffic[owner].rows_sent += received - passed_on;
        before = rank;
    }
}

static void count_broadcast(const ra_partition *keys, const list *reaches, ra_traffic *traffic)
{
    for (int from = 0; from < keys->ranks; from++) {
        ra_share owned = ra_partition_share(keys, from);
        for (int to = 0; to < keys->ranks; to++) {
            int64_t rows = to == from ? 0 : rows_in(&owned, &reaches[to], 0, INT64_MAX);
            traffic[from].rows_sent += rows;
            traffic[to].rows_received += rows;
        }
    }
    for (int rank = 0; rank < keys->ranks; rank++) {
        ra_share owned = ra_partition_share(keys, rank);
        for (int piece = 0; piece < keys->ranks; piece++) {
            ra_piece part = ra_even_part(keys->length, keys->ranks, piece);
            ra_share all = ra_share_of_range(part.first, part.end);
            traffic[rank].hops +=
                rows_in(&all, &reaches[rank], 0, INT64_MAX) > rows_in(&owned, &reaches[rank], part.first, part.end);
        }
    }
}

static void count_allgather(const ra_partition *keys, ra_traffic *traffic)
{
    for (int from = 0; from < keys->ranks; from++) {
        int64_t rows = ra_partition_share(keys, from).rows;
        traffic[from].rows_sent += rows * (keys->ranks - 1);
        for (int to = 0; to < keys->ranks; to++)
            if (to != from) {
                traffic[to].rows_received += rows;
                traffic[to].hops += rows > 0;
            }
    }
}

ra_status ra_traffic_count(const ra_plan *plan, const ra_partition *queries, const ra_partition *keys,
                           ra_strategy strategy, ra_traffic *traffic)
{
    memset(traffic, 0, (size_t)keys->ranks * sizeof *traffic);
    if (strategy == RA_STRATEGY_ALLGATHER) {
        count_allgather(keys, traffic);
        return RA_OK;
    }
    list *reaches = calloc((size_t)keys->ranks, sizeof *reaches);
    bool fits = reaches != NULL;
    for (int rank = 0; rank < keys->ranks && fits; rank++) {
        ra_share share = ra_partition_share(queries, rank);
        fits = reach(plan, &share, &reaches[rank]);
    }
    if (fits && strategy == RA_STRATEGY_BROADCAST)
        count_broadcast(keys, reaches, traffic);
    for (int owner = 0; owner < keys->ranks && fits && strategy == RA_STRATEGY_RING; owner++)
        count_chunk(keys, reaches, owner, traffic);
    for (int rank = 0; reaches && rank < keys->ranks; rank++)
        free(reaches[rank].at);
    free(reaches);
    return fits ? RA_OK : ra_fail(RA_ERROR_MEMORY, "out of memory: counting the traffic of %d ranks", keys->ranks);
}
