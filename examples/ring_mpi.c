/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sequence over the processes of an mpirun: each makes its own rows of Q, K and V, and gets its own rows of the
 * output. No process ever holds the whole sequence. Run it with `mpirun -n 4 ring_mpi`.
 */
#include <ringattn/mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEQ = 4096, HEADS = 2, DIM = 32, ROW = HEADS * DIM };

static int fail(const char *doing)
{
    fprintf(stderr, "%s: %s\n", doing, ra_last_message());
    return MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A rank's rows of a made-up tensor: any row can be made by itself. */
static void make_rows(const ra_ring_plan *plan, int rank, uint64_t seed, float *rows)
{
    ra_piece piece;
    for (int64_t i = 0; ra_ring_plan_keys(plan, rank, i, &piece) == RA_OK; i++) {
        ra_generate(RA_NORMAL, seed, piece.first * ROW, (piece.end - piece.first) * ROW, rows);
        rows += (piece.end - piece.first) * ROW;
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    ra_comm *comm = NULL;
    if (ra_mpi_check_launcher() || ra_comm_mpi(MPI_COMM_WORLD, &comm))
        return fail("communicator");
    int rank = ra_comm_rank(comm), ranks = ra_comm_ranks(comm);

    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = SEQ, problem.heads = HEADS, problem.head_dim = DIM, problem.pattern = "causal";
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = ranks, ring.order = RA_ORDER_ZIGZAG, ring.transport = RA_TRANSPORT_MPI;
    ra_ring_plan *plan = NULL;
    ra_rank_info info = RA_RANK_INFO_INIT;
    if (ra_ring_plan_create(&problem, NULL, &ring, &plan) || ra_ring_plan_rank(plan, rank, &info))
        return fail("plan");

    size_t part = (size_t)info.q_rows * ROW;
    float *memory = malloc((4 * part + 1) * sizeof(float));
    ra_rank_stats *stats = calloc((size_t)ranks, sizeof *stats);
    if (!memory || !stats)
        return MPI_Abort(MPI_COMM_WORLD, 1);
    ra_tensor q = ra_tensor_dense(memory, RA_F32, RA_BSHD, 1, info.q_rows, HEADS, DIM), k = q, v = q, o = q;
    k.data = memory + part, v.data = memory + 2 * part, o.data = memory + 3 * part;
    make_rows(plan, rank, 1, q.data);
    make_rows(plan, rank, 2, k.data);
    make_rows(plan, rank, 3, v.data);

    stats[0].size = sizeof *stats;
    if (ra_ring_forward(plan, comm, &q, &k, &v, &o, NULL, stats))
        return fail("attention");
    for (int i = 0; i < ranks && rank == 0; i++)
        printf("rank %d: %lld rows, %lld hops, %.0f pairs, %lld bytes at most\n", i, (long long)stats[i].q_rows,
               (long long)stats[i].hops, stats[i].pairs_visible, (long long)stats[i].peak_bytes);
    free(stats);
    free(memory);
    ra_ring_plan_free(plan);
    ra_comm_free(comm);
    MPI_Finalize();
    return 0;
}
