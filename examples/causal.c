/* SPDX-License-Identifier: Apache-2.0 */
#include <ringattn/ringattn.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    enum { SEQ = 1000, HEADS = 8, DIM = 64, COUNT = SEQ * HEADS * DIM };
    float *x = malloc(4 * (size_t)COUNT * sizeof(float));
    if (!x)
        return 1;
    for (int i = 0; i < 3; i++)
        ra_generate(RA_NORMAL, 1 + (uint64_t)i, 0, COUNT, x + (size_t)i * COUNT);
    ra_tensor q = ra_tensor_dense(x, RA_F32, RA_BSHD, 1, SEQ, HEADS, DIM), k = q, v = q, o = q;
    k.data = x + COUNT, v.data = x + 2 * COUNT, o.data = x + 3 * COUNT;

    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = SEQ, problem.heads = HEADS, problem.head_dim = DIM;
    problem.pattern = "causal";
    ra_plan *plan = NULL;
    ra_stats stats = RA_STATS_INIT;
    if (ra_plan_create(&problem, NULL, &plan) || ra_forward(plan, &q, &k, &v, &o, NULL, &stats)) {
        fprintf(stderr, "%s\n", ra_last_message());
        return 1;
    }
    printf("%.3f ms, %lld bytes of scratch\n", 1e3 * stats.seconds_compute, (long long)stats.peak_bytes);
    ra_plan_free(plan);
    free(x);
    return 0;
}
