/* SPDX-License-Identifier: Apache-2.0 */
/* ringattn advise: how to run a problem in a budget, by plans and by what work costs on this machine. */
#include "advice_print.h"
#include "bench/calibration.h"
#include "commands.h"
#include "interrupt.h"
#include "job.h"
#include "problem_args.h"
#include "progress.h"
#include "report.h"
#include "ring_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4096, SUMS_ROUNDED = 16 << 10 /* three arrays of sums, each to a page at most */ };

/* Planning a very long sequence takes long: after this many seconds no further ring is tried. */
static const double PATIENCE = 5;

typedef struct advise_job {
    problem_args about;
    ring_args ring; /* the options that are given, not advised */
    int64_t ranks;  /* 0: one process */
    bool causal, backward, json;
    char *pattern; /* owned */
    double started;
    advice advice;
} advise_job;

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* The options of ranks that describe the machine, not the choice: these are taken from `attend`. */
static int take_ring_options(ring_args *ring, arg_option options[RING_OPTIONS])
{
    static const char *const TAKEN[] = {"memory", "transport", "threads", "kernel"};
    arg_option all[RING_OPTIONS];
    int count = 0;
    ring_args_options(ring, all);
    for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
        for (int j = 0; j < RING_OPTIONS; j++)
            if (strcmp(all[j].name, TAKEN[i]) == 0)
                options[count++] = all[j];
    options[0].required = true;
    options[0].help = "what a process may hold, such as 512MiB";
    options[1].help = "between the ranks of --ranks: mpi (default if it is built in), threads, or sim for\n"
                      "virtual ranks";
    return count;
}

static int parse(advise_job *job, int argc, char **argv)
{
    enum { OWN = 4 };
    arg_option options[PROBLEM_OPTIONS + OWN + RING_OPTIONS];
    const arg_option own[OWN] = {
        {.name = "causal", .kind = ARG_FLAG, .target = &job->causal, .help = "adds the term causal to --pattern"},
        {.name = "backward",
         .kind = ARG_FLAG,
         .target = &job->backward,
         .help = "advise about ringattn gradient with the results of the forward pass at hand"},
        {.name = "ranks",
         .kind = ARG_INTEGER,
         .metavar = "R",
         .target = &job->ranks,
         .min = 1,
         .max = MOST_RANKS,
         .help = "there are R ranks, each with threads and memory of its own (default: one process,\n"
                 "which may be a ring of virtual ranks)"},
        {.name = "json", .kind = ARG_FLAG, .target = &job->json, .help = "print JSON"},
    };
    *job = (advise_job){.started = progress_clock()};
    problem_args_options(&job->about, options);
    problem_args_need_rows(options);
    memcpy(options + PROBLEM_OPTIONS, own, sizeof own);
    int count = take_ring_options(&job->ring, options + PROBLEM_OPTIONS + OWN);
    const arg_command command = {
        .verb = "advise",
        .summary = "The strategy, order and ring size that run a problem fastest in a memory budget, and why not the\n"
                   "others. Memory comes from plans. Times come from a calibration of this machine, which takes a\n"
                   "second.",
        .options = options,
        .option_count = PROBLEM_OPTIONS + OWN + count,
        .notes =
            "Predictions include what scores cost. They assume that files are in the system's cache, that each\n"
            "MPI process has cores of its own, and that a message takes as long as copying it. For gradients the\n"
            "backward pass alone is predicted: ringattn gradient without --output and --lse runs the forward pass\n"
            "first, on the same ranks.",
        .example = "ringattn advise --length 64K --heads 8 --dim 64 --causal --memory 128MiB",
    };
    return args_parse(&command, argc, argv);
}

/* Whether one of the terms of a pattern is `term`. */
static bool has_term(const char *pattern, const char *term)
{
    size_t length = strlen(term);
    for (const char *at = pattern;; at++) {
        if (strncmp(at, term, length) == 0 && (at[length] == 0 || at[length] == '+'))
            return true;
        at = strchr(at, '+');
        if (!at)
            return false;
    }
}

/* The pattern made of --preset, --pattern and --causal. */
static int join_pattern(advise_job *job)
{
    const char *given = pattern_args_text(&job->about.pattern);
    if (!given)
        return EXIT_USAGE;
    bool add = job->causal && !has_term(given, "causal");
    size_t size = strlen(given) + sizeof "+causal";
    job->pattern = malloc(size);
    if (!job->pattern)
        return report(EXIT_USAGE, "out of memory: a pattern of %zu characters", size);
    if (add && strcmp(given, "full") == 0)
        snprintf(job->pattern, size, "causal");
    else
        snprintf(job->pattern, size, "%s%s", given, add ? "+causal" : "");
    return EXIT_OK;
}

/* Set what is known before anything is planned. */
static int prepare(advise_job *job)
{
    int code = join_pattern(job);
    if (code)
        return code;
    if (job->ranks == 1) /* which is one process */
        job->ranks = 0;
    if (!job->ranks && job->ring.transport > RA_TRANSPORT_SIM)
        return report(EXIT_USAGE, "--transport %s needs --ranks R, the number of ranks",
                      ra_transport_name((ra_transport_kind)job->ring.transport));
    if (job->ranks && job->ring.transport < 0)
        job->ring.transport = job_mpi_name() ? RA_TRANSPORT_MPI : RA_TRANSPORT_THREADS;
    advice *a = &job->advice;
    a->problem = problem_args_problem(&job->about, job->pattern);
    a->options = ring_args_run(&job->ring);
    a->ring = ring_args_library(&job->ring, (int)job->ranks);
    a->ring.q_dtype = a->ring.k_dtype = a->ring.v_dtype = a->ring.o_dtype = (ra_dtype)job->about.dtype;
    a->ring.d_output_dtype = a->ring.d_q_dtype = a->ring.d_k_dtype = a->ring.d_v_dtype = (ra_dtype)job->about.dtype;
    a->ring.lse = job->backward;
    a->ring.backward = job->backward;
    return EXIT_OK;
}

/* ---- Choices ----------------------------------------------------------------------------------------------------- */

/* Queries, keys, values and outputs; of a backward pass their gradients and the log-sum-exp, too. */
static int64_t tensor_bytes(const ra_problem *p, ra_dtype dtype, bool backward)
{
    int64_t kv_len = p->kv_len == RA_SAME ? p->q_len : p->kv_len;
    int64_t kv_heads = p->kv_heads == RA_SAME ? p->heads : p->kv_heads;
    int64_t value_dim = p->value_dim == RA_SAME ? p->head_dim : p->value_dim;
    int64_t bytes = p->batch * (p->q_len * p->heads + kv_len * kv_heads) * (p->head_dim + value_dim) *
                    (int64_t)ra_dtype_size(dtype);
    return backward ? 2 * bytes + p->batch * p->q_len * p->heads * (int64_t)sizeof(float) : bytes;
}

/* At most: float32 sums of gradients of 16 bits, for as many key/value heads as there are threads. */
static int64_t sum_bytes(const ra_problem *p, ra_dtype dtype, int threads)
{
    int64_t kv_len = p->kv_len == RA_SAME ? p->q_len : p->kv_len;
    int64_t kv_heads = p->kv_heads == RA_SAME ? p->heads : p->kv_heads;
    int64_t value_dim = p->value_dim == RA_SAME ? p->head_dim : p->value_dim;
    int64_t chains = p->batch * kv_heads < threads ? p->batch * kv_heads : threads;
    int64_t queries = strstr(p->pattern, "dilated:") ? p->q_len * (p->heads / kv_heads) * p->head_dim : 0;
    int64_t sums = chains * (kv_len * (p->head_dim + value_dim) + queries);
    return dtype == RA_F32 ? 0 : sums * (int64_t)sizeof(float) + SUMS_ROUNDED;
}

static ra_status describe(const advice *a, const ra_plan *plan, int64_t *bytes)
{
    ra_plan_info info = RA_PLAN_INFO_INIT;
    bool backward = a->ring.backward;
    ra_status status = backward ? ra_plan_describe_backward(plan, &info) : ra_plan_describe(plan, &info);
    *bytes = info.peak_bytes;
    if (!status && backward)
        *bytes += sum_bytes(&a->problem, a->ring.q_dtype, info.threads);
    return status;
}

/* In one piece: all tensors are read and written as a whole, and held. */
static int add_local(advice *a)
{
    ra_plan *plan = NULL;
    int64_t beside = 0;
    advice_choice *c = &a->choices[a->count];
    *c = (advice_choice){.local = true, .ranks = 1};
    ra_status status = ra_plan_create(&a->problem, &a->options, &plan);
    if (!status)
        status = describe(a, plan, &beside);
    if (!status)
        status = model_work_of_plan(&a->problem, plan, a->ring.backward, &c->work);
    ra_plan_free(plan);
    if (status)
        return report_refusal();
    int64_t tensors = tensor_bytes(&a->problem, a->ring.q_dtype, a->ring.backward);
    c->chunk = a->problem.kv_len == RA_SAME ? a->problem.q_len : a->problem.kv_len;
    c->bytes = tensors + beside;
    c->work.all.bytes = c->work.busiest.bytes = (double)tensors;
    a->count++;
    return EXIT_OK;
}

/* A plan of stripes may have to look at every block of keys once for each rank. */
static bool takes_long(const advice *a, ra_order order, int ranks)
{
    static const double MOST_LOOKS = 5e7;
    double blocks = (double)(a->problem.kv_len == RA_SAME ? a->problem.q_len : a->problem.kv_len) / 64;
    return order == RA_ORDER_STRIPED && blocks * ranks > MOST_LOOKS;
}

static int add_ring(advise_job *job, ra_strategy strategy, ra_order order, int ranks)
{
    advice *a = &job->advice;
    ra_ring_options ring = a->ring;
    ra_ring_plan *plan = NULL;
    ra_rank_info first = RA_RANK_INFO_INIT;
    bool first_ring = a->count == 0 || a->choices[a->count - 1].local;
    if (!first_ring && (progress_clock() - job->started > PATIENCE || takes_long(a, order, ranks))) {
        a->left_out++;
        return EXIT_OK;
    }
    ring.strategy = strategy;
    ring.order = order;
    ring.ranks = ranks;
    ring.memory = 0; /* what does not fit is shown, too */
    advice_choice *c = &a->choices[a->count];
    *c = (advice_choice){.strategy = strategy, .order = order, .ranks = ranks};
    ra_status status = ra_ring_plan_create(&a->problem, &a->options, &ring, &plan);
    if (!status)
        status = ra_ring_plan_rank(plan, 0, &first);
    if (!status)
        status = model_work_of_ring(&a->problem, &a->options, &ring, plan, &c->work);
    if (!status) {
        c->chunk = first.kv_rows;
        c->bytes = ra_ring_plan_process_bytes(plan);
        a->count++;
    }
    ra_ring_plan_free(plan);
    return status ? report_refusal() : EXIT_OK;
}

/* Choices over --ranks ranks: all strategies and orders. */
static int add_ranks(advise_job *job)
{
    int code = EXIT_OK;
    for (int strategy = RA_STRATEGY_RING; strategy <= RA_STRATEGY_BROADCAST && !code; strategy++)
        for (int order = RA_ORDER_CONTIGUOUS; order <= RA_ORDER_STRIPED && !code; order++)
            code = add_ring(job, (ra_strategy)strategy, (ra_order)order, (int)job->ranks);
    return code;
}

/* Choices in one process: in one piece, the smallest ring of virtual ranks that fits, and rings of nearby sizes. */
static int add_alone(advise_job *job)
{
    advice *a = &job->advice;
    int size = 0, code = add_local(a);
    if (!code && ra_ring_smallest(&a->problem, &a->options, &a->ring, &size))
        code = report_refusal();
    size = size ? size : 1;
    const struct {
        ra_strategy strategy;
        ra_order order;
        int ranks;
    } rings[] = {
        {RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS, size},      {RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS, size - 1},
        {RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS, 2 * size},  {RA_STRATEGY_BROADCAST, RA_ORDER_CONTIGUOUS, size},
        {RA_STRATEGY_ALLGATHER, RA_ORDER_CONTIGUOUS, size}, {RA_STRATEGY_RING, RA_ORDER_ZIGZAG, size},
        {RA_STRATEGY_RING, RA_ORDER_STRIPED, size},
    };
    for (size_t i = 0; i < sizeof rings / sizeof *rings && !code; i++) {
        bool plain = rings[i].strategy == RA_STRATEGY_RING && rings[i].order == RA_ORDER_CONTIGUOUS;
        /* A ring of one has no order, and nothing in it travels. */
        if (rings[i].ranks > 1 || (rings[i].ranks == 1 && plain))
            code = add_ring(job, rings[i].strategy, rings[i].order, rings[i].ranks);
    }
    return code;
}

/* Nothing fits: plan the ring that holds least once more, so that its refusal names what would fit. */
static int refuse(const advice *a)
{
    const advice_choice *least = &a->choices[advice_smallest(a->choices, a->count)];
    ra_ring_options ring = a->ring;
    ra_ring_plan *plan = NULL;
    ring.strategy = least->strategy;
    ring.order = least->order;
    ring.ranks = least->ranks;
    ra_ring_plan_create(&a->problem, &a->options, &ring, &plan);
    ra_ring_plan_free(plan);
    return report_refusal();
}

/* Before anything is run, what fits is known. */
static int choose(advice *a)
{
    if (advice_best(a->choices, a->count, a->ring.memory) < 0)
        return refuse(a);
    double start = progress_clock();
    if (calibrate(&a->model, &a->problem, &a->options, a->ring.q_dtype, a->ring.backward))
        return report_refusal();
    a->calibrated = progress_clock() - start;
    for (int i = 0; i < a->count; i++)
        a->choices[i].time = model_time(&a->model, &a->choices[i].work);
    a->best = advice_best(a->choices, a->count, a->ring.memory);
    return EXIT_OK;
}

static int print(const advise_job *job)
{
    char *command = advice_command(&job->advice);
    int code = command ? EXIT_OK : report(EXIT_USAGE, "out of memory: a command line");
    if (command && !job->json)
        advice_print(&job->advice, command);
    else if (command && advice_print_json(&job->advice, command))
        code = report(EXIT_WORK, "standard output: cannot write");
    free(command);
    return code;
}

int cmd_advise(int argc, char **argv)
{
    advise_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    interrupt_release(); /* nothing is left behind */
    code = prepare(&job);
    if (!code)
        code = job.ranks ? add_ranks(&job) : add_alone(&job);
    if (!code)
        code = choose(&job.advice);
    if (!code)
        code = print(&job);
    pattern_args_free(&job.about.pattern);
    free(job.pattern);
    return code;
}
