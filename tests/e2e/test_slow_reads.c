/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of virtual ranks that are asked to stop while storage is read. A read that nothing else waits for holds up
 * neither the stop nor the save, and the run goes on later to the same bits. Reads are wrapped by the linker
 * (tests/e2e/CMakeLists.txt).
 */
#include "ringattn/ringattn.h"
#include "support/folder.h"
#include "support/sample.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { RANKS = 3, BATCHES = 40, NEVER = 1 << 30 };

/* ---- Reads that are slow ----------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_t own_thread; /* that runs the ranks */

static struct {
    int from;          /* reads from this one on are slow */
    bool ahead;        /* only those in the background are, */
    bool stuck;        /* and they do not end before the run is being saved */
    int reads, behind; /* in all, and in the background */
    bool slow;         /* there was a slow read: the run is to stop */
    bool saving;
} trouble;

ra_status __real_ra_storage_read(ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                                 const ra_tensor *into);
ra_status __wrap_ra_storage_read(ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                                 const ra_tensor *into);

ra_status __wrap_ra_storage_read(ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                                 const ra_tensor *into)
{
    bool behind = !pthread_equal(pthread_self(), own_thread);
    pthread_mutex_lock(&lock);
    trouble.behind += behind;
    bool slow = trouble.reads++ >= trouble.from && behind == trouble.ahead;
    trouble.slow = trouble.slow || slow;
    while (slow && trouble.stuck && !trouble.saving)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (slow && !trouble.stuck)
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    return __real_ra_storage_read(s, batch, first, count, head, into);
}

static int stop_when_slow(void *user)
{
    (void)user;
    pthread_mutex_lock(&lock);
    bool stop = trouble.slow;
    pthread_mutex_unlock(&lock);
    return stop;
}

static void note_save(void *user, int begins)
{
    (void)user;
    pthread_mutex_lock(&lock);
    trouble.saving = trouble.saving || (begins && trouble.slow);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

typedef struct scene {
    sample tensors;
    ra_ring_plan *plan;
    char *expected;
    int reads, behind; /* of a run that is not disturbed */
} scene;

static ra_status run(const scene *s, bool saved, bool *went_on)
{
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    ra_checkpoint *checkpoint = NULL;
    ra_storage *storages[SAMPLE_TENSORS];
    ra_comm *comm;
    options.path = "a.state", options.every = 1000, options.stop = stop_when_slow;
    options.saving = note_save;
    own_thread = pthread_self();
    if (saved)
        REQUIRE(!ra_checkpoint_open(&options, s->plan, &checkpoint), "%s", ra_last_message());
    *went_on = saved && ra_checkpoint_found(checkpoint);
    sample_wipe(&s->tensors);
    assert_int_equal(ra_comm_sim(RANKS, &comm), RA_OK);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        assert_int_equal(ra_storage_memory(&s->tensors.tensors[i], &storages[i]), RA_OK);
    ra_status status = ra_ring_run_saved(s->plan, comm, storages[0], storages[1], storages[2], storages[3], storages[4],
                                         checkpoint, NULL);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        ra_storage_free(storages[i]);
    ra_comm_free(comm);
    if (!status && checkpoint)
        ra_checkpoint_remove(checkpoint);
    ra_checkpoint_free(checkpoint);
    return status;
}

static void no_trouble(void)
{
    trouble.from = NEVER;
    trouble.reads = trouble.behind = 0;
    trouble.ahead = trouble.stuck = trouble.slow = trouble.saving = false;
}

static void scene_make(scene *s)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    bool went_on;
    problem.batch = BATCHES, problem.q_len = 192, problem.kv_len = 192, problem.heads = 1, problem.head_dim = 2;
    sample_make(&s->tensors, &problem);
    ring.ranks = RANKS, ring.lent = 0;
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &ring, &s->plan), RA_OK);
    no_trouble();
    assert_int_equal(run(s, false, &went_on), RA_OK);
    s->expected = sample_keep(&s->tensors);
    s->reads = trouble.reads, s->behind = trouble.behind;
    assert_true(s->behind > 0 && s->behind < s->reads);
}

static void scene_free(scene *s)
{
    free(s->expected);
    ra_ring_plan_free(s->plan);
    sample_free(&s->tensors);
}

static void goes_on(const scene *s)
{
    bool went_on;
    no_trouble();
    REQUIRE(!run(s, true, &went_on), "%s", ra_last_message());
    assert_true(went_on && sample_same(&s->tensors, s->expected));
    assert_int_equal(folder_entries(), 0);
}

/* The first rows of a rank, read by the thread that runs the ranks: the first rank's, and those of a later one. */
static void a_stop_ends_a_read(void **state)
{
    (void)state;
    scene s;
    scene_make(&s);
    for (int rank = 0; rank < 2; rank++) {
        bool went_on;
        no_trouble();
        trouble.from = rank * s.reads / RANKS + 1;
        assert_int_equal(run(&s, true, &went_on), RA_ERROR_CANCELLED);
        /* The first rank has all of its reads behind it, or none; of this one's queries alone there are BATCHES. */
        REQUIRE(trouble.reads < rank * s.reads / RANKS + BATCHES, "rank %d: %d reads", rank, trouble.reads);
        goes_on(&s);
    }
    scene_free(&s);
}

/* Rows of the next step, which nothing but the stop can end the read of. */
static void a_stop_does_not_wait_for_what_is_read_ahead(void **state)
{
    (void)state;
    scene s;
    scene_make(&s);
    for (int rank = 0; rank < RANKS; rank++) {
        bool went_on;
        no_trouble();
        trouble.ahead = trouble.stuck = true;
        trouble.from = rank * s.reads / RANKS;
        assert_int_equal(run(&s, true, &went_on), RA_ERROR_CANCELLED);
        /* It ends with the part that was read: each batch is one of keys and one of values. */
        REQUIRE(trouble.behind <= rank * s.behind / RANKS + 1, "rank %d: %d reads in the background", rank,
                trouble.behind);
        goes_on(&s);
    }
    scene_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_stop_ends_a_read),
        IN_FOLDER(a_stop_does_not_wait_for_what_is_read_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
