/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scores from memory: a T5-like layer, which learns one number for each head and bucket of distances. Buckets become a
 * table for the term `relative`. The gradient of the table, added up by bucket, is that of the learned numbers: a small
 * step against it must make the loss smaller, by about the step times the sum of its squares.
 */
#include <math.h>
#include <ringattn/ringattn.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEQ = 300, HEADS = 4, DIM = 32, COUNT = SEQ * HEADS * DIM };
enum { BUCKETS = 32, FAR = 128, ENTRIES = 2 * FAR + 1 };

static const double STEP = 1e-2;

typedef struct layer {
    float learned[BUCKETS][HEADS];
    float table[HEADS][ENTRIES], d_table[HEADS][ENTRIES];
    float q[COUNT], k[COUNT], v[COUNT], output[COUNT], lse[SEQ * HEADS];
} layer;

/* The bucket of each entry of a table: the table of a head whose learned numbers are those of the buckets. */
static ra_status find_buckets(int buckets[ENTRIES])
{
    float numbers[BUCKETS], table[ENTRIES];
    for (int i = 0; i < BUCKETS; i++)
        numbers[i] = (float)i;
    ra_status status = ra_relative_from_buckets(numbers, BUCKETS, 1, 1, FAR, table);
    for (int i = 0; i < ENTRIES && !status; i++)
        buckets[i] = (int)table[i];
    return status;
}

/* Half of the sum of the squares of the output: its gradient by the output is the output. */
static ra_status forward(const ra_plan *plan, layer *l, const ra_tensor inputs[3], const ra_tensor *o, double *loss)
{
    ra_tensor lse = ra_tensor_dense(l->lse, RA_F32, RA_BSHD, 1, SEQ, HEADS, 1);
    ra_status status = ra_relative_from_buckets(&l->learned[0][0], BUCKETS, HEADS, 1, FAR, &l->table[0][0]);
    if (!status) /* each run reads the table anew */
        status = ra_forward(plan, &inputs[0], &inputs[1], &inputs[2], o, &lse, NULL);
    *loss = 0;
    for (int i = 0; i < COUNT && !status; i++)
        *loss += 0.5 * (double)l->output[i] * (double)l->output[i];
    return status;
}

/* A step against the gradient. Returns the sum of its squares. */
static double descend(layer *l, const int buckets[ENTRIES])
{
    double gradient[BUCKETS][HEADS] = {{0}}, squares = 0;
    for (int i = 0; i < HEADS * ENTRIES; i++)
        gradient[buckets[i % ENTRIES]][i / ENTRIES] += (double)l->d_table[i / ENTRIES][i % ENTRIES];
    for (int i = 0; i < BUCKETS * HEADS; i++) {
        double g = gradient[i / HEADS][i % HEADS];
        l->learned[i / HEADS][i % HEADS] -= (float)(STEP * g);
        squares += g * g;
    }
    return squares;
}

static ra_status train(layer *l, double *before, double *after, double *expected)
{
    ra_tensor q = ra_tensor_dense(l->q, RA_F32, RA_BSHD, 1, SEQ, HEADS, DIM), o = q, inputs[3] = {q, q, q};
    inputs[1].data = l->k, inputs[2].data = l->v, o.data = l->output;
    ra_tensor lse = ra_tensor_dense(l->lse, RA_F32, RA_BSHD, 1, SEQ, HEADS, 1);
    ra_tensor table = ra_tensor_dense(l->table, RA_F32, RA_BSHD, 1, 1, HEADS, ENTRIES), d_table = table;
    d_table.data = l->d_table;

    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    arrays.table = &table, arrays.d_table = &d_table;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = SEQ, problem.heads = HEADS, problem.head_dim = DIM, problem.scale = 1; /* T5 has no scale */
    problem.scores = "relative", problem.score_arrays = &arrays;
    ra_plan *plan = NULL;
    int buckets[ENTRIES] = {0};
    ra_status status = ra_plan_create(&problem, NULL, &plan);
    if (!status)
        status = find_buckets(buckets);
    if (!status)
        status = forward(plan, l, inputs, &o, before);
    if (!status)
        status = ra_backward(plan, &inputs[0], &inputs[1], &inputs[2], &o, &lse, &o, NULL, NULL, NULL, NULL, NULL);
    *expected = *before - STEP * descend(l, buckets);
    if (!status)
        status = forward(plan, l, inputs, &o, after);
    ra_plan_free(plan);
    return status;
}

int main(void)
{
    double before = 0, after = 0, expected = 0;
    layer *l = calloc(1, sizeof *l);
    if (!l)
        return 1;
    ra_generate(RA_NORMAL, 1, 0, COUNT, l->q);
    ra_generate(RA_NORMAL, 2, 0, COUNT, l->k);
    ra_generate(RA_NORMAL, 3, 0, COUNT, l->v);
    ra_generate(RA_NORMAL, 4, 0, BUCKETS * HEADS, &l->learned[0][0]);
    ra_status status = train(l, &before, &after, &expected);
    if (status)
        fprintf(stderr, "%s\n", ra_last_message());
    else
        printf("loss: %.3f, after one step %.3f, to first order %.3f\n", before, after, expected);
    free(l);
    return status || fabs(after - expected) > 0.05 * (before - expected);
}
