/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses gen:SEED and its options, and makes a tensor without a file of it. The data itself: src/io/generator.c. See
 * gen_input.h.
 */
#include "gen_input.h"

#include "report.h"

#include <stdio.h>
#include <string.h>

static const char PREFIX[] = "gen:";
const char *const gen_distributions[] = {[RA_UNIFORM] = "uniform", [RA_NORMAL] = "normal", NULL};

void gen_args_options(gen_args *args, arg_option options[GEN_OPTIONS])
{
    *args = (gen_args){.distribution = -1, .dtype = -1};
    const arg_option table[GEN_OPTIONS] = {
        {.name = "shape",
         .kind = ARG_SHAPE,
         .metavar = "B,S,H,D",
         .target = &args->shape,
         .help = "shape of made-up inputs: gen:SEED in place of a file is what ringattn generate writes\n"
                 "for this shape (axes as in --layout) and this seed; it takes no disk"},
        {.name = "kv-shape",
         .kind = ARG_SHAPE,
         .metavar = "B,S,H,D",
         .target = &args->kv_shape,
         .help = "shape of made-up keys and values, if it differs"},
        {.name = "distribution",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &args->distribution,
         .choices = gen_distributions,
         .help = "values of made-up inputs: uniform or normal (default), zero mean and unit variance"},
        {.name = "dtype",
         .kind = ARG_DTYPE,
         .metavar = "NAME",
         .target = &args->dtype,
         .help = "dtype of made-up inputs: float32 (default), float16 or bfloat16"},
    };
    memcpy(options, table, sizeof table);
}

bool gen_named(const char *path)
{
    return path && strncmp(path, PREFIX, sizeof PREFIX - 1) == 0;
}

int gen_seed(const char *option, const char *path, uint64_t *seed)
{
    int64_t value;
    if (!gen_named(path) || !args_read_integer(path + sizeof PREFIX - 1, &value))
        return report(EXIT_USAGE, "--%s %s: expected gen:SEED, with a whole number 0..%lld such as gen:1", option, path,
                      (long long)INT64_MAX);
    *seed = (uint64_t)value;
    return EXIT_OK;
}

static const char *shape_text(const arg_shape *shape, char *text, size_t size)
{
    int used = 0;
    for (int i = 0; i < shape->dims && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%lld", i ? "," : "", (long long)shape->extents[i]);
    return text;
}

static int refuse_shape(const char *option, const arg_shape *shape, const char *why)
{
    char text[192];
    return report(EXIT_USAGE, "--%s %s: %s", option, shape_text(shape, text, sizeof text), why);
}

int gen_args_check(const gen_args *args, const char *query, const char *key, const char *value, bool others)
{
    bool keys = gen_named(key) || gen_named(value), any = keys || gen_named(query);
    if (!any && args->shape.dims)
        return refuse_shape("shape", &args->shape,
                            "the inputs are files, which have shapes of their own: leave it out, or give gen:SEED in "
                            "place of a file");
    if (!keys && args->kv_shape.dims)
        return refuse_shape("kv-shape", &args->kv_shape,
                            "neither --key nor --value is gen:SEED: leave it out, or make one of them up");
    if (args->shape.dims && args->kv_shape.dims && !gen_named(query))
        return refuse_shape("shape", &args->shape,
                            "--query is a file, and --kv-shape is given for the keys and values: leave it out");
    if (!any && !others && (args->distribution >= 0 || args->dtype >= 0))
        return report(EXIT_USAGE, "--%s %s: is of made-up inputs, and all of them are files: leave it out",
                      args->distribution >= 0 ? "distribution" : "dtype",
                      args->distribution >= 0 ? gen_distributions[args->distribution]
                                              : ra_dtype_name((ra_dtype)args->dtype));
    return EXIT_OK;
}

int gen_open_shape(const gen_args *args, const char *option, const char *path, tensor_axes axes, int dims,
                   const int64_t *shape, tensor_file *file)
{
    uint64_t seed = 0;
    int code = gen_seed(option, path, &seed);
    if (code)
        return code;
    ra_dtype dtype = args->dtype < 0 || axes == AXES_BHS ? RA_F32 : (ra_dtype)args->dtype;
    ra_distribution distribution = args->distribution < 0 ? RA_NORMAL : (ra_distribution)args->distribution;
    return tensor_file_generate(file, path, axes, dtype, dims, shape, distribution, seed);
}

int gen_open(const gen_args *args, const char *option, bool keys, const char *path, tensor_axes axes, tensor_file *file)
{
    uint64_t seed = 0;
    int code = gen_seed(option, path, &seed);
    if (code)
        return code;
    bool own = keys && args->kv_shape.dims;
    const arg_shape *shape = own ? &args->kv_shape : &args->shape;
    if (!shape->dims)
        return report(EXIT_USAGE, "--%s %s: of which shape? give --shape B,S,H,D%s", option, path,
                      keys ? ", or --kv-shape B,S,H,D" : "");
    if (shape->dims != 3 && shape->dims != 4)
        return refuse_shape(own ? "kv-shape" : "shape", shape, "expected 4 numbers, or 3 for a batch of 1");
    return gen_open_shape(args, option, path, axes, shape->dims, shape->extents, file);
}
