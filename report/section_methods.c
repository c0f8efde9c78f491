/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to compute one problem, against each other. */
#include "format.h"
#include "line.h"
#include "section.h"

static const char SECONDS[] = "seconds.median", RATE[] = "tokens_per_second", HELD[] = "memory.peak_bytes";
enum { WAYS = ROW_METHOD | ROW_RING | ROW_THREADS | ROW_SPREAD | ROW_KERNEL };

static bool timed(const row *r)
{
    return !r->failed && row_has(r, SECONDS) && (row_is(r, "suite", "compare") || row_is(r, "suite", "seed-table"));
}

static bool ours(const row *r)
{
    return row_is(r, "method", "ringattn");
}

/* This library in one piece; NULL: it is not among them. */
static const row *one_piece(const line *ways)
{
    for (int i = 0; i < ways->count; i++)
        if (ours(ways->at[i]) && row_is(ways->at[i], "run.strategy", "local"))
            return ways->at[i];
    return NULL;
}

/* ---- The chart --------------------------------------------------------------------------------------------------- */

/* Over all heads: what a query's work is in proportion to, whatever the pattern. */
static double keys_seen(const row *r)
{
    return row_number(r, "flops") /
           (2 * (row_number(r, "problem.head_dim") + row_number(r, "problem.value_dim")) *
            row_number(r, "problem.heads") * row_number(r, "problem.batch") * row_number(r, "problem.q_len"));
}

/* The ways of one problem stand side by side, the fastest first. */
static void draw(arena *a, chart *c, const line *ways)
{
    for (int i = 0; i < ways->count; i++) {
        const row *r = ways->at[i];
        double rate = row_number(r, RATE), median = row_number(r, SECONDS);
        const chart_point point = {.x = keys_seen(r),
                                   .y = rate,
                                   .low = rate * median / row_number(r, "seconds.high"),
                                   .high = rate * median / row_number(r, "seconds.low"),
                                   .hover = format_hover(a, r, "%s tokens a second, %s, %s GFLOP/s",
                                                         format_count(a, rate), format_seconds(a, median),
                                                         format_number(a, row_number(r, "gflops"))),
                                   .beside = 0.04 * i};
        chart_add(a, c, ours(r) ? arena_text(a, "ringattn, %s", row_text(r, "run.strategy")) : row_text(r, "method"),
                  &point);
    }
}

/* ---- Sentences --------------------------------------------------------------------------------------------------- */

static void say_other(arena *a, section *s, const row *own, const row *other)
{
    double factor = row_number(other, SECONDS) / row_number(own, SECONDS);
    const char *memory = row_has(own, HELD) && row_has(other, HELD)
                             ? arena_text(a, "; it holds %s, the other %s", format_bytes(a, row_number(own, HELD)),
                                          format_bytes(a, row_number(other, HELD)))
                             : "";
    section_say(a, s, "%s: ringattn in one piece is %.2f times as fast as %s (%s, %s)%s.", format_problem(a, own),
                factor, row_text(other, "method"), format_seconds(a, row_number(own, SECONDS)),
                format_seconds(a, row_number(other, SECONDS)), memory);
}

static void say_spread(arena *a, section *s, const row *base, const line *ways)
{
    const row *fastest = NULL, *slowest = NULL;
    int count = 0;
    for (int i = 0; i < ways->count; i++) {
        const row *it = ways->at[i];
        if (!ours(it) || row_is(it, "run.strategy", "local"))
            continue;
        count++;
        fastest = fastest ? fastest : it;
        slowest = it;
    }
    if (count > 1)
        section_say(a, s,
                    "%s: of %d ways to spread it, %s is the fastest, %.2f times the time of one piece; %s is the "
                    "slowest, %.2f times.",
                    format_problem(a, base), count, format_run(a, fastest),
                    row_number(fastest, SECONDS) / row_number(base, SECONDS), format_run(a, slowest),
                    row_number(slowest, SECONDS) / row_number(base, SECONDS));
}

static void say(arena *a, section *s, const line *ways, int *others)
{
    const row *base = one_piece(ways);
    if (!base) {
        section_say(a, s, "%s: no run of ringattn in one piece to compare with.", format_problem(a, ways->at[0]));
        return;
    }
    for (int i = 0; i < ways->count; i++)
        if (!ours(ways->at[i])) {
            ++*others;
            say_other(a, s, base, ways->at[i]);
        }
    say_spread(a, s, base, ways);
}

/* ---- The tables -------------------------------------------------------------------------------------------------- */

static void tabulate_row(arena *a, table *t, const row *base, const row *r)
{
    table_put(a, t, row_text(r, "method"));
    table_put(a, t, format_run(a, r));
    table_put(a, t, format_seconds(a, row_number(r, SECONDS)));
    table_put(a, t, base ? arena_text(a, "%.3f", row_number(r, SECONDS) / row_number(base, SECONDS)) : "-");
    table_put(a, t, format_count(a, row_number(r, RATE)));
    table_put(a, t, format_number(a, row_number(r, "gflops")));
    table_put(a, t, format_percent(a, row_number(r, "of_peak")));
    table_put(a, t, format_bytes(a, row_number(r, HELD)));
    table_put(a, t, format_count(a, row_number(r, "run.hops")));
}

static void tabulate(arena *a, section *s, const line *ways)
{
    table *t = section_table(a, s, format_problem(a, ways->at[0]),
                             "method|run|time#|to one piece#|tokens/s#|GFLOP/s#|of peak#|held#|hops#");
    const row *base = one_piece(ways);
    for (int i = 0; i < ways->count; i++)
        tabulate_row(a, t, base, ways->at[i]);
}

/* Problems with sentences and a table of their own; nobody reads more of them. */
enum { PROBLEMS_MOST = 1000 };

void section_methods(arena *a, const rows *r, section *s)
{
    int others = 0, shown = 0, left_out = 0;
    *s = (section){.id = "methods", .title = "Methods and strategies", .needs = "ringattn bench compare"};
    s->about = "Suites compare and seed-table. One piece: this library without ranks, on the same problem. Times are "
               "medians, bars in the chart quartiles; the fastest way comes first, and the others stand beside it.";
    chart *c = section_chart(a, s,
                             &(chart){.id = "throughput",
                                      .title = "Throughput over the work of a token",
                                      .x_axis = "keys that a query sees, on average",
                                      .y_axis = "tokens a second",
                                      .x_scale = CHART_LOG_COUNT,
                                      .y_scale = CHART_LOG,
                                      .missing = "no rows of the suites compare and seed-table with tokens a second"});
    lines problems = lines_of(a, r, WAYS, SECONDS, SECONDS);
    for (int i = 0; i < r->count; i++) {
        line ways = {0};
        if (timed(&r->at[i]))
            ways = line_from(&problems, i);
        if (!ways.count)
            continue;
        draw(a, c, &ways);
        if (shown == PROBLEMS_MOST) {
            left_out++;
            continue;
        }
        shown++;
        say(a, s, &ways, &others);
        tabulate(a, s, &ways);
    }
    if (left_out)
        section_say(a, s, "%d more problems are in the chart and among all cases only.", left_out);
    if (!others)
        section_say(a, s, "No other method was timed on a problem of ours: how this library compares cannot be said.");
    section_finish(a, s);
}
