#include "base/checked.h"
#include "ring/rank.h"

/* Visible pairs between two points at which a run may be saved: about a second's work. */
static const double PAIRS_BETWEEN = 5e8;
enum { LEAST_KEYS = 1024 };

/*
 * Keys that are worked between two such points. Rows take their blocks of keys in the same order however they are
 * divided; but the branches of a dilated pattern are merged when their keys are done, which must be the same points
 * whether a run is saved or not.
 */
static int64_t stride_of(const ra_rank *e)
{
    const ra_plan *p = e->ring->plan;
    if (p->pattern.dilation || p->tiles != RA_TILES_ROW || e->work.queries.rows == 0)
        return 0;
    double rows = (double)e->work.queries.rows * (double)(p->batch * p->heads);
    double keys = PAIRS_BETWEEN / rows;
    int64_t most = keys < (double)p->kv_len ? (int64_t)keys : p->kv_len;
    return ra_ceil_div(ra_max(LEAST_KEYS, most), RA_KEY_BLOCK) * RA_KEY_BLOCK;
}

void ra_rank_begin(ra_rank *e)
{
    e->step = e->position = 0;
    e->stride = e->tensors->checkpoint ? stride_of(e) : 0;
}

/* From a point on: states and counts are what they were. */
ra_status ra_rank_continue(ra_rank *e, const ra_point *point)
{
    const ra_schedule *s = &e->schedule;
    if (point->state_bytes == 0)
        return RA_OK;
    e->step = point->step;
    e->position = point->position;
    e->span = point->span;
    e->counts = point->counts;
    e->pairs_before = point->pairs_before;
    e->pairs_reported = point->pairs_reported;
    *e->stats = point->stats;
    while (e->next_receive < s->receive_count && s->receives[e->next_receive].phase < e->step)
        e->next_receive++;
    while (e->next_send < s->send_count && s->sends[e->next_send].phase < e->step)
        e->next_send++;
    return ra_checkpoint_restore_states(e->tensors->checkpoint, e->states, e->memory.states);
}

/* Save if it is time to; stop if that is wanted. */
ra_status ra_rank_save(ra_rank *e)
{
    bool stop;
    if (!e->tensors->checkpoint || !ra_checkpoint_due(e->tensors->checkpoint, &stop))
        return RA_OK;
    const ra_passed *passed = &e->passed[e->step % 2];
    ra_point point = {.rank = e->rank,
                      .step = e->step,
                      .position = e->position,
                      .span = e->span,
                      .state_bytes = e->memory.states,
                      .counts = e->counts,
                      .stats = *e->stats,
                      .pairs_before = e->pairs_before,
                      .pairs_reported = e->pairs_reported};
    point.stats.hops = passed->hops;
    point.stats.bytes_sent = passed->bytes_sent;
    point.stats.bytes_received = passed->bytes_received;
    ra_status status = ra_checkpoint_save(e->tensors->checkpoint, &point, e->states);
    if (!status && stop)
        status = ra_fail(RA_ERROR_CANCELLED, "stopped at rank %d, step %lld, and saved", e->rank, (long long)e->step);
    return status;
}
