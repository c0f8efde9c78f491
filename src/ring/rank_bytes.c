/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a rank: see rank_bytes.h. */
#include "ring/rank_bytes.h"

#include "base/checked.h"
#include "base/memory.h"
#include "exec/exec.h"
#include "io/storage.h"
#include "ring/array_bytes.h"
#include "ring/greeting.h"
#include "ring/reads.h"
#include "ringattn/transport.h"

/* Finished rows are written in parts of about this size, when they are not written in place. */
enum { OUTPUT_BYTES = 1 << 19 };

/* Scratch for marks, beside the marks of the slots. */
enum { WORKING_MARKS = 3 };

void ra_ring_workload(const ra_ring_plan *ring, int rank, ra_workload *work)
{
    ra_share queries = ra_partition_share(&ring->queries, rank);
    int64_t batch = ra_ring_batch(ring);
    ra_workload_lay_out(work, ring->plan, queries, ring->threads, batch, !ra_ring_at_once(ring));
    work->threads = (int)ra_max(1, ra_min(work->threads, work->tasks * batch));
}

/* Rows of output that are finished at a time: whole groups, of all heads. */
static int64_t output_rows(const ra_ring_plan *ring, const ra_workload *work)
{
    const ra_plan *p = ring->plan;
    int64_t row = p->batch * p->heads * (p->value_dim + 1) * (int64_t)sizeof(float); /* at most */
    return ra_min(ra_max(1, OUTPUT_BYTES / ra_max(1, row * work->grouping.lanes)), ra_max(1, work->groups)) *
           work->grouping.lanes;
}

/* The storages that a backward pass has beside those of a forward pass. */
static int64_t gradient_storage_bytes(const ra_ring_plan *ring)
{
    const ra_plan *p = ring->plan;
    const ra_ring_options *o = &ring->options;
    const ra_tensor views[] = {
        ra_tensor_dense(NULL, o->d_output_dtype, RA_BSHD, p->batch, p->q_len, p->heads, p->value_dim),
        ra_tensor_dense(NULL, RA_F32, RA_BHSD, p->batch, p->q_len, p->heads, 1),
        ra_tensor_dense(NULL, o->d_q_dtype, RA_BSHD, p->batch, p->q_len, p->heads, p->head_dim),
        ra_tensor_dense(NULL, o->d_k_dtype, RA_BSHD, p->batch, p->kv_len, p->kv_heads, p->head_dim),
        ra_tensor_dense(NULL, o->d_v_dtype, RA_BSHD, p->batch, p->kv_len, p->kv_heads, p->value_dim)};
    const bool there[] = {true, o->d_lse != 0, o->gradients >> RA_GRADIENT_QUERY & 1,
                          o->gradients >> RA_GRADIENT_KEY & 1, o->gradients >> RA_GRADIENT_VALUE & 1};
    int64_t bytes = 0;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        bytes += there[i] ? ra_storage_array_bytes(&views[i]) : 0;
    return bytes;
}

int64_t ra_ring_storage_bytes(const ra_ring_plan *ring)
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
    for (size_t i = 0; i < sizeof views / sizeof *views - (o->lse || o->backward ? 0 : 1); i++)
        bytes += ra_storage_array_bytes(&views[i]);
    return bytes + (o->backward ? gradient_storage_bytes(ring) : 0);
}

ra_table_sizes ra_pass_tables(const ra_pass *pass)
{
    const ra_ring_plan *ring = pass->ring;
    int64_t roles = __builtin_popcount(pass->roles | pass->along), slots = pass->along ? RA_SLOTS_MOST : RA_SLOTS;
    int64_t planes = ring->in_place ? 1 : ring->planes;
    int64_t others = ring->options.transport == RA_TRANSPORT_SIM ? 1 : ring->options.ranks;
    return (ra_table_sizes){.views = roles * planes * slots,
                            .peers = ring->in_place ? roles * others : 0,
                            .keys = ra_ring_at_once(ring) ? ring->strategy->steps(pass) : 1};
}

static int64_t table_bytes(const ra_pass *pass)
{
    ra_table_sizes t = ra_pass_tables(pass);
    return ra_memory_rounded((t.views + t.peers) * (int64_t)sizeof(ra_tensor) + t.keys * (int64_t)sizeof(ra_keys));
}

/* Greetings, the statistics that ranks exchange at the end, and the ledger of virtual ranks. */
static int64_t word_bytes(const ra_ring_plan *ring)
{
    int64_t ranks = ring->options.ranks;
    if (ring->options.transport == RA_TRANSPORT_SIM)
        return ranks * (int64_t)sizeof(int64_t);
    int64_t told = (int64_t)(sizeof(ra_greeting) + sizeof(ra_rank_stats));
    return (2 * ranks + 1) * told + 2 * ranks * (int64_t)sizeof(ra_segment) + ranks;
}

static void add_slots(ra_rank_memory *m, const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    const ra_ring_plan *ring = pass->ring;
    ra_slot_rows slots = ring->strategy->slot_rows(pass, rank, planned);
    if (ring->in_place) /* chunks are read where they lie */
        slots = (ra_slot_rows){.rows = {ring->hold_own ? ra_partition_share(&ring->keys, rank).rows : 0},
                               .roles = {pass->roles}};
    int64_t planes = ring->in_place ? ring->planes : 1, used = 0;
    for (int i = 0; i < RA_SLOTS_MOST; i++) {
        m->slot_rows[i] = slots.rows[i];
        m->slot_roles[i] = slots.roles[i];
        used += slots.rows[i] > 0;
        for (int role = 0; role < RA_ROLES; role++)
            if (m->slot_roles[i] >> role & 1)
                m->slots += ra_memory_rounded(slots.rows[i] * planes * pass->row_bytes[role]);
    }
    /* For each slot: the marks of its rows, and the number of marks before each block. */
    m->marks =
        ra_memory_rounded((2 * used + WORKING_MARKS) * ring->planes * pass->slot_blocks * (int64_t)sizeof(uint64_t));
}

/* Finished rows on their way into storage. Virtual ranks write one half behind while the other is filled. */
static void add_output(ra_rank_memory *m, const ra_ring_plan *ring, const ra_workload *work)
{
    const ra_plan *p = ring->plan;
    m->output_rows = output_rows(ring, work);
    int64_t rows = p->batch * m->output_rows * p->heads;
    m->output_lse = ra_memory_rounded(rows * p->value_dim * (int64_t)ra_dtype_size(ring->options.o_dtype));
    m->output = m->output_lse + (ring->options.lse ? ra_memory_rounded(rows * (int64_t)sizeof(float)) : 0);
    if (ring->options.transport == RA_TRANSPORT_SIM)
        m->output_half = m->output, m->output *= 2;
}

/* Segments of the messages of a phase: runs of rows, for each head of each role. */
static int64_t segment_bytes(const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    const ra_ring_plan *ring = pass->ring;
    int64_t heads = 0;
    for (int role = 0; role < RA_ROLES; role++)
        if (ra_pass_carries(pass, role))
            heads += ring->plan->batch * (ra_role_shape_of(ring, role).heads / ring->planes);
    return ra_memory_rounded(heads * ring->strategy->runs(pass, rank, planned) * (int64_t)sizeof(ra_segment));
}

/* The bytes of `rows` rows of some roles. */
static int64_t role_bytes(const ra_pass *pass, unsigned roles, int64_t rows)
{
    int64_t bytes = 0;
    for (int role = 0; role < RA_ROLES; role++)
        if (roles >> role & 1)
            bytes += ra_memory_rounded(rows * pass->ring->planes * pass->row_bytes[role]);
    return bytes;
}

/* Room for a part of the output, from which deltas are found, or for a part of the gradients on their way out. */
static int64_t staging_bytes(const ra_pass *pass, int64_t rows)
{
    const ra_plan *p = pass->ring->plan;
    int64_t row = p->heads * (ra_max(p->head_dim, p->value_dim) + 1) * (int64_t)sizeof(float); /* at most */
    return ra_memory_rounded(ra_max(row, ra_min(OUTPUT_BYTES, rows * row)));
}

/* A pass for gradients: the rows that stay, the sums of their gradients, and scratch. */
static void add_gradients(ra_rank_memory *m, const ra_pass *pass, int rank)
{
    ra_share stay = ra_partition_share(ra_pass_staying(pass), rank);
    m->query = role_bytes(pass, pass->stays, stay.rows);
    m->states = role_bytes(pass, pass->sums, stay.rows);
    m->marks += ra_memory_rounded(2 * stay.blocks * (int64_t)sizeof(uint64_t));
    m->scratch = pass->scratch;
    m->output = staging_bytes(pass, ra_max(stay.rows, pass->chunk_rows));
}

/* A forward pass: queries, row states, scratch, and finished rows on their way out. */
static void add_tiles(ra_rank_memory *m, const ra_pass *pass, int rank)
{
    const ra_ring_plan *ring = pass->ring;
    const ra_plan *p = ring->plan;
    ra_workload tasks;
    ra_ring_workload(ring, rank, &tasks);
    if (!ring->options.lent)
        m->query = ra_memory_rounded(tasks.queries.rows * ring->q_row_bytes);
    int states = ra_ring_at_once(ring) ? 0 : ra_ring_has_spans(ring) ? 2 : 1;
    m->states = states * ra_memory_rounded(tasks.units * p->unit_floats * (int64_t)sizeof(float));
    m->scratch = ra_memory_rounded(tasks.threads * tasks.scratch_bytes);
    if (ring->scratch && tasks.groups)
        m->scratch = ring->scratch;
    if (!ring->options.lent && tasks.groups)
        add_output(m, ring, &tasks);
}

ra_rank_memory ra_pass_memory(const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    const ra_ring_plan *ring = pass->ring;
    bool simulated = ring->options.transport == RA_TRANSPORT_SIM;
    ra_rank_memory m = {0};
    add_slots(&m, pass, rank, planned);
    (pass->gradient ? add_gradients : add_tiles)(&m, pass, rank);
    m.known = ra_memory_rounded((simulated ? 2 : RA_KNOWN_MOST) * ra_reads_words(pass) * (int64_t)sizeof(uint64_t));
    if (!ring->in_place && !simulated)
        m.segments = segment_bytes(pass, rank, planned);
    m.tables = table_bytes(pass);
    m.storage = ring->options.lent ? 0 : ra_ring_storage_bytes(ring);
    m.plan = ra_ring_plan_bytes(ring) + ra_memory_pages(word_bytes(ring)) + (ra_ring_batch(ring) - 1) * m.tables;
    m.arrays = pass == ring->passes ? ra_arrays_bytes(ring) : 0;
    m.total = m.query + m.slots + m.marks + m.known + m.segments + m.states + m.scratch + m.output + m.tables +
              m.storage + m.arrays + m.plan;
    return m;
}
