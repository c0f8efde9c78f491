/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares and makes the short runs of a calibration. See trial.h. */
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/*
 * The log-sum-exp of full attention over normal rows, about: a backward pass then meets weights of the usual size. It
 * takes as long with an output of zeros as with the right one.
 */
static ra_status take_lse(trial_tensors *t, const bench_shape *shape)
{
    int64_t count = shape->batch * shape->q_len * shape->heads;
    float *values = malloc((size_t)count * sizeof *values);
    if (!values) {
        fprintf(stderr, "ringattn: out of memory for a calibration\n");
        return RA_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < count; i++)
        values[i] = logf((float)shape->kv_len) + 0.5f;
    t->lse = ra_tensor_dense(values, RA_F32, RA_BSHD, shape->batch, shape->q_len, shape->heads, 1);
    return RA_OK;
}

static ra_status take_gradients(trial_tensors *t, const bench_shape *shape)
{
    ra_status status = bench_tensors_take(&t->gradients, shape, "a calibration");
    if (status)
        return status;
    const ra_tensor *d_output = &t->gradients.output, *output = &t->inputs.output;
    int64_t count = shape->batch * shape->q_len * shape->heads * shape->dim;
    ra_generate_as(RA_NORMAL, 4, 0, count, d_output->dtype, d_output->data);
    memset(output->data, 0, (size_t)count * ra_dtype_size(output->dtype));
    return take_lse(t, shape);
}

ra_status trial_tensors_take(trial_tensors *t, const bench_shape *shape, const char *scores, bool backward)
{
    *t = (trial_tensors){.backward = backward};
    ra_status status = trial_scores_take(&t->scores, scores, shape->heads);
    if (!status)
        status = bench_tensors_take(&t->inputs, shape, "a calibration");
    if (status)
        return status;
    bench_tensors_fill(&t->inputs, 1);
    return backward ? take_gradients(t, shape) : RA_OK;
}

void trial_tensors_give(trial_tensors *t)
{
    bench_tensors_give(&t->inputs);
    bench_tensors_give(&t->gradients);
    trial_scores_give(&t->scores);
    free(t->lse.data);
}

/* ---- Preparing --------------------------------------------------------------------------------------------------- */

static void take_rows(trial *t, const trial_form *form, const trial_tensors *tensors)
{
    const bench_tensors *in = &tensors->inputs, *d = &tensors->gradients;
    const ra_tensor whole[TRIAL_TENSORS] = {in->q, in->k, in->v, in->output, tensors->lse, d->output, d->q, d->k, d->v};
    const unsigned keys = 1u << TRIAL_K | 1u << TRIAL_V | 1u << TRIAL_D_K | 1u << TRIAL_D_V;
    for (int i = 0; i < TRIAL_TENSORS; i++) {
        t->tensors[i] = whole[i];
        t->tensors[i].seq = keys >> i & 1 ? form->kv_len : form->q_len;
    }
}

static ra_status prepare_ring(trial *t, const trial_form *form, const ra_problem *problem, const ra_options *options)
{
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = form->ranks;
    ring.strategy = form->strategy;
    ring.order = form->order;
    ring.lent = !form->stored;
    ring.q_dtype = ring.k_dtype = ring.v_dtype = ring.o_dtype = t->tensors[TRIAL_Q].dtype;
    ring.d_output_dtype = ring.d_q_dtype = ring.d_k_dtype = ring.d_v_dtype = ring.q_dtype;
    ring.backward = t->backward;
    ring.lse = t->backward;
    ra_status status = ra_ring_plan_create(problem, options, &ring, &t->ring);
    if (!status)
        status = model_work_of_ring(problem, options, &ring, t->ring, &t->work);
    return status ? status : ra_comm_sim(form->ranks, &t->comm);
}

ra_status trial_prepare(trial *t, const trial_form *form, trial_tensors *tensors, const ra_options *options)
{
    ra_problem problem = RA_PROBLEM_INIT;
    char scores[TRIAL_SCORES_TEXT];
    problem.q_len = form->q_len;
    problem.kv_len = form->kv_len;
    problem.heads = tensors->inputs.q.heads;
    problem.head_dim = tensors->inputs.q.dim;
    problem.pattern = form->pattern;
    *t = (trial){.backward = tensors->backward, .stored = form->stored};
    take_rows(t, form, tensors);
    ra_status status = trial_scores_place(&tensors->scores, &problem, scores);
    if (status || form->ranks)
        return status ? status : prepare_ring(t, form, &problem, options);
    status = ra_plan_create(&problem, options, &t->plan);
    return status ? status : model_work_of_plan(&problem, t->plan, t->backward, &t->work);
}

void trial_free(trial *t)
{
    ra_comm_free(t->comm);
    ra_ring_plan_free(t->ring);
    ra_plan_free(t->plan);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static ra_status run_stored(const trial *t)
{
    ra_storage *s[TRIAL_TENSORS] = {NULL};
    ra_status status = RA_OK;
    for (int i = 0; i < (t->backward ? TRIAL_TENSORS : TRIAL_LSE) && !status; i++)
        status = ra_storage_memory(&t->tensors[i], &s[i]);
    if (!status && t->backward)
        status =
            ra_ring_run_backward(t->ring, t->comm, s[TRIAL_Q], s[TRIAL_K], s[TRIAL_V], s[TRIAL_OUTPUT], s[TRIAL_LSE],
                                 s[TRIAL_D_OUTPUT], NULL, s[TRIAL_D_Q], s[TRIAL_D_K], s[TRIAL_D_V], NULL);
    else if (!status)
        status = ra_ring_run(t->ring, t->comm, s[TRIAL_Q], s[TRIAL_K], s[TRIAL_V], s[TRIAL_OUTPUT], s[TRIAL_LSE], NULL);
    for (int i = 0; i < TRIAL_TENSORS; i++)
        ra_storage_free(s[i]);
    return status;
}

static ra_status run_forward(const trial *t)
{
    const ra_tensor *x = t->tensors;
    if (!t->ring)
        return ra_forward(t->plan, &x[TRIAL_Q], &x[TRIAL_K], &x[TRIAL_V], &x[TRIAL_OUTPUT], NULL, NULL);
    return ra_ring_forward(t->ring, t->comm, &x[TRIAL_Q], &x[TRIAL_K], &x[TRIAL_V], &x[TRIAL_OUTPUT], NULL, NULL);
}

static ra_status run_backward(const trial *t)
{
    const ra_tensor *x = t->tensors;
    if (!t->ring)
        return ra_backward(t->plan, &x[TRIAL_Q], &x[TRIAL_K], &x[TRIAL_V], &x[TRIAL_OUTPUT], &x[TRIAL_LSE],
                           &x[TRIAL_D_OUTPUT], NULL, &x[TRIAL_D_Q], &x[TRIAL_D_K], &x[TRIAL_D_V], NULL);
    return ra_ring_backward(t->ring, t->comm, &x[TRIAL_Q], &x[TRIAL_K], &x[TRIAL_V], &x[TRIAL_OUTPUT], &x[TRIAL_LSE],
                            &x[TRIAL_D_OUTPUT], NULL, &x[TRIAL_D_Q], &x[TRIAL_D_K], &x[TRIAL_D_V], NULL);
}

ra_status trial_run(const trial *t)
{
    if (t->stored)
        return run_stored(t);
    return t->backward ? run_backward(t) : run_forward(t);
}
