/* Tiles and pairs of shares of long sequences, group by group and row by row. */
#include "plan/plan.h"
#include "shares.h"
#include "support/unit.h"

#include <stdio.h>
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

static void choose_pattern(choices *c, int64_t length, char *text, size_t size)
{
    int64_t left = choose(c, 0, chance(c, 2) ? length : 200), right = choose(c, 0, chance(c, 2) ? length : 200);
    if (chance(c, 3))
        choose_documents(c, length, text, size - 80);
    else
        snprintf(text, size, "full");
    if (chance(c, 2))
        snprintf(text + strlen(text), 64, "+window:%lld,%lld", (long long)left, (long long)right);
    if (chance(c, 2))
        snprintf(text + strlen(text), 16, "+causal");
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
        choose_pattern(&c, problem.kv_len, text, sizeof text);
        problem.pattern = text;
        options.kernel = kernels[choose(&c, 0, 1)];
        snprintf(what, sizeof what, "seed %llu, %lld queries, %lld keys, \"%.4000s\"", (unsigned long long)s.first,
                 (long long)problem.q_len, (long long)problem.kv_len, text);
        REQUIRE(!ra_plan_create(&problem, &options, &plan), "%s: %s", what, ra_last_message());
        choose_partition(&c, problem.q_len, ranks, &queries);
        for (int rank = 0; rank < ranks; rank++)
            require_counts(plan, &queries, rank, what);
        ra_partition_clear(&queries);
        ra_plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_of_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
