#include "stats_json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Counts are doubles in the API, because they may pass 2^63; up to there they are written as the integers they are. */
static json_t *count(double value)
{
    return value < 0x1p63 ? json_integer((json_int_t)value) : json_real(value);
}

/* The largest resident set so far, by the operating system's own account; 0 if it does not tell. */
static int64_t resident_peak_bytes(void)
{
    char line[256];
    long long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    if (!status)
        return 0;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1)
            break;
    fclose(status);
    return kib * 1024;
}

static json_t *problem_object(const run_record *record)
{
    const ra_problem *p = record->problem;
    double scale = p->scale == RA_SCALE_DEFAULT ? 1 / sqrt((double)p->head_dim) : p->scale;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s, s:s}", "batch", (json_int_t)p->batch, "q_len",
                     (json_int_t)p->q_len, "kv_len", (json_int_t)p->kv_len, "heads", (json_int_t)p->heads, "kv_heads",
                     (json_int_t)p->kv_heads, "head_dim", (json_int_t)p->head_dim, "value_dim",
                     (json_int_t)p->value_dim, "scale", scale, "pattern", p->pattern, "dtype",
                     ra_dtype_name(record->dtype), "layout", record->layout == RA_BSHD ? "bshd" : "bhsd");
}

static json_t *run_object(const ra_stats *stats)
{
    return json_pack("{s:s, s:i, s:s, s:s}", "kernel", ra_kernel_name(stats->kernel), "threads", stats->threads,
                     "variant", stats->variant == RA_VARIANT_DECODE ? "decode" : "tile", "version", ra_version());
}

static json_t *memory_object(const ra_stats *stats)
{
    return json_pack("{s:I, s:I, s:I}", "planned_peak_bytes", (json_int_t)stats->planned_peak_bytes, "peak_bytes",
                     (json_int_t)stats->peak_bytes, "rss_peak_bytes", (json_int_t)resident_peak_bytes());
}

int stats_json_write(const run_record *record, FILE *stream)
{
    const ra_stats *s = record->stats;
    double gflops = s->seconds_compute > 0 ? 1e-9 * s->flops / s->seconds_compute : 0;
    /* 'o' takes the reference, also when packing fails; a NULL part makes it fail. */
    json_t *root =
        json_pack("{s:o, s:o, s:{s:f, s:f}, s:o, s:f, s:o, s:o, s:o, s:o}", "problem", problem_object(record), "run",
                  run_object(s), "seconds", "compute", s->seconds_compute, "total", record->seconds_total, "flops",
                  count(s->flops), "gflops", gflops, "tiles", count(s->tiles), "pairs_visible", count(s->pairs_visible),
                  "pairs_worked", count(s->pairs_worked), "memory", memory_object(s));
    int failed = !root || json_dumpf(root, stream, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) || fputc('\n', stream) < 0;
    json_decref(root);
    return failed ? -1 : 0;
}
