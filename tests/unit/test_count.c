/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles and pairs of shares of long sequences: group by group and row by row, or tile by tile where keys are dilated.
 */
#include "plan/plan.h"
#include "shares.h"
#include "support/ragged.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct counts {
    double tiles, visible, worked;
} counts;

/* One group: the keys between the first that one of its rows sees and the last, in whole blocks and whole units. */
static void count_group(const ra_plan *p, const ra_workload *w, const ra_group *group, counts *sum)
{
    ra_interval all = {INT64_MAX, 0};
    for (int i = 0; i < group->rows; i++) {
        ra_interval seen = ra_pattern_interval(&p->pattern, group->query + i + p->offset);
        if (seen.lo >= seen.hi)
            continue;
        sum->visible += (double)(seen.hi - seen.lo);
        all.lo = seen.lo < all.lo ? seen.lo : all.lo;
        all.hi = seen.hi > all.hi ? seen.hi : all.hi;
    }
    if (all.lo >= all.hi)
        return;
    int64_t units = (all.hi + RA_KEY_UNIT - 1) / RA_KEY_UNIT - all.lo / RA_KEY_UNIT;
    sum->tiles += (double)((all.hi + RA_KEY_BLOCK - 1) / RA_KEY_BLOCK - all.lo / RA_KEY_BLOCK);
    sum->worked += (double)(units * RA_KEY_UNIT * ra_lanes_worked(&w->grouping, group->rows));
}

static void choose_documents(choices *c, int64_t length, char *text, size_t size)
{
    int64_t longest = chance(c, 2) ? length : 300;
    size_t at = (size_t)snprintf(text, size, "documents:");
    for (int64_t rest = length, next; rest > 0; rest -= next) {
        next = at + 64 > size ? rest : choose(c, 1, rest < longest ? rest : longest);
        at += (size_t)snprintf(text + at, size - at, "%s%lld", rest < length ? "," : "", (long long)next);
    }
}

static void choose_intervals_here(choices *c, int64_t length, char *text, size_t size)
{
    int64_t left = choose(c, 0, chance(c, 2) ? length : 200), right = choose(c, 0, chance(c, 2) ? length : 200);
    if (chance(c, 3))
        choose_documents(c, length, text, size - 160);
    else
        snprintf(text, size, "full");
    if (chance(c, 2))
        snprintf(text + strlen(text), 64, "+window:%lld,%lld", (long long)left, (long long)right);
    if (chance(c, 3))
        snprintf(text + strlen(text), 40, "+chunks:%lld", (long long)choose(c, 1, chance(c, 2) ? length : 200));
    if (chance(c, 2))
        snprintf(text + strlen(text), 16, "+causal");
    else if (chance(c, 3))
        snprintf(text + strlen(text), 40, "+causal:prefix=%lld", (long long)choose(c, 0, length));
}

static void require_counts(const ra_plan *plan, const ra_partition *queries, int rank, const char *what)
{
    ra_workload work;
    counts sum = {0, 0, 0};
    ra_workload_lay_out(&work, plan, ra_partition_share(queries, rank), 2, 1, true);
    assert_int_equal(ra_workload_count(&work, plan), RA_OK);
    for (int64_t i = 0; i < work.groups; i++) {
        ra_group group = ra_group_at(&work.queries, &work.grouping, i);
        count_group(plan, &work, &group, &sum);
    }
    double heads = (double)(plan->batch * plan->heads);
    REQUIRE(work.tiles == heads * sum.tiles && work.pairs_visible == heads * sum.visible &&
                work.pairs_worked == heads * sum.worked,
            "%s, rank %d: tiles %.0f of %.0f, visible %.0f of %.0f, worked %.0f of %.0f", what, rank, work.tiles,
            heads * sum.tiles, work.pairs_visible, heads * sum.visible, work.pairs_worked, heads * sum.worked);
}

static void counts_of_shares(void **state)
{
    (void)state;
    static const ra_kernel_id kernels[] = {RA_KERNEL_AUTO, RA_KERNEL_GENERIC};
    for (seed_range s = seeds(600); s.first < s.end; s.first++) {
        choices c = {s.first};
        char text[4096], what[4400];
        ra_problem problem = RA_PROBLEM_INIT;
        ra_options options = RA_OPTIONS_INIT;
        ra_plan *plan = NULL;
        ra_partition queries;
        int ranks = (int)choose(&c, 1, 9);
        problem.heads = choose(&c, 1, 2), problem.head_dim = 8;
        problem.q_len = choose(&c, 1, 6000);
        problem.kv_len = chance(&c, 2) ? problem.q_len : choose(&c, 1, 6000);
        choose_intervals_here(&c, problem.kv_len, text, sizeof text);
        choose_positions(&c, &problem);
        problem.pattern = text;
        options.kernel = kernels[choose(&c, 0, 1)];
        snprintf(what, sizeof what, "seed %llu, %lld queries, %lld keys, at %lld:%lld, \"%.4000s\"",
                 (unsigned long long)s.first, (long long)problem.q_len, (long long)problem.kv_len,
                 (long long)problem.query_position, (long long)problem.key_position, text);
        REQUIRE(!ra_plan_create(&problem, &options, &plan), "%s: %s", what, ra_last_message());
        choose_partition(&c, problem.q_len, ranks, &queries);
        for (int rank = 0; rank < ranks; rank++)
            require_counts(plan, &queries, rank, what);
        ra_partition_clear(&queries);
        ra_plan_free(plan);
    }
}

/* The tiles of one query tile of a branch, as a run goes through them. */
static void walk_tile(const ra_plan *p, const ra_workload *w, int64_t head, int branch, int64_t tile, ra_tiles *tiles,
                      const ra_tiles_memory *memory, counts *sum)
{
    int64_t first = ra_first_of_tile(w, tile), groups = ra_first_of_tile(w, tile + 1) - first;
    ra_lattice lattice = ra_pattern_lattice(&p->pattern, head, branch);
    ra_members_walk walk = ra_members_begin(&w->queries, &w->grouping, lattice, first, groups);
    ra_block block;
    ra_tile part;
    ra_tiles_begin(tiles, &p->pattern, head, branch, w->grouping.lanes, memory);
    for (ra_members m; ra_members_next(&walk, &m);)
        ra_tiles_add(tiles, m.member, m.rows);
    ra_interval keys = ra_branch_members(&lattice, 0, p->kv_len);
    ra_tiles_seek(tiles, keys.lo, keys.hi);
    while (ra_tiles_next(tiles, &block)) {
        ra_tiles_look(tiles, &block);
        for (int g = 0; g < tiles->group_count; g++)
            if (ra_tiles_part(tiles, g, &block, &part)) {
                sum->tiles += 1;
                sum->worked += (double)(part.end - part.begin) * ra_lanes_worked(&w->grouping, tiles->groups[g].rows);
            }
    }
}

/* All tiles of a workload of one batch. */
static counts walk_tiles(const ra_plan *p, const ra_workload *w)
{
    size_t groups = (size_t)w->tile_groups, lanes = (size_t)w->grouping.lanes;
    ra_tiles *tiles = calloc(1, sizeof *tiles);
    ra_tiles_memory memory = {.rows = calloc(groups * lanes, sizeof *memory.rows),
                              .groups = calloc(groups, sizeof *memory.groups),
                              .sieve = malloc((size_t)ra_sieve_bytes(&p->pattern, (int)lanes, w->tile_groups)),
                              .room = w->tile_groups};
    counts sum = {0, 0, 0};
    for (int64_t head = 0; head < p->heads; head++)
        for (int branch = 0; branch < ra_pattern_branches(&p->pattern, head); branch++)
            for (int64_t tile = 0; tile < w->q_tiles; tile++)
                walk_tile(p, w, head, branch, tile, tiles, &memory, &sum);
    free(memory.rows);
    free(memory.groups);
    free(memory.sieve);
    free(tiles);
    return sum;
}

/* Segments that come round often, in lengths that are seldom whole blocks of members. */
static void choose_dilated(choices *c, char *text, size_t size)
{
    static const char *const modes[] = {"paper", "union", "grouped", "torchscale"};
    static const char *const others[] = {"", "+causal", "+window:70,9", "+chunks:96", "+chunks:1000+causal"};
    int64_t segment = choose(c, 8, 64), rate = choose(c, 1, 2), branches = choose(c, 1, 3);
    size_t at = (size_t)snprintf(text, size, "dilated:");
    for (int64_t i = 0; i < branches; i++, segment *= choose(c, 1, 2), rate *= choose(c, 1, 2))
        at += (size_t)snprintf(text + at, size - at, "%s%lld/%lld", i ? "," : "", (long long)segment, (long long)rate);
    snprintf(text + at, size - at, ":mode=%s%s", modes[choose(c, 0, 3)], others[choose(c, 0, 4)]);
}

static void require_walked(const ra_plan *plan, const ra_partition *queries, int rank, const char *what)
{
    ra_workload work;
    ra_workload_lay_out(&work, plan, ra_partition_share(queries, rank), 2, 1, true);
    assert_int_equal(ra_workload_count(&work, plan), RA_OK);
    counts sum = work.queries.rows ? walk_tiles(plan, &work) : (counts){0, 0, 0};
    REQUIRE(work.tiles == sum.tiles && work.pairs_worked == sum.worked,
            "%s, rank %d: tiles %.0f of %.0f, worked %.0f of %.0f", what, rank, work.tiles, sum.tiles,
            work.pairs_worked, sum.worked);
}

static void counts_of_dilated_shares(void **state)
{
    (void)state;
    for (seed_range s = seeds(200); s.first < s.end; s.first++) {
        choices c = {s.first};
        char text[256], what[400];
        ra_problem problem = RA_PROBLEM_INIT;
        ra_plan *plan = NULL;
        ra_partition queries;
        int ranks = (int)choose(&c, 1, 3);
        problem.heads = choose(&c, 1, 4), problem.head_dim = 8;
        problem.q_len = choose(&c, 1, 20000);
        problem.kv_len = chance(&c, 2) ? problem.q_len : choose(&c, 1, 20000);
        choose_dilated(&c, text, sizeof text);
        choose_positions(&c, &problem);
        problem.pattern = text;
        snprintf(what, sizeof what, "seed %llu, %lld queries, %lld keys, \"%s\"", (unsigned long long)s.first,
                 (long long)problem.q_len, (long long)problem.kv_len, text);
        REQUIRE(!ra_plan_create(&problem, NULL, &plan), "%s: %s", what, ra_last_message());
        choose_partition(&c, problem.q_len, ranks, &queries);
        for (int rank = 0; rank < ranks; rank++)
            require_walked(plan, &queries, rank, what);
        ra_partition_clear(&queries);
        ra_plan_free(plan);
    }
}

/* Packed sequences leave gaps between what neighbours see. */
static void counts_of_packed_shares(void **state)
{
    (void)state;
    static const char *const terms[] = {"full+", "causal+", "window:90,9+", "window:5,0+causal+", "chunks:100+"};
    for (seed_range s = seeds(400); s.first < s.end; s.first++) {
        choices c = {s.first};
        char text[512], what[800];
        ra_problem problem = RA_PROBLEM_INIT;
        ra_plan *plan = NULL;
        ra_partition queries;
        int ranks = (int)choose(&c, 1, 3);
        problem.heads = choose(&c, 1, 2), problem.head_dim = 8;
        problem.q_len = choose(&c, 1, chance(&c, 3) ? 9 : 3000), problem.kv_len = choose(&c, 1, 3000);
        snprintf(text, sizeof text, "%s", terms[choose(&c, 0, 4)]);
        append_packed(&c, problem.q_len, problem.kv_len, text, sizeof text);
        problem.pattern = text;
        snprintf(what, sizeof what, "seed %llu, %lld queries, %lld keys, \"%s\"", (unsigned long long)s.first,
                 (long long)problem.q_len, (long long)problem.kv_len, text);
        REQUIRE(!ra_plan_create(&problem, NULL, &plan), "%s: %s", what, ra_last_message());
        choose_partition(&c, problem.q_len, ranks, &queries);
        for (int rank = 0; rank < ranks; rank++)
            require_walked(plan, &queries, rank, what);
        ra_partition_clear(&queries);
        ra_plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_of_shares), cmocka_unit_test(counts_of_dilated_shares),
                                       cmocka_unit_test(counts_of_packed_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
