/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the gradients of the arrays of scores: see array_sums.h. */
#include "exec/array_sums.h"

#include "base/checked.h"
#include "base/memory.h"
#include "base/tensor.h"
#include "score/scores.h"

#include <math.h>
#include <sched.h>

/* ---- What is wanted, and where it is ----------------------------------------------------------------------------- */

static int64_t table_entries(const ra_scores *s)
{
    return 2 * s->reach + 1;
}

/* A bias with one row for all queries. */
static bool by_key(const ra_scores *s, const ra_plan *p)
{
    return s->d_bias && s->d_bias->seq == 1 && p->q_len > 1;
}

bool ra_array_sums_wanted(const ra_plan *p)
{
    const ra_scores *s = p->scores;
    return s && (s->d_slopes || s->d_table || s->d_bias || s->d_sinks);
}

bool ra_array_sums_by_pair(const ra_plan *p)
{
    return p->scores && p->scores->d_bias && !by_key(p->scores, p);
}

ra_array_layout ra_array_sums_lay_out(const ra_plan *p)
{
    const ra_scores *s = p->scores;
    ra_array_layout l = {0};
    if (!ra_array_sums_wanted(p))
        return l;
    l.table = l.count += s->d_slopes ? p->heads : 0;
    l.keys = l.count += s->d_table ? s->d_table->heads * table_entries(s) : 0;
    l.sinks = l.count += by_key(s, p) ? s->d_bias->batch * s->d_bias->heads * p->kv_len : 0;
    l.count += s->d_sinks ? p->heads : 0;
    return l;
}

void ra_array_sums_begin(ra_array_sums *sums, const ra_plan *p, ra_exact_sum *memory)
{
    const ra_scores *s = p->scores;
    ra_array_layout l = ra_array_sums_lay_out(p);
    *sums = (ra_array_sums){.plan = p, .merging = ATOMIC_FLAG_INIT};
    if (!ra_array_sums_wanted(p))
        return;
    if (l.count > 0)
        memset(memory, 0, (size_t)l.count * sizeof *memory);
    sums->slopes = s->d_slopes ? memory + l.slopes : NULL;
    sums->table = s->d_table ? memory + l.table : NULL;
    sums->keys = by_key(s, p) ? memory + l.keys : NULL;
    sums->sinks = s->d_sinks ? memory + l.sinks : NULL;
    sums->bias = ra_array_sums_by_pair(p) ? s->d_bias : NULL;
}

void ra_array_sums_clear(const ra_plan *p)
{
    if (!ra_array_sums_by_pair(p))
        return;
    const ra_tensor *t = p->scores->d_bias;
    for (int64_t i = 0; i < t->batch * t->heads * t->seq; i++) {
        float *row = (float *)ra_tensor_at(t, i / t->seq / t->heads, i % t->seq, i / t->seq % t->heads, 0);
        for (int64_t d = 0; d < t->dim; d++)
            row[d * t->dim_stride] = 0.0f;
    }
}

bool ra_array_sums_follow(const ra_array_sums *sums)
{
    if (!sums || (!sums->bias && !sums->keys))
        return false;
    const ra_plan *p = sums->plan;
    const ra_tensor *bias = p->scores->d_bias;
    return (bias->heads == 1 && p->kv_heads > 1) || (bias->batch == 1 && p->batch > 1);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

void ra_array_sums_rows(ra_array_sums *sums, int64_t first_head, const ra_tensor *lse, const ra_tensor *delta)
{
    for (int64_t head = 0; sums->sinks && head < lse->heads; head++) {
        double sink = ra_score_at(&sums->plan->scores->sinks, 0, 0, first_head + head, 0);
        ra_exact_sum *sum = &sums->sinks[first_head + head];
        for (int64_t row = 0; row < lse->batch * lse->seq; row++) {
            int64_t batch = row / lse->seq, seq = row % lse->seq;
            double weight = exp(sink - ra_tensor_get(lse, batch, seq, head, 0));
            if (sink > -INFINITY)
                ra_exact_add(sum, (float)(-weight * ra_tensor_get(delta, batch, seq, head, 0)));
            if ((row + 1) % RA_EXACT_ADDITIONS == 0)
                ra_exact_carry(sum, 1);
        }
        ra_exact_carry(sum, 1);
    }
}

void ra_array_sums_finish(ra_array_sums *sums)
{
    const ra_scores *s = sums->plan->scores;
    for (int64_t head = 0; sums->slopes && head < sums->plan->heads; head++)
        ra_tensor_set(s->d_slopes, 0, 0, head, 0, ra_exact_value(&sums->slopes[head]));
    for (int64_t head = 0; sums->sinks && head < sums->plan->heads; head++)
        ra_tensor_set(s->d_sinks, 0, 0, head, 0, ra_exact_value(&sums->sinks[head]));
    for (int64_t i = 0; sums->table && i < s->d_table->heads * table_entries(s); i++)
        ra_tensor_set(s->d_table, 0, 0, i / table_entries(s), i % table_entries(s), ra_exact_value(&sums->table[i]));
    for (int64_t i = 0; sums->keys && i < s->d_bias->batch * s->d_bias->heads * sums->plan->kv_len; i++) {
        int64_t slice = i / sums->plan->kv_len;
        ra_tensor_set(s->d_bias, slice / s->d_bias->heads, 0, slice % s->d_bias->heads, i % sums->plan->kv_len,
                      ra_exact_value(&sums->keys[i]));
    }
}

/* ---- Tasks ------------------------------------------------------------------------------------------------------- */

/* Rows of a task's table: one for each head, or one that all share. */
static int64_t table_rows(const ra_scores *s, int64_t heads)
{
    return !s->d_table ? 0 : s->d_table->heads == 1 ? 1 : heads;
}

int64_t ra_array_task_bytes(const ra_plan *p, int64_t heads)
{
    const ra_scores *s = p->scores;
    if (!ra_array_sums_wanted(p))
        return 0;
    int64_t rows = table_rows(s, heads), sums = (s->d_slopes ? heads : 0) + rows * table_entries(s);
    return sums * (int64_t)sizeof(ra_exact_sum) + rows * (int64_t)sizeof(ra_array_touched);
}

void ra_array_task_begin(ra_array_task *task, const ra_plan *plan, ra_array_sums *sums, int64_t batch,
                         int64_t first_head, int64_t heads, char *memory)
{
    *task = (ra_array_task){.plan = plan, .sums = sums, .batch = batch, .first_head = first_head, .heads = heads};
    if (!sums)
        return;
    task->slopes = (ra_exact_sum *)memory;
    task->table = task->slopes + (sums->slopes ? heads : 0);
    if (!sums->table)
        return;
    int64_t rows = table_rows(sums->plan->scores, heads), entries = table_entries(sums->plan->scores);
    task->touched = (ra_array_touched *)(task->table + rows * entries);
    for (int64_t i = 0; i < rows; i++)
        task->touched[i] = (ra_array_touched){entries, 0};
}

/* A tile, with the positions of its queries and keys. */
typedef struct pairs {
    const ra_score_place *place;
    int lanes;
    const float *d_scores, *cap_slope;
    int64_t query_position[RA_LANES_MOST], key_position[RA_KEY_BLOCK]; /* keys from place->begin on */
} pairs;

static void find_positions(pairs *t, const ra_plan *p)
{
    const ra_score_place *at = t->place;
    for (int i = 0; i < at->rows; i++)
        t->query_position[i] = ra_plan_position(p, ra_lattice_position(&at->lattice, at->member + i));
    for (int k = at->begin; k < at->end; k++)
        t->key_position[k] = ra_lattice_position(&at->lattice, at->first + k) + p->key_position;
}

/* Whether a term comes before softcap, whose derivative is then a factor of its gradient. */
static bool before_cap(const ra_scores *s, ra_score_kind term)
{
    for (int i = 0; i < s->count && s->terms[i] != RA_SCORE_SOFTCAP; i++)
        if (s->terms[i] == term)
            return true;
    return false;
}

/* The derivative of softcap as a term sees it; NULL: none. */
static const float *cap_of(const pairs *t, const ra_scores *s, ra_score_kind term)
{
    return before_cap(s, term) ? t->cap_slope : NULL;
}

static inline float gradient_at(const pairs *t, const float *cap, int key, int lane)
{
    int64_t at = (int64_t)key * t->lanes + lane;
    return cap ? t->d_scores[at] * cap[at] : t->d_scores[at];
}

/* Two sums are added to in turn, because an addition to a digit waits for the one before. */
static void add_slope(const pairs *t, const float *cap, ra_exact_sum *sum)
{
    ra_exact_sum odd = {0};
    for (int k = t->place->begin; k < t->place->end; k++)
        for (int i = 0; i < t->place->rows; i++) {
            float d = gradient_at(t, cap, k, i);
            int64_t apart = t->query_position[i] - t->key_position[k];
            if (d != 0)
                ra_exact_add(i % 2 ? &odd : sum, -(float)(apart < 0 ? -apart : apart) * d);
        }
    ra_exact_carry(&odd, 1);
    ra_exact_merge(sum, &odd, 1);
}

/* The entry of a table for a pair. */
static int64_t entry_of(int64_t reach, int64_t position, int64_t key_position)
{
    return ra_max(-reach, ra_min(key_position - position, reach)) + reach;
}

static void add_entries(const pairs *t, const float *cap, int64_t reach, ra_exact_sum *row, ra_array_touched *touched)
{
    int64_t first = touched->first, last = touched->end - 1;
    for (int k = t->place->begin; k < t->place->end; k++)
        for (int i = 0; i < t->place->rows; i++) {
            float d = gradient_at(t, cap, k, i);
            if (d == 0)
                continue;
            int64_t entry = entry_of(reach, t->query_position[i], t->key_position[k]);
            ra_exact_add(&row[entry], d);
            first = ra_min(first, entry);
            last = ra_max(last, entry);
        }
    *touched = (ra_array_touched){first, last + 1};
}

/* Elements of a bias are floats. Chains that share them add to them in the order of the chains. */
static void add_bias(const pairs *t, const float *cap, const ra_plan *p, const ra_tensor *bias, int64_t batch)
{
    const ra_score_place *at = t->place;
    int64_t slice = bias->batch == 1 ? 0 : batch, head = bias->heads == 1 ? 0 : at->head;
    for (int i = 0; i < at->rows; i++) {
        int64_t query = ra_lattice_position(&at->lattice, at->member + i) - p->offset;
        float *row = (float *)ra_tensor_at(bias, slice, bias->seq == 1 ? 0 : query, head, 0);
        for (int k = at->begin; k < at->end; k++) {
            float d = gradient_at(t, cap, k, i);
            if (d != 0)
                row[(t->key_position[k] - p->key_position) * bias->dim_stride] += d;
        }
    }
}

static void add_keys(const pairs *t, const float *cap, const ra_array_sums *sums, int64_t batch)
{
    const ra_plan *p = sums->plan;
    const ra_tensor *bias = p->scores->d_bias;
    int64_t slice = (bias->batch == 1 ? 0 : batch) * bias->heads + (bias->heads == 1 ? 0 : t->place->head);
    for (int k = t->place->begin; k < t->place->end; k++) {
        int64_t key = t->key_position[k] - p->key_position;
        if (key < 0 || key >= p->kv_len) /* whole units are worked */
            continue;
        ra_exact_sum *sum = &sums->keys[slice * p->kv_len + key];
        for (int i = 0; i < t->place->rows; i++)
            ra_exact_add(sum, gradient_at(t, cap, k, i));
        ra_exact_carry(sum, 1);
    }
}

static void carry_all(ra_array_task *task)
{
    const ra_scores *s = task->sums->plan->scores;
    if (task->sums->slopes)
        ra_exact_carry(task->slopes, task->heads);
    for (int64_t row = 0; task->sums->table && row < table_rows(s, task->heads); row++) {
        const ra_array_touched *touched = &task->touched[row];
        if (touched->first < touched->end)
            ra_exact_carry(task->table + row * table_entries(s) + touched->first, touched->end - touched->first);
    }
    task->additions = 0;
}

void ra_array_task_add(ra_array_task *task, const ra_score_place *place, int lanes, const float *d_scores,
                       const float *cap_slope)
{
    const ra_array_sums *sums = task->sums;
    const ra_plan *p = task->plan;
    const ra_scores *s = p->scores;
    pairs t = {.place = place, .lanes = lanes, .d_scores = d_scores, .cap_slope = cap_slope};
    int64_t head = place->head - task->first_head;
    find_positions(&t, p);
    if (sums->slopes)
        add_slope(&t, cap_of(&t, s, RA_SCORE_ALIBI), &task->slopes[head]);
    if (sums->table) {
        int64_t row = s->d_table->heads == 1 ? 0 : head;
        add_entries(&t, cap_of(&t, s, RA_SCORE_RELATIVE), s->reach, task->table + row * table_entries(s),
                    &task->touched[row]);
    }
    if (sums->bias)
        add_bias(&t, cap_of(&t, s, RA_SCORE_BIAS), p, sums->bias, task->batch);
    if (sums->keys)
        add_keys(&t, cap_of(&t, s, RA_SCORE_BIAS), sums, task->batch);
    task->additions += (int64_t)place->rows * (place->end - place->begin);
    if (task->additions > RA_EXACT_ADDITIONS - RA_KEY_BLOCK * RA_LANES_MOST)
        carry_all(task);
}

/* Add the sums of a task to those of the run, and clear the task's. */
static void move(ra_exact_sum *from, int64_t count, ra_exact_sum *to)
{
    ra_exact_merge(to, from, count);
    memset(from, 0, (size_t)count * sizeof *from);
}

void ra_array_task_end(ra_array_task *task)
{
    ra_array_sums *sums = task->sums;
    if (!sums || (!sums->slopes && !sums->table))
        return;
    const ra_scores *s = sums->plan->scores;
    carry_all(task);
    while (atomic_flag_test_and_set_explicit(&sums->merging, memory_order_acquire))
        sched_yield();
    if (sums->slopes)
        move(task->slopes, task->heads, sums->slopes + task->first_head);
    for (int64_t row = 0; sums->table && row < table_rows(s, task->heads); row++) {
        const ra_array_touched *touched = &task->touched[row];
        int64_t at = (s->d_table->heads == 1 ? 0 : task->first_head + row) * table_entries(s);
        if (touched->first < touched->end)
            move(task->table + row * table_entries(s) + touched->first, touched->end - touched->first,
                 sums->table + at + touched->first);
    }
    atomic_flag_clear_explicit(&sums->merging, memory_order_release);
}
