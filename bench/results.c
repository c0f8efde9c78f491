/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the rows of a benchmark as lines of JSON, one whole line at a time. They are read by report/rows.c. See
 * results.h.
 */
#include "results.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct results {
    FILE *file; /* NULL: rows go nowhere */
    const char *path, *mpi;
    ra_system_info machine;
    double bandwidth;
    bool failed;
};

int results_open(const bench_options *options, results **opened)
{
    results *r = *opened = calloc(1, sizeof *r);
    if (!r) {
        fprintf(stderr, "ringattn bench: out of memory\n");
        return 2;
    }
    r->machine = (ra_system_info)RA_SYSTEM_INFO_INIT;
    r->path = options->output;
    r->mpi = options->mpi;
    if (ra_system_describe(&r->machine))
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
    else if (r->path && !(r->file = fopen(r->path, "a")))
        fprintf(stderr, "ringattn bench: %s: cannot be written: %s\n", r->path, strerror(errno));
    else
        return 0;
    free(r);
    *opened = NULL;
    return 2;
}

int results_open_here(const bench_options *options, ra_system_info *machine, results **opened)
{
    if (!ra_system_describe(machine))
        return results_open(options, opened);
    fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
    return 2;
}

void results_bandwidth(results *r, double bandwidth)
{
    r->bandwidth = bandwidth;
}

/* ---- Parts of a row ---------------------------------------------------------------------------------------------- */

/* jansson has no names for what is not a number: such a field is left out. */
static void set_real(json_t *object, const char *name, double value)
{
    if (isfinite(value))
        json_object_set_new(object, name, json_real(value));
}

static void set_positive(json_t *object, const char *name, double value)
{
    if (value > 0)
        set_real(object, name, value);
}

static void set_bytes(json_t *object, const char *name, int64_t bytes)
{
    if (bytes > 0)
        json_object_set_new(object, name, json_integer((json_int_t)bytes));
}

static int64_t meant(int64_t value, int64_t same)
{
    return value == RA_SAME ? same : value;
}

static json_t *problem_of(const result_row *row)
{
    const ra_problem *p = &row->problem;
    json_t *problem = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "batch", (json_int_t)p->batch, "q_len",
                                (json_int_t)p->q_len, "kv_len", (json_int_t)meant(p->kv_len, p->q_len), "heads",
                                (json_int_t)p->heads, "kv_heads", (json_int_t)meant(p->kv_heads, p->heads), "head_dim",
                                (json_int_t)p->head_dim, "value_dim", (json_int_t)meant(p->value_dim, p->head_dim),
                                "dtype", ra_dtype_name(row->dtype), "pattern", p->pattern ? p->pattern : "full");
    if (p->scores)
        json_object_set_new(problem, "scores", json_string(p->scores));
    return problem;
}

static json_t *run_of(const result_row *row)
{
    json_t *run =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:s, s:i}", "direction", row->backward ? "backward" : "forward",
                  "strategy", row->strategy ? row->strategy : "local", "transport",
                  row->transport ? row->transport : "none", "order", ra_order_name(row->order), "tile_order",
                  ra_tile_order_name(row->tiles), "ring_size", row->ring_size ? row->ring_size : 1, "hops",
                  (json_int_t)row->hops, "kernel", ra_kernel_name(row->kernel), "threads", row->threads);
    set_bytes(run, "bytes_received", row->bytes_received);
    return run;
}

static json_t *seconds_of(const sampling_result *s)
{
    json_t *seconds = json_pack("{s:i, s:i}", "samples", s->count, "quiet", s->quiet);
    set_real(seconds, "median", s->seconds);
    set_real(seconds, "low", s->low);
    set_real(seconds, "high", s->high);
    set_real(seconds, "spread", (s->high - s->low) / s->seconds);
    return seconds;
}

static void add_speed(json_t *object, const result_row *row)
{
    const sampling_result *s = &row->seconds;
    set_positive(object, "flops", row->flops);
    if (!s->count)
        return;
    json_object_set_new(object, "seconds", seconds_of(s));
    set_positive(object, "gflops", 1e-9 * row->flops / s->seconds);
    set_positive(object, "tokens_per_second", (double)(row->problem.batch * row->problem.q_len) / s->seconds);
    if (row->of_peak)
        set_positive(object, "of_peak", s->ratio);
}

static void add_memory(json_t *object, const result_row *row)
{
    json_t *memory = json_object();
    set_bytes(memory, "planned_peak_bytes", row->planned_bytes);
    set_bytes(memory, "peak_bytes", row->peak_bytes);
    set_bytes(memory, "rss_peak_bytes", row->resident_bytes);
    json_object_set_new(object, "memory", memory);
}

/* An error that is not a number is as large as can be written. */
static void add_error(json_t *object, const result_row *row)
{
    if (row->rows)
        json_object_set_new(object, "error",
                            json_pack("{s:f, s:f, s:i}", "largest", isfinite(row->error) ? row->error : 1e308,
                                      "tolerance", row->tolerance, "rows", row->rows));
}

static void add_comparisons(json_t *object, const result_row *row)
{
    if (row->against && isfinite(row->against_value)) {
        json_t *against = json_pack("{s:s, s:f}", "what", row->against, "value", row->against_value);
        set_positive(against, "goal", row->goal);
        json_object_set_new(object, "against", against);
    }
    set_positive(object, "predicted_seconds", row->predicted_seconds);
    const published_figure *p = row->published;
    if (p) {
        json_t *published = json_pack("{s:s, s:s, s:s, s:s, s:s}", "where", p->where, "device", p->device, "dtype",
                                      p->dtype, "includes", p->includes, "wrong", p->wrong);
        set_positive(published, "seconds", p->seconds);
        set_positive(published, "tokens_per_second", p->seconds > 0 ? (double)p->tokens / p->seconds : 0);
        set_positive(published, "memory_bytes", p->memory_bytes);
        json_object_set_new(object, "published", published);
    }
    json_t *figures = json_object();
    for (int i = 0; i < RESULT_FIGURES && row->figures[i].name; i++)
        set_real(figures, row->figures[i].name, row->figures[i].value);
    json_object_set_new(object, "figures", figures);
}

static json_t *machine_of(const results *r, const result_row *row)
{
    json_t *machine = json_pack("{s:s, s:i, s:I}", "processor", r->machine.processor, "cores", r->machine.cores,
                                "memory_bytes", (json_int_t)r->machine.memory_bytes);
    set_positive(machine, "peak_gflops", 1e-9 * row->seconds.peak);
    set_positive(machine, "bandwidth_gbs", 1e-9 * r->bandwidth);
    return machine;
}

static json_t *object_of(const results *r, const result_row *row)
{
    char now[32];
    time_t clock = time(NULL);
    struct tm day;
    const char *reason = row->reason;
    if (!reason && row->rows && !(row->error <= row->tolerance))
        reason = "out of tolerance";
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&clock, &day));
    json_t *object = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "schema", 1, "suite", row->suite, "case",
                               row->name, "status", reason ? "failed" : "ok", "time", now, "method",
                               row->method ? row->method : "ringattn", "problem", problem_of(row), "run", run_of(row));
    if (!object)
        return NULL;
    if (reason)
        json_object_set_new(object, "reason", json_string(reason));
    add_speed(object, row);
    add_memory(object, row);
    add_error(object, row);
    add_comparisons(object, row);
    json_object_set_new(object, "machine", machine_of(r, row));
    json_object_set_new(object, "version", json_string(ra_version()));
    json_object_set_new(object, "compiler", json_string(r->machine.compiler));
    if (r->mpi)
        json_object_set_new(object, "mpi", json_string(r->mpi));
    return object;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* In one piece, so that a run that is killed leaves whole lines. */
static int write_line(FILE *file, const json_t *object)
{
    char *line = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    int failed = !line || fprintf(file, "%s\n", line) < 0 || fflush(file) != 0;
    free(line);
    return failed;
}

void results_add(results *r, const result_row *row)
{
    if (!r->file || r->failed)
        return;
    json_t *object = object_of(r, row);
    if (write_line(r->file, object)) {
        fprintf(stderr, "ringattn bench: %s: the row of %s cannot be written: %s\n", r->path, row->name,
                strerror(errno));
        r->failed = true;
    }
    json_decref(object);
}

int results_close(results *r)
{
    if (!r)
        return 0;
    int failed = r->failed || (r->file && fclose(r->file) != 0);
    free(r);
    return failed;
}

void result_figure(result_row *row, const char *name, double value)
{
    for (int i = 0; i < RESULT_FIGURES; i++)
        if (!row->figures[i].name) {
            row->figures[i].name = name;
            row->figures[i].value = value;
            return;
        }
}
