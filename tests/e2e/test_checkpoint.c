/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that are stopped again and again and go on: the same bits as a run that is not, or a message. */
#include "ringattn/ringattn.h"
#include "support/folder.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PATH[] = "a.state";

typedef struct scene {
    sample tensors;
    ra_ring_plan *plan;
    ra_ring_options ring;
} scene;

/* Stops after so many chances to. */
static int stop_after(void *user)
{
    int *left = user;
    return (*left)-- <= 0;
}

static void scene_make(scene *s, choices *c, const char *pattern)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    problem.batch = choose(c, 1, 2);
    problem.q_len = choose(c, 200, 3000);
    problem.kv_len = choose(c, 200, 3000);
    problem.kv_heads = choose(c, 1, 2);
    problem.heads = problem.kv_heads * choose(c, 1, 2);
    problem.head_dim = choose(c, 1, 20);
    problem.value_dim = choose(c, 1, 20);
    problem.pattern = pattern;
    sample_make(&s->tensors, &problem);
    s->ring = (ra_ring_options)RA_RING_OPTIONS_INIT;
    s->ring.ranks = (int)choose(c, 1, 5);
    s->ring.strategy = (ra_strategy)choose(c, 0, 2);
    s->ring.order = (ra_order)choose(c, 0, 2);
    s->ring.lent = 0;
    options.threads = (int)choose(c, 1, 2);
    REQUIRE(!ra_ring_plan_create(&problem, &options, &s->ring, &s->plan), "%s: %s", pattern, ra_last_message());
}

static void scene_free(scene *s)
{
    ra_ring_plan_free(s->plan);
    sample_free(&s->tensors);
}

/* One process's part of a run: `chances` < 0 is to the end. */
static ra_status run(const scene *s, bool saved, int chances, ra_rank_stats *stats, bool *went_on)
{
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    ra_checkpoint *checkpoint = NULL;
    ra_storage *storages[SAMPLE_TENSORS];
    ra_comm *comm;
    options.path = PATH;
    options.every = 1000;
    options.stop = chances < 0 ? NULL : stop_after;
    options.stop_user = &chances;
    ra_status status = saved ? ra_checkpoint_open(&options, s->plan, &checkpoint) : RA_OK;
    if (status)
        return status;
    *went_on = saved && ra_checkpoint_found(checkpoint);
    sample_wipe(&s->tensors);
    assert_int_equal(ra_comm_sim(s->ring.ranks, &comm), RA_OK);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        assert_int_equal(ra_storage_memory(&s->tensors.tensors[i], &storages[i]), RA_OK);
    stats->size = sizeof *stats;
    status = ra_ring_run_saved(s->plan, comm, storages[0], storages[1], storages[2], storages[3], storages[4],
                               checkpoint, stats);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        ra_storage_free(storages[i]);
    ra_comm_free(comm);
    if (!status && checkpoint)
        ra_checkpoint_remove(checkpoint);
    ra_checkpoint_free(checkpoint);
    return status;
}

static const char *const PATTERNS[] = {"full",
                                       "causal",
                                       "window:300,20",
                                       "dilated:64/1,256/2,1000/7",
                                       "dilated:100/3,70/7:mode=union",
                                       "blocks:50:density=0.3",
                                       "blocks:64:local=2"};
enum { PATTERN_COUNT = sizeof PATTERNS / sizeof *PATTERNS };

static void stopped_runs_have_the_same_bits(void **state)
{
    (void)state;
    seed_range range = seeds(40);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        scene s;
        ra_rank_stats whole[8], parts[8];
        bool went_on;
        scene_make(&s, &c, PATTERNS[seed % PATTERN_COUNT]);
        size_t bytes = s.tensors.bytes[SAMPLE_OUTPUT], lse_bytes = s.tensors.bytes[SAMPLE_LSE];
        char *expected = malloc(bytes + lse_bytes);
        assert_non_null(expected);
        REQUIRE(!run(&s, false, -1, whole, &went_on), "seed %llu: %s", (unsigned long long)seed, ra_last_message());
        memcpy(expected, s.tensors.memory[SAMPLE_OUTPUT], bytes);
        memcpy(expected + bytes, s.tensors.memory[SAMPLE_LSE], lse_bytes);
        int runs = 0;
        for (ra_status status = RA_ERROR_CANCELLED; status; runs++) {
            /* Some get no further than where they began: then one that does. */
            status = run(&s, true, (int)choose(&c, 0, 4), parts, &went_on);
            REQUIRE(!status || status == RA_ERROR_CANCELLED, "seed %llu: %s", (unsigned long long)seed,
                    ra_last_message());
            REQUIRE(went_on == (runs > 0), "seed %llu: run %d", (unsigned long long)seed, runs);
            REQUIRE(runs < 2000, "seed %llu: does not end", (unsigned long long)seed);
        }
        REQUIRE(memcmp(expected, s.tensors.memory[SAMPLE_OUTPUT], bytes) == 0 &&
                    memcmp(expected + bytes, s.tensors.memory[SAMPLE_LSE], lse_bytes) == 0,
                "seed %llu, \"%s\", %d ranks, %s, %s: other bits after %d runs", (unsigned long long)seed,
                s.tensors.pattern, s.ring.ranks, ra_strategy_name(s.ring.strategy), ra_order_name(s.ring.order), runs);
        for (int rank = 0; rank < s.ring.ranks; rank++)
            REQUIRE(parts[rank].hops == whole[rank].hops && parts[rank].bytes_received == whole[rank].bytes_received &&
                        parts[rank].bytes_sent == whole[rank].bytes_sent &&
                        parts[rank].pairs_visible == whole[rank].pairs_visible,
                    "seed %llu, rank %d: other statistics", (unsigned long long)seed, rank);
        free(expected);
        scene_free(&s);
        assert_int_equal(folder_entries(), 0);
    }
}

/* Finished rows are written a few groups at a time and read by the megabyte: what is known of them is of each row. */
static void rows_are_read_in_other_parts_than_written(void **state)
{
    (void)state;
    scene s;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_rank_stats stats[4];
    bool went_on;
    problem.batch = 2, problem.q_len = 8001, problem.kv_len = 70, problem.heads = 4, problem.head_dim = 2;
    problem.value_dim = 16;
    sample_make(&s.tensors, &problem);
    s.ring = (ra_ring_options)RA_RING_OPTIONS_INIT;
    s.ring.ranks = 2, s.ring.lent = 0;
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &s.ring, &s.plan), RA_OK);
    assert_int_equal(run(&s, false, -1, stats, &went_on), RA_OK);
    char *expected = sample_keep(&s.tensors);
    ra_status status = RA_ERROR_CANCELLED;
    for (int chances = 0; status == RA_ERROR_CANCELLED; chances++)
        status = run(&s, true, chances, stats, &went_on);
    REQUIRE(!status, "%s", ra_last_message());
    assert_true(went_on && sample_same(&s.tensors, expected));
    free(expected);
    scene_free(&s);
}

/* A small run that has stopped in its second rank. */
static void stop_in_the_middle(scene *s)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_rank_stats stats[4];
    bool went_on;
    problem.q_len = 70, problem.kv_len = 130, problem.heads = 1, problem.head_dim = 2;
    sample_make(&s->tensors, &problem);
    s->ring = (ra_ring_options)RA_RING_OPTIONS_INIT;
    s->ring.ranks = 2, s->ring.lent = 0;
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &s->ring, &s->plan), RA_OK);
    for (int chances = 4; chances < 5; chances++)
        assert_int_equal(run(s, true, chances, stats, &went_on), RA_ERROR_CANCELLED);
}

static void refused(const scene *s, const char *what, size_t at)
{
    ra_rank_stats stats[4];
    bool went_on;
    ra_status status = run(s, true, -1, stats, &went_on);
    REQUIRE(status == RA_ERROR_FORMAT, "%s %zu: status %s, %s", what, at, ra_status_name(status), ra_last_message());
    REQUIRE(strstr(ra_last_message(), PATH), "%s %zu: %s", what, at, ra_last_message());
}

static void a_damaged_checkpoint_is_refused(void **state)
{
    (void)state;
    scene s;
    size_t size, rows_size;
    stop_in_the_middle(&s);
    char *bytes = folder_read(PATH, &size), *rows = folder_read("a.state.rows", &rows_size);
    for (size_t at = 0; at < size; at++) {
        bytes[at] = (char)(bytes[at] ^ 0x40);
        folder_write(PATH, bytes, size);
        refused(&s, "byte", at);
        bytes[at] = (char)(bytes[at] ^ 0x40);
    }
    for (size_t left = 0; left < size; left += 1 + left / 7) {
        folder_write(PATH, bytes, left);
        refused(&s, "cut to", left);
    }
    folder_write(PATH, bytes, size);
    enum { FINISHED = 64 * 2 * sizeof(float), OUTPUT = 70 * 2 * sizeof(float) }; /* rows of rank 0, of all ranks */
    for (size_t at = 0; at < rows_size; at = at + 1 == FINISHED ? OUTPUT : at + 1) {
        rows[at] = (char)(rows[at] ^ 1);
        folder_write("a.state.rows", rows, rows_size);
        refused(&s, "row byte", at);
        rows[at] = (char)(rows[at] ^ 1);
    }
    folder_write("a.state.rows", rows, rows_size / 2);
    refused(&s, "rows cut to", rows_size / 2);
    unlink("a.state.rows");
    refused(&s, "no rows", 0);
    /* As it was, it goes on. */
    ra_rank_stats stats[4];
    bool went_on;
    folder_write("a.state.rows", rows, rows_size);
    assert_int_equal(run(&s, true, -1, stats, &went_on), RA_OK);
    assert_true(went_on);
    free(bytes);
    free(rows);
    scene_free(&s);
}

static void another_run_is_refused_with_the_difference(void **state)
{
    (void)state;
    scene s;
    ra_checkpoint *checkpoint;
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    ra_ring_plan *other;
    stop_in_the_middle(&s);
    options.path = PATH;
    const char *const inputs[] = {"query: changed"};
    options.inputs = inputs;
    options.input_count = 1;
    assert_int_equal(ra_checkpoint_open(&options, s.plan, &checkpoint), RA_ERROR_ARGUMENT);
    options.input_count = 0;
    s.ring.ranks = 3;
    assert_int_equal(ra_ring_plan_create(&s.tensors.problem, NULL, &s.ring, &other), RA_OK);
    assert_int_equal(ra_checkpoint_open(&options, other, &checkpoint), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "it has \"ring size: 2\", this one \"ring size: 3\""));
    ra_ring_plan_free(other);
    s.ring.ranks = 2;
    s.tensors.problem.scores = "softcap:5";
    assert_int_equal(ra_ring_plan_create(&s.tensors.problem, NULL, &s.ring, &other), RA_OK);
    assert_int_equal(ra_checkpoint_open(&options, other, &checkpoint), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "it has \"scores: as they are\", this one \"scores: softcap:5\""));
    ra_ring_plan_free(other);
    unlink(PATH);
    unlink("a.state.rows");
    scene_free(&s);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    scene s;
    ra_checkpoint *checkpoint;
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    choices c = {1};
    scene_make(&s, &c, "full");
    assert_int_equal(ra_checkpoint_open(NULL, s.plan, &checkpoint), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_checkpoint_open(&options, s.plan, &checkpoint), RA_ERROR_ARGUMENT);
    options.path = "a.state";
    options.every = -1;
    assert_int_equal(ra_checkpoint_open(&options, s.plan, &checkpoint), RA_ERROR_ARGUMENT);
    options.every = 1;
    options.path = ".";
    assert_int_equal(ra_checkpoint_open(&options, s.plan, &checkpoint), RA_ERROR_FORMAT);
    ra_checkpoint_free(NULL);
    scene_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(stopped_runs_have_the_same_bits), IN_FOLDER(rows_are_read_in_other_parts_than_written),
        IN_FOLDER(a_damaged_checkpoint_is_refused), IN_FOLDER(another_run_is_refused_with_the_difference),
        IN_FOLDER(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
