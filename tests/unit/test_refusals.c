/* SPDX-License-Identifier: Apache-2.0 */
/* What the public functions refuse, with which message, and how structs of other versions are taken. */
#include "ringattn/ringattn.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

SPOIL(negative_batch, p->batch = -1)
SPOIL(negative_queries, p->q_len = -5)
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
SPOIL(scale_too_large, p->scale = 4e38)
SPOIL(threads_negative, o->threads = -1)
SPOIL(threads_too_many, o->threads = 4097)
SPOIL(kernel_unknown, o->kernel = (ra_kernel_id)9)
SPOIL(kernel_negative, o->kernel = (ra_kernel_id)-1)
SPOIL(pattern_unknown, p->pattern = "casual")
SPOIL(documents_short, p->pattern = "documents:3")
SPOIL(rate_beyond_segment, p->pattern = "causal+dilated:4/1,2/3")
SPOIL(density_beyond_one, p->pattern = "blocks:2:density=2")
SPOIL(tiles_unknown, o->tiles = (ra_tile_order)3)
SPOIL(tiles_negative, o->tiles = (ra_tile_order)-1)
SPOIL(overflowing_batch, p->batch = INT64_C(1) << 40, p->q_len = INT64_C(1) << 30)
SPOIL(overflowing_keys, p->kv_len = INT64_MAX)
SPOIL(overflowing_bytes, p->kv_len = INT64_C(1) << 50)

static const struct refusal {
    spoiler spoil;
    const char *message;
} refusals[] = {
    {negative_batch, "batch -1: must be >= 0"},
    {negative_queries, "q_len -5: must be >= 0"},
    {negative_keys, "kv_len -2: must be >= 0"},
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
    {scale_too_large, "scale 4e+38: must be finite as a float, or RA_SCALE_DEFAULT"},
    {threads_negative, "threads -1: must be 0 (all cores) or 1..4096"},
    {threads_too_many, "threads 4097: must be 0 (all cores) or 1..4096"},
    {kernel_unknown, "kernel 9: no such kernel"},
    {kernel_negative, "kernel -1: no such kernel"},
    {pattern_unknown, "pattern \"casual\", character 1: expected one of full, causal[:prefix=N], "
                      "window:LEFT,RIGHT, chunks:SIZE, documents:LEN,LEN,... or "
                      "documents:Q/K,Q/K,... or documents:@FILE.npy, lengths:@FILE.npy, mask:@FILE.npy, "
                      "dilated:W/R,W/R,...[:mode=paper|union|grouped|torchscale], "
                      "blocks:SIZE[:local=N][:global=N][:stride=N][:random=N][:seed=S][:density=F][:mask=@FILE.npy], "
                      "found \"casual\""},
    {rate_beyond_segment, "pattern \"causal+dilated:4/1,2/3\", character 22: expected a rate that is no more than its "
                          "segment length, found \"3\""},
    {density_beyond_one, "pattern \"blocks:2:density=2\", character 18: expected a density in (0, 1], as a decimal "
                         "fraction of up to 15 digits, found \"2\""},
    {tiles_unknown, "tiles 3: no such tile order"},
    {tiles_negative, "tiles -1: no such tile order"},
    {documents_short, "pattern \"documents:3\", character 1: the 1 documents add up to 3, but the key length is 7"},
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

static void tile_orders_have_names(void **state)
{
    (void)state;
    assert_string_equal(ra_tile_order_name(RA_TILES_ROW), "row");
    assert_string_equal(ra_tile_order_name(RA_TILES_SERPENTINE), "serpentine");
    assert_string_equal(ra_tile_order_name(RA_TILES_HILBERT), "hilbert");
    assert_null(ra_tile_order_name((ra_tile_order)3));
    assert_null(ra_tile_order_name((ra_tile_order)-1));
}

/* Every preset is a pattern, and no other name is one. */
static void presets_are_patterns(void **state)
{
    (void)state;
    static const char *const names[] = {
        "longnet", "longnet-causal",   "bigbird",      "longformer",    "sparse90", "bert",
        "vit",     "modernbert-local", "llama",        "llama4-local",  "mixtral",  "qwen3",
        "gemma",   "gemma2",           "gemma2-local", "gpt-oss-local", "bloom",    "mpt"};
    int count = 0;
    for (; ra_preset_name(count); count++) {
        ra_problem problem = RA_PROBLEM_INIT;
        ra_plan *plan;
        problem.q_len = 1000, problem.heads = 4, problem.head_dim = 16;
        problem.pattern = ra_preset(ra_preset_name(count));
        problem.scores = ra_preset_scores(ra_preset_name(count));
        assert_string_equal(ra_preset_name(count), names[count]);
        assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
        ra_plan_free(plan);
    }
    assert_int_equal(count, sizeof names / sizeof *names);
    assert_null(ra_preset_name(-1));
    assert_string_equal(ra_preset("longnet"), "dilated:2048/1,4096/2,8192/4,16384/6,32768/12");
    assert_string_equal(ra_preset("longnet-causal"), "dilated:2048/1,4096/2,8192/4,16384/6,32768/12+causal");
    assert_null(ra_preset("longNet"));
    assert_string_equal(
        ra_last_message(),
        "preset \"longNet\": must be one of longnet, longnet-causal, bigbird, longformer, sparse90, "
        "bert, vit, modernbert-local, llama, llama4-local, mixtral, qwen3, gemma, gemma2, gemma2-local, "
        "gpt-oss-local, bloom, mpt");
    assert_string_equal(ra_preset_scores("gemma2-local"), "softcap:50");
    assert_string_equal(ra_preset_scores("bloom"), "alibi");
    assert_null(ra_preset_scores("llama"));
    assert_null(ra_preset_scores("Bloom"));
    assert_null(ra_preset_scores(NULL));
    assert_null(ra_preset(NULL));
    assert_null(ra_preset(""));
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

static ra_kernel_id planned_kernel(void)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan *plan;
    problem.q_len = 7, problem.heads = 4, problem.head_dim = 16;
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    ra_plan_free(plan);
    return info.kernel;
}

static void environment_forces_a_kernel(void **state)
{
    (void)state;
    ra_system_info system = RA_SYSTEM_INFO_INIT;
    setenv("RA_KERNEL", "generic", 1);
    assert_int_equal(planned_kernel(), RA_KERNEL_GENERIC);
    assert_int_equal(ra_system_describe(&system), RA_OK);
    assert_int_equal(system.kernel, RA_KERNEL_GENERIC);
    setenv("RA_KERNEL", "", 1);
    ra_kernel_id best = planned_kernel();
    unsetenv("RA_KERNEL");
    assert_int_equal(planned_kernel(), best);
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
        snprintf(message, sizeof message, "RA_KERNEL=%s: expected generic, avx2, avx512 or avx512bf16", nonsense[i]);
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
        cmocka_unit_test(older_structs_get_defaults_for_the_rest),
        cmocka_unit_test(newer_structs),
        cmocka_unit_test(structs_that_were_not_set_up),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(tile_orders_have_names),
        cmocka_unit_test(presets_are_patterns),
        cmocka_unit_test(null_arguments),
        cmocka_unit_test(environment_forces_a_kernel),
        cmocka_unit_test(environment_with_nonsense_is_refused),
        cmocka_unit_test(kernels_are_had_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
