/* Plans: counts against brute force, what may depend on the number of threads, and every refusal with its message. */
#include "plan/plan.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Counts ---------------------------------------------------------------------------------------------------- */

typedef struct counts {
    double tiles, visible, worked;
} counts;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One group of rows, by asking for every pair: it works whole units of four from the first key to the last it sees. */
static void count_group(const ra_plan *plan, int64_t first, int64_t rows, int lanes, counts *sum)
{
    int64_t from = plan->kv_len, to = 0;
    for (int64_t row = first; row < first + rows; row++)
        for (int64_t key = 0; key < plan->kv_len; key++)
            if (ra_pattern_sees(&plan->pattern, row + plan->offset, key)) {
                sum->visible++;
                from = least(from, key);
                to = key + 1 > to ? key + 1 : to;
            }
    for (int64_t block = 0; block < plan->kv_len; block += RA_KEY_BLOCK) {
        int worked = 0;
        for (int64_t unit = block; unit < block + RA_KEY_BLOCK; unit += RA_KEY_UNIT)
            worked += unit + RA_KEY_UNIT > from && unit < to ? RA_KEY_UNIT : 0;
        sum->tiles += worked > 0;
        sum->worked += worked * lanes;
    }
}

static void counts_are_those_of_brute_force(void **state)
{
    (void)state;
    seed_range range = seeds(300);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        char text[256];
        ra_problem problem = RA_PROBLEM_INIT;
        ra_options options = RA_OPTIONS_INIT;
        ra_plan *plan;
        problem.batch = choose(&c, 1, 3);
        problem.q_len = choose(&c, 1, chance(&c, 3) ? 8 : 150);
        problem.kv_len = choose(&c, 1, 200);
        problem.kv_heads = choose(&c, 1, 3);
        problem.heads = problem.kv_heads * choose(&c, 1, 3);
        problem.head_dim = choose(&c, 1, 20);
        problem.value_dim = choose(&c, 1, 20);
        problem.pattern = text;
        options.kernel = chance(&c, 2) ? RA_KERNEL_GENERIC : RA_KERNEL_AUTO;
        choose_pattern(&c, problem.kv_len, text, sizeof text);
        REQUIRE(!ra_plan_create(&problem, &options, &plan), "seed %llu: %s", (unsigned long long)seed,
                ra_last_message());

        int lanes = plan->variant == RA_VARIANT_DECODE ? 1 : plan->blocking.lanes;
        double heads = (double)(problem.batch * problem.heads);
        counts sum = {0, 0, 0};
        for (int64_t first = 0; first < problem.q_len; first += lanes)
            count_group(plan, first, least(lanes, problem.q_len - first), lanes, &sum);
        ra_plan_info info = RA_PLAN_INFO_INIT;
        assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
        REQUIRE(info.tiles == heads * sum.tiles && info.pairs_visible == heads * sum.visible &&
                    info.pairs_worked == heads * sum.worked &&
                    info.flops == 2 * heads * sum.visible * (double)(problem.head_dim + problem.value_dim),
                "seed %llu, \"%s\": tiles %.0f, visible %.0f, worked %.0f; expected %.0f, %.0f, %.0f",
                (unsigned long long)seed, text, info.tiles, info.pairs_visible, info.pairs_worked, heads * sum.tiles,
                heads * sum.visible, heads * sum.worked);
        ra_plan_free(plan);
    }
}

static void visible_says_what_the_pattern_lets_through(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 3, problem.kv_len = 5, problem.heads = 2, problem.head_dim = 1;
    problem.pattern = "causal+window:2,0";
    ra_plan *plan;
    uint8_t seen[5];
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    assert_int_equal(ra_plan_visible(plan, 1, 1, 0, 5, seen), RA_OK); /* at position 3 */
    assert_memory_equal(seen, ((const uint8_t[]){0, 1, 1, 1, 0}), 5);
    assert_int_equal(ra_plan_visible(plan, 0, 2, 3, 2, seen), RA_OK);
    assert_memory_equal(seen, ((const uint8_t[]){1, 1}), 2);
    assert_int_equal(ra_plan_visible(plan, 0, 0, 5, 0, seen), RA_OK);
    assert_int_equal(ra_plan_visible(plan, 2, 0, 0, 5, seen), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_plan_visible(plan, 0, 3, 0, 5, seen), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "head 0, query 3: must be below 2 and 3");
    assert_int_equal(ra_plan_visible(plan, 0, -1, 0, 5, seen), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_plan_visible(plan, 0, 0, 3, 3, seen), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "keys 3 to 3 + 3: must be within 0..5");
    assert_int_equal(ra_plan_visible(plan, 0, 0, 3, INT64_MAX, seen), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_plan_visible(plan, 0, 0, -1, 1, seen), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_plan_visible(plan, 0, 0, 0, 5, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_plan_visible(NULL, 0, 0, 0, 5, seen), RA_ERROR_ARGUMENT);
    ra_plan_free(plan);
}

/* ---- Threads and memory ---------------------------------------------------------------------------------------- */

static ra_plan_info described(const ra_problem *problem, int threads)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan *plan;
    options.threads = threads;
    assert_int_equal(ra_plan_create(problem, &options, &plan), RA_OK);
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    ra_plan_free(plan);
    return info;
}

/* Whatever changes the order of a row's arithmetic. */
static void arithmetic_does_not_depend_on_threads(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 131072, 8}, {1, 4096, 1}, {9, 20000, 1}, {100, 5000, 2}, {3000, 3000, 8}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        problem.q_len = shapes[i][0], problem.kv_len = shapes[i][1], problem.heads = shapes[i][2];
        problem.head_dim = 64;
        ra_plan_info one = described(&problem, 1);
        for (int threads = 2; threads <= 128; threads += threads) {
            ra_plan_info many = described(&problem, threads);
            assert_int_equal(many.variant, one.variant);
            assert_int_equal(many.kernel, one.kernel);
            assert_int_equal(many.key_spans, one.key_spans);
            assert_true(many.tiles == one.tiles && many.pairs_worked == one.pairs_worked);
            assert_in_range(many.threads, 1, threads);
        }
    }
}

static void few_queries_take_the_decoding_variant(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 1, problem.kv_len = 100000, problem.heads = 2, problem.head_dim = 64;
    ra_plan_info info = described(&problem, 2);
    assert_int_equal(info.variant, RA_VARIANT_DECODE);
    assert_true(info.key_spans > 1);
    problem.q_len = 100;
    info = described(&problem, 2);
    assert_int_equal(info.variant, RA_VARIANT_TILE);
    assert_true(info.key_spans > 1);
    assert_int_equal(info.key_block, 64);
    problem.q_len = 100000;
    assert_int_equal(described(&problem, 2).key_spans, 1);
}

/* The state of long sequences is not kept: what a thread needs is bounded by tile sizes. */
static void memory_is_small_and_does_not_grow(void **state)
{
    (void)state;
    static const int dims[] = {64, 128};
    for (int i = 0; i < 2; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        problem.heads = 8, problem.head_dim = dims[i];
        for (problem.q_len = 8192; problem.q_len <= 1 << 20; problem.q_len *= 2)
            assert_in_range(described(&problem, 2).peak_bytes, 1, (4 << 20) - 1);
        assert_true(described(&problem, 4).peak_bytes == 2 * described(&problem, 2).peak_bytes);
        problem.q_len = 1, problem.kv_len = 131072;
        assert_in_range(described(&problem, 2).peak_bytes, 1, (4 << 20) - 1);
    }
}

/* ---- Defaults -------------------------------------------------------------------------------------------------- */

static void defaults_are_the_counterparts(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 7, problem.heads = 6, problem.head_dim = 16;
    ra_plan *plan;
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    assert_true(plan->batch == 1 && plan->kv_len == 7 && plan->kv_heads == 6 && plan->value_dim == 16);
    assert_true(plan->scale == 0.25);
    assert_int_equal(ra_pattern_sees(&plan->pattern, 0, 6), 1);
    ra_plan_free(plan);
    problem.scale = 0;
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    assert_true(plan->scale == 0);
    ra_plan_free(plan);
    ra_plan_free(NULL);
}

/* ---- Struct sizes: a caller of an older version is served, one of a newer is told ------------------------------- */

static void older_structs_get_defaults_for_the_rest(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 7, problem.heads = 2, problem.head_dim = 16;
    problem.scale = (double)NAN, problem.pattern = "nonsense"; /* not read: the struct ends before them */
    problem.size = offsetof(ra_problem, scale);
    ra_options options = RA_OPTIONS_INIT;
    options.threads = 1, options.kernel = (ra_kernel_id)99;
    options.size = offsetof(ra_options, kernel);
    ra_plan *plan;
    assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
    assert_true(plan->scale == 0.25);

    ra_plan_info info = RA_PLAN_INFO_INIT;
    info.size = offsetof(ra_plan_info, tiles);
    info.tiles = -5;
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    assert_int_equal(info.size, offsetof(ra_plan_info, tiles));
    assert_int_equal(info.key_block, 64);
    assert_true(info.tiles == -5);
    ra_plan_free(plan);
}

static void newer_structs(void **state)
{
    (void)state;
    struct {
        ra_plan_info info;
        char more[64];
    } larger = {RA_PLAN_INFO_INIT, "kept"};
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 7, problem.heads = 2, problem.head_dim = 16;
    ra_plan *plan;
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    larger.info.size = sizeof larger;
    assert_int_equal(ra_plan_describe(plan, &larger.info), RA_OK);
    assert_int_equal(larger.info.size, sizeof larger);
    assert_int_equal(larger.info.key_block, 64);
    assert_string_equal(larger.more, "kept");
    ra_plan_free(plan);

    char message[128];
    problem.size += 8;
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_ERROR_UNSUPPORTED);
    snprintf(message, sizeof message, "ra_problem: size %zu is of a newer version than this library %s", problem.size,
             ra_version());
    assert_string_equal(ra_last_message(), message);
    assert_null(plan);
}

static void structs_that_were_not_set_up(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan *plan;
    problem.q_len = 7, problem.heads = 2, problem.head_dim = 16;
    options.size = 0;
    assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "ra_options: size 0: set the struct up with RA_OPTIONS_INIT");
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    info.size = 0;
    assert_int_equal(ra_plan_describe(plan, &info), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "ra_plan_info: size 0: set the struct up with RA_PLAN_INFO_INIT");
    ra_plan_free(plan);
    problem.size = 0x5a5a5a5a5a5a5a5a;
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_ERROR_ARGUMENT);
    ra_system_info system = RA_SYSTEM_INFO_INIT;
    system.size = 3;
    assert_int_equal(ra_system_describe(&system), RA_ERROR_ARGUMENT);
}

/* ---- Refusals -------------------------------------------------------------------------------------------------- */

/* Changes one thing about a problem that is fine. */
typedef void (*spoiler)(ra_problem *p, ra_options *o);

#define SPOIL(name, ...)                                                                                               \
    static void name(ra_problem *p, ra_options *o)                                                                     \
    {                                                                                                                  \
        (void)p, (void)o;                                                                                              \
        __VA_ARGS__;                                                                                                   \
    }

SPOIL(no_batch, p->batch = 0)
SPOIL(no_queries, p->q_len = 0)
SPOIL(negative_queries, p->q_len = -5)
SPOIL(no_keys, p->kv_len = 0)
SPOIL(negative_keys, p->kv_len = -2)
SPOIL(no_heads, p->heads = 0)
SPOIL(no_kv_heads, p->kv_heads = 0)
SPOIL(heads_that_do_not_divide, p->heads = 6, p->kv_heads = 4)
SPOIL(more_kv_heads, p->heads = 2, p->kv_heads = 4)
SPOIL(no_dim, p->head_dim = 0)
SPOIL(large_dim, p->head_dim = 1025)
SPOIL(no_value_dim, p->value_dim = 0)
SPOIL(large_value_dim, p->value_dim = 1025)
SPOIL(scale_nan, p->scale = (double)NAN)
SPOIL(scale_infinite, p->scale = -(double)INFINITY)
SPOIL(scale_too_large, p->scale = 3e38)
SPOIL(threads_negative, o->threads = -1)
SPOIL(threads_too_many, o->threads = 4097)
SPOIL(kernel_unknown, o->kernel = (ra_kernel_id)9)
SPOIL(kernel_negative, o->kernel = (ra_kernel_id)-1)
SPOIL(pattern_unknown, p->pattern = "casual")
SPOIL(documents_short, p->pattern = "documents:3")
SPOIL(overflowing_batch, p->batch = INT64_C(1) << 40, p->q_len = INT64_C(1) << 30)
SPOIL(overflowing_keys, p->kv_len = INT64_MAX)
SPOIL(overflowing_bytes, p->kv_len = INT64_C(1) << 50)

static const struct refusal {
    spoiler spoil;
    const char *message;
} refusals[] = {
    {no_batch, "batch 0: must be >= 1"},
    {no_queries, "q_len 0: must be >= 1"},
    {negative_queries, "q_len -5: must be >= 1"},
    {no_keys, "kv_len 0: must be >= 1"},
    {negative_keys, "kv_len -2: must be >= 1"},
    {no_heads, "heads 0: must be >= 1"},
    {no_kv_heads, "kv_heads 0: must be >= 1"},
    {heads_that_do_not_divide, "heads 6: must be a multiple of kv_heads 4"},
    {more_kv_heads, "heads 2: must be a multiple of kv_heads 4"},
    {no_dim, "head_dim 0: must be 1..1024"},
    {large_dim, "head_dim 1025: must be 1..1024"},
    {no_value_dim, "value_dim 0: must be 1..1024"},
    {large_value_dim, "value_dim 1025: must be 1..1024"},
    {scale_nan, "scale nan: must be finite as a float, or RA_SCALE_DEFAULT"},
    {scale_infinite, "scale -inf: must be finite as a float, or RA_SCALE_DEFAULT"},
    {scale_too_large, "scale 3e+38: must be finite as a float, or RA_SCALE_DEFAULT"},
    {threads_negative, "threads -1: must be 0 (all cores) or 1..4096"},
    {threads_too_many, "threads 4097: must be 0 (all cores) or 1..4096"},
    {kernel_unknown, "kernel 9: no such kernel"},
    {kernel_negative, "kernel -1: no such kernel"},
    {pattern_unknown, "pattern \"casual\", character 1: expected one of full, causal, window:LEFT,RIGHT, "
                      "documents:LEN,LEN,... or documents:@FILE.npy, found \"casual\""},
    {documents_short, "pattern \"documents:3\": the 1 documents add up to 3, but the key length is 7"},
    {overflowing_batch, "batch 1099511627776 x heads 4 x length 1073741824: too large for 64-bit sizes"},
    {overflowing_keys, "batch 1 x heads 4 x length 9223372036854775807: too large for 64-bit sizes"},
    {overflowing_bytes, "batch 1 x heads 4 x length 1125899906842624: too large for 64-bit sizes"},
};

static ra_status plan_spoilt(spoiler spoil)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    ra_plan *plan = (ra_plan *)&problem; /* must become NULL */
    problem.q_len = 7, problem.heads = 4, problem.head_dim = 16;
    if (spoil)
        spoil(&problem, &options);
    ra_status status = ra_plan_create(&problem, &options, &plan);
    if (status)
        assert_null(plan);
    ra_plan_free(plan);
    return status;
}

static void refusals_say_why(void **state)
{
    (void)state;
    assert_int_equal(plan_spoilt(NULL), RA_OK);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_int_equal(plan_spoilt(refusals[i].spoil), RA_ERROR_ARGUMENT);
        assert_string_equal(ra_last_message(), refusals[i].message);
    }
}

static void null_arguments(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 7, problem.heads = 4, problem.head_dim = 16;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan *plan = NULL;
    assert_int_equal(ra_plan_create(&problem, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_plan_create(NULL, NULL, &plan), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "problem is NULL");
    assert_int_equal(ra_plan_describe(NULL, &info), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "plan is NULL");
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    assert_int_equal(ra_plan_describe(plan, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "info is NULL");
    assert_int_equal(ra_system_describe(NULL), RA_ERROR_ARGUMENT);

    float data[7 * 4 * 16] = {0};
    double row[16];
    ra_tensor x = ra_tensor_dense(data, RA_F32, RA_BSHD, 1, 7, 4, 16);
    assert_int_equal(ra_forward(NULL, &x, &x, &x, &x, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_forward(plan, NULL, &x, &x, &x, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "query: the tensor is NULL");
    assert_int_equal(ra_forward(plan, &x, &x, &x, NULL, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "output: the tensor is NULL");
    assert_int_equal(ra_forward(plan, &x, &x, &x, &x, &x, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "lse: [batch 1, seq 7, heads 4, dim 16] does not match the problem's [batch "
                                           "1, seq 7, heads 4, dim 1]");
    ra_tensor lse = ra_tensor_dense(data, RA_F16, RA_BSHD, 1, 7, 4, 1);
    assert_int_equal(ra_forward(plan, &x, &x, &x, &x, &lse, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "lse: dtype float16: must be float32");
    assert_int_equal(ra_reference_row(plan, &x, &x, &x, 0, 0, 0, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "output is NULL");
    assert_int_equal(ra_reference_row(plan, &x, &x, &x, 0, 4, 0, row, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "batch 0, head 4, query 0: must be below 1, 4 and 7");
    assert_int_equal(ra_reference_row(plan, &x, &x, &x, 0, 3, 6, row, NULL), RA_OK);
    ra_plan_free(plan);
}

/* ---- The environment ------------------------------------------------------------------------------------------- */

static void environment_forces_a_kernel(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 7, problem.heads = 4, problem.head_dim = 16;
    ra_system_info system = RA_SYSTEM_INFO_INIT;
    setenv("RA_KERNEL", "generic", 1);
    assert_int_equal(described(&problem, 1).kernel, RA_KERNEL_GENERIC);
    assert_int_equal(ra_system_describe(&system), RA_OK);
    assert_int_equal(system.kernel, RA_KERNEL_GENERIC);
    setenv("RA_KERNEL", "", 1);
    ra_kernel_id best = described(&problem, 1).kernel;
    unsetenv("RA_KERNEL");
    assert_int_equal(described(&problem, 1).kernel, best);
    assert_true(ra_kernel_available(best));
}

static void environment_with_nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const nonsense[] = {"sse9", "auto", "AVX2", "generic "};
    ra_system_info system = RA_SYSTEM_INFO_INIT;
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        char message[128];
        setenv("RA_KERNEL", nonsense[i], 1);
        snprintf(message, sizeof message, "RA_KERNEL=%s: expected generic, avx2 or avx512", nonsense[i]);
        assert_int_equal(plan_spoilt(NULL), RA_ERROR_ARGUMENT);
        assert_string_equal(ra_last_message(), message);
        assert_int_equal(ra_system_describe(&system), RA_ERROR_ARGUMENT);
    }
    unsetenv("RA_KERNEL");
}

static ra_kernel_id asked_for;

SPOIL(ask_for_kernel, o->kernel = asked_for)

/* What this machine lacks is refused by name, however it was asked for; what it has is taken. */
static void kernels_are_had_or_refused(void **state)
{
    (void)state;
    for (int id = RA_KERNEL_GENERIC; ra_kernel_name((ra_kernel_id)id); id++) {
        asked_for = (ra_kernel_id)id;
        ra_status expected = ra_kernel_available(asked_for) ? RA_OK : RA_ERROR_UNSUPPORTED;
        assert_int_equal(plan_spoilt(ask_for_kernel), expected);
        if (expected)
            assert_non_null(strstr(ra_last_message(), ra_kernel_name(asked_for)));
        setenv("RA_KERNEL", ra_kernel_name(asked_for), 1);
        assert_int_equal(plan_spoilt(NULL), expected);
        if (expected)
            assert_non_null(strstr(ra_last_message(), "RA_KERNEL"));
        unsetenv("RA_KERNEL");
    }
    assert_int_equal(ra_kernel_available(RA_KERNEL_GENERIC), 1);
    assert_int_equal(ra_kernel_available((ra_kernel_id)9), 0);
    assert_null(ra_kernel_name((ra_kernel_id)9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_brute_force),
        cmocka_unit_test(visible_says_what_the_pattern_lets_through),
        cmocka_unit_test(arithmetic_does_not_depend_on_threads),
        cmocka_unit_test(few_queries_take_the_decoding_variant),
        cmocka_unit_test(memory_is_small_and_does_not_grow),
        cmocka_unit_test(defaults_are_the_counterparts),
        cmocka_unit_test(older_structs_get_defaults_for_the_rest),
        cmocka_unit_test(newer_structs),
        cmocka_unit_test(structs_that_were_not_set_up),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(null_arguments),
        cmocka_unit_test(environment_forces_a_kernel),
        cmocka_unit_test(environment_with_nonsense_is_refused),
        cmocka_unit_test(kernels_are_had_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
