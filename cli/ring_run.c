/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans a ring over files, opens its checkpoint, starts its ranks (virtual, threads, or this process of an mpirun) and
 * sums up their statistics. See ring_run.h.
 */
#include "ring_run.h"

#include "interrupt.h"
#include "job.h"
#include "report.h"

#include <pthread.h>
#include <ringattn/transport.h>
#include <stdio.h>
#include <stdlib.h>

/* --memory without --ring: the smallest ring that fits. */
static int choose_ring(ring_run *run, const ra_options *options)
{
    if (run->ranks)
        return EXIT_OK;
    int ranks = 0;
    if (ra_ring_smallest(run->problem, options, &run->options, &ranks))
        return report_refusal();
    run->ranks = run->options.ranks = ranks ? ranks : 1; /* where none fits, planning says so */
    run->chosen = ranks > 0;
    return EXIT_OK;
}

/* What was chosen for a budget. */
static void print_choice(const ring_run *run)
{
    ra_rank_info first = RA_RANK_INFO_INIT;
    if (!run->chosen || job_rank() > 0 || ra_ring_plan_rank(run->plan, 0, &first))
        return;
    char budget[RA_BYTES_TEXT], holds[RA_BYTES_TEXT];
    fprintf(stderr, "ringattn %s: a ring of %d fits into %s: %s, chunks of %lld rows%s\n", report_current_verb(),
            run->ranks, ra_bytes_text(run->options.memory, budget),
            ra_bytes_text(ra_ring_plan_process_bytes(run->plan), holds), (long long)first.kv_rows,
            run->options.transport == RA_TRANSPORT_SIM && run->ranks > 1 ? ", one read ahead" : "");
}

/* Ranks that are threads share a plan: the one in this thread shows how far it is. */
static int step_of_first(void *user, double done, double total)
{
    ring_run *run = user;
    return pthread_equal(pthread_self(), run->first) ? progress_step(&run->bar, done, total) : 0;
}

static void watch_first(void *user, const ra_ring_moment *moment)
{
    ring_run *run = user;
    if (pthread_equal(pthread_self(), run->first))
        progress_watch(&run->bar, moment);
}

int ring_run_plan(ring_run *run)
{
    ra_options options = ring_args_run(run->args);
    ra_system_info system = RA_SYSTEM_INFO_INIT;
    run->ranks = run->options.ranks;
    if (run->options.transport == RA_TRANSPORT_MPI && !options.threads) {
        if (ra_system_describe(&system))
            return report_refusal();
        options.threads = system.cores / job_size_here();
        options.threads = options.threads > 1 ? options.threads : 1;
    }
    int code = choose_ring(run, &options);
    if (code)
        return code;
    options.progress = step_of_first;
    options.progress_user = run;
    run->options.watch = watch_first;
    run->options.watch_user = run;
    run->first = pthread_self();
    if (run->options.transport == RA_TRANSPORT_MPI)
        run->options.rank = job_rank();
    if (ra_ring_plan_create(run->problem, &options, &run->options, &run->plan))
        return report_refusal();
    print_choice(run);
    return EXIT_OK;
}

/* A process among others has to wait for them: if it ended now, they could not save. */
static int asked_to_stop(void *user)
{
    const ring_run *run = user;
    bool stop = interrupted();
    if (stop && run->options.transport == RA_TRANSPORT_MPI)
        interrupt_waits();
    return stop;
}

static void tell_saving(void *user, int begins)
{
    (void)user;
    interrupt_saving(begins);
}

/* Not held, as what ends a run is: the run goes on. */
static void tell_unsaved(void *user, const char *message)
{
    const ring_run *run = user;
    fprintf(stderr, "ringattn attend: not saved: %s: the run goes on, and the next save is tried after %g s\n", message,
            run->save_every);
}

int ring_run_save(ring_run *run, const char *path, double every, const fingerprints *prints)
{
    const char *inputs[FINGERPRINT_INPUTS];
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    for (int i = 0; i < prints->count; i++)
        inputs[i] = prints->text[i];
    options.path = path;
    options.every = every;
    options.inputs = inputs;
    options.input_count = prints->count;
    options.stop = asked_to_stop;
    options.stop_user = run;
    options.failed = tell_unsaved;
    options.failed_user = run;
    options.saving = tell_saving;
    run->save_every = every;
    options.rank = job_rank();
    if (ra_checkpoint_open(&options, run->plan, &run->checkpoint))
        return report_refusal();
    if (ra_checkpoint_found(run->checkpoint) && job_rank() == 0)
        fprintf(stderr, "ringattn attend: goes on from %s\n", path);
    interrupt_keeps(path);
    job_saves();
    return EXIT_OK;
}

/* ---- A rank ------------------------------------------------------------------------------------------------------ */

/* What a direction calls, and how many files it has. */
static int file_count(const ra_ring_options *options)
{
    return options->backward ? RING_FILES : RING_FORWARD_FILES;
}

typedef struct rank_work {
    bool backward;
    int count; /* of files */
    const ra_ring_plan *plan;
    ra_comm *comm;
    tensor_file *const *files;
    ra_checkpoint *checkpoint;
    ra_rank_stats *stats;
    uint64_t checksums[RING_FILES]; /* of files that are kept nowhere */
    ra_status status;
    char message[512]; /* of a failure: the library keeps it for the thread that had it */
} rank_work;

static ra_status run_rank(const rank_work *w, ra_storage *const s[RING_FILES])
{
    return w->backward ? ra_ring_run_backward(w->plan, w->comm, s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8],
                                              s[9], w->stats)
                       : ra_ring_run_saved(w->plan, w->comm, s[0], s[1], s[2], s[3], s[4], w->checkpoint, w->stats);
}

static void *work(void *argument)
{
    rank_work *w = argument;
    ra_storage *storages[RING_FILES] = {NULL};
    for (int i = 0; i < w->count && !w->status; i++)
        if (w->files[i]->path)
            w->status = tensor_file_storage(w->files[i], &storages[i]);
    if (w->status)
        w->status = ra_comm_agree(w->comm, w->status, 0); /* the others must not wait */
    else
        w->status = run_rank(w, storages);
    for (int i = 0; i < w->count && !w->status; i++)
        if (w->files[i]->null.kept_nowhere)
            w->status = ra_storage_checksum(storages[i], &w->checksums[i]);
    snprintf(w->message, sizeof w->message, "%s", w->status ? ra_last_message() : "");
    for (int i = 0; i < w->count; i++)
        ra_storage_free(storages[i]);
    return NULL;
}

/* What one rank's failure means for the command. */
static int report_rank(const rank_work *w)
{
    return ra_transport_fail(w->status, "%s", w->message) ? report_failure(w->status) : EXIT_OK;
}

static void add_checksums(const rank_work *w)
{
    for (int i = 0; i < w->count; i++)
        w->files[i]->null.checksum += w->checksums[i];
}

static int run_one(ring_run *run, ra_comm *comm, tensor_file *const files[])
{
    rank_work w = {.backward = run->options.backward,
                   .count = file_count(&run->options),
                   .plan = run->plan,
                   .comm = comm,
                   .files = files,
                   .checkpoint = run->checkpoint,
                   .stats = run->stats};
    work(&w);
    add_checksums(&w);
    int code = report_rank(&w);
    ra_comm_free(comm);
    return code;
}

static int run_threads(ring_run *run, tensor_file *const files[])
{
    int ranks = run->ranks, started = 1;
    ra_comm **comms = calloc((size_t)ranks, sizeof(ra_comm *));
    rank_work *works = calloc((size_t)ranks, sizeof *works);
    pthread_t *threads = calloc((size_t)ranks, sizeof *threads);
    int code = EXIT_OK;
    if (!comms || !works || !threads)
        code = report(EXIT_USAGE, "out of memory: %d ranks", ranks);
    else if (ra_comm_threads(ranks, comms))
        code = report_refusal();
    if (!code) {
        for (int rank = 0; rank < ranks; rank++)
            works[rank] = (rank_work){.backward = run->options.backward,
                                      .count = file_count(&run->options),
                                      .plan = run->plan,
                                      .comm = comms[rank],
                                      .files = files,
                                      .stats = rank ? NULL : run->stats};
        while (started < ranks && pthread_create(&threads[started], NULL, work, &works[started]) == 0)
            started++;
        /* A rank that could not be started leaves, so that the others do not wait for it. */
        for (int rank = started; rank < ranks; rank++) {
            ra_comm_free(comms[rank]);
            comms[rank] = NULL;
        }
        work(&works[0]);
        for (int rank = 1; rank < started; rank++)
            pthread_join(threads[rank], NULL);
        for (int rank = 0; rank < started; rank++)
            add_checksums(&works[rank]);
        if (started < ranks)
            code = report(EXIT_USAGE, "--ring %d: the system gives no more than %d threads", ranks, started);
        /* Who failed by itself says more than who was told. */
        int failed = -1;
        for (int rank = 0; rank < started; rank++)
            if (works[rank].status && (failed < 0 || works[failed].status == RA_ERROR_PEER))
                failed = rank;
        if (!code && failed >= 0)
            code = report_rank(&works[failed]);
        for (int rank = 0; rank < ranks; rank++)
            ra_comm_free(comms[rank]);
    }
    free(threads);
    free(works);
    free(comms);
    return code;
}

/* ---- All ranks --------------------------------------------------------------------------------------------------- */

static void sum_up(ring_run *run)
{
    bool together = run->options.transport != RA_TRANSPORT_SIM;
    run->seconds = 0;
    for (int rank = 0; rank < run->ranks; rank++) {
        double seconds = run->stats[rank].seconds_compute + run->stats[rank].seconds_wait;
        run->seconds = !together ? run->seconds + seconds : seconds > run->seconds ? seconds : run->seconds;
    }
}

int ring_run_execute(ring_run *run, tensor_file *const files[])
{
    ra_comm *comm = NULL;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    run->stats = calloc((size_t)run->ranks, sizeof *run->stats);
    if (!run->stats)
        return report(EXIT_USAGE, "out of memory: statistics of %d ranks", run->ranks);
    run->stats[0].size = sizeof *run->stats;
    if (run->options.backward)
        ra_plan_describe_backward(ra_ring_plan_problem(run->plan), &info);
    else
        ra_plan_describe(ra_ring_plan_problem(run->plan), &info);
    double share = run->options.transport == RA_TRANSPORT_SIM ? 1 : run->ranks; /* a rank sees its own part only */
    progress_start(&run->bar, run->label, "Gflop/s",
                   info.pairs_visible > 0 ? share * 1e-9 * info.flops / info.pairs_visible : 0);
    if (job_rank() > 0)
        run->bar.shown = false;
    run->bar.stops_later = run->checkpoint != NULL;
    int code;
    if (run->options.transport == RA_TRANSPORT_THREADS)
        code = run_threads(run, files);
    else if (run->options.transport == RA_TRANSPORT_SIM)
        code = ra_comm_sim(run->ranks, &comm) ? report_refusal() : run_one(run, comm, files);
    else
        code = job_comm(&comm) ? report_refusal() : run_one(run, comm, files);
    progress_end(&run->bar);
    if (!code)
        sum_up(run);
    return code;
}

void ring_run_free(ring_run *run)
{
    ra_checkpoint_free(run->checkpoint);
    ra_ring_plan_free(run->plan);
    free(run->stats);
}
