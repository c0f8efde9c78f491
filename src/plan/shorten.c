/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derives a plan for fewer keys, or for lengths of batch elements that have changed. What is laid out here never needs
 * more than the longer plan has promised.
 */
#include "plan/shorten.h"

#include "base/checked.h"
#include "base/memory.h"

/* ---- The pattern ------------------------------------------------------------------------------------------------- */

static ra_status refuse(const char *what, int64_t planned, int64_t keys)
{
    return ra_fail(RA_ERROR_ARGUMENT, "%lld keys: the plan is for %lld, and the %s is for that length alone",
                   (long long)keys, (long long)planned, what);
}

/* Blocks of a shorter sequence. What was drawn or chosen for a number of blocks is found out anew. */
static void shorten_blocks(const ra_blocks *longer, int64_t keys, ra_blocks *b)
{
    *b = *longer;
    b->count = ra_ceil_div(keys, b->size);
    b->global = ra_min(b->global, b->count);
    if (b->wanted > 0 && b->count > 0)
        ra_blocks_choose(b);
}

/* Packed sequences as the caller's array has them now; those of a text are for one length. */
static ra_status shorten_documents(const ra_plan *p, int64_t keys, ra_term *term, ra_shorter_plan *shorter)
{
    ra_pattern *pattern = &shorter->plan.pattern;
    if (!term->ragged || !term->ragged->array.data)
        return keys < p->kv_len ? refuse("pattern's documents term", p->kv_len, keys) : RA_OK;
    ra_status status = ra_ragged_now(term->ragged, p->q_len, keys, &shorter->ragged);
    if (shorter->ragged)
        term->ragged = shorter->ragged;
    pattern->ragged = term->ragged;
    return status;
}

static ra_status shorten_pattern(const ra_plan *longer, int64_t keys, ra_shorter_plan *shorter)
{
    ra_pattern *p = &shorter->plan.pattern;
    ra_status status = RA_OK;
    p->kv_len = keys;
    p->offset = shorter->plan.offset;
    for (int i = 0; i < p->count && !status; i++) {
        ra_term *term = &p->terms[i];
        if (term->kind == &ra_term_documents || term->ragged)
            status = shorten_documents(longer, keys, term, shorter);
        if (!term->blocks || keys == longer->kv_len)
            continue;
        if (term->blocks->mask)
            return refuse("pattern's mask of blocks", longer->kv_len, keys);
        shorten_blocks(term->blocks, keys, &shorter->blocks);
        term->blocks = &shorter->blocks;
        p->blocks = &shorter->blocks;
    }
    return status;
}

ra_status ra_plan_shorten(const ra_plan *p, int64_t keys, ra_shorter_plan *shorter)
{
    ra_plan *s = &shorter->plan;
    *s = *p;
    shorter->ragged = NULL;
    if (p->has_bias && keys < p->kv_len)
        return refuse("bias of the scores", p->kv_len, keys);
    s->kv_len = keys;
    s->offset = p->placed ? p->offset : keys - p->q_len;
    ra_status status = shorten_pattern(p, keys, shorter);
    const ra_lengths *lengths = p->pattern.lengths;
    if (status || !lengths)
        return status;
    shorter->lengths = ra_lengths_now(lengths);
    s->pattern.lengths = &shorter->lengths;
    return ra_lengths_check_now(lengths, &(ra_lengths_limits){p->batch, p->q_len, p->kv_len});
}

void ra_shorter_plan_clear(ra_shorter_plan *shorter)
{
    ra_ragged_free(shorter->ragged);
    shorter->ragged = NULL;
}

bool ra_plan_differs(const ra_plan *p, int64_t keys)
{
    return keys < p->kv_len || (p->pattern.lengths && ra_lengths_changed(p->pattern.lengths)) ||
           (p->pattern.ragged && ra_ragged_changed(p->pattern.ragged));
}

/* ---- Tasks ------------------------------------------------------------------------------------------------------- */

/*
 * Spans of no more keys than make a span worth while, but several where the longer plan has several: states then live
 * where it has room for them. The last spans may be empty.
 */
static void split_keys(ra_plan *s)
{
    int64_t blocks = ra_ceil_div(s->kv_len, RA_KEY_BLOCK);
    if (s->spans > 1)
        s->spans = ra_max(2, ra_min(s->spans, blocks / RA_SMALLEST_SPAN_BLOCKS));
    s->span_keys = ra_ceil_div(blocks, s->spans) * RA_KEY_BLOCK;
}

/*
 * Groups that are cut at the edges of blocks may be more than before, because queries sit elsewhere: then they are not
 * cut, and there are fewer than before. Tiles have no more groups than before.
 */
static void lay_out_groups(const ra_plan *p, ra_plan *s)
{
    ra_workload *w = &s->all;
    w->grouping.offset = w->grouping.origin = s->offset;
    w->groups = ra_group_count(&w->queries, &w->grouping);
    if (w->groups > p->all.groups) {
        w->grouping.cut = 0;
        w->groups = ra_group_count(&w->queries, &w->grouping);
    }
    w->units = s->batch * s->kv_heads * ra_stacks_of_head(w, s) * w->groups;
    if (s->variant == RA_VARIANT_DECODE)
        return;
    if (w->task_heads > 1) /* all queries of its heads, whatever keys there are */
        return;
    w->tile_groups = w->tile_units = ra_min(w->tile_groups, w->groups);
    w->q_tiles = ra_ceil_div(w->groups, w->tile_groups);
    w->tasks = s->batch * s->heads * w->q_tiles;
}

ra_status ra_plan_lay_out_shorter(const ra_plan *p, ra_shorter_plan *shorter)
{
    ra_plan *s = &shorter->plan;
    ra_workload *w = &s->all;
    split_keys(s);
    lay_out_groups(p, s);
    w->scratch_bytes = s->scratch_bytes(s, w);
    if (s->spans > 1)
        s->part_bytes = ra_memory_rounded(w->units * s->spans * s->unit_floats * (int64_t)sizeof(float));
    ra_status status = ra_workload_count(w, s);
    w->threads = ra_plan_threads(s, w->threads);
    s->flops = 2 * w->pairs_visible * (double)(s->head_dim + s->value_dim);
    return status;
}
