/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rounds of a suite: which case is measured next, and when there are enough samples. What a sample is: sampling.c.
 * See harness.h.
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_ROUNDS = 3 };
static const double SMALL_SPREAD = 0.01;

/* Numbers that look random, the same in every run: a round's order can be repeated. */
static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void shuffle(int *order, int count, uint64_t *state)
{
    for (int i = count - 1; i > 0; i--) {
        int other = (int)(draw(state) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* Samples that a case may take. */
static int room(const harness_case *c, int rounds)
{
    return !c->run ? 0 : c->most && c->most < rounds ? c->most : rounds;
}

static bool full(const harness_case *c, int rounds)
{
    return c->taken.count >= room(c, rounds);
}

/* Nothing more is to be learned: all that may still take samples agree with themselves. */
static bool settled(const harness_case *cases, int count, int rounds)
{
    for (int i = 0; i < count; i++)
        if (!full(&cases[i], rounds) && !(sampling_spread(&cases[i].taken) <= SMALL_SPREAD))
            return false;
    return true;
}

/* ---- How far it is ----------------------------------------------------------------------------------------------- */

typedef struct showing {
    double started, said;
    int samples, most; /* taken so far; that there can be */
    bool terminal;
} showing;

static showing show_begin(const harness_case *cases, int count, int rounds)
{
    showing s = {.started = probe_seconds(), .terminal = isatty(STDERR_FILENO)};
    s.said = s.started;
    for (int i = 0; i < count; i++)
        s.most += room(&cases[i], rounds);
    return s;
}

/* A line that is drawn over on a terminal, else one every few seconds. Samples may agree, or time be up, before all
 * rounds are through. */
static void show(showing *s, const bench_options *options, const char *name, int round)
{
    static const double SECONDS_BETWEEN_LINES = 5;
    double now = probe_seconds(), left = INFINITY;
    char time_left[48] = "";
    if (!s->terminal && now - s->said < SECONDS_BETWEEN_LINES)
        return;
    s->said = now;
    if (s->samples > 0)
        left = (now - s->started) / s->samples * (s->most - s->samples);
    if (options->seconds > 0)
        left = fmin(left, fmax(0, s->started + options->seconds - now));
    if (isfinite(left))
        snprintf(time_left, sizeof time_left, ", at most %d:%02d left", (int)(left / 60), (int)fmod(left, 60));
    fprintf(stderr, "%sround %d of at most %d%s: %s%s", s->terminal ? "\r" : "ringattn bench: ", round + 1,
            options->rounds, time_left, name, s->terminal ? "\033[K" : "\n");
}

static void show_nothing(const showing *s)
{
    if (s->terminal)
        fputs("\r\033[K", stderr);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static int run_round(const bench_options *options, harness_case *cases, const int *order, int count, int round,
                     showing *shown)
{
    for (int i = 0; i < count && !options->interrupted(); i++) {
        harness_case *c = &cases[order[i]];
        if (full(c, options->rounds))
            continue;
        show(shown, options, c->name, round);
        ra_status status = sampling_take(&c->taken, c->kernel, c->threads, c->run, c->user);
        shown->samples++;
        if (status) {
            show_nothing(shown);
            return harness_failed(c->name, status);
        }
    }
    return 0;
}

int harness_measure(const bench_options *options, harness_case *cases, int count)
{
    int *order = malloc((size_t)(count > 0 ? count : 1) * sizeof *order), code = 0;
    uint64_t state = options->seed;
    double end = options->seconds > 0 ? probe_seconds() + options->seconds : INFINITY;
    if (!order) {
        fprintf(stderr, "ringattn bench: out of memory\n");
        return 1;
    }
    showing shown = show_begin(cases, count, options->rounds);
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int round = 0; round < options->rounds && !code && !options->interrupted(); round++) {
        if (round >= LEAST_ROUNDS && (probe_seconds() >= end || settled(cases, count, options->rounds)))
            break;
        shuffle(order, count, &state);
        code = run_round(options, cases, order, count, round, &shown);
    }
    show_nothing(&shown);
    free(order);
    return code;
}

probe_reading harness_undisturbed(const harness_case *cases, int count, const harness_case *of)
{
    int most = 0, n = 0;
    for (int i = 0; i < count; i++)
        most += 2 * cases[i].taken.count;
    double *readings = malloc((size_t)(most ? most : 1) * sizeof *readings);
    if (!readings) /* then every sample counts as quiet */
        return (probe_reading){0, 0};
    for (int i = 0; i < count; i++)
        if (cases[i].run && cases[i].kernel == of->kernel && cases[i].threads == of->threads)
            n += sampling_readings(&cases[i].taken, readings + n);
    probe_reading best = sampling_undisturbed(readings, n);
    free(readings);
    return best;
}

bool harness_wanted(const bench_options *options, const char *name)
{
    return !options->only || strstr(name, options->only);
}

int harness_failed(const char *name, ra_status status)
{
    fprintf(stderr, "ringattn bench: %s: %s: %s\n", name, ra_status_name(status), ra_last_message());
    return 1;
}

int harness_nothing(const bench_options *options)
{
    fprintf(stderr, "ringattn bench: no case has \"%s\" in its name\n", options->only);
    return 2;
}
