/* SPDX-License-Identifier: Apache-2.0 */
/* Speed in two charts of bars: beside the machine's peak, and beside other libraries. */
#include "bench/sampling.h"
#include "format.h"
#include "section.h"

#include <math.h>
#include <string.h>

static const char SECONDS[] = "seconds.median";

static bool ours(const row *r)
{
    return row_is(r, "method", "ringattn");
}

/* ---- Of the peak ------------------------------------------------------------------------------------------------- */

/* The part of the multiply-add peak, of decoding that of the memory's bandwidth; NAN: it has none. */
static double reached(const row *r)
{
    if (r->failed || !ours(r) || !(row_is(r, "suite", "kernel") || row_is(r, "suite", "backward")))
        return NAN;
    if (row_has(r, "of_peak"))
        return row_number(r, "of_peak");
    return strstr(row_text(r, "against.what"), "bandwidth") ? row_number(r, "against.value") : NAN;
}

static const char *kind_of(const row *r)
{
    if (!row_has(r, "of_peak"))
        return "decoding, of the memory's bandwidth";
    return row_is(r, "run.direction", "backward") ? "backward, of the multiply-add peak"
                                                  : "forward, of the multiply-add peak";
}

static void draw_peak(arena *a, chart *c, const rows *r)
{
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        double part = reached(it);
        if (isnan(part))
            continue;
        const chart_point bar = {.y = 100 * part,
                                 .label = format_short(a, row_text(it, "case")),
                                 .shown = arena_text(a, "%.0f%%", 100 * part),
                                 .hover =
                                     format_hover(a, it, "%s of the peak or bandwidth, %s, %s GFLOP/s",
                                                  format_percent(a, part), format_seconds(a, row_number(it, SECONDS)),
                                                  format_number(a, row_number(it, "gflops")))};
        chart_bar(a, c, kind_of(it), &bar);
    }
}

static void say_peak(arena *a, const rows *r, section *s)
{
    double *parts = arena_take(a, ((size_t)r->count + 1) * sizeof *parts);
    int count = 0;
    for (int i = 0; i < r->count; i++)
        if (!isnan(reached(&r->at[i])))
            parts[count++] = reached(&r->at[i]);
    double middle = sampling_median(parts, count);
    if (count)
        section_say(a, s,
                    "%d cases reach %s to %s of the machine's peak, decoding of its bandwidth; half of them %s or "
                    "more.",
                    count, format_percent(a, parts[0]), format_percent(a, parts[count - 1]), format_percent(a, middle));
}

/* ---- Beside others ----------------------------------------------------------------------------------------------- */

static bool of_peers(const row *r)
{
    return !r->failed && row_is(r, "suite", "peers") && row_has(r, SECONDS);
}

/* For each row this library's row of the same problem; NULL: there is none. */
static const row **find_ours(arena *a, const rows *r)
{
    int count;
    const int *groups = rows_groups(a, r, ROW_METHOD | ROW_KERNEL, &count);
    const row **first = arena_take(a, (size_t)count * sizeof(const row *));
    const row **of_rows = arena_take(a, (size_t)r->count * sizeof(const row *));
    for (int i = 0; i < r->count; i++)
        if (of_peers(&r->at[i]) && ours(&r->at[i]) && !first[groups[i]])
            first[groups[i]] = &r->at[i];
    for (int i = 0; i < r->count; i++)
        of_rows[i] = of_peers(&r->at[i]) && !ours(&r->at[i]) ? first[groups[i]] : NULL;
    return of_rows;
}

static double times_as_fast(const row *other, const row *own)
{
    return row_number(other, SECONDS) / row_number(own, SECONDS);
}

static void draw_others(arena *a, chart *c, const rows *r, const row *const *own)
{
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        if (!own[i])
            continue;
        double factor = times_as_fast(it, own[i]);
        const chart_point bar = {
            .y = factor,
            .label = format_short(a, row_text(it, "case")),
            .shown = arena_text(a, factor < 9.95 ? "%.2f" : "%.0f", factor),
            .hover = format_hover(a, it, "ringattn %s, %s %s", format_seconds(a, row_number(own[i], SECONDS)),
                                  row_text(it, "method"), format_seconds(a, row_number(it, SECONDS)))};
        chart_bar(a, c, arena_text(a, "times as fast as %s", row_text(it, "method")), &bar);
    }
}

/* For each other method one sentence. */
static void say_others(arena *a, const rows *r, section *s, const row *const *own)
{
    int methods;
    const int *numbers = rows_texts(a, r, "method", &methods);
    double *factors = arena_take(a, ((size_t)r->count + 1) * sizeof *factors);
    for (int method = 0; method < methods; method++) {
        const row *one = NULL;
        int count = 0;
        for (int i = 0; i < r->count; i++)
            if (own[i] && numbers[i] == method) {
                one = &r->at[i];
                factors[count++] = times_as_fast(one, own[i]);
            }
        double middle = sampling_median(factors, count);
        if (one)
            section_say(a, s, "Beside %s: %d problem%s, %s to %s times as fast, half of them %s or more.",
                        row_text(one, "method"), count, count == 1 ? "" : "s", format_number(a, factors[0]),
                        format_number(a, factors[count - 1]), format_number(a, middle));
    }
}

void section_speed(arena *a, const rows *r, section *s)
{
    *s = (section){
        .id = "speed", .title = "Speed", .needs = "ringattn bench kernel, ringattn bench backward, ./dev bench peers"};
    s->about =
        "Passes of the suites kernel and backward in one piece, beside the peak of multiply-adds in registers or, "
        "for decoding, beside the memory's bandwidth, which are measured around each sample. Other libraries "
        "have the same tensors in the same process, and take turns (suite peers).";
    chart *c = section_chart(a, s,
                             &(chart){.id = "speed-peak",
                                      .title = "Speed beside this machine's limits",
                                      .x_axis = "",
                                      .y_axis = "% of the limit",
                                      .y_scale = CHART_FROM_ZERO,
                                      .bars = true,
                                      .missing = "no rows of the suites kernel and backward"});
    draw_peak(a, c, r);
    if (chart_points(c))
        chart_refer(a, c, "the limit", 1, 100);
    say_peak(a, r, s);
    const row **own = find_ours(a, r);
    c = section_chart(a, s,
                      &(chart){.id = "speed-others",
                               .title = "Speed beside other libraries",
                               .x_axis = "",
                               .y_axis = "times as fast",
                               .y_scale = CHART_LOG,
                               .bars = true,
                               .missing = "no rows of ./dev bench peers --output"});
    draw_others(a, c, r, own);
    if (chart_points(c))
        chart_refer(a, c, "as fast", 1, 1);
    say_others(a, r, s, own);
    section_finish(a, s);
}
