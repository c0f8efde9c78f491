/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole problems with every table, emulated ones included, against the oracle: the executor with tables that the public
 * functions would refuse on this machine.
 */
#include "compare.h"
#include "exec/exec.h"
#include "support/ragged.h"
#include "support/sample.h"
#include "support/unit.h"
#include "tables.h"

#include <string.h>

enum { ORACLE_ROWS = 16 };

/* A plan for a table, whether or not this machine has it. */
static ra_plan *plan_for(const sample *s, const ra_kernel *kernel, int threads)
{
    ra_plan *plan = sample_plan(s, RA_KERNEL_GENERIC, threads);
    plan->kernel = kernel->id;
    plan->blocking = kernel->blocking;
    assert_int_equal(ra_plan_lay_out(plan, threads), RA_OK);
    return plan;
}

static void choose_problem(choices *c, ra_problem *p)
{
    p->batch = choose(c, 1, 2);
    p->kv_heads = choose(c, 1, 3);
    p->heads = p->kv_heads * choose(c, 1, 3);
    p->q_len = choose(c, 1, chance(c, 2) ? 10 : 200);
    p->kv_len = choose(c, 1, 300);
    p->head_dim = choose(c, 1, chance(c, 5) ? 300 : 70);
    p->value_dim = choose(c, 1, 70);
    if (chance(c, 8)) { /* several spans of keys */
        p->batch = p->heads = p->kv_heads = 1;
        p->q_len = choose(c, 1, 70);
        p->kv_len = choose(c, 4096, 5000);
        p->head_dim = choose(c, 1, 20);
    }
}

static void random_problems(void **state)
{
    (void)state;
    int count;
    bool reached[2][2] = {{false}}; /* [variant][several spans], of the last table */
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(80);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[256];
        sample s;
        choose_problem(&c, &problem);
        choose_pattern(&c, problem.kv_len, pattern, sizeof pattern);
        choose_positions(&c, &problem);
        choose_ragged(&c, &problem, pattern, sizeof pattern);
        problem.pattern = pattern;
        sample_make_any(&s, &problem, ANY_DTYPE, &c);
        oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &c);
        for (int i = 0; i < count; i++) {
            const ra_tensor *t = s.tensors;
            ra_stats stats = RA_STATS_INIT;
            double output_error, lse_error;
            ra_plan *plan = plan_for(&s, tables[i].kernel, 2);
            sample_wipe(&s);
            const ra_cache whole = {.k = &t[SAMPLE_KEY], .v = &t[SAMPLE_VALUE]};
            REQUIRE(!ra_execute(plan, tables[i].kernel, &t[SAMPLE_QUERY], &whole, &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE],
                                &stats),
                    "seed %llu, %s, %s: %s", (unsigned long long)seed, tables[i].name, sample_text(&s),
                    ra_last_message());
            sample_errors(&s, &expected, &output_error, &lse_error);
            REQUIRE(output_error <= OUTPUT_TOLERANCE && lse_error <= LSE_TOLERANCE,
                    "seed %llu, %s, %s: output off by %.2e, lse by %.2e", (unsigned long long)seed, tables[i].name,
                    sample_text(&s), output_error, lse_error);
            reached[plan->variant][plan->spans > 1] |= i == count - 1;
            ra_plan_free(plan);
        }
        oracle_free(&expected);
        sample_free(&s);
    }
    if (range.end - range.first > 1)
        assert_true(reached[0][0] && reached[0][1] && reached[1][0] && reached[1][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_problems)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
