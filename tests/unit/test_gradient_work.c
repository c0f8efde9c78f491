/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a backward pass is divided into tasks, for any pattern and share of the queries: each group of each head and
 * branch is in one task, tasks of a chain are in the order that bits ask for, no task has more groups than there is
 * room for, and the counts are those of the tiles that tasks go through.
 */
#include "base/memory.h"
#include "plan/plan.h"
#include "shares.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A problem that is planned, with the lanes of some table, and who has which queries. */
typedef struct work_case {
    ra_plan *plan;
    ra_partition queries;
    int ranks, threads;
    char text[600], what[800];
} work_case;

static ra_problem choose_problem(choices *c, int64_t longest)
{
    ra_problem problem = RA_PROBLEM_INIT;
    longest = chance(c, 4) ? longest : longest / 4;
    problem.batch = choose(c, 1, 2);
    problem.kv_heads = choose(c, 1, 3);
    problem.heads = problem.kv_heads * choose(c, 1, 3);
    problem.head_dim = choose(c, 1, chance(c, 3) ? 128 : 16);
    problem.q_len = choose(c, 1, longest);
    problem.kv_len = chance(c, 2) ? problem.q_len : choose(c, 1, longest);
    return problem;
}

/* Dilated branches with any segments: those that are no multiple of their rate have more members than 1 in so many. */
static void choose_branches(choices *c, char *text, size_t size)
{
    int64_t branches = choose(c, 1, 3);
    size_t at = (size_t)snprintf(text, size, "dilated:");
    for (int64_t i = 0; i < branches; i++) {
        int64_t segment = choose(c, 1, chance(c, 2) ? 12 : 700), rate = choose(c, 1, segment < 9 ? segment : 9);
        at += (size_t)snprintf(text + at, size - at, "%s%lld/%lld", i ? "," : "", (long long)segment, (long long)rate);
    }
}

static void choose_work(choices *c, work_case *w, int64_t longest, uint64_t seed)
{
    static const ra_blocking BLOCKINGS[] = {
        {.lanes = 8, .narrow = 4}, {.lanes = 24, .narrow = 16}, {.lanes = 64, .narrow = 48}};
    static const ra_tile_order ORDERS[] = {RA_TILES_ROW, RA_TILES_ROW, RA_TILES_SERPENTINE, RA_TILES_HILBERT};
    ra_problem problem = choose_problem(c, longest);
    ra_options options = RA_OPTIONS_INIT;
    if (chance(c, 3))
        choose_branches(c, w->text, sizeof w->text);
    else
        choose_pattern(c, problem.kv_len, w->text, sizeof w->text);
    problem.pattern = w->text;
    choose_positions(c, &problem);
    options.tiles = ORDERS[choose(c, 0, 3)];
    w->threads = (int)choose(c, 1, 8);
    w->ranks = (int)choose(c, 1, 5);
    w->plan = NULL;
    REQUIRE(!ra_plan_create(&problem, &options, &w->plan), "%s: %s", w->text, ra_last_message());
    w->plan->blocking = BLOCKINGS[choose(c, 0, 2)];
    choose_partition(c, problem.q_len, w->ranks, &w->queries);
    snprintf(w->what, sizeof w->what, "seed %llu, %d lanes, %lld:%lld heads, %lld queries, %lld keys, \"%s\"",
             (unsigned long long)seed, w->plan->blocking.lanes, (long long)problem.heads, (long long)problem.kv_heads,
             (long long)problem.q_len, (long long)problem.kv_len, w->text);
}

static void work_free(work_case *w)
{
    ra_partition_clear(&w->queries);
    ra_plan_free(w->plan);
}

/* Does something with the workload of every rank that has queries, for many seeds and lengths up to one. */
static void for_each_workload(int quick, int64_t longest, void (*check)(const work_case *w, const ra_workload *work))
{
    for (seed_range s = seeds(quick); s.first < s.end; s.first++) {
        choices c = {s.first};
        work_case w;
        choose_work(&c, &w, longest, s.first);
        for (int rank = 0; rank < w.ranks; rank++) {
            ra_workload work;
            ra_workload_lay_out_gradient(&work, w.plan, ra_partition_share(&w.queries, rank), w.threads);
            if (work.queries.rows > 0)
                check(&w, &work);
        }
        work_free(&w);
    }
}

/* ---- Tasks ------------------------------------------------------------------------------------------------------- */

/* One place for each head, branch and group. */
static int64_t place_of(const ra_workload *work, int64_t head, int branch, int64_t group)
{
    return (head * RA_BRANCHES + branch) * work->groups + group;
}

/* Counts the groups of a task, which comes behind those of the same head and branch that were counted before. */
static void count_task(const work_case *w, const ra_workload *work, const ra_gradient_tile *t, int *counts)
{
    REQUIRE(t->groups > 0 && t->first_group >= 0 && t->first_group + t->groups <= work->groups,
            "%s: groups %lld + %lld of %lld", w->what, (long long)t->first_group, (long long)t->groups,
            (long long)work->groups);
    for (int64_t head = t->first_head; head < t->first_head + t->heads; head++)
        for (int64_t group = t->first_group; group < t->first_group + t->groups; group++) {
            REQUIRE(group == 0 || counts[place_of(work, head, t->branch, group - 1)],
                    "%s: group %lld of head %lld, branch %d, comes before the one before it", w->what, (long long)group,
                    (long long)head, t->branch);
            counts[place_of(work, head, t->branch, group)]++;
        }
}

/* Without dilation groups of all heads of a chain go on together: none is begun before the one before it is done. */
static void check_order(const work_case *w, const ra_gradient_tile *before, const ra_gradient_tile *t)
{
    bool same = t->first_group == before->first_group, follows = t->first_group == before->first_group + before->groups;
    REQUIRE(w->plan->pattern.dilation || (same && t->first_head > before->first_head) || follows,
            "%s: groups from %lld on come behind those from %lld on", w->what, (long long)t->first_group,
            (long long)before->first_group);
}

static void check_chain(const work_case *w, const ra_workload *work, int64_t kv_head, int *counts)
{
    const ra_plan *p = w->plan;
    ra_gradient_tile before;
    for (int64_t task = 0; task < ra_chain_tasks(work, p, kv_head); task++) {
        ra_gradient_tile t = ra_gradient_tile_at(work, p, kv_head, task);
        REQUIRE(t.first_head >= kv_head * p->group_heads && t.first_head + t.heads <= (kv_head + 1) * p->group_heads,
                "%s: heads %lld + %lld in the chain of %lld", w->what, (long long)t.first_head, (long long)t.heads,
                (long long)kv_head);
        /* Heads that see their own blocks take turns: longer tasks would change the order with the threads. */
        REQUIRE(t.groups == 1 || !p->pattern.blocks || p->pattern.dilation || p->group_heads == 1,
                "%s: a task has %lld groups", w->what, (long long)t.groups);
        count_task(w, work, &t, counts);
        if (task > 0)
            check_order(w, &before, &t);
        before = t;
    }
}

/* Each group of each head and branch is in one task, in the order of queries. */
static void check_tasks(const work_case *w, const ra_workload *work)
{
    const ra_plan *p = w->plan;
    int *counts = calloc((size_t)(p->heads * RA_BRANCHES * work->groups), sizeof *counts);
    int64_t tasks = 0;
    assert_non_null(counts);
    for (int64_t kv_head = 0; kv_head < p->kv_heads; kv_head++) {
        check_chain(w, work, kv_head, counts);
        tasks += p->batch * ra_chain_tasks(work, p, kv_head);
    }
    assert_int_equal(tasks, work->tasks);
    assert_true(work->threads >= 1 && work->threads <= w->threads && work->threads <= work->tasks);
    for (int64_t head = 0; head < p->heads; head++)
        for (int branch = 0; branch < RA_BRANCHES; branch++)
            for (int64_t group = 0; group < work->groups; group++)
                REQUIRE(counts[place_of(work, head, branch, group)] ==
                            (branch < ra_pattern_branches(&p->pattern, head)),
                        "%s: group %lld of head %lld, branch %d, is in %d tasks", w->what, (long long)group,
                        (long long)head, branch, counts[place_of(work, head, branch, group)]);
    free(counts);
}

static void each_group_is_in_one_task(void **state)
{
    (void)state;
    for_each_workload(300, 6000, check_tasks);
}

/* What is added to a key in one go does not depend on where shares begin: groups end with every 64th query. */
static void check_cuts(const work_case *w, const ra_workload *work)
{
    for (int64_t i = 0; i < work->groups; i++) {
        ra_group g = ra_group_at(&work->queries, &work->grouping, i);
        REQUIRE(g.rows >= 1 && g.query / RA_KEY_BLOCK == (g.query + g.rows - 1) / RA_KEY_BLOCK,
                "%s: a group has queries %lld + %d", w->what, (long long)g.query, g.rows);
    }
}

static void groups_end_with_every_64th_query(void **state)
{
    (void)state;
    for_each_workload(200, 6000, check_cuts);
}

/* No task has more groups than its scratch has room for, in no branch. */
static void check_room(const work_case *w, const ra_workload *work)
{
    const ra_plan *p = w->plan;
    for (int64_t kv_head = 0; kv_head < p->kv_heads; kv_head++)
        for (int64_t task = 0; task < ra_chain_tasks(work, p, kv_head); task++) {
            ra_gradient_tile t = ra_gradient_tile_at(work, p, kv_head, task);
            ra_lattice lattice = ra_pattern_lattice(&p->pattern, t.first_head, t.branch);
            ra_members_walk walk = ra_members_begin(&work->queries, &work->grouping, lattice, t.first_group, t.groups);
            int64_t groups = 0;
            for (ra_members m; ra_members_next(&walk, &m);)
                groups++;
            REQUIRE(groups <= work->tile_units, "%s: %lld groups of a branch %lld/%lld in room for %lld", w->what,
                    (long long)groups, (long long)lattice.segment, (long long)lattice.rate,
                    (long long)work->tile_units);
        }
}

static void tasks_have_room_for_their_groups(void **state)
{
    (void)state;
    for_each_workload(60, 20000, check_room);
}

/* Members are denser than one in `rate` where that does not divide the segment. */
static void dense_branches_have_room(void **state)
{
    (void)state;
    static const char *const PATTERNS[] = {"dilated:3/2", "dilated:5/4", "dilated:7/4", "dilated:9/8"};
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++) {
        work_case w = {.threads = 2};
        ra_problem problem = RA_PROBLEM_INIT;
        ra_workload work;
        problem.q_len = 20000;
        problem.heads = 4;
        problem.head_dim = 8;
        problem.pattern = PATTERNS[i];
        assert_int_equal(ra_plan_create(&problem, NULL, &w.plan), RA_OK);
        snprintf(w.what, sizeof w.what, "%s", PATTERNS[i]);
        ra_workload_lay_out_gradient(&work, w.plan, ra_share_of_range(0, problem.q_len), w.threads);
        check_room(&w, &work);
        ra_plan_free(w.plan);
    }
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

typedef struct walked {
    ra_tiles tiles;
    ra_tiles_memory memory;
    int32_t lo[RA_LANES_MOST], hi[RA_LANES_MOST];
    uint64_t seen[RA_KEY_BLOCK];
    double tile_count, visible, worked;
    double rows; /* of groups, over heads and branches */
} walked;

static walked *walk_begin(const ra_plan *p, const ra_workload *work)
{
    size_t room = (size_t)work->tile_units, lanes = (size_t)work->grouping.lanes;
    walked *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->memory = (ra_tiles_memory){.rows = calloc(room * lanes, sizeof *k->memory.rows),
                                  .groups = calloc(room, sizeof *k->memory.groups),
                                  .sieve = malloc((size_t)ra_sieve_bytes(&p->pattern, (int)lanes, work->tile_units)),
                                  .room = work->tile_units};
    return k;
}

static void walk_end(walked *k)
{
    free(k->memory.rows);
    free(k->memory.groups);
    free(k->memory.sieve);
    free(k);
}

static void add_groups(const work_case *w, const ra_workload *work, const ra_gradient_tile *t, walked *k)
{
    ra_lattice lattice = ra_pattern_lattice(&w->plan->pattern, t->first_head, t->branch);
    ra_members_walk walk = ra_members_begin(&work->queries, &work->grouping, lattice, t->first_group, t->groups);
    ra_tiles_begin(&k->tiles, &w->plan->pattern, t->first_head, t->branch, work->grouping.lanes, &k->memory);
    for (ra_members m; ra_members_next(&walk, &m);) {
        ra_tiles_add(&k->tiles, m.member, m.rows);
        k->rows += m.rows * (double)t->heads;
    }
}

/* Tile by tile, as a run does. */
static void walk_task(const work_case *w, const ra_workload *work, const ra_gradient_tile *t, walked *k)
{
    ra_block block;
    ra_tile part;
    double heads = (double)t->heads;
    add_groups(w, work, t, k);
    ra_interval keys = ra_branch_members(&k->tiles.lattice, 0, w->plan->kv_len);
    ra_tiles_seek(&k->tiles, keys.lo, keys.hi);
    while (ra_tiles_next(&k->tiles, &block)) {
        ra_tiles_look(&k->tiles, &block);
        for (int g = 0; g < k->tiles.group_count; g++) {
            if (!ra_tiles_part(&k->tiles, g, &block, &part))
                continue;
            int64_t keys = part.end - part.begin, rows = k->tiles.groups[g].rows, visible = keys * rows;
            if (part.masked)
                visible = ra_tiles_mask(&k->tiles, g, &block, &part, k->lo, k->hi, k->seen);
            k->tile_count += heads;
            k->visible += heads * (double)visible;
            k->worked += heads * (double)(keys * ra_lanes_worked(&work->grouping, (int)rows));
        }
    }
}

/* Queries of the share that a branch has, over heads and branches. */
static double rows_of_branches(const ra_plan *p, const ra_workload *work)
{
    double rows = 0;
    for (int64_t head = 0; head < p->heads; head++)
        for (int branch = 0; branch < ra_pattern_branches(&p->pattern, head); branch++) {
            ra_lattice lattice = ra_pattern_lattice(&p->pattern, head, branch);
            for (int64_t i = 0; i < work->queries.ranges; i++) {
                ra_range range = ra_share_range(&work->queries, i);
                for (int64_t query = range.first; query < range.end; query++) {
                    int64_t position = query + p->offset;
                    rows += ra_lattice_plain(&lattice) || ra_lattice_has(&lattice, position);
                }
            }
        }
    return rows;
}

static void check_counts(const work_case *w, const ra_workload *work)
{
    const ra_plan *p = w->plan;
    ra_workload counted = *work;
    walked *k = walk_begin(p, work);
    double batch = (double)p->batch;
    for (int64_t kv_head = 0; kv_head < p->kv_heads; kv_head++)
        for (int64_t task = 0; task < ra_chain_tasks(work, p, kv_head); task++) {
            ra_gradient_tile t = ra_gradient_tile_at(work, p, kv_head, task);
            walk_task(w, work, &t, k);
        }
    assert_int_equal(ra_workload_count(&counted, p), RA_OK);
    REQUIRE(counted.tiles == batch * k->tile_count && counted.pairs_visible == batch * k->visible &&
                counted.pairs_worked == batch * k->worked,
            "%s: tiles %.0f of %.0f, visible %.0f of %.0f, worked %.0f of %.0f", w->what, counted.tiles,
            batch * k->tile_count, counted.pairs_visible, batch * k->visible, counted.pairs_worked, batch * k->worked);
    REQUIRE(k->rows == rows_of_branches(p, work), "%s: %.0f rows of branches, not %.0f", w->what, k->rows,
            rows_of_branches(p, work));
    walk_end(k);
}

static void counts_are_those_of_the_tiles(void **state)
{
    (void)state;
    for_each_workload(250, 6000, check_counts);
}

/* More threads are other tasks, and the same tiles. */
static void check_threads(const work_case *w, const ra_workload *work)
{
    ra_workload one = *work;
    assert_int_equal(ra_workload_count(&one, w->plan), RA_OK);
    for (int threads = 1; threads <= 16; threads *= 4) {
        ra_workload other;
        ra_workload_lay_out_gradient(&other, w->plan, work->queries, threads);
        assert_int_equal(ra_workload_count(&other, w->plan), RA_OK);
        REQUIRE(other.tiles == one.tiles && other.pairs_visible == one.pairs_visible &&
                    other.pairs_worked == one.pairs_worked && other.groups == one.groups,
                "%s: tiles %.0f with %d threads, %.0f with %d", w->what, other.tiles, threads, one.tiles, w->threads);
        REQUIRE(!w->plan->pattern.dilation || other.tile_groups == one.tile_groups,
                "%s: groups of branches begin at other queries with %d threads", w->what, threads);
    }
}

static void threads_change_no_count(void **state)
{
    (void)state;
    for_each_workload(100, 6000, check_threads);
}

/* ---- A problem in one piece -------------------------------------------------------------------------------------- */

static int64_t some_scratch(const ra_plan *plan, const ra_workload *work)
{
    (void)plan;
    return 1000 * work->tile_units;
}

/* Gradients take (3 head_dim + 2 value_dim) multiply-adds a pair; memory is the scratch of threads and a float a row.
 */
static void a_problem_in_one_piece(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_plan *plan = NULL;
    ra_gradient_work work;
    problem.q_len = 300;
    problem.heads = 2;
    problem.head_dim = 5;
    problem.value_dim = 7;
    problem.pattern = "causal";
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    assert_int_equal(ra_gradient_lay_out(&work, plan, 2, some_scratch), RA_OK);
    assert_true(work.all.pairs_visible == 2 * 300 * 301 / 2);
    assert_true(work.flops == 2 * work.all.pairs_visible * (3 * 5 + 2 * 7));
    assert_int_equal(work.peak_bytes - ra_plan_bytes(plan) - work.all.threads * 1000 * work.all.tile_units,
                     ra_memory_rounded(2 * 300 * (int64_t)sizeof(float)));
    ra_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_is_in_one_task),        cmocka_unit_test(groups_end_with_every_64th_query),
        cmocka_unit_test(tasks_have_room_for_their_groups), cmocka_unit_test(dense_branches_have_room),
        cmocka_unit_test(counts_are_those_of_the_tiles),    cmocka_unit_test(threads_change_no_count),
        cmocka_unit_test(a_problem_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
