/* SPDX-License-Identifier: Apache-2.0 */
/* Lays out the scratch memory of a worker: the sizes of its arrays, and gaps between them. */
#include "exec/scratch.h"

#include "base/checked.h"
#include "base/memory.h"
#include "exec/score_tile.h"

int64_t ra_scratch_place(int64_t *bytes, int64_t size)
{
    enum { GAP = 192 };
    int64_t at = *bytes;
    *bytes += ra_memory_rounded(size) + GAP;
    return at;
}

static ra_scratch lay_out_tiles(const ra_plan *p, const ra_workload *w)
{
    int64_t lanes = w->grouping.lanes, f = sizeof(float);
    int64_t columns = ra_ceil_div(p->value_dim, RA_PANEL) * RA_PANEL;
    int64_t states = w->tile_groups * p->unit_floats * f;
    int64_t places = ra_max(2, w->blocks); /* the block that comes next is packed while one is worked */
    ra_scratch s = {0};
    s.query = ra_scratch_place(&s.bytes, w->tile_groups * lanes * p->head_dim * f);
    s.state = ra_scratch_place(&s.bytes, w->states_elsewhere ? 0 : states);
    s.branch = ra_scratch_place(&s.bytes, p->pattern.dilation ? states : 0);
    s.key = ra_scratch_place(&s.bytes, places * RA_KEY_BLOCK * p->head_dim * f);
    s.staging = ra_scratch_place(&s.bytes, (int64_t)RA_KEY_BLOCK * p->value_dim * f);
    s.value = ra_scratch_place(&s.bytes, places * RA_KEY_BLOCK * columns * f);
    s.edge = ra_scratch_place(&s.bytes, (int64_t)RA_KEY_BLOCK * p->value_dim * f);
    s.scores = ra_scratch_place(&s.bytes, RA_KEY_BLOCK * lanes * f);
    s.rows = ra_scratch_place(&s.bytes, w->tile_groups * lanes * (int64_t)sizeof(ra_interval));
    s.groups = ra_scratch_place(&s.bytes, w->tile_groups * (int64_t)sizeof(ra_group_bounds));
    s.lo = ra_scratch_place(&s.bytes, lanes * (int64_t)sizeof(int32_t));
    s.hi = ra_scratch_place(&s.bytes, lanes * (int64_t)sizeof(int32_t));
    s.sieve = ra_scratch_place(&s.bytes, ra_sieve_bytes(&p->pattern, (int)lanes, w->tile_groups));
    s.seen = ra_scratch_place(&s.bytes, RA_KEY_BLOCK * (int64_t)sizeof(uint64_t));
    s.stage = ra_scratch_place(&s.bytes, ra_score_tiles_bytes(p, (int)lanes, w->tile_groups));
    return s;
}

static ra_scratch lay_out_decoding(const ra_plan *p, const ra_workload *w)
{
    int64_t head_rows = p->group_heads * w->at_once; /* rows that share the keys and values of one head */
    int64_t f = sizeof(float), rows = w->task_heads * head_rows;
    bool states_here = !w->states_elsewhere || p->pattern.ragged; /* of packed sequences, a copy */
    ra_scratch s = {0};
    s.query = ra_scratch_place(&s.bytes, rows * p->head_dim * f);
    s.state = ra_scratch_place(&s.bytes, states_here ? rows * p->unit_floats * f : 0);
    s.key = ra_scratch_place(&s.bytes, (int64_t)RA_KEY_BLOCK * p->head_dim * f);
    s.value = ra_scratch_place(&s.bytes, (int64_t)RA_KEY_BLOCK * p->value_dim * f);
    s.staging = ra_scratch_place(&s.bytes, rows * (1 + p->value_dim) * f);
    s.scores = ra_scratch_place(&s.bytes, rows * RA_KEY_BLOCK * f);
    s.rows = ra_scratch_place(&s.bytes, w->at_once * (int64_t)sizeof(ra_interval));
    s.groups = ra_scratch_place(&s.bytes, w->at_once * (int64_t)sizeof(ra_group_bounds));
    s.lo = ra_scratch_place(&s.bytes, w->at_once * (int64_t)sizeof(int));
    s.hi = ra_scratch_place(&s.bytes, w->at_once * (int64_t)sizeof(int));
    s.stage = ra_scratch_place(&s.bytes, ra_score_rows_bytes(p, rows));
    return s;
}

ra_scratch ra_scratch_lay_out(const ra_plan *p, const ra_workload *w)
{
    if (w->groups == 0)
        return (ra_scratch){0};
    return p->variant == RA_VARIANT_DECODE ? lay_out_decoding(p, w) : lay_out_tiles(p, w);
}

int64_t ra_scratch_bytes(const ra_plan *p, const ra_workload *w)
{
    return ra_scratch_lay_out(p, w).bytes;
}
