/* SPDX-License-Identifier: Apache-2.0 */
/* What logs of trainings say: the loss over tokens, speed, waiting and memory. */
#include "format.h"
#include "training.h"

#include <math.h>

static const double LN2 = 0.69314718055994530942, MIB = 1 << 20;
enum { POINTS = 200 }; /* of a line; of longer logs, means over several steps are drawn */

typedef double (*figure)(const training_step *s);

static double bits(const training_step *s)
{
    return s->loss / LN2;
}

static double speed(const training_step *s)
{
    return s->tokens_per_second;
}

static double all_seconds(const training_step *s)
{
    return s->compute + s->wait + s->communication;
}

static double waiting(const training_step *s)
{
    return 100 * s->wait / all_seconds(s);
}

static double communicating(const training_step *s)
{
    return 100 * s->communication / all_seconds(s);
}

static double planned(const training_step *s)
{
    return s->planned_bytes / MIB;
}

static double held(const training_step *s)
{
    return s->peak_bytes / MIB;
}

/* The mean of steps first to end - 1; NAN where one has none. */
static double mean(const training *t, int first, int end, figure of)
{
    double sum = 0;
    for (int i = first; i < end; i++)
        sum += of(&t->steps[i]);
    return sum / (end - first);
}

/* One line of a chart over tokens. */
static void draw(arena *a, chart *c, const training *t, const char *what, const char *unit, figure of)
{
    int each = (t->count + POINTS - 1) / POINTS;
    const char *name = *what ? arena_text(a, "%s, %s", t->name, what) : t->name;
    for (int first = 0; first < t->count; first += each) {
        int end = first + each < t->count ? first + each : t->count;
        double y = mean(t, first, end, of);
        const chart_point point = {.x = t->steps[end - 1].tokens,
                                   .y = y,
                                   .low = y,
                                   .high = y,
                                   .hover =
                                       arena_text(a, "%s\nsteps %.0f to %.0f: %s%s%s", name, t->steps[first].step,
                                                  t->steps[end - 1].step, format_number(a, y), *unit ? " " : "", unit)};
        chart_add(a, c, name, &point);
    }
}

static chart *over_tokens(arena *a, section *s, const char *id, const char *title, const char *y_axis,
                          const char *missing)
{
    return section_chart(a, s,
                         &(chart){.id = id,
                                  .title = title,
                                  .x_axis = "tokens",
                                  .y_axis = y_axis,
                                  .x_scale = CHART_FROM_ZERO,
                                  .y_scale = CHART_FROM_ZERO,
                                  .joined = true,
                                  .missing = missing});
}

static void say(arena *a, section *s, const training *t)
{
    int tenth = t->count >= 10 ? t->count / 10 : 1;
    const training_step *last = &t->steps[t->count - 1];
    section_say(a, s,
                "%s: %s steps, %s tokens, %d %s. Bits a byte: %.4f in the first tenth, %.4f in the last, %.4f in the "
                "last step.",
                t->name, format_count(a, last->step), format_count(a, last->tokens), last->ranks,
                last->ranks == 1 ? "rank" : "ranks", mean(t, 0, tenth, bits), mean(t, t->count - tenth, t->count, bits),
                bits(last));
    section_say(a, s, "%s: %s tokens a second on average; ranks waited %s of their time and summed gradients %s of it.",
                t->name, format_count(a, round(mean(t, 0, t->count, speed))),
                format_percent(a, mean(t, 0, t->count, waiting) / 100),
                format_percent(a, mean(t, 0, t->count, communicating) / 100));
    section_say(a, s, "%s: a rank held %s at most; planned were %s.", t->name, format_bytes(a, last->peak_bytes),
                format_bytes(a, last->planned_bytes));
}

static void section_learning(arena *a, const trainings *t, section *s)
{
    *s = (section){.id = "training", .title = "Training"};
    s->about =
        "Bits a byte: the mean loss of a step in bits. Waiting: of all ranks' time, that in which they waited for "
        "each other's keys and values. Memory: the most that a rank held, and what was planned for it.";
    chart *loss = over_tokens(a, s, "training-loss", "Bits a byte over tokens", "bits a byte", "no step has a loss");
    for (int i = 0; i < t->count; i++) {
        draw(a, loss, &t->at[i], "", "bits a byte", bits);
        say(a, s, &t->at[i]);
    }
    chart *fast = over_tokens(a, s, "training-speed", "Tokens a second", "tokens a second", "no step has a speed");
    for (int i = 0; i < t->count; i++)
        draw(a, fast, &t->at[i], "", "tokens a second", speed);
    chart *wait = over_tokens(a, s, "training-waiting", "Waiting and summing over ranks", "% of the time",
                              "no step has the times of its ranks");
    for (int i = 0; i < t->count; i++) {
        draw(a, wait, &t->at[i], "waiting", "%", waiting);
        draw(a, wait, &t->at[i], "summing gradients", "%", communicating);
    }
    chart *memory =
        over_tokens(a, s, "training-memory", "Memory of a rank", "MiB", "no step has the memory of its ranks");
    for (int i = 0; i < t->count; i++) {
        draw(a, memory, &t->at[i], "planned", "MiB", planned);
        draw(a, memory, &t->at[i], "held", "MiB", held);
    }
    section_finish(a, s);
}

void document_make_training(document *d, const trainings *t)
{
    *d = (document){.title = "ringattn: training report", .count = 1};
    d->sections = arena_take(&d->memory, sizeof *d->sections);
    section_learning(&d->memory, t, d->sections);
}
