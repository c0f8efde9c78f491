/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails. The linker hands the library's writes, syncs and renames to this test, which keeps a list of them
 * and makes some fail: what is renamed was on the disk before, and what could not be saved is said and saved later.
 */
#include "ringattn/ringattn.h"
#include "support/folder.h"
#include "support/sample.h"
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- The disk ---------------------------------------------------------------------------------------------------- */

int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_rename(const char *from, const char *to);
ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __real_pwrite(int fd, const void *bytes, size_t count, off_t at);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_rename(const char *from, const char *to);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t at);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char events[1 << 16]; /* "sync FILE; rename FILE; ..." */

/* What fails: this call on this file, after so many that do not, so many times. */
static struct {
    const char *call, *file;
    int skipped, times, error;
} trouble;

static bool is(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_ino == named.st_ino;
}

static const char *name_of(int fd)
{
    static const char *const FILES[] = {"a.npy.partial", "a.state.new", "a.state.rows", "a.state.0.new",
                                        "a.state.1.new"};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        if (is(fd, FILES[i]))
            return FILES[i];
    return "?";
}

static void wait_for(const char *event)
{
    const struct timespec moment = {0, 1000000};
    for (bool found = false; !found; nanosleep(&moment, NULL)) {
        pthread_mutex_lock(&lock);
        found = strstr(events, event);
        pthread_mutex_unlock(&lock);
    }
}

/* Notes a call; true: it is to fail. */
static bool happens(const char *call, const char *file)
{
    pthread_mutex_lock(&lock);
    size_t used = strlen(events);
    if (strcmp(call, "write") != 0)
        snprintf(events + used, sizeof events - used, "%s %s; ", call, file);
    bool meant = trouble.times > 0 && strcmp(trouble.call, call) == 0 && strcmp(trouble.file, file) == 0;
    bool fails = meant && trouble.skipped-- <= 0;
    trouble.times -= fails;
    pthread_mutex_unlock(&lock);
    if (fails)
        errno = trouble.error;
    return fails;
}

int __wrap_fsync(int fd)
{
    return happens("sync", name_of(fd)) ? -1 : __real_fsync(fd);
}

/* The first rows that cannot be brought to the disk are lost, as some systems lose them. */
int __wrap_fdatasync(int fd)
{
    const char *file = name_of(fd);
    bool first = !strstr(events, "sync a.state.rows; "), fails = happens("sync", file);
    if (!fails)
        return __real_fdatasync(fd);
    if (first && strcmp(file, "a.state.rows") == 0)
        assert_int_equal(ftruncate(fd, 0), 0);
    errno = trouble.error;
    return -1;
}

int __wrap_rename(const char *from, const char *to)
{
    return happens("rename", from) ? -1 : __real_rename(from, to);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    return happens("write", name_of(fd)) ? -1 : __real_write(fd, bytes, count);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    return happens("write", name_of(fd)) ? -1 : __real_pwrite(fd, bytes, count, at);
}

static void fail_at(const char *call, const char *file, int skipped, int times, int error)
{
    events[0] = 0;
    trouble.call = call, trouble.file = file;
    trouble.skipped = skipped, trouble.times = times, trouble.error = error;
}

static void all_is_well(void)
{
    fail_at("", "", 0, 0, 0);
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

static ra_status make_array(void)
{
    const int64_t shape[] = {3};
    const float values[] = {1, 2, 3};
    ra_array *array = NULL;
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &array), RA_OK);
    assert_int_equal(ra_array_write(array, 0, 3, values), RA_OK);
    ra_status status = ra_array_commit(array);
    ra_array_close(array);
    return status;
}

static void arrays_are_on_the_disk_before_their_name(void **state)
{
    (void)state;
    all_is_well();
    assert_int_equal(make_array(), RA_OK);
    assert_non_null(strstr(events, "sync a.npy.partial; rename a.npy.partial; "));
    assert_int_equal(folder_entries(), 1);
    unlink("a.npy");
    fail_at("sync", "a.npy.partial", 0, 1, EIO);
    assert_int_equal(make_array(), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), "a.npy: cannot write: Input/output error"));
    assert_int_equal(folder_entries(), 0);
}

/* ---- Virtual ranks ----------------------------------------------------------------------------------------------- */

enum { RANKS = 3, NEVER = 1 << 30 };

typedef struct scene {
    sample tensors;
    ra_ring_plan *plan;
    char *expected;
    bool nowhere; /* the output is not kept */
    int chances;  /* to stop, before the run does */
    int told;     /* that a save has failed */
    char message[256];
} scene;

static int stop_after(void *user)
{
    return ((scene *)user)->chances-- <= 0;
}

static void told(void *user, const char *message)
{
    scene *s = user;
    s->told++;
    snprintf(s->message, sizeof s->message, "%s", message);
}

static ra_status run(scene *s, bool saved, int chances, bool *went_on)
{
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    ra_checkpoint *checkpoint = NULL;
    ra_storage *storages[SAMPLE_TENSORS];
    ra_comm *comm;
    ra_rank_stats stats[RANKS] = {RA_RANK_STATS_INIT};
    options.path = "a.state", options.every = 0;
    options.stop = stop_after, options.stop_user = s;
    options.failed = told, options.failed_user = s;
    s->chances = chances;
    s->told = 0;
    if (saved)
        REQUIRE(!ra_checkpoint_open(&options, s->plan, &checkpoint), "%s", ra_last_message());
    *went_on = saved && ra_checkpoint_found(checkpoint);
    sample_wipe(&s->tensors);
    assert_int_equal(ra_comm_sim(RANKS, &comm), RA_OK);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        if (s->nowhere && i == SAMPLE_OUTPUT)
            assert_int_equal(ra_storage_null(&s->tensors.tensors[i], NULL, 0, NULL, &storages[i]), RA_OK);
        else
            assert_int_equal(ra_storage_memory(&s->tensors.tensors[i], &storages[i]), RA_OK);
    ra_status status = ra_ring_run_saved(s->plan, comm, storages[0], storages[1], storages[2], storages[3], storages[4],
                                         checkpoint, stats);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        ra_storage_free(storages[i]);
    ra_comm_free(comm);
    if (!status && checkpoint)
        ra_checkpoint_remove(checkpoint);
    ra_checkpoint_free(checkpoint);
    return status;
}

static void scene_make(scene *s, ra_transport_kind transport)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    bool went_on;
    memset(s, 0, sizeof *s);
    problem.q_len = 300, problem.kv_len = 300, problem.heads = 1, problem.head_dim = 2;
    sample_make(&s->tensors, &problem);
    ring.ranks = RANKS, ring.lent = 0, ring.transport = transport;
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &ring, &s->plan), RA_OK);
    all_is_well();
    if (transport != RA_TRANSPORT_SIM)
        return;
    assert_int_equal(run(s, false, NEVER, &went_on), RA_OK);
    s->expected = sample_keep(&s->tensors);
}

static void scene_free(scene *s)
{
    free(s->expected);
    ra_ring_plan_free(s->plan);
    sample_free(&s->tensors);
}

/* The run goes on from what was saved, to the bits of one that was not disturbed. */
static void goes_on(scene *s)
{
    bool went_on;
    all_is_well();
    REQUIRE(!run(s, true, NEVER, &went_on), "%s", ra_last_message());
    assert_true(went_on && sample_same(&s->tensors, s->expected));
    assert_int_equal(s->told, 0);
    assert_int_equal(folder_entries(), 0);
}

static void checkpoints_are_on_the_disk_before_their_name(void **state)
{
    (void)state;
    scene s;
    bool went_on;
    scene_make(&s, RA_TRANSPORT_SIM);
    assert_int_equal(run(&s, true, 13, &went_on), RA_ERROR_CANCELLED); /* in the third rank */
    /* The rows of a rank that is finished, then the state that says so, then its name. */
    char *rows = strstr(events, "sync a.state.rows; sync a.state.new; rename a.state.new; ");
    assert_non_null(rows);
    assert_non_null(strstr(rows + 1, "sync a.state.rows; sync a.state.new; rename a.state.new; "));
    for (char *at = events; (at = strstr(at, "rename a.state.new; ")); at++)
        assert_int_equal(strncmp(at - strlen("sync a.state.new; "), "sync", 4), 0);
    goes_on(&s);
    scene_free(&s);
}

/* Whatever fails while a run that is to stop is saved: it says so, and the checkpoint before is still there. */
static void a_stop_that_cannot_be_saved_fails(void **state)
{
    (void)state;
    static const struct {
        const char *call, *file;
        int error;
        const char *words;
    } CASES[] = {{"sync", "a.state.new", EIO, "a.state: cannot write: Input/output error"},
                 {"write", "a.state.new", ENOSPC, "a.state: cannot write: No space left on device"},
                 {"rename", "a.state.new", EIO, "a.state: cannot replace: Input/output error"},
                 {"sync", "a.state.rows", EIO, "a.state.rows: cannot write: Input/output error"},
                 {"write", "a.state.rows", ENOSPC, "a.state.rows: cannot write: No space left on device"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        scene s;
        bool went_on;
        scene_make(&s, RA_TRANSPORT_SIM);
        assert_int_equal(run(&s, true, 1, &went_on), RA_ERROR_CANCELLED); /* in the first rank */
        fail_at(CASES[i].call, CASES[i].file, 0, NEVER, CASES[i].error);
        ra_status status = run(&s, true, 6, &went_on); /* after it */
        REQUIRE(status == RA_ERROR_FILE && strstr(ra_last_message(), CASES[i].words), "%zu: %s: %s", i,
                ra_status_name(status), ra_last_message());
        assert_true(went_on);
        goes_on(&s);
        scene_free(&s);
    }
}

/* The same in mid-run: said each time, tried again, and the run ends as if nothing had been. */
static void a_run_that_is_not_saved_goes_on(void **state)
{
    (void)state;
    static const char *const CALLS[] = {"sync", "write", "rename", "sync", "write"};
    static const char *const FILES[] = {"a.state.new", "a.state.new", "a.state.new", "a.state.rows", "a.state.rows"};
    for (int i = 0; i < 5; i++) {
        scene s;
        bool went_on;
        scene_make(&s, RA_TRANSPORT_SIM);
        fail_at(CALLS[i], FILES[i], 0, NEVER, ENOSPC);
        REQUIRE(!run(&s, true, NEVER, &went_on), "%d: %s", i, ra_last_message());
        REQUIRE(s.told > 1 && strstr(s.message, "No space left on device"), "%d: told %d times: %s", i, s.told,
                s.message);
        assert_true(sample_same(&s.tensors, s.expected));
        assert_int_equal(folder_entries(), 0);
        scene_free(&s);
    }
}

/* After some failures there is room again: what is saved then has everything in it. */
static void what_was_not_saved_is_saved_later(void **state)
{
    (void)state;
    static const char *const CALLS[] = {"sync", "write", "sync", "write"};
    static const char *const FILES[] = {"a.state.new", "a.state.new", "a.state.rows", "a.state.rows"};
    for (int i = 0; i < 4; i++)
        for (int skipped = 0; skipped < 2; skipped++)
            for (int times = 1; times < 3; times++) {
                scene s;
                bool went_on;
                scene_make(&s, RA_TRANSPORT_SIM);
                fail_at(CALLS[i], FILES[i], skipped, times, ENOSPC);
                ra_status status = run(&s, true, 14, &went_on); /* in the last rank */
                REQUIRE(status == RA_ERROR_CANCELLED, "%d, %d, %d: %s", i, skipped, times, ra_last_message());
                REQUIRE(s.told > 0 || strcmp(CALLS[i], "write") == 0, "%d, %d, %d: not told", i, skipped, times);
                assert_int_equal(trouble.times, 0);
                goes_on(&s);
                scene_free(&s);
            }
}

/* Rows that are kept nowhere cannot be written later: that is said, and what was saved before stays. */
static void lost_rows_are_said(void **state)
{
    (void)state;
    scene s;
    bool went_on;
    scene_make(&s, RA_TRANSPORT_SIM);
    s.nowhere = true;
    fail_at("write", "a.state.rows", 0, 1, ENOSPC);
    assert_int_equal(run(&s, true, NEVER, &went_on), RA_OK);
    assert_true(s.told > 0);
    REQUIRE(strstr(s.message, "a.state.rows: rows of rank 0 could not be written"), "%s", s.message);
    scene_free(&s);
}

/* ---- Processes --------------------------------------------------------------------------------------------------- */

typedef struct rank_run {
    const scene *s;
    ra_comm *comm;
    int rank;
    bool saved, stops; /* stops: when the set is complete */
    bool went_on;
    int told;
    char message[256];
    ra_status status;
} rank_run;

static void told_rank(void *user, const char *message)
{
    rank_run *r = user;
    r->told++;
    snprintf(r->message, sizeof r->message, "%s", message);
}

/* Rank 0, which completes the set, does not come to its end before rank 1 has saved. */
static int stop_when_complete(void *user)
{
    const rank_run *r = user;
    if (!r->stops)
        return 0;
    if (r->rank == 0)
        wait_for("rename a.state.1.new; ");
    return access("a.state", F_OK) == 0;
}

static void *run_rank(void *argument)
{
    rank_run *r = argument;
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    ra_checkpoint *checkpoint = NULL;
    ra_storage *storages[SAMPLE_TENSORS] = {NULL};
    options.path = "a.state", options.rank = r->rank, options.every = 0;
    options.stop = stop_when_complete, options.stop_user = r;
    options.failed = told_rank, options.failed_user = r;
    r->status = r->saved ? ra_checkpoint_open(&options, r->s->plan, &checkpoint) : RA_OK;
    r->went_on = checkpoint && ra_checkpoint_found(checkpoint);
    for (int i = 0; i < SAMPLE_TENSORS && !r->status; i++)
        r->status = ra_storage_memory(&r->s->tensors.tensors[i], &storages[i]);
    r->status = ra_comm_agree(r->comm, r->status, 0);
    if (!r->status)
        r->status = ra_ring_run_saved(r->s->plan, r->comm, storages[0], storages[1], storages[2], storages[3],
                                      storages[4], checkpoint, NULL);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        ra_storage_free(storages[i]);
    ra_checkpoint_free(checkpoint);
    ra_comm_free(r->comm);
    return NULL;
}

/* All ranks as threads with messages between them; each must end with `status`. */
static void run_ranks(const scene *s, bool saved, bool stops, ra_status status, rank_run runs[RANKS])
{
    ra_comm *comms[RANKS];
    pthread_t threads[RANKS];
    sample_wipe(&s->tensors);
    assert_int_equal(ra_comm_threads(RANKS, comms), RA_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        runs[rank] = (rank_run){.s = s, .comm = comms[rank], .rank = rank, .saved = saved, .stops = stops};
        assert_int_equal(pthread_create(&threads[rank], NULL, run_rank, &runs[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        pthread_join(threads[rank], NULL);
        REQUIRE(runs[rank].status == status, "rank %d: %s", rank, ra_status_name(runs[rank].status));
    }
}

static void remove_set(void)
{
    static const char *const FILES[] = {"a.state", "a.state.0", "a.state.1", "a.state.2"};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        unlink(FILES[i]);
}

/* A rank that cannot save, even for the first time, says so and goes on. Without its file there is no set. */
static void a_set_begins_when_all_have_saved(void **state)
{
    (void)state;
    scene s;
    rank_run runs[RANKS];
    scene_make(&s, RA_TRANSPORT_MPI);
    run_ranks(&s, false, false, RA_OK, runs);
    s.expected = sample_keep(&s.tensors);
    fail_at("sync", "a.state.1.new", 0, NEVER, ENOSPC);
    run_ranks(&s, true, false, RA_OK, runs);
    assert_true(sample_same(&s.tensors, s.expected));
    assert_true(runs[1].told > 1 && strstr(runs[1].message, "a.state.1: cannot write: No space left on device"));
    assert_true(runs[0].told > 0 && strstr(runs[0].message, "a.state: rank 1 has not saved anything yet"));
    assert_int_not_equal(access("a.state", F_OK), 0);
    assert_null(strstr(events, "rename a.state.new; "));
    remove_set();
    scene_free(&s);
}

/* The first save of a rank fails, or the file that ties them together cannot be written: there is a set later. */
static void a_set_is_completed_later(void **state)
{
    (void)state;
    static const char *const FILES[] = {"a.state.1.new", "a.state.new"};
    for (int i = 0; i < 2; i++) {
        scene s;
        rank_run runs[RANKS];
        scene_make(&s, RA_TRANSPORT_MPI);
        run_ranks(&s, false, false, RA_OK, runs);
        s.expected = sample_keep(&s.tensors);
        fail_at("sync", FILES[i], 0, 1, ENOSPC);
        run_ranks(&s, true, true, RA_ERROR_CANCELLED, runs);
        assert_true(runs[i == 0].told > 0);
        all_is_well();
        run_ranks(&s, true, false, RA_OK, runs);
        for (int rank = 0; rank < RANKS; rank++)
            assert_true(runs[rank].went_on && runs[rank].told == 0);
        assert_true(sample_same(&s.tensors, s.expected));
        remove_set();
        scene_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(arrays_are_on_the_disk_before_their_name), IN_FOLDER(checkpoints_are_on_the_disk_before_their_name),
        IN_FOLDER(a_stop_that_cannot_be_saved_fails),        IN_FOLDER(a_run_that_is_not_saved_goes_on),
        IN_FOLDER(what_was_not_saved_is_saved_later),        IN_FOLDER(lost_rows_are_said),
        IN_FOLDER(a_set_begins_when_all_have_saved),         IN_FOLDER(a_set_is_completed_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
