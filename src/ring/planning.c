/* Makes the plan of a ring: see planning.h. */
#include "ring/planning.h"

#include "base/checked.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/threads.h"
#include "plan/reach.h"
#include "ring/marks.h"
#include "ring/strategy_table.h"

#include <stdlib.h>

int ra_ring_threads(const ra_options *options, const ra_ring_options *ring)
{
    if (options->threads)
        return options->threads;
    int together = ring->transport == RA_TRANSPORT_SIM ? 1 : ring->ranks;
    return (int)ra_max(1, ra_threads_most(ra_cpu_cores()) / together);
}

/* Keys and values of one position, of all heads. */
static int64_t kv_row_bytes(const ra_ring_plan *ring)
{
    return ring->planes * (ring->row_bytes[RA_ROLE_KEYS] + ring->row_bytes[RA_ROLE_VALUES]);
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
    return rows * (ring->q_row_bytes + output) + keys * kv_row_bytes(ring);
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

/* The largest chunk, and words for the marks on any share. */
static void find_sizes(ra_ring_plan *ring)
{
    int64_t steps = ring->strategy->steps(ring);
    ring->chunk_rows = 0;
    ring->slot_blocks = 1;
    for (int rank = 0; rank < ring->options.ranks; rank++) {
        ra_share share = ra_partition_share(&ring->keys, rank);
        ring->chunk_rows = ra_max(ring->chunk_rows, share.rows);
        ring->slot_blocks = ra_max(ring->slot_blocks, share.blocks);
        if (rank < steps)
            ring->slot_blocks = ra_max(ring->slot_blocks, ring->strategy->keys(ring, 0, rank).blocks);
    }
}

/* Parts of the keys that a rank sees where all terms are intervals, at most: one for each range of its queries. */
static int64_t most_ranges(const ra_partition *queries)
{
    int64_t most = 1;
    for (int rank = 0; rank < queries->ranks; rank++)
        most = ra_max(most, ra_partition_share(queries, rank).ranges);
    return most;
}

/* What follows from the options and the problem. */
static void derive(ra_ring_plan *ring)
{
    const ra_plan *p = ring->plan;
    const ra_ring_options *o = &ring->options;
    if (!ring->strategy)
        ring->strategy = ra_strategy_find(o->strategy);
    ring->planes = ra_mark_planes(p);
    int64_t heads = p->batch * (p->kv_heads / ring->planes);
    ring->q_row_bytes = p->batch * p->heads * p->head_dim * (int64_t)ra_dtype_size(o->q_dtype);
    ring->row_bytes[RA_ROLE_KEYS] = heads * p->head_dim * (int64_t)ra_dtype_size(o->k_dtype);
    ring->row_bytes[RA_ROLE_VALUES] = heads * p->value_dim * (int64_t)ra_dtype_size(o->v_dtype);
    ring->in_place = o->transport == RA_TRANSPORT_THREADS || (o->transport == RA_TRANSPORT_SIM && o->lent);
    ring->hold_own = !(ring->in_place && o->lent);
    ring->threads = ra_ring_threads(&ring->asked, o);
    ring->query_ranges = most_ranges(&ring->queries);
    find_sizes(ring);
    find_scratch(ring);
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
static bool should_spare(const ra_ring_plan *ring, const ra_rank_plan *planned, const ra_rank_memory *held)
{
    int64_t budget = ring->options.memory;
    return planned->traffic.rows_again > 0 && !ring->in_place &&
           (held->total > promised(ring) || (budget > 0 && held->total > budget));
}

/* Bytes of a rank whose traffic is known, where memory is spared if it has to be. */
static int64_t bytes_of(const ra_ring_plan *ring, int rank, const ra_workload *work, ra_rank_plan *planned)
{
    ra_rank_memory held = ra_ring_memory(ring, rank, planned, work);
    if (!planned->sparing && should_spare(ring, planned, &held)) {
        planned->sparing = true;
        held = ra_ring_memory(ring, rank, planned, work);
    }
    return held.total;
}

static ra_status fill_rank(const ra_ring_plan *ring, int rank, const ra_traffic *traffic, ra_rank_plan *planned)
{
    ra_workload work;
    ra_status status = RA_OK;
    ra_ring_workload(ring, rank, &work);
    if (ring->options.ranks == 1)
        work.pairs_visible = ring->plan->all.pairs_visible, work.pairs_worked = ring->plan->all.pairs_worked;
    else
        status = ra_workload_count(&work, ring->plan);
    if (status)
        return status;
    int64_t row_bytes = ring->row_bytes[RA_ROLE_KEYS] + ring->row_bytes[RA_ROLE_VALUES];
    *planned = (ra_rank_plan){.traffic = *traffic};
    planned->info = (ra_rank_info){.size = sizeof planned->info,
                                   .q_rows = work.queries.rows,
                                   .kv_rows = ra_partition_share(&ring->keys, rank).rows,
                                   .steps = ring->strategy->steps(ring),
                                   .hops = row_bytes ? traffic->hops : 0, /* rows of no bytes do not travel */
                                   .bytes_sent = traffic->rows_sent * row_bytes,
                                   .bytes_received = traffic->rows_received * row_bytes,
                                   .pairs_visible = work.pairs_visible,
                                   .pairs_worked = work.pairs_worked,
                                   .lent_bytes = lent_bytes(ring, rank)};
    planned->info.peak_bytes = bytes_of(ring, rank, &work, planned);
    return RA_OK;
}

/* Traffic of ranks first .. first + count - 1; free it also after a failure. */
static ra_status count_traffic(const ra_ring_plan *ring, int first, int count, ra_traffic **traffic)
{
    const ra_traffic_question question = {.plan = ring->plan,
                                          .planes = ring->planes,
                                          .queries = &ring->queries,
                                          .keys = &ring->keys,
                                          .first = first,
                                          .end = first + count};
    *traffic = calloc((size_t)count, sizeof **traffic);
    if (!*traffic)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the plan of %d ranks", count);
    return ring->strategy->traffic(&question, *traffic);
}

static ra_status plan_ranks(const ra_ring_plan *ring, int first, int count, ra_rank_plan *planned)
{
    ra_traffic *traffic;
    ra_status status = count_traffic(ring, first, count, &traffic);
    for (int i = 0; i < count && !status; i++)
        status = fill_rank(ring, first + i, &traffic[i], &planned[i]);
    free(traffic);
    return status;
}

ra_status ra_ring_plan_one(const ra_ring_plan *ring, int rank, ra_rank_plan *planned)
{
    const ra_rank_plan *there = ra_ring_planned(ring, rank);
    if (!there)
        return plan_ranks(ring, rank, 1, planned);
    *planned = *there;
    return RA_OK;
}

ra_status ra_ring_plan_fill(ra_ring_plan *ring)
{
    bool one = ring->options.rank != RA_ALL_RANKS;
    free(ring->ranks);
    derive(ring);
    ring->first = one ? ring->options.rank : 0;
    ring->count = one ? 1 : ring->options.ranks;
    ring->ranks = calloc((size_t)ring->count, sizeof *ring->ranks);
    if (!ring->ranks)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the plan of %d ranks", ring->count);
    return plan_ranks(ring, ring->first, ring->count, ring->ranks);
}

/* Ranks that are threads of one process share its plan; else each process has one rank. */
static int64_t add_rank(const ra_ring_plan *ring, int64_t bytes, int64_t rank_bytes)
{
    int64_t plan = ra_ring_plan_bytes(ring);
    if (ring->options.transport != RA_TRANSPORT_THREADS)
        return ra_max(bytes, rank_bytes);
    return bytes ? bytes + rank_bytes - plan : rank_bytes;
}

int64_t ra_ring_largest(const ra_ring_plan *ring)
{
    int64_t bytes = 0;
    for (int i = 0; i < ring->count; i++)
        bytes = add_rank(ring, bytes, ring->ranks[i].info.peak_bytes);
    return bytes;
}

/* ---- How much a ring would hold ---------------------------------------------------------------------------------- */

/* What a rank holds with some traffic, where memory is spared. */
static int64_t held_by_rank(const ra_ring_plan *ring, int rank, ra_traffic traffic)
{
    const ra_rank_plan planned = {.traffic = traffic, .sparing = true};
    ra_workload work;
    ra_ring_workload(ring, rank, &work);
    return ra_ring_memory(ring, rank, &planned, &work).total;
}

/* At least: with the rows that a rank reads of others, of all of them as many, and nothing else that travels. */
static ra_status held_at_least(const ra_ring_plan *ring, int rank, int64_t *bytes)
{
    ra_share queries = ra_partition_share(&ring->queries, rank), own = ra_partition_share(&ring->keys, rank);
    ra_traffic traffic = {.rows_received = ring->planes * (ring->keys.length - own.rows)};
    ra_row_set reads = {0};
    bool fits = true;
    if (!ring->strategy->reads_everything) {
        fits = ra_reach_find(&reads, ring->plan, RA_SIDE_KEYS, ring->planes, &queries, &own,
                             (ra_interval){0, ring->keys.length});
        traffic.rows_received = ra_row_set_rows(&reads);
    }
    ra_row_set_free(&reads);
    traffic.rows_most = traffic.rows_received / ra_max(1, ring->options.ranks - 1);
    *bytes = held_by_rank(ring, rank, traffic);
    return fits ? RA_OK : ra_fail(RA_ERROR_MEMORY, "out of memory: what rank %d reads", rank);
}

/*
 * What the largest process holds; traffic NULL: as much as can be. Neighbours with as many rows hold the same then, and
 * are not looked at again; groups of block-sparse queries depend on where they are.
 */
static int64_t held_with(const ra_ring_plan *ring, const ra_traffic *traffic, int64_t enough)
{
    int64_t bytes = 0, all = ring->planes * ring->keys.length, last = 0, q_rows = -1, kv_rows = -1;
    int64_t chunk = ring->planes * ra_max(ring->chunk_rows, ring->strategy->keys(ring, 0, 0).rows);
    const ra_traffic most = {.rows_received = all, .rows_most = chunk, .rows_again = all, .rows_sent = all};
    for (int rank = 0; rank < ring->options.ranks && bytes <= enough; rank++) {
        ra_share queries = ra_partition_share(&ring->queries, rank), keys = ra_partition_share(&ring->keys, rank);
        bool alike = !traffic && !ring->plan->pattern.blocks && queries.rows == q_rows && keys.rows == kv_rows;
        if (!alike)
            last = held_by_rank(ring, rank, traffic ? traffic[rank] : most);
        q_rows = queries.rows;
        kv_rows = keys.rows;
        bytes = add_rank(ring, bytes, last);
    }
    return bytes;
}

ra_status ra_ring_plan_holds(ra_ring_plan *ring, int64_t enough, int64_t *bytes)
{
    const int looked_at[] = {ring->options.ranks / 2, 0, ring->options.ranks - 1};
    ra_traffic *traffic;
    free(ring->ranks);
    ring->ranks = NULL;
    ring->count = 0;
    derive(ring);
    for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; i++) {
        ra_status status = held_at_least(ring, looked_at[i], bytes);
        if (status || *bytes > enough)
            return status;
    }
    int64_t most = held_with(ring, NULL, enough);
    if (most <= enough && enough < INT64_MAX) {
        *bytes = most;
        return RA_OK;
    }
    ra_status status = count_traffic(ring, 0, ring->options.ranks, &traffic);
    if (!status)
        *bytes = held_with(ring, traffic, enough);
    free(traffic);
    return status;
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
        bytes += kv_rows * kv_row_bytes(ring);
    ra_workload work;
    ra_workload_lay_out(&work, p, ra_share_of_range(0, ra_max(1, p->q_len / ranks)), 1, 1, true);
    return bytes + work.scratch_bytes + (ring->options.lent ? 0 : ra_ring_storage_bytes(ring));
}
