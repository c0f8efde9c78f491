/* SPDX-License-Identifier: Apache-2.0 */
/* Query rows while keys and values pass by. See key_pass.h. */
#include "oracle/key_pass.h"

#include "base/checked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Keys first .. end - 1 of one batch, and the key/value heads of the rows that see any of them. */
typedef struct key_block {
    int64_t batch, first, end;
    int64_t head, heads;
} key_block;

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

void ra_key_pass_free(ra_key_pass *pass)
{
    free(pass->states);
    free(pass->sums);
    free(pass->queries);
    free(pass->keys);
    free(pass->values);
    free(pass->elements);
    free(pass->times);
}

static int64_t width_of(const ra_key_pass *pass)
{
    return pass->constant + pass->linear + pass->square;
}

double *ra_key_pass_sums(const ra_key_pass *pass, int64_t row)
{
    return pass->sums + row * width_of(pass);
}

static ra_status pass_take(ra_key_pass *o)
{
    const ra_plan *p = o->plan;
    int64_t dim = ra_max(p->head_dim, p->value_dim), heads = p->kv_heads;
    o->block_keys = ra_max(1, ra_min(RA_ORACLE_ROWS, RA_ORACLE_VALUES / (heads * dim)));
    o->states = ra_oracle_array(o->count, 1, sizeof *o->states);
    o->sums = ra_oracle_array(o->count, width_of(o), sizeof *o->sums);
    o->queries = ra_oracle_array(o->count, p->head_dim, sizeof *o->queries);
    o->keys = ra_oracle_array(o->block_keys, heads * p->head_dim, sizeof *o->keys);
    o->values = ra_oracle_array(o->block_keys, heads * p->value_dim, sizeof *o->values);
    o->elements = ra_oracle_array(o->block_keys, heads * dim, sizeof(float));
    o->times = ra_oracle_array(o->count, o->block_keys, 1);
    if (o->states && o->sums && o->queries && o->keys && o->values && o->elements && o->times)
        return RA_OK;
    return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld rows of the reference", (long long)o->count);
}

static ra_status start_rows(ra_key_pass *o)
{
    const ra_plan *p = o->plan;
    ra_status status = RA_OK;
    for (int64_t i = 0; i < o->count && !status; i++) {
        ra_interval hull = ra_plan_hull_of(p, o->rows[i].batch, o->rows[i].seq, o->rows[i].seq + 1);
        bool sink = ra_score_has_sinks(p->scores);
        double max = sink ? ra_score_sink(p->scores, o->rows[i].head) : -INFINITY;
        o->states[i] = (ra_key_row){.hull = hull, .max = max, .sum = sink, .seen = sink};
        o->total += (double)(hull.hi - hull.lo);
        status = ra_oracle_read(o->q, o->rows[i], 1, 1, o->elements, o->queries + i * p->head_dim);
    }
    return status;
}

/* ---- One row and one key ----------------------------------------------------------------------------------------- */

static void raise_max(const ra_key_pass *o, ra_key_row *s, double score, double *sums)
{
    double factor = exp(s->max - score);
    s->sum *= factor;
    s->max = score;
    for (int64_t i = 0; i < o->linear + o->square; i++)
        sums[o->constant + i] *= i < o->linear ? factor : factor * factor;
}

/* Add key j, the one at `at` of the block, which row i sees `times` times. */
static void add_key(ra_key_pass *o, int64_t i, int64_t j, int64_t at, int times)
{
    const ra_plan *p = o->plan;
    const ra_row *row = &o->rows[i];
    ra_key_row *s = &o->states[i];
    double *sums = ra_key_pass_sums(o, i);
    ra_seen_key seen = {.row = i,
                        .query = o->queries + i * p->head_dim,
                        .key = o->keys + at * p->head_dim,
                        .value = o->values + at * p->value_dim};
    ra_score_pair pair = ra_oracle_pair(p, row->batch, row->head, row->seq, j);
    double product = p->scale * ra_oracle_dot(seen.query, seen.key, p->head_dim);
    double score = ra_score_of_pair(p->scores, &pair, product, &seen.slope, NULL);
    if (o->sized)
        seen.size = ra_oracle_score_size(p, &pair, seen.query, seen.key, score, s->max);
    seen.kept = ra_score_kept(p->scores, &pair);
    if (score > s->max)
        raise_max(o, s, score, sums);
    /* -inf weighs nothing, also before anything else was seen. */
    seen.weight = score == -INFINITY ? 0 : times * exp(score - s->max);
    s->seen = true;
    s->sum += seen.weight;
    o->add(o->user, &seen, sums);
}

double ra_key_row_weight(const ra_key_row *s)
{
    return s->max == INFINITY || s->max == -INFINITY ? NAN : s->sum;
}

/* ---- All rows and a block of keys -------------------------------------------------------------------------------- */

/* The keys of a block that row i may see. */
static ra_interval within_block(const ra_key_pass *o, int64_t i, const key_block *b)
{
    if (o->rows[i].batch != b->batch)
        return (ra_interval){0, 0};
    return (ra_interval){ra_max(o->states[i].hull.lo, b->first), ra_min(o->states[i].hull.hi, b->end)};
}

/*
 * How often row i sees each of these keys; false: it sees none. Blocks that a block-sparse pattern does not keep are
 * passed over as a whole, by its definition: asking for each key takes too long where most are not seen.
 */
static bool find_seen_by(const ra_key_pass *o, int64_t i, ra_interval keys, uint8_t *times)
{
    const ra_row *row = &o->rows[i];
    const ra_blocks *blocks = o->plan->pattern.blocks;
    int64_t position = row->seq + ra_plan_offset(o->plan, row->batch);
    bool any = false;
    for (int64_t key = keys.lo, end; key < keys.hi; key = end) {
        end = blocks ? ra_min((key / blocks->size + 1) * blocks->size, keys.hi) : keys.hi;
        if (blocks && !ra_blocks_keeps(blocks, row->head, position / blocks->size, key / blocks->size)) {
            memset(times + (key - keys.lo), 0, (size_t)(end - key));
            continue;
        }
        for (int64_t j = key; j < end; j++) {
            times[j - keys.lo] = (uint8_t)ra_plan_sees(o->plan, row->batch, row->head, row->seq, j);
            any |= times[j - keys.lo] != 0;
        }
    }
    return any;
}

/* Which keys of the block each row sees, and so which heads of it are wanted: none where no row sees any. */
static void find_seen(ra_key_pass *o, key_block *b)
{
    int64_t first = o->plan->kv_heads, end = 0;
    for (int64_t i = 0; i < o->count; i++) {
        ra_interval keys = within_block(o, i, b);
        if (keys.lo >= keys.hi)
            continue;
        o->done += (double)(keys.hi - keys.lo);
        if (!find_seen_by(o, i, keys, o->times + i * o->block_keys))
            continue;
        int64_t head = o->rows[i].head / o->plan->group_heads;
        first = ra_min(first, head);
        end = ra_max(end, head + 1);
    }
    b->head = first;
    b->heads = ra_max(0, end - first);
}

static void add_block(ra_key_pass *o, const key_block *b)
{
    for (int64_t i = 0; i < o->count; i++) {
        ra_interval keys = within_block(o, i, b);
        int64_t head = o->rows[i].head / o->plan->group_heads - b->head;
        const uint8_t *times = o->times + i * o->block_keys;
        for (int64_t j = keys.lo; j < keys.hi; j++)
            if (times[j - keys.lo])
                add_key(o, i, j, (j - b->first) * b->heads + head, times[j - keys.lo]);
    }
}

static ra_status work_block(ra_key_pass *o, key_block *b)
{
    int64_t count = b->end - b->first;
    ra_status status = RA_OK;
    find_seen(o, b);
    if (b->heads > 0) {
        ra_row first = {b->batch, b->first, b->head};
        status = ra_oracle_read(o->k, first, count, b->heads, o->elements, o->keys);
        if (!status)
            status = ra_oracle_read(o->v, first, count, b->heads, o->elements, o->values);
        if (!status)
            add_block(o, b);
    }
    return status ? status : ra_oracle_tell(o->plan, o->done, o->total);
}

/* The next keys from b->end on that some row of the batch may see; false: there are no more. */
static bool next_block(const ra_key_pass *o, key_block *b)
{
    int64_t from = b->end, end = from;
    b->first = INT64_MAX;
    for (int64_t i = 0; i < o->count; i++) {
        const ra_interval *hull = &o->states[i].hull;
        if (o->rows[i].batch != b->batch || hull->lo >= hull->hi || hull->hi <= from)
            continue;
        b->first = ra_min(b->first, ra_max(hull->lo, from));
        end = ra_max(end, hull->hi);
    }
    if (end == from)
        return false;
    b->end = ra_min(end, b->first + o->block_keys);
    return true;
}

static ra_status work_batch(ra_key_pass *o, int64_t batch)
{
    key_block b = {.batch = batch};
    ra_status status = RA_OK;
    while (!status && next_block(o, &b))
        status = work_block(o, &b);
    return status;
}

ra_status ra_key_pass_run(ra_key_pass *o)
{
    ra_status status = pass_take(o);
    if (!status)
        status = start_rows(o);
    for (int64_t batch = 0; batch < o->plan->batch && !status; batch++)
        status = work_batch(o, batch);
    return status ? status : ra_scores_failed(o->plan->scores);
}
