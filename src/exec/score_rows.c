/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the score stage of a decoding task: a row of additions for each query row. See score_rows.h. */
#include "exec/score_rows.h"

#include "base/checked.h"
#include "base/dropout.h"

/* The query row r of the task: its head and index in the sequence. */
typedef struct query_row {
    int64_t head, query;
} query_row;

static query_row row_at(const ra_score_rows *t, int64_t row)
{
    const ra_workload *work = t->run->work;
    int64_t head = t->head * t->run->plan->group_heads + row / t->queries;
    return (query_row){head, ra_group_at(&work->queries, &work->grouping, t->first + row % t->queries).query};
}

void ra_score_rows_begin(ra_score_rows *t, const ra_run *run, int64_t batch, int64_t head, int64_t heads, int64_t first,
                         int64_t queries, char *memory)
{
    const ra_plan *p = run->plan;
    const ra_scores *s = p->scores;
    if (!ra_scores_staged(s))
        return;
    int64_t head_rows = p->group_heads * queries, rows = heads * head_rows;
    *t = (ra_score_rows){.run = run, .batch = batch, .head = head, .heads = heads, .head_rows = head_rows};
    t->first = first;
    t->queries = queries;
    for (int kind = RA_SCORE_ALIBI; kind <= RA_SCORE_BIAS; kind++)
        t->add[kind] = (float *)memory + (kind - RA_SCORE_ALIBI) * rows * RA_KEY_BLOCK;
    t->row_draws = (uint32_t *)((float *)memory + 3 * rows * RA_KEY_BLOCK);
    t->key_draws = t->row_draws + 2 * rows;
    t->stage.kept = s->dropout > 0 ? (float)(1 / (1 - s->dropout)) : 0.0f;
    t->stage.threshold = ra_draw_threshold(s->dropout);
    t->stage.key_a = t->key_draws;
    t->stage.key_b = t->key_draws + RA_KEY_BLOCK;
    for (int64_t i = 0; s->dropout > 0 && i < rows; i++) {
        query_row row = row_at(t, i);
        ra_draw_key key = ra_draw_row(s->seed, batch, row.head, ra_plan_position(p, row.query + p->offset));
        t->row_draws[i] = key.a;
        t->row_draws[rows + i] = key.b;
    }
}

/* What one term adds to the keys begin .. end - 1 of a block for one row. */
static void fill_row(const ra_score_rows *t, ra_score_kind kind, query_row row, int64_t first, int begin, int end,
                     float *add)
{
    const ra_plan *p = t->run->plan;
    const ra_scores *s = p->scores;
    int64_t position = ra_plan_position(p, row.query + p->offset), bias_query = s->bias.seq > 1 ? row.query : 0;
    if (kind != RA_SCORE_BIAS) {
        for (int k = begin; k < end; k++)
            add[k] = ra_score_by_distance(s, kind, row.head, position - (first + k + p->key_position));
        return;
    }
    if (s->bias_source.read)
        s->bias_source.read(s->bias_source.file, s->bias.batch > 1 ? t->batch : 0, s->bias.heads > 1 ? row.head : 0,
                            bias_query, 1, first + begin, end - begin, add + begin, end - begin);
    else {
        ra_rows from = ra_score_bias_row(s, t->batch, bias_query, row.head, first + begin, 1);
        t->run->kernel->pack_rows(&from, 1, end - begin, add + begin);
    }
    for (int k = begin; k < end; k++)
        add[k] = ra_added_in_base_2((float)RA_LOG2_E, add[k]);
}

static void fill_rows(const ra_score_rows *t, ra_score_kind kind, int64_t first_row, int64_t rows,
                      const ra_block *block, const int *begin, const int *end)
{
    for (int64_t i = first_row; i < first_row + rows; i++) {
        int64_t query = i % t->queries;
        if (begin[query] < end[query])
            fill_row(t, kind, row_at(t, i), block->first, begin[query], end[query],
                     t->add[kind] + (ptrdiff_t)i * RA_KEY_BLOCK);
    }
}

const ra_score_stage *ra_score_rows_block(ra_score_rows *t, int64_t head, int64_t heads, const ra_block *block,
                                          const int *begin, const int *end)
{
    const ra_plan *p = t->run->plan;
    const ra_scores *s = p->scores;
    int64_t first = head * t->head_rows, rows = heads * t->head_rows;
    t->stage.count = s->count;
    for (int i = 0; i < s->count; i++) {
        ra_score_kind kind = s->terms[i];
        t->stage.step[i] = (ra_score_step){.op = RA_STEP_SOFTCAP, .cap = (float)(s->cap * RA_LOG2_E)};
        if (kind == RA_SCORE_SOFTCAP)
            continue;
        fill_rows(t, kind, first, rows, block, begin, end);
        t->stage.step[i] = (ra_score_step){.op = RA_STEP_ADD, .add = t->add[kind] + (ptrdiff_t)first * RA_KEY_BLOCK};
    }
    t->stage.row_a = t->row_draws + first;
    t->stage.row_b = t->row_draws + t->heads * t->head_rows + first;
    for (int k = 0; s->dropout > 0 && k < RA_KEY_BLOCK; k++) {
        ra_draw_key key = ra_draw_column(s->seed, block->first + k + p->key_position);
        t->key_draws[k] = key.a;
        t->key_draws[RA_KEY_BLOCK + k] = key.b;
    }
    return &t->stage;
}
