/* SPDX-License-Identifier: Apache-2.0 */
/* ringattn generate: made-up tensors of any size, written in blocks. */
#include "commands.h"
#include "gen_input.h"
#include "interrupt.h"
#include "progress.h"
#include "report.h"

#include <stdlib.h>

enum { BLOCK_VALUES = 1 << 20 };

typedef struct generate_job {
    arg_shape shape;
    int64_t seed;
    int distribution; /* an ra_distribution */
    int dtype;        /* an ra_dtype */
    const char *output_path;
} generate_job;

static int parse(generate_job *job, int argc, char **argv)
{
    *job = (generate_job){.distribution = RA_NORMAL, .dtype = RA_F32};
    const arg_option options[] = {
        {.name = "shape",
         .kind = ARG_SHAPE,
         .metavar = "B,S,H,D",
         .required = true,
         .target = &job->shape,
         .help = "extents, 1 to 8 of them; 64K and 1M may be written"},
        {.name = "seed",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .required = true,
         .target = &job->seed,
         .max = INT64_MAX,
         .help = "seed: each value depends on the seed and its position alone"},
        {.name = "output",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &job->output_path,
         .help = "FILE.npy, or FILE.safetensors#NAME (NAME is output where it is left out)"},
        {.name = "distribution",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &job->distribution,
         .choices = gen_distributions,
         .help = "uniform or normal (default), zero mean and unit variance"},
        {.name = "dtype",
         .kind = ARG_DTYPE,
         .metavar = "NAME",
         .target = &job->dtype,
         .help = "float32 (default), float16 or bfloat16, which .npy files cannot hold"},
    };
    const arg_command command = {
        .verb = "generate",
        .summary = "Random tensors in files: the same values on every machine, in little memory.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .example = "ringattn generate --shape 1,1024,8,64 --seed 1 --output q.npy",
    };
    return args_parse(&command, argc, argv);
}

static ra_status write_blocks(const generate_job *job, ra_array *array, int64_t total, void *block)
{
    progress bar;
    ra_status status = RA_OK;
    progress_start(&bar, "generate", "M values/s", 1e-6);
    for (int64_t first = 0; first < total && !status; first += BLOCK_VALUES) {
        int64_t count = total - first < BLOCK_VALUES ? total - first : BLOCK_VALUES;
        status = ra_generate_as((ra_distribution)job->distribution, (uint64_t)job->seed, first, count,
                                (ra_dtype)job->dtype, block);
        if (!status)
            status = ra_array_write(array, first, count, block);
        if (!status && progress_step(&bar, (double)(first + count), (double)total))
            status = RA_ERROR_CANCELLED;
    }
    progress_end(&bar);
    return status;
}

int cmd_generate(int argc, char **argv)
{
    generate_job job;
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    if (ra_array_create(job.output_path, (ra_dtype)job.dtype, job.shape.dims, job.shape.extents, &array) ||
        ra_array_describe(array, &info)) {
        ra_array_close(array);
        return report_refusal();
    }
    int cleaned = tensor_file_cleans(job.output_path);
    size_t bytes = BLOCK_VALUES * ra_dtype_size((ra_dtype)job.dtype);
    void *block = malloc(bytes);
    if (!block) {
        code = report(EXIT_USAGE, "out of memory: %zu bytes for a block", bytes);
    } else {
        ra_status status = write_blocks(&job, array, info.count, block);
        if (!status)
            status = ra_array_commit(array);
        code = status ? report_failure(status) : EXIT_OK;
    }
    free(block);
    interrupt_forget(cleaned);
    ra_array_close(array);
    return code;
}
