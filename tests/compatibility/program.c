/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program as somebody wrote it for 0.1.0: compiled with that version's header, run with the library of this build. It
 * uses every struct that grows, and compares results with the library's oracle.
 */
#include <math.h>
#include <ringattn/ringattn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1, SEQ = 203, HEADS = 4, KV_HEADS = 2, DIM = 24, RANKS = 3 };
enum { Q_COUNT = SEQ * HEADS * DIM, K_COUNT = SEQ * KV_HEADS * DIM, ROWS = SEQ * HEADS };

static float q_data[Q_COUNT], k_data[K_COUNT], v_data[K_COUNT], o_data[Q_COUNT], lse_data[ROWS], d_o[Q_COUNT];
static float d_q[Q_COUNT], d_k[K_COUNT], d_v[K_COUNT];
static double true_d_q[Q_COUNT], true_d_k[K_COUNT], true_d_v[K_COUNT];

static void check(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, ra_last_message());
    exit(1);
}

static ra_tensor view(float *data, int64_t heads, int64_t dim)
{
    return ra_tensor_dense(data, RA_F32, RA_BSHD, BATCH, SEQ, heads, dim);
}

static double farthest(const float *got, const double *expected, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++)
        most = fmax(most, fabs(got[i] - expected[i]));
    return most;
}

/* Some rows of the output and all of the log-sum-exp's. */
static void check_output(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v)
{
    double row[DIM], lse, most = 0;
    for (int64_t i = 0; i < SEQ; i += 7)
        for (int64_t h = 0; h < HEADS; h++) {
            check(ra_reference_row(plan, q, k, v, 0, h, i, row, &lse) == RA_OK, "ra_reference_row");
            most = fmax(most, farthest(o_data + (i * HEADS + h) * DIM, row, DIM));
            most = fmax(most, fabs(lse_data[i * HEADS + h] - lse));
        }
    check(most < 1e-5, "output");
}

static void check_gradients(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                            const ra_tensor *d_output)
{
    check(ra_reference_backward(plan, q, k, v, d_output, NULL, true_d_q, true_d_k, true_d_v) == RA_OK,
          "ra_reference_backward");
    check(farthest(d_q, true_d_q, Q_COUNT) < 1e-4 && farthest(d_k, true_d_k, K_COUNT) < 1e-4 &&
              farthest(d_v, true_d_v, K_COUNT) < 1e-4,
          "gradients");
}

static void check_file(const char *path)
{
    const int64_t shape[] = {SEQ, HEADS, DIM};
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    check(ra_array_create(path, RA_F32, 3, shape, &array) == RA_OK, "ra_array_create");
    check(ra_array_write(array, 0, Q_COUNT, o_data) == RA_OK && ra_array_commit(array) == RA_OK, "ra_array_write");
    ra_array_close(array);
    check(ra_array_open(path, &array) == RA_OK && ra_array_describe(array, &info) == RA_OK, "ra_array_open");
    check(info.dims == 3 && info.count == Q_COUNT && info.dtype == RA_F32, "ra_array_describe");
    check(ra_array_read(array, 0, Q_COUNT, d_q) == RA_OK, "ra_array_read");
    for (int i = 0; i < Q_COUNT; i++)
        check(d_q[i] == o_data[i], "what was read");
    ra_array_close(array);
}

int main(int argc, char **argv)
{
    ra_tensor q = view(q_data, HEADS, DIM), k = view(k_data, KV_HEADS, DIM), v = view(v_data, KV_HEADS, DIM);
    ra_tensor o = view(o_data, HEADS, DIM), lse = view(lse_data, HEADS, 1), grad = view(d_o, HEADS, DIM);
    ra_tensor dq = view(d_q, HEADS, DIM), dk = view(d_k, KV_HEADS, DIM), dv = view(d_v, KV_HEADS, DIM);
    float sinks_data[HEADS] = {0.5F, -1, 0, 2};
    ra_tensor sinks = ra_tensor_dense(sinks_data, RA_F32, RA_BSHD, 1, 1, HEADS, 1);
    ra_generate(RA_NORMAL, 1, 0, Q_COUNT, q_data);
    ra_generate(RA_NORMAL, 2, 0, K_COUNT, k_data);
    ra_generate(RA_NORMAL, 3, 0, K_COUNT, v_data);
    ra_generate(RA_NORMAL, 4, 0, Q_COUNT, d_o);

    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    arrays.sinks = &sinks;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = SEQ, problem.heads = HEADS, problem.kv_heads = KV_HEADS, problem.head_dim = DIM;
    problem.pattern = "causal+window:90,0", problem.scores = "softcap:20+alibi+sinks", problem.score_arrays = &arrays;
    ra_options options = RA_OPTIONS_INIT;
    options.threads = 2;
    ra_plan *plan = NULL;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_stats stats = RA_STATS_INIT;
    check(ra_plan_create(&problem, &options, &plan) == RA_OK && ra_plan_describe(plan, &info) == RA_OK, "plan");
    check(ra_forward(plan, &q, &k, &v, &o, &lse, &stats) == RA_OK, "ra_forward");
    check(stats.pairs_visible == info.pairs_visible && stats.peak_bytes <= info.peak_bytes, "statistics");
    check_output(plan, &q, &k, &v);
    check(ra_backward(plan, &q, &k, &v, &o, &lse, &grad, NULL, &dq, &dk, &dv, &stats) == RA_OK, "ra_backward");
    check_gradients(plan, &q, &k, &v, &grad);
    if (argc > 1)
        check_file(argv[1]);

    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = RANKS, ring.order = RA_ORDER_ZIGZAG;
    ra_ring_plan *ring_plan = NULL;
    ra_comm *comm = NULL;
    ra_rank_info rank = RA_RANK_INFO_INIT;
    ra_rank_stats ranks[RANKS] = {RA_RANK_STATS_INIT};
    check(ra_ring_plan_create(&problem, &options, &ring, &ring_plan) == RA_OK, "ra_ring_plan_create");
    check(ra_ring_plan_rank(ring_plan, 1, &rank) == RA_OK && ra_comm_sim(RANKS, &comm) == RA_OK, "ra_comm_sim");
    memset(o_data, 0, sizeof o_data);
    check(ra_ring_forward(ring_plan, comm, &q, &k, &v, &o, &lse, ranks) == RA_OK, "ra_ring_forward");
    check(ranks[1].hops == rank.hops && ranks[1].q_rows == rank.q_rows, "statistics of a rank");
    check_output(plan, &q, &k, &v);
    ra_comm_free(comm);
    ra_ring_plan_free(ring_plan);

    ring.backward = 1;
    check(ra_ring_plan_create(&problem, &options, &ring, &ring_plan) == RA_OK, "plan of gradients over ranks");
    check(ra_comm_sim(RANKS, &comm) == RA_OK, "ra_comm_sim");
    check(ra_ring_backward(ring_plan, comm, &q, &k, &v, &o, &lse, &grad, NULL, &dq, &dk, &dv, ranks) == RA_OK,
          "ra_ring_backward");
    check_gradients(plan, &q, &k, &v, &grad);
    ra_comm_free(comm);
    ra_ring_plan_free(ring_plan);
    ra_plan_free(plan);
    printf("compiled for %d.%d.%d, run with %s\n", RA_VERSION_MAJOR, RA_VERSION_MINOR, RA_VERSION_PATCH, ra_version());
    return 0;
}
