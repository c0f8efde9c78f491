/* SPDX-License-Identifier: Apache-2.0 */
/* Two files of rows against each other: what became slower, larger or wrong beyond the noise. */
#include "compare.h"

#include "bench/fit.h"
#include "format.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SAMPLES = 3 };
static const char SECONDS[] = "seconds.median";

/* The verdicts on a row that is in both files. */
typedef enum verdict {
    SAME,
    FASTER,
    SLOWER,
    REGRESSED, /* slower past the threshold */
    LARGER,    /* past the threshold */
    BROKEN,    /* fails, and did not */
    MENDED,    /* failed, and does not */
    UNKNOWN,   /* too few samples to know the noise, or no times, or failed both times */
    VERDICTS
} verdict;

static const char *const NAMES[] = {
    [SAME] = "same",     [FASTER] = "faster",    [SLOWER] = "slower",      [REGRESSED] = "SLOWER",
    [LARGER] = "LARGER", [BROKEN] = "FAILS NOW", [MENDED] = "works again", [UNKNOWN] = "unknown"};

typedef struct comparison {
    rows old, new;
    const char *old_path, *new_path;
    double threshold; /* a fraction */
    FILE *out;
    arena memory;
    int verdicts[VERDICTS];
} comparison;

/* ---- Judging ----------------------------------------------------------------------------------------------------- */

/* Samples behind the median: the quiet ones, all where none was. */
static double samples(const row *r)
{
    double quiet = row_number(r, "seconds.quiet");
    return quiet > 0 ? quiet : row_number(r, "seconds.samples");
}

/* Of a median of normal values: their deviation is the distance of the quartiles / 1.349, a median's 1.2533 times a
 * mean's. */
static double standard_error(const row *r)
{
    return 1.2533 * (row_number(r, "seconds.high") - row_number(r, "seconds.low")) / 1.349 / sqrt(samples(r));
}

/* How far apart the medians of two rows with samples enough may be by chance. */
static double noise(const row *old, const row *new)
{
    const double many = 1000; /* t hardly changes from there on */
    int degrees = (int)fmin(samples(old) + samples(new) - 2, many);
    return fit_student(degrees) * hypot(standard_error(old), standard_error(new));
}

static double held(const row *r)
{
    double bytes = row_number(r, "memory.peak_bytes");
    return isfinite(bytes) ? bytes : row_number(r, "memory.planned_peak_bytes");
}

static bool can_be_judged(const row *old, const row *new)
{
    return samples(old) >= LEAST_SAMPLES && samples(new) >= LEAST_SAMPLES;
}

static verdict judge(const comparison *c, const row *old, const row *new)
{
    if (old->failed || new->failed)
        return old->failed && new->failed ? UNKNOWN : new->failed ? BROKEN : MENDED;
    double change = row_number(new, SECONDS) - row_number(old, SECONDS);
    bool judged = can_be_judged(old, new);
    if (judged && change > noise(old, new) && change > c->threshold * row_number(old, SECONDS))
        return REGRESSED;
    if (held(new) > (1 + c->threshold) * held(old))
        return LARGER;
    if (!judged)
        return UNKNOWN;
    return change > noise(old, new) ? SLOWER : -change > noise(old, new) ? FASTER : SAME;
}

/* ---- Printing ---------------------------------------------------------------------------------------------------- */

static void print_pair(comparison *c, verdict v, const row *old, const row *new)
{
    arena *a = &c->memory;
    double before = row_number(old, SECONDS), after = row_number(new, SECONDS);
    fprintf(c->out, "%-11s %s: %s; %s\n", NAMES[v], row_text(new, "suite"), format_case(a, new), format_run(a, new));
    if (v == BROKEN)
        fprintf(c->out, "%11s %s\n", "", row_has(new, "reason") ? row_text(new, "reason") : "out of tolerance");
    if (isfinite(before) && isfinite(after))
        fprintf(c->out, "%11s %s -> %s, %+.1f%%%s\n", "", format_seconds(a, before), format_seconds(a, after),
                100 * (after / before - 1),
                can_be_judged(old, new) ? arena_text(a, ", noise %.1f%%", 100 * noise(old, new) / before) : "");
    if (v == LARGER)
        fprintf(c->out, "%11s %s -> %s held\n", "", format_bytes(a, held(old)), format_bytes(a, held(new)));
}

/* Regressions first. */
static int print_pairs(comparison *c)
{
    static const verdict SHOWN[] = {BROKEN, REGRESSED, LARGER, SLOWER, FASTER, MENDED};
    int pairs = 0;
    for (int i = 0; i < c->new.count; i++) {
        const row *old = rows_find(&c->old, &c->new.at[i]);
        if (old) {
            pairs++;
            c->verdicts[judge(c, old, &c->new.at[i])]++;
        }
    }
    for (size_t v = 0; v < sizeof SHOWN / sizeof *SHOWN; v++)
        for (int i = 0; i < c->new.count; i++) {
            const row *old = rows_find(&c->old, &c->new.at[i]);
            if (old && judge(c, old, &c->new.at[i]) == SHOWN[v])
                print_pair(c, SHOWN[v], old, &c->new.at[i]);
        }
    return pairs;
}

/* Rows of one file that the other does not have. */
static void print_alone(comparison *c, const rows *r, const rows *other, const char *path)
{
    for (int i = 0; i < r->count; i++)
        if (!rows_find(other, &r->at[i]))
            fprintf(c->out, "only in %s: %s: %s; %s; %s\n", path, row_text(&r->at[i], "suite"),
                    format_case(&c->memory, &r->at[i]), format_problem(&c->memory, &r->at[i]),
                    format_run(&c->memory, &r->at[i]));
}

/* The value as JSON has it; "" where there is none. */
static const char *written(arena *a, row_value v)
{
    switch (v.kind) {
    case ROW_INTEGER: return arena_text(a, "%lld", (long long)v.is.integer);
    case ROW_TEXT: break;
    default: return "";
    }
    json_t *json = json_string(v.is.text);
    char *text = json_dumps(json, JSON_ENCODE_ANY);
    const char *own = arena_text(a, "%s", text ? text : "");
    free(text);
    json_decref(json);
    return own;
}

typedef struct value_set {
    const char **at; /* as they are written */
    int count;
    places found;
} value_set;

typedef struct value_search {
    const value_set *set;
    const char *value;
} value_search;

static bool is_value(const void *user, int index)
{
    const value_search *s = user;
    return strcmp(s->set->at[index], s->value) == 0;
}

/* False: it is there already. */
static bool set_add(arena *a, value_set *set, const char *value)
{
    uint64_t hash = places_hash(0, value, strlen(value));
    if (places_find(&set->found, hash, is_value, &(value_search){set, value}) >= 0)
        return false;
    places_add(a, &set->found, hash, set->count);
    set->at = arena_more(a, set->at, set->count, sizeof *set->at);
    set->at[set->count++] = value;
    return true;
}

/* Values of a field that rows have and no row of the other file has. */
static bool print_difference(comparison *c, const rows *r, const rows *other, const char *path, const char *file)
{
    bool any = false;
    value_set met = {0};
    for (int i = 0; i < other->count; i++)
        set_add(&c->memory, &met, written(&c->memory, row_at(&other->at[i], path)));
    for (int i = 0; i < r->count; i++) {
        const char *value = written(&c->memory, row_at(&r->at[i], path));
        if (!set_add(&c->memory, &met, value))
            continue;
        any = true;
        fprintf(c->out, "ATTENTION: only %s has %s %s\n", file, path, value);
    }
    return any;
}

static void print_machines(comparison *c)
{
    static const char *const PATHS[] = {"machine.processor", "machine.cores", "run.kernel"};
    static const char *const BUILDS[] = {"version", "compiler"}; /* which may be what is to be compared */
    bool any = false;
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        any |= print_difference(c, &c->old, &c->new, PATHS[i], c->old_path);
        any |= print_difference(c, &c->new, &c->old, PATHS[i], c->new_path);
    }
    for (size_t i = 0; i < sizeof BUILDS / sizeof *BUILDS; i++) {
        print_difference(c, &c->old, &c->new, BUILDS[i], c->old_path);
        print_difference(c, &c->new, &c->old, BUILDS[i], c->new_path);
    }
    if (any)
        fprintf(c->out,
                "ATTENTION: these are not runs of the same kernels on the same machine: a difference in time says "
                "nothing about the code\n");
}

static int print_summary(comparison *c, int pairs)
{
    const int *v = c->verdicts;
    int regressions = v[REGRESSED] + v[LARGER] + v[BROKEN];
    fprintf(c->out,
            "%d rows compared: %d faster and %d slower beyond the noise, %d the same, %d not judged (fewer than %d "
            "samples, "
            "or failed both times)\n",
            pairs, v[FASTER], v[SLOWER] + v[REGRESSED], v[SAME], v[UNKNOWN], LEAST_SAMPLES);
    fprintf(c->out, "%d regressions past %g%%: %d slower, %d larger, %d newly failing\n", regressions,
            100 * c->threshold, v[REGRESSED], v[LARGER], v[BROKEN]);
    return regressions ? 1 : 0;
}

/* ---- Both files -------------------------------------------------------------------------------------------------- */

static void complain(void *user, const char *path, int line, const char *what)
{
    (void)user;
    fprintf(stderr, "ringattn bench: %s:%d: %s\n", path, line, what);
}

static bool read_file(rows *r, const char *path)
{
    int found = rows_read(r, path, complain, NULL);
    if (found < 0)
        fprintf(stderr, "ringattn bench: %s: cannot be read: %s\n", path, strerror(errno));
    else if (found == 0)
        fprintf(stderr, "ringattn bench: %s: has no row that can be used\n", path);
    return found > 0;
}

static int compare(comparison *c)
{
    if (!read_file(&c->old, c->old_path) || !read_file(&c->new, c->new_path))
        return 2;
    print_machines(c);
    int pairs = print_pairs(c);
    print_alone(c, &c->old, &c->new, c->old_path);
    print_alone(c, &c->new, &c->old, c->new_path);
    if (pairs)
        return print_summary(c, pairs);
    fprintf(stderr, "ringattn bench: no row of %s has the same suite, case, method, problem and run as one of %s\n",
            c->new_path, c->old_path);
    return 2;
}

int report_compare(const char *old_path, const char *new_path, double threshold, FILE *out)
{
    comparison c = {.old_path = old_path, .new_path = new_path, .threshold = threshold / 100, .out = out};
    int code = compare(&c);
    rows_free(&c.old);
    rows_free(&c.new);
    arena_free(&c.memory);
    return code;
}
