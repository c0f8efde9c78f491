/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the statistics of a run as JSON. Benchmarks read them back in bench/stats_row.c. See stats_json.h. */
#include "stats_json.h"

#include "bench/probe.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

json_t *stats_json_count(double value)
{
    return value < 0x1p63 ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *problem_object(const run_record *record)
{
    const ra_problem *p = record->problem;
    double scale = p->scale == RA_SCALE_DEFAULT ? 1 / sqrt((double)p->head_dim) : p->scale;
    int64_t at = p->query_position == RA_SAME ? p->key_position + p->kv_len - p->q_len : p->query_position;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s?, s:I, s:I, s:s, s:s}", "batch",
                     (json_int_t)p->batch, "q_len", (json_int_t)p->q_len, "kv_len", (json_int_t)p->kv_len, "heads",
                     (json_int_t)p->heads, "kv_heads", (json_int_t)p->kv_heads, "head_dim", (json_int_t)p->head_dim,
                     "value_dim", (json_int_t)p->value_dim, "scale", scale, "pattern", p->pattern, "scores", p->scores,
                     "query_position", (json_int_t)at, "key_position", (json_int_t)p->key_position, "dtype",
                     ra_dtype_name(record->dtype), "layout", record->layout == RA_BSHD ? "bshd" : "bhsd");
}

/* What a run in one piece and a run over ranks have in common. */
typedef struct totals {
    ra_kernel_id kernel;
    ra_variant variant;
    int threads;
    double seconds, tiles, pairs_visible, pairs_worked, flops;
    int64_t planned, peak;
} totals;

static totals of_one_piece(const ra_stats *s)
{
    return (totals){s->kernel,        s->variant,      s->threads, s->seconds_compute,    s->tiles,
                    s->pairs_visible, s->pairs_worked, s->flops,   s->planned_peak_bytes, s->peak_bytes};
}

/*
 * The largest process. Ranks that are threads of one hold their memory at the same time, and share the plan, which each
 * of them counts. A process of one rank has planned itself alone: what the others planned is in their statistics.
 */
static void set_bytes(const run_record *record, totals *t)
{
    int64_t peaks = 0, plans = 0;
    for (int rank = 0; rank < record->ring->ranks; rank++) {
        const ra_rank_stats *r = &record->ranks[rank];
        peaks += r->peak_bytes;
        plans += r->planned_peak_bytes;
        t->peak = r->peak_bytes > t->peak ? r->peak_bytes : t->peak;
        t->planned = r->planned_peak_bytes > t->planned ? r->planned_peak_bytes : t->planned;
    }
    if (record->ring->transport == RA_TRANSPORT_THREADS) {
        t->planned = ra_ring_plan_process_bytes(record->plan);
        t->peak = peaks - (plans - t->planned);
    }
}

/* What the plan says of this direction. */
static void describe(const run_record *record, ra_plan_info *info)
{
    if (record->backward)
        ra_plan_describe_backward(record->problem_plan, info);
    else
        ra_plan_describe(record->problem_plan, info);
}

static totals of_ranks(const run_record *record)
{
    ra_plan_info info = RA_PLAN_INFO_INIT;
    describe(record, &info);
    totals t = {.kernel = record->ranks[0].kernel,
                .variant = info.variant,
                .threads = record->ranks[0].threads,
                .seconds = record->seconds_compute,
                .tiles = info.tiles,
                .flops = info.flops};
    for (int rank = 0; rank < record->ring->ranks; rank++) {
        const ra_rank_stats *r = &record->ranks[rank];
        t.pairs_visible += r->pairs_visible;
        t.pairs_worked += r->pairs_worked;
    }
    set_bytes(record, &t);
    return t;
}

static json_t *run_object(const run_record *record, const totals *t)
{
    const ra_ring_options *ring = record->ring;
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:i}", "direction",
                     record->backward ? "backward" : "forward", "kernel", ra_kernel_name(t->kernel), "precision",
                     ra_precision_name(ra_kernel_precision(t->kernel)), "threads", t->threads, "variant",
                     t->variant == RA_VARIANT_DECODE ? "decode" : "tile", "version", ra_version(), "strategy",
                     ring ? ra_strategy_name(ring->strategy) : "local", "transport",
                     ring ? ra_transport_name(ring->transport) : "none", "order",
                     ra_order_name(ring ? ring->order : RA_ORDER_CONTIGUOUS), "tile_order",
                     ra_tile_order_name(record->tiles), "ring_size", ring ? ring->ranks : 1);
}

static json_t *memory_object(const totals *t)
{
    return json_pack("{s:I, s:I, s:I}", "planned_peak_bytes", (json_int_t)t->planned, "peak_bytes", (json_int_t)t->peak,
                     "rss_peak_bytes", (json_int_t)probe_resident_peak());
}

static json_t *rank_object(const ra_rank_stats *r)
{
    return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:{s:f, s:f, s:f, s:f}, s:I, s:I, s:I, s:I}", "rank",
                     r->rank, "rows", (json_int_t)r->q_rows, "kv_rows", (json_int_t)r->kv_rows, "hops",
                     (json_int_t)r->hops, "bytes_sent", (json_int_t)r->bytes_sent, "bytes_received",
                     (json_int_t)r->bytes_received, "pairs_visible", stats_json_count(r->pairs_visible), "pairs_worked",
                     stats_json_count(r->pairs_worked), "seconds", "compute", r->seconds_compute, "wait",
                     r->seconds_wait, "io", r->seconds_io, "total", r->seconds_total, "planned_peak_bytes",
                     (json_int_t)r->planned_peak_bytes, "peak_bytes", (json_int_t)r->peak_bytes, "rss_peak_bytes",
                     (json_int_t)r->rss_peak_bytes, "lent_bytes", (json_int_t)r->lent_bytes);
}

/* A run in one piece is a rank that nothing came to. */
static json_t *ranks_array(const run_record *record, const totals *t)
{
    json_t *array = json_array();
    if (record->ranks)
        for (int rank = 0; rank < record->ring->ranks; rank++)
            json_array_append_new(array, rank_object(&record->ranks[rank]));
    else {
        ra_rank_stats only = RA_RANK_STATS_INIT;
        only.q_rows = record->problem->q_len;
        only.kv_rows = record->problem->kv_len;
        only.pairs_visible = t->pairs_visible;
        only.pairs_worked = t->pairs_worked;
        only.seconds_compute = only.seconds_total = t->seconds;
        only.planned_peak_bytes = t->planned;
        only.peak_bytes = t->peak;
        only.rss_peak_bytes = probe_resident_peak();
        json_array_append_new(array, rank_object(&only));
    }
    return array;
}

/* A checksum is a text: not every reader of JSON has integers of 64 bits. */
static json_t *null_object(const sampled_result *result)
{
    char checksum[20];
    snprintf(checksum, sizeof checksum, "%016" PRIx64, result->file->null.checksum);
    return json_pack("{s:s, s:I, s:f, s:f}", "checksum", checksum, "rows_checked", (json_int_t)result->count,
                     "largest_error", result->error, "tolerance", result->tolerance);
}

/* Fields of results that are kept nowhere: "output", "query_gradient". */
static int add_nulls(json_t *root, const null_outputs *nulls)
{
    int failed = 0;
    for (int i = 0; i < nulls->count && !failed; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s", nulls->results[i].name);
        for (char *blank = name; (blank = strchr(blank, ' '));)
            *blank = '_';
        if (nulls->results[i].elements)
            failed = json_object_set_new(root, name, null_object(&nulls->results[i]));
    }
    return failed;
}

static json_t *seconds_object(const run_record *record, const totals *t)
{
    json_t *seconds = json_pack("{s:f, s:f}", "compute", t->seconds, "total", record->seconds_total);
    if (record->backward)
        json_object_set_new(seconds, "forward", json_real(record->seconds_forward));
    return seconds;
}

int stats_json_write(const run_record *record, FILE *stream)
{
    totals t = record->stats ? of_one_piece(record->stats) : of_ranks(record);
    double gflops = t.seconds > 0 ? 1e-9 * t.flops / t.seconds : 0;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    describe(record, &info);
    /* 'o' takes the reference, also when packing fails; a NULL part makes it fail. */
    json_t *root =
        json_pack("{s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:f, s:o, s:o}", "problem", problem_object(record), "run",
                  run_object(record, &t), "seconds", seconds_object(record, &t), "flops", stats_json_count(t.flops),
                  "gflops", gflops, "tiles", stats_json_count(t.tiles), "pairs_visible",
                  stats_json_count(t.pairs_visible), "pairs_worked", stats_json_count(t.pairs_worked), "density",
                  info.density, "memory", memory_object(&t), "ranks", ranks_array(record, &t));
    int failed = !root || add_nulls(root, record->nulls) ||
                 json_dumpf(root, stream, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) || fputc('\n', stream) < 0;
    json_decref(root);
    return failed ? -1 : 0;
}
