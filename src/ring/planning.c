/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the plan of a ring: see planning.h. */
#include "ring/planning.h"

#include "base/checked.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/threads.h"
#include "exec/gradient.h"
#include "plan/reach.h"
#include "ring/array_bytes.h"
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
    const ra_pass *pass = &ring->passes[0];
    return ring->planes * (pass->row_bytes[RA_ROLE_KEYS] + pass->row_bytes[RA_ROLE_VALUES]);
}

/* What a rank reads and writes in place of the caller's tensors. A backward pass copies the rows that it needs. */
static int64_t lent_bytes(const ra_ring_plan *ring, int rank)
{
    const ra_plan *p = ring->plan;
    if (!ring->options.lent || ring->options.backward)
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

/* The most ranges of any rank. */
static int64_t most_ranges(const ra_partition *rows)
{
    int64_t most = 1;
    for (int rank = 0; rank < rows->ranks; rank++)
        most = ra_max(most, ra_partition_share(rows, rank).ranges);
    return most;
}

/* Find the largest chunk, and the most words of marks on any share. */
static void find_sizes(ra_pass *pass)
{
    const ra_strategy_kind *strategy = pass->ring->strategy;
    int64_t steps = strategy->steps(pass);
    pass->chunk_rows = 0;
    pass->slot_blocks = 1;
    pass->ranges = most_ranges(ra_pass_staying(pass));
    for (int rank = 0; rank < pass->ring->options.ranks; rank++) {
        ra_share share = ra_partition_share(ra_pass_moving(pass), rank);
        pass->chunk_rows = ra_max(pass->chunk_rows, share.rows);
        pass->slot_blocks = ra_max(pass->slot_blocks, share.blocks);
        if (rank < steps)
            pass->slot_blocks = ra_max(pass->slot_blocks, strategy->share(pass, 0, rank).blocks);
    }
}

/* Scratch of the threads at any step: where queries travel, a step's tasks are those of the queries that came. */
static int64_t gradient_scratch(const ra_pass *pass)
{
    const ra_ring_plan *ring = pass->ring;
    bool own = pass->moving == RA_SIDE_KEYS;
    int64_t shares = own ? ring->options.ranks : ring->strategy->steps(pass), most = 0;
    for (int64_t i = 0; i < shares; i++) {
        ra_workload work;
        ra_share queries = own ? ra_partition_share(&ring->queries, (int)i) : ring->strategy->share(pass, 0, i);
        ra_workload_lay_out_gradient(&work, ring->plan, queries, ring->threads);
        if (queries.rows > 0)
            most = ra_max(most, work.threads * ra_gradient_scratch_bytes(ring->plan, &work));
    }
    return most;
}

static void add_pass(ra_ring_plan *ring, const ra_pass *kind)
{
    ra_pass *pass = &ring->passes[ring->pass_count++];
    *pass = *kind;
    pass->ring = ring;
    for (int role = 0; role < RA_ROLES; role++) {
        ra_role_shape shape = ra_role_shape_of(ring, role);
        pass->row_bytes[role] =
            ring->plan->batch * (shape.heads / ring->planes) * shape.dim * (int64_t)ra_dtype_size(shape.dtype);
    }
    find_sizes(pass);
    if (pass->gradient)
        pass->scratch = gradient_scratch(pass);
}

/* Traffic of ranks first .. first + count - 1; free it also after a failure. */
static ra_status count_traffic(const ra_pass *pass, int first, int count, ra_traffic **traffic)
{
    const ra_ring_plan *ring = pass->ring;
    const ra_traffic_question question = {.plan = ring->plan,
                                          .planes = ring->planes,
                                          .queries = &ring->queries,
                                          .keys = &ring->keys,
                                          .first = first,
                                          .end = first + count,
                                          .moving = pass->moving,
                                          .sums = pass->along != 0};
    *traffic = calloc((size_t)count, sizeof **traffic);
    if (!*traffic)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the plan of %d ranks", count);
    return ring->strategy->traffic(&question, *traffic);
}

/* Bytes of rows, and of sums of gradients. */
static int64_t bytes_of_rows(const ra_pass *pass, int64_t rows, int64_t sums)
{
    return rows * ra_pass_row_bytes(pass, pass->roles) + sums * ra_pass_row_bytes(pass, pass->along);
}

/* Keys and values travel to the queries that see them, or queries to the keys that they see, for some gradients. */
static ra_pass gradient_pass(ra_side moving, unsigned keys_sums, unsigned queries_sums, bool along)
{
    const unsigned keys = RA_BIT(RA_ROLE_KEYS) | RA_BIT(RA_ROLE_VALUES);
    const unsigned queries =
        RA_BIT(RA_ROLE_QUERIES) | RA_BIT(RA_ROLE_OUTPUT_GRADIENTS) | RA_BIT(RA_ROLE_LSE) | RA_BIT(RA_ROLE_DELTA);
    bool of_keys = moving == RA_SIDE_KEYS;
    return (ra_pass){.moving = moving,
                     .gradient = true,
                     .roles = of_keys ? keys : queries,
                     .along = along ? (of_keys ? keys_sums : queries_sums) : 0,
                     .stays = of_keys ? queries : keys,
                     .sums = of_keys ? queries_sums : keys_sums};
}

/* Bytes that all ranks receive in a pass. */
static ra_status count_bytes(const ra_pass *pass, int64_t *bytes)
{
    ra_traffic *traffic;
    int ranks = pass->ring->options.ranks;
    ra_status status = count_traffic(pass, 0, ranks, &traffic);
    *bytes = 0;
    for (int rank = 0; rank < ranks && !status; rank++)
        *bytes += bytes_of_rows(pass, traffic[rank].rows_received, traffic[rank].sums_received);
    free(traffic);
    return status;
}

/* Whether sums of these gradients can be added up over ranks. Virtual ranks keep them in the storages of the gradients,
 * which takes float32. */
static bool sums_come_together(const ra_ring_plan *ring, unsigned sums)
{
    static const ra_role roles[] = {
        [RA_GRADIENT_QUERY] = RA_ROLE_QUERY_SUMS,
        [RA_GRADIENT_KEY] = RA_ROLE_KEY_SUMS,
        [RA_GRADIENT_VALUE] = RA_ROLE_VALUE_SUMS,
    };
    const ra_ring_options *o = &ring->options;
    const ra_dtype dtypes[] = {
        [RA_GRADIENT_QUERY] = o->d_q_dtype,
        [RA_GRADIENT_KEY] = o->d_k_dtype,
        [RA_GRADIENT_VALUE] = o->d_v_dtype,
    };
    bool can = ring->strategy->sums != RA_SUMS_STAY;
    for (int i = RA_GRADIENT_QUERY; i <= RA_GRADIENT_VALUE && o->transport == RA_TRANSPORT_SIM; i++)
        if (sums >> roles[i] & 1)
            can &= dtypes[i] == RA_F32 && (o->gradients_kept >> i & 1);
    return can;
}

/*
 * One pass for all gradients. The side moves that causes fewer bytes to travel, together with its sums. Adds no pass if
 * no side can move.
 */
static ra_status choose_side(ra_ring_plan *ring, unsigned keys_sums, unsigned queries_sums)
{
    static const ra_side sides[RA_PASSES_MOST] = {RA_SIDE_KEYS, RA_SIDE_QUERIES};
    int64_t least = INT64_MAX;
    ra_status status = RA_OK;
    for (int i = 0; i < RA_PASSES_MOST && !status; i++) {
        const ra_pass kind = gradient_pass(sides[i], keys_sums, queries_sums, true);
        if (!sums_come_together(ring, kind.along))
            continue;
        int64_t bytes;
        add_pass(ring, &kind);
        ra_pass *added = &ring->passes[ring->pass_count - 1];
        status = count_bytes(added, &bytes);
        if (!status && bytes < least) {
            least = bytes;
            ring->passes[0] = *added;
        }
        ring->pass_count = 1;
    }
    return status;
}

/*
 * If sums of gradients can be added up over ranks, a backward pass is one pass. Else, if gradients of both sides are
 * wanted, it is two passes: keys and values travel to the queries that see them, for d_q, then queries to the keys that
 * they see, for d_k and d_v. Gradients of score arrays alone take the first of the two, without sums.
 */
static ra_status add_gradient_passes(ra_ring_plan *ring)
{
    unsigned wanted = ring->options.gradients;
    unsigned queries_sums = wanted >> RA_GRADIENT_QUERY & 1 ? RA_BIT(RA_ROLE_QUERY_SUMS) : 0;
    unsigned keys_sums = (wanted >> RA_GRADIENT_KEY & 1 ? RA_BIT(RA_ROLE_KEY_SUMS) : 0) |
                         (wanted >> RA_GRADIENT_VALUE & 1 ? RA_BIT(RA_ROLE_VALUE_SUMS) : 0);
    ra_status status = keys_sums && queries_sums ? choose_side(ring, keys_sums, queries_sums) : RA_OK;
    if (status || ring->pass_count > 0)
        return status;
    const ra_pass of_keys = gradient_pass(RA_SIDE_KEYS, keys_sums, queries_sums, false);
    const ra_pass of_queries = gradient_pass(RA_SIDE_QUERIES, keys_sums, queries_sums, false);
    if (queries_sums || !keys_sums)
        add_pass(ring, &of_keys);
    if (keys_sums)
        add_pass(ring, &of_queries);
    return RA_OK;
}

/* Values that follow from the options and the problem. */
static ra_status derive(ra_ring_plan *ring)
{
    const ra_pass forward = {.moving = RA_SIDE_KEYS, .roles = RA_BIT(RA_ROLE_KEYS) | RA_BIT(RA_ROLE_VALUES)};
    ra_status status = RA_OK;
    const ra_plan *p = ring->plan;
    const ra_ring_options *o = &ring->options;
    if (!ring->strategy)
        ring->strategy = ra_strategy_find(o->strategy);
    ring->planes = ra_mark_planes(p);
    ring->q_row_bytes = p->batch * p->heads * p->head_dim * (int64_t)ra_dtype_size(o->q_dtype);
    ring->in_place =
        !o->backward && (o->transport == RA_TRANSPORT_THREADS || (o->transport == RA_TRANSPORT_SIM && o->lent));
    ring->hold_own = !(ring->in_place && o->lent);
    ring->threads = ra_ring_threads(&ring->asked, o);
    ring->pass_count = 0;
    if (o->backward)
        status = add_gradient_passes(ring);
    else
        add_pass(ring, &forward);
    find_scratch(ring);
    return status;
}

/*
 * What a rank of a ring holds at most, as docs/RING.md promises: eight chunks, nine if row states have wider
 * numbers than the tensors, and a part that does not grow with the sequence.
 */
static int64_t promised(const ra_ring_plan *ring)
{
    enum { CHUNKS = 8, WHERE_WIDER = 9, BACKWARD = 14, FIXED = 4 << 20 };
    const ra_plan *p = ring->plan;
    int64_t size = (int64_t)ra_dtype_size(ring->options.q_dtype);
    int64_t chunk = ra_max(p->q_len, p->kv_len) * p->batch * p->heads * ra_max(p->head_dim, p->value_dim) * size /
                    ring->options.ranks;
    if (ring->options.backward)
        return chunk * BACKWARD + FIXED;
    return chunk * (size < (int64_t)sizeof(float) ? WHERE_WIDER : CHUNKS) + FIXED;
}

/* Sparing memory costs time: late messages are waited for. */
static bool should_spare(const ra_ring_plan *ring, const ra_rank_plan *planned, const ra_rank_memory *held)
{
    int64_t budget = ring->options.memory;
    return planned->traffic.rows_again > 0 && !ring->in_place &&
           (held->total > promised(ring) || (budget > 0 && held->total > budget));
}

/* Bytes of a rank whose traffic is known. Memory is spared if it has to be. */
static int64_t bytes_of(const ra_pass *pass, int rank, ra_rank_plan *planned)
{
    ra_rank_memory held = ra_pass_memory(pass, rank, planned);
    if (!planned->sparing && should_spare(pass->ring, planned, &held)) {
        planned->sparing = true;
        held = ra_pass_memory(pass, rank, planned);
    }
    return held.total;
}

/* The pairs that the staying rows of a rank are part of. If keys stay, the worked pairs are not known. */
static ra_status count_pairs(const ra_pass *pass, int rank, ra_rank_info *info)
{
    const ra_ring_plan *ring = pass->ring;
    ra_workload work;
    ra_status status = RA_OK;
    if (pass->moving == RA_SIDE_QUERIES) {
        ra_share keys = ra_partition_share(&ring->keys, rank);
        return ra_count_key_pairs(ring->plan, &keys, &info->pairs_visible);
    }
    if (pass->gradient)
        ra_workload_lay_out_gradient(&work, ring->plan, ra_partition_share(&ring->queries, rank), ring->threads);
    else
        ra_ring_workload(ring, rank, &work);
    if (ring->options.ranks == 1 && !pass->gradient)
        work.pairs_visible = ring->plan->all.pairs_visible, work.pairs_worked = ring->plan->all.pairs_worked;
    else
        status = ra_workload_count(&work, ring->plan);
    info->pairs_visible = work.pairs_visible;
    info->pairs_worked = work.pairs_worked;
    return status;
}

static ra_status fill_rank(const ra_pass *pass, int rank, const ra_traffic *traffic, ra_rank_plan *planned)
{
    const ra_ring_plan *ring = pass->ring;
    int64_t row_bytes = ra_pass_row_bytes(pass, pass->roles);
    *planned = (ra_rank_plan){.traffic = *traffic};
    planned->info =
        (ra_rank_info){.size = sizeof planned->info,
                       .q_rows = ra_partition_share(&ring->queries, rank).rows,
                       .kv_rows = ra_partition_share(&ring->keys, rank).rows,
                       .steps = ring->strategy->steps(pass),
                       .hops = row_bytes ? traffic->hops : 0, /* rows of no bytes do not travel */
                       .bytes_sent = bytes_of_rows(pass, traffic->rows_sent, traffic->sums_sent),
                       .bytes_received = bytes_of_rows(pass, traffic->rows_received, traffic->sums_received),
                       .lent_bytes = lent_bytes(ring, rank)};
    if (pass == ring->passes) {
        planned->info.bytes_sent += ra_arrays_traffic(ring, rank);
        planned->info.bytes_received += ra_arrays_traffic(ring, rank);
    }
    planned->info.peak_bytes = bytes_of(pass, rank, planned);
    return count_pairs(pass, rank, &planned->info);
}

static ra_status plan_ranks(const ra_pass *pass, int first, int count, ra_rank_plan *planned)
{
    ra_traffic *traffic;
    ra_status status = count_traffic(pass, first, count, &traffic);
    for (int i = 0; i < count && !status; i++)
        status = fill_rank(pass, first + i, &traffic[i], &planned[i]);
    free(traffic);
    return status;
}

ra_status ra_ring_plan_one(const ra_ring_plan *ring, int rank, ra_rank_info *info)
{
    ra_rank_plan planned;
    ra_status status = RA_OK;
    for (int i = 0; i < ring->pass_count && !status; i++) {
        const ra_rank_plan *there = ra_pass_planned(&ring->passes[i], rank);
        if (there)
            planned = *there;
        else
            status = plan_ranks(&ring->passes[i], rank, 1, &planned);
        if (!status && i == 0)
            *info = planned.info;
        else if (!status)
            ra_rank_info_add(info, &planned.info);
    }
    return status;
}

ra_status ra_ring_plan_fill(ra_ring_plan *ring)
{
    bool one = ring->options.rank != RA_ALL_RANKS;
    free(ring->ranks);
    ring->ranks = NULL;
    ra_status status = derive(ring);
    if (status)
        return status;
    ring->first = one ? ring->options.rank : 0;
    ring->count = one ? 1 : ring->options.ranks;
    ring->ranks = calloc((size_t)ra_max(1, ring->pass_count * ring->count), sizeof *ring->ranks);
    if (!ring->ranks)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the plan of %d ranks", ring->count);
    for (int i = 0; i < ring->pass_count && !status; i++)
        status = plan_ranks(&ring->passes[i], ring->first, ring->count, ring->ranks + i * ring->count);
    return status;
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
    for (int i = 0; i < ring->count; i++) {
        int64_t most = 0;
        for (int pass = 0; pass < ring->pass_count; pass++)
            most = ra_max(most, ring->ranks[pass * ring->count + i].info.peak_bytes);
        bytes = add_rank(ring, bytes, most);
    }
    return bytes;
}

/* ---- How much a ring would hold ---------------------------------------------------------------------------------- */

/* What a rank holds with this traffic if memory is spared. */
static int64_t held_by_rank(const ra_pass *pass, int rank, ra_traffic traffic)
{
    const ra_rank_plan planned = {.traffic = traffic, .sparing = true};
    return ra_pass_memory(pass, rank, &planned).total;
}

/* A lower bound: the rank reads equally many rows of all others, and nothing else travels. */
static ra_status held_at_least(const ra_pass *pass, int rank, int64_t *bytes)
{
    const ra_ring_plan *ring = pass->ring;
    const ra_partition *moving = ra_pass_moving(pass);
    ra_share stay = ra_partition_share(ra_pass_staying(pass), rank), own = ra_partition_share(moving, rank);
    ra_traffic traffic = {.rows_received = ring->planes * (moving->length - own.rows)};
    ra_row_set reads = {0};
    bool fits = true;
    if (!ring->strategy->reads_everything) {
        fits = ra_reach_find(&reads, ring->plan, pass->moving, ring->planes, &stay, &own,
                             (ra_interval){0, moving->length});
        traffic.rows_received = ra_row_set_rows(&reads);
    }
    ra_row_set_free(&reads);
    traffic.rows_most = traffic.rows_received / ra_max(1, ring->options.ranks - 1);
    *bytes = held_by_rank(pass, rank, traffic);
    return fits ? RA_OK : ra_fail(RA_ERROR_MEMORY, "out of memory: what rank %d reads", rank);
}

/*
 * What the largest process holds; traffic NULL: as much as can be. Neighbours with as many rows hold the same then, and
 * are not looked at again; groups of block-sparse queries depend on where they are.
 */
static int64_t held_with(const ra_pass *pass, const ra_traffic *traffic, int64_t enough)
{
    const ra_ring_plan *ring = pass->ring;
    int64_t bytes = 0, all = ring->planes * ra_pass_moving(pass)->length, last = 0, q_rows = -1, kv_rows = -1;
    int64_t chunk = ring->planes * ra_max(pass->chunk_rows, ring->strategy->share(pass, 0, 0).rows);
    const ra_traffic most = {.rows_received = all, .rows_most = chunk, .rows_again = all, .rows_sent = all};
    for (int rank = 0; rank < ring->options.ranks && bytes <= enough; rank++) {
        ra_share queries = ra_partition_share(&ring->queries, rank), keys = ra_partition_share(&ring->keys, rank);
        bool alike = !traffic && !ring->plan->pattern.blocks && queries.rows == q_rows && keys.rows == kv_rows;
        if (!alike)
            last = held_by_rank(pass, rank, traffic ? traffic[rank] : most);
        q_rows = queries.rows;
        kv_rows = keys.rows;
        bytes = add_rank(ring, bytes, last);
    }
    return bytes;
}

/* The same for one pass of a ring. */
static ra_status pass_holds(const ra_pass *pass, int64_t enough, int64_t *bytes)
{
    int ranks = pass->ring->options.ranks;
    const int looked_at[] = {ranks / 2, 0, ranks - 1};
    ra_traffic *traffic;
    for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; i++) {
        ra_status status = held_at_least(pass, looked_at[i], bytes);
        if (status || *bytes > enough)
            return status;
    }
    int64_t most = held_with(pass, NULL, enough);
    if (most <= enough && enough < INT64_MAX) {
        *bytes = most;
        return RA_OK;
    }
    ra_status status = count_traffic(pass, 0, ranks, &traffic);
    if (!status)
        *bytes = held_with(pass, traffic, enough);
    free(traffic);
    return status;
}

ra_status ra_ring_plan_holds(ra_ring_plan *ring, int64_t enough, int64_t *bytes)
{
    free(ring->ranks);
    ring->ranks = NULL;
    ring->count = 0;
    ra_status status = derive(ring);
    *bytes = 0;
    for (int i = 0; i < ring->pass_count && !status && *bytes <= enough; i++) {
        int64_t of_pass;
        status = pass_holds(&ring->passes[i], enough, &of_pass);
        *bytes = status ? 0 : ra_max(*bytes, of_pass);
    }
    return status;
}

int64_t ra_ring_plan_least(const ra_ring_plan *ring, int ranks)
{
    const ra_plan *p = ring->plan;
    /* Ranks have whole blocks, so the largest has at least its share; ranks that are threads are one process. */
    int64_t together = ring->options.transport == RA_TRANSPORT_THREADS ? 1 : ranks;
    int64_t q_rows = p->q_len / together, kv_rows = p->kv_len / together, f = sizeof(float);
    int64_t bytes = q_rows * p->batch * p->heads * p->value_dim * f;
    if (!ring->options.lent)
        bytes += q_rows * ring->q_row_bytes;
    if (ring->hold_own)
        bytes += kv_rows * kv_row_bytes(ring);
    if (ring->options.backward)
        return bytes;
    ra_workload work;
    ra_workload_lay_out(&work, p, ra_share_of_range(0, ra_max(1, p->q_len / ranks)), 1, 1, true);
    return bytes + work.scratch_bytes + (ring->options.lent ? 0 : ra_ring_storage_bytes(ring));
}
