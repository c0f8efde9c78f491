/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of bfloat16 through the public functions: within the error that docs/MATH.md states, the same bits for any
 * number of threads and of ranks, NaN and infinity as in float32, and taken where that is promised and nowhere else.
 * Where the processor has no such products, only the refusals are tested; tests/kernel/test_kernel_fast.c has the rest.
 */
#include "compare.h"
#include "support/gradients.h"
#include "support/ring.h"
#include "support/scores.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORACLE_ROWS = 24 };

static const bool all_gradients[D_INPUTS] = {true, true, true};

static ra_options fast_with(int threads)
{
    ra_options options = RA_OPTIONS_INIT;
    options.threads = threads;
    options.precision = RA_PRECISION_FAST;
    return options;
}

static bool available(void)
{
    return ra_kernel_available(RA_KERNEL_AVX512BF16) != 0;
}

typedef struct fast_case {
    ra_problem problem;
    char pattern[256];
    made_scores scores;
    gradients g;
} fast_case;

static void choose_sizes(choices *c, ra_problem *p)
{
    p->batch = choose(c, 1, 2);
    p->kv_heads = choose(c, 1, 2);
    p->heads = p->kv_heads * choose(c, 1, 3);
    p->q_len = choose(c, 9, 150);
    p->kv_len = choose(c, 1, 250);
    p->head_dim = choose(c, 1, chance(c, 6) ? 600 : 70);
    p->value_dim = choose(c, 1, chance(c, 6) ? 200 : 70);
    if (chance(c, 3)) { /* weights are rounded from so many keys on */
        p->batch = 1;
        p->q_len = choose(c, 9, 80);
        p->kv_len = choose(c, 1024, 1300);
        p->head_dim = choose(c, 1, 70);
    }
    if (chance(c, 8)) { /* several spans of keys */
        p->batch = p->heads = p->kv_heads = 1;
        p->q_len = choose(c, 9, 20);
        p->kv_len = choose(c, 4096, 5000);
        p->head_dim = choose(c, 1, 20);
    }
}

static void case_make(fast_case *f, choices *c)
{
    *f = (fast_case){.problem = RA_PROBLEM_INIT};
    choose_sizes(c, &f->problem);
    choose_pattern(c, f->problem.kv_len, f->pattern, sizeof f->pattern);
    f->problem.pattern = f->pattern;
    choose_positions(c, &f->problem);
    if (chance(c, 2))
        make_scores(c, choose_terms(c), &f->problem, &f->scores);
    gradients_make_any(&f->g, &f->problem, RA_BF16, c);
    f->g.fast = true;
}

static void case_free(fast_case *f)
{
    gradients_free(&f->g);
    if (f->problem.scores)
        scores_free(&f->scores);
}

static const char *case_text(const fast_case *f)
{
    static char text[1600];
    snprintf(text, sizeof text, "%s, scores %s", gradients_text(&f->g), f->problem.scores ? f->scores.text : "none");
    return text;
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static void random_problems(void **state)
{
    (void)state;
    static const char *const names[D_INPUTS] = {"d_q", "d_k", "d_v"};
    if (!available())
        skip();
    seed_range range = seeds(100);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        fast_case f;
        double output_part, lse_part;
        case_make(&f, &c);
        oracle_rows rows = sample_oracle(&f.g.s, ORACLE_ROWS, &c);
        oracle_size(&f.g.s, &rows);
        rows.fast = true;
        ra_options options = fast_with((int)choose(&c, 1, 4));
        ra_stats stats = RA_STATS_INIT;
        if (seed % 2) /* found by the dtypes, in both passes */
            options.precision = RA_PRECISION_AUTO;
        gradients_run_as(&f.g, &options, all_gradients, &stats);
        assert_int_equal(stats.kernel, RA_KERNEL_AVX512BF16);
        sample_errors_sized(&f.g.s, &rows, &output_part, &lse_part);
        REQUIRE(output_part <= 1 && lse_part <= 1, "seed %llu, %s: output at %.2f of its tolerance, lse at %.2f",
                (unsigned long long)seed, case_text(&f), output_part, lse_part);
        REQUIRE(sample_padding_kept(&f.g.s) && gradients_padding_kept(&f.g), "seed %llu, %s: padding written",
                (unsigned long long)seed, case_text(&f));
        if (!f.problem.scores || !strstr(f.scores.text, "dropout"))
            gradients_solve(&f.g);
        for (int i = 0; i < D_INPUTS && (!f.problem.scores || !strstr(f.scores.text, "dropout")); i++) {
            double part = gradients_part(&f.g, i);
            REQUIRE(part <= 1, "seed %llu, %s: %s at %.2f of its tolerance", (unsigned long long)seed, case_text(&f),
                    names[i], part);
        }
        oracle_free(&rows);
        case_free(&f);
    }
}

/* The nearest number of bfloat16; of normal numbers. */
static double rounded_to_bf16(double x)
{
    int exponent;
    double fraction = frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

/* The root mean square of all errors, to that of the exact output rounded to bfloat16. */
static double rms_ratio(const sample *s)
{
    choices c = {1};
    const ra_tensor *output = &s->tensors[SAMPLE_OUTPUT];
    oracle_rows rows = sample_oracle(s, 1000, &c);
    double errors = 0, roundings = 0;
    for (int i = 0; i < rows.count; i++)
        for (int64_t d = 0; d < output->dim; d++) {
            const int64_t *at = rows.at[i];
            double exact = rows.output[i * output->dim + d];
            errors += pow(ra_tensor_get(output, at[0], at[2], at[1], d) - exact, 2);
            roundings += pow(rounded_to_bf16(exact) - exact, 2);
        }
    oracle_free(&rows);
    return sqrt(errors / roundings);
}

static void errors_are_those_of_rounding(void **state)
{
    (void)state;
    static const char *const patterns[] = {"full", "causal", "window:40,0", "dilated:64/1,256/2"};
    static const double scales[] = {0.01, 0.125, 1};
    if (!available())
        skip();
    for (int i = 0; i < 12; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        sample s;
        choices c = {(uint64_t)i + 1};
        problem.q_len = 400, problem.kv_len = (i + i / 4) % 2 ? 500 : 1100; /* split and rounded weights */
        problem.heads = 2, problem.head_dim = 64;
        problem.pattern = patterns[i % 4];
        problem.scale = scales[i / 4];
        sample_make_any(&s, &problem, RA_BF16, &c);
        ra_options options = fast_with(2);
        sample_run_as(&s, &options, NULL);
        double ratio = rms_ratio(&s), most = problem.kv_len < 1024 ? 1.01 : 1.5;
        REQUIRE(ratio <= most, "%s: errors are %.2f of those of rounding", sample_text(&s), ratio);
        sample_free(&s);
    }
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    if (!available())
        skip();
    seed_range range = seeds(20);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        fast_case f;
        case_make(&f, &c);
        ra_options options = fast_with(1);
        gradients_run_as(&f.g, &options, all_gradients, NULL);
        char *forward = sample_keep(&f.g.s), *backward = gradients_keep(&f.g);
        for (options.threads = 2; options.threads <= 8; options.threads += 3) {
            gradients_run_as(&f.g, &options, all_gradients, NULL);
            bool same = sample_same(&f.g.s, forward);
            for (int i = 0; i < D_INPUTS; i++)
                same &= gradients_same(&f.g, backward, i);
            REQUIRE(same, "seed %llu, %s: other bits with %d threads", (unsigned long long)seed, case_text(&f),
                    options.threads);
        }
        free(forward);
        free(backward);
        case_free(&f);
    }
}

static ring_case choose_ring(choices *c)
{
    static const ra_strategy strategies[] = {RA_STRATEGY_RING, RA_STRATEGY_ALLGATHER, RA_STRATEGY_BROADCAST};
    static const ra_order orders[] = {RA_ORDER_CONTIGUOUS, RA_ORDER_ZIGZAG, RA_ORDER_STRIPED};
    ring_case ring = ring_case_make((way)choose(c, 0, WAYS - 1), (int)choose(c, 1, 5), strategies[choose(c, 0, 2)],
                                    orders[choose(c, 0, 2)]);
    ring.run = fast_with(1);
    return ring;
}

/* Rows of a rank may begin and end in the middle of a pair of keys. */
static void rings(void **state)
{
    (void)state;
    if (!available())
        skip();
    seed_range range = seeds(80);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        fast_case f;
        double output_part, lse_part;
        case_make(&f, &c);
        ring_case ring = choose_ring(&c);
        ra_options options = fast_with(2);
        gradients_run_as(&f.g, &options, all_gradients, NULL);
        char *kept = sample_keep(&f.g.s);
        oracle_rows rows = sample_oracle(&f.g.s, ORACLE_ROWS, &c);
        oracle_size(&f.g.s, &rows);
        rows.fast = true;
        ra_status status = ring_case_run(&ring, &f.g.s, NULL, NULL);
        REQUIRE(!status, "seed %llu, %s, %s: %s", (unsigned long long)seed, ring_case_text(&ring), case_text(&f),
                ra_last_message());
        sample_errors_sized(&f.g.s, &rows, &output_part, &lse_part);
        REQUIRE(output_part <= 1 && lse_part <= 1, "seed %llu, %s, %s: output at %.2f of its tolerance, lse at %.2f",
                (unsigned long long)seed, ring_case_text(&ring), case_text(&f), output_part, lse_part);
        bool promised = ring.options.strategy == RA_STRATEGY_BROADCAST && !strstr(f.pattern, "dilated");
        REQUIRE(!promised || sample_same(&f.g.s, kept), "seed %llu, %s, %s: other bits than in one piece",
                (unsigned long long)seed, ring_case_text(&ring), case_text(&f));
        oracle_free(&rows);
        free(kept);
        case_free(&f);
    }
}

/* Dense gradients, as a ring of tests writes them. */
static void make_dense(gradients *g)
{
    for (int i = 0; i < D_INPUTS; i++) {
        placed *d = &g->d[i];
        const ra_tensor *t = &d->view;
        free(d->memory);
        d->bytes = (size_t)(t->batch * t->seq * t->heads * t->dim) * sizeof(uint16_t);
        d->memory = malloc(d->bytes + 1);
        assert_non_null(d->memory);
        d->view = ra_tensor_dense(d->memory, RA_BF16, RA_BSHD, t->batch, t->seq, t->heads, t->dim);
    }
}

static void gradients_over_rings(void **state)
{
    (void)state;
    if (!available())
        skip();
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        fast_case f;
        case_make(&f, &c);
        make_dense(&f.g);
        ring_case ring = choose_ring(&c);
        ra_tensor tensors[RING_GRADIENTS] = {f.g.d[D_OUTPUT].view, f.g.d[D_LSE].view, f.g.d[D_QUERY].view,
                                             f.g.d[D_KEY].view, f.g.d[D_VALUE].view};
        if (!f.g.with_lse)
            tensors[RING_D_LSE].data = NULL;
        ring.backward = tensors;
        ra_options options = fast_with(1);
        gradients_run_as(&f.g, &options, all_gradients, NULL);
        char *kept = gradients_keep(&f.g);
        ra_status status = ring_case_run(&ring, &f.g.s, NULL, NULL);
        REQUIRE(!status, "seed %llu, %s, %s: %s", (unsigned long long)seed, ring_case_text(&ring), case_text(&f),
                ra_last_message());
        bool drops = f.problem.scores && strstr(f.scores.text, "dropout");
        bool promised = ring.options.strategy == RA_STRATEGY_BROADCAST && !strstr(f.pattern, "dilated");
        if (!drops)
            gradients_solve(&f.g);
        for (int i = 0; i < D_INPUTS; i++) {
            double part = drops ? 0 : gradients_part(&f.g, i);
            REQUIRE(part <= 1, "seed %llu, %s, %s: gradient %d at %.2f of its tolerance", (unsigned long long)seed,
                    ring_case_text(&ring), case_text(&f), i, part);
            REQUIRE(!promised || gradients_same(&f.g, kept, i), "seed %llu, %s, %s: other bits of gradient %d",
                    (unsigned long long)seed, ring_case_text(&ring), case_text(&f), i);
        }
        free(kept);
        case_free(&f);
    }
}

/* ---- NaN and infinity -------------------------------------------------------------------------------------------- */

/* 0: finite; else NaN or one of the infinities. */
static int kind_of(double x)
{
    return isnan(x) ? 3 : isinf(x) ? (x > 0 ? 1 : 2) : 0;
}

static char *kinds_of(const ra_tensor *t)
{
    char *kinds = malloc((size_t)(t->batch * t->seq * t->heads * t->dim) + 1), *to = kinds;
    assert_non_null(kinds);
    for (int64_t row = 0; row < t->batch * t->seq * t->heads; row++)
        for (int64_t d = 0; d < t->dim; d++)
            *to++ =
                (char)kind_of(ra_tensor_get(t, row / t->heads / t->seq, row / t->heads % t->seq, row % t->heads, d));
    return kinds;
}

static void spoil_element(const ra_tensor *t, choices *c, double x)
{
    ra_tensor_set(t, choose(c, 0, t->batch - 1), choose(c, 0, t->seq - 1), choose(c, 0, t->heads - 1),
                  choose(c, 0, t->dim - 1), x);
}

/* What is not finite shows where it does in float32: a key of a pair that is hidden hides only itself. */
static void not_finite_as_in_float32(void **state)
{
    (void)state;
    static const double values[] = {NAN, INFINITY, -INFINITY};
    if (!available())
        skip();
    seed_range range = seeds(120);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[256];
        gradients g;
        choose_sizes(&c, &problem);
        choose_pattern(&c, problem.kv_len, pattern, sizeof pattern);
        problem.pattern = pattern;
        gradients_make_any(&g, &problem, RA_BF16, &c);
        ra_tensor *of[] = {&g.s.tensors[SAMPLE_QUERY], &g.s.tensors[SAMPLE_KEY], &g.s.tensors[SAMPLE_VALUE],
                           &g.d[D_OUTPUT].view};
        spoil_element(of[choose(&c, 0, 3)], &c, values[choose(&c, 0, 2)]);
        const ra_tensor *results[] = {&g.s.tensors[SAMPLE_OUTPUT], &g.s.tensors[SAMPLE_LSE], &g.d[D_QUERY].view,
                                      &g.d[D_KEY].view, &g.d[D_VALUE].view};
        char *exact[5];
        ra_options options = RA_OPTIONS_INIT;
        options.precision = RA_PRECISION_EXACT;
        gradients_run_as(&g, &options, all_gradients, NULL);
        for (int i = 0; i < 5; i++)
            exact[i] = kinds_of(results[i]);
        options.precision = RA_PRECISION_FAST;
        gradients_run_as(&g, &options, all_gradients, NULL);
        for (int i = 0; i < 5; i++) {
            char *fast = kinds_of(results[i]);
            const ra_tensor *t = results[i];
            int64_t count = t->batch * t->seq * t->heads * t->dim;
            /* Outputs are the same; the sign of an infinite gradient is that of a sum of terms that are rounded. */
            for (int64_t j = 0; j < count; j++)
                REQUIRE(i < 2 ? fast[j] == exact[i][j] : !fast[j] == !exact[i][j],
                        "seed %llu, %s: element %lld of result %d is of kind %d, not %d", (unsigned long long)seed,
                        gradients_text(&g), (long long)j, i, fast[j], exact[i][j]);
            free(fast);
            free(exact[i]);
        }
        gradients_free(&g);
    }
}

/* ---- Where it is taken ------------------------------------------------------------------------------------------- */

static ra_kernel_id kernel_of(const sample *s, ra_kernel_id kernel, ra_precision precision)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_stats stats = RA_STATS_INIT;
    options.kernel = kernel;
    options.precision = precision;
    sample_run_as(s, &options, &stats);
    return stats.kernel;
}

static void auto_is_fast_where_all_is_bfloat16(void **state)
{
    (void)state;
    if (!available())
        skip();
    for (int odd = -1; odd <= SAMPLE_OUTPUT; odd++) {
        ra_problem problem = RA_PROBLEM_INIT;
        sample s;
        problem.q_len = 40, problem.heads = 2, problem.head_dim = 16;
        sample_make(&s, &problem);
        for (int i = 0; i <= SAMPLE_OUTPUT; i++) /* views of half as many elements: what they hold does not matter */
            if (i != odd)
                s.tensors[i].dtype = RA_BF16;
        memset(s.memory[SAMPLE_QUERY], 0, s.bytes[SAMPLE_QUERY]);
        ra_precision precision = ra_kernel_precision(kernel_of(&s, RA_KERNEL_AUTO, RA_PRECISION_AUTO));
        assert_int_equal(precision, odd < 0 ? RA_PRECISION_FAST : RA_PRECISION_EXACT);
        assert_int_equal(ra_kernel_precision(kernel_of(&s, RA_KERNEL_AUTO, RA_PRECISION_EXACT)), RA_PRECISION_EXACT);
        assert_int_equal(kernel_of(&s, RA_KERNEL_AVX512, RA_PRECISION_AUTO), RA_KERNEL_AVX512);
        ra_rank_stats stats[2] = {RA_RANK_STATS_INIT, RA_RANK_STATS_INIT};
        ring_case ring = ring_case_make(WAY_SIM, 2, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
        ring.run = (ra_options)RA_OPTIONS_INIT;
        REQUIRE(!ring_case_run(&ring, &s, stats, NULL), "%s", ra_last_message());
        assert_int_equal(ra_kernel_precision(stats[0].kernel), precision);
        setenv("RA_KERNEL", "avx512", 1);
        assert_int_equal(kernel_of(&s, RA_KERNEL_AUTO, RA_PRECISION_AUTO), RA_KERNEL_AVX512);
        unsetenv("RA_KERNEL");
        sample_free(&s);
    }
}

static void fast_refuses_what_is_not_bfloat16(void **state)
{
    (void)state;
    static const char *const names[] = {"query", "key", "value", "output"};
    if (!available())
        skip();
    for (int odd = 0; odd <= SAMPLE_OUTPUT; odd++) {
        ra_problem problem = RA_PROBLEM_INIT;
        ra_options options = fast_with(1);
        ra_plan *plan = NULL;
        sample s;
        char message[80];
        problem.q_len = 40, problem.heads = 2, problem.head_dim = 16;
        sample_make(&s, &problem);
        ra_tensor *t = s.tensors;
        for (int i = 0; i <= SAMPLE_OUTPUT; i++)
            t[i].dtype = i == odd ? RA_F32 : RA_BF16;
        snprintf(message, sizeof message, "precision fast: %s is float32: must be bfloat16", names[odd]);
        assert_int_equal(ra_plan_create(&s.problem, &options, &plan), RA_OK);
        assert_int_equal(ra_forward(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], &t[SAMPLE_OUTPUT],
                                    &t[SAMPLE_LSE], NULL),
                         RA_ERROR_ARGUMENT);
        assert_string_equal(ra_last_message(), message);
        ra_plan_free(plan);
        ring_case ring = ring_case_make(WAY_SIM, 2, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
        ring.run = options;
        assert_int_equal(ring_case_run(&ring, &s, NULL, NULL), RA_ERROR_ARGUMENT);
        assert_string_equal(ra_last_message(), message);
        sample_free(&s);
    }
}

static void be_exact(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)problem;
    (void)options;
    run->precision = RA_PRECISION_EXACT;
}

/* As if one rank had a processor without such products. */
static void ranks_with_other_products_are_told(void **state)
{
    (void)state;
    if (!available())
        skip();
    ra_problem problem = RA_PROBLEM_INIT;
    choices c = {1};
    sample s;
    problem.q_len = 100, problem.heads = 2, problem.head_dim = 16;
    sample_make_any(&s, &problem, RA_BF16, &c);
    ring_case ring = ring_case_make(WAY_THREADS, 3, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
    ring.run = (ra_options)RA_OPTIONS_INIT;
    ring.odd_rank = 1;
    ring.odd = be_exact;
    assert_int_equal(ring_case_run(&ring, &s, NULL, NULL), RA_ERROR_ARGUMENT);
    REQUIRE(strstr(ring_message(0), "\"kernel: avx512\"") && strstr(ring_message(0), "\"kernel: avx512bf16\""), "%s",
            ring_message(0));
    sample_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_problems),
        cmocka_unit_test(errors_are_those_of_rounding),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(rings),
        cmocka_unit_test(gradients_over_rings),
        cmocka_unit_test(not_finite_as_in_float32),
        cmocka_unit_test(auto_is_fast_where_all_is_bfloat16),
        cmocka_unit_test(fast_refuses_what_is_not_bfloat16),
        cmocka_unit_test(ranks_with_other_products_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
