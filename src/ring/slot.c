/* Slots: see slot.h. */
#include "ring/slot.h"

#include "base/checked.h"
#include "base/tensor.h"
#include "ring/rank_behind.h"

#include <string.h>

/* Storage is read in parts of about this size, with a sign of life in between. */
enum { PART_BYTES = 4 << 20 };

/* ---- What a slot holds ------------------------------------------------------------------------------------------- */

static ra_dtype dtype_of(const ra_ring_options *o, ra_role role)
{
    return role == RA_ROLE_KEYS ? o->k_dtype : o->v_dtype;
}

static int64_t dim_of(const ra_plan *p, ra_role role)
{
    return role == RA_ROLE_KEYS ? p->head_dim : p->value_dim;
}

/* The tensors of a plane, whose rows come behind those of the planes before it. */
static void set_plane(ra_rank *e, ra_slot *s, int64_t plane, int64_t first, int64_t rows)
{
    const ra_plan *p = e->ring->plan;
    int64_t heads = p->kv_heads / e->held.planes, each = e->ring->planes / e->held.planes;
    for (int role = 0; role < RA_ROLES; role++)
        s->tensors[role][plane] =
            ra_tensor_dense(s->memory[role] + first * each * e->ring->row_bytes[role],
                            dtype_of(&e->ring->options, role), RA_BHSD, p->batch, rows, heads, dim_of(p, role));
}

ra_status ra_slot_set(ra_rank *e, int slot, const ra_share *keys, const uint64_t *words, int64_t stride)
{
    ra_slot *s = &e->held.slots[slot];
    int64_t all = 0;
    for (int64_t plane = 0; plane < e->held.planes; plane++)
        all += ra_marked(words + plane * stride, keys->blocks);
    if (all > s->room)
        return ra_fail(RA_ERROR_INTERNAL, "rank %d: %lld rows of keys where %lld were planned", e->rank, (long long)all,
                       (long long)s->room);
    s->keys = *keys;
    all = 0;
    for (int64_t plane = 0; plane < e->held.planes && s->room; plane++) {
        uint64_t *own = s->words + plane * keys->blocks;
        memmove(own, words + plane * stride, (size_t)keys->blocks * sizeof *own);
        ra_marks_before(own, keys->blocks, s->before + plane * keys->blocks);
        int64_t rows = ra_marked(own, keys->blocks);
        set_plane(e, s, plane, all, rows);
        all += rows;
    }
    return RA_OK;
}

ra_status ra_slot_set_all(ra_rank *e, int slot, const ra_share *keys)
{
    uint64_t *words = e->held.some;
    memset(words, 0, (size_t)(e->held.planes * keys->blocks) * sizeof *words);
    for (int64_t plane = 0; plane < e->held.planes; plane++)
        ra_mark_range(keys, 0, INT64_MAX, words + plane * keys->blocks);
    return ra_slot_set(e, slot, keys, words, keys->blocks);
}

ra_keys ra_slot_keys(const ra_rank *e, const ra_slot *s)
{
    return (ra_keys){.share = s->keys,
                     .k = s->tensors[RA_ROLE_KEYS],
                     .v = s->tensors[RA_ROLE_VALUES],
                     .words = s->words,
                     .before = s->before,
                     .head_words = e->held.planes > 1 ? s->keys.blocks : 0};
}

/* The row of a plane in a slot that has a position. */
static int64_t row_of(const ra_slot *s, int64_t plane, int64_t position)
{
    ra_range range = ra_share_range(&s->keys, ra_share_find(&s->keys, position));
    int64_t word = plane * s->keys.blocks + range.block + position / RA_KEY_BLOCK - range.first / RA_KEY_BLOCK;
    uint64_t below = (UINT64_C(1) << (position % RA_KEY_BLOCK)) - 1;
    return s->before[word] + __builtin_popcountll(s->words[word] & below);
}

/* ---- Storage ----------------------------------------------------------------------------------------------------- */

ra_storage *ra_slot_storage(const ra_rank *e, ra_role role)
{
    return role == RA_ROLE_KEYS ? e->tensors->k : e->tensors->v;
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

/* Where a position is in the storage of keys and values. */
static int64_t storage_row(const ra_rank *e, int64_t position)
{
    if (!e->tensors->parts)
        return position;
    ra_share own = ra_partition_share(&e->ring->keys, e->rank);
    return ra_share_rows_below(&own, position);
}

static ra_status read_plane(ra_rank *e, const ra_slot *s, int64_t plane, const uint64_t *rows)
{
    ra_position_walk walk = {&s->keys, rows, 0, 0, 0};
    ra_position_run run;
    ra_status status = RA_OK;
    while (!status && ra_position_walk_next(&walk, &run))
        for (int role = 0; role < RA_ROLES && !status; role++)
            status = ra_slot_read_rows(e, ra_slot_storage(e, role), storage_row(e, run.position), run.rows, plane,
                                       &s->tensors[role][plane], row_of(s, plane, run.position));
    return status;
}

ra_status ra_slot_read(ra_rank *e, const ra_slot *s, const uint64_t *rows, int64_t stride)
{
    ra_status status = RA_OK;
    for (int64_t plane = 0; plane < e->held.planes && !status; plane++)
        status = read_plane(e, s, plane, rows + plane * stride);
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

/* The slot of own rows has all of them, one after the other. */
static void copy_plane(const ra_slot *own, const ra_slot *into, int64_t plane, const uint64_t *rows)
{
    ra_position_walk walk = {&into->keys, rows, 0, 0, 0};
    ra_position_run run;
    while (ra_position_walk_next(&walk, &run))
        for (int64_t at = run.position, end = at + run.rows, count; at < end; at += count) {
            ra_range range = ra_share_range(&own->keys, ra_share_find(&own->keys, at));
            int64_t row = range.row + at - range.first;
            count = ra_min(end, range.end) - at;
            for (int role = 0; role < RA_ROLES; role++)
                copy_rows(&own->tensors[role][plane], row, &into->tensors[role][plane], row_of(into, plane, at), count);
        }
}

void ra_slot_copy_own(ra_rank *e, const ra_slot *into, const uint64_t *rows)
{
    const ra_slot *own = &e->held.slots[e->held.own_slot];
    for (int64_t plane = 0; plane < e->held.planes; plane++)
        copy_plane(own, into, plane, rows + plane * into->keys.blocks);
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
    int64_t row_bytes = t->dim * (int64_t)ra_dtype_size(t->dtype), blocks = s->keys.blocks;
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
    int64_t before = plane * t->heads, first = ra_max(0, m->head - before);
    int64_t end = ra_min(t->heads, m->head + m->heads - before);
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
            status = add_plane(e, s, &s->tensors[role][plane], plane, m, rows + plane * s->keys.blocks);
    return status;
}
