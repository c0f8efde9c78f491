/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: counts against brute force, memory, and what may depend on the number of threads. */
#include "plan/batch.h"
#include "support/naive.h"
#include "support/ragged.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <string.h>

/* ---- Counts ---------------------------------------------------------------------------------------------------- */

typedef struct counts {
    double tiles, visible, worked;
} counts;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Who is asked about pairs: a branch of a head. A pattern without branches has one, of all positions. */
typedef struct asked {
    const ra_plan *plan;
    const naive_term *dilated; /* NULL: none */
    int64_t head;
    int branch;
} asked;

/* What terms that are no branches say, each by its definition. */
static bool others_let(const asked *a, int64_t position, int64_t key)
{
    if (!a->dilated)
        return ra_pattern_sees(&a->plan->pattern, a->head, position, key);
    const ra_pattern *p = &a->plan->pattern;
    if (key < p->valid.lo || key >= p->valid.hi ||
        (p->mask && !ra_mask_has(p->mask, p->batch, a->head, position - p->offset, key)))
        return false;
    for (int i = 0; i < a->plan->pattern.count; i++) {
        const ra_term *term = &a->plan->pattern.terms[i];
        if (term->kind != &ra_term_dilated && !term->kind->sees(term, a->head, position, key))
            return false;
    }
    return true;
}

static bool branch_has(const asked *a, int branch, int64_t position, int64_t key)
{
    int64_t origin = a->plan->key_position;
    return !a->dilated || naive_in_branch(a->dilated, a->plan->heads, branch, a->head, position + origin, key + origin);
}

static bool exclusive(const asked *a)
{
    return a->dilated && a->branch > 0 && strcmp(a->dilated->mode, "union") == 0;
}

static bool sees(const asked *a, int64_t position, int64_t key)
{
    bool seen = key >= 0 && branch_has(a, a->branch, position, key) && others_let(a, position, key);
    for (int earlier = 0; seen && exclusive(a) && earlier < a->branch; earlier++)
        seen = !branch_has(a, earlier, position, key);
    return seen;
}

/*
 * What an exclusive branch works on: the keys of its lattice that intervals let through, whatever is taken of them. A
 * query before the first row of blocks or behind the last has none.
 */
static bool reaches(const asked *a, int64_t position, int64_t key)
{
    const ra_blocks *b = a->plan->pattern.blocks;
    bool seen = key >= a->plan->pattern.valid.lo && key >= 0 && key < a->plan->pattern.valid.hi &&
                !(b && (position < 0 || position / b->size >= b->count)) && branch_has(a, a->branch, position, key);
    for (int i = 0; seen && i < a->plan->pattern.count; i++) {
        const ra_term *term = &a->plan->pattern.terms[i];
        seen = !term->kind->interval || term->kind->sees(term, a->head, position, key);
    }
    return seen;
}

/* Positions of the segment of key 0 that are before it. With rate 1 members are all positions, from key 0 on. */
static int64_t before_keys(const asked *a)
{
    const naive_term *d = a->dilated;
    return d && d->rate[a->branch] > 1 ? a->plan->key_position % d->number[a->branch] : 0;
}

/*
 * The keys that a branch goes through, in its order: those of the offset of its head. Members are numbered from where
 * the segment of key 0 begins, which is before key 0 if its position is no multiple of the segment; with rate 1 they
 * are positions.
 */
static int64_t list_keys(const asked *a, int64_t *keys)
{
    int64_t count = 0;
    for (int64_t key = -before_keys(a); key < a->plan->kv_len; key++)
        if (branch_has(a, a->branch, key, key))
            keys[count++] = key;
    return count;
}

/*
 * One group of rows, by asking for every pair. It works units of four keys of a block from the first that it sees there
 * to the last, or, where nothing is left out between the first and the last of all keys, from that to that.
 */
static void count_group(const asked *a, const int64_t *positions, int64_t rows, const int64_t *keys, int64_t key_count,
                        counts *sum)
{
    bool masked = a->plan->pattern.mask, by_block = masked || (a->plan->pattern.blocks && !exclusive(a));
    const ra_grouping *grouping = &a->plan->all.grouping;
    int64_t from = key_count, to = 0, lanes = rows <= grouping->narrow ? grouping->narrow : grouping->lanes;
    int64_t unseen = 0, skipped = 0; /* blocks without a key that is seen, and such between others */
    for (int64_t block = 0; block < key_count; block += RA_KEY_BLOCK) {
        int64_t first = key_count, last = -1;
        for (int64_t i = block; i < least(block + RA_KEY_BLOCK, key_count); i++) {
            bool some = false;
            for (int64_t row = 0; row < rows; row++) {
                sum->visible += sees(a, positions[row], keys[i]);
                some |=
                    exclusive(a) && !masked ? reaches(a, positions[row], keys[i]) : sees(a, positions[row], keys[i]);
            }
            first = some ? least(first, i) : first;
            last = some ? i : last;
        }
        unseen += last < 0 && from < key_count;
        if (last < 0)
            continue;
        skipped += unseen;
        unseen = 0;
        from = least(from, first);
        to = last + 1;
        sum->tiles += by_block;
        if (by_block)
            sum->worked += (double)((last / RA_KEY_UNIT - first / RA_KEY_UNIT + 1) * RA_KEY_UNIT * lanes);
    }
    if (by_block || from >= to)
        return;
    if (a->plan->pattern.ragged) {
        sum->tiles -= (double)skipped;
        sum->worked -= (double)(skipped * RA_KEY_BLOCK * lanes);
    }
    sum->tiles += (double)((to - 1) / RA_KEY_BLOCK - from / RA_KEY_BLOCK + 1);
    sum->worked += (double)(((to - 1) / RA_KEY_UNIT - from / RA_KEY_UNIT + 1) * RA_KEY_UNIT * lanes);
}

enum { MOST_QUERIES = 200, MOST_KEYS = 200 };

/* The positions of a branch's queries among those of a task, in groups of as many as there are lanes. */
static void count_members(const asked *a, int64_t first, int64_t end, const int64_t *keys, int64_t key_count,
                          counts *sum)
{
    int64_t positions[MOST_QUERIES] = {0}, count = 0;
    for (int64_t query = first; query < end; query++) {
        int64_t position = query + a->plan->offset;
        if (position >= -before_keys(a) && branch_has(a, a->branch, position, position))
            positions[count++] = position;
        bool full = count == a->plan->all.grouping.lanes || query + 1 == end;
        if (full && count)
            count_group(a, positions, count, keys, key_count, sum);
        count = full ? 0 : count;
    }
}

/* All positions: the groups are those of the queries, which are tested elsewhere. */
static void count_query_group(const asked *a, ra_group group, const int64_t *keys, int64_t key_count, counts *sum)
{
    int64_t positions[MOST_QUERIES] = {0};
    for (int i = 0; i < group.rows; i++)
        positions[i] = group.query + i + a->plan->offset;
    count_group(a, positions, group.rows, keys, key_count, sum);
}

static void count_branch(const asked *a, counts *sum)
{
    const ra_workload *work = &a->plan->all;
    int64_t keys[3 * MOST_KEYS] = {0}, key_count = list_keys(a, keys);
    bool every = !a->dilated || a->dilated->rate[a->branch] == 1;
    for (int64_t number = 0; every && number < work->groups; number++)
        count_query_group(a, ra_group_at(&work->queries, &work->grouping, number), keys, key_count, sum);
    for (int64_t tile = 0; !every && tile < work->q_tiles; tile++) {
        ra_group head = ra_group_at(&work->queries, &work->grouping, ra_first_of_tile(work, tile));
        ra_group tail = ra_group_at(&work->queries, &work->grouping, ra_first_of_tile(work, tile + 1) - 1);
        count_members(a, head.query, tail.query + tail.rows, keys, key_count, sum);
    }
}

/* The rows of heads that share a key/value head, side by side in one group. */
static void count_stack(const asked *a, int64_t heads, counts *sum)
{
    const ra_workload *work = &a->plan->all;
    int64_t keys[3 * MOST_KEYS] = {0}, key_count = list_keys(a, keys), positions[MOST_QUERIES] = {0};
    ra_group group = ra_group_at(&work->queries, &work->grouping, 0);
    for (int64_t i = 0; i < heads * group.rows; i++)
        positions[i] = group.query + i % group.rows + a->plan->offset;
    count_group(a, positions, (int)(heads * group.rows), keys, key_count, sum);
}

static void count_stacks(const ra_plan *plan, counts *sum)
{
    asked a = {.plan = plan};
    for (int64_t head = 0; head < plan->heads; head += plan->group_heads)
        for (int64_t first = 0; first < plan->group_heads; first += plan->all.stack) {
            a.head = head + first;
            count_stack(&a, least(plan->all.stack, plan->group_heads - first), sum);
        }
}

static void count_all(const ra_plan *plan, const char *text, counts *sum)
{
    if (plan->all.stack > 1) {
        count_stacks(plan, sum);
        return;
    }
    naive_pattern naive;
    bool dilated = naive_read_dilated(text, plan->kv_len, plan->heads, &naive);
    asked a = {.plan = plan, .dilated = dilated ? naive.terms : NULL};
    for (a.head = 0; a.head < plan->heads; a.head++)
        for (a.branch = 0; a.branch < (dilated ? a.dilated->count : 1); a.branch++)
            count_branch(&a, sum);
}

static void counts_are_those_of_brute_force(void **state)
{
    (void)state;
    seed_range range = seeds(600);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        char text[512];
        ra_problem problem = RA_PROBLEM_INIT;
        ra_options options = RA_OPTIONS_INIT;
        ra_plan *plan;
        problem.batch = choose(&c, 1, 3);
        problem.q_len = choose(&c, 1, chance(&c, 3) ? 8 : 150);
        problem.kv_len = choose(&c, 1, MOST_KEYS);
        problem.kv_heads = choose(&c, 1, 2);
        problem.heads = problem.kv_heads * choose(&c, 1, 2);
        problem.head_dim = choose(&c, 1, 20);
        problem.value_dim = choose(&c, 1, 20);
        problem.pattern = text;
        options.kernel = chance(&c, 2) ? RA_KERNEL_GENERIC : RA_KERNEL_AUTO;
        options.threads = (int)choose(&c, 1, 4);
        options.tiles = (ra_tile_order)choose(&c, 0, 2);
        choose_pattern(&c, problem.kv_len, text, sizeof text);
        choose_positions(&c, &problem);
        choose_ragged(&c, &problem, text, sizeof text);
        REQUIRE(!ra_plan_create(&problem, &options, &plan), "seed %llu: %s", (unsigned long long)seed,
                ra_last_message());

        double batch = ra_plan_by_batch(plan) ? 1 : (double)problem.batch;
        counts sum = {0, 0, 0};
        for (int64_t i = 0; i < ra_plan_elements(plan); i++) {
            ra_plan copy;
            count_all(ra_plan_of_batch(plan, i, &copy), text, &sum);
        }
        ra_plan_info info = RA_PLAN_INFO_INIT;
        assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
        REQUIRE(info.tiles == batch * sum.tiles && info.pairs_visible == batch * sum.visible &&
                    info.pairs_worked == batch * sum.worked &&
                    info.flops == 2 * batch * sum.visible * (double)(problem.head_dim + problem.value_dim),
                "seed %llu, \"%s\": tiles %.0f, visible %.0f, worked %.0f; expected %.0f, %.0f, %.0f",
                (unsigned long long)seed, text, info.tiles, info.pairs_visible, info.pairs_worked, batch * sum.tiles,
                batch * sum.visible, batch * sum.worked);
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
    assert_int_equal(ra_plan_visible_element(plan, -1, 0, 0, 0, 5, seen), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_plan_visible_element(plan, 1, 0, 0, 0, 5, seen), RA_ERROR_ARGUMENT);
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

/* One thread for what it does before another is awake; all of them for what is worth it. */
static void threads_are_taken_by_work(void **state)
{
    (void)state;
    static const int64_t cases[][3] = {{1, 1, 1}, {8, 8, 1}, {1, 64, 1}, {1, 131072, 4}, {1024, 1024, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        problem.q_len = cases[i][0], problem.kv_len = cases[i][1], problem.heads = 8;
        problem.head_dim = 64;
        assert_int_equal(described(&problem, 4).threads, cases[i][2]);
        assert_int_equal(described(&problem, 1).threads, 1);
    }
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
        /* Scratch for each thread, and the plan, which is held once. */
        int64_t plan = 2 * described(&problem, 2).peak_bytes - described(&problem, 4).peak_bytes;
        assert_in_range(plan, sizeof(ra_plan), 8192);
        problem.q_len = 1, problem.kv_len = 131072;
        assert_in_range(described(&problem, 2).peak_bytes, 1, (4 << 20) - 1);
    }
}

/* Nor does what kept blocks and earlier branches need. */
static void memory_of_sparse_patterns_does_not_grow(void **state)
{
    (void)state;
    static const char *const patterns[] = {"dilated:2048/1,4096/2,8192/4", "dilated:2048/1,4096/2:mode=union+causal",
                                           "blocks:64:local=1:global=2:random=3", "blocks:16:local=3+causal"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        problem.heads = 2, problem.head_dim = 64, problem.pattern = patterns[i];
        for (problem.q_len = 8192; problem.q_len <= 1 << 16; problem.q_len *= 2)
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
    assert_int_equal(ra_pattern_sees(&plan->pattern, 0, 0, 6), 1);
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
        cmocka_unit_test(threads_are_taken_by_work),
        cmocka_unit_test(arithmetic_does_not_depend_on_threads),
        cmocka_unit_test(few_queries_take_the_decoding_variant),
        cmocka_unit_test(memory_is_small_and_does_not_grow),
        cmocka_unit_test(memory_of_sparse_patterns_does_not_grow),
        cmocka_unit_test(defaults_are_the_counterparts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
