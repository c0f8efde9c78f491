/*
 * What travels between ranks, counted from the pattern and the partitions alone. The run works differently (marks on
 * rows, message by message): that both come to the same figures is the proof.
 */
#ifndef RA_PLAN_TRAFFIC_H
#define RA_PLAN_TRAFFIC_H

#include "plan/plan.h"

typedef struct ra_traffic {
    int64_t hops;                     /* parts of the keys of which something came from another rank */
    int64_t rows_sent, rows_received; /* key rows of the heads of one plane; their values go with them */
    int64_t rows_most;                /* of those received, the rows of one chunk or part at most */
    int64_t rows_again;               /* own rows that were given up before and are sent in one phase, at most */
} ra_traffic;

/* The problem, and the ranks first <= r < end whose traffic is counted. */
typedef struct ra_traffic_question {
    const ra_plan *plan;
    int64_t planes;
    const ra_partition *queries, *keys;
    int first, end;
} ra_traffic_question;

/* One function for each way in which rows travel; traffic[0] is of rank `first`. */
typedef ra_status (*ra_traffic_counter)(const ra_traffic_question *question, ra_traffic *traffic);
ra_status ra_traffic_ring(const ra_traffic_question *question, ra_traffic *traffic);
ra_status ra_traffic_broadcast(const ra_traffic_question *question, ra_traffic *traffic);
ra_status ra_traffic_allgather(const ra_traffic_question *question, ra_traffic *traffic);

#endif
