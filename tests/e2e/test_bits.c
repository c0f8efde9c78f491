/* SPDX-License-Identifier: Apache-2.0 */
/* What must not change a single bit of the result: threads, the caller's floating-point settings, a row's neighbours.
 */
#include "support/sample.h"
#include "support/unit.h"

#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Tiles and decoding, each with one span of keys and with several. */
static const struct shape {
    int64_t batch, q_len, kv_len, heads, kv_heads;
    ra_variant variant;
    bool spans;
    const char *pattern;
} shapes[] = {
    {2, 150, 200, 4, 2, RA_VARIANT_TILE, false, "causal+window:90,0"},
    {1, 333, 333, 1, 1, RA_VARIANT_TILE, false, "full"},
    {1, 20, 9000, 2, 1, RA_VARIANT_TILE, true, "causal"},
    {2, 2, 700, 6, 3, RA_VARIANT_DECODE, false, "causal"},
    {1, 1, 20000, 4, 2, RA_VARIANT_DECODE, true, "full"},
    {1, 250, 250, 4, 2, RA_VARIANT_TILE, false, "dilated:64/1,200/3+causal"},
    {1, 130, 200, 3, 3, RA_VARIANT_TILE, false, "dilated:50/2,200/3:mode=union"},
    {1, 300, 300, 2, 1, RA_VARIANT_TILE, false, "blocks:40:local=1:random=1"},
    {1, 20, 9000, 2, 1, RA_VARIANT_TILE, true, "blocks:64:global=1:random=40+causal"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void make_shape(sample *s, const struct shape *shape)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = shape->batch, problem.q_len = shape->q_len, problem.kv_len = shape->kv_len;
    problem.heads = shape->heads, problem.kv_heads = shape->kv_heads;
    problem.head_dim = 20, problem.value_dim = 24;
    problem.pattern = shape->pattern;
    sample_make(s, &problem);
}

static void shapes_are_what_they_should_be(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        FOR_EACH_KERNEL (kernel) {
            ra_plan_info info = RA_PLAN_INFO_INIT;
            sample s;
            make_shape(&s, &shapes[i]);
            ra_plan *plan = sample_plan(&s, kernel, 1);
            assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
            assert_int_equal(info.variant, shapes[i].variant);
            assert_int_equal(info.key_spans > 1, shapes[i].spans);
            ra_plan_free(plan);
            sample_free(&s);
        }
}

static void any_number_of_threads(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        FOR_EACH_KERNEL (kernel) {
            sample s;
            make_shape(&s, &shapes[i]);
            sample_run(&s, kernel, 1);
            char *one = sample_keep(&s);
            for (int threads = 2; threads <= 8; threads++) {
                sample_run(&s, kernel, threads);
                REQUIRE(sample_same(&s, one), "%s, %s: other bits with %d threads", ra_kernel_name(kernel),
                        sample_text(&s), threads);
            }
            free(one);
            sample_free(&s);
        }
}

/* ---- The caller's floating-point environment ------------------------------------------------------------------- */

#if defined(__x86_64__)
enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x40, EXCEPTION_FLAGS = 0x3f };

static void set_strange_environment(void)
{
    fesetround(FE_UPWARD);
    _mm_setcsr(_mm_getcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
}

static unsigned environment(void)
{
    return (_mm_getcsr() & ~(unsigned)EXCEPTION_FLAGS) | (unsigned)fegetround() << 16;
}
#else
static void set_strange_environment(void)
{
    fesetround(FE_UPWARD);
}

static unsigned environment(void)
{
    return (unsigned)fegetround();
}
#endif

/* Results that are subnormal, so that flushing them would show. */
static void make_values_tiny(const sample *s)
{
    float *values = s->memory[SAMPLE_VALUE];
    for (size_t i = 0; i < s->bytes[SAMPLE_VALUE] / sizeof *values; i += 3)
        values[i] *= 0x1p-130f;
}

static void callers_rounding_and_denormals(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        FOR_EACH_KERNEL (kernel) {
            sample s;
            fenv_t usual;
            make_shape(&s, &shapes[i]);
            make_values_tiny(&s);
            sample_run(&s, kernel, 2);
            char *kept = sample_keep(&s);
            fegetenv(&usual);
            set_strange_environment();
            unsigned before = environment();
            sample_run(&s, kernel, 2);
            unsigned after = environment();
            fesetenv(&usual);
            assert_int_equal(before, after);
            REQUIRE(sample_same(&s, kept), "%s, %s: the caller's rounding shows", ra_kernel_name(kernel),
                    sample_text(&s));
            free(kept);
            sample_free(&s);
        }
}

/* What is worked out ahead of the run must not depend on it either. */
static void plans_made_under_another_rounding(void **state)
{
    (void)state;
    for (int64_t head_dim = 1; head_dim <= 24; head_dim++) {
        ra_problem problem = RA_PROBLEM_INIT;
        sample s;
        problem.q_len = 20, problem.heads = 1, problem.head_dim = head_dim;
        sample_make(&s, &problem);
        sample_run(&s, RA_KERNEL_AUTO, 1);
        char *kept = sample_keep(&s);
        fesetround(FE_UPWARD);
        sample_run(&s, RA_KERNEL_AUTO, 1);
        fesetround(FE_TONEAREST);
        REQUIRE(sample_same(&s, kept), "head_dim %lld: the rounding that the plan was made with shows",
                (long long)head_dim);
        free(kept);
        sample_free(&s);
    }
}

/* ---- Neighbours ------------------------------------------------------------------------------------------------ */

/* The part of a view from (batch, seq, head) on: one batch, `seq` positions, one head. */
static ra_tensor part(const ra_tensor *t, int64_t batch, int64_t first, int64_t count, int64_t head)
{
    ra_tensor p = *t;
    p.data = (float *)t->data + batch * t->batch_stride + first * t->seq_stride + head * t->head_stride;
    p.batch = p.heads = 1;
    p.seq = count;
    return p;
}

/* One head's last rows, alone and among all others: the pattern knows positions, so they must be the same rows. */
static void rows_alone_and_in_company(void **state)
{
    (void)state;
    static const int64_t counts[] = {150, 149, 100, 31, 9};
    for (int i = 0; i < 5; i++)
        FOR_EACH_KERNEL (kernel) {
            enum { BATCH = 1, HEAD = 3, DIM = 24 };
            sample s;
            make_shape(&s, &shapes[0]);
            sample_run(&s, kernel, 2);
            int64_t count = counts[i], first = s.problem.q_len - count;
            ra_tensor q = part(&s.tensors[SAMPLE_QUERY], BATCH, first, count, HEAD);
            ra_tensor k = part(&s.tensors[SAMPLE_KEY], BATCH, 0, s.problem.kv_len, HEAD / 2);
            ra_tensor v = part(&s.tensors[SAMPLE_VALUE], BATCH, 0, s.problem.kv_len, HEAD / 2);
            ra_tensor among = part(&s.tensors[SAMPLE_OUTPUT], BATCH, first, count, HEAD);
            float alone[150 * DIM];
            ra_tensor output = ra_tensor_dense(alone, RA_F32, RA_BSHD, 1, count, 1, DIM);
            sample single = s; /* the problem alone counts here */
            single.problem.batch = single.problem.heads = single.problem.kv_heads = 1;
            single.problem.q_len = count;
            ra_plan *plan = sample_plan(&single, kernel, 1);
            assert_int_equal(ra_forward(plan, &q, &k, &v, &output, NULL, NULL), RA_OK);
            for (int64_t row = 0; row < count; row++)
                REQUIRE(same_bits(alone + row * DIM, (float *)among.data + row * among.seq_stride, DIM),
                        "%s: row %lld of the last %lld has other bits alone", ra_kernel_name(kernel), (long long)row,
                        (long long)count);
            ra_plan_free(plan);
            sample_free(&s);
        }
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* The same numbers in another layout, with gaps so that no row can be read in place as a part of a dense block. */
static void *lay_out_again(const ra_tensor *from, ra_layout layout, ra_tensor *to)
{
    const int64_t dim = from->dim + 3;
    size_t bytes = (size_t)(from->batch * from->seq * from->heads * dim) * sizeof(float);
    float *data = malloc(bytes);
    assert_non_null(data);
    memset(data, 0xff, bytes);
    *to = ra_tensor_dense(data, RA_F32, layout, from->batch, from->seq, from->heads, dim);
    to->dim = from->dim;
    for (int64_t row = 0; row < from->batch * from->seq * from->heads; row++)
        for (int64_t d = 0; d < from->dim; d++) {
            int64_t batch = row / from->heads / from->seq, seq = row / from->heads % from->seq,
                    head = row % from->heads;
            ra_tensor_set(to, batch, seq, head, d, ra_tensor_get(from, batch, seq, head, d));
        }
    return data;
}

static void layouts_and_strides(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        FOR_EACH_KERNEL (kernel) {
            sample s;
            make_shape(&s, &shapes[i]);
            sample_run(&s, kernel, 2);
            char *kept = sample_keep(&s);
            ra_plan *plan = sample_plan(&s, kernel, 2);
            for (int layout = RA_BSHD; layout <= RA_BHSD; layout++) {
                ra_tensor t[3];
                void *memory[3];
                for (int j = SAMPLE_QUERY; j <= SAMPLE_VALUE; j++)
                    memory[j] = lay_out_again(&s.tensors[j], (ra_layout)layout, &t[j]);
                sample_wipe(&s);
                assert_int_equal(ra_forward(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE],
                                            &s.tensors[SAMPLE_OUTPUT], &s.tensors[SAMPLE_LSE], NULL),
                                 RA_OK);
                REQUIRE(sample_same(&s, kept), "%s, %s: layout %d shows", ra_kernel_name(kernel), sample_text(&s),
                        layout);
                for (int j = 0; j < 3; j++)
                    free(memory[j]);
            }
            ra_plan_free(plan);
            free(kept);
            sample_free(&s);
        }
}

/* ---- One plan, two callers ------------------------------------------------------------------------------------- */

typedef struct caller {
    const ra_plan *plan;
    const sample *inputs;
    ra_tensor output, lse;
    ra_status status;
} caller;

static void *call(void *argument)
{
    caller *c = argument;
    const ra_tensor *t = c->inputs->tensors;
    for (int i = 0; i < 5 && !c->status; i++)
        c->status = ra_forward(c->plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], &c->output, &c->lse, NULL);
    return NULL;
}

static void two_callers_share_a_plan(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        sample s, other;
        pthread_t threads[2];
        make_shape(&s, &shapes[i]);
        make_shape(&other, &shapes[i]);
        sample_run(&s, RA_KERNEL_AUTO, 2);
        char *kept = sample_keep(&s);
        sample_wipe(&s);
        sample_wipe(&other);
        ra_plan *plan = sample_plan(&s, RA_KERNEL_AUTO, 2);
        caller callers[2] = {{plan, &s, s.tensors[SAMPLE_OUTPUT], s.tensors[SAMPLE_LSE], RA_OK},
                             {plan, &s, other.tensors[SAMPLE_OUTPUT], other.tensors[SAMPLE_LSE], RA_OK}};
        for (int t = 0; t < 2; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, call, &callers[t]), 0);
        for (int t = 0; t < 2; t++) {
            pthread_join(threads[t], NULL);
            assert_int_equal(callers[t].status, RA_OK);
        }
        assert_true(sample_same(&s, kept) && sample_same(&other, kept));
        ra_plan_free(plan);
        free(kept);
        sample_free(&s);
        sample_free(&other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_what_they_should_be), cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(callers_rounding_and_denormals), cmocka_unit_test(plans_made_under_another_rounding),
        cmocka_unit_test(rows_alone_and_in_company),      cmocka_unit_test(layouts_and_strides),
        cmocka_unit_test(two_callers_share_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
