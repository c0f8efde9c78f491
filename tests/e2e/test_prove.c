/* A run that does not do what its plan says is RA_ERROR_INTERNAL, with the figures: plans are falsified here. */
#include "plan/plan.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(falsified_plans_are_found_out),
                                       cmocka_unit_test(shorter_runs_are_proven_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
