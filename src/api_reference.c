/*
 * The oracle over storages: rows of attention in double precision, while keys and values pass by a block at a time.
 * Each row asks of every key whether it is seen, by the definition, and keeps its maximum, its sum and its weighted
 * values; when the maximum rises they are scaled. Only keys outside a row's hull, which is the planner's, are not asked
 * about: of a long sequence most rows see little. Nothing else is shared with the planner, the kernels or the executor,
 * and tests hold this against the oracle over tensors, which asks of all keys.
 */
#include "base/checked.h"
#include "base/tensor.h"
#include "io/storage.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_VALUES = 1 << 15, /* of keys and as many of values: 256 KiB each */
    MOST_KEYS = 256
};

typedef struct row_state {
    ra_interval hull; /* no key outside it is seen */
    double max, sum;
    double size; /* the weighted sum of the squares of what the scores are made of */
    bool seen;
} row_state;

/* Keys first .. end - 1 of one batch, and the key/value heads of the rows that see any of them. */
typedef struct key_block {
    int64_t batch, first, end;
    int64_t head, heads;
} key_block;

typedef struct oracle {
    const ra_plan *plan;
    ra_storage *k, *v;
    const ra_row *rows;
    int64_t count, block_keys;
    double *outputs, *spreads; /* [count][value_dim]; spreads may be NULL */

    row_state *states;  /* [count] */
    double *queries;    /* [count][head_dim] */
    double *keys;       /* [block_keys][heads of a block][head_dim] */
    double *values;     /* [block_keys][heads of a block][value_dim] */
    char *elements;     /* a block as the storages have it */
    uint8_t *times;     /* [count][block_keys]: how often a row sees a key */
    double done, total; /* pairs */
} oracle;

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static void oracle_free(oracle *o)
{
    free(o->states);
    free(o->queries);
    free(o->keys);
    free(o->values);
    free(o->elements);
    free(o->times);
}

static void *array_of(int64_t count, int64_t inner, size_t size)
{
    int64_t all;
    return ra_mul_ok(count, inner, &all) ? calloc((size_t)all, size) : NULL;
}

static ra_status oracle_take(oracle *o)
{
    const ra_plan *p = o->plan;
    int64_t dim = ra_max(p->head_dim, p->value_dim), heads = p->kv_heads;
    o->block_keys = ra_max(1, ra_min(MOST_KEYS, BLOCK_VALUES / (heads * dim)));
    o->states = array_of(o->count, 1, sizeof *o->states);
    o->queries = array_of(o->count, p->head_dim, sizeof *o->queries);
    o->keys = array_of(o->block_keys, heads * p->head_dim, sizeof *o->keys);
    o->values = array_of(o->block_keys, heads * p->value_dim, sizeof *o->values);
    o->elements = array_of(o->block_keys, heads * dim, sizeof(float));
    o->times = array_of(o->count, o->block_keys, 1);
    if (o->states && o->queries && o->keys && o->values && o->elements && o->times)
        return RA_OK;
    return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld rows of the reference", (long long)o->count);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Rows of some heads of a storage as doubles, [count][heads][dim]. */
static ra_status widen_rows(oracle *o, ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                            int64_t heads, double *values)
{
    const ra_tensor *v = ra_storage_view(s);
    ra_tensor rows = ra_tensor_dense(o->elements, v->dtype, RA_BSHD, 1, count, heads, v->dim);
    ra_status status = ra_storage_read(s, batch, first, count, head, &rows);
    ra_tensor flat = ra_tensor_dense(o->elements, v->dtype, RA_BSHD, 1, 1, 1, count * heads * v->dim);
    for (int64_t i = 0; i < flat.dim && !status; i++)
        values[i] = ra_tensor_get(&flat, 0, 0, 0, i);
    return status;
}

static ra_status start_rows(oracle *o, ra_storage *q)
{
    const ra_plan *p = o->plan;
    ra_status status = RA_OK;
    for (int64_t i = 0; i < o->count && !status; i++) {
        const ra_row *row = &o->rows[i];
        ra_interval hull = ra_pattern_hull(&p->pattern, row->seq + p->offset, 1);
        o->states[i] = (row_state){.hull = hull, .max = -INFINITY};
        o->total += (double)(hull.hi - hull.lo);
        for (int64_t d = 0; d < p->value_dim; d++)
            o->outputs[i * p->value_dim + d] = 0;
        for (int64_t d = 0; o->spreads && d < p->value_dim; d++)
            o->spreads[i * p->value_dim + d] = 0;
        status = widen_rows(o, q, row->batch, row->seq, 1, row->head, 1, o->queries + i * p->head_dim);
    }
    return status;
}

/* ---- One row and one key ----------------------------------------------------------------------------------------- */

/* Four sums that do not wait for each other. */
static double dot(const double *a, const double *b, int64_t count)
{
    double sums[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int lane = 0; lane < 4; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sums[0] += a[i] * b[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* What a score is summed up from, without signs: its rounding grows with this, however much of it cancels. */
static double size_of(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += fabs(a[i] * b[i]);
    return sum;
}

/* One key that a row sees. */
typedef struct seen_key {
    double score, size;
    int times;
    const double *value;
} seen_key;

static void scale_by(double factor, double *sums, int64_t dim)
{
    for (int64_t d = 0; sums && d < dim; d++)
        sums[d] *= factor;
}

/* `output` is the weighted sum of the values, `spread` that of their squares (NULL: not wanted). */
static void add_key(row_state *s, const seen_key *key, int64_t dim, double *output, double *spread)
{
    s->seen = true;
    if (key->score > s->max) {
        double factor = exp(s->max - key->score);
        s->sum *= factor;
        s->size *= factor;
        scale_by(factor, output, dim);
        scale_by(factor, spread, dim);
        s->max = key->score;
    }
    /* -inf weighs nothing, also before anything else was seen. */
    double weight = key->score == -INFINITY ? 0 : key->times * exp(key->score - s->max);
    s->sum += weight;
    s->size += weight * key->size * key->size;
    for (int64_t d = 0; d < dim; d++)
        output[d] += weight * key->value[d];
    for (int64_t d = 0; spread && d < dim; d++)
        spread[d] += weight * key->value[d] * key->value[d];
}

/* Softmax has no meaning where +inf or NaN is among the scores, or nothing but -inf. */
static double whole_weight(const row_state *s)
{
    return s->max == INFINITY || s->max == -INFINITY ? NAN : s->sum;
}

static void finish_row(const row_state *s, int64_t dim, double *output, double *lse)
{
    double sum = whole_weight(s);
    for (int64_t d = 0; s->seen && d < dim; d++)
        output[d] /= sum;
    if (lse)
        *lse = s->seen ? s->max + log(sum) : -INFINITY;
}

/* From sums of squares to deviations from the output, which is finished. */
static void finish_sizes(const row_state *s, int64_t dim, const double *output, double *spread, double *size)
{
    double sum = whole_weight(s);
    *size = s->seen ? sqrt(s->size / sum) : 0;
    for (int64_t d = 0; s->seen && d < dim; d++)
        spread[d] = sqrt(fmax(0, spread[d] / sum - output[d] * output[d]));
}

/* ---- All rows and a block of keys -------------------------------------------------------------------------------- */

/* The keys of a block that row i may see. */
static ra_interval within_block(const oracle *o, int64_t i, const key_block *b)
{
    if (o->rows[i].batch != b->batch)
        return (ra_interval){0, 0};
    return (ra_interval){ra_max(o->states[i].hull.lo, b->first), ra_min(o->states[i].hull.hi, b->end)};
}

/*
 * How often row i sees each of these keys; false: it sees none. Blocks that a block-sparse pattern does not keep are
 * passed over as a whole, by its definition: asking for each key takes too long where most are not seen.
 */
static bool find_seen_by(oracle *o, int64_t i, ra_interval keys, uint8_t *times)
{
    const ra_pattern *pattern = &o->plan->pattern;
    const ra_blocks *blocks = pattern->blocks;
    int64_t head = o->rows[i].head, position = o->rows[i].seq + o->plan->offset;
    bool any = false;
    for (int64_t key = keys.lo, end; key < keys.hi; key = end) {
        end = blocks ? ra_min((key / blocks->size + 1) * blocks->size, keys.hi) : keys.hi;
        if (blocks && !ra_blocks_keeps(blocks, head, position / blocks->size, key / blocks->size)) {
            memset(times + (key - keys.lo), 0, (size_t)(end - key));
            continue;
        }
        for (int64_t j = key; j < end; j++) {
            times[j - keys.lo] = (uint8_t)ra_pattern_sees(pattern, head, position, j);
            any |= times[j - keys.lo] != 0;
        }
    }
    return any;
}

/* Which keys of the block each row sees, and so which heads of it are wanted: none where no row sees any. */
static void find_seen(oracle *o, key_block *b)
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

/* The key and the value at `at` of the block, as row i sees them. */
static seen_key seen_by(const oracle *o, int64_t i, int64_t at, int times)
{
    const ra_plan *p = o->plan;
    const double *query = o->queries + i * p->head_dim, *key = o->keys + at * p->head_dim;
    return (seen_key){.score = p->scale * dot(query, key, p->head_dim),
                      .size = o->spreads ? fabs(p->scale) * size_of(query, key, p->head_dim) : 0,
                      .times = times,
                      .value = o->values + at * p->value_dim};
}

static void add_block(oracle *o, const key_block *b)
{
    const ra_plan *p = o->plan;
    for (int64_t i = 0; i < o->count; i++) {
        ra_interval keys = within_block(o, i, b);
        int64_t head = o->rows[i].head / p->group_heads - b->head;
        const uint8_t *times = o->times + i * o->block_keys;
        for (int64_t j = keys.lo; j < keys.hi; j++)
            if (times[j - keys.lo]) {
                int64_t at = (j - b->first) * b->heads + head;
                seen_key key = seen_by(o, i, at, times[j - keys.lo]);
                add_key(&o->states[i], &key, p->value_dim, o->outputs + i * p->value_dim,
                        o->spreads ? o->spreads + i * p->value_dim : NULL);
            }
    }
}

static ra_status work_block(oracle *o, key_block *b)
{
    const ra_plan *p = o->plan;
    int64_t count = b->end - b->first;
    ra_status status = RA_OK;
    find_seen(o, b);
    if (b->heads > 0) {
        status = widen_rows(o, o->k, b->batch, b->first, count, b->head, b->heads, o->keys);
        if (!status)
            status = widen_rows(o, o->v, b->batch, b->first, count, b->head, b->heads, o->values);
        if (!status)
            add_block(o, b);
    }
    if (!status && p->progress && p->progress(p->progress_user, o->done, o->total))
        status = ra_fail(RA_ERROR_CANCELLED, "the progress callback asked to stop");
    return status;
}

/* The next keys from b->end on that some row of the batch may see; false: there are no more. */
static bool next_block(const oracle *o, key_block *b)
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

static ra_status work_batch(oracle *o, int64_t batch)
{
    key_block b = {.batch = batch};
    ra_status status = RA_OK;
    while (!status && next_block(o, &b))
        status = work_block(o, &b);
    return status;
}

/* ---- The public function ----------------------------------------------------------------------------------------- */

static ra_status check_storage(const ra_storage *s, const char *name, const ra_plan *p, int64_t seq, int64_t heads,
                               int64_t dim)
{
    if (!s)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: the storage is NULL", name);
    const ra_tensor *t = ra_storage_view(s);
    if (t->batch == p->batch && t->seq == seq && t->heads == heads && t->dim == dim)
        return RA_OK;
    return ra_fail(RA_ERROR_ARGUMENT,
                   "%s: [batch %lld, seq %lld, heads %lld, dim %lld] does not match the problem's [batch %lld, seq "
                   "%lld, heads %lld, dim %lld]",
                   name, (long long)t->batch, (long long)t->seq, (long long)t->heads, (long long)t->dim,
                   (long long)p->batch, (long long)seq, (long long)heads, (long long)dim);
}

ra_status ra_reference_rows(const ra_plan *p, ra_storage *q, ra_storage *k, ra_storage *v, const ra_row *rows,
                            int64_t count, double *outputs, double *lses)
{
    return ra_reference_rows_sized(p, q, k, v, rows, count, outputs, lses, NULL, NULL);
}

static ra_status check_all(const ra_plan *p, const ra_storage *q, const ra_storage *k, const ra_storage *v,
                           const ra_row *rows, int64_t count, const double *outputs)
{
    if (!p)
        return ra_fail(RA_ERROR_ARGUMENT, "plan is NULL");
    ra_status status = check_storage(q, "query", p, p->q_len, p->heads, p->head_dim);
    if (!status)
        status = check_storage(k, "key", p, p->kv_len, p->kv_heads, p->head_dim);
    if (!status)
        status = check_storage(v, "value", p, p->kv_len, p->kv_heads, p->value_dim);
    return status ? status : ra_rows_check(rows, "reference", count, outputs, p->batch, p->q_len, p->heads);
}

ra_status ra_reference_rows_sized(const ra_plan *p, ra_storage *q, ra_storage *k, ra_storage *v, const ra_row *rows,
                                  int64_t count, double *outputs, double *lses, double *spreads, double *sizes)
{
    ra_status status = check_all(p, q, k, v, rows, count, outputs);
    if (!status && !spreads != !sizes)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s is NULL: both are given, or neither", spreads ? "sizes" : "spreads");
    if (status || count == 0)
        return status;
    oracle o = {.plan = p, .k = k, .v = v, .rows = rows, .count = count, .outputs = outputs, .spreads = spreads};
    status = oracle_take(&o);
    if (!status)
        status = start_rows(&o, q);
    for (int64_t batch = 0; batch < p->batch && !status; batch++)
        status = work_batch(&o, batch);
    for (int64_t i = 0; i < count && !status; i++) {
        double *output = outputs + i * p->value_dim;
        finish_row(&o.states[i], p->value_dim, output, lses ? &lses[i] : NULL);
        if (spreads)
            finish_sizes(&o.states[i], p->value_dim, output, spreads + i * p->value_dim, &sizes[i]);
    }
    oracle_free(&o);
    return status;
}
