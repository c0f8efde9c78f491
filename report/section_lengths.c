/* SPDX-License-Identifier: Apache-2.0 */
/* What forward and backward passes reach of the machine's multiply-add peak, over the length. */
#include "format.h"
#include "line.h"
#include "section.h"

#include <math.h>
#include <string.h>

static const char LENGTH[] = "problem.q_len", REACHED[] = "of_peak";

/* Plain ones: in one piece, float32, as many key/value heads as query heads. */
static bool counts(const row *r)
{
    return row_is(r, "method", "ringattn") && row_is(r, "run.strategy", "local") &&
           row_is(r, "problem.dtype", "float32") &&
           row_number(r, "problem.heads") == row_number(r, "problem.kv_heads") &&
           (row_is(r, "suite", "kernel") || row_is(r, "suite", "backward"));
}

static const char *line_name(arena *a, const row *r)
{
    return format_short(a, arena_text(a, "%s, %s, %s of %.0f", row_text(r, "run.direction"),
                                      row_text(r, "problem.pattern"), format_heads(a, r),
                                      row_number(r, "problem.head_dim")));
}

static void draw(arena *a, chart *c, const line *l)
{
    for (int i = 0; i < l->count; i++) {
        const row *r = l->at[i];
        double part = row_number(r, REACHED);
        const chart_point point = {.x = row_number(r, LENGTH),
                                   .y = 100 * part,
                                   .low = 100 * part,
                                   .high = 100 * part,
                                   .hover = format_hover(a, r, "%s of the peak, %s GFLOP/s", format_percent(a, part),
                                                         format_number(a, row_number(r, "gflops")))};
        chart_add(a, c, line_name(a, r), &point);
    }
}

static void say(arena *a, section *s, const line *l)
{
    const row *longest = l->at[l->count - 1];
    section_say(a, s, "%s: %s of the multiply-add peak at %s tokens, %s GFLOP/s.", line_name(a, longest),
                format_percent(a, row_number(longest, REACHED)), format_count(a, row_number(longest, LENGTH)),
                format_number(a, row_number(longest, "gflops")));
}

void section_lengths(arena *a, const rows *r, section *s)
{
    *s = (section){
        .id = "lengths", .title = "Speed over the length", .needs = "ringattn bench kernel, ringattn bench backward"};
    s->about =
        "Passes of the suites kernel and backward in one piece, float32, at two lengths or more. The peak is that "
        "of multiply-adds in registers, measured around each sample.";
    chart *c = section_chart(a, s,
                             &(chart){.id = "speed-lengths",
                                      .title = "Speed over the length",
                                      .x_axis = "tokens",
                                      .y_axis = "% of the multiply-add peak",
                                      .x_scale = CHART_LOG_COUNT,
                                      .y_scale = CHART_FROM_ZERO,
                                      .joined = true,
                                      .missing = "no rows of the suites kernel and backward at two lengths"});
    lines all = lines_of(a, r, ROW_LENGTH, LENGTH, REACHED);
    for (int i = 0; i < r->count; i++) {
        line l = line_from(&all, i);
        if (!counts(&r->at[i]) || line_values(&l, LENGTH) < 2)
            continue;
        draw(a, c, &l);
        say(a, s, &l);
    }
    section_finish(a, s);
}
