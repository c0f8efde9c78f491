/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a sample over virtual ranks, threads and faulty transports in one process. See ring.h. */
#include "support/ring.h"

#include "support/unit.h"
#include "transport/comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64 };

const char *const way_names[WAYS] = {"sim", "sim stored", "threads", "threads stored", "messages", "messages stored"};

static char messages[MOST_RANKS][512];

ring_case ring_case_make(way way, int ranks, ra_strategy strategy, ra_order order)
{
    ring_case c = {.way = way, .options = RA_RING_OPTIONS_INIT, .run = RA_OPTIONS_INIT, .odd_rank = -1};
    c.run.precision = RA_PRECISION_EXACT;
    c.options.ranks = ranks;
    c.options.strategy = strategy;
    c.options.order = order;
    c.options.timeout = 30;
    c.run.threads = 1;
    return c;
}

const char *ring_case_text(const ring_case *c)
{
    static char text[128];
    snprintf(text, sizeof text, "%s, %d ranks, %s, %s", way_names[c->way], c->options.ranks,
             ra_strategy_name(c->options.strategy), ra_order_name(c->options.order));
    return text;
}

int64_t ring_choose_pieces(choices *c, int64_t length, int ranks, ra_piece *pieces, int64_t most)
{
    int64_t count = 0, at = 0;
    while (at < length) {
        int64_t end = count == most - 1 ? length : at + choose(c, chance(c, 5) ? 0 : 1, length);
        end = end < length ? end : length;
        pieces[count++] = (ra_piece){at, end, (int)choose(c, 0, ranks - 1)};
        at = end;
    }
    return count;
}

const char *ring_message(int rank)
{
    return messages[rank];
}

typedef struct rank_job {
    const ring_case *c;
    const sample *s;
    const ra_ring_plan *plan;
    ra_comm *comm;
    int rank;
    ra_rank_stats *stats;
    ra_status status;
} rank_job;

static bool stored(const ring_case *c)
{
    return c->way == WAY_SIM_STORED || c->way == WAY_THREADS_STORED || c->way == WAY_MESSAGES_STORED;
}

/* The tensors of a sample, and those of the backward pass behind them. */
enum { TENSORS = (int)SAMPLE_TENSORS + (int)RING_GRADIENTS };

static const ra_tensor *tensor_of(const rank_job *job, int tensor)
{
    if (tensor < SAMPLE_TENSORS)
        return &job->s->tensors[tensor];
    const ra_tensor *further = job->c->backward ? &job->c->backward[tensor - SAMPLE_TENSORS] : NULL;
    return further && further->data ? further : NULL;
}

static ra_status run_stored(rank_job *job)
{
    ra_storage *s[TENSORS] = {NULL};
    ra_status status = RA_OK;
    for (int i = 0; i < TENSORS && !status; i++)
        status = tensor_of(job, i) ? ra_storage_memory(tensor_of(job, i), &s[i]) : RA_OK;
    if (!status && job->c->backward)
        status = ra_ring_run_backward(job->plan, job->comm, s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9],
                                      job->stats);
    else if (!status)
        status = ra_ring_run(job->plan, job->comm, s[0], s[1], s[2], s[3], s[4], job->stats);
    for (int i = 0; i < TENSORS; i++)
        ra_storage_free(s[i]);
    return status;
}

/* With tensors in memory: NULL where there is none. */
static ra_status run_lent(rank_job *job, const ra_tensor *const t[TENSORS])
{
    if (job->c->backward)
        return ra_ring_backward(job->plan, job->comm, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9],
                                job->stats);
    return ra_ring_forward(job->plan, job->comm, t[0], t[1], t[2], t[3], t[4], job->stats);
}

static bool of_keys(int tensor)
{
    return tensor == SAMPLE_KEY || tensor == SAMPLE_VALUE || tensor == SAMPLE_TENSORS + RING_D_K ||
           tensor == SAMPLE_TENSORS + RING_D_V;
}

static bool is_written(const rank_job *job, int tensor)
{
    return tensor >= (job->c->backward ? (int)SAMPLE_TENSORS + (int)RING_D_Q : (int)SAMPLE_OUTPUT);
}

/* A rank's own rows, copied out of the sample and, for what is written, back again. */
static ra_status run_parts(rank_job *job)
{
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_tensor parts[TENSORS];
    const ra_tensor *given[TENSORS] = {NULL};
    ra_status status = ra_ring_plan_rank(job->plan, job->rank, &info);
    for (int i = 0; i < TENSORS && !status; i++) {
        const ra_tensor *t = tensor_of(job, i);
        if (!t)
            continue;
        int64_t rows = of_keys(i) ? info.kv_rows : info.q_rows;
        size_t bytes = (size_t)(t->batch * rows * t->heads * t->dim) * ra_dtype_size(t->dtype);
        void *memory = malloc(bytes + 1);
        REQUIRE(memory, "out of memory");
        memset(memory, 0xff, bytes);
        parts[i] = ra_tensor_dense(memory, t->dtype, (ra_layout)(job->rank % 2), t->batch, rows, t->heads, t->dim);
        given[i] = &parts[i];
        if (!is_written(job, i))
            status = ra_ring_split(job->plan, job->rank, of_keys(i), t, &parts[i]);
    }
    if (!status)
        status = run_lent(job, given);
    for (int i = 0; i < TENSORS && !status; i++) {
        if (!given[i] || !is_written(job, i))
            continue;
        ra_tensor whole = *tensor_of(job, i);
        status = ra_ring_gather(job->plan, job->rank, of_keys(i), &parts[i], &whole);
    }
    for (int i = 0; i < TENSORS; i++)
        free(given[i] ? parts[i].data : NULL);
    return status;
}

static void *run_rank(void *argument)
{
    rank_job *job = argument;
    job->status = stored(job->c) ? run_stored(job) : run_parts(job);
    snprintf(messages[job->rank], sizeof messages[0], "%s", job->status ? ra_last_message() : "");
    if (!job->c->kept)
        ra_comm_free(job->comm);
    return NULL;
}

void ring_case_done(const ring_case *c)
{
    for (int rank = 0; rank < c->options.ranks; rank++)
        ra_comm_free(c->kept[rank]);
}

/* Those of a run before, or new ones. */
static void take_comms(const ring_case *c, ra_comm **comms)
{
    REQUIRE(!c->kept || !c->wrap, "a communicator that something is put around is a new one each time");
    if (!c->kept || !c->kept[0])
        REQUIRE(!ra_comm_threads(c->options.ranks, comms), "%s", ra_last_message());
    for (int rank = 0; c->kept && rank < c->options.ranks; rank++)
        if (c->kept[rank])
            comms[rank] = c->kept[rank];
        else
            c->kept[rank] = comms[rank];
}

static ra_status run_simulated(const ring_case *c, const sample *s, const ra_ring_plan *plan, ra_rank_stats *stats)
{
    rank_job job = {.c = c, .s = s, .plan = plan, .stats = stats};
    const ra_tensor *given[TENSORS];
    for (int i = 0; i < TENSORS; i++)
        given[i] = tensor_of(&job, i);
    ra_status status = ra_comm_sim(c->options.ranks, &job.comm);
    if (!status)
        status = stored(c) ? run_stored(&job) : run_lent(&job, given);
    snprintf(messages[0], sizeof messages[0], "%s", status ? ra_last_message() : "");
    ra_comm_free(job.comm);
    return status;
}

/* Only the shell of the communicator is freed: a new one closes the transport, with what is around it. */
static ra_comm *wrapped(const ring_case *c, int rank, ra_comm *comm)
{
    ra_transport transport = comm->transport;
    comm->simulated = true;
    ra_comm_free(comm);
    c->wrap(c->wrap_user, rank, &transport);
    REQUIRE(!ra_comm_custom(&transport, &comm), "%s", ra_last_message());
    return comm;
}

static bool comes(const ring_case *c, int rank)
{
    return rank != c->odd_rank || !c->odd_absent;
}

static ra_status run_threads(const ring_case *c, const sample *s, const ra_ring_plan *plan, const ra_ring_plan *odd,
                             ra_rank_stats *stats, ra_status *statuses)
{
    int ranks = c->options.ranks;
    ra_comm *comms[MOST_RANKS] = {NULL};
    rank_job jobs[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    take_comms(c, comms);
    ra_rank_stats *scratch = calloc((size_t)ranks * (size_t)ranks, sizeof *scratch);
    assert_non_null(scratch);
    for (int rank = 0; rank < ranks; rank++) {
        scratch[rank * ranks].size = sizeof *scratch;
        jobs[rank] =
            (rank_job){c, s, rank == c->odd_rank ? odd : plan, comms[rank], rank, scratch + rank * ranks, RA_OK};
        if (c->wrap)
            jobs[rank].comm = wrapped(c, rank, comms[rank]);
        messages[rank][0] = 0;
    }
    for (int rank = 0; rank < ranks; rank++)
        if (comes(c, rank))
            assert_int_equal(pthread_create(&threads[rank], NULL, run_rank, &jobs[rank]), 0);
    int failed = -1;
    for (int rank = 0; rank < ranks; rank++) {
        if (comes(c, rank))
            pthread_join(threads[rank], NULL);
        if (jobs[rank].status && failed < 0)
            failed = rank;
        if (statuses)
            statuses[rank] = jobs[rank].status;
    }
    if (c->odd_rank >= 0 && c->odd_absent)
        ra_comm_free(jobs[c->odd_rank].comm);
    if (stats)
        memcpy(stats, scratch, (size_t)ranks * sizeof *stats);
    free(scratch);
    if (failed < 0)
        return RA_OK;
    memmove(messages[0], messages[failed], sizeof messages[0]);
    return jobs[failed].status;
}

static ra_status plan_odd(const ring_case *c, ra_problem problem, ra_ring_options options, ra_ring_plan **plan)
{
    ra_options run = c->run;
    if (c->odd)
        c->odd(&problem, &run, &options);
    if (c->odd_poll) {
        run.progress = c->odd_poll;
        run.progress_user = c->odd_poll_user;
    }
    return ra_ring_plan_create(&problem, &run, &options, plan);
}

/* The plan in its place, if there is one that holds less. */
static void plan_sparing(const ring_case *c, const sample *s, ra_ring_options *options, ra_ring_plan **plan)
{
    ra_ring_plan *less;
    options->memory = ra_ring_plan_process_bytes(*plan) - 1;
    if (ra_ring_plan_create(&s->problem, &c->run, options, &less)) {
        options->memory = 0;
        return;
    }
    ra_ring_plan_free(*plan);
    *plan = less;
}

/* What the plan of a backward pass has to know. Gradients become NaN. */
static void prepare_backward(const ring_case *c, ra_ring_options *o)
{
    const ra_tensor *t = c->backward;
    ra_dtype *const dtypes[] = {&o->d_q_dtype, &o->d_k_dtype, &o->d_v_dtype};
    o->backward = 1;
    o->d_output_dtype = t[RING_D_OUTPUT].dtype;
    o->d_lse = t[RING_D_LSE].data != NULL;
    o->gradients = 0;
    for (int i = 0; i < 3; i++) {
        const ra_tensor *gradient = &t[RING_D_Q + i];
        if (!gradient->data)
            continue;
        o->gradients |= 1U << i;
        *dtypes[i] = gradient->dtype;
        memset(gradient->data, 0xff,
               (size_t)(gradient->batch * gradient->seq * gradient->heads * gradient->dim) *
                   ra_dtype_size(gradient->dtype));
    }
}

ra_status ring_case_run(const ring_case *c, const sample *s, ra_rank_stats *stats, ra_status *statuses)
{
    ra_ring_plan *plan = NULL, *odd = NULL;
    ra_ring_options options = c->options;
    options.transport = c->way <= WAY_SIM_STORED       ? RA_TRANSPORT_SIM
                        : c->way <= WAY_THREADS_STORED ? RA_TRANSPORT_THREADS
                                                       : RA_TRANSPORT_MPI;
    options.q_dtype = s->tensors[SAMPLE_QUERY].dtype;
    options.k_dtype = s->tensors[SAMPLE_KEY].dtype;
    options.v_dtype = s->tensors[SAMPLE_VALUE].dtype;
    options.o_dtype = s->tensors[SAMPLE_OUTPUT].dtype;
    options.lent = !stored(c);
    if (c->backward)
        prepare_backward(c, &options);
    else
        sample_wipe(s);
    ra_status status = ra_ring_plan_create(&s->problem, &c->run, &options, &plan);
    if (!status && c->sparing)
        plan_sparing(c, s, &options, &plan);
    if (!status && c->adapt)
        c->adapt(plan);
    if (!status && c->odd_rank >= 0)
        status = plan_odd(c, s->problem, options, &odd);
    if (status)
        snprintf(messages[0], sizeof messages[0], "%s", ra_last_message());
    else if (c->way <= WAY_SIM_STORED)
        status = run_simulated(c, s, plan, stats);
    else
        status = run_threads(c, s, plan, odd, stats, statuses);
    ra_ring_plan_free(odd);
    ra_ring_plan_free(plan);
    return status;
}
