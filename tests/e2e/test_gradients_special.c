/* SPDX-License-Identifier: Apache-2.0 */
/* NaN and infinity in gradients: they show in exactly the rows that depend on them. */
#include "compare.h"
#include "support/gradients.h"
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[D_INPUTS] = {"d_q", "d_k", "d_v"};
static const double poisons[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};

static const struct {
    int64_t q_len, kv_len;
    const char *pattern;
} shapes[] = {
    {75, 75, "full"},
    {75, 75, "causal"},
    {75, 75, "window:9,4"},
    {75, 75, "documents:13,50,12"},
    {75, 75, "window:0"},
    {90, 70, "causal"},
    {20, 150, "causal+window:66,0"},
    {75, 75, "dilated:16/2,40/1"},
    {75, 75, "blocks:8:local=1"},
    {3, 150, "window:66,0"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* A gradient that is not finite in the oracle is not finite, and one that is finite there is that. */
static void check_values(const gradients *g, ra_kernel_id kernel, const char *what, int64_t row)
{
    for (int i = 0; i < D_INPUTS; i++) {
        const float *got = g->d[i].memory;
        for (int64_t j = 0; j < (int64_t)(g->d[i].bytes / sizeof *got); j++) {
            bool both = !isfinite(got[j]) && !isfinite(g->exact[i][j]);
            double error = both ? 0 : distance((double)got[j], g->exact[i][j], RA_F32);
            REQUIRE(error <= 4e-6 * fmax(1, fabs(g->exact[i][j])) * 4,
                    "%s, %s, %s %lld: element %lld of %s is %g, not %g", ra_kernel_name(kernel), gradients_text(g),
                    what, (long long)row, (long long)j, names[i], (double)got[j], g->exact[i][j]);
        }
    }
}

/* Elements that are finite in the oracle after as before the poison, and the same, depend on nothing that changed. */
static void check_bits(const gradients *g, ra_kernel_id kernel, const char *clean, double *const before[D_INPUTS],
                       const char *what, int64_t row)
{
    for (int i = 0; i < D_INPUTS; i++) {
        const float *got = g->d[i].memory, *was = (const float *)clean;
        for (int64_t j = 0; j < (int64_t)(g->d[i].bytes / sizeof *got); j++)
            REQUIRE(g->exact[i][j] != before[i][j] || same_bits(&got[j], &was[j], 1),
                    "%s, %s, %s %lld touched element %lld of %s", ra_kernel_name(kernel), gradients_text(g), what,
                    (long long)row, (long long)j, names[i]);
        clean += g->d[i].bytes;
    }
}

static void poison(gradients *g, ra_kernel_id kernel, const ra_tensor *t, const char *what)
{
    double *before[D_INPUTS];
    gradients_run(g, kernel, 2);
    gradients_solve(g);
    char *clean = gradients_keep(g);
    for (int i = 0; i < D_INPUTS; i++) {
        size_t bytes = g->d[i].bytes / sizeof(float) * sizeof(double);
        assert_non_null(before[i] = malloc(bytes));
        memcpy(before[i], g->exact[i], bytes);
    }
    for (int64_t row = 0; row < t->seq; row += t->seq / 3 + 1)
        for (int i = (int)(row % 3); i < 3; i += stride(3)) {
            double was = ra_tensor_get(t, 0, row, 0, t->dim - 1);
            ra_tensor_set(t, 0, row, 0, t->dim - 1, poisons[i]);
            gradients_run(g, kernel, 2);
            gradients_solve(g);
            check_values(g, kernel, what, row);
            check_bits(g, kernel, clean, before, what, row);
            ra_tensor_set(t, 0, row, 0, t->dim - 1, was);
        }
    for (int i = 0; i < D_INPUTS; i++)
        free(before[i]);
    free(clean);
}

static void poison_each(int which, bool of_results, const char *what)
{
    for (int i = 0; i < SHAPES; i++)
        FOR_EACH_KERNEL (kernel) {
            ra_problem problem = RA_PROBLEM_INIT;
            gradients g;
            problem.q_len = shapes[i].q_len, problem.kv_len = shapes[i].kv_len, problem.pattern = shapes[i].pattern;
            problem.heads = 2, problem.kv_heads = 1, problem.head_dim = 5, problem.value_dim = 6;
            gradients_make(&g, &problem, true);
            poison(&g, kernel, of_results ? &g.d[which].view : &g.s.tensors[which], what);
            gradients_free(&g);
        }
}

static void in_d_output(void **state)
{
    (void)state;
    poison_each(D_OUTPUT, true, "d_output row");
}

static void in_d_lse(void **state)
{
    (void)state;
    poison_each(D_LSE, true, "d_lse row");
}

static void in_a_query(void **state)
{
    (void)state;
    poison_each(SAMPLE_QUERY, false, "query");
}

static void in_a_key(void **state)
{
    (void)state;
    poison_each(SAMPLE_KEY, false, "key");
}

static void in_a_value(void **state)
{
    (void)state;
    poison_each(SAMPLE_VALUE, false, "value");
}

/* A NaN in one row of d_output: that row of d_q, and the keys and values that it sees. Said without the oracle. */
static void d_output_shows_where_it_is_seen(void **state)
{
    (void)state;
    enum { LENGTH = 100, ROW = 70 };
    FOR_EACH_KERNEL (kernel) {
        ra_problem problem = RA_PROBLEM_INIT;
        gradients g;
        problem.q_len = LENGTH, problem.heads = 2, problem.head_dim = 4, problem.pattern = "causal+window:9,0";
        gradients_make(&g, &problem, false);
        for (int64_t d = 0; d < 4; d++)
            ra_tensor_set(&g.d[D_OUTPUT].view, 0, ROW, 1, d, (double)NAN);
        gradients_run(&g, kernel, 2);
        for (int i = 0; i < D_INPUTS; i++)
            for (int64_t j = 0; j < (int64_t)LENGTH * 2 * 4; j++) {
                int64_t row = j / 8, head = j / 4 % 2;
                bool seen = head == 1 && (i == D_QUERY ? row == ROW : row <= ROW && row >= ROW - 9);
                float got = ((const float *)g.d[i].memory)[j];
                REQUIRE(seen ? isnan(got) : isfinite(got), "%s: %s, row %lld is %g", ra_kernel_name(kernel), names[i],
                        (long long)row, (double)got);
            }
        gradients_free(&g);
    }
}

/* Rows that see no key have a gradient of +0 and give none, whatever is in them and in what they do not see. */
static void blind_rows(void **state)
{
    (void)state;
    static const int64_t lengths[][2] = {{100, 40}, {5, 1}, {70, 64}};
    FOR_EACH_KERNEL (kernel)
        for (int i = 0; i < 3; i++) {
            ra_problem problem = RA_PROBLEM_INIT;
            gradients g;
            problem.q_len = lengths[i][0], problem.kv_len = lengths[i][1];
            problem.heads = 2, problem.head_dim = 5, problem.pattern = "causal";
            gradients_make(&g, &problem, true);
            int64_t blind = (problem.q_len - problem.kv_len) * 2;
            for (int64_t j = 0; j < blind * 5; j++)
                ((float *)g.d[D_OUTPUT].memory)[j] = ((float *)g.s.memory[SAMPLE_QUERY])[j] = NAN;
            for (int64_t j = 0; j < blind; j++)
                ((float *)g.d[D_LSE].memory)[j] = INFINITY;
            gradients_run(&g, kernel, 2);
            gradients_solve(&g);
            check_values(&g, kernel, "blind rows", blind);
            for (int64_t j = 0; j < blind * 5; j++) {
                float got = ((const float *)g.d[D_QUERY].memory)[j];
                assert_true(got == 0 && !signbit(got));
            }
            gradients_free(&g);
        }
}

/* float16 and bfloat16 gradients are the float32 gradients, rounded once to the nearest. */
static void gradients_are_rounded_once(void **state)
{
    (void)state;
    enum { LENGTH = 150, HEADS = 4, KV_HEADS = 2, DIM = 24, MOST = LENGTH * HEADS * DIM };
    static uint16_t halves[D_INPUTS][MOST];
    for (int wide = 0; wide < 2; wide++)
        FOR_EACH_KERNEL (kernel) {
            ra_dtype dtype = wide ? RA_BF16 : RA_F16;
            ra_problem problem = RA_PROBLEM_INIT;
            gradients g;
            problem.q_len = LENGTH, problem.heads = HEADS, problem.kv_heads = KV_HEADS, problem.head_dim = DIM;
            problem.pattern = "causal";
            gradients_make(&g, &problem, true);
            gradients_run(&g, kernel, 2);
            const ra_tensor *t = g.s.tensors;
            ra_tensor rounded[D_INPUTS];
            for (int i = 0; i < D_INPUTS; i++)
                rounded[i] = ra_tensor_dense(halves[i], dtype, RA_BSHD, 1, LENGTH, t[i].heads, DIM);
            ra_plan *plan = sample_plan(&g.s, kernel, 2);
            assert_int_equal(ra_backward(plan, &t[0], &t[1], &t[2], &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE],
                                         &g.d[D_OUTPUT].view, &g.d[D_LSE].view, &rounded[0], &rounded[1], &rounded[2],
                                         NULL),
                             RA_OK);
            ra_plan_free(plan);
            for (int i = 0; i < D_INPUTS; i++)
                for (int64_t j = 0; j < LENGTH * t[i].heads * DIM; j++) {
                    uint16_t once = 0;
                    ra_tensor one = ra_tensor_dense(&once, dtype, RA_BSHD, 1, 1, 1, 1);
                    ra_tensor_set(&one, 0, 0, 0, 0, (double)((const float *)g.d[i].memory)[j]);
                    REQUIRE(once == halves[i][j], "%s, %s: element %lld of %s", ra_kernel_name(kernel),
                            ra_dtype_name(dtype), (long long)j, names[i]);
                }
            gradients_free(&g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_d_output), cmocka_unit_test(in_d_lse),
        cmocka_unit_test(in_a_query),  cmocka_unit_test(in_a_key),
        cmocka_unit_test(in_a_value),  cmocka_unit_test(d_output_shows_where_it_is_seen),
        cmocka_unit_test(blind_rows),  cmocka_unit_test(gradients_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
