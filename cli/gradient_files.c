/* SPDX-License-Identifier: Apache-2.0 */
/* Opens what a gradient is computed from, and knows the shapes of gradients. See gradient_files.h. */
#include "gradient_files.h"

#include "report.h"

#include <string.h>

static const struct {
    const char *option, *name, *tensor;
} NAMES[GRADIENTS] = {
    [RA_GRADIENT_QUERY] = {"query-gradient", "query gradient", "query_gradient"},
    [RA_GRADIENT_KEY] = {"key-gradient", "key gradient", "key_gradient"},
    [RA_GRADIENT_VALUE] = {"value-gradient", "value gradient", "value_gradient"},
};

const char *gradient_option(int gradient)
{
    return NAMES[gradient].option;
}

const char *gradient_name(int gradient)
{
    return NAMES[gradient].name;
}

void gradient_files_options(gradient_files *files, arg_option options[GRADIENT_OPTIONS])
{
    const arg_option table[GRADIENT_OPTIONS] = {
        {.name = "output-gradient",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &files->output_gradient_path,
         .help = "gradient of the loss with respect to the output, in the output's shape; or gen:SEED"},
        {.name = "lse-gradient",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &files->lse_gradient_path,
         .help = "gradient of the loss with respect to the log-sum-exp, if the loss uses it: float32\n"
                 "[batch, heads, q_len]; or gen:SEED"},
        {.name = NAMES[RA_GRADIENT_QUERY].option,
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &files->paths[RA_GRADIENT_QUERY]},
        {.name = NAMES[RA_GRADIENT_KEY].option,
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &files->paths[RA_GRADIENT_KEY]},
        {.name = NAMES[RA_GRADIENT_VALUE].option,
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &files->paths[RA_GRADIENT_VALUE]},
    };
    memcpy(options, table, sizeof table);
}

bool gradient_files_any(const gradient_files *files)
{
    return files->paths[RA_GRADIENT_QUERY] || files->paths[RA_GRADIENT_KEY] || files->paths[RA_GRADIENT_VALUE];
}

int gradient_files_check(const gradient_files *files, bool others)
{
    const char *alone = files->output_path ? files->output_path : files->lse_path;
    if (!files->output_gradient_path)
        return report(EXIT_USAGE, "--output-gradient FILE is missing: see ringattn %s --help", report_current_verb());
    if (!others && !gradient_files_any(files))
        return report(
            EXIT_USAGE,
            "--output-gradient %s: which gradients? give --query-gradient, --key-gradient or --value-gradient",
            files->output_gradient_path);
    if (!files->output_path != !files->lse_path)
        return report(EXIT_USAGE,
                      "--%s %s: a gradient needs --output and --lse of the same forward pass: give --%s too, or leave "
                      "both out to have the forward pass run first",
                      files->output_path ? "output" : "lse", alone, files->output_path ? "lse" : "output");
    return EXIT_OK;
}

/* Open a file, or the made-up tensor in its place. */
static int open_gradient(const char *option, const char *path, tensor_axes axes, const gen_args *gen,
                         const tensor_shape *s, tensor_file *file)
{
    if (!gen_named(path))
        return tensor_file_open(file, path, axes);
    bool inside = axes == AXES_BSHD; /* heads inside positions */
    const int64_t shape[] = {s->batch, inside ? s->seq : s->heads, inside ? s->heads : s->seq, s->dim};
    return gen_open_shape(gen, option, path, axes, s->dims, axes != AXES_BHS && s->dims == 3 ? shape + 1 : shape, file);
}

int gradient_files_open(gradient_files *files, const attention_files *in, const ra_problem *p)
{
    tensor_axes axes = (tensor_axes)in->layout;
    const tensor_shape output = output_shape(in, RA_F32), lse = lse_shape(in);
    int code = tensor_file_open(&files->output, files->output_path, axes);
    if (!code)
        code = tensor_file_open(&files->lse, files->lse_path, AXES_BHS);
    if (!code)
        code = open_gradient("output-gradient", files->output_gradient_path, axes, &in->gen, &output,
                             &files->output_gradient);
    if (!code)
        code = open_gradient("lse-gradient", files->lse_gradient_path, AXES_BHS, &in->gen, &lse, &files->lse_gradient);
    if (!code)
        code = tensor_file_expect(&files->output, p->batch, p->q_len, p->heads, p->value_dim);
    if (!code)
        code = tensor_file_expect(&files->lse, p->batch, p->q_len, p->heads, 1);
    if (!code)
        code = tensor_file_expect(&files->output_gradient, p->batch, p->q_len, p->heads, p->value_dim);
    return code ? code : tensor_file_expect(&files->lse_gradient, p->batch, p->q_len, p->heads, 1);
}

void gradient_files_hold_forward(gradient_files *files, const attention_files *in)
{
    const tensor_shape output = output_shape(in, in->query.tensor.dtype), lse = lse_shape(in);
    tensor_file_hold(&files->output, "the output of the forward pass", (tensor_axes)in->layout, &output);
    tensor_file_hold(&files->lse, "the log-sum-exp of the forward pass", AXES_BHS, &lse);
}

int gradient_files_forward(gradient_files *files, const attention_files *in, const ra_plan *plan, progress *bar,
                           double *seconds)
{
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_stats stats = RA_STATS_INIT;
    if (ra_plan_describe(plan, &info))
        return report_refusal();
    progress_start(bar, "forward", "Gflop/s", info.pairs_visible > 0 ? 1e-9 * info.flops / info.pairs_visible : 0);
    ra_status status = ra_forward(plan, &in->query.tensor, &in->key.tensor, &in->value.tensor, &files->output.tensor,
                                  &files->lse.tensor, &stats);
    progress_end(bar);
    if (seconds)
        *seconds = stats.seconds_compute;
    return status ? report_failure(status) : EXIT_OK;
}

tensor_shape gradient_shape(int gradient, const attention_files *in)
{
    const tensor_file *const of[GRADIENTS] = {&in->query, &in->key, &in->value};
    const ra_tensor *t = &of[gradient]->tensor;
    return (tensor_shape){NAMES[gradient].tensor, of[gradient]->dims, t->dtype, t->batch, t->seq, t->heads, t->dim};
}

void gradient_files_close(gradient_files *files)
{
    tensor_file_close(&files->output);
    tensor_file_close(&files->lse);
    tensor_file_close(&files->output_gradient);
    tensor_file_close(&files->lse_gradient);
    for (int i = 0; i < GRADIENTS; i++)
        tensor_file_close(&files->gradients[i]);
}
