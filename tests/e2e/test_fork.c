/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of a fork whose parent has used OpenMP: they work with one thread, and more are refused, instead of waiting
 * for ever for the parent's threads.
 */
#include "support/sample.h"
#include "support/unit.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEQ = 200, HEADS = 4, DIM = 16, COUNT = SEQ * HEADS * DIM, PATIENCE = 60 /* seconds: then it hangs */ };

static float x[4][COUNT], expected[COUNT];
static ra_tensor t[4];
static ra_plan *made_for_any, *made_for_two; /* in the parent */

/* Another library's parallel region: from here on the runtime keeps threads. */
static int use_openmp(void)
{
    int threads = 0;
#pragma omp parallel num_threads(4) reduction(+ : threads)
    threads += 1;
    return threads;
}

static ra_problem problem_here(void)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = SEQ, problem.heads = HEADS, problem.head_dim = DIM;
    problem.pattern = "causal";
    return problem;
}

static ra_status plan_with(int threads, ra_plan **plan)
{
    ra_problem problem = problem_here();
    ra_options options = RA_OPTIONS_INIT;
    options.threads = threads;
    return ra_plan_create(&problem, &options, plan);
}

/* Exit code 0 of a child: fine. Anything else is the line that failed, as far as it fits. */
#define CHILD_REQUIRE(condition)                                                                                       \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: not %s (%s)\n", __LINE__, #condition, ra_last_message());                        \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static int run_with(const ra_plan *plan)
{
    ra_stats stats = RA_STATS_INIT;
    memset(x[3], 0, sizeof x[3]);
    CHILD_REQUIRE(ra_forward(plan, &t[0], &t[1], &t[2], &t[3], NULL, &stats) == RA_OK);
    CHILD_REQUIRE(stats.threads == 1);
    CHILD_REQUIRE(same_bits(x[3], expected, COUNT));
    return 0;
}

static int plans_of_its_own(void)
{
    ra_plan *plan = NULL;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    for (int threads = 0; threads < 2; threads++) {
        CHILD_REQUIRE(plan_with(threads, &plan) == RA_OK);
        CHILD_REQUIRE(ra_plan_describe(plan, &info) == RA_OK && info.threads == 1);
        if (run_with(plan))
            return 1;
        ra_plan_free(plan);
    }
    CHILD_REQUIRE(plan_with(2, &plan) == RA_ERROR_UNSUPPORTED && !plan);
    CHILD_REQUIRE(strstr(ra_last_message(), "threads 2: this process is the child of a fork()"));
    return 0;
}

static int plans_of_the_parent(void)
{
    if (run_with(made_for_any))
        return 1;
    CHILD_REQUIRE(ra_forward(made_for_two, &t[0], &t[1], &t[2], &t[3], NULL, NULL) == RA_ERROR_UNSUPPORTED);
    CHILD_REQUIRE(strstr(ra_last_message(), "fork()"));
    return 0;
}

static int rings(void)
{
    ra_problem problem = problem_here();
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ra_options two = RA_OPTIONS_INIT;
    ra_ring_plan *plan = NULL;
    ra_comm *comm = NULL;
    ra_rank_stats stats[3] = {RA_RANK_STATS_INIT};
    ring.ranks = 3, ring.strategy = RA_STRATEGY_BROADCAST, two.threads = 2;
    CHILD_REQUIRE(ra_ring_plan_create(&problem, &two, &ring, &plan) == RA_ERROR_UNSUPPORTED);
    CHILD_REQUIRE(ra_ring_plan_create(&problem, NULL, &ring, &plan) == RA_OK);
    CHILD_REQUIRE(ra_comm_sim(3, &comm) == RA_OK);
    CHILD_REQUIRE(ra_ring_forward(plan, comm, &t[0], &t[1], &t[2], &t[3], NULL, stats) == RA_OK);
    CHILD_REQUIRE(stats[2].threads == 1 && same_bits(x[3], expected, COUNT));
    ra_comm_free(comm);
    ra_ring_plan_free(plan);
    return 0;
}

/* The library comes into the process after the fork: it has not seen what the parent did. */
static int a_library_that_comes_late(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    CHILD_REQUIRE(library);
    ra_status (*create)(const ra_problem *, const ra_options *, ra_plan **);
    ra_status (*forward)(const ra_plan *, const ra_tensor *, const ra_tensor *, const ra_tensor *, const ra_tensor *,
                         const ra_tensor *, ra_stats *);
    *(void **)&create = dlsym(library, "ra_plan_create");
    *(void **)&forward = dlsym(library, "ra_forward");
    ra_problem problem = problem_here();
    ra_options two = RA_OPTIONS_INIT;
    ra_plan *plan = NULL;
    two.threads = 2;
    CHILD_REQUIRE(create(&problem, &two, &plan) == RA_ERROR_UNSUPPORTED);
    CHILD_REQUIRE(create(&problem, NULL, &plan) == RA_OK);
    CHILD_REQUIRE(forward(plan, &t[0], &t[1], &t[2], &t[3], NULL, NULL) == RA_OK);
    CHILD_REQUIRE(same_bits(x[3], expected, COUNT));
    return 0;
}

static void in_a_child(int (*what)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(PATIENCE);
        _exit(what());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child %s",
            WIFEXITED(status) ? "failed" : "hung or was killed");
}

static void children_plan(void **state)
{
    (void)state;
    in_a_child(plans_of_its_own);
}

static void children_run_what_the_parent_planned(void **state)
{
    (void)state;
    in_a_child(plans_of_the_parent);
}

static void children_run_rings(void **state)
{
    (void)state;
    in_a_child(rings);
}

static void children_load_the_library(void **state)
{
    (void)state;
    in_a_child(a_library_that_comes_late);
}

/* The parent itself is no child: it goes on with as many threads as it likes. */
static void the_parent_goes_on(void **state)
{
    (void)state;
    ra_stats stats = RA_STATS_INIT;
    assert_int_equal(ra_forward(made_for_two, &t[0], &t[1], &t[2], &t[3], NULL, &stats), RA_OK);
    assert_int_equal(stats.threads, 2);
    assert_memory_equal(x[3], expected, sizeof expected);
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        ra_generate(RA_NORMAL, (uint64_t)i, 0, COUNT, x[i]);
        t[i] = ra_tensor_dense(x[i], RA_F32, RA_BSHD, 1, SEQ, HEADS, DIM);
    }
    if (use_openmp() != 4 || plan_with(0, &made_for_any) || plan_with(2, &made_for_two) ||
        ra_forward(made_for_two, &t[0], &t[1], &t[2], &t[3], NULL, NULL))
        return 1;
    memcpy(expected, x[3], sizeof expected);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ra_plan_free(made_for_any);
    ra_plan_free(made_for_two);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_plan), cmocka_unit_test(children_run_what_the_parent_planned),
        cmocka_unit_test(children_run_rings), cmocka_unit_test(children_load_the_library),
        cmocka_unit_test(the_parent_goes_on)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
