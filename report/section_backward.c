/* SPDX-License-Identifier: Apache-2.0 */
/* Backward passes: what of the peak they reach, and what they cost beside the forward passes of the same problems. */
#include "bench/sampling.h"
#include "format.h"
#include "section.h"

#include <math.h>

static const char SECONDS[] = "seconds.median";

static bool timed(const row *r, const char *direction)
{
    return !r->failed && row_is(r, "run.direction", direction) && row_has(r, SECONDS);
}

/* For each row a forward pass of the same problem that was run in the same way, in any suite; NULL: there is none. */
static const row **find_forward(arena *a, const rows *r)
{
    int count;
    const int *groups = rows_groups(a, r, ROW_SUITE | ROW_DIRECTION, &count);
    const row **first = arena_take(a, (size_t)count * sizeof(const row *));
    const row **of_rows = arena_take(a, (size_t)r->count * sizeof(const row *));
    for (int i = 0; i < r->count; i++)
        if (timed(&r->at[i], "forward") && !first[groups[i]])
            first[groups[i]] = &r->at[i];
    for (int i = 0; i < r->count; i++)
        of_rows[i] = first[groups[i]];
    return of_rows;
}

static double to_forward(const row *r, const row *forward)
{
    return forward ? row_number(r, SECONDS) / row_number(forward, SECONDS) : NAN;
}

static void say_peak(arena *a, const rows *r, section *s)
{
    double *reached = arena_take(a, ((size_t)r->count + 1) * sizeof *reached);
    int count = 0;
    for (int i = 0; i < r->count; i++)
        if (timed(&r->at[i], "backward") && row_has(&r->at[i], "of_peak"))
            reached[count++] = row_number(&r->at[i], "of_peak");
    double middle = sampling_median(reached, count);
    if (count)
        section_say(a, s, "%d backward passes reach %s to %s of the multiply-add peak, half of them %s or more.", count,
                    format_percent(a, reached[0]), format_percent(a, reached[count - 1]), format_percent(a, middle));
}

static void say_forward(arena *a, const rows *r, section *s, const row *const *forward)
{
    double least = INFINITY, most = 0;
    int count = 0;
    for (int i = 0; i < r->count; i++) {
        if (!timed(&r->at[i], "backward") || !forward[i])
            continue;
        count++;
        least = fmin(least, to_forward(&r->at[i], forward[i]));
        most = fmax(most, to_forward(&r->at[i], forward[i]));
    }
    if (count)
        section_say(a, s, "Of %d problems both passes were timed: the backward pass takes %.2f to %.2f times as long.",
                    count, least, most);
    else
        section_say(a, s,
                    "What they take beside a forward pass is not known: no row of one has the same problem, "
                    "threads and kernel.");
}

static void tabulate(arena *a, section *s, table **t, const row *r, const row *forward)
{
    if (!*t)
        *t = section_table(a, s, "Backward passes",
                           "case|problem|run|time#|GFLOP/s#|of peak#|goal#|to forward#|accounted#|error#");
    table_put(a, *t, format_case(a, r));
    table_put(a, *t, format_problem(a, r));
    table_put(a, *t, format_run(a, r));
    table_put(a, *t, format_seconds(a, row_number(r, SECONDS)));
    table_put(a, *t, format_number(a, row_number(r, "gflops")));
    table_put(a, *t, format_percent(a, row_number(r, "of_peak")));
    table_put(a, *t, format_percent(a, row_number(r, "against.goal")));
    table_put(a, *t, forward ? arena_text(a, "%.2f", to_forward(r, forward)) : "-");
    table_put(a, *t, format_bytes(a, row_number(r, "memory.peak_bytes")));
    table_put(a, *t, row_has(r, "error") ? arena_text(a, "%.1e", row_number(r, "error.largest")) : "-");
}

void section_backward(arena *a, const rows *r, section *s)
{
    *s = (section){.id = "backward", .title = "Backward passes", .needs = "ringattn bench backward"};
    s->about =
        "Gradients by queries, keys and values: 2 x visible pairs x (3 head dim + 2 value dim) flops, which is 2.5 "
        "times those of a forward pass where both dims are the same. To forward: the median time to that of a forward "
        "pass of the same problem with the same threads and kernel. Errors are in parts of the largest element of the "
        "rows that were compared, for each gradient by itself.";
    const row **forward = find_forward(a, r);
    table *t = NULL;
    for (int i = 0; i < r->count; i++)
        if (timed(&r->at[i], "backward"))
            tabulate(a, s, &t, &r->at[i], forward[i]);
    say_peak(a, r, s);
    if (t)
        say_forward(a, r, s, forward);
    else
        section_say(a, s, "No row is of a backward pass that was timed.");
}
