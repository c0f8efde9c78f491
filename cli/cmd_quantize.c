/* SPDX-License-Identifier: Apache-2.0 */
/* ringattn quantize: a tensor of keys or values as 8 bits with a scale for each row and head, a block of rows at a
 * time. */
#include "args.h"
#include "commands.h"
#include "interrupt.h"
#include "progress.h"
#include "report.h"
#include "tensor_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_VALUES = 1 << 20, PARTS = 2 };

typedef struct quantize_job {
    const char *input_path, *output_path;
    ra_array *input, *output;
    ra_array_info info;
    int64_t rows, dim; /* the last axis, and all others */
    int64_t block;     /* rows at a time */
    void *elements;
    int8_t *data;
    float *scales;
} quantize_job;

static int parse(quantize_job *job, int argc, char **argv)
{
    *job = (quantize_job){.info = RA_ARRAY_INFO_INIT};
    const arg_option options[] = {
        {.name = "input",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &job->input_path,
         .help = "keys or values: FILE.npy or FILE.safetensors#NAME, float32, float16 or bfloat16, in\n"
                 "any layout whose last axis is the head dim"},
        {.name = "output",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &job->output_path,
         .help = "FILE.safetensors: the tensors data (int8) and scale (float32, last axis 1)"},
    };
    const arg_command command = {
        .verb = "quantize",
        .summary =
            "Keys or values as 8 bits. For each row and head: scale = largest magnitude / 127, data = row / scale.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .notes = "An element changes by half a scale at most. --key and --value of ringattn attend and\n"
                 "ringattn check take such a file.",
        .example = "ringattn quantize --input k.npy --output k8.safetensors",
    };
    return args_parse(&command, argc, argv);
}

static bool floating(ra_dtype dtype)
{
    return dtype == RA_F32 || dtype == RA_F16 || dtype == RA_BF16;
}

static int open_input(quantize_job *job)
{
    if (ra_array_open(job->input_path, &job->input) || ra_array_describe(job->input, &job->info))
        return report_refusal();
    const ra_array_info *info = &job->info;
    if (!floating(info->dtype))
        return report(EXIT_USAGE, "%s: dtype %s: expected float32, float16 or bfloat16", job->input_path,
                      ra_dtype_name(info->dtype));
    job->dim = info->dims ? info->shape[info->dims - 1] : 0;
    if (job->dim < 1)
        return report(EXIT_USAGE, "%s: %s", job->input_path, info->dims ? "rows of 0 elements" : "has no dimensions");
    job->rows = info->count / job->dim;
    job->block = job->dim < BLOCK_VALUES ? BLOCK_VALUES / job->dim : 1;
    return EXIT_OK;
}

/* Scales come first in the file, because they are aligned to more bytes. */
static int create_output(quantize_job *job)
{
    static const ra_dtype dtypes[PARTS] = {RA_F32, RA_I8};
    ra_array_part parts[PARTS] = {{"scale", job->info.dims, {0}}, {"data", job->info.dims, {0}}};
    for (int i = 0; i < job->info.dims; i++)
        parts[0].shape[i] = parts[1].shape[i] = job->info.shape[i];
    parts[0].shape[job->info.dims - 1] = 1;
    return ra_array_create_mixed(job->output_path, PARTS, parts, dtypes, &job->output) ? report_refusal() : EXIT_OK;
}

static int take_memory(quantize_job *job)
{
    size_t values = (size_t)(job->block * job->dim);
    job->elements = malloc(values * ra_dtype_size(job->info.dtype));
    job->data = malloc(values);
    job->scales = malloc((size_t)job->block * sizeof *job->scales);
    return job->elements && job->data && job->scales ? EXIT_OK : report(EXIT_USAGE, "out of memory: a block of rows");
}

/* Where the first number is that has no 8 bits, in the file's own indices. */
static int report_not_finite(const quantize_job *job, int64_t first, const ra_tensor *rows)
{
    char place[256] = "";
    int64_t at = 0;
    while (isfinite(ra_tensor_get(rows, 0, at / job->dim, 0, at % job->dim)))
        at++;
    double x = ra_tensor_get(rows, 0, at / job->dim, 0, at % job->dim);
    int64_t left = first * job->dim + at, inner = job->info.count;
    for (int i = 0; i < job->info.dims; i++) {
        size_t used = strlen(place);
        inner /= job->info.shape[i];
        snprintf(place + used, sizeof place - used, "%s%lld", i ? ", " : "", (long long)(left / inner));
        left %= inner;
    }
    return report(EXIT_USAGE, "%s: element [%s] is %s: 8 bits have finite numbers alone", job->input_path, place,
                  x != x  ? "nan"
                  : x > 0 ? "inf"
                          : "-inf");
}

static int quantize_block(quantize_job *job, int64_t first, int64_t count)
{
    const ra_tensor rows = ra_tensor_dense(job->elements, job->info.dtype, RA_BSHD, 1, count, 1, job->dim);
    const ra_tensor data = ra_tensor_dense(job->data, RA_I8, RA_BSHD, 1, count, 1, job->dim);
    const ra_tensor scale = ra_tensor_dense(job->scales, RA_F32, RA_BSHD, 1, count, 1, 1);
    const int64_t wide = (int64_t)sizeof(float), data_at = job->rows * wide;
    ra_status status = ra_array_read(job->input, first * job->dim, count * job->dim, job->elements);
    if (!status && ra_quantize_rows(&rows, &data, &scale))
        return report_not_finite(job, first, &rows);
    if (!status)
        status = ra_array_write(job->output, first * wide, count * wide, job->scales);
    if (!status)
        status = ra_array_write(job->output, data_at + first * job->dim, count * job->dim, job->data);
    return status ? report_failure(status) : EXIT_OK;
}

static int quantize_blocks(quantize_job *job)
{
    progress bar;
    int code = EXIT_OK;
    progress_start(&bar, "quantize", "M values/s", 1e-6);
    for (int64_t first = 0; first < job->rows && !code; first += job->block) {
        int64_t count = job->rows - first < job->block ? job->rows - first : job->block;
        code = quantize_block(job, first, count);
        if (!code && progress_step(&bar, (double)(first + count) * (double)job->dim, (double)job->info.count))
            code = report_failure(RA_ERROR_CANCELLED);
    }
    progress_end(&bar);
    return code;
}

static int quantize(quantize_job *job)
{
    int code = open_input(job);
    if (!code)
        code = create_output(job);
    if (code)
        return code;
    int cleaned = tensor_file_cleans(job->output_path);
    code = take_memory(job);
    if (!code)
        code = quantize_blocks(job);
    if (!code) {
        ra_status status = ra_array_commit(job->output);
        code = status ? report_failure(status) : EXIT_OK;
    }
    interrupt_forget(cleaned);
    return code;
}

int cmd_quantize(int argc, char **argv)
{
    quantize_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    code = quantize(&job);
    ra_array_close(job.input);
    ra_array_close(job.output);
    free(job.elements);
    free(job.data);
    free(job.scales);
    return code;
}
