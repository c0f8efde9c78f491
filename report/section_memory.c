/* What a process holds, over the ring size and over the length. */
#include "format.h"
#include "line.h"
#include "section.h"

#include <math.h>
#include <string.h>

static const char RING[] = "run.ring_size", LENGTH[] = "problem.q_len", SECONDS[] = "seconds.median";
static const char PLANNED[] = "memory.planned_peak_bytes", ACCOUNTED[] = "memory.peak_bytes";
static const double MIB = 1 << 20, SHOWN = 0.0005; /* half of the last digit of a slope */

static const struct {
    const char *path, *name;
} FIGURES[] = {{PLANNED, "planned"}, {ACCOUNTED, "accounted"}, {"memory.rss_peak_bytes", "resident"}};
enum { FIGURE_COUNT = sizeof FIGURES / sizeof *FIGURES };

static bool of_suite(const rows *r, int i)
{
    return row_is(&r->at[i], "suite", "memory");
}

/* What rows of one line have in common, as far as lines of this section differ in it. */
static const char *line_name(arena *a, const row *r, const char *by)
{
    const char *transport = row_text(r, "run.transport"), *pattern = row_text(r, "problem.pattern");
    return format_short(
        a,
        arena_text(a, "%s%s, %s%s%s%s%s",
                   by == RING ? format_count(a, row_number(r, LENGTH)) : arena_text(a, "R = %.0f", row_number(r, RING)),
                   by == RING ? " tokens" : "", row_text(r, "problem.dtype"), strcmp(pattern, "full") == 0 ? "" : ", ",
                   strcmp(pattern, "full") == 0 ? "" : pattern, strcmp(transport, "mpi") == 0 ? ", " : "",
                   strcmp(transport, "mpi") == 0 ? transport : ""));
}

/* False: nothing of it is shown. */
static bool draw(arena *a, chart *c, const line *l, const char *by, const char *path, const char *what)
{
    bool shown = false;
    for (int i = 0; i < l->count; i++) {
        const row *r = l->at[i];
        double bytes = row_number(r, path), held = bytes / MIB;
        const chart_point point = {.x = row_number(r, by),
                                   .y = held,
                                   .low = held,
                                   .high = held,
                                   .hover = format_hover(a, r, "%s: %s", what, format_bytes(a, bytes))};
        shown |= chart_add(a, c, arena_text(a, "%s, %s", line_name(a, r, by), what), &point);
    }
    return shown;
}

static const char *beyond(arena *a, double fixed)
{
    return fixed > 0 ? arena_text(a, "beyond a fixed %s, ", format_bytes(a, fixed)) : "";
}

/* ---- Over the ring size ------------------------------------------------------------------------------------------ */

static void say_slope(arena *a, section *s, const line *l, const char *path, const char *what)
{
    const row *first = l->at[0], *last = l->at[l->count - 1];
    const char *name = line_name(a, first, RING);
    double fixed;
    fit slope;
    if (!line_power_beyond(a, l, RING, path, -1, &fixed, &slope)) {
        section_say(a, s, "%s, %s: %d ring sizes are too few to say how memory falls.", name, what,
                    line_values(l, RING));
        return;
    }
    bool inside = slope.low - SHOWN <= -1 && slope.high + SHOWN >= -1;
    section_say(a, s, "%s, %s: %smemory %s as %s over %d ring sizes from %.0f to %.0f; 1/R is %s.", name, what,
                beyond(a, fixed), slope.slope < 0 ? "falls" : "grows", line_power_text(a, "R", &slope),
                line_values(l, RING), row_number(first, RING), row_number(last, RING),
                inside ? "inside the interval" : "outside it");
}

/* In proportion to 1/R from the first point on. */
static void draw_inverse(arena *a, chart *c, const line *l, const char *path)
{
    double first = row_number(l->at[0], RING), bytes = row_number(l->at[0], path);
    const char *name = arena_text(a, "1/R, %s", line_name(a, l->at[0], RING));
    for (int i = 0; i < l->count; i++)
        chart_refer(a, c, name, row_number(l->at[i], RING), bytes / MIB * first / row_number(l->at[i], RING));
}

static void over_rings(arena *a, const rows *r, section *s)
{
    chart *c = section_chart(a, s,
                             &(chart){.id = "memory-rings",
                                      .title = "Memory of a process over the ring size",
                                      .x_axis = "ring size R",
                                      .y_axis = "MiB",
                                      .x_scale = CHART_LOG_COUNT,
                                      .y_scale = CHART_LOG,
                                      .joined = true,
                                      .missing = "no rows of suite memory that differ in their ring size"});
    lines figures[FIGURE_COUNT];
    for (int f = 0; f < FIGURE_COUNT; f++)
        figures[f] = lines_of(a, r, ROW_RING, RING, FIGURES[f].path);
    for (int i = 0; i < r->count; i++) {
        bool judged = false;
        for (int f = FIGURE_COUNT - 1; f >= 0 && of_suite(r, i); f--) {
            line l = line_from(&figures[f], i);
            if (line_values(&l, RING) < 2)
                continue;
            bool shown = draw(a, c, &l, RING, FIGURES[f].path, FIGURES[f].name);
            if (shown && FIGURES[f].path == PLANNED)
                draw_inverse(a, c, &l, PLANNED);
            /* What the library accounted for is what it promises; what the system adds is not in its hands. */
            if (f < FIGURE_COUNT - 1 && !judged)
                say_slope(a, s, &l, FIGURES[f].path, FIGURES[f].name);
            judged |= f < FIGURE_COUNT - 1;
        }
    }
}

/* ---- Over the length --------------------------------------------------------------------------------------------- */

static void say_growth(arena *a, section *s, const line *l)
{
    double fixed;
    fit power;
    if (line_power_beyond(a, l, LENGTH, PLANNED, 1, &fixed, &power))
        section_say(a, s, "%s, planned: %smemory grows as %s over %d lengths from %s to %s tokens.",
                    line_name(a, l->at[0], LENGTH), beyond(a, fixed), line_power_text(a, "n", &power),
                    line_values(l, LENGTH), format_count(a, row_number(l->at[0], LENGTH)),
                    format_count(a, row_number(l->at[l->count - 1], LENGTH)));
}

static void over_lengths(arena *a, const rows *r, section *s)
{
    enum { LEAST = 3 }; /* a plan and a run of different lengths, as any ring size may have them, are no line yet */
    chart *c = section_chart(a, s,
                             &(chart){.id = "memory-lengths",
                                      .title = "Memory of a process over the length",
                                      .x_axis = "tokens",
                                      .y_axis = "MiB",
                                      .x_scale = CHART_LOG_COUNT,
                                      .y_scale = CHART_LOG,
                                      .joined = true,
                                      .missing = "no rows of suite memory with three lengths at one ring size"});
    lines figures[FIGURE_COUNT];
    for (int f = 0; f < FIGURE_COUNT; f++)
        figures[f] = lines_of(a, r, ROW_LENGTH, LENGTH, FIGURES[f].path);
    for (int i = 0; i < r->count; i++)
        for (int f = 0; f < FIGURE_COUNT && of_suite(r, i); f++) {
            line l = line_from(&figures[f], i);
            if (line_values(&l, LENGTH) < LEAST)
                continue;
            draw(a, c, &l, LENGTH, FIGURES[f].path, FIGURES[f].name);
            if (FIGURES[f].path == PLANNED)
                say_growth(a, s, &l);
        }
}

/* ---- The fastest that fits --------------------------------------------------------------------------------------- */

/* NAN: not known. */
static double held(const row *r)
{
    double accounted = row_number(r, ACCOUNTED), planned = row_number(r, PLANNED);
    return accounted > 0 ? accounted : planned > 0 ? planned : NAN;
}

static const row *fastest_within(const line *l, double budget)
{
    const row *best = NULL;
    for (int i = 0; i < l->count; i++)
        if (held(l->at[i]) <= budget && (!best || row_number(l->at[i], SECONDS) < row_number(best, SECONDS)))
            best = l->at[i];
    return best;
}

/* Budgets are powers of two; one that changes nothing is not mentioned. */
static void say_fastest(arena *a, section *s, const line *l)
{
    double least = INFINITY, most = 0;
    const row *before = NULL;
    for (int i = 0; i < l->count; i++) {
        least = fmin(least, held(l->at[i]));
        most = fmax(most, held(l->at[i]));
    }
    for (int power = (int)ceil(log2(least)); power <= (int)ceil(log2(most)); power++) {
        double budget = exp2(power);
        const row *best = fastest_within(l, budget);
        if (best && best != before)
            section_say(a, s, "%s: ring size %.0f is the fastest that fits %s (%s; %s, %s).", format_problem(a, best),
                        row_number(best, RING), format_bytes(a, budget), format_run(a, best),
                        format_seconds(a, row_number(best, SECONDS)), format_bytes(a, held(best)));
        before = best;
    }
}

static void find_fastest(arena *a, const rows *r, section *s)
{
    bool any = false;
    lines all = lines_of(a, r, ROW_RING | ROW_SPREAD | ROW_THREADS, RING, SECONDS);
    for (int i = 0; i < r->count; i++) {
        if (!of_suite(r, i) || !isfinite(held(&r->at[i])))
            continue;
        line l = line_from(&all, i);
        if (line_values(&l, RING) < 2)
            continue;
        any = true;
        say_fastest(a, s, &l);
    }
    if (!any)
        section_say(a, s,
                    "Which ring size is the fastest in a budget cannot be said: no rows of suite memory over ring "
                    "sizes have both a time and a memory.");
}

void section_memory(arena *a, const rows *r, section *s)
{
    *s = (section){.id = "memory", .title = "Memory"};
    s->about =
        "Planned: known before the run. Accounted: the most that the library held during it. Resident: what the "
        "operating system saw of the whole process. A power is a straight line in logarithms through what lies "
        "beyond the fixed part, which is where a straight line through the same figures over 1/R, or over the "
        "length, meets the axis; intervals are Student's t. The dashed lines are 1/R from the first planned point on.";
    over_rings(a, r, s);
    over_lengths(a, r, s);
    find_fastest(a, r, s);
    section_finish(a, s);
}
