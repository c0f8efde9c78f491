/*
 * What travels between ranks, counted from the pattern and the partitions alone. The schedule that really moves rows
 * works differently (marks on rows, walked from rank to rank): that both come to the same figures is the proof.
 */
#ifndef RA_PLAN_TRAFFIC_H
#define RA_PLAN_TRAFFIC_H

#include "plan/plan.h"

typedef struct ra_traffic {
    int64_t hops;                     /* parts of the keys of which something came from another rank */
    int64_t rows_sent, rows_received; /* key rows of the heads of one set; their values go with them */
} ra_traffic;

/* For every rank: traffic[0 .. ranks). Rows count for each set of key/value heads: one, or as many as there are heads.
 */
ra_status ra_traffic_count(const ra_plan *plan, int64_t sets, const ra_partition *queries, const ra_partition *keys,
                           ra_strategy strategy, ra_traffic *traffic);

#endif
