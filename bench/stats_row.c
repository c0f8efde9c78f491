/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a benchmark's row from the JSON that cli/stats_json.c wrote in a child process. See stats_row.h. */
#include "stats_row.h"

#include <string.h>

int64_t stats_integer(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

double stats_real(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static const char *text(const json_t *object, const char *name)
{
    const char *found = json_string_value(json_object_get(object, name));
    return found ? found : "";
}

/* The number of a name, of those that `name_of` has for 0, 1, ... */
#define NUMBER_OF(type, name_of, count, name)                                                                          \
    static type name(const char *wanted)                                                                               \
    {                                                                                                                  \
        for (int i = 0; i < (count); i++)                                                                              \
            if (strcmp(name_of((type)i), wanted) == 0)                                                                 \
                return (type)i;                                                                                        \
        return (type)0;                                                                                                \
    }
NUMBER_OF(ra_dtype, ra_dtype_name, 3, dtype_of)
NUMBER_OF(ra_order, ra_order_name, 3, order_of)
NUMBER_OF(ra_tile_order, ra_tile_order_name, 3, tile_order_of)
NUMBER_OF(ra_kernel_id, ra_kernel_name, RA_KERNEL_AVX512BF16 + 1, kernel_of)

static void add_problem(const json_t *p, result_row *row)
{
    row->problem = (ra_problem)RA_PROBLEM_INIT;
    row->problem.batch = stats_integer(p, "batch");
    row->problem.q_len = stats_integer(p, "q_len");
    row->problem.kv_len = stats_integer(p, "kv_len");
    row->problem.heads = stats_integer(p, "heads");
    row->problem.kv_heads = stats_integer(p, "kv_heads");
    row->problem.head_dim = stats_integer(p, "head_dim");
    row->problem.value_dim = stats_integer(p, "value_dim");
    row->problem.pattern = text(p, "pattern");
    row->dtype = dtype_of(text(p, "dtype"));
}

static void add_run(const json_t *stats, result_row *row)
{
    const json_t *run = json_object_get(stats, "run"), *rank;
    size_t i;
    row->strategy = text(run, "strategy");
    row->transport = text(run, "transport");
    row->order = order_of(text(run, "order"));
    row->tiles = tile_order_of(text(run, "tile_order"));
    row->ring_size = (int)stats_integer(run, "ring_size");
    row->kernel = kernel_of(text(run, "kernel"));
    row->threads = (int)stats_integer(run, "threads");
    json_array_foreach(json_object_get(stats, "ranks"), i, rank)
    {
        row->hops += stats_integer(rank, "hops");
        row->bytes_received += stats_integer(rank, "bytes_received");
    }
}

void stats_row(const json_t *stats, result_row *row)
{
    const json_t *memory = json_object_get(stats, "memory"), *output = json_object_get(stats, "output");
    double seconds = stats_real(json_object_get(stats, "seconds"), "total");
    add_problem(json_object_get(stats, "problem"), row);
    add_run(stats, row);
    row->seconds = (sampling_result){.seconds = seconds, .low = seconds, .high = seconds, .count = 1};
    row->flops = stats_real(stats, "flops");
    row->planned_bytes = stats_integer(memory, "planned_peak_bytes");
    row->peak_bytes = stats_integer(memory, "peak_bytes");
    row->resident_bytes = stats_integer(memory, "rss_peak_bytes");
    row->rows = (int)stats_integer(output, "rows_checked");
    row->error = stats_real(output, "largest_error");
    row->tolerance = stats_real(output, "tolerance");
}
