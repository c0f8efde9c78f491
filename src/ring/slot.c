/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: see slot.h. */
#include "ring/slot.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/tensor.h"
#include "exec/gradient.h"
#include "ring/rank_behind.h"

#include <string.h>

/* Storage is read in parts of about this size, with a sign of life in between. */
enum { PART_BYTES = 4 << 20 };

/* ---- What a slot holds ------------------------------------------------------------------------------------------- */

/* The tensors of a plane, whose rows come behind those of the planes before it. */
static void set_plane(ra_rank *e, ra_slot *s, int64_t plane, int64_t first, int64_t rows)
{
    int64_t planes = e->held.planes, each = e->ring->planes / planes;
    for (int role = 0; role < RA_ROLES; role++) {
        if (!s->memory[role])
            continue;
        ra_role_shape shape = ra_role_shape_of(e->ring, role);
        s->tensors[role][plane] =
            ra_tensor_dense(s->memory[role] + first * each * e->pass->row_bytes[role], shape.dtype, RA_BHSD,
                            e->ring->plan->batch, rows, shape.heads / planes, shape.dim);
    }
}

ra_status ra_slot_set(ra_rank *e, int slot, const ra_share *share, const uint64_t *words, int64_t stride)
{
    ra_slot *s = &e->held.slots[slot];
    int64_t all = 0;
    for (int64_t plane = 0; plane < e->held.planes; plane++)
        all += ra_marked(words + plane * stride, share->blocks);
    if (all > s->room)
        return ra_fail(RA_ERROR_INTERNAL, "rank %d: %lld rows where %lld were planned", e->rank, (long long)all,
                       (long long)s->room);
    s->share = *share;
    all = 0;
    for (int64_t plane = 0; plane < e->held.planes && s->room; plane++) {
        uint64_t *own = s->words + plane * share->blocks;
        memmove(own, words + plane * stride, (size_t)share->blocks * sizeof *own);
        ra_marks_before(own, share->blocks, s->before + plane * share->blocks);
        int64_t rows = ra_marked(own, share->blocks);
        set_plane(e, s, plane, all, rows);
        all += rows;
    }
    s->rows = all;
    return RA_OK;
}

ra_status ra_slot_set_all(ra_rank *e, int slot, const ra_share *share)
{
    uint64_t *words = e->held.some;
    memset(words, 0, (size_t)(e->held.planes * share->blocks) * sizeof *words);
    for (int64_t plane = 0; plane < e->held.planes; plane++)
        ra_mark_range(share, 0, INT64_MAX, words + plane * share->blocks);
    return ra_slot_set(e, slot, share, words, share->blocks);
}

ra_keys ra_slot_keys(const ra_rank *e, const ra_slot *s)
{
    return (ra_keys){.share = s->share,
                     .k = s->tensors[RA_ROLE_KEYS],
                     .v = s->tensors[RA_ROLE_VALUES],
                     .words = s->words,
                     .before = s->before,
                     .head_words = e->held.planes > 1 ? s->share.blocks : 0};
}

/* The row of a plane in a slot that has a position. */
static int64_t row_of(const ra_slot *s, int64_t plane, int64_t position)
{
    ra_range range = ra_share_range(&s->share, ra_share_find(&s->share, position));
    int64_t word = plane * s->share.blocks + range.block + position / RA_KEY_BLOCK - range.first / RA_KEY_BLOCK;
    uint64_t below = (UINT64_C(1) << (position % RA_KEY_BLOCK)) - 1;
    return s->before[word] + __builtin_popcountll(s->words[word] & below);
}

/* ---- Storage ----------------------------------------------------------------------------------------------------- */

ra_storage *ra_slot_storage(const ra_rank *e, ra_role role)
{
    const ra_tensors *t = e->tensors;
    ra_storage *const storages[RA_ROLES] = {[RA_ROLE_KEYS] = t->k,       [RA_ROLE_VALUES] = t->v,
                                            [RA_ROLE_QUERIES] = t->q,    [RA_ROLE_OUTPUT_GRADIENTS] = t->d_output,
                                            [RA_ROLE_LSE] = t->lse,      [RA_ROLE_QUERY_SUMS] = t->d_q,
                                            [RA_ROLE_KEY_SUMS] = t->d_k, [RA_ROLE_VALUE_SUMS] = t->d_v};
    return storages[role];
}

ra_status ra_slot_read_rows(ra_rank *e, ra_storage *storage, int64_t first, int64_t count, int64_t head,
                            const ra_tensor *into, int64_t row)
{
    int64_t row_bytes = into->heads * into->dim * (int64_t)ra_dtype_size(into->dtype);
    int64_t part = ra_max(1, PART_BYTES / row_bytes);
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < into->batch; batch++)
        for (int64_t done = 0, rows; done < count && !status; done += rows) {
            rows = ra_min(part, count - done);
            ra_tensor view = *into;
            view.data = (void *)ra_tensor_at(into, batch, row + done, 0, 0);
            view.batch = 1;
            view.seq = rows;
            status = ra_storage_read(storage, batch, first + done, rows, head, &view);
            if (!status)
                status = ra_rank_between_reads(e);
        }
    return status;
}

/* Rows of one batch, from a row on. */
static ra_tensor part_of(const ra_tensor *t, int64_t batch, int64_t row, int64_t rows)
{
    ra_tensor part = *t;
    part.data = (void *)ra_tensor_at(t, batch, row, 0, 0);
    part.batch = 1;
    part.seq = rows;
    return part;
}

/* Some rows of one batch; the output, and the gradient by the log-sum-exp, go through the staging memory. */
static ra_status find_delta_part(ra_rank *e, int64_t batch, int64_t first, int64_t head, const ra_tensor *d_output,
                                 const ra_tensor *delta)
{
    ra_dtype dtype = ra_storage_view(e->tensors->output)->dtype;
    int64_t rows = delta->seq, bytes = rows * delta->heads * d_output->dim * (int64_t)sizeof(float);
    ra_tensor output = ra_tensor_dense(e->held.output, dtype, RA_BSHD, 1, rows, delta->heads, d_output->dim);
    ra_tensor d_lse = ra_tensor_dense((char *)e->held.output + bytes, RA_F32, RA_BSHD, 1, rows, delta->heads, 1);
    ra_status status = ra_storage_read(e->tensors->output, batch, first, rows, head, &output);
    if (!status && e->tensors->d_lse)
        status = ra_storage_read(e->tensors->d_lse, batch, first, rows, head, &d_lse);
    if (!status)
        ra_gradient_delta(e->kernel, 1, &output, d_output, e->tensors->d_lse ? &d_lse : NULL, delta);
    return status ? status : ra_link_poll(&e->link);
}

ra_status ra_slot_find_delta(ra_rank *e, int64_t first, int64_t count, int64_t head, const ra_tensor *d_output,
                             const ra_tensor *delta, int64_t row)
{
    int64_t row_bytes = delta->heads * (d_output->dim + 1) * (int64_t)sizeof(float);
    int64_t most = ra_max(1, e->held.memory.output / row_bytes);
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < delta->batch; batch++)
        for (int64_t done = 0, rows; done < count && !status; done += rows) {
            rows = ra_min(most, count - done);
            const ra_tensor of = part_of(d_output, batch, row + done, rows);
            const ra_tensor into = part_of(delta, batch, row + done, rows);
            status = find_delta_part(e, batch, first + done, head, &of, &into);
        }
    return status;
}

/* Where a position is in the storage of rows that travel. */
static int64_t storage_row(const ra_rank *e, int64_t position)
{
    if (!e->tensors->parts)
        return position;
    ra_share own = ra_partition_share(ra_pass_moving(e->pass), e->rank);
    return ra_share_rows_below(&own, position);
}

static ra_status read_run(ra_rank *e, const ra_slot *s, unsigned roles, int64_t plane, const ra_position_run *run)
{
    int64_t first = storage_row(e, run->position), row = row_of(s, plane, run->position);
    ra_status status = RA_OK;
    for (int role = 0; role < RA_ROLES && !status; role++) {
        const ra_tensor *into = roles >> role & 1 ? &s->tensors[role][plane] : NULL;
        if (into && role == RA_ROLE_DELTA)
            status = ra_slot_find_delta(e, first, run->rows, plane * into->heads,
                                        &s->tensors[RA_ROLE_OUTPUT_GRADIENTS][plane], into, row);
        else if (into)
            status = ra_slot_read_rows(e, ra_slot_storage(e, role), first, run->rows, plane * into->heads, into, row);
    }
    return status;
}

static ra_status write_run(ra_rank *e, const ra_slot *s, unsigned roles, int64_t plane, const ra_position_run *run)
{
    int64_t first = storage_row(e, run->position), row = row_of(s, plane, run->position);
    ra_status status = RA_OK;
    for (int role = 0; role < RA_ROLES && !status; role++) {
        const ra_tensor *from = roles >> role & 1 ? &s->tensors[role][plane] : NULL;
        for (int64_t batch = 0; from && batch < from->batch && !status; batch++) {
            const ra_tensor part = part_of(from, batch, row, run->rows);
            status =
                ra_storage_write_heads(ra_slot_storage(e, role), batch, first, run->rows, plane * from->heads, &part);
        }
    }
    return status ? status : ra_link_poll(&e->link);
}

typedef ra_status (*move_run)(ra_rank *e, const ra_slot *s, unsigned roles, int64_t plane, const ra_position_run *run);

/* Some roles of the rows that are marked, run by run. */
static ra_status move_marked(ra_rank *e, const ra_slot *s, unsigned roles, const uint64_t *rows, int64_t stride,
                             move_run move)
{
    ra_status status = RA_OK;
    for (int64_t plane = 0; plane < e->held.planes && !status; plane++) {
        ra_position_walk walk = {&s->share, rows + plane * stride, 0, 0, 0};
        ra_position_run run;
        while (!status && ra_position_walk_next(&walk, &run))
            status = move(e, s, roles, plane, &run);
    }
    return status;
}

ra_status ra_slot_read(ra_rank *e, const ra_slot *s, unsigned roles, const uint64_t *rows, int64_t stride)
{
    return move_marked(e, s, roles, rows, stride, read_run);
}

ra_status ra_slot_write_sums(ra_rank *e, const ra_slot *s)
{
    double start = ra_seconds();
    ra_status status = s->room ? move_marked(e, s, e->pass->along, s->words, s->share.blocks, write_run) : RA_OK;
    e->tally.stats->seconds_io += ra_seconds() - start;
    return status;
}

/* ---- Own rows ---------------------------------------------------------------------------------------------------- */

static void copy_rows(const ra_tensor *from, int64_t from_row, const ra_tensor *to, int64_t to_row, int64_t rows)
{
    int64_t bytes = to->dim * (int64_t)ra_dtype_size(to->dtype);
    for (int64_t head = 0; head < to->batch * to->heads; head++)
        memcpy((char *)to->data + (head * to->seq + to_row) * bytes,
               (const char *)from->data + (head * from->seq + from_row) * bytes, (size_t)(rows * bytes));
}

static void add_rows(const ra_tensor *to, int64_t to_row, const ra_tensor *from, int64_t from_row, int64_t rows)
{
    for (int64_t head = 0; head < to->batch * to->heads; head++) {
        float *sums = (float *)to->data + (head * to->seq + to_row) * to->dim;
        const float *more = (const float *)from->data + (head * from->seq + from_row) * from->dim;
        for (int64_t i = 0; i < rows * to->dim; i++)
            sums[i] += more[i];
    }
}

typedef void (*move_rows)(const ra_tensor *own, int64_t own_row, const ra_tensor *other, int64_t row, int64_t rows);

/* Own rows of a plane that are marked, between a slot that has all of them, one after the other, and another slot. */
static void move_plane(const ra_slot *own, const ra_slot *other, unsigned roles, int64_t plane, const uint64_t *rows,
                       move_rows move)
{
    ra_position_walk walk = {&other->share, rows, 0, 0, 0};
    ra_position_run run;
    while (ra_position_walk_next(&walk, &run))
        for (int64_t at = run.position, end = at + run.rows, count; at < end; at += count) {
            ra_range range = ra_share_range(&own->share, ra_share_find(&own->share, at));
            int64_t row = range.row + at - range.first;
            count = ra_min(end, range.end) - at;
            for (int role = 0; role < RA_ROLES; role++)
                if (roles >> role & 1)
                    move(&own->tensors[role][plane], row, &other->tensors[role][plane], row_of(other, plane, at),
                         count);
        }
}

void ra_slot_copy_own(ra_rank *e, const ra_slot *into, const uint64_t *rows)
{
    const ra_slot *own = &e->held.slots[e->held.own_slot];
    for (int64_t plane = 0; plane < e->held.planes; plane++)
        move_plane(own, into, e->pass->roles, plane, rows + plane * into->share.blocks, copy_rows);
}

void ra_slot_add_home(ra_rank *e, const ra_slot *from, const uint64_t *rows)
{
    const ra_slot *home = &e->held.slots[RA_SLOT_HOME];
    for (int64_t plane = 0; plane < e->held.planes; plane++)
        move_plane(home, from, e->pass->along, plane, rows + plane * from->share.blocks, add_rows);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static ra_status add_segment(ra_rank *e, void *at, int64_t bytes)
{
    int64_t room = e->held.memory.segments / (int64_t)sizeof(ra_segment);
    if (e->flight.segments == room)
        return ra_fail(RA_ERROR_INTERNAL, "rank %d: the messages of hop %lld have more than the %lld pieces planned",
                       e->rank, (long long)e->flight.phase, (long long)room);
    ((ra_segment *)e->held.segments)[e->flight.segments++] = (ra_segment){at, bytes};
    return RA_OK;
}

/* The rows of one head; or, where they are all that a tensor has and `whole`, of all heads. */
static ra_status add_head(ra_rank *e, const ra_slot *s, const ra_tensor *t, int64_t plane, int64_t head,
                          const uint64_t *rows, bool *whole)
{
    int64_t row_bytes = t->dim * (int64_t)ra_dtype_size(t->dtype), blocks = s->share.blocks;
    ra_mark_walk walk = ra_mark_walk_begin(rows, s->words + plane * blocks, blocks);
    ra_mark_run run;
    ra_status status = RA_OK;
    bool everything = false;
    while (!status && !everything && ra_mark_walk_next(&walk, &run)) {
        everything = *whole && run.rows == t->seq;
        status = add_segment(e, (char *)t->data + (head * t->seq + run.row) * row_bytes,
                             (everything ? t->batch * t->heads : 1) * run.rows * row_bytes);
    }
    *whole = everything;
    return status;
}

/* The heads of a plane that a message carries. */
static ra_status add_plane(ra_rank *e, const ra_slot *s, const ra_tensor *t, int64_t plane, const ra_message *m,
                           const uint64_t *rows)
{
    int64_t each = t->heads * e->held.planes / e->ring->plan->kv_heads; /* heads to a key/value head */
    int64_t before = plane * t->heads, first = ra_max(0, m->head * each - before);
    int64_t end = ra_min(t->heads, (m->head + m->heads) * each - before);
    bool whole = first == 0 && end == t->heads;
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < t->batch; batch++)
        for (int64_t head = first; head < end && !status; head++) {
            status = add_head(e, s, t, plane, batch * t->heads + head, rows, &whole);
            if (whole)
                return status;
        }
    return status;
}

ra_status ra_slot_add_segments(ra_rank *e, const ra_slot *s, const ra_message *m, const uint64_t *rows)
{
    ra_status status = RA_OK;
    for (int role = 0; role < RA_ROLES; role++)
        for (int64_t plane = 0; plane < e->held.planes && !status && m->roles >> role & 1; plane++)
            status = add_plane(e, s, &s->tensors[role][plane], plane, m, rows + plane * s->share.blocks);
    return status;
}
