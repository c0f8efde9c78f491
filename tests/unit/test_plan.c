/* Plans: counts against brute force, memory, and what may depend on the number of threads. */
#include "plan/plan.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_brute_force),
        cmocka_unit_test(visible_says_what_the_pattern_lets_through),
        cmocka_unit_test(arithmetic_does_not_depend_on_threads),
        cmocka_unit_test(few_queries_take_the_decoding_variant),
        cmocka_unit_test(memory_is_small_and_does_not_grow),
        cmocka_unit_test(defaults_are_the_counterparts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
