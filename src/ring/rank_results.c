/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a rank: see rank_results.h. */
#include "ring/rank_results.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/tensor.h"
#include "ring/rank_behind.h"

void ra_rank_set_output(ra_rank *e)
{
    e->work.run.whole_output = !e->tensors->parts;
    e->work.run.output = ra_storage_view(e->tensors->output);
    e->work.run.lse = e->tensors->lse ? ra_storage_view(e->tensors->lse) : NULL;
}

/* Into storage: all batches of the rows that are to be written. */
static ra_status write_rows(void *user)
{
    ra_rank *e = user;
    const ra_written *w = &e->flight.written;
    double start = ra_seconds();
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < w->output.batch && !status; batch++) {
        ra_tensor part = w->output, lse_part = w->lse;
        part.data = (void *)ra_tensor_at(&w->output, batch, 0, 0, 0);
        lse_part.data = (void *)ra_tensor_at(&w->lse, batch, 0, 0, 0);
        part.batch = lse_part.batch = 1;
        status = ra_storage_write(e->tensors->output, batch, w->at, part.seq, &part);
        if (!status && e->tensors->lse)
            status = ra_storage_write(e->tensors->lse, batch, w->at, part.seq, &lse_part);
    }
    if (!status && e->tensors->checkpoint && ra_rank_virtual(e))
        ra_checkpoint_rows(e->tensors->checkpoint, e->rank, w->at, &w->output, e->tensors->lse ? &w->lse : NULL);
    e->flight.seconds_behind = ra_seconds() - start;
    return status;
}

/* Now, or behind when what was behind before is done. */
static ra_status send_to_storage(ra_rank *e, const ra_written *written)
{
    ra_status status = ra_rank_wait_behind(e);
    if (status)
        return status;
    e->flight.written = *written;
    status = ra_rank_start_behind(e, write_rows);
    return status ? status : ra_link_poll(&e->link);
}

/* Groups first .. first + count - 1, which lie together, through a half of the output memory into storage. */
static ra_status write_groups(ra_rank *e, int64_t first, int64_t count, int64_t half)
{
    const ra_plan *p = e->ring->plan;
    ra_group head = ra_group_at(&e->work.load.queries, &e->work.load.grouping, first);
    ra_group tail = ra_group_at(&e->work.load.queries, &e->work.load.grouping, first + count - 1);
    int64_t rows = tail.row + tail.rows - head.row;
    char *memory = (char *)e->held.output + half * e->held.memory.output_half;
    ra_dtype dtype = ra_storage_view(e->tensors->output)->dtype;
    ra_written w = {ra_tensor_dense(memory, dtype, RA_BSHD, p->batch, rows, p->heads, p->value_dim),
                    ra_tensor_dense(memory + e->held.memory.output_lse, RA_F32, RA_BHSD, p->batch, rows, p->heads, 1),
                    e->tensors->parts ? head.row : head.query};
    e->work.run.output = &w.output;
    e->work.run.lse = e->tensors->lse ? &w.lse : NULL;
    e->work.run.output_first = head.row;
    double start = ra_seconds();
    ra_run_finish(&e->work.run, first, count);
    e->tally.stats->seconds_compute += ra_seconds() - start;
    return send_to_storage(e, &w);
}

static ra_status write_all_groups(ra_rank *e)
{
    ra_status status = RA_OK;
    int64_t group = 0, most = e->held.memory.output_rows / e->work.load.grouping.lanes, half = 0;
    for (int64_t i = 0; i < e->work.load.queries.ranges && !status; i++) {
        ra_range range = ra_share_range(&e->work.load.queries, i);
        int64_t end = group + ra_group_count_range(&e->work.load.grouping, range.first, range.end);
        for (int64_t count; group < end && !status; group += count, half = !half) {
            count = ra_min(most, end - group);
            status = write_groups(e, group, count, half);
        }
    }
    return status ? status : ra_rank_wait_behind(e);
}

/* The results of a virtual rank are also a part of its checkpoint. */
ra_status ra_rank_write_results(ra_rank *e)
{
    if (e->work.load.groups == 0 || e->ring->plan->batch == 0)
        return RA_OK;
    e->work.run.states = e->held.states;
    if (e->ring->options.lent) {
        double start = ra_seconds();
        ra_rank_set_output(e);
        ra_run_finish(&e->work.run, 0, e->work.load.groups);
        e->tally.stats->seconds_compute += ra_seconds() - start;
        return RA_OK;
    }
    bool saved = e->tensors->checkpoint && ra_rank_virtual(e);
    if (saved)
        ra_checkpoint_tell(e->tensors->checkpoint, true);
    ra_status status = write_all_groups(e);
    if (saved)
        ra_checkpoint_tell(e->tensors->checkpoint, false);
    return status;
}

/* Worked pairs are not compared: the plan counts the tiles of the whole sequence, and chunks may divide them. */
ra_status ra_rank_prove(const ra_rank *e)
{
    const ra_rank_info *plan = &e->planned->info;
    const ra_rank_stats *s = e->tally.stats;
    bool sent = e->tally.ledger || s->bytes_sent == plan->bytes_sent;
    if (s->hops == plan->hops && sent && s->bytes_received == plan->bytes_received &&
        s->pairs_visible == plan->pairs_visible && s->peak_bytes <= plan->peak_bytes)
        return RA_OK;
    return ra_fail(
        RA_ERROR_INTERNAL,
        "rank %d: the run differs from its plan: hops %lld of %lld, bytes sent %lld of %lld, received %lld of "
        "%lld, visible pairs %.0f of %.0f, peak bytes %lld of %lld",
        e->rank, (long long)s->hops, (long long)plan->hops, (long long)s->bytes_sent, (long long)plan->bytes_sent,
        (long long)s->bytes_received, (long long)plan->bytes_received, s->pairs_visible, plan->pairs_visible,
        (long long)s->peak_bytes, (long long)plan->peak_bytes);
}

ra_status ra_ledger_prove(const ra_pass *pass, const int64_t *ledger, ra_rank_stats *stats)
{
    for (int rank = 0; rank < pass->ring->options.ranks; rank++) {
        const ra_rank_info *plan = &ra_pass_planned(pass, rank)->info;
        if (stats)
            stats[rank].bytes_sent += ledger[rank];
        if (ledger[rank] != plan->bytes_sent)
            return ra_fail(RA_ERROR_INTERNAL, "rank %d: the run differs from its plan: bytes sent %lld of %lld", rank,
                           (long long)ledger[rank], (long long)plan->bytes_sent);
    }
    return RA_OK;
}

void ra_rank_stats_add(ra_rank_stats *s, const ra_rank_stats *further)
{
    s->threads = (int)ra_max(s->threads, further->threads);
    s->steps += further->steps;
    s->hops += further->hops;
    s->bytes_sent += further->bytes_sent;
    s->bytes_received += further->bytes_received;
    s->seconds_compute += further->seconds_compute;
    s->seconds_wait += further->seconds_wait;
    s->seconds_io += further->seconds_io;
    s->seconds_total += further->seconds_total;
    s->planned_peak_bytes = ra_max(s->planned_peak_bytes, further->planned_peak_bytes);
    s->peak_bytes = ra_max(s->peak_bytes, further->peak_bytes);
    s->rss_peak_bytes = ra_max(s->rss_peak_bytes, further->rss_peak_bytes);
}

void ra_rank_fill_stats(ra_rank *e, double started)
{
    const ra_rank_info *plan = &e->planned->info;
    ra_rank_stats *s = e->tally.stats;
    s->rank = e->rank;
    s->threads = e->tally.counts.threads ? e->tally.counts.threads : e->work.load.threads;
    s->kernel = e->kernel->id;
    s->q_rows = plan->q_rows;
    s->kv_rows = plan->kv_rows;
    s->steps = e->steps;
    s->pairs_visible = e->tally.counts.pairs_visible;
    s->pairs_worked = e->tally.counts.pairs_worked;
    s->seconds_wait = e->link.waited;
    s->seconds_total = ra_seconds() - started;
    s->planned_peak_bytes = plan->peak_bytes;
    s->peak_bytes = e->held.accountant.peak;
    s->rss_peak_bytes = ra_memory_resident_peak();
    s->lent_bytes = plan->lent_bytes;
}
