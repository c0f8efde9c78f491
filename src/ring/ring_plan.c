#include "ring/ring_plan.h"

#include "base/checked.h"
#include "base/memory.h"
#include "io/storage.h"
#include "ring/schedule.h"
#include "ringattn/transport.h"

#include <stdlib.h>

/* Finished rows are written in parts of about this size, when they are not written in place. */
enum { OUTPUT_BYTES = 1 << 19 };

/* Broadcast and all-gather reproduce the spans of a run in one piece, one after the other. */
static bool has_spans(const ra_ring_plan *ring)
{
    return ring->plan->spans > 1 && ring->options.strategy != RA_STRATEGY_RING;
}

bool ra_ring_at_once(const ra_ring_plan *ring)
{
    return ring->by_reference && ring->options.transport == RA_TRANSPORT_SIM && !has_spans(ring);
}

int ra_ring_together(const ra_ring_plan *ring)
{
    enum { MOST = 8 };
    int ranks = ring->options.ranks, lists = (int)ra_ceil_div(ranks, MOST);
    return ra_ring_at_once(ring) ? (int)ra_ceil_div(ranks, lists) : 1;
}

void ra_ring_workload(const ra_ring_plan *ring, int rank, ra_workload *work)
{
    ra_share queries = ra_partition_share(&ring->queries, rank);
    int64_t together = ra_ring_together(ring);
    ra_workload_lay_out(work, ring->plan, queries, ring->threads, together, !ra_ring_at_once(ring));
    work->threads = (int)ra_max(1, ra_min(work->threads, work->tasks * together));
}

/* Rows of output that are finished at a time: whole groups, of all heads. */
static int64_t output_rows(const ra_ring_plan *ring, const ra_workload *work)
{
    const ra_plan *p = ring->plan;
    int64_t row = p->batch * p->heads * (p->value_dim + 1) * (int64_t)sizeof(float); /* at most */
    return ra_min(ra_max(1, OUTPUT_BYTES / (row * work->grouping.lanes)), ra_max(1, work->groups)) *
           work->grouping.lanes;
}

/* The files of a run. */
static int64_t storage_bytes(const ra_ring_plan *ring)
{
    const ra_plan *p = ring->plan;
    const ra_ring_options *o = &ring->options;
    const ra_tensor views[] = {
        ra_tensor_dense(NULL, o->q_dtype, RA_BSHD, p->batch, p->q_len, p->heads, p->head_dim),
        ra_tensor_dense(NULL, o->k_dtype, RA_BSHD, p->batch, p->kv_len, p->kv_heads, p->head_dim),
        ra_tensor_dense(NULL, o->v_dtype, RA_BSHD, p->batch, p->kv_len, p->kv_heads, p->value_dim),
        ra_tensor_dense(NULL, o->o_dtype, RA_BSHD, p->batch, p->q_len, p->heads, p->value_dim),
        ra_tensor_dense(NULL, RA_F32, RA_BHSD, p->batch, p->q_len, p->heads, 1)};
    int64_t bytes = 0;
    for (size_t i = 0; i < sizeof views / sizeof *views - (o->lse ? 0 : 1); i++)
        bytes += ra_storage_array_bytes(&views[i]);
    return bytes;
}

ra_rank_memory ra_ring_memory(const ra_ring_plan *ring, int rank, const ra_schedule *schedule, const ra_workload *work)
{
    const ra_plan *p = ring->plan;
    int64_t f = sizeof(float);
    bool stored = !ring->options.lent;
    ra_rank_memory m = {0};
    if (stored)
        m.query = ra_memory_rounded(ra_partition_share(&ring->queries, rank).rows * ring->q_row_bytes);
    for (int i = 0; i < schedule->slots; i++)
        m.slots += ra_memory_rounded(schedule->slot_rows[i] * ring->k_row_bytes) +
                   ra_memory_rounded(schedule->slot_rows[i] * ring->v_row_bytes);
    /* For each slot which rows are in it and how many before each block, and room to work with three more. */
    m.marks = ra_memory_rounded((2 * (int64_t)schedule->slots + 3) * ring->sets * schedule->slot_blocks *
                                (int64_t)sizeof(uint64_t));
    if (!ring->by_reference && ring->options.transport != RA_TRANSPORT_SIM)
        m.segments = ra_memory_rounded(schedule->most_segments * (int64_t)sizeof(ra_segment));
    int sets = ra_ring_at_once(ring) ? 0 : has_spans(ring) ? 2 : 1;
    m.states = sets * ra_memory_rounded(work->units * p->unit_floats * f);
    m.scratch = ra_memory_rounded(work->threads * work->scratch_bytes);
    if (ring->scratch && work->groups)
        m.scratch = ring->scratch;
    if (stored && work->groups) {
        m.output_rows = output_rows(ring, work);
        int64_t rows = p->batch * m.output_rows * p->heads;
        m.output_lse = ra_memory_rounded(rows * p->value_dim * (int64_t)ra_dtype_size(ring->options.o_dtype));
        m.output = m.output_lse + (ring->options.lse ? ra_memory_rounded(rows * f) : 0);
        /* Virtual ranks write one half behind while the other is filled. */
        if (ring->options.transport == RA_TRANSPORT_SIM)
            m.output_half = m.output, m.output *= 2;
    }
    m.storage = stored ? storage_bytes(ring) : 0;
    m.total = m.query + m.slots + m.marks + m.segments + m.states + m.scratch + m.output + m.storage;
    return m;
}

/* What a rank reads and writes in place of the caller's tensors. */
static int64_t lent_bytes(const ra_ring_plan *ring, int rank)
{
    const ra_plan *p = ring->plan;
    if (!ring->options.lent)
        return 0;
    int64_t rows = ra_partition_share(&ring->queries, rank).rows;
    int64_t keys =
        ring->options.transport == RA_TRANSPORT_SIM ? ring->keys.length : ra_partition_share(&ring->keys, rank).rows;
    int64_t output = p->batch * p->heads * p->value_dim * (int64_t)ra_dtype_size(ring->options.o_dtype);
    return rows * (ring->q_row_bytes + output) + keys * ring->sets * (ring->k_row_bytes + ring->v_row_bytes);
}

static ra_status fill_rank(ra_ring_plan *ring, int rank, const ra_traffic *traffic)
{
    ra_schedule schedule;
    ra_workload work;
    ra_status status = ra_schedule_make(ring, rank, &schedule);
    if (status)
        return status;
    ra_ring_workload(ring, rank, &work);
    if (ring->options.ranks == 1)
        work.pairs_visible = ring->plan->all.pairs_visible, work.pairs_worked = ring->plan->all.pairs_worked;
    else
        status = ra_workload_count(&work, ring->plan);
    if (status) {
        ra_schedule_free(&schedule);
        return status;
    }
    int64_t row_bytes = ring->k_row_bytes + ring->v_row_bytes;
    ring->ranks[rank] = (ra_rank_info){.size = sizeof(ra_rank_info),
                                       .q_rows = work.queries.rows,
                                       .kv_rows = ra_partition_share(&ring->keys, rank).rows,
                                       .steps = schedule.steps,
                                       .hops = traffic->hops,
                                       .bytes_sent = traffic->rows_sent * row_bytes,
                                       .bytes_received = traffic->rows_received * row_bytes,
                                       .pairs_visible = work.pairs_visible,
                                       .pairs_worked = work.pairs_worked,
                                       .peak_bytes = ra_ring_memory(ring, rank, &schedule, &work).total,
                                       .lent_bytes = lent_bytes(ring, rank)};
    ra_schedule_free(&schedule);
    return RA_OK;
}

void ra_ring_plan_forget(ra_ring_plan *ring)
{
    free(ring->needs);
    free(ring->reach);
    ring->needs = NULL;
    ring->reach = NULL;
}

/*
 * Where kept blocks decide what a rank needs, that is found out once: to draw random blocks again for every pair of
 * ranks would take longer than the rest of the plan.
 */
static ra_status find_needs(ra_ring_plan *ring)
{
    const ra_plan *p = ring->plan;
    int64_t blocks = ra_ceil_div(ring->keys.length, RA_KEY_BLOCK), words, bytes;
    ra_ring_plan_forget(ring);
    if (!p->pattern.blocks || ring->options.strategy == RA_STRATEGY_ALLGATHER)
        return RA_OK;
    if (!ra_mul_ok(ring->options.ranks * ring->sets, blocks, &words) ||
        !ra_mul_ok(words, (int64_t)sizeof *ring->needs, &bytes) ||
        !(ring->needs = calloc((size_t)words, sizeof *ring->needs)))
        return ra_fail(RA_ERROR_MEMORY, "out of memory: what %d ranks need of %lld keys", ring->options.ranks,
                       (long long)ring->keys.length);
    ra_share keys = ra_share_of_range(0, ring->keys.length);
    for (int rank = 0; rank < ring->options.ranks; rank++) {
        ra_share queries = ra_partition_share(&ring->queries, rank);
        ra_mark_needed(p, ring->sets, &queries, &keys, ring->needs + rank * ring->sets * blocks);
    }
    return RA_OK;
}

static bool is_few(const ra_plan *p, const ra_share *queries, ra_few *few)
{
    ra_joined_walk walk = {p, queries, 0};
    ra_interval seen;
    for (few->count = 0; ra_joined_next(&walk, &seen); few->at[few->count++] = seen)
        if (few->count == RA_REACH_MOST)
            return false;
    return true;
}

/* What ranks read as intervals, where a few do for each; what they own must then be a few too, if that is asked for. */
static ra_status find_reach(ra_ring_plan *ring)
{
    const ra_plan *p = ring->plan;
    bool few = ra_pattern_is_interval(&p->pattern), owned = ring->options.strategy != RA_STRATEGY_RING;
    if (few && !(ring->reach = calloc((size_t)ring->options.ranks, sizeof *ring->reach)))
        return ra_fail(RA_ERROR_MEMORY, "out of memory: what %d ranks read", ring->options.ranks);
    for (int rank = 0; rank < ring->options.ranks && few; rank++) {
        ra_share queries = ra_partition_share(&ring->queries, rank), keys = ra_partition_share(&ring->keys, rank);
        few = is_few(p, &queries, &ring->reach[rank]) && (!owned || keys.ranges <= RA_REACH_MOST);
    }
    if (!few) {
        free(ring->reach);
        ring->reach = NULL;
    }
    return RA_OK;
}

/* Ranks that are worked together have the same scratch, which is enough for any of them. */
static void find_scratch(ra_ring_plan *ring)
{
    int64_t threads = 1, bytes = 0;
    ring->scratch = 0;
    for (int rank = 0; rank < ring->options.ranks && ra_ring_at_once(ring); rank++) {
        ra_workload work;
        ra_ring_workload(ring, rank, &work);
        threads = ra_max(threads, work.threads);
        bytes = ra_max(bytes, work.scratch_bytes);
    }
    ring->scratch = ra_memory_rounded(threads * bytes);
}

/* What follows from the options and the problem. */
static ra_status derive(ra_ring_plan *ring)
{
    const ra_plan *p = ring->plan;
    const ra_ring_options *o = &ring->options;
    ring->sets = ra_mark_sets(p);
    int64_t kv_heads = p->kv_heads / ring->sets;
    ring->q_row_bytes = p->batch * p->heads * p->head_dim * (int64_t)ra_dtype_size(o->q_dtype);
    ring->k_row_bytes = p->batch * kv_heads * p->head_dim * (int64_t)ra_dtype_size(o->k_dtype);
    ring->v_row_bytes = p->batch * kv_heads * p->value_dim * (int64_t)ra_dtype_size(o->v_dtype);
    ring->by_reference = o->transport == RA_TRANSPORT_THREADS || (o->transport == RA_TRANSPORT_SIM && o->lent);
    ring->hold_own = !(ring->by_reference && o->lent);
    find_scratch(ring);
    ra_status status = find_needs(ring);
    return status ? status : find_reach(ring);
}

/*
 * What a rank of a ring holds at most, as docs/RING.md promises: eight chunks, nine where row states are of wider
 * numbers than the tensors, and what does not grow with the sequence.
 */
static int64_t promised(const ra_ring_plan *ring)
{
    enum { CHUNKS = 8, WHERE_WIDER = 9, FIXED = 4 << 20 };
    const ra_plan *p = ring->plan;
    int64_t size = (int64_t)ra_dtype_size(ring->options.q_dtype);
    int64_t chunk = ra_max(p->q_len, p->kv_len) * p->batch * p->heads * ra_max(p->head_dim, p->value_dim) * size /
                    ring->options.ranks;
    return chunk * (size < (int64_t)sizeof(float) ? WHERE_WIDER : CHUNKS) + FIXED;
}

/* To spare memory costs time: what travels late is waited for. */
static bool should_spare(const ra_ring_plan *ring, int64_t held)
{
    int64_t budget = ring->options.memory;
    return ring->options.strategy == RA_STRATEGY_RING && !ring->by_reference && !ring->sparing &&
           (held > promised(ring) || (budget > 0 && held > budget));
}

static ra_status fill_ranks(ra_ring_plan *ring, const ra_traffic *traffic, int64_t *most)
{
    ra_status status = RA_OK;
    *most = 0;
    for (int rank = 0; rank < ring->options.ranks && !status; rank++) {
        status = fill_rank(ring, rank, &traffic[rank]);
        *most = ra_max(*most, ring->ranks[rank].peak_bytes);
    }
    return status;
}

ra_status ra_ring_plan_fill(ra_ring_plan *ring)
{
    const ra_ring_options *o = &ring->options;
    ra_status status = derive(ring);
    if (status)
        return status;
    ra_traffic *traffic = calloc((size_t)o->ranks, sizeof *traffic);
    ring->ranks = calloc((size_t)o->ranks, sizeof *ring->ranks);
    if (!traffic || !ring->ranks) {
        free(traffic);
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the plan of %d ranks", o->ranks);
    }
    status = ra_traffic_count(ring->plan, ring->sets, &ring->queries, &ring->keys, o->strategy, traffic);
    int64_t most;
    if (!status)
        status = fill_ranks(ring, traffic, &most);
    if (!status && should_spare(ring, most)) {
        ring->sparing = true;
        status = fill_ranks(ring, traffic, &most);
    }
    free(traffic);
    return status;
}

ra_status ra_ring_plan_holds(ra_ring_plan *ring, int64_t enough, int64_t *bytes)
{
    *bytes = 0;
    ring->sparing = true;
    ra_status found = derive(ring);
    if (found)
        return found;
    for (int rank = 0; rank < ring->options.ranks && *bytes <= enough; rank++) {
        ra_schedule schedule;
        ra_workload work;
        ra_status status = ra_schedule_make(ring, rank, &schedule);
        if (status)
            return status;
        ra_ring_workload(ring, rank, &work);
        int64_t total = ra_ring_memory(ring, rank, &schedule, &work).total;
        ra_schedule_free(&schedule);
        *bytes = ring->options.transport == RA_TRANSPORT_THREADS ? *bytes + total : ra_max(*bytes, total);
    }
    return RA_OK;
}

int64_t ra_ring_plan_least(const ra_ring_plan *ring, int ranks)
{
    const ra_plan *p = ring->plan;
    /* Whole blocks, but no rank has less than its share; threads hold everything together. */
    int64_t together = ring->options.transport == RA_TRANSPORT_THREADS ? 1 : ranks;
    int64_t q_rows = p->q_len / together, kv_rows = p->kv_len / together, f = sizeof(float);
    int64_t bytes = q_rows * p->batch * p->heads * p->value_dim * f;
    if (!ring->options.lent)
        bytes += q_rows * ring->q_row_bytes;
    if (ring->hold_own)
        bytes += kv_rows * ring->sets * (ring->k_row_bytes + ring->v_row_bytes);
    ra_workload work;
    ra_workload_lay_out(&work, p, ra_share_of_range(0, ra_max(1, p->q_len / ranks)), 1, 1, true);
    return bytes + work.scratch_bytes + (ring->options.lent ? 0 : storage_bytes(ring));
}
