/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short runs that show what work costs on this machine. What is made of the figures is in model.c. See calibration.h.
 */
#include "calibration.h"

#include "probe.h"
#include "sampling.h"
#include "trial.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long enough for tasks of full size. So few elements of all heads that a run takes some ten milliseconds. */
enum { LENGTH = 2048, SHORT = 256, MOST_HEADS = 8, ELEMENTS = 512 };

/* Rounds are made for this many seconds, or longer if there were only few. If there are several, the first is not
 * counted. */
enum { FEW_ROUNDS = 4, MOST_ROUNDS = 15 };
static const double ENOUGH_SECONDS = 1, MOST_SECONDS = 2.5;

#define BAND "causal+window:512,0"
#define DILATION "dilated:512/1,1024/2,2048/4"
#define COARSE "dilated:1024/1,2048/2"

typedef enum run_id {
    FULL,
    BANDED,
    SCATTERED,
    SEGMENTS,
    DILATED,
    APART,
    CUT,
    BLOCKS,
    DECODE,
    STORED,
    BRIEF,
    RUNS
} run_id;

static const trial_form forms[RUNS] = {
    [FULL] = {.pattern = "full", .q_len = LENGTH, .kv_len = LENGTH},
    [BANDED] = {.pattern = BAND, .q_len = LENGTH, .kv_len = LENGTH},
    [SCATTERED] = {BAND, LENGTH, LENGTH, 4, RA_STRATEGY_ALLGATHER, RA_ORDER_STRIPED, false},
    [SEGMENTS] = {.pattern = COARSE, .q_len = LENGTH, .kv_len = LENGTH},
    [DILATED] = {.pattern = DILATION, .q_len = LENGTH, .kv_len = LENGTH},
    [APART] = {DILATION, LENGTH, LENGTH, 4, RA_STRATEGY_ALLGATHER, RA_ORDER_STRIPED, false},
    [CUT] = {DILATION, LENGTH, LENGTH, 4, RA_STRATEGY_RING, RA_ORDER_STRIPED, false},
    [BLOCKS] = {.pattern = "blocks:64:density=0.15", .q_len = LENGTH, .kv_len = LENGTH},
    [DECODE] = {.pattern = "full", .q_len = 1, .kv_len = LENGTH},
    [STORED] = {BAND, LENGTH, LENGTH, 4, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS, true},
    [BRIEF] = {"full", SHORT, SHORT, 4, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS, true},
};

/* Which run tells which cost: the one that has most of what it is the cost of. */
#define OF_COST(name) offsetof(machine_model, name)
#define OF_AMOUNT(name) offsetof(model_load, name)
typedef struct lesson {
    run_id run;
    size_t cost, amount;
} lesson;

static const lesson lessons[] = {
    {FULL, OF_COST(pair[MODEL_PLAIN]), OF_AMOUNT(pairs)},
    {BANDED, OF_COST(row), OF_AMOUNT(rows)},
    {SCATTERED, OF_COST(key), OF_AMOUNT(keys)},
    {SEGMENTS, OF_COST(pair[MODEL_DILATED]), OF_AMOUNT(pairs)},
    {DILATED, OF_COST(member), OF_AMOUNT(members)},
    {APART, OF_COST(apart), OF_AMOUNT(apart)},
    {CUT, OF_COST(cut), OF_AMOUNT(cut)},
    {BLOCKS, OF_COST(pair[MODEL_BLOCKS]), OF_AMOUNT(pairs)},
    {DECODE, OF_COST(pair[MODEL_DECODE]), OF_AMOUNT(pairs)},
    {STORED, OF_COST(byte), OF_AMOUNT(bytes)},
    {BRIEF, OF_COST(region), OF_AMOUNT(regions)},
};
enum { LESSONS = sizeof lessons / sizeof *lessons };

struct calibration {
    trial_tensors tensors;
    bool alone; /* the only thing that is measured */
    int rounds;
    trial trials[RUNS];
    double seconds[RUNS][CALIBRATION_MOST];
};

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

/* A backward pass has no decoding kernels, and no virtual ranks whose tasks are one list. */
static bool made(const calibration *c, int run)
{
    return !c->tensors.backward || (run != DECODE && run != CUT);
}

/*
 * Wall-clock time. Of a calibration alone, where other processes have the processors for a while, what the run's own
 * threads had of them: they will be gone when what is asked about is run. What takes turns with it loses the same time.
 */
static ra_status run(const trial *t, bool alone, double *seconds)
{
    const double mine = 0.8;
    double processor = probe_processor_seconds(), start = probe_seconds();
    ra_status status = trial_run(t);
    *seconds = probe_seconds() - start;
    processor = (probe_processor_seconds() - processor) / t->work.threads;
    if (alone && processor < mine * *seconds)
        *seconds = processor;
    return status;
}

void calibration_begin(calibration *c)
{
    c->rounds = 0;
}

ra_status calibration_round(calibration *c)
{
    ra_status status = RA_OK;
    if (c->rounds == CALIBRATION_MOST)
        return RA_OK;
    for (int i = 0; i < RUNS && !status; i++)
        if (made(c, i))
            status = run(&c->trials[i], c->alone, &c->seconds[i][c->rounds]);
    c->rounds += !status;
    return status;
}

/* ---- What they say ----------------------------------------------------------------------------------------------- */

/* Medians of the ratios to the first run in the same round, times that one's own: a slow moment slows both. */
static void compare(const calibration *c, double medians[RUNS])
{
    const double *first = c->seconds[FULL];
    double seconds[CALIBRATION_MOST], ratios[CALIBRATION_MOST];
    memcpy(seconds, first, (size_t)c->rounds * sizeof *seconds);
    double median = sampling_median(seconds, c->rounds);
    for (int i = 0; i < RUNS; i++) {
        if (!made(c, i))
            continue;
        for (int round = 0; round < c->rounds; round++)
            ratios[round] = c->seconds[i][round] / first[round];
        medians[i] = median * sampling_median(ratios, c->rounds);
    }
}

/* A cost explains what the others leave of its run. No cost is less than nothing, whatever was disturbed. */
static void learn(const lesson *l, const model_work *work, const double medians[RUNS], machine_model *m)
{
    double *cost = (double *)((char *)m + l->cost);
    double amount = *(const double *)((const char *)&work->all + l->amount);
    double left = medians[l->run] - model_time(m, work).seconds;
    bool shared = l->cost != OF_COST(region) && l->cost != OF_COST(byte);
    *cost = fmax(0, *cost + left / amount * (shared ? work->threads : 1));
}

/* Each cost in turns, until nothing changes any more. */
void calibration_learn(const calibration *c, machine_model *m)
{
    enum { TURNS = 50 };
    double medians[RUNS] = {0};
    *m = (machine_model){.threads = c->trials[FULL].work.threads};
    compare(c, medians);
    for (int i = 0; i < TURNS * LESSONS; i++)
        if (made(c, lessons[i % LESSONS].run))
            learn(&lessons[i % LESSONS], &c->trials[lessons[i % LESSONS].run].work, medians, m);
}

/* ---- From first to last ------------------------------------------------------------------------------------------ */

ra_status calibration_open(const ra_problem *like, const ra_options *options, ra_dtype dtype, bool backward,
                           calibration **opened)
{
    int64_t dim = like->value_dim == RA_SAME ? like->head_dim : (like->head_dim + like->value_dim + 1) / 2;
    int64_t heads = dim < ELEMENTS ? ELEMENTS / dim : 1;
    heads = heads < like->heads ? heads : like->heads;
    heads = heads < MOST_HEADS ? heads : MOST_HEADS;
    bench_shape shape = bench_shape_square(LENGTH, heads, dim);
    shape.dtype = dtype;
    calibration *c = *opened = calloc(1, sizeof *c);
    if (!c) {
        fprintf(stderr, "ringattn: out of memory for a calibration\n");
        return RA_ERROR_MEMORY;
    }
    ra_status status = trial_tensors_take(&c->tensors, &shape, like->scores, backward);
    for (int i = 0; i < RUNS && !status; i++)
        if (made(c, i))
            status = trial_prepare(&c->trials[i], &forms[i], &c->tensors, options);
    return status;
}

void calibration_close(calibration *c)
{
    for (int i = 0; c && i < RUNS; i++)
        trial_free(&c->trials[i]);
    if (c)
        trial_tensors_give(&c->tensors);
    free(c);
}

ra_status calibrate(machine_model *m, const ra_problem *like, const ra_options *options, ra_dtype dtype, bool backward)
{
    calibration *c;
    ra_status status = calibration_open(like, options, dtype, backward, &c);
    double start = probe_seconds(), elapsed = 0;
    if (!status)
        c->alone = true;
    for (int round = 0; !status && round < MOST_ROUNDS; round++) {
        if (elapsed >= (round < FEW_ROUNDS ? MOST_SECONDS : ENOUGH_SECONDS))
            break;
        if (round == 1)
            calibration_begin(c);
        status = calibration_round(c);
        elapsed = probe_seconds() - start;
    }
    if (!status)
        calibration_learn(c, m);
    calibration_close(c);
    return status;
}
