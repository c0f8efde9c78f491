/* SPDX-License-Identifier: Apache-2.0 */
/* How close runs come to what the machine can do at their arithmetic intensity. */
#include "format.h"
#include "section.h"

#include <math.h>

/* Of queries, keys, values and output, each moved once; for gradients with theirs. */
static double least_bytes(const row *r)
{
    double tensors = row_is(r, "run.direction", "backward") ? 2 : 1;
    double width = row_number(r, "problem.head_dim") + row_number(r, "problem.value_dim");
    double element = row_is(r, "problem.dtype", "float32") ? 4 : 2;
    return tensors * row_number(r, "problem.batch") * width * element *
           (row_number(r, "problem.q_len") * row_number(r, "problem.heads") +
            row_number(r, "problem.kv_len") * row_number(r, "problem.kv_heads"));
}

static double intensity(const row *r)
{
    return row_number(r, "flops") / least_bytes(r);
}

/* At that intensity; the peak alone where the bandwidth was not measured. */
static double roof(const row *r, double flops_a_byte)
{
    return fmin(row_number(r, "machine.peak_gflops"), row_number(r, "machine.bandwidth_gbs") * flops_a_byte);
}

static bool counts(const row *r)
{
    return !r->failed && row_number(r, "gflops") > 0 && row_number(r, "flops") > 0 &&
           row_number(r, "machine.peak_gflops") > 0;
}

static double reached(const row *r)
{
    return row_number(r, "gflops") / roof(r, intensity(r));
}

/* The machine is what its fastest reading says. */
static const row *highest(const rows *r)
{
    const row *best = NULL;
    for (int i = 0; i < r->count; i++)
        if (counts(&r->at[i]) && row_number(&r->at[i], "machine.bandwidth_gbs") > 0 &&
            (!best || row_number(&r->at[i], "machine.peak_gflops") > row_number(best, "machine.peak_gflops")))
            best = &r->at[i];
    return best;
}

static void draw_roof(arena *a, chart *c, const row *machine, double least, double most)
{
    double ridge = row_number(machine, "machine.peak_gflops") / row_number(machine, "machine.bandwidth_gbs");
    const char *name =
        arena_text(a, "%.0f GFLOP/s, %.1f GB/s: the highest readings", row_number(machine, "machine.peak_gflops"),
                   row_number(machine, "machine.bandwidth_gbs"));
    const double at[] = {fmin(least, ridge / 4), ridge, fmax(most, ridge * 4)};
    for (int i = 0; i < 3; i++)
        chart_refer(a, c, name, at[i], roof(machine, at[i]));
}

static void say(arena *a, const rows *r, section *s, const row *machine)
{
    const row *closest = NULL, *farthest = NULL;
    int runs = 0, arithmetic = 0;
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        if (!counts(it))
            continue;
        runs++;
        arithmetic += roof(it, intensity(it)) >= row_number(it, "machine.peak_gflops");
        if (!closest || reached(it) > reached(closest))
            closest = it;
        if (!farthest || reached(it) < reached(farthest))
            farthest = it;
    }
    if (!runs) {
        section_say(a, s, "Nothing can be placed: no row has flops, GFLOP/s and the machine's peak.");
        return;
    }
    if (machine)
        section_say(
            a, s, "The ridge is at %s flops a byte; %d of %d runs lie beyond it, where arithmetic is the limit.",
            format_number(a, row_number(machine, "machine.peak_gflops") / row_number(machine, "machine.bandwidth_gbs")),
            arithmetic, runs);
    else
        section_say(a, s, "No row has the machine's bandwidth: of the roof only the flat part is known.");
    section_say(a, s, "Closest to its roof is %s (%s): %s of it.", format_case(a, closest), row_text(closest, "suite"),
                format_percent(a, reached(closest)));
    if (farthest != closest)
        section_say(a, s, "Farthest from it is %s (%s): %s.", format_case(a, farthest), row_text(farthest, "suite"),
                    format_percent(a, reached(farthest)));
}

void section_roofline(arena *a, const rows *r, section *s)
{
    double least = INFINITY, most = 0;
    const row *machine = highest(r);
    *s = (section){.id = "roofline", .title = "Roofline", .needs = "ringattn bench kernel"};
    s->about =
        "Arithmetic intensity: flops to the bytes of queries, keys, values and output, each moved once, with those "
        "of their gradients in a backward pass. The roof is the lower of the multiply-add peak and the intensity times "
        "the memory bandwidth. A run is judged by the "
        "peak and bandwidth that were measured with it; the line is the highest pair of readings.";
    chart *c = section_chart(a, s,
                             &(chart){.id = "roofline",
                                      .title = "Roofline",
                                      .x_axis = "flops a byte",
                                      .y_axis = "GFLOP/s",
                                      .x_scale = CHART_LOG,
                                      .y_scale = CHART_LOG,
                                      .missing = "no rows with flops, GFLOP/s and the machine's peak"});
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        if (!counts(it))
            continue;
        least = fmin(least, intensity(it));
        most = fmax(most, intensity(it));
        double rate = row_number(it, "gflops");
        const chart_point point = {.x = intensity(it),
                                   .y = rate,
                                   .low = rate,
                                   .high = rate,
                                   .hover = format_hover(a, it, "%s flops a byte, %s GFLOP/s, %s of its roof",
                                                         format_number(a, intensity(it)), format_number(a, rate),
                                                         format_percent(a, reached(it)))};
        chart_add(a, c, row_is(it, "method", "ringattn") ? row_text(it, "suite") : row_text(it, "method"), &point);
    }
    if (machine)
        draw_roof(a, c, machine, least, most);
    say(a, r, s, machine);
    section_finish(a, s);
}
