/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that pass messages, as processes do, stopped and killed again and again: the same bits and counts at last. */
#include "ringattn/ringattn.h"
#include "support/folder.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANKS = 5, NEVER = 1 << 30 };

static const char PATH[] = "a.state";

typedef struct scene {
    sample tensors;
    ra_ring_plan *plan;
    ra_ring_options ring;
    atomic_int calls_left; /* of the progress callback, until all ranks die */
} scene;

/* How a run is disturbed. */
typedef struct trouble {
    int stopped, chances; /* this rank is asked to stop at its chances-th point */
    int calls;            /* so many calls of progress in all ranks, then none saves anything any more */
    double every;
} trouble;

static const trouble NO_TROUBLE = {-1, 0, NEVER, 1000};

typedef struct rank_run {
    const scene *s;
    ra_comm *comm;
    int rank, chances;
    double every;
    bool saved, went_on;
    ra_rank_stats stats[MOST_RANKS];
    ra_status status;
    char message[512];
} rank_run;

static int stop_after(void *user)
{
    return ((rank_run *)user)->chances-- <= 0;
}

static int die(void *user, double done, double total)
{
    (void)done, (void)total;
    return atomic_fetch_sub(&((scene *)user)->calls_left, 1) <= 0;
}

static void scene_plan(scene *s, const ra_problem *problem, int ranks, ra_strategy strategy, ra_order order)
{
    ra_options options = RA_OPTIONS_INIT;
    s->ring = (ra_ring_options)RA_RING_OPTIONS_INIT;
    s->ring.ranks = ranks;
    s->ring.strategy = strategy;
    s->ring.order = order;
    s->ring.transport = RA_TRANSPORT_MPI;
    s->ring.timeout = 30;
    s->ring.lent = 0;
    options.threads = 1;
    options.progress = die;
    options.progress_user = s;
    REQUIRE(!ra_ring_plan_create(problem, &options, &s->ring, &s->plan), "%s", ra_last_message());
    /* In a byte less, where that is possible: some rows then travel late. */
    ra_ring_plan *less;
    ra_ring_options tight = s->ring;
    tight.memory = ra_ring_plan_process_bytes(s->plan) - 1;
    if (ra_ring_plan_create(problem, &options, &tight, &less))
        return;
    ra_ring_plan_free(s->plan);
    s->plan = less;
}

static void scene_make(scene *s, choices *c, const char *pattern)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = choose(c, 1, 2);
    problem.q_len = choose(c, chance(c, 4) ? 1 : 200, 3000);
    problem.kv_len = choose(c, 200, 3000);
    problem.kv_heads = choose(c, 1, 2);
    problem.heads = problem.kv_heads * choose(c, 1, 2);
    problem.head_dim = choose(c, 1, 20);
    problem.value_dim = choose(c, 1, 20);
    problem.pattern = pattern;
    sample_make(&s->tensors, &problem);
    scene_plan(s, &s->tensors.problem, (int)choose(c, 1, MOST_RANKS), (ra_strategy)choose(c, 0, 2),
               (ra_order)choose(c, 0, 2));
}

static void scene_free(scene *s)
{
    ra_ring_plan_free(s->plan);
    sample_free(&s->tensors);
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

static void *run_rank(void *argument)
{
    rank_run *r = argument;
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    ra_checkpoint *checkpoint = NULL;
    ra_storage *storages[SAMPLE_TENSORS] = {NULL};
    options.path = PATH;
    options.every = r->every;
    options.stop = stop_after;
    options.stop_user = r;
    options.rank = r->rank;
    r->status = r->saved ? ra_checkpoint_open(&options, r->s->plan, &checkpoint) : RA_OK;
    r->went_on = checkpoint && ra_checkpoint_found(checkpoint);
    for (int i = 0; i < SAMPLE_TENSORS && !r->status; i++)
        r->status = ra_storage_memory(&r->s->tensors.tensors[i], &storages[i]);
    r->status = ra_comm_agree(r->comm, r->status, 0);
    r->stats->size = sizeof *r->stats;
    if (!r->status)
        r->status = ra_ring_run_saved(r->s->plan, r->comm, storages[0], storages[1], storages[2], storages[3],
                                      storages[4], checkpoint, r->stats);
    if (!r->status)
        r->status = ra_comm_agree(r->comm, RA_OK, 0);
    snprintf(r->message, sizeof r->message, "%s", r->status ? ra_last_message() : "");
    if (!r->status && checkpoint && r->rank == 0)
        ra_checkpoint_remove(checkpoint);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        ra_storage_free(storages[i]);
    ra_checkpoint_free(checkpoint);
    ra_comm_free(r->comm);
    return NULL;
}

/* All processes of a run: runs[rank] is what became of each. */
static void run(scene *s, bool saved, trouble t, rank_run runs[MOST_RANKS])
{
    ra_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    atomic_store(&s->calls_left, t.calls);
    memset(runs, 0, MOST_RANKS * sizeof *runs);
    sample_wipe(&s->tensors);
    assert_int_equal(ra_comm_threads(s->ring.ranks, comms), RA_OK);
    for (int rank = 0; rank < s->ring.ranks; rank++) {
        runs[rank] = (rank_run){.s = s, .comm = comms[rank], .rank = rank, .every = t.every, .saved = saved};
        runs[rank].chances = rank == t.stopped ? t.chances : NEVER;
        assert_int_equal(pthread_create(&threads[rank], NULL, run_rank, &runs[rank]), 0);
    }
    for (int rank = 0; rank < s->ring.ranks; rank++)
        pthread_join(threads[rank], NULL);
}

/* What a run without a checkpoint gives; the caller's to free. */
static char *undisturbed(scene *s, rank_run runs[MOST_RANKS])
{
    run(s, false, NO_TROUBLE, runs);
    assert_int_equal(runs[0].status, RA_OK);
    return sample_keep(&s->tensors);
}

static bool all_ended_well(const scene *s, const rank_run *runs)
{
    for (int rank = 0; rank < s->ring.ranks; rank++)
        if (runs[rank].status)
            return false;
    return true;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static trouble choose_trouble(choices *c, int ranks)
{
    trouble t = NO_TROUBLE;
    bool killed = chance(c, 2);
    t.every = killed || chance(c, 3) ? 0 : 1000;
    if (killed)
        t.calls = (int)choose(c, 1, 40);
    else
        t.stopped = (int)choose(c, 0, ranks - 1), t.chances = (int)choose(c, 0, 4);
    return t;
}

static void disturbed_runs_have_the_same_bits(void **state)
{
    static const char *const PATTERNS[] = {
        "full", "causal", "window:300,20", "window:20,1500", "dilated:64/1,256/2,1000/7", "blocks:50:density=0.3"};
    (void)state;
    seed_range range = seeds(40);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        scene s;
        rank_run whole[MOST_RANKS], parts[MOST_RANKS];
        scene_make(&s, &c, PATTERNS[seed % (sizeof PATTERNS / sizeof *PATTERNS)]);
        char *expected = undisturbed(&s, whole);
        int runs = 0;
        do {
            trouble t = choose_trouble(&c, s.ring.ranks);
            run(&s, true, t, parts);
            for (int rank = 0; rank < s.ring.ranks; rank++) {
                const rank_run *r = &parts[rank];
                REQUIRE(!r->status || r->status == RA_ERROR_CANCELLED, "seed %llu: run %d, rank %d: %s",
                        (unsigned long long)seed, runs, rank, r->message);
                REQUIRE(r->went_on == (runs > 0), "seed %llu: run %d", (unsigned long long)seed, runs);
            }
            REQUIRE(runs++ < 2000, "seed %llu: does not end", (unsigned long long)seed);
        } while (!all_ended_well(&s, parts));
        REQUIRE(sample_same(&s.tensors, expected), "seed %llu, \"%s\", %d ranks, %s, %s: other bits after %d runs",
                (unsigned long long)seed, s.tensors.pattern, s.ring.ranks, ra_strategy_name(s.ring.strategy),
                ra_order_name(s.ring.order), runs);
        for (int rank = 0; rank < s.ring.ranks; rank++) {
            const ra_rank_stats *a = &parts->stats[rank], *b = &whole->stats[rank];
            REQUIRE(a->hops == b->hops && a->bytes_received == b->bytes_received && a->bytes_sent == b->bytes_sent &&
                        a->pairs_visible == b->pairs_visible && a->pairs_worked == b->pairs_worked,
                    "seed %llu, rank %d: other statistics", (unsigned long long)seed, rank);
        }
        free(expected);
        scene_free(&s);
        assert_int_equal(folder_entries(), 0);
    }
}

/* A small run of three ranks; `chances` as in a trouble. */
static void stop_in_the_middle(scene *s, int chances)
{
    trouble t = {1, chances, NEVER, 1000};
    rank_run runs[MOST_RANKS];
    if (!s->plan) {
        ra_problem problem = RA_PROBLEM_INIT;
        problem.q_len = 130, problem.kv_len = 200, problem.heads = 1, problem.head_dim = 2;
        sample_make(&s->tensors, &problem);
        scene_plan(s, &s->tensors.problem, 3, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
    }
    run(s, true, t, runs);
    for (int rank = 0; rank < s->ring.ranks; rank++)
        REQUIRE(runs[rank].status == RA_ERROR_CANCELLED, "rank %d: %s", rank, runs[rank].message);
}

/* A rank finds out, and the others hear of it. */
static void refused(scene *s, int rank, ra_status status, const char *words)
{
    rank_run runs[MOST_RANKS];
    run(s, true, NO_TROUBLE, runs);
    REQUIRE(runs[rank].status == status && strstr(runs[rank].message, words), "rank %d: %s, not \"%s\"", rank,
            runs[rank].message, words);
    for (int other = 0; other < s->ring.ranks; other++)
        REQUIRE(runs[other].status, "rank %d goes on without rank %d", other, rank);
}

static void goes_on(scene *s)
{
    rank_run runs[MOST_RANKS], whole[MOST_RANKS];
    char *expected = undisturbed(s, whole);
    run(s, true, NO_TROUBLE, runs);
    REQUIRE(all_ended_well(s, runs) && runs[0].went_on, "%s", runs[0].message);
    assert_true(sample_same(&s->tensors, expected));
    assert_int_equal(folder_entries(), 0);
    free(expected);
}

static void damage_is_refused(void **state)
{
    (void)state;
    static const char *const FILES[] = {"a.state", "a.state.2"};
    scene s = {0};
    stop_in_the_middle(&s, 1);
    for (int i = 0; i < 2; i++) {
        size_t size;
        char *bytes = folder_read(FILES[i], &size);
        for (size_t at = 0; at < size; at += 1 + size / 300) {
            bytes[at] = (char)(bytes[at] ^ 0x40);
            folder_write(FILES[i], bytes, size);
            refused(&s, 2, RA_ERROR_FORMAT, "is damaged");
            bytes[at] = (char)(bytes[at] ^ 0x40);
        }
        folder_write(FILES[i], bytes, size / 2);
        refused(&s, 2, RA_ERROR_FORMAT, "is damaged");
        folder_write(FILES[i], bytes, size);
        free(bytes);
    }
    goes_on(&s);
    scene_free(&s);
}

static void a_set_is_whole_or_refused(void **state)
{
    (void)state;
    size_t size, other_size;
    scene s = {0};
    stop_in_the_middle(&s, 0);
    char *bytes = folder_read("a.state.1", &size), *other = folder_read("a.state.0", &other_size);
    unlink("a.state.1");
    refused(&s, 1, RA_ERROR_FORMAT, "a.state.1: is missing: a.state is the checkpoint of 3 ranks");
    folder_write("a.state.1", other, other_size);
    refused(&s, 1, RA_ERROR_ARGUMENT, "it has \"rank: 0\", this one \"rank: 1\": remove a.state to begin anew");
    /* Of this rank, but of another set. */
    unlink("a.state");
    stop_in_the_middle(&s, 0);
    folder_write("a.state.1", bytes, size);
    refused(&s, 1, RA_ERROR_ARGUMENT, "a.state.1: is the checkpoint of another run: it has \"set: ");
    /* Without what says that a set is complete there is none, and another is begun. */
    unlink("a.state");
    stop_in_the_middle(&s, 0);
    goes_on(&s);
    free(other);
    free(bytes);
    scene_free(&s);
}

/* What a rank has saved is as good as what it saved later. */
static void an_older_file_of_the_set_will_do(void **state)
{
    (void)state;
    size_t size;
    scene s = {0};
    stop_in_the_middle(&s, 0);
    char *older = folder_read("a.state.1", &size);
    stop_in_the_middle(&s, 0);
    folder_write("a.state.1", older, size);
    free(older);
    goes_on(&s);
    scene_free(&s);
}

static void another_run_is_refused_with_the_difference(void **state)
{
    (void)state;
    scene s = {0}, other = {0};
    stop_in_the_middle(&s, 0);
    other.tensors = s.tensors;
    scene_plan(&other, &s.tensors.problem, 2, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
    refused(&other, 0, RA_ERROR_ARGUMENT, "a.state: is the checkpoint of another run: it has \"ring size: 3\"");
    ra_ring_plan_free(other.plan);
    scene_plan(&other, &s.tensors.problem, 3, RA_STRATEGY_BROADCAST, RA_ORDER_CONTIGUOUS);
    refused(&other, 0, RA_ERROR_ARGUMENT, "it has \"strategy: ring\", this one \"strategy: broadcast\"");
    ra_ring_plan_free(other.plan);

    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    ra_checkpoint *checkpoint = NULL;
    ra_ring_options ring = s.ring;
    options.path = PATH;
    ring.transport = RA_TRANSPORT_SIM;
    assert_int_equal(ra_ring_plan_create(&s.tensors.problem, NULL, &ring, &other.plan), RA_OK);
    assert_int_equal(ra_checkpoint_open(&options, other.plan, &checkpoint), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "it has \"transport: mpi\", this one \"transport: sim\""));
    ra_ring_plan_free(other.plan);
    ring.transport = RA_TRANSPORT_THREADS;
    assert_int_equal(ra_ring_plan_create(&s.tensors.problem, NULL, &ring, &other.plan), RA_OK);
    assert_int_equal(ra_checkpoint_open(&options, other.plan, &checkpoint), RA_ERROR_UNSUPPORTED);
    ra_ring_plan_free(other.plan);
    options.rank = 3;
    assert_int_equal(ra_checkpoint_open(&options, s.plan, &checkpoint), RA_ERROR_ARGUMENT);
    goes_on(&s);
    scene_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(disturbed_runs_have_the_same_bits),
        IN_FOLDER(damage_is_refused),
        IN_FOLDER(a_set_is_whole_or_refused),
        IN_FOLDER(an_older_file_of_the_set_will_do),
        IN_FOLDER(another_run_is_refused_with_the_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
