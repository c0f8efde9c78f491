/* SPDX-License-Identifier: Apache-2.0 */
/* The same problem over more and more ranks, against itself in one piece. */
#include "format.h"
#include "line.h"
#include "section.h"

#include <math.h>

static const char RING[] = "run.ring_size", SECONDS[] = "seconds.median", THREADS[] = "run.threads";
enum { SPREAD = ROW_RING | ROW_SPREAD | ROW_THREADS };

static bool of_suite(const row *r)
{
    return !r->failed && row_is(r, "suite", "ring") && row_has(r, SECONDS);
}

static bool simulated(const row *r)
{
    return row_is(r, "run.transport", "sim");
}

/* Virtual ranks share the threads of one process; others have theirs at the same time, on the cores that there are. */
static double cores(const row *r)
{
    bool together = simulated(r) || row_is(r, "run.strategy", "local");
    return fmin(row_number(r, THREADS) * (together ? 1 : row_number(r, RING)), row_number(r, "machine.cores"));
}

/* The rows, and for each the run in one piece with the fewest threads that it is compared with; NULL: there is none. */
typedef struct based {
    const rows *rows;
    const row **bases;
} based;

static based find_bases(arena *a, const rows *r)
{
    int count;
    const int *groups = rows_groups(a, r, SPREAD, &count);
    const row **best = arena_take(a, (size_t)count * sizeof(const row *));
    based b = {r, arena_take(a, (size_t)r->count * sizeof(const row *))};
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i], **of_group = &best[groups[i]];
        if (of_suite(it) && row_is(it, "run.strategy", "local") &&
            (!*of_group || row_number(it, THREADS) < row_number(*of_group, THREADS)))
            *of_group = it;
    }
    for (int i = 0; i < r->count; i++)
        b.bases[i] = best[groups[i]];
    return b;
}

static const row *one_piece(const based *b, const row *r)
{
    return b->bases[r - b->rows->at];
}

static double efficiency(const row *base, const row *r)
{
    return row_number(base, SECONDS) * cores(base) / (row_number(r, SECONDS) * cores(r));
}

static const char *line_name(arena *a, const row *r)
{
    return format_short(a, arena_text(a, "%s, %s, %s, %s tokens", row_text(r, "run.transport"),
                                      row_text(r, "problem.pattern"), row_text(r, "run.order"),
                                      format_count(a, row_number(r, "problem.q_len"))));
}

/* ---- Charts ------------------------------------------------------------------------------------------------------ */

/* A slower sample is a lower value. */
static void draw(arena *a, chart *c, const row *base, const row *r, double factor)
{
    double value = factor * efficiency(base, r), median = row_number(r, SECONDS);
    const chart_point point = {.x = row_number(r, RING),
                               .y = value,
                               .low = value * median / row_number(r, "seconds.high"),
                               .high = value * median / row_number(r, "seconds.low"),
                               .hover = format_hover(a, r, "%s; speed-up %.2f on %.0f cores, efficiency %s",
                                                     format_seconds(a, median), cores(r) * efficiency(base, r),
                                                     cores(r), format_percent(a, efficiency(base, r)))};
    chart_add(a, c, line_name(a, r), &point);
}

static void draw_ideal(arena *a, chart *c, const rows *r)
{
    double most = 1, machine = 0;
    for (int i = 0; i < c->count; i++)
        for (int j = 0; j < c->series[i].count; j++)
            most = fmax(most, c->series[i].points[j].x);
    for (int i = 0; i < r->count; i++)
        if (of_suite(&r->at[i]))
            machine = fmax(machine, row_number(&r->at[i], "machine.cores"));
    for (double ranks = 1; c->count > 0 && ranks < 2 * most; ranks *= 2)
        chart_refer(a, c, "a core a rank, up to the machine's", fmin(ranks, most), fmin(fmin(ranks, most), machine));
}

/* ---- Sentences --------------------------------------------------------------------------------------------------- */

static void say_line(arena *a, const based *b, section *s, const line *l)
{
    const row *largest = l->at[l->count - 1], *base = one_piece(b, largest);
    double ranks = row_number(largest, RING);
    if (!base)
        section_say(a, s, "%s: no speed-up, because there is no run in one piece to compare with.",
                    line_name(a, largest));
    else if (simulated(largest))
        section_say(a, s, "%s: %.0f virtual ranks on %.0f threads take %.2f times the core seconds of one piece.",
                    line_name(a, largest), ranks, row_number(largest, THREADS), 1 / efficiency(base, largest));
    else
        section_say(a, s, "%s: %.0f ranks are %.2f times as fast as one core (efficiency %s on %.0f cores).",
                    line_name(a, largest), ranks, cores(largest) * efficiency(base, largest),
                    format_percent(a, efficiency(base, largest)), cores(largest));
}

static double waiting(const row *r)
{
    return row_number(r, "figures.wait_seconds") / row_number(r, SECONDS);
}

static void say_waiting(arena *a, const rows *r, section *s)
{
    const row *most = NULL;
    int rows_with = 0;
    for (int i = 0; i < r->count; i++)
        if (of_suite(&r->at[i]) && isfinite(waiting(&r->at[i]))) {
            rows_with++;
            if (!most || waiting(&r->at[i]) > waiting(most))
                most = &r->at[i];
        }
    if (most)
        section_say(a, s, "Of %d runs whose waits were measured, %s waited most: %s of its time.", rows_with,
                    format_case(a, most), format_percent(a, waiting(most)));
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static void tabulate(arena *a, const based *b, section *s)
{
    const rows *r = b->rows;
    table *t = section_table(a, s, "Runs over ranks",
                             "case|run|time#|to one piece#|speed-up#|efficiency#|waiting#|balance#|hops#");
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        if (!of_suite(it))
            continue;
        const row *base = one_piece(b, it);
        table_put(a, t, format_case(a, it));
        table_put(a, t, format_run(a, it));
        table_put(a, t, format_seconds(a, row_number(it, SECONDS)));
        table_put(a, t, base ? arena_text(a, "%.3f", row_number(it, SECONDS) / row_number(base, SECONDS)) : "-");
        table_put(a, t, base ? arena_text(a, "%.2f", cores(it) * efficiency(base, it)) : "-");
        table_put(a, t, base ? format_percent(a, efficiency(base, it)) : "-");
        table_put(a, t, format_percent(a, waiting(it)));
        table_put(a, t, format_number(a, row_number(it, "figures.balance")));
        table_put(a, t, format_count(a, row_number(it, "run.hops")));
    }
}

void section_ranks(arena *a, const rows *r, section *s)
{
    *s = (section){.id = "ranks", .title = "Over ranks", .needs = "ringattn bench ring"};
    s->about =
        "Efficiency: core seconds of the run in one piece to core seconds over ranks. Core seconds: median time x "
        "cores. Cores: threads x ranks for ranks that run at the same time (threads, mpi), the threads of the one "
        "process for virtual ranks (sim) and for one piece; never more than the machine has. Speed-up: efficiency x "
        "cores, so that it counts from one core even where the run in one piece had more; of virtual ranks, which "
        "add no core, only the efficiency is drawn. The run in one piece is the one with the fewest threads.";
    const chart forms[] = {{.id = "speed-up",
                            .title = "Speed-up over ranks",
                            .x_axis = "ranks",
                            .y_axis = "times one core",
                            .x_scale = CHART_LOG_COUNT,
                            .y_scale = CHART_FROM_ZERO,
                            .joined = true,
                            .missing = "no rows of suite ring over threads or mpi with a run in one piece"},
                           {.id = "efficiency",
                            .title = "Efficiency over ranks",
                            .x_axis = "ranks",
                            .y_axis = "core seconds, one piece to ranks",
                            .x_scale = CHART_LOG_COUNT,
                            .y_scale = CHART_FROM_ZERO,
                            .joined = true,
                            .missing = "no rows of suite ring over ranks with a run in one piece"}};
    section_chart(a, s, &forms[0]);
    section_chart(a, s, &forms[1]);
    based b = find_bases(a, r);
    lines all = lines_of(a, r, ROW_RING | ROW_THREADS, RING, SECONDS);
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        if (!of_suite(it) || row_is(it, "run.strategy", "local"))
            continue;
        const row *base = one_piece(&b, it);
        if (base && !simulated(it))
            draw(a, &s->charts[0], base, it, cores(it));
        if (base)
            draw(a, &s->charts[1], base, it, 1);
        line l = line_from(&all, i);
        if (l.count)
            say_line(a, &b, s, &l);
    }
    draw_ideal(a, &s->charts[0], r);
    say_waiting(a, r, s);
    if (!s->sentence_count)
        section_say(a, s, "No row of suite ring ran over ranks: there is no speed-up to speak of.");
    tabulate(a, &b, s);
    section_finish(a, s);
}
