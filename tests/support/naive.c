/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns by their definition, pair by pair, without the library. See naive.h. */
#include "support/naive.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* "12,34" or "8/1,16/2" */
static void read_numbers(naive_term *t, char *text)
{
    char *rest = NULL;
    for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        REQUIRE(t->count < NAIVE_NUMBERS, "too many numbers: %s", text);
        char *slash = strchr(one, '/');
        t->slashed |= slash != NULL;
        t->rate[t->count] = slash ? atoll(slash + 1) : 1;
        t->number[t->count++] = atoll(one);
    }
}

static void read_setting(naive_term *t, const char *text)
{
    const struct {
        const char *name;
        int64_t *number;
    } settings[] = {{"local=", &t->local}, {"global=", &t->global}, {"stride=", &t->stride}, {"prefix=", &t->prefix}};
    for (int i = 0; i < 4; i++)
        if (strncmp(text, settings[i].name, strlen(settings[i].name)) == 0) {
            *settings[i].number = atoll(text + strlen(settings[i].name));
            return;
        }
    if (strncmp(text, "mode=", 5) == 0)
        snprintf(t->mode, sizeof t->mode, "%s", text + 5);
    else
        REQUIRE(strncmp(text, "mask=", 5) == 0 || strncmp(text, "seed=", 5) == 0, "not read here: %s", text);
}

static naive_term read_term(char *text)
{
    naive_term t = {.mode = "paper"};
    if (strstr(text, ":mask=") && !strstr(text, ":local="))
        t.local = -1; /* the mask replaces the diagonal */
    char *rest = NULL, *part = strtok_r(text, ":", &rest);
    snprintf(t.name, sizeof t.name, "%s", part);
    if (strcmp(t.name, "causal") != 0 && (part = strtok_r(NULL, ":", &rest)))
        read_numbers(&t, part);
    while ((part = strtok_r(NULL, ":", &rest)))
        read_setting(&t, part);
    return t;
}

naive_pattern naive_read(const char *text, int64_t kv_len, int64_t heads)
{
    naive_pattern p = {.kv_len = kv_len, .heads = heads};
    char copy[512], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *term = strtok_r(copy, "+", &rest); term; term = strtok_r(NULL, "+", &rest)) {
        REQUIRE(p.count < NAIVE_TERMS, "too many terms: %s", text);
        p.terms[p.count++] = read_term(term);
    }
    return p;
}

bool naive_read_dilated(const char *text, int64_t kv_len, int64_t heads, naive_pattern *pattern)
{
    const char *dilated = strstr(text, "dilated");
    char term[256] = "";
    if (dilated)
        snprintf(term, sizeof term, "%.*s", (int)strcspn(dilated, "+"), dilated);
    *pattern = naive_read(term, kv_len, heads);
    return dilated != NULL;
}

/* ---- Terms ------------------------------------------------------------------------------------------------------- */

static bool in_window(const naive_term *t, int64_t position, int64_t key)
{
    int64_t left = t->number[0], right = t->count > 1 ? t->number[1] : left;
    return key >= position - left && key <= position + right;
}

static bool in_one_document(const naive_term *t, int64_t position, int64_t key)
{
    int64_t first = 0;
    if (t->slashed) /* naive_query_sees has looked */
        return true;
    for (int i = 0; i < t->count; first += t->number[i++])
        if (position >= first && position < first + t->number[i])
            return key >= first && key < first + t->number[i];
    return false;
}

static bool in_one_chunk(const naive_term *t, int64_t position, int64_t key)
{
    int64_t first = key - key % t->number[0];
    return position >= first && position < first + t->number[0];
}

/* Heads dealt out in order, one group of them after the other; the first groups have one more. */
static int group_of(const naive_term *t, int64_t heads, int64_t head)
{
    int64_t dealt = 0;
    for (int group = 0; group < t->count; group++) {
        dealt += heads / t->count;
        if (group < heads % t->count)
            dealt++;
        if (head < dealt)
            return group;
    }
    return -1;
}

static int64_t offset_of(const naive_term *t, int64_t heads, int branch, int64_t head)
{
    int64_t rate = t->rate[branch], padded = heads;
    if (strcmp(t->mode, "grouped") == 0)
        return branch % rate;
    if (strcmp(t->mode, "torchscale") != 0)
        return head % rate;
    while (padded % rate)
        padded++;
    return head / (padded / rate);
}

bool naive_in_branch(const naive_term *t, int64_t heads, int branch, int64_t head, int64_t position, int64_t key)
{
    int64_t w = t->number[branch], r = t->rate[branch], offset = offset_of(t, heads, branch, head);
    if (position < 0 || (strcmp(t->mode, "grouped") == 0 && group_of(t, heads, head) != branch))
        return false;
    return (position % w) % r == offset && (key % w) % r == offset && position / w == key / w;
}

static int in_branches(const naive_pattern *p, const naive_term *t, int64_t head, int64_t position, int64_t key)
{
    int times = 0;
    for (int branch = 0; branch < t->count; branch++)
        times += naive_in_branch(t, p->heads, branch, head, position, key);
    return strcmp(t->mode, "union") == 0 && times > 1 ? 1 : times;
}

static bool in_kept_block(const naive_pattern *p, const naive_term *t, int64_t head, int64_t position, int64_t key)
{
    int64_t size = t->number[0], blocks = (p->kv_len + size - 1) / size, i = position / size, j = key / size;
    if (position < 0 || i >= blocks) /* there is no such row of blocks */
        return false;
    int64_t apart = i > j ? i - j : j - i;
    return apart <= t->local || i < t->global || j < t->global || (t->stride && apart % t->stride == 0) ||
           (p->mask && p->mask[((p->mask_by_head ? head : 0) * blocks + i) * blocks + j]);
}

int naive_sees(const naive_pattern *p, int64_t head, int64_t position, int64_t key)
{
    int times = 1;
    for (int i = 0; i < p->count && times; i++) {
        const naive_term *t = &p->terms[i];
        if (strcmp(t->name, "causal") == 0)
            times *= key <= position || key + p->key_position < t->prefix;
        else if (strcmp(t->name, "chunks") == 0)
            times *= in_one_chunk(t, position + p->key_position, key + p->key_position);
        else if (strcmp(t->name, "window") == 0)
            times *= in_window(t, position, key);
        else if (strcmp(t->name, "documents") == 0)
            times *= in_one_document(t, position, key);
        else if (strcmp(t->name, "dilated") == 0)
            times *= in_branches(p, t, head, position + p->key_position, key + p->key_position);
        else if (strcmp(t->name, "blocks") == 0)
            times *= in_kept_block(p, t, head, position, key);
        else
            REQUIRE(strcmp(t->name, "full") == 0, "no such term: %s", t->name);
    }
    return times;
}

/* The query's document: its first key and the key behind its last; returns the query's position. */
static int64_t place_in_document(const naive_term *t, int64_t query, int64_t *first, int64_t *end)
{
    int64_t queries = 0, keys = 0;
    for (int i = 0; i < t->count; i++) {
        queries += t->number[i];
        keys += t->rate[i];
        if (query < queries) {
            *first = keys - t->rate[i];
            *end = keys;
            return keys - (queries - query);
        }
    }
    REQUIRE(false, "query %lld is in no document", (long long)query);
    return 0;
}

int naive_query_sees(const naive_pattern *p, int64_t q_len, int64_t head, int64_t query, int64_t key)
{
    int64_t position = query + p->kv_len - q_len, first = 0, end = p->kv_len;
    for (int i = 0; i < p->count; i++)
        if (p->terms[i].slashed && strcmp(p->terms[i].name, "documents") == 0)
            position = place_in_document(&p->terms[i], query, &first, &end);
    return key >= first && key < end ? naive_sees(p, head, position, key) : 0;
}
