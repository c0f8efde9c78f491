/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole problems in bfloat16 with every table that has products of bfloat16, the emulated one included: within the
 * error that docs/MATH.md states, and to the bit what the processor computes, where it does.
 */
#include "exec/exec.h"
#include "exec/gradient.h"
#include "support/gradients.h"
#include "support/scores.h"
#include "support/unit.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>

enum { ORACLE_ROWS = 12 };

typedef struct problem {
    ra_problem problem;
    char pattern[256];
    made_scores scores;
    gradients g;
} problem;

static void problem_make(problem *p, choices *c)
{
    *p = (problem){.problem = RA_PROBLEM_INIT};
    ra_problem *of = &p->problem;
    of->batch = choose(c, 1, 2);
    of->kv_heads = choose(c, 1, 2);
    of->heads = of->kv_heads * choose(c, 1, 2);
    of->q_len = choose(c, 9, 120);
    of->kv_len = choose(c, 1, 150);
    of->head_dim = choose(c, 1, chance(c, 6) ? 300 : 40);
    of->value_dim = choose(c, 1, 40);
    if (chance(c, 3)) { /* weights are rounded from so many keys on */
        of->batch = 1;
        of->q_len = choose(c, 9, 30);
        of->kv_len = choose(c, 1024, 1200);
        of->head_dim = choose(c, 1, 40);
    }
    choose_pattern(c, of->kv_len, p->pattern, sizeof p->pattern);
    of->pattern = p->pattern;
    choose_positions(c, of);
    if (chance(c, 3)) /* quotients are other instructions in an emulated tanh: no softcap */
        make_scores(c, (choose_terms(c) & ~(unsigned)WITH_SOFTCAP) | WITH_ALIBI, of, &p->scores);
    gradients_make_any(&p->g, of, RA_BF16, c);
    p->g.fast = true;
}

static void problem_free(problem *p)
{
    gradients_free(&p->g);
    if (p->problem.scores)
        scores_free(&p->scores);
}

static void run(const problem *p, const tested_table *table, uint64_t seed)
{
    const sample *s = &p->g.s;
    const ra_tensor *t = s->tensors;
    const placed *d = p->g.d;
    ra_stats stats = RA_STATS_INIT;
    ra_plan *plan = sample_plan(s, RA_KERNEL_GENERIC, 2);
    plan->kernel = table->kernel->id;
    plan->blocking = table->kernel->blocking;
    assert_int_equal(ra_plan_lay_out(plan, 2), RA_OK);
    sample_wipe(s);
    const ra_cache whole = {.k = &t[SAMPLE_KEY], .v = &t[SAMPLE_VALUE]};
    ra_status status =
        ra_execute(plan, table->kernel, &t[SAMPLE_QUERY], &whole, &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE], &stats);
    const ra_gradient_tensors tensors = {&t[SAMPLE_QUERY],
                                         &t[SAMPLE_KEY],
                                         &t[SAMPLE_VALUE],
                                         &t[SAMPLE_OUTPUT],
                                         &t[SAMPLE_LSE],
                                         &d[D_OUTPUT].view,
                                         p->g.with_lse ? &d[D_LSE].view : NULL,
                                         &d[D_QUERY].view,
                                         &d[D_KEY].view,
                                         &d[D_VALUE].view};
    if (!status)
        status = ra_gradient_execute(plan, table->kernel, &tensors, &stats);
    REQUIRE(!status, "seed %llu, %s, %s: %s", (unsigned long long)seed, table->name, gradients_text(&p->g),
            ra_last_message());
    ra_plan_free(plan);
}

static void judge(problem *p, const oracle_rows *rows, const char *table, uint64_t seed)
{
    double output_part, lse_part;
    bool drops = p->problem.scores && strstr(p->scores.text, "dropout");
    sample_errors_sized(&p->g.s, rows, &output_part, &lse_part);
    REQUIRE(output_part <= 1 && lse_part <= 1, "seed %llu, %s, %s: output at %.2f of its tolerance, lse at %.2f",
            (unsigned long long)seed, table, gradients_text(&p->g), output_part, lse_part);
    if (drops) /* the oracle of a rounded output has no dropout */
        return;
    gradients_solve(&p->g);
    for (int i = 0; i < D_INPUTS; i++) {
        double part = gradients_part(&p->g, i);
        REQUIRE(part <= 1, "seed %llu, %s, %s: gradient %d at %.2f of its tolerance", (unsigned long long)seed, table,
                gradients_text(&p->g), i, part);
    }
}

static void random_problems(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_fast_tables(&count);
    if (count == 0)
        skip();
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        problem p;
        problem_make(&p, &c);
        oracle_rows rows = sample_oracle(&p.g.s, ORACLE_ROWS, &c);
        oracle_size(&p.g.s, &rows);
        rows.fast = true;
        char *forward = NULL, *backward = NULL;
        for (int i = 0; i < count; i++) {
            run(&p, &tables[i], seed);
            judge(&p, &rows, tables[i].name, seed);
            bool same = !forward || sample_same(&p.g.s, forward);
            for (int j = 0; j < D_INPUTS && forward; j++)
                same &= gradients_same(&p.g, backward, j);
            REQUIRE(same, "seed %llu, %s: other bits than %s, %s", (unsigned long long)seed, tables[i].name,
                    tables[0].name, gradients_text(&p.g));
            if (!forward)
                forward = sample_keep(&p.g.s), backward = gradients_keep(&p.g);
        }
        free(forward);
        free(backward);
        oracle_free(&rows);
        problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_problems)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
