/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the gradients by keys or values while queries pass by. See query_pass.h. */
#include "oracle/query_pass.h"

#include "base/checked.h"
#include "oracle/rounding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Queries first .. end - 1 of one batch, and the query heads of the rows that any of them sees. */
typedef struct query_block {
    int64_t batch, first, end;
    ra_interval hull; /* keys that they may see */
    int64_t head, heads;
} query_block;

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

void ra_query_pass_free(ra_query_pass *o)
{
    free(o->sums);
    free(o->squares);
    free(o->row_keys);
    free(o->row_values);
    free(o->queries);
    free(o->outputs);
    free(o->d_outputs);
    free(o->lses);
    free(o->deltas);
    free(o->delta_sizes);
    free(o->elements);
    free(o->times);
}

static int64_t dim_of(const ra_query_pass *o)
{
    return o->values ? o->plan->value_dim : o->plan->head_dim;
}

static bool rows_taken(ra_query_pass *o)
{
    const ra_plan *p = o->plan;
    o->sums = ra_oracle_array(o->count, dim_of(o), sizeof *o->sums);
    o->squares = o->sized ? ra_oracle_array(o->count, dim_of(o), sizeof *o->squares) : NULL;
    o->row_keys = ra_oracle_array(o->count, p->head_dim, sizeof *o->row_keys);
    o->row_values = ra_oracle_array(o->count, p->value_dim, sizeof *o->row_values);
    o->times = ra_oracle_array(o->count, o->block_queries * p->group_heads, 1);
    return o->sums && (o->squares || !o->sized) && o->row_keys && o->row_values && o->times;
}

static bool block_taken(ra_query_pass *o)
{
    const ra_plan *p = o->plan;
    int64_t rows = o->block_queries * p->heads, dim = ra_max(p->head_dim, p->value_dim);
    o->queries = ra_oracle_array(rows, p->head_dim, sizeof *o->queries);
    o->outputs = ra_oracle_array(rows, p->value_dim, sizeof *o->outputs);
    o->d_outputs = ra_oracle_array(rows, p->value_dim, sizeof *o->d_outputs);
    o->lses = ra_oracle_array(rows, 1, sizeof *o->lses);
    o->deltas = ra_oracle_array(rows, 1, sizeof *o->deltas);
    o->delta_sizes = ra_oracle_array(rows, 1, sizeof *o->delta_sizes);
    o->elements = ra_oracle_array(rows, dim, sizeof(float));
    return o->queries && o->outputs && o->d_outputs && o->lses && o->deltas && o->delta_sizes && o->elements;
}

static ra_status pass_take(ra_query_pass *o)
{
    const ra_plan *p = o->plan;
    int64_t dim = ra_max(p->head_dim, p->value_dim);
    o->block_queries = ra_max(1, ra_min(RA_ORACLE_ROWS, RA_ORACLE_VALUES / (p->heads * dim)));
    if (rows_taken(o) && block_taken(o))
        return RA_OK;
    return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld rows of the reference", (long long)o->count);
}

static ra_status start_rows(ra_query_pass *o)
{
    const ra_plan *p = o->plan;
    ra_status status = RA_OK;
    for (int64_t i = 0; i < o->count && !status; i++) {
        status = ra_oracle_read(o->k, o->rows[i], 1, 1, o->elements, o->row_keys + i * p->head_dim);
        if (!status)
            status = ra_oracle_read(o->v, o->rows[i], 1, 1, o->elements, o->row_values + i * p->value_dim);
    }
    return status;
}

/* ---- One row and one query --------------------------------------------------------------------------------------- */

/* A term of row i: factor * vector. Its error, squared and by the vector's own squares, is `square`. */
static void add_term(ra_query_pass *o, int64_t i, double factor, double square, const double *vector)
{
    int64_t dim = dim_of(o);
    for (int64_t d = 0; d < dim; d++)
        o->sums[i * dim + d] += factor * vector[d];
    for (int64_t d = 0; o->squares && d < dim; d++)
        o->squares[i * dim + d] += square * vector[d] * vector[d];
}

/* Add to row i the query `pair->query`, the one at `at` of the block, which sees the row `times` times. */
static void add_query(ra_query_pass *o, int64_t i, const ra_score_pair *pair, int64_t at, int times)
{
    const ra_plan *p = o->plan;
    const double *query = o->queries + at * p->head_dim, *d_output = o->d_outputs + at * p->value_dim;
    const double *key = o->row_keys + i * p->head_dim, *value = o->row_values + i * p->value_dim;
    double product = p->scale * ra_oracle_dot(query, key, p->head_dim), slope, kept = ra_score_kept(p->scores, pair);
    double score = ra_score_of_pair(p->scores, pair, product, &slope, NULL);
    double weight = score == RA_SCORE_LOWEST ? 0 : times * exp(score - o->lses[at]);
    double error = 0;
    if (o->sized)
        error = ra_weight_square(ra_oracle_score_size(p, pair, query, key, score, o->lses[at]), o->lses[at]);
    if (o->values) {
        add_term(o, i, kept * weight, kept * kept * (weight * weight * error + ra_least_square(error)), d_output);
        return;
    }
    double d_weight = kept * ra_oracle_dot(d_output, value, p->value_dim) - o->deltas[at];
    if (o->sized) {
        double d_size = kept * ra_oracle_dot_size(d_output, value, p->value_dim) + o->delta_sizes[at];
        error = p->scale * p->scale * ra_slope_square(ra_score_square(error, d_weight, d_size), d_weight, slope);
    }
    add_term(o, i, p->scale * weight * d_weight * slope, weight * weight * error + ra_least_square(error), query);
}

/* ---- All rows and a block of queries ----------------------------------------------------------------------------- */

static bool may_be_seen(const ra_query_pass *o, int64_t i, const query_block *b)
{
    return o->rows[i].batch == b->batch && o->rows[i].seq >= b->hull.lo && o->rows[i].seq < b->hull.hi;
}

/* Whether a block-sparse pattern, if there is one, keeps the block of a query and a key: by its definition. */
static bool block_kept(const ra_blocks *blocks, int64_t head, int64_t position, int64_t key)
{
    return !blocks || (position >= 0 && ra_blocks_keeps(blocks, head, position / blocks->size, key / blocks->size));
}

/*
 * How often queries of one head see the key of row i; false: none does. Queries in the same block of a block-sparse
 * pattern are asked about together if it is not kept: asking for each takes too long where most do not see it.
 */
static bool find_seen_of(const ra_query_pass *o, int64_t i, const query_block *b, int64_t head, uint8_t *times)
{
    const ra_pattern *pattern = &o->plan->pattern;
    int64_t key = o->rows[i].seq, offset = ra_plan_offset(o->plan, b->batch), step = o->plan->group_heads;
    int64_t size = pattern->blocks ? pattern->blocks->size : 1;
    bool any = false, kept = true;
    for (int64_t query = b->first; query < b->end; query++) {
        int64_t position = query + offset;
        if (pattern->blocks && (query == b->first || position % size == 0))
            kept = block_kept(pattern->blocks, head, position, key);
        int seen = kept ? ra_plan_sees(o->plan, b->batch, head, query, key) : 0;
        times[(query - b->first) * step] = (uint8_t)seen;
        any |= seen != 0;
    }
    return any;
}

/* Which rows each query of the block sees, and so which heads of it are wanted: none where no query sees any. */
static void find_seen(ra_query_pass *o, query_block *b)
{
    int64_t group = o->plan->group_heads, first = o->plan->kv_heads, end = 0;
    for (int64_t i = 0; i < o->count; i++) {
        if (!may_be_seen(o, i, b))
            continue;
        int64_t kv_head = o->rows[i].head;
        bool any = false;
        for (int64_t h = 0; h < group; h++)
            any |= find_seen_of(o, i, b, kv_head * group + h, o->times + i * o->block_queries * group + h);
        o->done += (double)((b->end - b->first) * group);
        first = any ? ra_min(first, kv_head) : first;
        end = any ? ra_max(end, kv_head + 1) : end;
    }
    b->head = first * group;
    b->heads = ra_max(0, end - first) * group;
}

/* What the softmax takes off the gradients of a query's weights, and the size of what that is summed up from. */
static ra_status find_deltas(ra_query_pass *o, ra_row first, int64_t count, int64_t heads)
{
    int64_t dim = o->plan->value_dim;
    double *d_lses = o->delta_sizes; /* until they are replaced */
    ra_status status = ra_oracle_read(o->output, first, count, heads, o->elements, o->outputs);
    if (!status && o->d_lse)
        status = ra_oracle_read(o->d_lse, first, count, heads, o->elements, d_lses);
    for (int64_t i = 0; i < count * heads && !status; i++) {
        const double *output = o->outputs + i * dim, *d_output = o->d_outputs + i * dim;
        double d_lse = o->d_lse ? d_lses[i] : 0;
        o->deltas[i] = ra_oracle_dot(d_output, output, dim) - d_lse;
        o->delta_sizes[i] = ra_oracle_dot_size(d_output, output, dim) + fabs(d_lse);
    }
    return status;
}

static ra_status read_block(ra_query_pass *o, const query_block *b)
{
    ra_row first = {b->batch, b->first, b->head};
    int64_t count = b->end - b->first;
    ra_status status = ra_oracle_read(o->q, first, count, b->heads, o->elements, o->queries);
    if (!status)
        status = ra_oracle_read(o->d_output, first, count, b->heads, o->elements, o->d_outputs);
    if (!status)
        status = ra_oracle_read(o->lse, first, count, b->heads, o->elements, o->lses);
    return status || o->values ? status : find_deltas(o, first, count, b->heads);
}

static void add_block(ra_query_pass *o, const query_block *b)
{
    int64_t group = o->plan->group_heads;
    for (int64_t i = 0; i < o->count; i++) {
        const uint8_t *times = o->times + i * o->block_queries * group;
        int64_t head = o->rows[i].head * group - b->head;
        if (!may_be_seen(o, i, b))
            continue;
        for (int64_t j = 0; j < (b->end - b->first) * group; j++) {
            if (!times[j])
                continue;
            int64_t query_head = o->rows[i].head * group + j % group, query = b->first + j / group;
            ra_score_pair pair = ra_oracle_pair(o->plan, b->batch, query_head, query, o->rows[i].seq);
            add_query(o, i, &pair, j / group * b->heads + head + j % group, times[j]);
        }
    }
}

/* ---- All blocks -------------------------------------------------------------------------------------------------- */

static query_block block_at(const ra_query_pass *o, int64_t batch, int64_t first)
{
    const ra_plan *p = o->plan;
    query_block b = {.batch = batch, .first = first, .end = ra_min(p->q_len, first + o->block_queries)};
    b.hull = ra_plan_hull_of(p, batch, first, b.end);
    return b;
}

/* Rows that some query of the block may see. */
static int64_t rows_of_block(const ra_query_pass *o, const query_block *b)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < o->count; i++)
        rows += may_be_seen(o, i, b);
    return rows;
}

static ra_status work_block(ra_query_pass *o, query_block *b)
{
    ra_status status = RA_OK;
    find_seen(o, b);
    if (b->heads > 0) {
        status = read_block(o, b);
        if (!status)
            add_block(o, b);
    }
    return status ? status : ra_oracle_tell(o->plan, o->done, o->total);
}

ra_status ra_query_pass_run(ra_query_pass *o)
{
    const ra_plan *p = o->plan;
    ra_status status = pass_take(o);
    if (!status)
        status = start_rows(o);
    for (int work = 0; work < 2 && !status; work++) /* first count the pairs, then go through them */
        for (int64_t batch = 0; batch < p->batch && !status; batch++)
            for (int64_t first = 0; first < p->q_len && !status; first += o->block_queries) {
                query_block b = block_at(o, batch, first);
                int64_t rows = rows_of_block(o, &b);
                if (work && rows > 0)
                    status = work_block(o, &b);
                else if (!work)
                    o->total += (double)(rows * (b.end - b.first) * p->group_heads);
            }
    return status ? status : ra_scores_failed(p->scores);
}
