/* SPDX-License-Identifier: Apache-2.0 */
/* What a process holds, over the ring size and over the length. */
#include "format.h"
#include "line.h"
#include "section.h"

#include <math.h>
#include <string.h>

static const char RING[] = "run.ring_size", LENGTH[] = "problem.q_len", SECONDS[] = "seconds.median";
static const char PLANNED[] = "memory.planned_peak_bytes", ACCOUNTED[] = "memory.peak_bytes";
static const char RESIDENT[] = "memory.rss_peak_bytes";
static const double MIB = 1 << 20, SHOWN = 0.0005; /* half of the last digit of a slope */

static const struct {
    const char *path, *name;
} FIGURES[] = {{PLANNED, "planned"}, {ACCOUNTED, "accounted"}, {RESIDENT, "resident"}};
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

static void draw(arena *a, chart *c, const line *l, const char *by, const char *path, const char *what,
                 const char *series)
{
    for (int i = 0; i < l->count; i++) {
        const row *r = l->at[i];
        double bytes = row_number(r, path), held = bytes / MIB;
        const chart_point point = {.x = row_number(r, by),
                                   .y = held,
                                   .low = held,
                                   .high = held,
                                   .hover = format_hover(a, r, "%s: %s", what, format_bytes(a, bytes))};
        chart_add(a, c, series, &point);
    }
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
    for (int i = 0; i < l->count; i++)
        chart_refer(a, c, "1/R, from the first planned on", row_number(l->at[i], RING),
                    bytes / MIB * first / row_number(l->at[i], RING));
}

/* The lines of one problem over the ring size, one for each of FIGURES; lines of fewer than two ring sizes are none. */
typedef struct problem_lines {
    line of[FIGURE_COUNT];
} problem_lines;

static problem_lines *find_problems(arena *a, const rows *r, int *count)
{
    const int *groups = rows_groups(a, r, ROW_RING, count);
    problem_lines *problems = arena_take(a, (size_t)*count * sizeof *problems);
    for (int f = 0; f < FIGURE_COUNT; f++) {
        lines all = lines_of(a, r, ROW_RING, RING, FIGURES[f].path);
        for (int i = 0; i < r->count; i++) {
            line l = line_from(&all, i);
            if (of_suite(r, i) && line_values(&l, RING) >= 2)
                problems[groups[i]].of[f] = l;
        }
    }
    return problems;
}

static const row *first_of(const problem_lines *p)
{
    for (int f = 0; f < FIGURE_COUNT; f++)
        if (p->of[f].count)
            return p->of[f].at[0];
    return NULL;
}

/* A chart is of one problem: of that with the most ring sizes that ran, else that were planned; then of the longest. */
static bool better(const problem_lines *p, const problem_lines *than)
{
    const row *one = first_of(p), *other = first_of(than);
    if (!one || !other)
        return one != NULL;
    for (int f = FIGURE_COUNT - 1; f >= 0; f--) {
        int more = line_values(&p->of[f], RING) - line_values(&than->of[f], RING);
        if (more)
            return more > 0;
    }
    return row_number(one, LENGTH) > row_number(other, LENGTH);
}

static void draw_problem(arena *a, chart *c, const problem_lines *p)
{
    c->title = arena_text(a, "%s: %s", c->title, line_name(a, first_of(p), RING));
    for (int f = 0; f < FIGURE_COUNT; f++) {
        bool repeats = FIGURES[f].path == ACCOUNTED && p->of[f - 1].count; /* 0.9 to 1 of what was planned */
        if (!repeats)
            draw(a, c, &p->of[f], RING, FIGURES[f].path, FIGURES[f].name, FIGURES[f].name);
        if (FIGURES[f].path == PLANNED && p->of[f].count)
            draw_inverse(a, c, &p->of[f], PLANNED);
    }
}

/* What the library accounted for is what it promises; what the system adds is not in its hands. */
static void say_problem(arena *a, section *s, const problem_lines *p)
{
    for (int f = FIGURE_COUNT - 1; f >= 0; f--)
        if (FIGURES[f].path != RESIDENT && p->of[f].count) {
            say_slope(a, s, &p->of[f], FIGURES[f].path, FIGURES[f].name);
            return;
        }
}

static void over_rings(arena *a, const rows *r, section *s)
{
    chart *c = section_chart(a, s,
                             &(chart){.id = "memory-rings",
                                      .title = "Memory of a rank over the ring size",
                                      .x_axis = "ring size R",
                                      .y_axis = "MiB",
                                      .x_scale = CHART_LOG_COUNT,
                                      .y_scale = CHART_LOG,
                                      .joined = true,
                                      .missing = "no rows of suite memory that differ in their ring size"});
    int count;
    problem_lines *problems = find_problems(a, r, &count), none = {0}, *best = &none;
    for (int i = 0; i < count; i++) {
        say_problem(a, s, &problems[i]);
        if (better(&problems[i], best))
            best = &problems[i];
    }
    if (first_of(best))
        draw_problem(a, c, best);
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
            draw(a, c, &l, LENGTH, FIGURES[f].path, FIGURES[f].name,
                 arena_text(a, "%s, %s", line_name(a, l.at[0], LENGTH), FIGURES[f].name));
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
    *s = (section){.id = "memory", .title = "Memory", .needs = "ringattn bench memory"};
    s->about = "Planned: known before the run. Accounted: the most that the library held during it. Resident: what the "
               "operating system saw of the whole process. A power is a straight line in logarithms through what lies "
               "beyond the fixed part, which is where a straight line through the same figures over 1/R, or over the "
               "length, meets the axis; intervals are Student's t. The chart over the ring size is of one problem: "
               "that with the "
               "most ring sizes, and of those the longest.";
    over_rings(a, r, s);
    over_lengths(a, r, s);
    find_fastest(a, r, s);
    section_finish(a, s);
}
