/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scores in one line, for ranks and checkpoints that must have the same: terms in their order with their numbers, and a
 * checksum of each array.
 */
#include "base/checked.h"
#include "base/half.h"
#include "base/mix.h"
#include "score/scores.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Elements of a bias that are looked at; of other arrays all are. */
enum { BIAS_SAMPLE = 1024 };

static double element(const ra_scores *s, const ra_tensor *t, int64_t at)
{
    int64_t dim = at % t->dim, head = at / t->dim % t->heads, seq = at / t->dim / t->heads % t->seq;
    int64_t batch = at / t->dim / t->heads / t->seq;
    if (t != &s->bias || !s->bias_source.read)
        return ra_score_at(t, batch, seq, head, dim);
    float value = 0;
    s->bias_source.read(s->bias_source.file, batch, head, seq, 1, dim, 1, &value, 1);
    return (double)value;
}

/* A checksum of the sizes and of the elements as floats: the same for a bias in memory and in a file. */
static uint32_t checksum(const ra_scores *s, const ra_tensor *t)
{
    int64_t count = t->batch * t->seq * t->heads * t->dim;
    int64_t looked = t == &s->bias ? ra_min(count, BIAS_SAMPLE) : count;
    uint64_t hash = ra_mix64((uint64_t)t->batch + 1);
    hash = ra_mix64(hash + (uint64_t)t->seq);
    hash = ra_mix64(hash + (uint64_t)t->heads);
    hash = ra_mix64(hash + (uint64_t)t->dim);
    for (int64_t i = 0; i < looked; i++) {
        /* The first and the last, and places between them. */
        int64_t at = looked < count ? (int64_t)((double)(count - 1) * (double)i / (double)(looked - 1)) : i;
        hash = ra_mix64(hash + ra_float_bits((float)element(s, t, at)));
    }
    return (uint32_t)hash;
}

static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

static void append_array(char *text, size_t size, const char *name, const ra_scores *s, const ra_tensor *t)
{
    append(text, size, "%s%s:%08x", *text ? "+" : "", name, (unsigned)checksum(s, t));
}

void ra_scores_describe(const ra_scores *s, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; s && i < s->count; i++)
        switch (s->terms[i]) {
        case RA_SCORE_SOFTCAP: append(text, size, "%ssoftcap:%.15g", *text ? "+" : "", s->cap); break;
        case RA_SCORE_ALIBI: append_array(text, size, "alibi", s, &s->slopes); break;
        case RA_SCORE_RELATIVE: append_array(text, size, "relative", s, &s->table); break;
        case RA_SCORE_BIAS: append_array(text, size, "bias", s, &s->bias); break;
        }
    if (s && s->sinks.data)
        append_array(text, size, "sinks", s, &s->sinks);
    if (s && s->dropout > 0)
        append(text, size, "%sdropout:%.15g:%llu", *text ? "+" : "", s->dropout, (unsigned long long)s->seed);
    if (!*text)
        append(text, size, "as they are");
}

unsigned ra_scores_wanted(const ra_scores *s)
{
    unsigned wanted = 0;
    for (int i = 0; s && i < RA_SCORE_ARRAYS; i++)
        if ((const ra_tensor *const[]){s->d_slopes, s->d_table, s->d_bias, s->d_sinks}[i])
            wanted |= 1u << i;
    return wanted;
}
