#include "attention_files.h"

#include "report.h"

#include <string.h>

void attention_files_options(attention_files *files, arg_option options[ATTENTION_OPTIONS])
{
    static const char *const LAYOUTS[] = {"bshd", "bhsd", NULL};
    *files = (attention_files){.pattern = "full", .scale = RA_SCALE_DEFAULT, .layout = RA_BSHD};
    const arg_option table[ATTENTION_OPTIONS] = {
        {.name = "query",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &files->query_path,
         .help = "queries: .npy, float32 or float16, 4-D, or 3-D for a batch of 1"},
        {.name = "key",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &files->key_path,
         .help = "keys: their heads must divide the query's"},
        {.name = "value",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &files->value_path,
         .help = "values: length and heads as the keys, any dim"},
        {.name = "pattern",
         .kind = ARG_TEXT,
         .metavar = "P",
         .target = &files->pattern,
         .help = "which keys a query sees (default full); terms joined with '+' all apply:\n"
                 "full, causal, window:LEFT,RIGHT, documents:LEN,LEN,..., documents:@FILE.npy"},
        {.name = "scale",
         .kind = ARG_REAL,
         .metavar = "X",
         .target = &files->scale,
         .help = "factor of the scores (default 1/sqrt(head dim))"},
        {.name = "layout",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &files->layout,
         .choices = LAYOUTS,
         .help = "axes of all tensors: bshd (default) is [batch, seq, heads, dim],\n"
                 "bhsd is [batch, heads, seq, dim]"},
    };
    memcpy(options, table, sizeof table);
}

static int report_disagreement(const tensor_file *a, const tensor_file *b, const char *about)
{
    char text_a[256], text_b[256];
    return report(EXIT_USAGE, "%s and %s differ in %s", tensor_file_describe(a, text_a, sizeof text_a),
                  tensor_file_describe(b, text_b, sizeof text_b), about);
}

int attention_files_open(attention_files *files, ra_problem *problem)
{
    tensor_axes axes = (tensor_axes)files->layout;
    int code = tensor_file_open(&files->query, files->query_path, axes);
    if (!code)
        code = tensor_file_open(&files->key, files->key_path, axes);
    if (!code)
        code = tensor_file_open(&files->value, files->value_path, axes);
    if (code)
        return code;

    const ra_tensor *q = &files->query.tensor, *k = &files->key.tensor, *v = &files->value.tensor;
    if (k->batch != q->batch)
        return report_disagreement(&files->query, &files->key, "batch");
    if (k->dim != q->dim)
        return report_disagreement(&files->query, &files->key, "head dim");
    if (v->batch != k->batch || v->seq != k->seq || v->heads != k->heads)
        return report_disagreement(&files->key, &files->value, "batch, length or heads");
    *problem = (ra_problem)RA_PROBLEM_INIT;
    problem->batch = q->batch;
    problem->q_len = q->seq, problem->kv_len = k->seq;
    problem->heads = q->heads, problem->kv_heads = k->heads;
    problem->head_dim = q->dim, problem->value_dim = v->dim;
    problem->scale = files->scale;
    problem->pattern = files->pattern;
    return EXIT_OK;
}

int attention_files_load(attention_files *files)
{
    int code = tensor_file_load(&files->query);
    if (!code)
        code = tensor_file_load(&files->key);
    return code ? code : tensor_file_load(&files->value);
}

void attention_files_close(attention_files *files)
{
    tensor_file_close(&files->query);
    tensor_file_close(&files->key);
    tensor_file_close(&files->value);
}
