/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients against the double-precision oracle: odd shapes, all patterns, all kernels, any dtypes and strides. And
 * never worse than twice a plain float32 backward pass.
 */
#include "support/gradients.h"
#include "support/naive_backward.h"
#include "support/ragged.h"
#include "support/unit.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest error, as a part of a gradient's largest element or of 1, for inputs of unit variance. */
#define GRADIENT_TOLERANCE 4e-6

static const char *const names[D_INPUTS] = {"d_q", "d_k", "d_v"};

/* Whether scores and sums are those that GRADIENT_TOLERANCE is for. */
static bool is_usual(const ra_problem *p)
{
    return p->scale == RA_SCALE_DEFAULT && p->head_dim >= 16 && p->value_dim <= 2 * p->head_dim;
}

/* After a run and the oracle: every row within its own tolerance; and, for usual problems, all within one. */
static void judge(gradients *g, ra_kernel_id kernel, uint64_t seed)
{
    for (int i = 0; i < D_INPUTS; i++) {
        double error = gradients_error(g, i), part = gradients_part(g, i);
        REQUIRE(part <= 1 && (error <= GRADIENT_TOLERANCE || !is_usual(&g->s.problem)),
                "seed %llu, %s, %s: %s off by %.2e, %.2f of its tolerance", (unsigned long long)seed,
                ra_kernel_name(kernel), gradients_text(g), names[i], error, part);
    }
    REQUIRE(gradients_padding_kept(g), "seed %llu, %s, %s: wrote outside its elements", (unsigned long long)seed,
            ra_kernel_name(kernel), gradients_text(g));
}

/* With every kernel. An output of 16 bits is not the same in all of them, nor are its gradients. */
static void run_and_judge(gradients *g, uint64_t seed)
{
    bool solved = false;
    FOR_EACH_KERNEL (kernel) {
        gradients_run(g, kernel, 1 + (int)(seed % 4));
        if (!solved || g->s.tensors[SAMPLE_OUTPUT].dtype != RA_F32)
            gradients_solve(g);
        solved = true;
        judge(g, kernel, seed);
    }
}

/* ---- Odd shapes -------------------------------------------------------------------------------------------------- */

static const struct shape {
    int64_t batch, q_len, kv_len, heads, kv_heads, head_dim, value_dim;
} shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},     {1, 1, 67, 2, 1, 5, 3},    {2, 67, 67, 2, 2, 64, 64}, {1, 130, 130, 6, 2, 17, 33},
    {1, 40, 200, 4, 1, 80, 8}, {1, 200, 40, 2, 1, 9, 70}, {1, 65, 129, 3, 3, 1, 1},  {1, 33, 33, 2, 1, 150, 130},
};
static const char *const patterns[] = {
    "full",
    "causal",
    "window:9,4",
    "causal+window:20,0",
    "window:0",
    "dilated:16/1,64/4",
    "dilated:16/1,16/1,64/3:mode=union",
    "dilated:20/2,70/3:mode=grouped",
    "causal+dilated:8/1,8/1,30/2",
    "blocks:16:local=1:global=1",
    "blocks:10:random=1:seed=3",
    "causal+blocks:8:stride=3",
    "dilated:32/2,64/1+blocks:16:local=1",
};
enum { SHAPES = sizeof shapes / sizeof *shapes, PATTERNS = sizeof patterns / sizeof *patterns };

static ra_problem problem_of_shape(const struct shape *s, const char *pattern)
{
    ra_problem p = RA_PROBLEM_INIT;
    p.batch = s->batch, p.q_len = s->q_len, p.kv_len = s->kv_len, p.heads = s->heads, p.kv_heads = s->kv_heads;
    p.head_dim = s->head_dim, p.value_dim = s->value_dim, p.pattern = pattern;
    return p;
}

static void odd_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int j = 0; j < PATTERNS; j++) {
            ra_problem problem = problem_of_shape(&shapes[i], patterns[j]);
            gradients g;
            gradients_make(&g, &problem, (i + j) % 2);
            run_and_judge(&g, 1);
            gradients_free(&g);
        }
}

static void documents(void **state)
{
    (void)state;
    static const char *const texts[] = {"documents:1,66,30,33", "causal+documents:64,1,65", "documents:130"};
    for (int i = 0; i < 3; i++) {
        ra_problem problem = problem_of_shape(&shapes[3], texts[i]);
        gradients g;
        problem.q_len = i == 1 ? 100 : 130;
        gradients_make(&g, &problem, true);
        run_and_judge(&g, 1);
        gradients_free(&g);
    }
}

/* Members of a lattice lie closer than the rate where that does not divide the segment: more groups to a tile. */
static void rates_that_do_not_divide(void **state)
{
    (void)state;
    static const char *const uneven[] = {"dilated:17/7", "causal+dilated:9/5", "causal+dilated:65/64"};
    for (int i = 0; i < 3; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        gradients g;
        problem.q_len = 6000, problem.heads = 1, problem.head_dim = 9, problem.pattern = uneven[i];
        gradients_make(&g, &problem, true);
        run_and_judge(&g, 1);
        gradients_free(&g);
    }
}

/* Lengths 1 to 9 of everything, where off-by-one errors live. */
static void every_small_length(void **state)
{
    (void)state;
    static const char *const small[] = {"full", "causal", "window:2,1", "dilated:3/1,6/2"};
    for (int64_t i = 0; i < 9 * 9 * 4; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        gradients g;
        problem.q_len = 1 + i % 9, problem.kv_len = 1 + i / 9 % 9, problem.heads = 2, problem.kv_heads = 1;
        problem.head_dim = 3, problem.value_dim = 2, problem.pattern = small[i / 81];
        gradients_make(&g, &problem, i % 2);
        run_and_judge(&g, 1);
        gradients_free(&g);
    }
}

/* ---- Random problems --------------------------------------------------------------------------------------------- */

static int64_t choose_dim(choices *c)
{
    static const int64_t usual[] = {64, 80, 128};
    switch (choose(c, 0, 5)) {
    case 0: return choose(c, 1, 4);
    case 1: return usual[choose(c, 0, 2)];
    case 2: return chance(c, 4) ? choose(c, 250, 600) : choose(c, 1, 150);
    default: return choose(c, 1, 48);
    }
}

static void choose_problem(choices *c, ra_problem *p, char *pattern, size_t size)
{
    static const double scales[] = {0, -0.3, 0.01, 3};
    p->batch = choose(c, 1, 2);
    p->kv_heads = choose(c, 1, 2);
    p->heads = p->kv_heads * choose(c, 1, 3);
    p->head_dim = choose_dim(c);
    p->value_dim = chance(c, 2) ? choose_dim(c) : p->head_dim;
    p->q_len = chance(c, 6) ? choose(c, 1, 8) : choose(c, 1, 150);
    p->kv_len = chance(c, 3) ? p->q_len : choose(c, 1, 250);
    p->scale = chance(c, 3) ? scales[choose(c, 0, 3)] : RA_SCALE_DEFAULT;
    p->pattern = pattern;
    choose_pattern(c, p->kv_len, pattern, size);
    choose_positions(c, p);
    choose_ragged(c, p, pattern, size);
}

static void random_problems(void **state)
{
    (void)state;
    seed_range range = seeds(100);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        gradients g;
        choose_problem(&c, &problem, pattern, sizeof pattern);
        gradients_make_any(&g, &problem, ANY_DTYPE, &c);
        run_and_judge(&g, seed);
        gradients_free(&g);
    }
}

/* ---- Bits, and some of the gradients ----------------------------------------------------------------------------- */

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    seed_range range = seeds(16);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        gradients g;
        choose_problem(&c, &problem, pattern, sizeof pattern);
        gradients_make_any(&g, &problem, ANY_DTYPE, &c);
        FOR_EACH_KERNEL (kernel) {
            gradients_run(&g, kernel, 1);
            char *one = gradients_keep(&g);
            for (int threads = 2; threads <= 8; threads++) {
                gradients_run(&g, kernel, threads);
                for (int i = 0; i < D_INPUTS; i++)
                    REQUIRE(gradients_same(&g, one, i), "seed %llu, %s, %s: other bits of %s with %d threads",
                            (unsigned long long)seed, ra_kernel_name(kernel), gradients_text(&g), names[i], threads);
            }
            free(one);
        }
        gradients_free(&g);
    }
}

/*
 * Tasks that do not go through the keys from the first one on: heads that see other blocks, branches that begin again.
 * Tasks further back may still be at work on keys that the task before has nothing to do with.
 */
static void bits_of_tasks_that_leap(void **state)
{
    (void)state;
    static const char *const leaping[] = {"blocks:64:random=2", "dilated:64/1,256/4,1200/16", "window:0,5"};
    for (int i = 0; i < 3; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        gradients g;
        problem.q_len = 1200, problem.heads = 4, problem.kv_heads = 1, problem.head_dim = 16;
        problem.kv_len = i == 2 ? 9 : 1200; /* most rows see nothing */
        problem.pattern = leaping[i];
        gradients_make(&g, &problem, true);
        gradients_run(&g, RA_KERNEL_AUTO, 1);
        char *one = gradients_keep(&g);
        for (int run = 0; run < 48; run++) { /* so many, for who is first is a matter of luck */
            gradients_run(&g, RA_KERNEL_AUTO, 3 + run % 4);
            for (int j = 0; j < D_INPUTS; j++)
                REQUIRE(gradients_same(&g, one, j), "%s: other bits of %s with %d threads", gradients_text(&g),
                        names[j], 3 + run % 4);
        }
        free(one);
        gradients_free(&g);
    }
}

/* A gradient has the same bits whether or not the others are wanted, and what is not wanted is not touched. */
static void any_of_the_three(void **state)
{
    (void)state;
    seed_range range = seeds(6);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        gradients g;
        choose_problem(&c, &problem, pattern, sizeof pattern);
        gradients_make_any(&g, &problem, ANY_DTYPE, &c);
        FOR_EACH_KERNEL (kernel) {
            ra_options options = RA_OPTIONS_INIT;
            options.kernel = kernel;
            options.threads = 2;
            gradients_run(&g, kernel, 2);
            char *all = gradients_keep(&g);
            for (int some = 0; some < 8; some++) {
                const bool wanted[D_INPUTS] = {some & 1, some & 2, some & 4};
                ra_stats stats = RA_STATS_INIT;
                gradients_run_as(&g, &options, wanted, &stats);
                for (int i = 0; i < D_INPUTS; i++) {
                    const unsigned char *bytes = g.d[i].memory;
                    bool untouched = true;
                    for (size_t j = 0; j < g.d[i].bytes; j++)
                        untouched &= bytes[j] == 0xff;
                    REQUIRE(wanted[i] ? gradients_same(&g, all, i) : untouched, "seed %llu, %s, %s: %s of %d",
                            (unsigned long long)seed, ra_kernel_name(kernel), gradients_text(&g), names[i], some);
                }
                double flops = 2 * stats.pairs_visible * (double)(3 * problem.head_dim + 2 * problem.value_dim);
                assert_true(stats.flops == flops && stats.peak_bytes <= stats.planned_peak_bytes);
            }
            free(all);
        }
        gradients_free(&g);
    }
}

/* ---- Fewer keys, and nothing at all ------------------------------------------------------------------------------ */

/* A plan for more keys, and tensors with those that are there. */
static void fewer_keys(void **state)
{
    (void)state;
    static const char *const growing[] = {"full", "causal", "window:30,5", "dilated:16/1,64/2", "blocks:16:local=2"};
    for (int i = 0; i < 5; i++) {
        ra_problem problem = problem_of_shape(&shapes[4], growing[i]);
        gradients g;
        gradients_make(&g, &problem, true);
        gradients_solve(&g);
        problem.kv_len += 300;
        FOR_EACH_KERNEL (kernel) {
            ra_options options = RA_OPTIONS_INIT;
            const ra_tensor *t = g.s.tensors;
            ra_plan *plan = NULL;
            options.kernel = kernel;
            gradients_run(&g, kernel, 2); /* output and lse */
            for (int j = 0; j < D_INPUTS; j++)
                memset(g.d[j].memory, 0xff, g.d[j].bytes);
            assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
            assert_int_equal(ra_backward(plan, &t[0], &t[1], &t[2], &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE],
                                         &g.d[D_OUTPUT].view, &g.d[D_LSE].view, &g.d[D_QUERY].view, &g.d[D_KEY].view,
                                         &g.d[D_VALUE].view, NULL),
                             RA_OK);
            ra_plan_free(plan);
            judge(&g, kernel, 0);
        }
        gradients_free(&g);
    }
}

/* Without keys, queries or a batch: zeros where there are elements, and no failure. */
static void nothing_to_do(void **state)
{
    (void)state;
    static const int64_t lengths[][3] = {{1, 5, 0}, {1, 0, 5}, {0, 5, 5}, {1, 0, 0}};
    for (int i = 0; i < 4; i++)
        FOR_EACH_KERNEL (kernel) {
            ra_problem problem = RA_PROBLEM_INIT;
            gradients g;
            problem.batch = lengths[i][0], problem.q_len = lengths[i][1], problem.kv_len = lengths[i][2];
            problem.heads = 2, problem.head_dim = 3;
            gradients_make(&g, &problem, true);
            gradients_run(&g, kernel, 2);
            for (int j = 0; j < D_INPUTS; j++)
                for (size_t at = 0; at < g.d[j].bytes / sizeof(float); at++)
                    assert_true(((const float *)g.d[j].memory)[at] == 0);
            gradients_free(&g);
        }
}

/* ---- How far plain float32 gets ---------------------------------------------------------------------------------- */

/*
 * What the rounding of the largest log-sum-exp does to weights. A naive one has none where one key has all the weight:
 * it is the score of that key. Those of ordinary scores are small, and add nothing.
 */
static double lse_rounding(const gradients *g)
{
    enum { ORDINARY = 16 };
    const float *lse = g->s.memory[SAMPLE_LSE];
    float largest = 0;
    for (size_t i = 0; i < g->s.bytes[SAMPLE_LSE] / sizeof *lse; i++)
        largest = fmaxf(largest, fabsf(lse[i]));
    return largest > ORDINARY ? 0x1p-24 * (double)largest : 0;
}

static void no_worse_than_twice_naive(gradients *g, const char *what)
{
    double naive[D_INPUTS];
    gradients_solve(g);
    naive_errors(g, naive);
    FOR_EACH_KERNEL (kernel) {
        gradients_run(g, kernel, 2);
        for (int i = 0; i < D_INPUTS; i++) {
            double error = gradients_error(g, i), allowed = 2 * naive[i] + 2 * (double)FLT_EPSILON + lse_rounding(g);
            REQUIRE(error <= allowed, "%s, %s, %s: %s off by %.2e of %.2e", what, ra_kernel_name(kernel),
                    gradients_text(g), names[i], error, allowed);
        }
    }
}

static void standard_normal(int64_t length, int64_t heads, int64_t dim, const char *pattern)
{
    ra_problem problem = RA_PROBLEM_INIT;
    gradients g;
    problem.q_len = length, problem.heads = heads, problem.kv_heads = 1, problem.head_dim = dim;
    problem.pattern = pattern;
    gradients_make(&g, &problem, true);
    no_worse_than_twice_naive(&g, pattern);
    FOR_EACH_KERNEL (kernel) {
        gradients_run(&g, kernel, 2);
        judge(&g, kernel, 0);
    }
    gradients_free(&g);
}

static void standard_normal_inputs(void **state)
{
    (void)state;
    standard_normal(512, 1, 64, "full");
    standard_normal(400, 2, 128, "causal");
}

static void standard_normal_of_4096(void **state)
{
    (void)state;
    standard_normal(4096, 1, 64, "full");
    standard_normal(4096, 1, 128, "causal");
    standard_normal(4096, 2, 64, "dilated:1024/1,4096/4");
}

static void as_they_are(gradients *g)
{
    (void)g;
}

/* Scores of about -1e3 to 1e3. */
static void make_scores_large(gradients *g)
{
    g->s.problem.scale = 250 / sqrt((double)g->s.problem.head_dim);
}

/* Every query finds one key far above the others. */
static void make_one_key_dominate(gradients *g)
{
    int64_t dim = g->s.problem.head_dim;
    float *q = g->s.memory[SAMPLE_QUERY], *k = g->s.memory[SAMPLE_KEY];
    for (int64_t i = 1; i < g->s.problem.q_len; i++)
        for (int64_t d = 0; d < dim; d++)
            q[i * dim + d] = q[d] + 0.1f * q[i * dim + d];
    for (int64_t d = 0; d < dim; d++)
        k[3 * dim + d] = 3 * q[d];
}

static void make_scores_equal(gradients *g)
{
    int64_t dim = g->s.problem.head_dim;
    float *k = g->s.memory[SAMPLE_KEY];
    for (int64_t j = 1; j < g->s.problem.kv_len; j++)
        memcpy(k + j * dim, k, (size_t)dim * sizeof *k);
}

/* Sums of one sign. */
static void make_gradients_positive(gradients *g)
{
    float *d = g->d[D_OUTPUT].memory;
    for (size_t i = 0; i < g->d[D_OUTPUT].bytes / sizeof *d; i++)
        d[i] = fabsf(d[i]);
}

static void make_values_large(gradients *g)
{
    float *v = g->s.memory[SAMPLE_VALUE];
    for (size_t i = 0; i < g->s.bytes[SAMPLE_VALUE] / sizeof *v; i++)
        v[i] = 1e3f * (v[i] + 4);
}

static void hard_inputs(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*make)(gradients *g);
        int64_t q_len, kv_len, head_dim, value_dim;
    } inputs[] = {
        {"scores of 1e3", make_scores_large, 300, 300, 64, 16},
        {"one key dominates", make_one_key_dominate, 100, 300, 64, 16},
        {"equal scores", make_scores_equal, 400, 400, 64, 16},
        {"positive gradients", make_gradients_positive, 900, 300, 32, 16},
        {"large values", make_values_large, 300, 300, 32, 48},
        {"1024 dimensions", as_they_are, 100, 100, 1024, 1024},
        {"many queries", as_they_are, 3000, 40, 16, 8},
        {"many keys", as_they_are, 40, 3000, 16, 8},
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        gradients g;
        problem.q_len = inputs[i].q_len, problem.kv_len = inputs[i].kv_len, problem.heads = 1;
        problem.head_dim = inputs[i].head_dim, problem.value_dim = inputs[i].value_dim;
        gradients_make(&g, &problem, true);
        inputs[i].make(&g);
        no_worse_than_twice_naive(&g, inputs[i].name);
        gradients_free(&g);
    }
}

/* What a naive pass gives with a mistake, as a part of the tolerances: the worst of the three gradients. */
static double part_with(gradients *g, mistake m)
{
    float *d[D_INPUTS];
    double worst = 0;
    naive_backward(g, m, d);
    for (int i = 0; i < D_INPUTS; i++) {
        memcpy(g->d[i].memory, d[i], g->d[i].bytes);
        worst = fmax(worst, gradients_part(g, i));
        free(d[i]);
    }
    return worst;
}

/* The tolerances let none of the usual mistakes pass. */
static void mistakes_are_noticed(void **state)
{
    (void)state;
    static const double scales[] = {RA_SCALE_DEFAULT, 0.02, 3};
    for (int i = 0; i < 3; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        gradients g;
        problem.q_len = 60, problem.kv_len = 90, problem.heads = 4, problem.kv_heads = 2, problem.head_dim = 16;
        problem.scale = scales[i], problem.pattern = "causal";
        gradients_make(&g, &problem, true);
        gradients_run(&g, RA_KERNEL_AUTO, 1); /* output and lse */
        gradients_solve(&g);
        for (mistake m = NO_MISTAKE; m < MISTAKES; m++) {
            double part = part_with(&g, m);
            REQUIRE(m == NO_MISTAKE ? part <= 1 : part >= 100, "%s, %s: %.2f of its tolerance", mistake_name(m),
                    gradients_text(&g), part);
        }
        gradients_free(&g);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_length),
        cmocka_unit_test(odd_shapes),
        cmocka_unit_test(documents),
        cmocka_unit_test(rates_that_do_not_divide),
        cmocka_unit_test(random_problems),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(bits_of_tasks_that_leap),
        cmocka_unit_test(any_of_the_three),
        cmocka_unit_test(fewer_keys),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(standard_normal_inputs),
        cmocka_unit_test(hard_inputs),
        cmocka_unit_test(mistakes_are_noticed),
    };
    const struct CMUnitTest long_tests[] = {cmocka_unit_test(standard_normal_of_4096)};
    if (argc > 1 && strcmp(argv[1], "long") == 0)
        return cmocka_run_group_tests(long_tests, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
