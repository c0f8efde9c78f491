/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels between ranks, counted from the pattern and the partitions alone. The run works differently (marks on
 * rows, message by message): that both come to the same figures is the proof.
 */
#ifndef RA_PLAN_TRAFFIC_H
#define RA_PLAN_TRAFFIC_H

#include "plan/reach.h"

typedef struct ra_traffic {
    int64_t hops;                     /* chunks or parts of which something came from another rank */
    int64_t rows_sent, rows_received; /* of the heads of one plane; what belongs to a row goes with it */
    int64_t rows_most;                /* of those received, the rows of one chunk or part at most */
    int64_t rows_again;               /* own rows that were given up before and are sent in one phase, at most */
    int64_t sums_sent, sums_received; /* rows whose gradient sums travel, with the rows or to their owners */
} ra_traffic;

/* The problem, and the ranks first <= r < end whose traffic is counted. */
typedef struct ra_traffic_question {
    const ra_plan *plan;
    int64_t planes;
    const ra_partition *queries, *keys;
    int first, end;
    ra_side moving; /* whose rows travel */
    bool sums;      /* gradient sums of the rows travel, too */
} ra_traffic_question;

/* One function for each way in which rows travel; traffic[0] is of rank `first`. */
typedef ra_status (*ra_traffic_counter)(const ra_traffic_question *question, ra_traffic *traffic);
ra_status ra_traffic_ring(const ra_traffic_question *question, ra_traffic *traffic);
ra_status ra_traffic_broadcast(const ra_traffic_question *question, ra_traffic *traffic);
ra_status ra_traffic_allgather(const ra_traffic_question *question, ra_traffic *traffic);

#endif
