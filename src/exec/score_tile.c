/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the score stage of a tile: strips, matrices and draws. See score_tile.h. */
#include "exec/score_tile.h"

#include "base/checked.h"
#include "base/dropout.h"
#include "base/tensor.h"

#include <math.h>

/* Keys of a bias in a file that are read at a time, and the numbers that say which ones a slot has. */
enum { WINDOW = 512, WINDOW_NAME = 5 };

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static int strip_floats(int lanes)
{
    return lanes + RA_KEY_BLOCK;
}

int64_t ra_score_tiles_bytes(const ra_plan *p, int lanes, int64_t slots)
{
    const ra_scores *s = p->scores;
    if (!ra_scores_staged(s))
        return 0;
    int64_t floats = 2 * strip_floats(lanes) + 3 * (int64_t)RA_KEY_BLOCK * lanes, draws = 2 * (lanes + RA_KEY_BLOCK);
    int64_t windows = s->bias_source.read ? slots : 0;
    return WINDOW_NAME * windows * (int64_t)sizeof(int64_t) +
           (floats + windows * lanes * WINDOW) * (int64_t)sizeof(float) + draws * (int64_t)sizeof(uint32_t);
}

int64_t ra_score_rows_bytes(const ra_plan *p, int64_t rows)
{
    if (!ra_scores_staged(p->scores))
        return 0;
    return 3 * rows * RA_KEY_BLOCK * (int64_t)sizeof(float) + 2 * (rows + RA_KEY_BLOCK) * (int64_t)sizeof(uint32_t);
}

void ra_score_tiles_begin(ra_score_tiles *t, const ra_plan *p, const ra_kernel *kernel, int64_t batch, int lanes,
                          int64_t slots, char *memory)
{
    const ra_scores *s = p->scores;
    if (!ra_scores_staged(s))
        return;
    int64_t windows = s->bias_source.read ? slots : 0;
    *t = (ra_score_tiles){.plan = p, .kernel = kernel, .batch = batch, .lanes = lanes};
    t->window_of = (int64_t *)memory;
    for (int64_t i = 0; i < WINDOW_NAME * windows; i++)
        t->window_of[i] = -1;
    float *at = (float *)(t->window_of + WINDOW_NAME * windows);
    t->windows = at;
    at += windows * lanes * WINDOW;
    for (int kind = RA_SCORE_ALIBI; kind <= RA_SCORE_BIAS; kind++, at += (int64_t)RA_KEY_BLOCK * lanes)
        t->matrix[kind] = at;
    for (int kind = RA_SCORE_ALIBI; kind <= RA_SCORE_RELATIVE; kind++, at += strip_floats(lanes))
        t->strip[kind] = at;
    t->row_draws = (uint32_t *)at;
    t->key_draws = t->row_draws + (ptrdiff_t)2 * lanes;
    t->stage.kept = s->dropout > 0 ? (float)(1 / (1 - s->dropout)) : 0.0f;
    t->stage.threshold = ra_draw_threshold(s->dropout);
    t->stage.row_a = t->row_draws;
    t->stage.row_b = t->row_draws + lanes;
    t->stage.key_a = t->key_draws;
    t->stage.key_b = t->key_draws + RA_KEY_BLOCK;
}

/* ---- By distance: alibi and relative ----------------------------------------------------------------------------- */

/* In base 2, rounded once; finite, as ra_added_in_base_2. */
static inline float by_length(double slope, double length)
{
    double added = RA_LOG2_E * (-slope * length);
    return (float)(added < -(double)FLT_MAX ? -(double)FLT_MAX : added);
}

static float by_slope(double slope, int64_t distance)
{
    return by_length(slope, (double)(distance < 0 ? -distance : distance));
}

float ra_score_by_distance(const ra_scores *s, ra_score_kind kind, int64_t head, int64_t distance)
{
    if (kind == RA_SCORE_ALIBI)
        return by_slope(ra_score_at(&s->slopes, 0, 0, head, 0), distance);
    int64_t entry = ra_max(0, ra_min(s->reach - distance, 2 * s->reach));
    return ra_added_in_base_2((float)RA_LOG2_E, (float)ra_score_at(&s->table, 0, 0, head, entry));
}

/* Where a member is, as the problem counts positions. */
static int64_t position_of(const ra_score_tiles *t, const ra_score_place *at, int64_t member)
{
    return ra_plan_position(t->plan, ra_lattice_position(&at->lattice, member));
}

static int64_t key_position_of(const ra_score_tiles *t, const ra_score_place *at, int64_t member)
{
    return ra_lattice_position(&at->lattice, member) + t->plan->key_position;
}

/*
 * Whether the positions of the lanes go up with them one by one. Members of one segment do, at the segment's rate, and
 * so do queries of one packed sequence.
 */
static bool in_line(const ra_score_tiles *t, const ra_score_place *at)
{
    int64_t end = at->member + at->rows;
    return !ra_lattice_plain(&at->lattice) || ra_pattern_packed_end(&t->plan->pattern, at->member, end) == end;
}

/*
 * strip[i] for the distance first + rate * i: the numbers of ra_score_by_distance, to the bit. A double counts
 * distances exactly where they are below 2^53, and loops over doubles are vectors.
 */
static void strip_of_slope(double slope, int64_t rate, int64_t first, int count, float *strip)
{
    const int64_t exact = (int64_t)1 << 52;
    const double start = (double)first, step = (double)rate;
    if (first > -exact && first < exact && rate < exact / count) {
        for (int i = 0; i < count; i++)
            strip[i] = by_length(slope, fabs(start + step * i));
        return;
    }
    for (int i = 0; i < count; i++)
        strip[i] = by_slope(slope, first + rate * i);
}

static void strip_of_table(const ra_scores *s, int64_t head, int64_t rate, int64_t first, int count, float *strip)
{
    const float *row = (const float *)s->table.data + (s->table.heads > 1 ? head : 0) * s->table.head_stride;
    int64_t stride = s->table.dim_stride, last = 2 * s->reach, entry = s->reach - first;
    int i = 0;
    for (; i < count && entry > last; i++, entry -= rate)
        strip[i] = row[last * stride];
    for (; i < count && entry >= 0; i++, entry -= rate)
        strip[i] = row[entry * stride];
    for (; i < count; i++)
        strip[i] = row[0];
    for (i = 0; i < count; i++)
        strip[i] = ra_added_in_base_2((float)RA_LOG2_E, strip[i]);
}

/*
 * add[k * stride + i] for lane i and key k is strip[i - k + RA_KEY_BLOCK - 1]: what it is depends on the distance
 * alone. Pairs of different segments have other distances, but see nothing of each other.
 */
static ra_score_step fill_strip(ra_score_tiles *t, const ra_score_place *at, ra_score_kind kind)
{
    const ra_scores *s = t->plan->scores;
    float *strip = t->strip[kind];
    const int64_t most = (int64_t)1 << 45; /* a rate that is larger has no two members that see each other */
    int64_t rate = ra_min(at->lattice.rate, most), nearest = at->member - at->first - (RA_KEY_BLOCK - 1);
    int count = strip_floats(t->lanes);
    if (ra_lattice_plain(&at->lattice)) {
        rate = 1;
        nearest = position_of(t, at, at->member) - key_position_of(t, at, at->first) - (RA_KEY_BLOCK - 1);
    }
    if (kind == RA_SCORE_ALIBI)
        strip_of_slope(ra_score_at(&s->slopes, 0, 0, at->head, 0), rate, rate * nearest, count, strip);
    else
        strip_of_table(s, at->head, rate, rate * nearest, count, strip);
    return (ra_score_step){.op = RA_STEP_ADD, .add = strip + RA_KEY_BLOCK - 1, .stride = -1};
}

static ra_score_step fill_by_distance(ra_score_tiles *t, const ra_score_place *at, ra_score_kind kind)
{
    if (in_line(t, at))
        return fill_strip(t, at, kind);
    float *matrix = t->matrix[kind];
    for (int i = 0; i < t->lanes; i++) {
        int64_t position = i < at->rows ? position_of(t, at, at->member + i) : 0;
        for (int k = at->begin; k < at->end; k++)
            matrix[(ptrdiff_t)k * t->lanes + i] =
                ra_score_by_distance(t->plan->scores, kind, at->head, position - key_position_of(t, at, at->first + k));
    }
    return (ra_score_step){.op = RA_STEP_ADD, .add = matrix, .stride = t->lanes};
}

/* ---- By index: bias ---------------------------------------------------------------------------------------------- */

ra_rows ra_score_bias_row(const ra_scores *s, int64_t batch, int64_t query, int64_t head, int64_t key, int64_t step)
{
    const ra_tensor *b = &s->bias;
    int64_t at = (b->batch > 1 ? batch : 0) * b->batch_stride + (b->seq > 1 ? query : 0) * b->seq_stride +
                 (b->heads > 1 ? head : 0) * b->head_stride + key * b->dim_stride;
    return (ra_rows){(const char *)b->data + at * (int64_t)ra_dtype_size(b->dtype),
                     b->dtype,
                     b->seq_stride,
                     b->dim_stride * step,
                     NULL,
                     NULL};
}

/* The rows of the lanes, as the bias counts them: from the first one on. */
static void lane_rows(const ra_score_tiles *t, const ra_score_place *at, int64_t first, int64_t *index)
{
    for (int i = 0; i < at->rows; i++)
        index[i] = ra_lattice_position(&at->lattice, at->member + i) - t->plan->offset - first;
}

/* Keys begin .. of the block up to the end of their segment, and where they are. */
typedef struct key_run {
    int begin, end;
    int64_t key, step;
} key_run;

static key_run next_run(const ra_score_tiles *t, const ra_score_place *at, int begin)
{
    const ra_lattice *l = &at->lattice;
    while (begin < at->end && ra_lattice_position(l, at->first + begin) < 0) /* units reach before the first key */
        begin++;
    int64_t member = at->first + begin, key = ra_lattice_position(l, member), rate = 1;
    int64_t end = at->first + at->end;
    if (!ra_lattice_plain(l) && l->rate > 1) {
        rate = l->rate;
        end = ra_min(end, (member / l->members + 1) * l->members);
    }
    end = ra_min(end, member + ra_ceil_div(ra_max(0, t->plan->kv_len - key), rate)); /* and beyond the last one */
    return (key_run){begin, (int)(end - at->first), key, rate};
}

/* Whether a slot has what these numbers name; if not, it is named so. */
static bool already_named(int64_t *slot, const int64_t name[WINDOW_NAME])
{
    bool same = true;
    for (int i = 0; i < WINDOW_NAME; i++) {
        same = same && slot[i] == name[i];
        slot[i] = name[i];
    }
    return same;
}

/*
 * The window of a slot that has the keys of a run: rows of the lanes from a file, WINDOW keys each. Branches number
 * their members anew, so a branch is part of the name.
 */
static const float *window_at(ra_score_tiles *t, const ra_score_place *at, const int64_t *index, int64_t first,
                              int64_t window)
{
    const ra_scores *s = t->plan->scores;
    const int64_t name[WINDOW_NAME] = {at->head, at->lattice.segment, at->lattice.rate, at->member, window};
    float *to = t->windows + at->slot * t->lanes * WINDOW;
    int64_t key = window * WINDOW, keys = ra_min(WINDOW, t->plan->kv_len - key);
    if (already_named(t->window_of + WINDOW_NAME * at->slot, name))
        return to;
    for (int i = 0; i < at->rows; i++)
        s->bias_source.read(s->bias_source.file, s->bias.batch > 1 ? t->batch : 0, s->bias.heads > 1 ? at->head : 0,
                            first + index[i], 1, key, keys, to + (ptrdiff_t)i * WINDOW, WINDOW);
    return to;
}

/* Rows of a bias, transposed into lanes, for `keys` keys. In float16 all products are finite. */
static void pack_in_base_2(const ra_score_tiles *t, const ra_rows *rows, int lanes, int keys, float *matrix)
{
    bool finite = rows->dtype == RA_F16;
    t->kernel->turn_rows(rows, lanes, keys, finite ? (float)RA_LOG2_E : 1.0f, matrix);
    for (ptrdiff_t i = 0; !finite && i < (ptrdiff_t)keys * t->lanes; i++)
        matrix[i] = ra_added_in_base_2((float)RA_LOG2_E, matrix[i]);
}

/* Rows of a file, in windows. */
static void pack_windows(ra_score_tiles *t, const ra_score_place *at, const int64_t *index, int64_t first,
                         const key_run *run, float *matrix)
{
    int64_t lanes[RA_LANES_MOST];
    for (int i = 0; i < at->rows; i++)
        lanes[i] = i;
    for (int k = run->begin; k < run->end;) {
        int64_t key = run->key + (k - run->begin) * run->step, window = key / WINDOW;
        int64_t here = ra_min(run->end - k, ra_ceil_div((window + 1) * WINDOW - key, run->step));
        ra_rows rows = {window_at(t, at, index, first, window) + key % WINDOW, RA_F32, WINDOW, run->step, lanes, NULL};
        pack_in_base_2(t, &rows, at->rows, (int)here, matrix + (ptrdiff_t)k * t->lanes);
        k += (int)here;
    }
}

/* What the same lanes will add to the next block of keys, asked for while this one is worked: rows are far apart. */
static ra_fetch next_block(const ra_score_place *at, const ra_rows *rows, const key_run *run)
{
    enum { LINE = 64 };
    int64_t size = (int64_t)sizeof(float), units = ra_max(1, (at->end - at->begin) / RA_KEY_UNIT);
    ra_fetch f = {.row = (const char *)rows->data + (run->end - run->begin) * size, .rows = at->rows};
    f.stride = rows->row_stride * size;
    f.bytes = (int)((run->end - run->begin) * size);
    f.burst = (int)ra_ceil_div(f.rows * ra_ceil_div(f.bytes, LINE), units);
    return f;
}

/* A bias that can be read as it lies: keys 0 and on of the block from where its rows would have them. */
static ra_score_step rows_in_place(const ra_score_place *at, const ra_rows *rows, const key_run *run)
{
    return (ra_score_step){.op = RA_STEP_ADD_ROWS,
                           .add = (const float *)rows->data - run->begin,
                           .stride = rows->row_stride,
                           .factor = (float)RA_LOG2_E,
                           .rows = at->rows,
                           .begin = run->begin,
                           .end = run->end};
}

/* One row for all queries: lanes need not be told apart. */
static ra_score_step fill_shared_row(ra_score_tiles *t, const ra_score_place *at)
{
    const ra_scores *s = t->plan->scores;
    float *keys = t->matrix[RA_SCORE_BIAS];
    int64_t batch = s->bias.batch > 1 ? t->batch : 0, head = s->bias.heads > 1 ? at->head : 0;
    for (key_run run = {0, at->begin, 0, 0}; run.end < at->end;) {
        run = next_run(t, at, run.end);
        if (run.begin >= run.end)
            break;
        if (!s->bias_source.read) {
            ra_rows row = ra_score_bias_row(s, batch, 0, head, run.key, run.step);
            t->kernel->pack_rows(&row, 1, run.end - run.begin, keys + run.begin);
        }
        int together = run.step == 1 ? run.end - run.begin : 1;
        for (int k = run.begin; s->bias_source.read && k < run.end; k += together)
            s->bias_source.read(s->bias_source.file, batch, head, 0, 1, run.key + (k - run.begin) * run.step, together,
                                keys + k, together);
        for (int k = run.begin; k < run.end; k++)
            keys[k] = ra_added_in_base_2((float)RA_LOG2_E, keys[k]);
    }
    return (ra_score_step){.op = RA_STEP_ADD_KEY, .add = keys};
}

static ra_score_step fill_bias(ra_score_tiles *t, const ra_score_place *at)
{
    const ra_scores *s = t->plan->scores;
    float *matrix = t->matrix[RA_SCORE_BIAS];
    int64_t index[RA_LANES_MOST] = {0};
    if (s->bias.seq == 1)
        return fill_shared_row(t, at);
    int64_t first = ra_lattice_position(&at->lattice, at->member) - t->plan->offset;
    lane_rows(t, at, first, index);
    for (key_run run = {0, at->begin, 0, 0}; run.end < at->end;) {
        run = next_run(t, at, run.end);
        if (run.begin >= run.end)
            break;
        if (s->bias_source.read) {
            pack_windows(t, at, index, first, &run, matrix);
            continue;
        }
        ra_rows rows = ra_score_bias_row(s, t->batch, first, at->head, run.key, run.step);
        rows.index = ra_lattice_plain(&at->lattice) ? NULL : index;
        if (!rows.index && rows.dtype == RA_F32 && rows.dim_stride == 1) {
            t->fetch = next_block(at, &rows, &run);
            return rows_in_place(at, &rows, &run);
        }
        pack_in_base_2(t, &rows, at->rows, run.end - run.begin, matrix + (ptrdiff_t)run.begin * t->lanes);
    }
    return (ra_score_step){.op = RA_STEP_ADD, .add = matrix, .stride = t->lanes};
}

/* ---- Dropout ----------------------------------------------------------------------------------------------------- */

static void fill_draws(ra_score_tiles *t, const ra_score_place *at)
{
    const ra_scores *s = t->plan->scores;
    for (int i = 0; i < t->lanes; i++) {
        int64_t member = at->member + ra_min(i, at->rows - 1);
        ra_draw_key row = ra_draw_row(s->seed, t->batch, at->head, position_of(t, at, member));
        t->row_draws[i] = row.a;
        t->row_draws[t->lanes + i] = row.b;
    }
    for (int k = at->begin; k < at->end; k++) {
        ra_draw_key key = ra_draw_column(s->seed, key_position_of(t, at, at->first + k));
        t->key_draws[k] = key.a;
        t->key_draws[RA_KEY_BLOCK + k] = key.b;
    }
}

const ra_score_stage *ra_score_tile(ra_score_tiles *t, const ra_score_place *at)
{
    const ra_scores *s = t->plan->scores;
    t->stage.count = s->count;
    t->stage.fetch = &t->fetch;
    t->fetch = (ra_fetch){0};
    for (int i = 0; i < s->count; i++) {
        ra_score_kind kind = s->terms[i];
        if (kind == RA_SCORE_SOFTCAP)
            t->stage.step[i] = (ra_score_step){.op = RA_STEP_SOFTCAP, .cap = (float)(s->cap * RA_LOG2_E)};
        else
            t->stage.step[i] = kind == RA_SCORE_BIAS ? fill_bias(t, at) : fill_by_distance(t, at, kind);
    }
    if (s->dropout > 0)
        fill_draws(t, at);
    return &t->stage;
}
