/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicts the time of a run from its plan and from the costs that calibration.c measured. Nothing is run here. See
 * model.h.
 */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- How much there is to do ------------------------------------------------------------------------------------- */

/* A problem's extents, with nothing left to a default, and how often a run goes through them. */
typedef struct extents {
    double batch, heads, kv_heads, dim, value_dim, dims, kv_len;
    double passes; /* through all pairs */
    double pair;   /* multiply-adds of a pair, in all passes */
} extents;

static extents extents_of(const ra_problem *p)
{
    int64_t kv_heads = p->kv_heads == RA_SAME ? p->heads : p->kv_heads;
    int64_t value_dim = p->value_dim == RA_SAME ? p->head_dim : p->value_dim;
    int64_t kv_len = p->kv_len == RA_SAME ? p->q_len : p->kv_len;
    double dims = (double)(p->head_dim + value_dim);
    return (extents){(double)p->batch,
                     (double)p->heads,
                     (double)kv_heads,
                     (double)p->head_dim,
                     (double)value_dim,
                     dims,
                     (double)kv_len,
                     1,
                     dims};
}

/*
 * The same of gradients. One pass has five products of a pair: scores, d_output x value, and a gradient each. Of two
 * passes, each computes scores and d_output x value for itself.
 */
static extents extents_of_gradients(const ra_problem *p, double passes)
{
    extents e = extents_of(p);
    e.passes = passes;
    e.pair = (2 + passes) * e.dim + (1 + passes) * e.value_dim;
    return e;
}

static model_kind kind_of(const ra_problem *problem, const ra_plan_info *info)
{
    const char *pattern = problem->pattern ? problem->pattern : "full";
    return info->variant == RA_VARIANT_DECODE ? MODEL_DECODE
           : strstr(pattern, "dilated:")      ? MODEL_DILATED
           : strstr(pattern, "blocks:")       ? MODEL_BLOCKS
                                              : MODEL_PLAIN;
}

/*
 * Of how many branches of a dilated pattern a row is a member, in the mean: of W/R every R-th row. In the mode
 * "grouped" a head has one of them.
 */
static double branches_of_row(const char *pattern)
{
    double sum = 0, count = 0;
    long long width, rate;
    int read;
    const char *at = pattern ? strstr(pattern, "dilated:") : NULL;
    for (at = at ? at + strlen("dilated:") : ""; sscanf(at, "%lld/%lld%n", &width, &rate, &read) == 2 && rate > 0;) {
        sum += 1.0 / (double)rate;
        count++;
        at += read;
        at += *at == ',';
    }
    return strncmp(at, ":mode=grouped", strlen(":mode=grouped")) ? sum : sum / count;
}

/* Some queries of a head, and how they are worked. */
typedef struct tiling {
    double rows;   /* in all, */
    double task;   /* and of a task, which packs what any of them sees */
    double seen;   /* keys that a row sees, in the mean */
    double stride; /* from one block of 64 rows to the next, in blocks: 1 where they lie together */
} tiling;

/*
 * Keys that the tasks of one head pack. Rows that lie together see a band of keys, or the same ones; kept blocks are
 * anywhere, and rows of blocks share them by chance.
 */
static double keys_packed(const tiling *t, model_kind kind, double kv_len)
{
    const double block = 64;
    double beside = t->task > block ? block + (t->task - block) * t->stride : t->task;
    double reach = t->seen + beside;
    if (kind == MODEL_BLOCKS)
        reach = kv_len * (1 - pow(1 - fmin(1, t->seen / kv_len), fmax(1, t->task / block)));
    return t->rows / t->task * fmin(kv_len, reach);
}

static model_load load_of(const extents *e, const char *pattern, model_kind kind, const tiling *t, double pairs_worked)
{
    double each = e->passes * e->batch * e->heads * e->dims;
    model_load load = {.pairs = pairs_worked * e->pair};
    if (kind == MODEL_DECODE || t->rows == 0) /* decoding is reading keys and values, once for each pair */
        return load;
    load.rows = t->rows * each;
    load.members = load.rows * branches_of_row(pattern);
    load.keys = keys_packed(t, kind, e->kv_len) * each;
    return load;
}

static ra_status describe(const ra_plan *plan, bool backward, ra_plan_info *info)
{
    return backward ? ra_plan_describe_backward(plan, info) : ra_plan_describe(plan, info);
}

ra_status model_work_of_plan(const ra_problem *problem, const ra_plan *plan, bool backward, model_work *work)
{
    extents e = backward ? extents_of_gradients(problem, 1) : extents_of(problem);
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_status status = describe(plan, backward, &info);
    if (status)
        return status;
    double rows = (double)problem->q_len;
    const tiling t = {rows, fmax(1, fmin(rows, (double)info.query_tile)),
                      info.pairs_visible / (e.batch * e.heads * rows), 1};
    *work = (model_work){.kind = kind_of(problem, &info), .ranks = 1, .threads = info.threads, .cores = info.threads};
    work->passes = e.passes;
    work->all = load_of(&e, problem->pattern, work->kind, &t, info.pairs_worked);
    work->all.regions = 1;
    work->busiest = work->all;
    return RA_OK;
}

/* Bytes of one row of queries, keys and so on, of all heads. */
static double row_bytes(double heads, double dim, ra_dtype dtype)
{
    return heads * dim * (double)ra_dtype_size(dtype);
}

/* Rows that a rank reads from storage in each pass. */
static double bytes_read(const extents *e, const ra_ring_options *ring, const ra_rank_info *r)
{
    double query = row_bytes(e->heads, e->dim, ring->q_dtype);
    double key = row_bytes(e->kv_heads, e->dim, ring->k_dtype) + row_bytes(e->kv_heads, e->value_dim, ring->v_dtype);
    if (ring->backward)
        query += row_bytes(e->heads, e->value_dim, ring->o_dtype) +
                 row_bytes(e->heads, e->value_dim, ring->d_output_dtype) + row_bytes(e->heads, 1, RA_F32);
    return e->passes * e->batch * ((double)r->q_rows * query + (double)r->kv_rows * key);
}

static double bytes_written(const extents *e, const ra_ring_options *ring, const ra_rank_info *r)
{
    if (!ring->backward)
        return e->batch * (double)r->q_rows * row_bytes(e->heads, e->value_dim, ring->o_dtype);
    double query = row_bytes(e->heads, e->dim, ring->d_q_dtype);
    double key =
        row_bytes(e->kv_heads, e->dim, ring->d_k_dtype) + row_bytes(e->kv_heads, e->value_dim, ring->d_v_dtype);
    return e->batch * ((double)r->q_rows * query + (double)r->kv_rows * key);
}

/*
 * Bytes that a rank copies: rows out of and into storage, and others' rows unless they are read where they lie. A
 * backward pass reads nothing where it lies.
 */
static double bytes_copied(const extents *e, const ra_ring_options *ring, const ra_rank_info *r)
{
    bool copies = ring->backward || !ring->lent;
    double stored = copies ? bytes_read(e, ring, r) + bytes_written(e, ring, r) : 0;
    if (ring->transport == RA_TRANSPORT_MPI)
        return stored + (double)r->bytes_received + (double)r->bytes_sent;
    bool received = ring->backward || (ring->transport == RA_TRANSPORT_SIM && !ring->lent);
    return received ? stored + (double)r->bytes_received : stored;
}

/* Virtual ranks that read rows where they lie. */
static bool in_place(const ra_ring_options *ring)
{
    return ring->transport == RA_TRANSPORT_SIM && ring->lent && !ring->backward;
}

/* Ranks whose tasks are one list: eight at most, in lists of about the same length. */
static double ranks_together(const ra_ring_options *ring)
{
    return in_place(ring) ? ring->ranks / ceil(ring->ranks / 8.0) : 1;
}

/* The tasks of a rank: no larger than those of the whole problem, and of a list eight for each thread at least. */
static tiling tiling_of(const extents *e, const ra_ring_options *ring, const ra_rank_info *r, double task, int threads)
{
    double rows = (double)r->q_rows, all = e->batch * e->heads * rows;
    tiling t = {rows, fmax(1, fmin(fmin(task, rows), all * ranks_together(ring) / (8.0 * threads))), 0, 1};
    t.seen = all > 0 ? r->pairs_visible / all : 0;
    t.stride = ring->order == RA_ORDER_STRIPED ? ring->ranks : 1;
    return t;
}

/*
 * States in memory that is taken for them cost as much as their rows, unless a communicator has kept it; a step packs
 * the rows once more.
 */
static const double PACKED_AGAIN = 0.2;

/* A plan does not count the pairs that a rank works on if queries come to its keys: as many as elsewhere for those
 * seen. */
static double pairs_of_rank(const ra_rank_info *r, const ra_plan_info *info)
{
    if (r->pairs_worked > 0 || r->pairs_visible == 0)
        return r->pairs_worked;
    return r->pairs_visible * info->pairs_worked / info->pairs_visible;
}

static model_load load_of_rank(const ra_problem *problem, const extents *e, const ra_ring_options *ring,
                               const ra_rank_info *r, model_kind kind, const tiling *t, double pairs_worked)
{
    model_load load = load_of(e, problem->pattern, kind, t, pairs_worked);
    bool at_once = in_place(ring);
    /* Of what a rank takes one after the other it begins only what it sees something of. */
    double steps = fmin((double)r->steps, (double)r->hops + e->passes);
    if (ring->order == RA_ORDER_STRIPED && kind == MODEL_DILATED) {
        load.apart = load.pairs;
        load.cut = at_once && ring->strategy == RA_STRATEGY_RING ? load.keys : 0;
    }
    double taken = ring->transport == RA_TRANSPORT_SIM;
    load.kept = at_once ? 0 : load.rows * (taken + PACKED_AGAIN * steps);
    load.regions = at_once ? 1 / ranks_together(ring) : steps + e->passes;
    load.bytes = bytes_copied(e, ring, r);
    return load;
}

static void add(model_load *sum, const model_load *load)
{
    sum->pairs += load->pairs;
    sum->apart += load->apart;
    sum->rows += load->rows;
    sum->members += load->members;
    sum->keys += load->keys;
    sum->cut += load->cut;
    sum->kept += load->kept;
    sum->regions += load->regions;
    sum->bytes += load->bytes;
}

/* Its steps tell how often a rank goes through all pairs. */
static extents extents_of_rank(const ra_problem *problem, const ra_ring_options *ring, const ra_rank_info *r)
{
    double steps = ring->strategy == RA_STRATEGY_ALLGATHER ? 1 : ring->ranks;
    return ring->backward ? extents_of_gradients(problem, (double)r->steps / steps) : extents_of(problem);
}

ra_status model_work_of_ring(const ra_problem *problem, const ra_options *options, const ra_ring_options *ring,
                             const ra_ring_plan *plan, model_work *work)
{
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    ra_status status = describe(ra_ring_plan_problem(plan), ring->backward, &info);
    if (!status)
        status = ra_system_describe(&machine);
    if (status)
        return status;
    *work = (model_work){.kind = kind_of(problem, &info), .ranks = ring->ranks};
    work->together = ring->transport != RA_TRANSPORT_SIM;
    work->threads = options && options->threads ? options->threads : machine.cores / (work->together ? ring->ranks : 1);
    work->threads = work->threads > 1 ? work->threads : 1;
    /* Processes may be anywhere; threads share the cores that are here. */
    work->cores = ring->transport == RA_TRANSPORT_MPI ? work->threads * ring->ranks : machine.cores;
    for (int rank = 0; rank < ring->ranks; rank++) {
        ra_rank_info r = RA_RANK_INFO_INIT;
        status = ra_ring_plan_rank(plan, rank, &r);
        if (status)
            return status;
        extents e = extents_of_rank(problem, ring, &r);
        tiling t = tiling_of(&e, ring, &r, (double)info.query_tile, work->threads);
        model_load load = load_of_rank(problem, &e, ring, &r, work->kind, &t, pairs_of_rank(&r, &info));
        work->passes = e.passes;
        add(&work->all, &load);
        if (rank == 0 || load.pairs > work->busiest.pairs)
            work->busiest = load;
    }
    return RA_OK;
}

/* ---- How long it takes ------------------------------------------------------------------------------------------- */

/* Of one thread. */
static double in_tiles(const machine_model *m, model_kind kind, const model_load *load)
{
    return load->pairs * m->pair[kind] + load->apart * m->apart + (load->rows + load->kept) * m->row +
           load->members * m->member + load->keys * m->key + load->cut * m->cut;
}

model_prediction model_time(const machine_model *m, const model_work *w)
{
    const model_load *slowest = w->together ? &w->busiest : &w->all;
    int working = w->together ? w->ranks * w->threads : w->threads;
    working = working < w->cores ? working : w->cores;
    model_prediction p = {.tiles = in_tiles(m, w->kind, &w->all) / working};
    p.idle = fmax(0, w->together ? in_tiles(m, w->kind, slowest) / w->threads - p.tiles : 0);
    p.regions = slowest->regions * m->region;
    p.bytes = slowest->bytes * m->byte;
    p.seconds = p.tiles + p.idle + p.regions + p.bytes;
    return p;
}

ra_status model_predict(const machine_model *model, const ra_problem *problem, const ra_options *options,
                        const ra_ring_options *ring, double *seconds)
{
    ra_plan *plan = NULL;
    ra_ring_plan *over = NULL;
    model_work work;
    ra_status status =
        ring ? ra_ring_plan_create(problem, options, ring, &over) : ra_plan_create(problem, options, &plan);
    if (!status)
        status = ring ? model_work_of_ring(problem, options, ring, over, &work)
                      : model_work_of_plan(problem, plan, false, &work);
    if (!status)
        *seconds = model_time(model, &work).seconds;
    ra_plan_free(plan);
    ra_ring_plan_free(over);
    return status;
}
