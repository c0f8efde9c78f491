/* What work costs on this machine: short runs that differ in what they have most of, round by round. */
#include "model.h"
#include "probe.h"
#include "sampling.h"
#include "tensors.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Long enough for tasks of full size. So few elements of all heads that a run takes some ten milliseconds. */
enum { LENGTH = 2048, SHORT = 256, MOST_HEADS = 8, ELEMENTS = 512 };

/* Rounds are made for so many seconds, for more where there were only few; of several the first is not counted. */
enum { FEW_ROUNDS = 4, MOST_ROUNDS = 15 };
static const double ENOUGH_SECONDS = 1, MOST_SECONDS = 2.5;

#define BAND "causal+window:512,0"

typedef enum run_id { FULL, BANDED, SCATTERED, FAR, DILATED, BLOCKS, DECODE, STORED, BRIEF, RUNS } run_id;

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
    [FAR] = {BAND, LENGTH, LENGTH, 4, RA_STRATEGY_RING, RA_ORDER_STRIPED, false},
    [DILATED] = {.pattern = "dilated:512/1,1024/2,2048/4", .q_len = LENGTH, .kv_len = LENGTH},
    [BLOCKS] = {.pattern = "blocks:64:density=0.1", .q_len = LENGTH, .kv_len = LENGTH},
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
    {FAR, OF_COST(far), OF_AMOUNT(far)},
    {DILATED, OF_COST(pair[MODEL_DILATED]), OF_AMOUNT(pairs)},
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
    double seconds[MOST_ROUNDS], median;
} trial;

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

/* Wall-clock time; where other processes have the processors for a while, what the run's own threads had of them. */
static ra_status run(const trial *t, const run_form *form, double *seconds)
{
    const double mine = 0.8;
    double processor = probe_processor_seconds(), start = probe_seconds();
    ra_status status = !form->ranks   ? ra_forward(t->plan, &t->q, &t->k, &t->v, &t->output, NULL, NULL)
                       : form->stored ? run_stored(t)
                                      : ra_ring_forward(t->ring, t->comm, &t->q, &t->k, &t->v, &t->output, NULL, NULL);
    *seconds = probe_seconds() - start;
    processor = (probe_processor_seconds() - processor) / t->work.threads;
    if (processor < mine * *seconds)
        *seconds = processor;
    return status;
}

/* Medians of the ratios to the first run in the same round, times that one's own: a slow moment slows both. */
static void compare(trial trials[RUNS], int first, int rounds)
{
    double seconds[MOST_ROUNDS], ratios[MOST_ROUNDS];
    int count = rounds - first;
    memcpy(seconds, trials[FULL].seconds + first, (size_t)count * sizeof *seconds);
    double median = sampling_median(seconds, count);
    for (int i = 0; i < RUNS; i++) {
        for (int round = first; round < rounds; round++)
            ratios[round - first] = trials[i].seconds[round] / trials[FULL].seconds[round];
        trials[i].median = median * sampling_median(ratios, count);
    }
}

static ra_status run_rounds(trial trials[RUNS])
{
    ra_status status = RA_OK;
    int rounds = 0;
    double start = probe_seconds(), elapsed = 0;
    while (!status && rounds < MOST_ROUNDS && elapsed < (rounds < FEW_ROUNDS ? MOST_SECONDS : ENOUGH_SECONDS)) {
        for (int i = 0; i < RUNS && !status; i++)
            status = run(&trials[i], &forms[i], &trials[i].seconds[rounds]);
        rounds++;
        elapsed = probe_seconds() - start;
    }
    compare(trials, rounds > 1, rounds);
    return status;
}

/* ---- What they say ----------------------------------------------------------------------------------------------- */

/*
 * Each cost explains what the others leave of its run; in turns, until nothing changes any more. No cost is less than
 * nothing, whatever was disturbed.
 */
static void learn(machine_model *m, const trial trials[RUNS])
{
    enum { TURNS = 50 };
    for (int i = 0; i < TURNS * LESSONS; i++) {
        const size_t cost_at = lessons[i % LESSONS].cost;
        const trial *t = &trials[lessons[i % LESSONS].run];
        double *cost = (double *)((char *)m + cost_at);
        double amount = *(const double *)((const char *)&t->work.all + lessons[i % LESSONS].amount);
        double left = t->median - model_time(m, &t->work).seconds;
        bool shared = cost_at != OF_COST(region) && cost_at != OF_COST(byte);
        *cost = fmax(0, *cost + left / amount * (shared ? t->work.threads : 1));
    }
}

ra_status model_calibrate(machine_model *m, const ra_problem *like, const ra_options *options, ra_dtype dtype)
{
    trial trials[RUNS] = {{0}};
    bench_tensors tensors;
    int64_t dim = like->value_dim == RA_SAME ? like->head_dim : (like->head_dim + like->value_dim + 1) / 2;
    int64_t heads = dim < ELEMENTS ? ELEMENTS / dim : 1;
    heads = heads < like->heads ? heads : like->heads;
    heads = heads < MOST_HEADS ? heads : MOST_HEADS;
    bench_shape shape = bench_shape_square(LENGTH, heads, dim);
    shape.dtype = dtype;
    ra_status status = bench_tensors_take(&tensors, &shape, "a calibration");
    if (status)
        return status;
    bench_tensors_fill(&tensors, 1);
    for (int i = 0; i < RUNS && !status; i++)
        status = prepare(&trials[i], &forms[i], &tensors, options);
    if (!status)
        status = run_rounds(trials);
    *m = (machine_model){.threads = trials[FULL].work.threads};
    if (!status)
        learn(m, trials);
    for (int i = 0; i < RUNS; i++) {
        ra_comm_free(trials[i].comm);
        ra_ring_plan_free(trials[i].ring);
        ra_plan_free(trials[i].plan);
    }
    bench_tensors_give(&tensors);
    return status;
}
