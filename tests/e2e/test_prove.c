/* SPDX-License-Identifier: Apache-2.0 */
/* A run that does not do what its plan says is RA_ERROR_INTERNAL, with the figures: plans are falsified here. */
#include "ring/ring_plan.h"
#include "support/sample.h"
#include "support/unit.h"

#include <string.h>

typedef void (*falsifier)(ra_plan *plan);

#define FALSIFY(name, ...)                                                                                             \
    static void name(ra_plan *p)                                                                                       \
    {                                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }

FALSIFY(a_tile_more, p->all.tiles += 1)
FALSIFY(a_tile_less, p->all.tiles -= 1)
FALSIFY(a_pair_more, p->all.pairs_visible += 1)
FALSIFY(a_pair_less, p->all.pairs_visible -= 1)
FALSIFY(a_worked_pair_more, p->all.pairs_worked += 1)
FALSIFY(a_worked_pair_less, p->all.pairs_worked -= 1)
FALSIFY(a_byte_less, p->peak_bytes -= 1)
/* What is counted and what is worked come from the same pattern, so one that changes in between is noticed. */
FALSIFY(other_keys, p->pattern.kv_len -= 1)

static const falsifier falsifiers[] = {a_tile_more,        a_tile_less,        a_pair_more, a_pair_less,
                                       a_worked_pair_more, a_worked_pair_less, a_byte_less, other_keys};
enum { FALSIFIERS = sizeof falsifiers / sizeof *falsifiers };

/* Both variants, with one span of keys and with several. */
static void falsified_plans_are_found_out(void **state)
{
    (void)state;
    static const int64_t lengths[][2] = {{100, 100}, {1, 300}, {70, 5000}, {1, 5000}};
    for (int shape = 0; shape < 4; shape++)
        for (int i = -1; i < FALSIFIERS; i++) {
            ra_problem problem = RA_PROBLEM_INIT;
            sample s;
            problem.q_len = lengths[shape][0], problem.kv_len = lengths[shape][1];
            problem.heads = 1, problem.head_dim = 4;
            problem.pattern = "full";
            sample_make(&s, &problem);
            ra_plan *plan = sample_plan(&s, RA_KERNEL_AUTO, 2);
            if (i >= 0)
                falsifiers[i](plan);
            const ra_tensor *t = s.tensors;
            ra_status expected = i < 0 ? RA_OK : RA_ERROR_INTERNAL;
            REQUIRE(ra_forward(plan, &t[0], &t[1], &t[2], &t[3], &t[4], NULL) == expected, "shape %d, falsifier %d",
                    shape, i);
            if (i >= 0)
                assert_non_null(strstr(ra_last_message(), "the run differs from its plan: tiles "));
            ra_plan_free(plan);
            sample_free(&s);
        }
}

/* So is one that is run with fewer keys: the counts of its own length are made for the run, the bytes are not. */
static void shorter_runs_are_proven_too(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT, shorter;
    sample s;
    problem.q_len = 10, problem.kv_len = 300, problem.heads = 1, problem.head_dim = 4;
    problem.pattern = "causal";
    shorter = problem;
    shorter.kv_len = 200;
    sample_make(&s, &shorter);
    ra_options options = RA_OPTIONS_INIT;
    ra_plan *plan = NULL;
    assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
    const ra_tensor *t = s.tensors;
    assert_int_equal(ra_forward(plan, &t[0], &t[1], &t[2], &t[3], NULL, NULL), RA_OK);
    plan->peak_bytes = 1;
    assert_int_equal(ra_forward(plan, &t[0], &t[1], &t[2], &t[3], NULL, NULL), RA_ERROR_INTERNAL);
    ra_plan_free(plan);
    sample_free(&s);
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

typedef void (*rank_falsifier)(ra_rank_info *info);

#define FALSIFY_RANK(name, ...)                                                                                        \
    static void name(ra_rank_info *info)                                                                               \
    {                                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }

FALSIFY_RANK(a_hop_more, info->hops += 1)
FALSIFY_RANK(a_sent_byte_more, info->bytes_sent += 1)
FALSIFY_RANK(a_sent_byte_less, info->bytes_sent -= 1)
FALSIFY_RANK(a_received_byte_more, info->bytes_received += 1)
FALSIFY_RANK(a_visible_pair_more, info->pairs_visible += 1)
FALSIFY_RANK(a_held_byte, info->peak_bytes = 1)

static const rank_falsifier rank_falsifiers[] = {a_hop_more,           a_sent_byte_more,    a_sent_byte_less,
                                                 a_received_byte_more, a_visible_pair_more, a_held_byte};
enum { RANK_FALSIFIERS = sizeof rank_falsifiers / sizeof *rank_falsifiers };

/* Virtual ranks with tensors in memory are worked as one list, those with storages go through their steps; and one rank
 * that is not virtual. */
typedef struct ring_way {
    ra_transport_kind transport;
    int ranks;
    bool lent;
} ring_way;

static const ring_way ring_ways[] = {
    {RA_TRANSPORT_SIM, 3, true}, {RA_TRANSPORT_SIM, 3, false}, {RA_TRANSPORT_THREADS, 1, true}};
enum { RING_WAYS = sizeof ring_ways / sizeof *ring_ways };

static ra_status run_stored(const ra_ring_plan *plan, ra_comm *comm, const ra_tensor *tensors)
{
    ra_storage *s[5];
    for (int i = 0; i < 5; i++)
        assert_int_equal(ra_storage_memory(&tensors[i], &s[i]), RA_OK);
    ra_status status = ra_ring_run(plan, comm, s[0], s[1], s[2], s[3], s[4], NULL);
    for (int i = 0; i < 5; i++)
        ra_storage_free(s[i]);
    return status;
}

/* The last rank does something else than its plan says; NULL: it does not. */
static ra_status run_falsified(const ring_way *way, const sample *s, rank_falsifier falsify)
{
    const ra_tensor *t = s->tensors;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan = NULL;
    ra_comm *comm = NULL;
    ring.transport = way->transport, ring.ranks = way->ranks, ring.lent = way->lent, ring.lse = 1;
    assert_int_equal(ra_ring_plan_create(&s->problem, NULL, &ring, &plan), RA_OK);
    assert_int_equal(way->transport == RA_TRANSPORT_SIM ? ra_comm_sim(way->ranks, &comm) : ra_comm_threads(1, &comm),
                     RA_OK);
    if (falsify)
        falsify(&plan->ranks[way->ranks - 1].info);
    ra_status status =
        way->lent ? ra_ring_forward(plan, comm, &t[0], &t[1], &t[2], &t[3], &t[4], NULL) : run_stored(plan, comm, t);
    ra_comm_free(comm);
    ra_ring_plan_free(plan);
    return status;
}

static void falsified_ranks_are_found_out(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    sample s;
    problem.q_len = 300, problem.heads = 2, problem.head_dim = 4;
    problem.pattern = "causal";
    sample_make(&s, &problem);
    for (int way = 0; way < RING_WAYS; way++) {
        assert_int_equal(run_falsified(&ring_ways[way], &s, NULL), RA_OK);
        for (int i = 0; i < RANK_FALSIFIERS; i++) {
            REQUIRE(run_falsified(&ring_ways[way], &s, rank_falsifiers[i]) == RA_ERROR_INTERNAL, "way %d, falsifier %d",
                    way, i);
            assert_non_null(strstr(ra_last_message(), "the run differs from its plan: "));
        }
    }
    sample_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(falsified_plans_are_found_out),
                                       cmocka_unit_test(shorter_runs_are_proven_too),
                                       cmocka_unit_test(falsified_ranks_are_found_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
