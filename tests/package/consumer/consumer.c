/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the version after a run that must have gone through OpenMP and the kernels. */
#include <ringattn/ringattn.h>
#include <stdio.h>

int main(void)
{
    float x[3] = {1, 2, 3}, y[3] = {0};
    ra_tensor in = ra_tensor_dense(x, RA_F32, RA_BSHD, 1, 3, 1, 1), out = in;
    out.data = y;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 3, problem.heads = 1, problem.head_dim = 1;
    problem.pattern = "window:0";
    ra_plan *plan = NULL;
    if (ra_plan_create(&problem, NULL, &plan) || ra_forward(plan, &in, &in, &in, &out, NULL, NULL)) {
        fprintf(stderr, "%s\n", ra_last_message());
        return 1;
    }
    ra_plan_free(plan);
    puts(ra_version());
    return y[0] > 0.99f && y[2] < 3.01f ? 0 : 1;
}
