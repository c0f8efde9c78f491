/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in and compares the lines of a greeting. Sending it is in rank_greet.c. See greeting.h. */
#include "ring/greeting.h"

#include "score/scores.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a: enough to tell two descriptions apart. */
static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t blocks_hash(uint64_t hash, const ra_blocks *b)
{
    const int64_t figures[] = {b->size,          b->local,        b->global, b->stride, b->random,
                               (int64_t)b->seed, b->mask_by_head, b->filled, b->extra};
    int64_t masks = b->mask ? (b->mask_by_head ? b->heads : 1) : 0;
    hash = mix(hash, figures, sizeof figures);
    return mix(hash, b->mask, (size_t)(masks * b->count * ra_blocks_words(b->count)) * sizeof *b->mask);
}

/* A checksum of a mask, the same for bits and for booleans. */
static uint64_t mask_hash(uint64_t hash, const ra_mask *m)
{
    for (int64_t row = 0; row < m->batch * m->heads * m->q_len; row++) {
        int64_t slice = row / m->q_len;
        for (int64_t first = 0; first < m->kv_len; first += 64) {
            uint64_t word = ra_mask_word(m, slice / m->heads, slice % m->heads, row % m->q_len, first);
            hash = (hash ^ word) * UINT64_C(0x100000001b3);
            hash ^= hash >> 32;
        }
    }
    return hash;
}

static uint64_t pattern_hash(const ra_pattern *pattern)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < pattern->count; i++) {
        const ra_term *term = &pattern->terms[i];
        hash = mix(hash, term->kind->name, strlen(term->kind->name));
        hash = mix(hash, &term->left, sizeof term->left);
        hash = mix(hash, &term->right, sizeof term->right);
        hash = mix(hash, &term->size, sizeof term->size);
        hash = mix(hash, &term->prefix, sizeof term->prefix);
        hash = mix(hash, term->ends, (size_t)term->count * sizeof *term->ends);
        if (term->dilation)
            hash = mix(hash, term->dilation, sizeof *term->dilation);
        if (term->blocks)
            hash = blocks_hash(hash, term->blocks);
        if (term->lengths)
            hash = mix(hash, term->lengths->planned,
                       (size_t)(term->lengths->batch * term->lengths->columns) * sizeof(int64_t));
        if (term->mask)
            hash = mask_hash(hash, term->mask);
        if (term->ragged) /* query ends follow key ends */
            hash = mix(hash, term->ragged->key_ends, (size_t)(2 * term->ragged->count) * sizeof(int64_t));
    }
    return hash;
}

static uint64_t partition_hash(const ra_partition *partition)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), &partition->stripes, sizeof partition->stripes);
    for (int64_t i = 0; i < partition->part_count; i++) {
        const ra_owned *part = &partition->parts[i];
        const int64_t figures[] = {part->first, part->end, part->rank};
        hash = mix(hash, figures, sizeof figures);
    }
    return hash;
}

/* The lines that describe the run. */
enum fact {
    VERSION,
    RING_SIZE,
    BATCH,
    QUERY_LENGTH,
    KEY_LENGTH,
    POSITIONS,
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    VALUE_DIM,
    SCALE,
    PATTERN,
    SCORES,
    STRATEGY,
    ORDER,
    QUERY_SPLIT,
    KEY_SPLIT,
    KERNEL,
    KEY_DTYPE,
    VALUE_DTYPE,
    TRANSPORT,
    LSE,
    FACTS
};
_Static_assert((int)FACTS == (int)RA_GREETING_FACTS, "every fact has its line in a greeting");

static void say(ra_greeting *g, enum fact fact, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void say(ra_greeting *g, enum fact fact, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(g->line[fact], RA_GREETING_TEXT, format, arguments);
    va_end(arguments);
}

static void say_pattern(ra_greeting *g, const ra_pattern *pattern)
{
    char terms[RA_GREETING_TEXT] = "";
    for (int i = 0; i < pattern->count; i++) {
        const ra_term *t = &pattern->terms[i];
        size_t at = strlen(terms);
        int64_t count = t->ragged ? t->ragged->count : t->count;
        if (count)
            snprintf(terms + at, sizeof terms - at, "%s%s of %lld", i ? "+" : "", t->kind->name, (long long)count);
        else if (t->left || t->right)
            snprintf(terms + at, sizeof terms - at, "%s%s:%lld,%lld", i ? "+" : "", t->kind->name, (long long)t->left,
                     (long long)t->right);
        else
            snprintf(terms + at, sizeof terms - at, "%s%s", i ? "+" : "", t->kind->name);
    }
    say(g, PATTERN, "pattern: %.64s (%08llx)", terms, (unsigned long long)(pattern_hash(pattern) & 0xffffffff));
}

static void say_scores(ra_greeting *g, const ra_scores *scores, bool backward)
{
    char text[RA_GREETING_TEXT - sizeof "scores: , gradients 15"];
    unsigned wanted = backward ? ra_scores_wanted(scores) : 0;
    ra_scores_describe(scores, text, sizeof text);
    if (wanted)
        say(g, SCORES, "scores: %s, gradients %u", text, wanted);
    else
        say(g, SCORES, "scores: %s", text);
}

void ra_greeting_fill(ra_greeting *g, const ra_ring_plan *ring, const ra_kernel *kernel, bool lse)
{
    const ra_plan *p = ring->plan;
    const ra_ring_options *o = &ring->options;
    memset(g, 0, sizeof *g);
    say(g, VERSION, "version: %s", ra_version());
    say(g, RING_SIZE, "ring size: %d", o->ranks);
    say(g, BATCH, "batch: %lld", (long long)p->batch);
    say(g, QUERY_LENGTH, "query length: %lld", (long long)p->q_len);
    say(g, KEY_LENGTH, "key length: %lld", (long long)p->kv_len);
    say(g, POSITIONS, "positions of the first query and key: %lld, %lld", (long long)(p->key_position + p->offset),
        (long long)p->key_position);
    say(g, HEADS, "heads: %lld", (long long)p->heads);
    say(g, KV_HEADS, "key/value heads: %lld", (long long)p->kv_heads);
    say(g, HEAD_DIM, "head dim: %d", p->head_dim);
    say(g, VALUE_DIM, "value dim: %d", p->value_dim);
    say(g, SCALE, "scale: %.17g", p->scale);
    say_pattern(g, &p->pattern);
    say_scores(g, p->scores, o->backward);
    say(g, STRATEGY, "strategy: %s%s", ra_strategy_name(o->strategy), o->backward ? ", backward" : "");
    say(g, ORDER, "order: %s", ra_order_name(o->order));
    say(g, QUERY_SPLIT, "split of the queries: %08llx",
        (unsigned long long)(partition_hash(&ring->queries) & 0xffffffff));
    say(g, KEY_SPLIT, "split of the keys: %08llx", (unsigned long long)(partition_hash(&ring->keys) & 0xffffffff));
    if (kernel)
        say(g, KERNEL, "kernel: %s", ra_kernel_name(kernel->id));
    say(g, KEY_DTYPE, "key dtype: %s", ra_dtype_name(o->k_dtype));
    say(g, VALUE_DTYPE, "value dtype: %s", ra_dtype_name(o->v_dtype));
    say(g, TRANSPORT, "transport: %s", ra_transport_name(o->transport));
    say(g, LSE, "log-sum-exp: %s", lse ? "yes" : "no");
    if (o->backward)
        say(g, LSE, "gradients: %u, of a %s output gradient and %s queries, %s log-sum-exp gradient", o->gradients,
            ra_dtype_name(o->d_output_dtype), ra_dtype_name(o->q_dtype), o->d_lse ? "with a" : "without a");
}

ra_status ra_greeting_inputs(ra_greeting *g, const ra_storage *q, const ra_storage *k, const ra_storage *v)
{
    static const char *const NAMES[RA_GREETING_INPUTS] = {"query", "key", "value"};
    const ra_storage *const inputs[RA_GREETING_INPUTS] = {q, k, v};
    ra_status status = RA_OK;
    for (int i = 0; i < RA_GREETING_INPUTS && !status; i++) {
        char text[RA_GREETING_TEXT];
        status = ra_storage_fingerprint(inputs[i], text, sizeof text);
        if (!status && *text)
            snprintf(g->line[RA_GREETING_FACTS + 1 + i], RA_GREETING_TEXT, "%s: %.*s", NAMES[i],
                     (int)(RA_GREETING_TEXT - sizeof "query: "), text);
    }
    return status;
}

/* A checksum of each fingerprint: four of them fit into the line, and tell which input differs. */
ra_status ra_greeting_outputs(ra_greeting *g, ra_storage *const storages[RA_GREETING_OUTPUTS])
{
    static const char *const NAMES[RA_GREETING_OUTPUTS] = {"output", "lse", "output gradient", "lse gradient"};
    char *line = g->line[RA_GREETING_FACTS];
    ra_status status = RA_OK;
    *line = 0;
    for (int i = 0; i < RA_GREETING_OUTPUTS && !status; i++) {
        char text[RA_GREETING_TEXT] = "";
        size_t at = strlen(line);
        if (!storages[i])
            continue;
        status = ra_storage_fingerprint(storages[i], text, sizeof text);
        uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), text, strlen(text));
        snprintf(line + at, RA_GREETING_TEXT - at, "%s%s: %08llx", at ? ", " : "", NAMES[i],
                 (unsigned long long)(hash & 0xffffffff));
    }
    return status;
}

/* An empty line is equal to every line. */
static bool contradict(const char *a, const char *b)
{
    return *a && *b && strncmp(a, b, RA_GREETING_TEXT) != 0;
}

ra_status ra_greeting_compare(const ra_greeting *all, int ranks, int mine)
{
    for (int rank = 0; rank < ranks; rank++)
        for (int i = 0; i < RA_GREETING_LINES; i++)
            if (contradict(all[rank].line[i], all[mine].line[i]))
                return ra_fail(RA_ERROR_ARGUMENT,
                               "rank %d differs from rank %d: it has \"%.*s\", and rank %d has \"%.*s\"", rank, mine,
                               RA_GREETING_TEXT, all[rank].line[i], mine, RA_GREETING_TEXT, all[mine].line[i]);
    return RA_OK;
}
