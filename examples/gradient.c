/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of gradient descent through attention. The loss is half of the squared distance of the output from a target,
 * so its gradient by the output is output - target. ra_backward takes that back to queries, keys and values; a small
 * step against the three gradients must make the loss smaller, by about the step times the sum of their squares.
 */
#include <math.h>
#include <ringattn/ringattn.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEQ = 200, HEADS = 4, DIM = 32, COUNT = SEQ * HEADS * DIM, INPUTS = 3 };

static const double STEP = 1e-3;

typedef struct model {
    float inputs[INPUTS][COUNT], gradients[INPUTS][COUNT]; /* queries, keys and values */
    float output[COUNT], target[COUNT], d_output[COUNT];
    float lse[SEQ * HEADS];
} model;

static ra_tensor view(float *data)
{
    return ra_tensor_dense(data, RA_F32, RA_BSHD, 1, SEQ, HEADS, DIM);
}

/* Forward: the output, its log-sum-exp, the loss and the loss's gradient by the output. */
static ra_status forward(const ra_plan *plan, model *m, double *loss)
{
    ra_tensor q = view(m->inputs[0]), k = view(m->inputs[1]), v = view(m->inputs[2]), o = view(m->output);
    ra_tensor lse = ra_tensor_dense(m->lse, RA_F32, RA_BSHD, 1, SEQ, HEADS, 1);
    ra_status status = ra_forward(plan, &q, &k, &v, &o, &lse, NULL);
    *loss = 0;
    for (int i = 0; i < COUNT && !status; i++) {
        m->d_output[i] = m->output[i] - m->target[i];
        *loss += 0.5 * (double)m->d_output[i] * (double)m->d_output[i];
    }
    return status;
}

/* Backward: the output and the log-sum-exp of the forward pass are all that it needs of it. */
static ra_status backward(const ra_plan *plan, model *m, ra_stats *stats)
{
    ra_tensor q = view(m->inputs[0]), k = view(m->inputs[1]), v = view(m->inputs[2]), o = view(m->output);
    ra_tensor d_q = view(m->gradients[0]), d_k = view(m->gradients[1]), d_v = view(m->gradients[2]);
    ra_tensor lse = ra_tensor_dense(m->lse, RA_F32, RA_BSHD, 1, SEQ, HEADS, 1), d_o = view(m->d_output);
    return ra_backward(plan, &q, &k, &v, &o, &lse, &d_o, NULL, &d_q, &d_k, &d_v, stats);
}

/* Against the gradient. Returns the sum of its squares. */
static double descend(model *m)
{
    double squares = 0;
    for (int i = 0; i < INPUTS; i++)
        for (int j = 0; j < COUNT; j++) {
            double gradient = (double)m->gradients[i][j];
            m->inputs[i][j] -= (float)(STEP * gradient);
            squares += gradient * gradient;
        }
    return squares;
}

static ra_status train(const ra_plan *plan, model *m, double *before, double *after, double *expected)
{
    ra_stats stats = RA_STATS_INIT;
    ra_status status = forward(plan, m, before);
    if (!status)
        status = backward(plan, m, &stats);
    if (status)
        return status;
    *expected = *before - STEP * descend(m);
    printf("gradients: %.0f visible pairs, %.0f flops, %lld bytes of scratch\n", stats.pairs_visible, stats.flops,
           (long long)stats.peak_bytes);
    return forward(plan, m, after);
}

int main(void)
{
    double before = 0, after = 0, expected = 0;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = SEQ, problem.heads = HEADS, problem.head_dim = DIM;
    problem.pattern = "causal";
    ra_plan *plan = NULL;
    model *m = malloc(sizeof *m);
    if (!m)
        return 1;
    for (int i = 0; i < INPUTS; i++)
        ra_generate(RA_NORMAL, 1 + (uint64_t)i, 0, COUNT, m->inputs[i]);
    ra_generate(RA_NORMAL, 4, 0, COUNT, m->target);
    ra_status status = ra_plan_create(&problem, NULL, &plan);
    if (!status)
        status = train(plan, m, &before, &after, &expected);
    if (status)
        fprintf(stderr, "%s\n", ra_last_message());
    else
        printf("loss: %.3f, after one step %.3f, to first order %.3f\n", before, after, expected);
    ra_plan_free(plan);
    free(m);
    return status || fabs(after - expected) > 0.01 * (before - expected);
}
