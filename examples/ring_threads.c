/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sequence over four ranks that are threads: each holds a quarter of the tokens, keys and values go round. The
 * order is zigzag, so that with a causal pattern every rank has the same work.
 */
#include <pthread.h>
#include <ringattn/ringattn.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 4, SEQ = 1000, HEADS = 2, DIM = 32, COUNT = SEQ * HEADS * DIM };

static float q[COUNT], k[COUNT], v[COUNT], o[COUNT];
static ra_ring_plan *plan;
static ra_comm *comms[RANKS];
static ra_rank_stats stats[RANKS] = {RA_RANK_STATS_INIT};

static ra_tensor view(float *data, int64_t rows)
{
    return ra_tensor_dense(data, RA_F32, RA_BSHD, 1, rows, HEADS, DIM);
}

/* What runs in each thread: take this rank's rows, attend, put them back. */
static void *run_rank(void *argument)
{
    ra_comm *comm = argument;
    int rank = ra_comm_rank(comm);
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_ring_plan_rank(plan, rank, &info);
    float *memory = malloc(4 * (size_t)info.q_rows * HEADS * DIM * sizeof(float));
    if (!memory)
        return "out of memory";
    int64_t part = info.q_rows * HEADS * DIM;
    ra_tensor pq = view(memory, info.q_rows), pk = view(memory + part, info.kv_rows);
    ra_tensor pv = view(memory + 2 * part, info.kv_rows), po = view(memory + 3 * part, info.q_rows);
    ra_tensor wq = view(q, SEQ), wk = view(k, SEQ), wv = view(v, SEQ), wo = view(o, SEQ);
    ra_status status = ra_ring_split(plan, rank, 0, &wq, &pq);
    if (!status)
        status = ra_ring_split(plan, rank, 1, &wk, &pk);
    if (!status)
        status = ra_ring_split(plan, rank, 1, &wv, &pv);
    if (!status)
        status = ra_ring_forward(plan, comm, &pq, &pk, &pv, &po, NULL, rank == 0 ? stats : NULL);
    if (!status)
        status = ra_ring_gather(plan, rank, 0, &po, &wo);
    if (status)
        fprintf(stderr, "rank %d: %s\n", rank, ra_last_message());
    free(memory);
    ra_comm_free(comm);
    return status ? "failed" : NULL;
}

int main(void)
{
    ra_generate(RA_NORMAL, 1, 0, COUNT, q);
    ra_generate(RA_NORMAL, 2, 0, COUNT, k);
    ra_generate(RA_NORMAL, 3, 0, COUNT, v);

    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = SEQ, problem.heads = HEADS, problem.head_dim = DIM, problem.pattern = "causal";
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = RANKS, ring.order = RA_ORDER_ZIGZAG, ring.transport = RA_TRANSPORT_THREADS;
    if (ra_ring_plan_create(&problem, NULL, &ring, &plan) || ra_comm_threads(RANKS, comms)) {
        fprintf(stderr, "%s\n", ra_last_message());
        return 1;
    }
    pthread_t threads[RANKS];
    int failed = 0;
    for (int rank = 0; rank < RANKS; rank++)
        if (pthread_create(&threads[rank], NULL, run_rank, comms[rank]))
            return 1;
    for (int rank = 0; rank < RANKS; rank++) {
        void *result;
        pthread_join(threads[rank], &result);
        failed |= result != NULL;
    }
    for (int rank = 0; rank < RANKS && !failed; rank++)
        printf("rank %d: %lld rows, %lld hops, %.0f pairs\n", rank, (long long)stats[rank].q_rows,
               (long long)stats[rank].hops, stats[rank].pairs_visible);
    ra_ring_plan_free(plan);
    return failed;
}
