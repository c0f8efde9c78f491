/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses among ways to run a problem, and says why the others lost. Printing is in advice_print.c. See advice.h. */
#include "advice.h"

#include <stdio.h>

/* Times whose ratio is below this are equal within the error of a prediction. */
static const double AS_FAST = 1.02;

int advice_best(const advice_choice *choices, int count, int64_t memory)
{
    int fastest = -1;
    for (int i = 0; i < count; i++)
        if (choices[i].bytes <= memory && (fastest < 0 || choices[i].time.seconds < choices[fastest].time.seconds))
            fastest = i;
    for (int i = 0; i < fastest; i++)
        if (choices[i].bytes <= memory && choices[i].time.seconds <= AS_FAST * choices[fastest].time.seconds)
            return i;
    return fastest;
}

int advice_smallest(const advice_choice *choices, int count)
{
    int smallest = -1;
    for (int i = 0; i < count; i++)
        if (!choices[i].local && (smallest < 0 || choices[i].bytes < choices[smallest].bytes))
            smallest = i;
    return smallest;
}

/* The cause of most of the time that `lost` takes longer. */
static void say_cost(const advice_choice *lost, const advice_choice *best, char *text, size_t size)
{
    const model_prediction *a = &lost->time, *b = &best->time;
    const model_work *more = &lost->work, *less = &best->work;
    const model_load *own = more->together ? &more->busiest : &more->all; /* of the rank that takes longest */
    double tiles = a->tiles - b->tiles, idle = a->idle - b->idle, regions = a->regions - b->regions;
    double bytes = a->bytes - b->bytes;
    char copied[RA_BYTES_TEXT];
    if (idle >= tiles && idle >= regions && idle >= bytes)
        snprintf(text, size, "its busiest rank has %.2f times the mean work",
                 more->busiest.pairs * more->ranks / more->all.pairs);
    else if (bytes >= tiles && bytes >= regions)
        snprintf(text, size, "copying %s takes %.3g s", ra_bytes_text((int64_t)own->bytes, copied), a->bytes);
    else if (regions >= tiles)
        snprintf(text, size, "beginning and ending %.0f steps takes %.3g s", own->regions, a->regions);
    else if (more->passes > less->passes)
        snprintf(text, size, "it goes twice through all pairs, with seven products of each instead of five");
    else if (more->all.pairs > AS_FAST * less->all.pairs)
        snprintf(text, size, "with masked lanes it works on %.2f times as many pairs",
                 more->all.pairs / less->all.pairs);
    else if (more->all.kept > AS_FAST * less->all.kept)
        snprintf(text, size, "its rows are taken up again at each of %.1f steps", more->all.regions / more->ranks - 1);
    else
        snprintf(text, size, "its tasks pack %.2f times as many keys", more->all.keys / less->all.keys);
}

void advice_reason(const advice_choice *lost, const advice_choice *best, int64_t memory, char reason[ADVICE_REASON])
{
    double ratio = lost->time.seconds / best->time.seconds;
    bool gathers = !lost->local && lost->strategy == RA_STRATEGY_ALLGATHER;
    if (lost->bytes > memory) {
        char more[RA_BYTES_TEXT];
        ra_bytes_text(lost->bytes - memory, more);
        snprintf(reason, ADVICE_REASON, "needs %s more than --memory allows%s", more,
                 gathers ? ": every rank holds all keys and values" : "");
    } else if (ratio > AS_FAST) {
        int used = snprintf(reason, ADVICE_REASON, "%.0f%% slower: ", 100 * (ratio - 1));
        say_cost(lost, best, reason + used, (size_t)(ADVICE_REASON - used));
    } else if (lost->bytes > best->bytes) {
        char more[RA_BYTES_TEXT];
        ra_bytes_text(lost->bytes - best->bytes, more);
        snprintf(reason, ADVICE_REASON, "no faster (%+.1f%%), and holds %s more", 100 * (ratio - 1), more);
    } else {
        snprintf(reason, ADVICE_REASON, "no faster than what is simpler (%+.1f%%)", 100 * (ratio - 1));
    }
}
