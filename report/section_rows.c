/* SPDX-License-Identifier: Apache-2.0 */
/* The rows themselves: what there is, how good it is, what failed, and all of them in tables. */
#include "bench/sampling.h"
#include "format.h"
#include "line.h"
#include "section.h"

#include <math.h>
#include <string.h>

/* ---- Summary ----------------------------------------------------------------------------------------------------- */

/* The different texts of a field, in the order of rows, separated by "; ". */
static const char *different(arena *a, const rows *r, const char *path, int *count)
{
    const int *numbers = rows_texts(a, r, path, count);
    const char **texts = arena_take(a, (size_t)*count * sizeof *texts);
    for (int i = 0; i < r->count; i++)
        if (numbers[i] >= 0)
            texts[numbers[i]] = row_text(&r->at[i], path);
    return arena_join(a, texts, *count, "; ");
}

/* The largest number of a field; NAN: no row has it. */
static double largest(const rows *r, const char *path)
{
    double most = NAN;
    for (int i = 0; i < r->count; i++)
        most = fmax(most, row_number(&r->at[i], path));
    return most;
}

static void tabulate_machine(arena *a, const rows *r, section *s)
{
    static const struct {
        const char *name, *path;
    } TEXTS[] = {{"processor", "machine.processor"},
                 {"kernels", "run.kernel"},
                 {"version", "version"},
                 {"compiler", "compiler"},
                 {"MPI", "mpi"}};
    table *t = section_table(a, s, "Machine", "what|value");
    int count;
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        const char *text = different(a, r, TEXTS[i].path, &count);
        table_put(a, t, TEXTS[i].name);
        table_put(a, t, *text ? text : "-");
    }
    table_cell(a, t, "cores");
    table_put(a, t, format_count(a, largest(r, "machine.cores")));
    table_cell(a, t, "memory");
    table_put(a, t, format_bytes(a, largest(r, "machine.memory_bytes")));
    table_cell(a, t, "multiply-add peak, highest reading");
    table_cell(a, t, "%s GFLOP/s", format_number(a, largest(r, "machine.peak_gflops")));
    table_cell(a, t, "memory bandwidth, highest reading");
    table_cell(a, t, "%s GB/s", format_number(a, largest(r, "machine.bandwidth_gbs")));
}

/* Rows that differ in something that times depend on. */
static void say_mixed(arena *a, const rows *r, section *s, const char *path, const char *what)
{
    int count;
    different(a, r, path, &count);
    if (count > 1)
        section_say(a, s, "ATTENTION: the rows are of %d different %s; what they differ in may be that.", count, what);
}

static void say_rows(arena *a, const rows *r, section *s)
{
    const char *first = row_text(&r->at[0], "time"), *last = first;
    int failed = 0, machines;
    for (int i = 0; i < r->count; i++) {
        const char *time = row_text(&r->at[i], "time");
        first = strcmp(time, first) < 0 ? time : first;
        last = strcmp(time, last) > 0 ? time : last;
        failed += r->at[i].failed;
    }
    section_say(a, s, "%d rows of %d file%s, measured from %s to %s.", r->count, r->files, r->files == 1 ? "" : "s",
                first, last);
    if (failed)
        section_say(a, s, "%d of them failed: listed below, and counted nowhere.", failed);
    else
        section_say(a, s, "None of them failed.");
    if (r->replaced)
        section_say(a, s, "%d more %s left out for newer ones of the same configuration.", r->replaced,
                    r->replaced == 1 ? "was" : "were");
    if (r->unusable)
        section_say(a, s, "%d line%s could not be used: the command has named them on standard error.", r->unusable,
                    r->unusable == 1 ? "" : "s");
    different(a, r, "machine.processor", &machines);
    if (machines > 1)
        section_say(a, s,
                    "ATTENTION: the rows are of %d different processors; times of different machines stand side by "
                    "side here.",
                    machines);
    say_mixed(a, r, s, "version", "versions of ringattn");
    say_mixed(a, r, s, "compiler", "compilers");
}

/* ---- Quality ----------------------------------------------------------------------------------------------------- */

static void say_errors(arena *a, const rows *r, section *s)
{
    const row *worst = NULL;
    int checked = 0;
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        if (it->failed || !(row_number(it, "error.tolerance") > 0))
            continue;
        checked++;
        if (!worst || row_number(it, "error.largest") / row_number(it, "error.tolerance") >
                          row_number(worst, "error.largest") / row_number(worst, "error.tolerance"))
            worst = it;
    }
    if (worst)
        section_say(a, s,
                    "%d rows were checked against the oracle; the largest error is %s of its tolerance (%s, %s: %.1e "
                    "of %.0e).",
                    checked,
                    format_percent(a, row_number(worst, "error.largest") / row_number(worst, "error.tolerance")),
                    row_text(worst, "suite"), format_case(a, worst), row_number(worst, "error.largest"),
                    row_number(worst, "error.tolerance"));
    else
        section_say(a, s, "No row was checked against the oracle.");
}

static void say_noise(arena *a, const rows *r, section *s)
{
    double *spreads = arena_take(a, ((size_t)r->count + 1) * sizeof *spreads);
    int count = 0, loud = 0;
    for (int i = 0; i < r->count; i++)
        if (!r->at[i].failed && row_number(&r->at[i], "seconds.samples") >= 3) {
            spreads[count++] = row_number(&r->at[i], "seconds.spread");
            loud += row_number(&r->at[i], "seconds.quiet") == 0;
        }
    double middle = sampling_median(spreads, count);
    if (count)
        section_say(a, s,
                    "Of %d rows with three samples or more, half have a spread (between quartiles) of %s or less, "
                    "the widest %s; %d had no quiet sample.",
                    count, format_percent(a, middle), format_percent(a, spreads[count - 1]), loud);
    else
        section_say(a, s, "No row has three samples: how noisy the times are is not known.");
}

/* Of times less is better, of everything else more. */
static bool meets(const row *r)
{
    double value = row_number(r, "against.value"), goal = row_number(r, "against.goal");
    return strncmp(row_text(r, "against.what"), "time", 4) == 0 ? value <= goal : value >= goal;
}

static void say_goals(arena *a, const rows *r, section *s)
{
    const char **missed = NULL;
    int goals = 0, met = 0;
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        if (it->failed || !row_has(it, "against.goal"))
            continue;
        goals++;
        met += meets(it);
        if (meets(it))
            continue;
        missed = arena_more(a, missed, goals - met - 1, sizeof *missed);
        missed[goals - met - 1] =
            arena_text(a, "%s: %s of %s, %s", format_case(a, it), format_number(a, row_number(it, "against.value")),
                       format_number(a, row_number(it, "against.goal")), row_text(it, "against.what"));
    }
    bool all = met == goals;
    if (goals)
        section_say(a, s, "%d of %d goals are met.%s%s%s", met, goals,
                    all ? "" : " Missed: ", arena_join(a, missed, goals - met, "; "), all ? "" : ".");
}

static void say_predictions(arena *a, const rows *r, section *s)
{
    double *factors = arena_take(a, ((size_t)r->count + 1) * sizeof *factors);
    int count = 0;
    for (int i = 0; i < r->count; i++) {
        double predicted = row_number(&r->at[i], "predicted_seconds"), taken = row_number(&r->at[i], "seconds.median");
        if (!r->at[i].failed && predicted > 0 && taken > 0)
            factors[count++] = fabs(log(predicted / taken));
    }
    double middle = sampling_median(factors, count);
    if (count)
        section_say(a, s, "Of %d times that were predicted, half are right within a factor of %.2f, all within %.2f.",
                    count, exp(middle), exp(factors[count - 1]));
}

void section_summary(arena *a, const rows *r, section *s)
{
    *s = (section){.id = "summary", .title = "What was measured"};
    say_rows(a, r, s);
    say_errors(a, r, s);
    say_noise(a, r, s);
    say_goals(a, r, s);
    say_predictions(a, r, s);
    tabulate_machine(a, r, s);
}

/* ---- Tables of rows ---------------------------------------------------------------------------------------------- */

void section_failed(arena *a, const rows *r, section *s)
{
    *s = (section){.id = "failed", .title = "Failed", .needs = ""};
    s->about = "Out of tolerance, or not run to the end. No figure of these rows is used anywhere in this report.";
    table *t = NULL;
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        if (!it->failed)
            continue;
        if (!t)
            t = section_table(a, s, "Failed rows", "suite|case|problem|run|reason");
        table_put(a, t, row_text(it, "suite"));
        table_put(a, t, format_case(a, it));
        table_put(a, t, format_problem(a, it));
        table_put(a, t, format_run(a, it));
        table_put(a, t, row_has(it, "reason") ? row_text(it, "reason") : "out of tolerance");
    }
    if (!t)
        section_say(a, s, "No row failed.");
}

static const char *against(arena *a, const row *r)
{
    if (!row_has(r, "against"))
        return "-";
    return arena_text(a, "%s %s%s%s", format_number(a, row_number(r, "against.value")), row_text(r, "against.what"),
                      row_has(r, "against.goal") ? ", goal " : "",
                      row_has(r, "against.goal") ? format_number(a, row_number(r, "against.goal")) : "");
}

static void tabulate_row(arena *a, table *t, const row *r)
{
    table_put(a, t, format_case(a, r));
    table_put(a, t, format_problem(a, r));
    table_put(a, t, format_run(a, r));
    table_put(a, t, format_seconds(a, row_number(r, "seconds.median")));
    table_put(a, t, format_percent(a, row_number(r, "seconds.spread")));
    table_put(a, t,
              row_has(r, "seconds")
                  ? arena_text(a, "%.0f/%.0f", row_number(r, "seconds.quiet"), row_number(r, "seconds.samples"))
                  : "-");
    table_put(a, t, format_number(a, row_number(r, "gflops")));
    table_put(a, t, format_percent(a, row_number(r, "of_peak")));
    table_put(a, t, format_bytes(a, row_number(r, "memory.planned_peak_bytes")));
    table_put(a, t, format_bytes(a, row_number(r, "memory.peak_bytes")));
    table_put(a, t, format_bytes(a, row_number(r, "memory.rss_peak_bytes")));
    table_put(a, t, row_has(r, "error") ? arena_text(a, "%.1e", row_number(r, "error.largest")) : "-");
    table_put(a, t, against(a, r));
}

static void tabulate_suite(arena *a, section *s, const line *members)
{
    table *t = section_table(a, s, arena_text(a, "Suite %s", row_text(members->at[0], "suite")),
                             "case|problem|run|time#|spread#|quiet#|GFLOP/s#|of peak#|planned#|accounted#|resident#|"
                             "error#|against");
    for (int i = 0; i < members->count; i++)
        tabulate_row(a, t, members->at[i]);
}

void section_cases(arena *a, const rows *r, section *s)
{
    *s = (section){.id = "cases", .title = "All cases"};
    s->about =
        "Spread: between the quartiles, to the median. Quiet: samples that nothing disturbed, of all; medians are over "
        "the quiet ones, over all where none was. Of peak: to the multiply-add peak around each sample.";
    int suites;
    const int *numbers = rows_texts(a, r, "suite", &suites);
    line *members = arena_take(a, (size_t)suites * sizeof *members);
    for (int i = 0; i < r->count; i++) {
        line *l = &members[numbers[i]];
        if (r->at[i].failed)
            continue;
        l->at = arena_more(a, l->at, l->count, sizeof(const row *));
        l->at[l->count++] = &r->at[i];
    }
    for (int i = 0; i < r->count; i++) {
        const line *l = &members[numbers[i]];
        if (l->count && l->at[0] == &r->at[i])
            tabulate_suite(a, s, l);
    }
}
