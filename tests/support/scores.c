/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up scores. See scores.h. */
#include "support/scores.h"

#include "base/half.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned choose_terms(choices *c)
{
    return 1U << choose(c, 0, 5) | (chance(c, 2) ? (unsigned)choose(c, 1, WITH_ANY) : 0);
}

static size_t size_of(ra_dtype dtype)
{
    return dtype == RA_F32 ? sizeof(float) : sizeof(uint16_t);
}

static void put(void *memory, ra_dtype dtype, int64_t at, float value)
{
    if (dtype == RA_F32)
        ((float *)memory)[at] = value;
    else
        ((uint16_t *)memory)[at] = dtype == RA_F16 ? ra_f32_to_f16(value) : ra_f32_to_bf16(value);
}

/* A view of normal numbers times `size`, with a gap between rows. */
static void make_view(choices *c, made_scores *s, int which, ra_dtype dtype, const int64_t shape[4], double size)
{
    int64_t gap = choose(c, 0, 2), row = shape[3] + gap, count = shape[0] * shape[1] * shape[2] * row;
    void *memory = malloc((size_t)count * size_of(dtype));
    assert_non_null(memory);
    for (int64_t i = 0; i < count; i++)
        put(memory, dtype, i, (float)size * fmaxf(-4, fminf(4, choose_normal(c))));
    s->memory[which] = memory;
    s->views[which] = (ra_tensor){.data = memory,
                                  .dtype = dtype,
                                  .batch = shape[0],
                                  .seq = shape[1],
                                  .heads = shape[2],
                                  .dim = shape[3],
                                  .batch_stride = shape[2] * shape[1] * row,
                                  .head_stride = shape[1] * row,
                                  .seq_stride = row,
                                  .dim_stride = 1};
    if (which != SCORE_SINKS)
        s->size += 4 * size;
}

static void add_term(made_scores *s, const char *term)
{
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof s->text - used, "%s%s", used ? "+" : "", term);
}

static void make_term(choices *c, unsigned term, const ra_problem *p, made_scores *s)
{
    static const ra_dtype dtypes[] = {RA_F32, RA_F16, RA_BF16};
    int64_t one = 1, distance = p->kv_len + p->q_len + 64;
    char text[64];
    switch (term) {
    case WITH_SOFTCAP:
        snprintf(text, sizeof text, "softcap:%g", 0.5 + (double)choose(c, 0, 60) / 2);
        add_term(s, text);
        break;
    case WITH_ALIBI:
        add_term(s, "alibi");
        make_view(c, s, SCORE_SLOPES, RA_F32, (int64_t[]){1, 1, p->heads, 1}, 0.01);
        s->arrays.slopes = &s->views[SCORE_SLOPES];
        s->size += 0.05 * (double)distance;
        break;
    case WITH_RELATIVE:
        add_term(s, "relative");
        make_view(c, s, SCORE_TABLE, RA_F32,
                  (int64_t[]){1, 1, chance(c, 2) ? one : p->heads, 2 * choose(c, 0, chance(c, 2) ? 4 : 200) + 1}, 1);
        s->arrays.table = &s->views[SCORE_TABLE];
        break;
    case WITH_BIAS:
        add_term(s, "bias");
        make_view(c, s, SCORE_BIAS, dtypes[choose(c, 0, 2)],
                  (int64_t[]){chance(c, 2) ? one : p->batch, chance(c, 3) ? one : p->q_len,
                              chance(c, 2) ? one : p->heads, p->kv_len},
                  1);
        s->arrays.bias = &s->views[SCORE_BIAS];
        break;
    case WITH_SINKS:
        add_term(s, "sinks");
        make_view(c, s, SCORE_SINKS, RA_F32, (int64_t[]){1, 1, p->heads, 1}, 3);
        s->arrays.sinks = &s->views[SCORE_SINKS];
        break;
    default:
        snprintf(text, sizeof text, "dropout:0.%lld:seed=%lld", (long long)choose(c, 0, 9),
                 (long long)choose(c, 0, 99));
        add_term(s, text);
        break;
    }
}

void make_scores(choices *c, unsigned terms, ra_problem *problem, made_scores *s)
{
    memset(s, 0, sizeof *s);
    s->arrays = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    while (terms) {
        unsigned term = 1U << choose(c, 0, 5);
        if (!(terms & term))
            continue;
        make_term(c, term, problem, s);
        terms &= ~term;
    }
    problem->scores = s->text;
    problem->score_arrays = &s->arrays;
}

void scores_free(made_scores *s)
{
    for (int i = 0; i < SCORE_VIEWS; i++)
        free(s->memory[i]);
}
