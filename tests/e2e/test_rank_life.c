/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life and death of ranks: slow storages and slow saves are no silence, a storage that fails ends all ranks at once,
 * what a transport could not give up is not freed, and what a run leaves to the next one is no more than that one
 * needs.
 *
 * Ranks are threads with messages between them. Calls of the library's storages and of the system are wrapped by the
 * linker (tests/e2e/CMakeLists.txt), so that one rank's can be made slow or made to fail.
 */
#include "base/memory.h"
#include "support/folder.h"
#include "support/resident.h"
#include "support/sample.h"
#include "support/unit.h"
#include "transport/comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3, ODD = 1 }; /* ODD: the rank that is in trouble */
static const double SHORT_TIMEOUT = 0.5, LONG_TIMEOUT = 30;
static const char PATH[] = "state";

/* ---- Trouble ----------------------------------------------------------------------------------------------------- */

static _Thread_local int rank_here = -1;

static struct {
    double read_seconds, write_seconds; /* that a call takes */
    int read_fails, write_fails;        /* the n-th call of that rank fails; 0: none */
    int reads, writes, saves;           /* calls of that rank */
    double slept;
} trouble;

static bool in_trouble(void)
{
    return rank_here == ODD;
}

static void sleep_for(double seconds)
{
    if (seconds <= 0)
        return;
    nanosleep(&(struct timespec){0, (long)(1e9 * seconds)}, NULL);
    trouble.slept += seconds;
}

ra_status __real_ra_storage_read(ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                                 const ra_tensor *into);
ra_status __wrap_ra_storage_read(ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                                 const ra_tensor *into);
ra_status __real_ra_storage_write(ra_storage *s, int64_t batch, int64_t first, int64_t count, const ra_tensor *from);
ra_status __wrap_ra_storage_write(ra_storage *s, int64_t batch, int64_t first, int64_t count, const ra_tensor *from);
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);

ra_status __wrap_ra_storage_read(ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                                 const ra_tensor *into)
{
    if (in_trouble()) {
        sleep_for(trouble.read_seconds);
        if (++trouble.reads == trouble.read_fails)
            return ra_transport_fail(RA_ERROR_FILE, "the disk is gone");
    }
    return __real_ra_storage_read(s, batch, first, count, head, into);
}

ra_status __wrap_ra_storage_write(ra_storage *s, int64_t batch, int64_t first, int64_t count, const ra_tensor *from)
{
    if (in_trouble() && ++trouble.writes == trouble.write_fails)
        return ra_transport_fail(RA_ERROR_FILE, "the disk is gone");
    return __real_ra_storage_write(s, batch, first, count, from);
}

/* A checkpoint, in small pieces. */
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
    enum { PIECE = 4096 };
    if (!in_trouble() || trouble.write_seconds <= 0 || bytes <= PIECE)
        return __real_write(fd, data, bytes);
    trouble.saves++;
    sleep_for(trouble.write_seconds);
    return __real_write(fd, data, PIECE);
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

typedef struct job {
    const ra_ring_plan *plan;
    const sample *s;
    ra_comm *comm;
    int rank;
    bool saved;
    ra_status status;
    char message[512];
} job;

static int never(void *user)
{
    (void)user;
    return 0;
}

static void *run_rank(void *argument)
{
    job *j = argument;
    ra_storage *storages[SAMPLE_TENSORS] = {NULL};
    ra_checkpoint *checkpoint = NULL;
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    options.path = PATH;
    options.every = 0;
    options.stop = never;
    options.rank = j->rank;
    rank_here = j->rank;
    j->status = j->saved ? ra_checkpoint_open(&options, j->plan, &checkpoint) : RA_OK;
    for (int i = 0; i < SAMPLE_TENSORS && !j->status; i++)
        j->status = ra_storage_memory(&j->s->tensors[i], &storages[i]);
    if (!j->status)
        j->status = ra_ring_run_saved(j->plan, j->comm, storages[0], storages[1], storages[2], storages[3], storages[4],
                                      checkpoint, NULL);
    snprintf(j->message, sizeof j->message, "%s", j->status ? ra_last_message() : "");
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        ra_storage_free(storages[i]);
    if (!j->status && checkpoint && j->rank == 0)
        ra_checkpoint_remove(checkpoint);
    ra_checkpoint_free(checkpoint);
    return NULL;
}

static void run(ra_ring_plan *plan, const sample *s, bool saved, ra_comm *comms[RANKS], job jobs[RANKS])
{
    pthread_t threads[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        jobs[rank] = (job){.plan = plan, .s = s, .comm = comms[rank], .rank = rank, .saved = saved};
        assert_int_equal(pthread_create(&threads[rank], NULL, run_rank, &jobs[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; rank++)
        pthread_join(threads[rank], NULL);
}

static ra_problem problem_of(int64_t batch, int64_t q_len, int64_t kv_len, int64_t dim)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = batch, problem.q_len = q_len, problem.kv_len = kv_len;
    problem.heads = 2, problem.kv_heads = 2, problem.head_dim = dim, problem.value_dim = dim;
    return problem;
}

static ra_ring_plan *make_plan(const ra_problem *problem, double timeout)
{
    ra_options run_options = RA_OPTIONS_INIT;
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan;
    run_options.threads = 1;
    options.ranks = RANKS;
    options.transport = RA_TRANSPORT_MPI; /* chunks are copied as processes would */
    options.timeout = timeout;
    options.lent = 0;
    REQUIRE(!ra_ring_plan_create(problem, &run_options, &options, &plan), "%s", ra_last_message());
    return plan;
}

static void free_comms(ra_comm *comms[RANKS])
{
    for (int rank = 0; rank < RANKS; rank++)
        ra_comm_free(comms[rank]);
}

/* One run from beginning to end. */
static void run_once(const ra_problem *problem, double timeout, bool saved, job jobs[RANKS])
{
    sample s;
    ra_comm *comms[RANKS];
    sample_make(&s, problem);
    ra_ring_plan *plan = make_plan(problem, timeout);
    assert_int_equal(ra_comm_threads(RANKS, comms), RA_OK);
    run(plan, &s, saved, comms, jobs);
    free_comms(comms);
    ra_ring_plan_free(plan);
    sample_free(&s);
    for (int rank = 0; rank < RANKS; rank++)
        jobs[rank].plan = NULL, jobs[rank].s = NULL, jobs[rank].comm = NULL;
}

static void require_success(const job jobs[RANKS], const char *what)
{
    for (int rank = 0; rank < RANKS; rank++)
        REQUIRE(jobs[rank].status == RA_OK, "%s: rank %d: %s", what, rank, jobs[rank].message);
    REQUIRE(trouble.slept > 2 * SHORT_TIMEOUT, "%s: took %.1f s only", what, trouble.slept);
}

/* ---- Slowness is no silence -------------------------------------------------------------------------------------- */

static void reading_for_longer_than_the_timeout(void **state)
{
    (void)state;
    job jobs[RANKS];
    ra_problem problem = problem_of(12, 300, 300, 8); /* each batch is a read */
    memset(&trouble, 0, sizeof trouble);
    trouble.read_seconds = 0.1;
    run_once(&problem, SHORT_TIMEOUT, false, jobs);
    require_success(jobs, "slow reads");
}

static void saving_for_longer_than_the_timeout(void **state)
{
    (void)state;
    job jobs[RANKS];
    ra_problem problem = problem_of(1, 900, 300, 8);
    memset(&trouble, 0, sizeof trouble);
    trouble.write_seconds = 0.1;
    run_once(&problem, SHORT_TIMEOUT, true, jobs);
    require_success(jobs, "slow saves");
    assert_true(trouble.saves > 10);
}

/* ---- A storage that fails ---------------------------------------------------------------------------------------- */

/* The others hear of it: they have not waited until the timeout, which would be another status. */
static void require_told(const job jobs[RANKS], const char *what)
{
    for (int rank = 0; rank < RANKS; rank++) {
        REQUIRE(jobs[rank].status == (rank == ODD ? RA_ERROR_FILE : RA_ERROR_PEER), "%s: rank %d has %s: %s", what,
                rank, ra_status_name(jobs[rank].status), jobs[rank].message);
        REQUIRE(strstr(jobs[rank].message, "the disk is gone"), "%s: rank %d: %s", what, rank, jobs[rank].message);
    }
}

static void a_storage_that_fails_ends_all_ranks(void **state)
{
    (void)state;
    job jobs[RANKS];
    ra_problem problem = problem_of(2, 300, 300, 8);
    for (int at = 1; at <= 3; at++) {
        memset(&trouble, 0, sizeof trouble);
        trouble.read_fails = at;
        run_once(&problem, LONG_TIMEOUT, false, jobs);
        require_told(jobs, "a read fails");
    }
    memset(&trouble, 0, sizeof trouble);
    trouble.write_fails = 1;
    run_once(&problem, LONG_TIMEOUT, false, jobs);
    require_told(jobs, "a write fails");
}

/* ---- Memory that travels ----------------------------------------------------------------------------------------- */

enum { MOST_BLOCKS = 4096 };

typedef struct block {
    char *at;
    int64_t bytes;
    int rank;
    bool freed;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block blocks[MOST_BLOCKS];   /* that were taken for runs */
static block segments[MOST_BLOCKS]; /* where messages are received to */
static int block_count, segment_count;
static const void *exchanges[RANKS]; /* by rank: memory of the exchange at the end of the run; NULL: none was begun */
static ra_transport inner;           /* the transport that is changed: all ranks have the same functions */

ra_status __real_ra_memory_renew(ra_accountant *accountant, int64_t bytes, const char *what, void **at, int64_t had);
ra_status __wrap_ra_memory_renew(ra_accountant *accountant, int64_t bytes, const char *what, void **at, int64_t had);
void __real_ra_memory_give(ra_accountant *accountant, void *at, int64_t bytes);
void __wrap_ra_memory_give(ra_accountant *accountant, void *at, int64_t bytes);

ra_status __wrap_ra_memory_renew(ra_accountant *accountant, int64_t bytes, const char *what, void **at, int64_t had)
{
    ra_status status = __real_ra_memory_renew(accountant, bytes, what, at, had);
    pthread_mutex_lock(&lock);
    if (!status && block_count < MOST_BLOCKS)
        blocks[block_count++] = (block){*at, bytes, rank_here, false};
    pthread_mutex_unlock(&lock);
    return status;
}

void __wrap_ra_memory_give(ra_accountant *accountant, void *at, int64_t bytes)
{
    pthread_mutex_lock(&lock);
    for (int i = block_count - 1; i >= 0 && at; i--)
        if (blocks[i].at == at && !blocks[i].freed) {
            blocks[i].freed = true;
            break;
        }
    pthread_mutex_unlock(&lock);
    __real_ra_memory_give(accountant, at, bytes);
}

/*
 * Small messages have memory of their own. It begins with their segments, one for each rank they come from. The
 * exchange at the end of the run never succeeds here.
 */
static ra_status note_receive(void *state, int from, int tag, const ra_segment *list, int64_t count)
{
    enum { END = 1, PHASES = 2 };
    pthread_mutex_lock(&lock);
    if (tag == END)
        exchanges[rank_here] = list - from;
    for (int64_t i = 0; i < count && tag >= PHASES && segment_count < MOST_BLOCKS; i++)
        segments[segment_count++] = (block){list[i].at, list[i].bytes, rank_here, false};
    pthread_mutex_unlock(&lock);
    return inner.receive(state, from, tag, list, count);
}

static int give_up_nothing(void *state)
{
    inner.abandon(state);
    return 0;
}

static int give_up_all(void *state)
{
    return inner.abandon(state);
}

/* How many blocks that a rank received to are freed, and how many are not. */
static void count_travelling(int counts[2])
{
    counts[0] = counts[1] = 0;
    for (int i = 0; i < block_count; i++) {
        bool travels = false;
        for (int j = 0; j < segment_count; j++)
            travels = travels || (segments[j].rank == blocks[i].rank && segments[j].at >= blocks[i].at &&
                                  segments[j].at < blocks[i].at + blocks[i].bytes);
        counts[blocks[i].freed] += travels;
    }
}

/* What was left alone on purpose, because of a transport that gives nothing up. */
static void free_exchanges(void)
{
    for (int rank = 0; rank < RANKS; rank++)
        free((void *)exchanges[rank]);
}

/* The same for the memory of runs. */
static void free_left(void)
{
    ra_accountant nobody = {0};
    for (int i = 0; i < block_count; i++)
        if (!blocks[i].freed)
            __real_ra_memory_give(&nobody, blocks[i].at, blocks[i].bytes);
}

static void fail_with(int (*abandon)(void *state), int counts[2])
{
    sample s;
    ra_comm *comms[RANKS];
    job jobs[RANKS];
    ra_problem problem = problem_of(1, 900, 900, 8);
    sample_make(&s, &problem);
    ra_ring_plan *plan = make_plan(&problem, LONG_TIMEOUT);
    assert_int_equal(ra_comm_threads(RANKS, comms), RA_OK);
    inner = comms[0]->transport;
    for (int rank = 0; rank < RANKS; rank++) {
        comms[rank]->transport.receive = note_receive;
        comms[rank]->transport.abandon = abandon;
    }
    memset(&trouble, 0, sizeof trouble);
    trouble.write_fails = 1; /* when all keys have travelled */
    block_count = segment_count = 0;
    memset(exchanges, 0, sizeof exchanges);
    run(plan, &s, false, comms, jobs);
    require_told(jobs, "memory that travels");
    count_travelling(counts);
    free_left();
    free_comms(comms);
    if (abandon == give_up_nothing)
        free_exchanges();
    ra_ring_plan_free(plan);
    sample_free(&s);
}

static void what_may_still_be_touched_is_not_freed(void **state)
{
    (void)state;
    int counts[2];
    fail_with(give_up_nothing, counts);
    REQUIRE(counts[false] >= RANKS && counts[true] == 0, "%d blocks were left alone, %d freed", counts[false],
            counts[true]);
    fail_with(give_up_all, counts);
    REQUIRE(counts[true] >= RANKS && counts[false] == 0, "%d blocks were left alone, %d freed", counts[false],
            counts[true]);
}

/* ---- Memory that is kept for the next run ------------------------------------------------------------------------ */

static int64_t spare_bytes(ra_comm *comms[RANKS])
{
    int64_t bytes = 0;
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < RA_SPARE_BLOCKS; i++)
            bytes += comms[rank]->spare.block[i] ? comms[rank]->spare.bytes[i] : 0;
    return bytes;
}

static void run_on(ra_comm *comms[RANKS], const ra_problem *problem)
{
    sample s;
    job jobs[RANKS];
    sample_make(&s, problem);
    ra_ring_plan *plan = make_plan(problem, LONG_TIMEOUT);
    run(plan, &s, false, comms, jobs);
    for (int rank = 0; rank < RANKS; rank++)
        REQUIRE(jobs[rank].status == RA_OK, "rank %d: %s", rank, jobs[rank].message);
    ra_ring_plan_free(plan);
    sample_free(&s);
}

/* Ranks of the small run that have no queries want none of the blocks for them. */
static void a_smaller_run_gives_memory_back(void **state)
{
    (void)state;
    ra_comm *comms[RANKS];
    ra_problem large = problem_of(1, 24000, 24000, 64), small = problem_of(1, 1, 500, 64);
    large.pattern = "window:64,64";
    memset(&trouble, 0, sizeof trouble);
    assert_int_equal(ra_comm_threads(RANKS, comms), RA_OK);
    run_on(comms, &large);
    int64_t kept = spare_bytes(comms), before = resident();
    run_on(comms, &small);
    int64_t left = spare_bytes(comms), after = resident();
    REQUIRE(kept > 20 << 20, "the large run has left %lld bytes only", (long long)kept);
    REQUIRE(left < kept / 4, "of %lld bytes %lld are kept", (long long)kept, (long long)left);
    REQUIRE(before - after > (kept - left) / 2, "%lld bytes were kept, but only %lld are given back", (long long)kept,
            (long long)(before - after));
    free_comms(comms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_for_longer_than_the_timeout), IN_FOLDER(saving_for_longer_than_the_timeout),
        cmocka_unit_test(a_storage_that_fails_ends_all_ranks), cmocka_unit_test(what_may_still_be_touched_is_not_freed),
        cmocka_unit_test(a_smaller_run_gives_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
