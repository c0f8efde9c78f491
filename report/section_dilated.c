/* SPDX-License-Identifier: Apache-2.0 */
/* Dilated attention, whose work grows with the length and not with its square: what a token costs. */
#include "format.h"
#include "line.h"
#include "section.h"

#include <math.h>
#include <string.h>

static const char LENGTH[] = "problem.q_len", SECONDS[] = "seconds.median", HELD[] = "memory.peak_bytes";
static const double MIB = 1 << 20;
enum { MAY_DIFFER = ROW_LENGTH | ROW_RING | ROW_SPREAD };

static bool dilated(const row *r)
{
    return strstr(row_text(r, "problem.pattern"), "dilated:") && row_is(r, "method", "ringattn");
}

static double per_token(const row *r, const char *path)
{
    return row_number(r, path) / (row_number(r, "problem.batch") * row_number(r, LENGTH));
}

static const char *line_name(arena *a, const row *r)
{
    return format_short(
        a, arena_text(a, "%s, %s, %s", row_text(r, "suite"), format_heads(a, r), row_text(r, "problem.pattern")));
}

static void draw_cost(arena *a, chart *c, const line *l)
{
    for (int i = 0; i < l->count; i++) {
        const row *r = l->at[i];
        double cost = per_token(r, SECONDS);
        const chart_point point = {.x = row_number(r, LENGTH),
                                   .y = 1e6 * cost,
                                   .low = 1e6 * per_token(r, "seconds.low"),
                                   .high = 1e6 * per_token(r, "seconds.high"),
                                   .hover = format_hover(a, r, "%s in all, %s a token",
                                                         format_seconds(a, row_number(r, SECONDS)),
                                                         format_seconds(a, cost))};
        chart_add(a, c, line_name(a, r), &point);
    }
}

static void draw_memory(arena *a, chart *c, const line *l)
{
    for (int i = 0; i < l->count; i++) {
        const row *r = l->at[i];
        double bytes = row_number(r, HELD), held = bytes / MIB;
        const chart_point point = {.x = row_number(r, LENGTH),
                                   .y = held,
                                   .low = held,
                                   .high = held,
                                   .hover = format_hover(a, r, "accounted: %s", format_bytes(a, bytes))};
        chart_add(a, c, line_name(a, r), &point);
    }
}

static void say(arena *a, section *s, const line *l)
{
    const row *first = l->at[0], *last = l->at[l->count - 1];
    double least = row_number(first, LENGTH), most = row_number(last, LENGTH);
    fit power;
    if (least == most)
        return;
    const char *growth = line_power(a, l, LENGTH, SECONDS, &power)
                             ? arena_text(a, "time grows as %s; ", line_power_text(a, "n", &power))
                             : "";
    section_say(a, s, "%s: %sa token of %s costs %.2f times a token of %s (%s and %s).", line_name(a, first), growth,
                format_count(a, most), per_token(last, SECONDS) / per_token(first, SECONDS), format_count(a, least),
                format_seconds(a, per_token(last, SECONDS)), format_seconds(a, per_token(first, SECONDS)));
}

static void say_longest(arena *a, const rows *r, section *s)
{
    const row *longest = NULL;
    for (int i = 0; i < r->count; i++)
        if (!r->at[i].failed && dilated(&r->at[i]) && row_has(&r->at[i], SECONDS) &&
            (!longest || row_number(&r->at[i], LENGTH) > row_number(longest, LENGTH)))
            longest = &r->at[i];
    if (longest)
        section_say(a, s, "The longest: %s tokens in %s (%s), %s tokens a second, %s.",
                    format_count(a, row_number(longest, LENGTH)), format_seconds(a, row_number(longest, SECONDS)),
                    format_run(a, longest), format_count(a, 1 / per_token(longest, SECONDS)),
                    row_has(longest, HELD) ? arena_text(a, "%s held", format_bytes(a, row_number(longest, HELD)))
                                           : "memory not measured");
    else
        section_say(a, s, "No row with a dilated pattern was timed.");
}

void section_dilated(arena *a, const rows *r, section *s)
{
    *s = (section){.id = "dilated", .title = "Dilated attention", .needs = "ringattn bench extreme"};
    s->about =
        "Work of a dilated pattern is in proportion to the length. A token's cost is the median time over batch x "
        "length; bars are quartiles. Runs of one line have the same shape, pattern, threads and kernel; their ring "
        "size is what their budget asked for.";
    const chart forms[] = {{.id = "dilated-cost",
                            .title = "Cost of a token over the length",
                            .x_axis = "tokens",
                            .y_axis = "microseconds a token",
                            .x_scale = CHART_LOG_COUNT,
                            .y_scale = CHART_FROM_ZERO,
                            .joined = true,
                            .missing = "no timed rows with a dilated pattern"},
                           {.id = "dilated-memory",
                            .title = "Memory of dilated runs over the length",
                            .x_axis = "tokens",
                            .y_axis = "MiB",
                            .x_scale = CHART_LOG_COUNT,
                            .y_scale = CHART_FROM_ZERO,
                            .joined = true,
                            .missing = "no rows with a dilated pattern and their memory"}};
    section_chart(a, s, &forms[0]);
    section_chart(a, s, &forms[1]);
    lines times = lines_of(a, r, MAY_DIFFER, LENGTH, SECONDS), memories = lines_of(a, r, MAY_DIFFER, LENGTH, HELD);
    for (int i = 0; i < r->count; i++) {
        if (!dilated(&r->at[i]))
            continue;
        line timed = line_from(&times, i), kept = line_from(&memories, i);
        draw_cost(a, &s->charts[0], &timed);
        draw_memory(a, &s->charts[1], &kept);
        if (timed.count)
            say(a, s, &timed);
    }
    say_longest(a, r, s);
    section_finish(a, s);
}
