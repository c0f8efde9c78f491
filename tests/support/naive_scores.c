/* SPDX-License-Identifier: Apache-2.0 */
/* Scores by their definition. See naive_scores.h. */
#include "support/naive_scores.h"

#include "support/unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[NAIVE_ARRAYS] = {"alibi", "relative", "bias", "sinks"};

static void *take(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count + 1, size);
    assert_non_null(memory);
    return memory;
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

static bool has_term(const char *text, const char *name)
{
    for (const char *at = text; at; at = strchr(at, '+') ? strchr(at, '+') + 1 : NULL)
        if (strncmp(at, name, strlen(name)) == 0)
            return true;
    return false;
}

/* [batch, seq, heads, dim] of an array. */
static void choose_shape(int array, const ra_problem *p, choices *c, int64_t shape[4])
{
    shape[0] = shape[1] = shape[3] = 1;
    shape[2] = p->heads;
    if (array == NAIVE_TABLE) {
        shape[2] = chance(c, 2) ? 1 : p->heads;
        shape[3] = 2 * choose(c, 0, chance(c, 2) ? 3 : p->kv_len + 2) + 1;
    }
    if (array == NAIVE_BIAS) {
        shape[0] = chance(c, 2) ? 1 : p->batch;
        shape[1] = chance(c, 3) ? 1 : p->q_len;
        shape[2] = chance(c, 2) ? 1 : p->heads;
        shape[3] = p->kv_len;
    }
}

static void make_array(naive_scores *n, int array, const ra_problem *p, choices *c)
{
    int64_t shape[4];
    choose_shape(array, p, c, shape);
    int64_t count = n->counts[array] = shape[0] * shape[1] * shape[2] * shape[3];
    float *elements = take(count, sizeof *elements);
    n->values[array] = take(count, sizeof **n->values);
    for (int64_t i = 0; i < count; i++) {
        elements[i] = choose_normal(c) * (array == NAIVE_SLOPES ? 0.2f : 1);
        n->values[array][i] = (double)elements[i];
    }
    n->views[array] = ra_tensor_dense(elements, RA_F32, RA_BSHD, shape[0], shape[1], shape[2], shape[3]);
}

void naive_scores_make(naive_scores *n, const char *text, const ra_problem *p, choices *c)
{
    const ra_tensor **const where[] = {&n->arrays.slopes, &n->arrays.table, &n->arrays.bias, &n->arrays.sinks};
    *n = (naive_scores){.arrays = RA_SCORE_ARRAYS_INIT};
    snprintf(n->text, sizeof n->text, "%s", text);
    for (int i = 0; i < NAIVE_ARRAYS; i++)
        if (has_term(text, NAMES[i])) {
            make_array(n, i, p, c);
            *where[i] = &n->views[i];
        }
}

void naive_scores_want(naive_scores *n)
{
    const ra_tensor **const where[] = {&n->arrays.d_slopes, &n->arrays.d_table, &n->arrays.d_bias, &n->arrays.d_sinks};
    for (int i = 0; i < NAIVE_ARRAYS; i++) {
        if (!n->values[i])
            continue;
        float *elements = take(n->counts[i], sizeof *elements);
        for (int64_t at = 0; at < n->counts[i]; at++)
            elements[at] = 1e9f;
        n->gradients[i] = n->views[i];
        n->gradients[i].data = elements;
        *where[i] = &n->gradients[i];
    }
}

void naive_scores_free(naive_scores *n)
{
    for (int i = 0; i < NAIVE_ARRAYS; i++) {
        free(n->views[i].data);
        free(n->gradients[i].data);
        free(n->values[i]);
    }
}

void choose_scores(choices *c, char *text, size_t size)
{
    static const char *const terms[] = {"softcap:1.5", "softcap:50", "alibi",       "relative",
                                        "bias",        "sinks",      "dropout:0.3", "dropout:0.75:seed=9"};
    bool used[8] = {false};
    int64_t count = choose(c, 1, 4);
    text[0] = '\0';
    for (int64_t i = 0; i < count; i++) {
        int64_t at = choose(c, 0, 7), pair = at == 1 ? 0 : at == 7 ? 6 : at;
        if (used[pair])
            continue;
        used[pair] = true;
        size_t length = strlen(text);
        snprintf(text + length, size - length, "%s%s", length ? "+" : "", terms[at]);
    }
}

/* ---- Pairs ------------------------------------------------------------------------------------------------------- */

static double value_at(const naive_scores *n, int array, int64_t batch, int64_t seq, int64_t head, int64_t dim)
{
    const ra_tensor *t = &n->views[array];
    batch = t->batch > 1 ? batch : 0, seq = t->seq > 1 ? seq : 0, head = t->heads > 1 ? head : 0;
    return n->values[array][((batch * t->seq + seq) * t->heads + head) * t->dim + dim];
}

static double table_entry(const naive_scores *n, const naive_pair *p)
{
    int64_t most = n->views[NAIVE_TABLE].dim - 1, entry = p->key_position - p->position + most / 2;
    return value_at(n, NAIVE_TABLE, 0, 0, p->head, entry < 0 ? 0 : entry > most ? most : entry);
}

double naive_score(const naive_scores *n, const naive_pair *p, double score)
{
    char copy[sizeof n->text], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", n->text);
    for (char *term = strtok_r(copy, "+", &rest); term; term = strtok_r(NULL, "+", &rest)) {
        double apart = fabs((double)p->position - (double)p->key_position);
        if (strncmp(term, "softcap:", 8) == 0)
            score = atof(term + 8) * tanh(score / atof(term + 8));
        else if (strcmp(term, "alibi") == 0)
            score -= value_at(n, NAIVE_SLOPES, 0, 0, p->head, 0) * apart;
        else if (strcmp(term, "relative") == 0)
            score += table_entry(n, p);
        else if (strcmp(term, "bias") == 0)
            score += value_at(n, NAIVE_BIAS, p->batch, p->query, p->head, p->key);
        else
            REQUIRE(strcmp(term, "sinks") == 0 || strncmp(term, "dropout:", 8) == 0, "no such term: %s", term);
    }
    return score;
}

double naive_sink_weight(const naive_scores *n, int64_t head)
{
    return n->values[NAIVE_SINKS] ? exp(value_at(n, NAIVE_SINKS, 0, 0, head, 0)) : 0;
}

/* ---- Dropout ----------------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

/* 32 bits of a pair. */
static uint32_t draw(uint64_t seed, const naive_pair *p)
{
    uint64_t row = mixed(mixed(mixed(seed + 0x9e3779b97f4a7c15U) + (uint64_t)p->batch) + (uint64_t)p->head);
    uint64_t column = mixed(seed + 0xd1b54a32d192ed03U);
    row = mixed(row + (uint64_t)p->position);
    column = mixed(column + (uint64_t)p->key_position);
    uint32_t x = (uint32_t)row + (uint32_t)column;
    x = (x ^ (x >> 16)) * 0x85ebca6bU;
    x = (x ^ (x >> 15)) + ((uint32_t)(row >> 32) ^ (uint32_t)(column >> 32));
    return x * 0x9e3779b1U;
}

double naive_kept(const naive_scores *n, const naive_pair *p)
{
    const char *term = strstr(n->text, "dropout:");
    if (!term)
        return 1;
    char one[64];
    snprintf(one, sizeof one, "%.*s", (int)strcspn(term, "+"), term);
    const char *seed = strstr(one, ":seed=");
    double probability = atof(one + 8);
    bool dropped = draw(seed ? (uint64_t)atoll(seed + 6) : 0, p) < floor(probability * 0x1p32);
    return dropped ? 0 : 1 / (1 - probability);
}
