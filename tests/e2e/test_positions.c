/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Positions of the first query and key: a cache that slides, or has room left, gives the rows that the whole sequence
 * gives; and what others got wrong.
 */
#include "ringattn/ringattn.h"
#include "support/sample.h"
#include "support/unit.h"

#include <string.h>

enum { LENGTH = 40 };

/* How often each query of a problem of `keys` keys from `key_position` on sees each key. */
static void see(const char *pattern, int64_t query_position, int64_t key_position, int64_t keys, uint8_t *counts)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_plan *plan = NULL;
    problem.q_len = 1, problem.kv_len = keys, problem.heads = problem.head_dim = 1;
    problem.query_position = query_position, problem.key_position = key_position, problem.pattern = pattern;
    REQUIRE(!ra_plan_create(&problem, NULL, &plan), "%s", ra_last_message());
    assert_int_equal(ra_plan_visible(plan, 0, 0, 0, keys, counts), RA_OK);
    /* What is run goes by intervals, what is visible by the definition. */
    ra_plan_info info = RA_PLAN_INFO_INIT;
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    for (int64_t key = 0; key < keys; key++)
        info.pairs_visible -= counts[key];
    REQUIRE(info.pairs_visible == 0, "%s, query at %lld, %lld keys from %lld: other pairs", pattern,
            (long long)query_position, (long long)keys, (long long)key_position);
    ra_plan_free(plan);
}

/* A query sees of the keys that are still there what it sees of them in the whole sequence. */
static void a_part_of_the_keys_is_seen_as_in_the_whole(const char *pattern)
{
    uint8_t whole[LENGTH], part[LENGTH];
    for (int64_t query = 0; query < LENGTH; query++)
        for (int64_t first = 0; first < LENGTH; first += 3)
            for (int64_t end = first + 1; end <= LENGTH; end += 4) {
                see(pattern, query, 0, LENGTH, whole);
                see(pattern, query, first, end - first, part);
                for (int64_t key = first; key < end; key++)
                    REQUIRE(part[key - first] == whole[key], "%s, query at %lld, keys %lld to %lld: key %lld", pattern,
                            (long long)query, (long long)first, (long long)end, (long long)key);
            }
}

static void chunks_counted_by_index_instead_of_position(void **state)
{
    (void)state;
    uint8_t counts[4];
    see("chunks:8", 17, 14, 4, counts); /* positions 14 .. 17: the chunk begins at 16 */
    assert_true(!counts[0] && !counts[1] && counts[2] && counts[3]);
    a_part_of_the_keys_is_seen_as_in_the_whole("chunks:8+causal");
}

static void windows_counted_by_index_instead_of_position(void **state)
{
    (void)state;
    uint8_t counts[4];
    see("window:2,0", 12, 9, 4, counts); /* positions 9 .. 12 */
    assert_true(!counts[0] && counts[1] && counts[2] && counts[3]);
    a_part_of_the_keys_is_seen_as_in_the_whole("window:5,2");
}

static void other_terms_count_positions(void **state)
{
    (void)state;
    a_part_of_the_keys_is_seen_as_in_the_whole("causal:prefix=9");
    a_part_of_the_keys_is_seen_as_in_the_whole("dilated:6/1,14/3");
    a_part_of_the_keys_is_seen_as_in_the_whole("dilated:12/5:mode=union+causal");
}

/* With a position of its own the query stays, with fewer keys too; else it moves to the end of them. */
static void queries_stay_where_they_are_placed(void **state)
{
    (void)state;
    static const int64_t placed[] = {RA_SAME, 20};
    for (int i = 0; i < 2; i++) {
        ra_problem problem = RA_PROBLEM_INIT, shorter;
        ra_plan *plan = NULL;
        sample s;
        choices c = {1};
        double output_error, lse_error;
        problem.q_len = 9, problem.kv_len = LENGTH, problem.heads = 2, problem.head_dim = problem.value_dim = 5;
        problem.kv_heads = 2, problem.pattern = "causal+window:12,0", problem.query_position = placed[i];
        shorter = problem;
        shorter.kv_len = 23;
        sample_make(&s, &shorter);
        oracle_rows expected = sample_oracle(&s, 18, &c);
        assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
        const ra_tensor *t = s.tensors;
        REQUIRE(!ra_forward(plan, &t[0], &t[1], &t[2], &t[3], &t[4], NULL), "%s", ra_last_message());
        sample_errors(&s, &expected, &output_error, &lse_error);
        assert_true(output_error <= 1e-5 && lse_error <= 1e-5);
        oracle_free(&expected);
        ra_plan_free(plan);
        sample_free(&s);
    }
}

static void positions_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t query, key;
        const char *said;
    } refused[] = {{-2, 0, "query_position -2: must be >= 0"},
                   {RA_SAME, -1, "key_position -1: must be >= 0"},
                   {INT64_MAX, 0, "query_position 9223372036854775807 with q_len 1: positions must stay below 2^62"},
                   {0, INT64_C(1) << 62, "key_position 4611686018427387904 with kv_len 3: positions must"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        ra_plan *plan = NULL;
        problem.q_len = 1, problem.kv_len = 3, problem.heads = problem.head_dim = 1;
        problem.query_position = refused[i].query, problem.key_position = refused[i].key;
        assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_ERROR_ARGUMENT);
        REQUIRE(strstr(ra_last_message(), refused[i].said), "%s", ra_last_message());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_counted_by_index_instead_of_position),
        cmocka_unit_test(windows_counted_by_index_instead_of_position),
        cmocka_unit_test(other_terms_count_positions),
        cmocka_unit_test(queries_stay_where_they_are_placed),
        cmocka_unit_test(positions_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
