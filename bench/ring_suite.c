/*
 * ringattn bench ring: one problem in one piece, and over ranks that have as many threads in all. Cases are interleaved
 * round by round with the run in one piece that they are compared with; tensors are in memory and split beforehand; a
 * sample is the time of the whole ra_ring_forward, on the slowest rank. One process measures everything; the other
 * processes of an mpirun sleep but for the cases that they take part in.
 */
#include "bench.h"
#include "launch.h"
#include "sampling.h"
#include "tensors.h"
#include "world.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADS = 8, DIM = 64, LENGTH = 8192, SIM_RANKS = 8, END = -1 };

/*
 * An OpenMP runtime lets its threads spin for a while after they have worked, which the probes make them do: about 5 ms
 * of gcc's, 200 ms of clang's. A rank of one thread must not share its core with them.
 */
#ifdef __clang__
static const struct timespec SETTLE = {0, 250000000};
#else
static const struct timespec SETTLE = {0, 30000000};
#endif

typedef enum ring_how { LOCAL, SIM, THREADS, MPI } ring_how;

typedef struct ring_case {
    const char *name, *pattern;
    ring_how how;
    ra_order order;
    int base;    /* the case in one piece that it is compared with */
    double goal; /* the most that the ratio of their times may be; 0: only shown */
} ring_case;

enum { LOCAL_FULL = 0, LOCAL_CAUSAL = 4 };
static const ring_case cases[] = {
    {"local full", "full", LOCAL, RA_ORDER_CONTIGUOUS, LOCAL_FULL, 0},
    {"sim full", "full", SIM, RA_ORDER_CONTIGUOUS, LOCAL_FULL, 1.05},
    {"threads full", "full", THREADS, RA_ORDER_CONTIGUOUS, LOCAL_FULL, 0},
    {"mpi full", "full", MPI, RA_ORDER_CONTIGUOUS, LOCAL_FULL, 1.08},
    {"local causal", "causal", LOCAL, RA_ORDER_CONTIGUOUS, LOCAL_CAUSAL, 0},
    {"mpi causal zigzag", "causal", MPI, RA_ORDER_ZIGZAG, LOCAL_CAUSAL, 1.12},
    {"mpi causal contiguous", "causal", MPI, RA_ORDER_CONTIGUOUS, LOCAL_CAUSAL, 0},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* A case ready to run, in this process. */
typedef struct ring_run {
    const ring_case *c;
    int ranks, threads; /* of each */
    ra_plan *plan;      /* in one piece, */
    ra_ring_plan *ring; /* or over ranks */
    ra_comm **comms;    /* as many as ranks of their own are here: all, or this process's */
    bench_tensors *parts;
    int here;
    ra_rank_stats *stats; /* [ranks], of the last run */
    bool checked;
    double error; /* against the oracle */
    samples taken;
    double compute[SAMPLING_MOST], wait[SAMPLING_MOST]; /* of the slowest rank, by sample */
} ring_run;

/* All that runs share. */
typedef struct ring_bench {
    const bench_options *options;
    int64_t length;
    int workers; /* threads of a run in one piece, ranks of one thread each */
    ra_kernel_id kernel;
    bench_tensors whole;
    bool spread; /* this is one of the processes of an mpirun */
    ring_run runs[CASES];
} ring_bench;

/* What one run took. */
typedef struct ring_time {
    double seconds;         /* on the slowest rank */
    double processor, busy; /* of all ranks: processor time, and the time that their threads were not waiting */
    double compute, wait;
} ring_time;

/* What is said of a case. */
typedef struct ring_row {
    const ring_run *run;
    sampling_relation relation;
    double compute, wait, balance;
    int64_t hops;
    bool right, met;
} ring_row;

/* ---- Preparing --------------------------------------------------------------------------------------------------- */

/* A rank's own rows, copied out of the whole tensors. */
static ra_status split(const ring_bench *b, const ring_run *r, int rank, bench_tensors *part)
{
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_status status = ra_ring_plan_rank(r->ring, rank, &info);
    const bench_shape shape = {info.q_rows, info.kv_rows, HEADS, HEADS, DIM, RA_F32};
    if (!status)
        status = bench_tensors_take(part, &shape, r->c->name);
    if (!status)
        status = ra_ring_split(r->ring, rank, 0, &b->whole.q, &part->q);
    if (!status)
        status = ra_ring_split(r->ring, rank, 1, &b->whole.k, &part->k);
    return status ? status : ra_ring_split(r->ring, rank, 1, &b->whole.v, &part->v);
}

static ra_status connect_ranks(ring_run *r)
{
    switch (r->c->how) {
    case SIM: return ra_comm_sim(r->ranks, r->comms);
    case THREADS: return ra_comm_threads(r->ranks, r->comms);
    default: return world_comm(r->comms);
    }
}

static ra_status prepare_ranks(ring_bench *b, ring_run *r, const ra_problem *problem, ra_options *options)
{
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.order = r->c->order;
    ring.ranks = r->ranks = r->c->how == SIM ? SIM_RANKS : b->workers;
    ring.transport = r->c->how == SIM       ? RA_TRANSPORT_SIM
                     : r->c->how == THREADS ? RA_TRANSPORT_THREADS
                                            : RA_TRANSPORT_MPI;
    r->threads = options->threads = r->c->how == SIM ? b->workers : 1;
    r->here = r->c->how == THREADS ? r->ranks : 1;
    r->comms = calloc((size_t)r->ranks, sizeof(ra_comm *));
    r->parts = calloc((size_t)r->here, sizeof *r->parts);
    r->stats = calloc((size_t)r->ranks, sizeof *r->stats);
    if (!r->comms || !r->parts || !r->stats) {
        fprintf(stderr, "ringattn bench: out of memory for %s\n", r->c->name);
        return RA_ERROR_MEMORY;
    }
    r->stats[0].size = sizeof *r->stats;
    ra_status status = ra_ring_plan_create(problem, options, &ring, &r->ring);
    for (int i = 0; i < r->here && r->c->how != SIM && !status; i++)
        status = split(b, r, r->c->how == MPI ? world_rank() : i, &r->parts[i]);
    return status ? status : connect_ranks(r);
}

static ra_status prepare(ring_bench *b, ring_run *r)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    problem.q_len = b->length;
    problem.heads = HEADS;
    problem.head_dim = DIM;
    problem.pattern = r->c->pattern;
    options.kernel = b->kernel;
    if (r->c->how != LOCAL)
        return prepare_ranks(b, r, &problem, &options);
    r->ranks = 1;
    r->threads = options.threads = b->workers;
    return ra_plan_create(&problem, &options, &r->plan);
}

static void give_back(ring_run *r)
{
    for (int i = 0; r->comms && i < r->here; i++)
        ra_comm_free(r->comms[i]);
    for (int i = 0; r->parts && i < r->here; i++)
        bench_tensors_give(&r->parts[i]);
    ra_plan_free(r->plan);
    ra_ring_plan_free(r->ring);
    free(r->comms);
    free(r->parts);
    free(r->stats);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* Threads that have their cores to themselves are busy from beginning to end. */
static ra_status run_here(const ring_bench *b, ring_run *r, ring_time *time)
{
    const bench_tensors *t = &b->whole;
    ra_stats stats = RA_STATS_INIT;
    double processor = probe_processor_seconds(), start = probe_seconds();
    ra_status status = r->c->how == LOCAL
                           ? ra_forward(r->plan, &t->q, &t->k, &t->v, &t->output, NULL, &stats)
                           : ra_ring_forward(r->ring, r->comms[0], &t->q, &t->k, &t->v, &t->output, NULL, r->stats);
    time->seconds = probe_seconds() - start;
    time->processor = probe_processor_seconds() - processor;
    time->busy = time->seconds * r->threads;
    time->compute = stats.seconds_compute;
    for (int rank = 0; rank < r->ranks && r->stats; rank++) /* one after the other */
        time->compute += r->stats[rank].seconds_compute;
    return status;
}

/* One of several ranks: its part of the work, begun at the same time as the others'. */
typedef struct rank_work {
    ring_run *run;
    int index;
    bool has_stats;
    double seconds;
    ra_status status;
    char message[512]; /* the library keeps it for the thread that failed */
} rank_work;

static void *work(void *argument)
{
    rank_work *w = argument;
    const bench_tensors *t = &w->run->parts[w->index];
    ra_comm *comm = w->run->comms[w->index];
    w->status = ra_comm_agree(comm, RA_OK, 0);
    double start = probe_seconds();
    if (!w->status)
        w->status = ra_ring_forward(w->run->ring, comm, &t->q, &t->k, &t->v, &t->output, NULL,
                                    w->has_stats ? w->run->stats : NULL);
    w->seconds = probe_seconds() - start;
    snprintf(w->message, sizeof w->message, "%s", w->status ? ra_last_message() : "");
    return NULL;
}

static void slowest(const ring_run *r, ring_time *time)
{
    for (int rank = 0; rank < r->ranks; rank++) {
        time->compute = fmax(time->compute, r->stats[rank].seconds_compute);
        time->wait = fmax(time->wait, r->stats[rank].seconds_wait);
    }
}

static ra_status run_threads(ring_run *r, ring_time *time)
{
    rank_work works[r->ranks];
    pthread_t threads[r->ranks];
    int started = 1;
    double processor = probe_processor_seconds();
    for (int rank = 0; rank < r->ranks; rank++)
        works[rank] = (rank_work){.run = r, .index = rank, .has_stats = rank == 0};
    while (started < r->ranks && pthread_create(&threads[started], NULL, work, &works[started]) == 0)
        started++;
    for (int rank = started; rank < r->ranks; rank++) { /* who could not be started leaves: the others fail, too */
        ra_comm_free(r->comms[rank]);
        r->comms[rank] = NULL;
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
        time->busy += works[rank].seconds - r->stats[rank].seconds_wait;
    }
    slowest(r, time);
    return RA_OK;
}

/* All processes come here. */
static ra_status run_mpi(ring_run *r, ring_time *time)
{
    rank_work w = {.run = r, .has_stats = true};
    double processor = probe_processor_seconds();
    work(&w);
    if (w.status)
        return w.status;
    time->processor = world_sum(probe_processor_seconds() - processor);
    time->seconds = world_max(w.seconds);
    time->busy = world_sum(w.seconds - r->stats[world_rank()].seconds_wait);
    slowest(r, time);
    return RA_OK;
}

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

static bool holds(const ring_run *r, int rank, int64_t query)
{
    ra_piece piece;
    for (int64_t i = 0; ra_ring_plan_queries(r->ring, rank, i, &piece) == RA_OK; i++)
        if (query >= piece.first && query < piece.end)
            return true;
    return false;
}

/* Sampled rows of the last run. Over processes each checks the rows that it holds. */
static ra_status check(ring_bench *b, ring_run *r)
{
    const ra_plan *plan = r->plan ? r->plan : ra_ring_plan_problem(r->ring);
    ra_status status = RA_OK;
    for (int i = 0; i < r->here && r->parts && r->parts[i].memory && !status; i++)
        status = ra_ring_gather(r->ring, r->c->how == MPI ? world_rank() : i, 0, &r->parts[i].output, &b->whole.output);
    for (int i = 0; i < BENCH_CHECKED_ROWS && !status; i++) {
        int64_t query = bench_checked_query(&b->whole, i);
        if (r->c->how != MPI || holds(r, world_rank(), query))
            status = bench_check_row(plan, &b->whole, query, bench_checked_head(&b->whole, i), &r->error);
    }
    if (!status && r->c->how == MPI)
        r->error = world_max(isnan(r->error) ? INFINITY : r->error);
    return status;
}

/* One run, checked if it is the first. */
static ra_status run_once(ring_bench *b, ring_run *r, ring_time *time)
{
    *time = (ring_time){0};
    ra_status status = r->c->how == MPI       ? run_mpi(r, time)
                       : r->c->how == THREADS ? run_threads(r, time)
                                              : run_here(b, r, time);
    if (status || r->checked)
        return status;
    r->checked = true;
    return check(b, r);
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

static int failed(const ring_run *r, ra_status status)
{
    fprintf(stderr, "ringattn bench: %s: %s: %s\n", r->c->name, ra_status_name(status), ra_last_message());
    return 1;
}

static bool wanted(const ring_bench *b, int index)
{
    const char *only = b->options->only;
    if (cases[index].how == MPI && !b->spread)
        return false;
    if (!only || strstr(cases[index].name, only))
        return true;
    for (int i = 0; cases[index].how == LOCAL && i < CASES; i++) /* what a wanted case is compared with */
        if (i != index && cases[i].base == index && strstr(cases[i].name, only) && (cases[i].how != MPI || b->spread))
            return true;
    return false;
}

/* The leader's side of a run; the others are woken for it if they have a part in it. */
static ra_status lead(ring_bench *b, int index, ring_time *time)
{
    if (cases[index].how == MPI)
        world_order(index);
    return run_once(b, &b->runs[index], time);
}

static ra_status measure(ring_bench *b, int index)
{
    ring_run *r = &b->runs[index];
    ring_time time;
    sample *s = &r->taken.at[r->taken.count];
    s->before = probe_now(b->kernel, b->workers);
    nanosleep(&SETTLE, NULL);
    ra_status status = lead(b, index, &time);
    s->after = probe_now(b->kernel, b->workers);
    s->value = time.seconds;
    s->share = time.busy > 0 ? fmin(1, time.processor / time.busy) : 1;
    r->compute[r->taken.count] = time.compute;
    r->wait[r->taken.count++] = time.wait;
    return status;
}

/* Once unmeasured, for the check; then round by round. */
static int measure_all(ring_bench *b)
{
    ring_time unused;
    for (int round = -1; round < b->options->rounds; round++)
        for (int i = 0; i < CASES && !b->options->interrupted(); i++) {
            if (!wanted(b, i))
                continue;
            ra_status status = round < 0 ? lead(b, i, &unused) : measure(b, i);
            if (status)
                return failed(&b->runs[i], status);
        }
    return 0;
}

static int follow(ring_bench *b)
{
    ring_time unused;
    for (int order; (order = world_order(END)) != END;) {
        ra_status status = run_once(b, &b->runs[order], &unused);
        if (status)
            return failed(&b->runs[order], status);
    }
    return 0;
}

/* ---- Reporting --------------------------------------------------------------------------------------------------- */

static probe_reading undisturbed(const ring_bench *b)
{
    static double readings[2 * CASES * SAMPLING_MOST];
    int count = 0;
    for (int i = 0; i < CASES; i++)
        count += sampling_readings(&b->runs[i].taken, readings + count);
    return sampling_undisturbed(readings, count);
}

static ring_row row_of(ring_bench *b, int index, probe_reading best)
{
    ring_run *r = &b->runs[index];
    ring_row row = {.run = r, .balance = 1};
    double pairs = 0, most = 0;
    row.relation = sampling_against(&r->taken, &b->runs[r->c->base].taken, best);
    row.compute = sampling_median(r->compute, r->taken.count);
    row.wait = sampling_median(r->wait, r->taken.count);
    for (int rank = 0; rank < r->ranks && r->stats; rank++) {
        pairs += r->stats[rank].pairs_visible;
        most = fmax(most, r->stats[rank].pairs_visible);
        row.hops = r->stats[rank].hops > row.hops ? r->stats[rank].hops : row.hops;
    }
    if (pairs > 0)
        row.balance = most * r->ranks / pairs;
    row.right = r->error <= bench_tolerance(RA_F32);
    row.met = row.relation.ratio <= r->c->goal;
    return row;
}

static void print_head(const ring_bench *b)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    ra_system_describe(&machine);
    printf("ringattn %s, %s, %s, %s\n", ra_version(), machine.processor, machine.compiler,
           b->spread ? b->options->mpi : "no MPI");
    printf("length %lld, %d heads, head dim %d, float32, tensors in memory\n", (long long)b->length, HEADS, DIM);
    printf("ratio: to the run in one piece with %d threads in the same round, median of the rounds where both were "
           "quiet,\nof all where none was; compute, wait: seconds of the slowest rank (sim: of all); balance: most "
           "pairs of a rank\nto the mean\n\n",
           b->workers);
    printf("%-22s %5s %3s %9s %9s %7s %5s %-7s %9s %9s %9s %5s %8s %9s\n", "case", "ranks", "th", "median s", "local s",
           "ratio", "goal", "", "quiet/all", "compute", "wait", "hops", "balance", "error");
}

static void print_row(const ring_row *row)
{
    const ring_run *r = row->run;
    const sampling_relation *s = &row->relation;
    char goal[16] = "-";
    if (r->c->goal > 0)
        snprintf(goal, sizeof goal, "%.2f", r->c->goal);
    printf("%-22s %5d %3d %9.4f %9.4f %7.3f %5s %-7s %5d/%-3d %9.4f %9.4f %5lld %8.3f %9.1e%s\n", r->c->name, r->ranks,
           r->threads, s->value, s->base, s->ratio, goal,
           r->c->goal <= 0 ? ""
           : row->met      ? "met"
                           : "missed",
           s->quiet, s->count, row->compute, row->wait, (long long)row->hops, row->balance, r->error,
           row->right ? "" : "  FAILED: out of tolerance");
}

static int report(ring_bench *b)
{
    probe_reading best = undisturbed(b);
    int code = 0;
    print_head(b);
    for (int i = 0; i < CASES; i++)
        if (b->runs[i].taken.count) {
            ring_row row = row_of(b, i, best);
            print_row(&row);
            code |= !row.right;
        }
    if (!b->spread)
        printf("\nwithout the cases of MPI: %s\n", b->options->mpi ? "no mpirun of the MPI that is built in was found"
                                                                   : "this ringattn was built without it");
    return code;
}

/* ---- The suite --------------------------------------------------------------------------------------------------- */

static int run_all(ring_bench *b)
{
    const bench_shape shape = {b->length, b->length, HEADS, HEADS, DIM, RA_F32};
    if (bench_tensors_take(&b->whole, &shape, "bench ring"))
        return 1;
    bench_tensors_fill(&b->whole, b->options->seed);
    int some = 0;
    for (int i = 0; i < CASES; i++) {
        b->runs[i].c = &cases[i];
        if (!wanted(b, i))
            continue;
        some++;
        ra_status status = prepare(b, &b->runs[i]);
        if (status)
            return failed(&b->runs[i], status);
    }
    if (!some) {
        fprintf(stderr, "ringattn bench: no case has \"%s\" in its name\n", b->options->only);
        return 2;
    }
    if (world_rank() > 0)
        return follow(b);
    int code = measure_all(b);
    if (code)
        return code;
    if (b->spread)
        world_order(END);
    return report(b);
}

/* How many threads and ranks: two, unless there is one core only. */
static int choose_workers(const bench_options *options, ra_system_info *machine)
{
    if (ra_system_describe(machine)) {
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
        return 0;
    }
    int workers = options->threads ? options->threads : machine->cores < 2 ? machine->cores : 2;
    if (workers <= machine->cores)
        return workers;
    fprintf(stderr, "ringattn bench: %d threads, and this process may use %d core%s\n", workers, machine->cores,
            machine->cores == 1 ? "" : "s");
    return 0;
}

static int run_suite(const bench_options *options, bool spread)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    ring_bench *b = calloc(1, sizeof *b);
    int code = 2;
    if (!b)
        return 1;
    b->options = options;
    b->spread = spread;
    b->length = options->length ? options->length : LENGTH;
    b->workers = choose_workers(options, &machine);
    b->kernel = machine.kernel;
    if (b->workers && spread && world_size() != b->workers)
        fprintf(stderr, "ringattn bench: %d processes for %d ranks\n", world_size(), b->workers);
    else if (b->workers)
        code = run_all(b);
    for (int i = 0; i < CASES; i++)
        give_back(&b->runs[i]);
    bench_tensors_give(&b->whole);
    free(b);
    return code;
}

int bench_ring_rank(const bench_options *options)
{
    int code = world_begin();
    if (code)
        return code;
    code = run_suite(options, true);
    world_end(code);
    return code;
}

int bench_ring(const bench_options *options)
{
    launch l;
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    if (launch_find(&l, options->mpi, options->interrupted))
        return 2;
    if (!l.mpirun[0])
        return run_suite(options, false);
    int workers = choose_workers(options, &machine);
    if (!workers)
        return 2;
    char threads[16], rounds[16], length[24], input[32];
    snprintf(threads, sizeof threads, "%d", workers);
    snprintf(rounds, sizeof rounds, "%d", options->rounds);
    snprintf(length, sizeof length, "%lld", (long long)(options->length ? options->length : LENGTH));
    snprintf(input, sizeof input, "gen:%llu", (unsigned long long)options->seed);
    const char *const arguments[] = {"bench",
                                     "ring-rank",
                                     "--threads",
                                     threads,
                                     "--rounds",
                                     rounds,
                                     "--input",
                                     input,
                                     "--length",
                                     length,
                                     options->only ? "--only" : NULL,
                                     options->only,
                                     NULL};
    int code = launch_run(&l, workers, arguments);
    return code < 0 ? 2 : code;
}
