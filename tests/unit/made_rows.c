/* SPDX-License-Identifier: Apache-2.0 */
/* Makes rows of a benchmark. See made_rows.h. */
#include "made_rows.h"

#include "support/unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char * or (const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}

static int or_one(int number)
{
    return number ? number : 1;
}

static void add_results(json_t *row, const made_row *m)
{
    double flops = 4.0 * m->length * m->length * 64;
    if (m->seconds > 0) {
        json_object_set_new(row, "seconds",
                            json_pack("{s:f, s:f, s:f, s:f, s:i, s:i}", "median", m->seconds, "low",
                                      m->seconds * (1 - m->spread / 2), "high", m->seconds * (1 + m->spread / 2),
                                      "spread", m->spread, "samples", or_one(m->samples), "quiet", 0));
        json_object_set_new(row, "flops", json_real(flops));
        json_object_set_new(row, "gflops", json_real(flops / m->seconds / 1e9));
        json_object_set_new(row, "tokens_per_second", json_real(m->length / m->seconds));
    }
    if (m->of_peak > 0)
        json_object_set_new(row, "of_peak", json_real(m->of_peak));
    json_t *memory = json_object();
    if (m->planned > 0)
        json_object_set_new(memory, "planned_peak_bytes", json_integer((json_int_t)m->planned));
    if (m->peak > 0)
        json_object_set_new(memory, "peak_bytes", json_integer((json_int_t)m->peak));
    json_object_set_new(row, "memory", memory);
}

static json_t *machine(const made_row *m)
{
    json_t *machine = json_pack("{s:s, s:i, s:I}", "processor", or (m->processor, "made up"), "cores", 4,
                                "memory_bytes", (json_int_t)1 << 34);
    if (m->peak_gflops > 0)
        json_object_set_new(machine, "peak_gflops", json_real(m->peak_gflops));
    if (m->bandwidth > 0)
        json_object_set_new(machine, "bandwidth_gbs", json_real(m->bandwidth));
    return machine;
}

char *made_row_line(const made_row *m)
{
    bool local = !m->strategy || strcmp(m->strategy, "local") == 0;
    json_t *row =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "schema", 1, "suite", or (m->suite, "kernel"), "case",
                  or (m->name, "a case"), "status", or (m->status, "ok"), "time", or (m->time, "2026-11-16T00:00:00Z"),
                  "method", or (m->method, "ringattn"), "version", "0.1.0", "compiler", "none");
    json_object_set_new(row, "problem",
                        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s}", "batch", 1, "q_len",
                                  or_one(m->length), "kv_len", or_one(m->length), "heads", 1, "kv_heads", 1, "head_dim",
                                  64, "value_dim", 64, "dtype", "float32", "pattern", or (m->pattern, "full")));
    json_object_set_new(row, "run",
                        json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:i}", "strategy", or (m->strategy, "local"),
                                  "transport", or (m->transport, local ? "none" : "sim"), "order", "contiguous",
                                  "tile_order", "row", "ring_size", or_one(m->ring_size), "hops", m->hops, "kernel",
                                  or (m->kernel, "avx2"), "threads", or_one(m->threads)));
    if (m->direction)
        json_object_set_new(json_object_get(row, "run"), "direction", json_string(m->direction));
    json_object_set_new(row, "machine", machine(m));
    add_results(row, m);
    char *line = json_dumps(row, JSON_COMPACT);
    json_decref(row);
    assert_non_null(line);
    return line;
}

static void refuse(void *user, const char *path, int line, const char *what)
{
    (void)user;
    fail_msg("%s:%d: %s", path, line, what);
}

void made_rows_add(rows *r, const made_row *m)
{
    char *line = made_row_line(m);
    FILE *stream = fmemopen(line, strlen(line), "r");
    assert_non_null(stream);
    assert_int_equal(rows_read_stream(r, stream, "made", refuse, NULL), 1);
    fclose(stream);
    free(line);
}
