/* SPDX-License-Identifier: Apache-2.0 */
/* Scores: a causal window of 128 keys, scores capped at 50, and a sink for each head that lies in memory. */
#include <math.h>
#include <ringattn/ringattn.h>
#include <stdio.h>

enum { SEQ = 500, HEADS = 4, DIM = 64, COUNT = SEQ * HEADS * DIM };

static float q[COUNT], k[COUNT], v[COUNT], o[COUNT];

int main(void)
{
    float sinks[HEADS] = {0.5f, -1.0f, 0.0f, 2.0f};
    ra_tensor tq = ra_tensor_dense(q, RA_F32, RA_BSHD, 1, SEQ, HEADS, DIM), tk = tq, tv = tq, to = tq;
    ra_tensor ts = ra_tensor_dense(sinks, RA_F32, RA_BSHD, 1, 1, HEADS, 1);
    tk.data = k, tv.data = v, to.data = o;
    ra_generate(RA_NORMAL, 1, 0, COUNT, q);
    ra_generate(RA_NORMAL, 2, 0, COUNT, k);
    ra_generate(RA_NORMAL, 3, 0, COUNT, v);

    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    arrays.sinks = &ts;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = SEQ, problem.heads = HEADS, problem.head_dim = DIM;
    problem.pattern = "causal+window:127,0";
    problem.scores = "softcap:50+sinks";
    problem.score_arrays = &arrays;

    ra_plan *plan = NULL;
    double row[DIM] = {0};
    if (ra_plan_create(&problem, NULL, &plan) || ra_forward(plan, &tq, &tk, &tv, &to, NULL, NULL) ||
        ra_reference_row(plan, &tq, &tk, &tv, 0, 3, 300, row, NULL)) {
        fprintf(stderr, "%s\n", ra_last_message());
        return 1;
    }
    double output = ra_tensor_get(&to, 0, 300, 3, 0);
    printf("row 300 of head 3 begins with %.6f, by the oracle with %.6f\n", output, row[0]);
    ra_plan_free(plan);
    return fabs(output - row[0]) > 2e-6;
}
