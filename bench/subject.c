/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares and runs a problem in one piece, over virtual ranks, over threads or over processes, and compares the output
 * with the oracle. See subject.h.
 */
#include "subject.h"

#include "world.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * An OpenMP runtime lets its threads spin for a while after they have worked, which the probes make them do: about 5 ms
 * of gcc's, 200 ms of clang's. A rank of one thread must not share its core with them.
 */
#ifdef __clang__
static const struct timespec SETTLE = {0, 250000000};
#else
static const struct timespec SETTLE = {0, 30000000};
#endif

/* ---- Preparing --------------------------------------------------------------------------------------------------- */

/* A rank's own rows, copied out of the whole tensors. */
static ra_status split(const subject *s, int rank, bench_tensors *part)
{
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_status status = ra_ring_plan_rank(s->ring, rank, &info);
    bench_shape shape = s->spec.shape;
    shape.q_len = info.q_rows;
    shape.kv_len = info.kv_rows;
    if (!status)
        status = bench_tensors_take(part, &shape, s->spec.name);
    if (!status)
        status = ra_ring_split(s->ring, rank, 0, &s->whole->q, &part->q);
    if (!status)
        status = ra_ring_split(s->ring, rank, 1, &s->whole->k, &part->k);
    return status ? status : ra_ring_split(s->ring, rank, 1, &s->whole->v, &part->v);
}

static ra_status connect_ranks(subject *s)
{
    switch (s->spec.how) {
    case OVER_SIM: return ra_comm_sim(s->spec.ranks, s->comms);
    case OVER_THREADS: return ra_comm_threads(s->spec.ranks, s->comms);
    default: return world_comm(s->comms);
    }
}

static ra_status prepare_ranks(subject *s)
{
    static const ra_transport_kind TRANSPORTS[] = {
        [OVER_SIM] = RA_TRANSPORT_SIM, [OVER_THREADS] = RA_TRANSPORT_THREADS, [OVER_MPI] = RA_TRANSPORT_MPI};
    ra_ring_options *ring = &s->ring_options;
    size_t ranks = (size_t)s->spec.ranks;
    *ring = (ra_ring_options)RA_RING_OPTIONS_INIT;
    ring->order = s->spec.order;
    ring->ranks = s->spec.ranks;
    ring->strategy = s->spec.strategy;
    ring->transport = TRANSPORTS[s->spec.how];
    ring->q_dtype = ring->k_dtype = ring->v_dtype = ring->o_dtype = s->spec.shape.dtype;
    s->here = s->spec.how == OVER_THREADS ? s->spec.ranks : 1;
    s->comms = calloc(ranks, sizeof(ra_comm *));
    s->parts = calloc((size_t)s->here, sizeof *s->parts);
    s->stats = calloc(ranks, sizeof *s->stats);
    if (!s->comms || !s->parts || !s->stats) {
        fprintf(stderr, "ringattn bench: out of memory for %s\n", s->spec.name);
        return RA_ERROR_MEMORY;
    }
    s->stats[0].size = sizeof *s->stats;
    ra_status status = ra_ring_plan_create(&s->problem, &s->options, ring, &s->ring);
    for (int i = 0; i < s->here && s->spec.how != OVER_SIM && !status; i++)
        status = split(s, s->spec.how == OVER_MPI ? world_rank() : i, &s->parts[i]);
    return status ? status : connect_ranks(s);
}

static ra_problem problem_of(const subject_spec *spec)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = spec->shape.batch;
    problem.q_len = spec->shape.q_len;
    problem.kv_len = spec->shape.kv_len;
    problem.heads = spec->shape.heads;
    problem.kv_heads = spec->shape.kv_heads;
    problem.head_dim = spec->shape.dim;
    problem.pattern = spec->pattern;
    problem.scores = spec->scores;
    problem.score_arrays = spec->arrays;
    return problem;
}

ra_status subject_prepare(subject *s, const subject_spec *spec, bench_tensors *whole)
{
    s->spec = *spec;
    s->whole = whole;
    s->problem = problem_of(spec);
    s->options = (ra_options)RA_OPTIONS_INIT;
    s->options.kernel = spec->kernel;
    s->options.threads = spec->threads;
    s->options.tiles = spec->tiles;
    if (spec->how == IN_ONE_PIECE)
        s->spec.ranks = 1;
    ra_status status =
        spec->how == IN_ONE_PIECE ? ra_plan_create(&s->problem, &s->options, &s->plan) : prepare_ranks(s);
    ra_plan_info info = RA_PLAN_INFO_INIT;
    if (!status)
        status = ra_plan_describe(subject_plan(s), &info);
    s->flops = info.flops;
    return status;
}

void subject_give(subject *s)
{
    for (int i = 0; s->comms && i < s->here; i++)
        ra_comm_free(s->comms[i]);
    for (int i = 0; s->parts && i < s->here; i++)
        bench_tensors_give(&s->parts[i]);
    ra_plan_free(s->plan);
    ra_ring_plan_free(s->ring);
    free(s->comms);
    free(s->parts);
    free(s->stats);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static ra_status run_whole(subject *s, subject_time *time)
{
    const bench_tensors *t = s->whole;
    ra_stats stats = RA_STATS_INIT;
    ra_status status = ra_forward(s->plan, &t->q, &t->k, &t->v, &t->output, NULL, &stats);
    time->seconds = time->compute = stats.seconds_compute;
    s->peak_bytes = stats.peak_bytes;
    return status;
}

/* Virtual ranks, one after the other. */
static ra_status run_sim(subject *s, subject_time *time)
{
    const bench_tensors *t = s->whole;
    double start = probe_seconds();
    ra_status status = ra_ring_forward(s->ring, s->comms[0], &t->q, &t->k, &t->v, &t->output, NULL, s->stats);
    time->seconds = probe_seconds() - start;
    for (int rank = 0; rank < s->spec.ranks; rank++)
        time->compute += s->stats[rank].seconds_compute;
    return status;
}

/* Threads that have their cores to themselves are busy from beginning to end. */
static ra_status run_here(subject *s, subject_time *time)
{
    double processor = probe_processor_seconds(), start = probe_seconds();
    ra_status status = s->plan ? run_whole(s, time) : run_sim(s, time);
    time->processor = probe_processor_seconds() - processor;
    time->busy = (probe_seconds() - start) * s->spec.threads;
    return status;
}

/* One of several ranks: its part of the work, begun at the same time as the others'. */
typedef struct rank_work {
    subject *subject;
    int index;
    bool has_stats;
    double seconds;
    ra_status status;
    char message[512]; /* the library keeps it for the thread that failed */
} rank_work;

static void *work(void *argument)
{
    rank_work *w = argument;
    const bench_tensors *t = &w->subject->parts[w->index];
    ra_comm *comm = w->subject->comms[w->index];
    w->status = ra_comm_agree(comm, RA_OK, 0);
    double start = probe_seconds();
    if (!w->status)
        w->status = ra_ring_forward(w->subject->ring, comm, &t->q, &t->k, &t->v, &t->output, NULL,
                                    w->has_stats ? w->subject->stats : NULL);
    w->seconds = probe_seconds() - start;
    snprintf(w->message, sizeof w->message, "%s", w->status ? ra_last_message() : "");
    return NULL;
}

static void slowest(const subject *s, subject_time *time)
{
    for (int rank = 0; rank < s->spec.ranks; rank++) {
        time->compute = fmax(time->compute, s->stats[rank].seconds_compute);
        time->wait = fmax(time->wait, s->stats[rank].seconds_wait);
    }
}

static ra_status run_threads(subject *s, subject_time *time)
{
    int ranks = s->spec.ranks, started = 1;
    rank_work works[ranks];
    pthread_t threads[ranks];
    double processor = probe_processor_seconds();
    for (int rank = 0; rank < ranks; rank++)
        works[rank] = (rank_work){.subject = s, .index = rank, .has_stats = rank == 0};
    while (started < ranks && pthread_create(&threads[started], NULL, work, &works[started]) == 0)
        started++;
    for (int rank = started; rank < ranks; rank++) { /* who could not be started leaves: the others fail, too */
        ra_comm_free(s->comms[rank]);
        s->comms[rank] = NULL;
    }
    work(&works[0]);
    for (int rank = 1; rank < started; rank++)
        pthread_join(threads[rank], NULL);
    time->processor = probe_processor_seconds() - processor;
    for (int rank = 0; rank < started; rank++) {
        if (works[rank].status) {
            fprintf(stderr, "ringattn bench: rank %d: %s\n", rank, works[rank].message);
            return works[rank].status;
        }
        time->seconds = fmax(time->seconds, works[rank].seconds);
        time->busy += (works[rank].seconds - s->stats[rank].seconds_wait) * s->spec.threads;
    }
    slowest(s, time);
    return RA_OK;
}

/* All processes come here. */
static ra_status run_mpi(subject *s, subject_time *time)
{
    rank_work w = {.subject = s, .has_stats = true};
    double processor = probe_processor_seconds();
    work(&w);
    if (w.status)
        return w.status;
    time->processor = world_sum(probe_processor_seconds() - processor);
    time->seconds = world_max(w.seconds);
    time->busy = world_sum((w.seconds - s->stats[world_rank()].seconds_wait) * s->spec.threads);
    slowest(s, time);
    return RA_OK;
}

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

static bool holds(const subject *s, int rank, int64_t query)
{
    ra_piece piece;
    for (int64_t i = 0; ra_ring_plan_queries(s->ring, rank, i, &piece) == RA_OK; i++)
        if (query >= piece.first && query < piece.end)
            return true;
    return false;
}

/* Sampled rows of the last run. Over processes each checks the rows that it holds. */
static ra_status check(subject *s)
{
    bool spread = s->spec.how == OVER_MPI;
    ra_status status = RA_OK;
    for (int i = 0; i < s->here && s->parts && s->parts[i].memory && !status; i++)
        status = ra_ring_gather(s->ring, spread ? world_rank() : i, 0, &s->parts[i].output, &s->whole->output);
    for (int i = 0; i < BENCH_CHECKED_ROWS && !status; i++)
        if (!spread || holds(s, world_rank(), bench_checked_query(s->whole, i)))
            status = bench_check_row(subject_plan(s), s->whole, i, &s->error);
    if (!status && spread)
        s->error = world_max(isnan(s->error) ? INFINITY : s->error);
    return status;
}

ra_status subject_run(subject *s, subject_time *time)
{
    *time = (subject_time){0};
    ra_status status = s->spec.how == OVER_MPI       ? run_mpi(s, time)
                       : s->spec.how == OVER_THREADS ? run_threads(s, time)
                                                     : run_here(s, time);
    if (status || s->checked)
        return status;
    s->checked = true;
    return check(s);
}

ra_status subject_sample(void *user, sample *taken)
{
    enum { MOST_RUNS = 15 };
    subject *s = user;
    double seconds[MOST_RUNS], processor = 0, busy = 0, spent = 0;
    int runs = 0;
    if (s->spec.how != IN_ONE_PIECE)
        nanosleep(&SETTLE, NULL);
    do {
        subject_time time;
        ra_status status = subject_run(s, &time);
        if (status)
            return status;
        seconds[runs++] = time.seconds;
        spent += time.seconds;
        processor += time.processor;
        busy += time.busy;
        if (s->timed < SAMPLING_MOST) {
            s->compute[s->timed] = time.compute;
            s->wait[s->timed++] = time.wait;
        }
    } while (spent < s->spec.enough && runs < MOST_RUNS);
    taken->seconds = sampling_median(seconds, runs);
    taken->value = s->flops / taken->seconds;
    taken->share = busy > 0 ? fmin(1, processor / busy) : 1;
    return RA_OK;
}

/* ---- What the row says ------------------------------------------------------------------------------------------- */

const ra_plan *subject_plan(const subject *s)
{
    return s->plan ? s->plan : ra_ring_plan_problem(s->ring);
}

bool subject_right(const subject *s)
{
    return s->checked && s->error <= bench_tolerance(s->spec.shape.dtype);
}

double subject_balance(const subject *s)
{
    double pairs = 0, most = 0;
    for (int rank = 0; rank < s->spec.ranks && s->stats; rank++) {
        pairs += s->stats[rank].pairs_visible;
        most = fmax(most, s->stats[rank].pairs_visible);
    }
    return pairs > 0 ? most * s->spec.ranks / pairs : 1;
}

/* Ranks that are threads of one process hold their memory at the same time. */
static void describe_ranks(const subject *s, result_row *row)
{
    static const char *const TRANSPORTS[] = {[OVER_SIM] = "sim", [OVER_THREADS] = "threads", [OVER_MPI] = "mpi"};
    row->strategy = ra_strategy_name(s->spec.strategy);
    row->transport = TRANSPORTS[s->spec.how];
    row->order = s->spec.order;
    row->planned_bytes = ra_ring_plan_process_bytes(s->ring);
    for (int rank = 0; rank < s->spec.ranks; rank++) {
        const ra_rank_stats *r = &s->stats[rank];
        row->ring_size += r->threads > 0; /* it was there, and says so */
        row->hops += r->hops;
        row->bytes_received += r->bytes_received;
        row->peak_bytes = s->spec.how == OVER_THREADS       ? row->peak_bytes + r->peak_bytes
                          : r->peak_bytes > row->peak_bytes ? r->peak_bytes
                                                            : row->peak_bytes;
    }
}

void subject_describe(const subject *s, result_row *row)
{
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan_describe(subject_plan(s), &info);
    row->name = s->spec.name;
    row->problem = s->problem;
    row->dtype = s->spec.shape.dtype;
    row->kernel = info.kernel;
    row->threads = s->spec.threads;
    row->tiles = s->spec.tiles;
    row->flops = s->flops;
    row->error = s->error;
    row->tolerance = bench_tolerance(s->spec.shape.dtype);
    row->rows = s->checked ? BENCH_CHECKED_ROWS : 0;
    if (s->ring)
        describe_ranks(s, row);
    else {
        row->ring_size = 1;
        row->planned_bytes = info.peak_bytes;
        row->peak_bytes = s->peak_bytes;
    }
}
