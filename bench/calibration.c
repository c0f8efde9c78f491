/*
 * Short runs that show what work costs on this machine. What is made of the figures is in model.c. See calibration.h.
 */
#include "calibration.h"

#include "probe.h"
#include "sampling.h"
#include "tensors.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long enough for tasks of full size. So few elements of all heads that a run takes some ten milliseconds. */
enum { LENGTH = 2048, SHORT = 256, MOST_HEADS = 8, ELEMENTS = 512 };

/* Rounds are made for so many seconds, for more where there were only few; of several the first is not counted. */
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

typedef struct run_form {
    const char *pattern;
    int64_t q_len, kv_len;
    int ranks; /* virtual; 0: in one piece */
    ra_strategy strategy;
    ra_order order;
    bool stored;
} run_form;

static const run_form forms[RUNS] = {
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
static const struct {
    run_id run;
    size_t cost, amount;
} lessons[] = {
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

/* A run ready to be timed. */
typedef struct trial {
    ra_plan *plan;
    ra_ring_plan *ring;
    ra_comm *comm;
    ra_tensor q, k, v, output;
    model_work work;
    double seconds[CALIBRATION_MOST];
} trial;

struct calibration {
    bench_tensors tensors;
    bool alone; /* the only thing that is measured */
    int rounds;
    trial trials[RUNS];
};

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

static ra_tensor first_rows(ra_tensor t, int64_t rows)
{
    t.seq = rows;
    return t;
}

static ra_status prepare_ring(trial *t, const run_form *form, const ra_problem *problem, const ra_options *options)
{
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = form->ranks;
    ring.strategy = form->strategy;
    ring.order = form->order;
    ring.lent = !form->stored;
    ring.q_dtype = ring.k_dtype = ring.v_dtype = ring.o_dtype = t->q.dtype;
    ring.lse = 0;
    ra_status status = ra_ring_plan_create(problem, options, &ring, &t->ring);
    if (!status)
        status = model_work_of_ring(problem, options, &ring, t->ring, &t->work);
    return status ? status : ra_comm_sim(form->ranks, &t->comm);
}

static ra_status prepare(trial *t, const run_form *form, const bench_tensors *tensors, const ra_options *options)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = form->q_len;
    problem.kv_len = form->kv_len;
    problem.heads = tensors->q.heads;
    problem.head_dim = tensors->q.dim;
    problem.pattern = form->pattern;
    t->q = first_rows(tensors->q, form->q_len);
    t->output = first_rows(tensors->output, form->q_len);
    t->k = first_rows(tensors->k, form->kv_len);
    t->v = first_rows(tensors->v, form->kv_len);
    if (form->ranks)
        return prepare_ring(t, form, &problem, options);
    ra_status status = ra_plan_create(&problem, options, &t->plan);
    return status ? status : model_work_of_plan(&problem, t->plan, &t->work);
}

/* Out of storages and back: as from and to files that are in the system's cache. */
static ra_status run_stored(const trial *t)
{
    enum { TENSORS = 4 };
    const ra_tensor *const tensors[TENSORS] = {&t->q, &t->k, &t->v, &t->output};
    ra_storage *s[TENSORS] = {NULL};
    ra_status status = RA_OK;
    for (int i = 0; i < TENSORS && !status; i++)
        status = ra_storage_memory(tensors[i], &s[i]);
    if (!status)
        status = ra_ring_run(t->ring, t->comm, s[0], s[1], s[2], s[3], NULL, NULL);
    for (int i = 0; i < TENSORS; i++)
        ra_storage_free(s[i]);
    return status;
}

/*
 * Wall-clock time. Of a calibration alone, where other processes have the processors for a while, what the run's own
 * threads had of them: they will be gone when what is asked about is run. What takes turns with it loses the same time.
 */
static ra_status run(const trial *t, const run_form *form, bool alone, double *seconds)
{
    const double mine = 0.8;
    double processor = probe_processor_seconds(), start = probe_seconds();
    ra_status status = !form->ranks   ? ra_forward(t->plan, &t->q, &t->k, &t->v, &t->output, NULL, NULL)
                       : form->stored ? run_stored(t)
                                      : ra_ring_forward(t->ring, t->comm, &t->q, &t->k, &t->v, &t->output, NULL, NULL);
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
        status = run(&c->trials[i], &forms[i], c->alone, &c->trials[i].seconds[c->rounds]);
    c->rounds += !status;
    return status;
}

/* ---- What they say ----------------------------------------------------------------------------------------------- */

/* Medians of the ratios to the first run in the same round, times that one's own: a slow moment slows both. */
static void compare(const calibration *c, double medians[RUNS])
{
    const double *first = c->trials[FULL].seconds;
    double seconds[CALIBRATION_MOST], ratios[CALIBRATION_MOST];
    memcpy(seconds, first, (size_t)c->rounds * sizeof *seconds);
    double median = sampling_median(seconds, c->rounds);
    for (int i = 0; i < RUNS; i++) {
        for (int round = 0; round < c->rounds; round++)
            ratios[round] = c->trials[i].seconds[round] / first[round];
        medians[i] = median * sampling_median(ratios, c->rounds);
    }
}

/*
 * Each cost explains what the others leave of its run; in turns, until nothing changes any more. No cost is less than
 * nothing, whatever was disturbed.
 */
void calibration_learn(const calibration *c, machine_model *m)
{
    enum { TURNS = 50 };
    double medians[RUNS];
    *m = (machine_model){.threads = c->trials[FULL].work.threads};
    compare(c, medians);
    for (int i = 0; i < TURNS * LESSONS; i++) {
        const size_t cost_at = lessons[i % LESSONS].cost;
        const trial *t = &c->trials[lessons[i % LESSONS].run];
        double *cost = (double *)((char *)m + cost_at);
        double amount = *(const double *)((const char *)&t->work.all + lessons[i % LESSONS].amount);
        double left = medians[lessons[i % LESSONS].run] - model_time(m, &t->work).seconds;
        bool shared = cost_at != OF_COST(region) && cost_at != OF_COST(byte);
        *cost = fmax(0, *cost + left / amount * (shared ? t->work.threads : 1));
    }
}

/* ---- From first to last ------------------------------------------------------------------------------------------ */

ra_status calibration_open(const ra_problem *like, const ra_options *options, ra_dtype dtype, calibration **opened)
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
    ra_status status = bench_tensors_take(&c->tensors, &shape, "a calibration");
    if (!status)
        bench_tensors_fill(&c->tensors, 1);
    for (int i = 0; i < RUNS && !status; i++)
        status = prepare(&c->trials[i], &forms[i], &c->tensors, options);
    return status;
}

void calibration_close(calibration *c)
{
    for (int i = 0; c && i < RUNS; i++) {
        ra_comm_free(c->trials[i].comm);
        ra_ring_plan_free(c->trials[i].ring);
        ra_plan_free(c->trials[i].plan);
    }
    if (c)
        bench_tensors_give(&c->tensors);
    free(c);
}

ra_status calibrate(machine_model *m, const ra_problem *like, const ra_options *options, ra_dtype dtype)
{
    calibration *c;
    ra_status status = calibration_open(like, options, dtype, &c);
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
