/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the text of scores, finds the array of each term in a file or among the caller's views, and checks both. A
 * kind of term is one function and one line of the table KINDS. What the terms mean is in score_of_pair.c.
 */
#include "score/scores.h"

#include "base/checked.h"
#include "base/overlap.h"
#include "base/parser.h"
#include "base/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the terms' parsers may need to know: the context of their ra_parser. */
typedef struct context {
    ra_score_shape shape;
    const ra_score_arrays *arrays;
    const ra_score_files *files;
} context;

static const context *context_of(const ra_parser *p)
{
    return p->context;
}

/* The caller's view of an array, and where its gradient goes. */
static const ra_tensor *view_of(const ra_score_arrays *a, int array)
{
    return (const ra_tensor *const[]){a->slopes, a->table, a->bias, a->sinks}[array];
}

static const ra_tensor *gradient_of(const ra_score_arrays *a, int array)
{
    return (const ra_tensor *const[]){a->d_slopes, a->d_table, a->d_bias, a->d_sinks}[array];
}

static ra_tensor *place_of(ra_scores *s, int array)
{
    return (ra_tensor *const[]){&s->slopes, &s->table, &s->bias, &s->sinks}[array];
}

static const char *const ARRAY_NAMES[RA_SCORE_ARRAYS] = {"slopes", "table", "bias", "sinks"};
static const char *const GRADIENT_NAMES[RA_SCORE_ARRAYS] = {"d_slopes", "d_table", "d_bias", "d_sinks"};
static const char *const TERM_NAMES[RA_SCORE_ARRAYS] = {"alibi", "relative", "bias", "sinks"};

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

void ra_alibi_slopes(int64_t heads, float *slopes)
{
    int64_t power = 1; /* the largest power of two that is not above heads */
    while (power <= heads / 2)
        power *= 2;
    for (int64_t i = 0; i < heads; i++)
        slopes[i] = (float)(i < power ? exp2(-8.0 * (double)(i + 1) / (double)power)
                                      : exp2(-4.0 * (double)(2 * (i - power) + 1) / (double)power));
}

/* If an array has one value for all indices of a dimension, its stride is 0. */
static ra_tensor spread(ra_tensor view)
{
    view.batch_stride = view.batch == 1 ? 0 : view.batch_stride;
    view.seq_stride = view.seq == 1 ? 0 : view.seq_stride;
    view.head_stride = view.heads == 1 ? 0 : view.head_stride;
    view.dim_stride = view.dim == 1 ? 0 : view.dim_stride;
    return view;
}

/* An array of [heads or 1][dim] floats that are all finite. */
static ra_status check_finite(const ra_tensor *t, const char *name)
{
    for (int64_t head = 0; head < t->heads; head++)
        for (int64_t i = 0; i < t->dim; i++) {
            double value = ra_tensor_get(t, 0, 0, head, i);
            if (isfinite(value))
                continue;
            if (t->dim == 1)
                return ra_fail(RA_ERROR_ARGUMENT, "%s: %g for head %lld: must be finite", name, value, (long long)head);
            return ra_fail(RA_ERROR_ARGUMENT, "%s: %g at [%lld, %lld]: must be finite", name, value, (long long)head,
                           (long long)i);
        }
    return RA_OK;
}

/* 1 where the view has 1, else what the problem has. */
static int64_t one_or(int64_t size, int64_t all)
{
    return size == 1 ? 1 : all;
}

/* Whether a view has the sizes of an array, as far as these are known from the problem and the view itself. */
static ra_status check_shape(const ra_score_shape *s, int array, const char *name, const ra_tensor *t)
{
    int64_t heads = one_or(t->heads, s->heads);
    if (array == RA_SCORE_TABLE && t->dim % 2 != 1)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: dim %lld: must be odd, 2M + 1", name, (long long)t->dim);
    if (array == RA_SCORE_TABLE)
        return ra_tensor_check(t, name, 1, 1, heads, t->dim);
    if (array == RA_SCORE_BIASES)
        return ra_tensor_check(t, name, one_or(t->batch, s->batch), one_or(t->seq, s->q_len), heads, s->kv_len);
    return ra_tensor_check(t, name, 1, 1, s->heads, 1);
}

static ra_status check_f32(const char *name, const ra_tensor *t)
{
    if (t->dtype != RA_F32)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: dtype %s: must be float32", name, ra_dtype_name(t->dtype));
    return RA_OK;
}

/* A view of the caller's, which stays where it is. */
static ra_status take_view(const ra_score_shape *shape, int array, const ra_tensor *theirs, ra_tensor *view)
{
    ra_status status = check_shape(shape, array, ARRAY_NAMES[array], theirs);
    if (!status && array != RA_SCORE_BIASES)
        status = check_f32(ARRAY_NAMES[array], theirs);
    if (!status)
        *view = spread(*theirs);
    return status;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static ra_status load(const context *c, int array, const char *path, ra_scores *s)
{
    int64_t rows = c->shape.heads, columns = 1;
    ra_status status = array == RA_SCORE_TABLE ? c->files->table(path, rows, &s->owned[array], &rows, &columns)
                                               : c->files->list(path, ARRAY_NAMES[array], rows, &s->owned[array]);
    if (!status)
        *place_of(s, array) = spread(ra_tensor_dense(s->owned[array], RA_F32, RA_BSHD, 1, 1, rows, columns));
    return status;
}

static ra_status open_bias(const context *c, const char *path, ra_scores *s)
{
    const int64_t shape[4] = {c->shape.batch, c->shape.heads, c->shape.q_len, c->shape.kv_len};
    ra_bias_file *file = NULL;
    ra_status status = c->files->open(path, shape, &s->bias, &file);
    if (status)
        return status;
    s->bias = spread(s->bias);
    s->bias_source = (ra_bias_source){c->files->read, c->files->failed, c->files->close, file};
    return RA_OK;
}

/* The path after ":@", and the array that is there. */
static ra_status parse_file(ra_parser *p, int array, ra_scores *s)
{
    const char *start = p->at;
    char *path = NULL, what[64];
    snprintf(what, sizeof what, "\":@FILE.npy\", \"+\" or the end after \"%s\"", TERM_NAMES[array]);
    if (start[1] != '@')
        return ra_parse_expected(p, start, what);
    p->at++;
    ra_status status = ra_parse_path(p, &path);
    if (status)
        return status;
    status = array == RA_SCORE_BIASES ? open_bias(context_of(p), path, s) : load(context_of(p), array, path, s);
    free(path);
    return status ? ra_parse_failed(p, start + 1, status) : RA_OK;
}

/* ---- Terms ------------------------------------------------------------------------------------------------------- */

/* The array of a term, whose name ends where the parser stands: in a file, or the caller's. */
static ra_status parse_array(ra_parser *p, int array, ra_scores *s)
{
    const ra_tensor *theirs = view_of(context_of(p)->arrays, array);
    const char *start = p->at;
    char what[128];
    ra_status status;
    if (*p->at == ':') {
        status = parse_file(p, array, s);
    } else if (theirs) {
        status = take_view(&context_of(p)->shape, array, theirs, place_of(s, array));
        status = status ? ra_parse_failed(p, start, status) : RA_OK;
    } else {
        snprintf(what, sizeof what, "\":@FILE.npy\" after \"%s\", or %s among the score_arrays", TERM_NAMES[array],
                 ARRAY_NAMES[array]);
        status = ra_parse_expected(p, start, what);
    }
    if (!status && array != RA_SCORE_BIASES) {
        status = check_finite(place_of(s, array), ARRAY_NAMES[array]);
        status = status ? ra_parse_failed(p, start, status) : RA_OK;
    }
    return status;
}

static ra_status parse_softcap(ra_parser *p, ra_scores *s)
{
    const char what[] = "a cap > 0, in decimals of up to 15 digits";
    if (*p->at != ':')
        return ra_parse_expected(p, p->at, "\":C\" after \"softcap\"");
    const char *start = ++p->at;
    ra_status status = ra_parse_decimal(p, what, &s->cap);
    if (!status && !(s->cap > 0))
        status = ra_parse_expected(p, start, what);
    return status;
}

static ra_status parse_alibi(ra_parser *p, ra_scores *s)
{
    const context *c = context_of(p);
    if (*p->at == ':' || c->arrays->slopes)
        return parse_array(p, RA_SCORE_SLOPES, s);
    float *slopes = s->owned[RA_SCORE_SLOPES] = malloc((size_t)c->shape.heads * sizeof *slopes);
    if (!slopes)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: slopes of %lld heads", (long long)c->shape.heads);
    ra_alibi_slopes(c->shape.heads, slopes);
    s->slopes = spread(ra_tensor_dense(slopes, RA_F32, RA_BSHD, 1, 1, c->shape.heads, 1));
    return RA_OK;
}

static ra_status parse_relative(ra_parser *p, ra_scores *s)
{
    ra_status status = parse_array(p, RA_SCORE_TABLE, s);
    s->reach = s->table.dim / 2;
    return status;
}

static ra_status parse_bias(ra_parser *p, ra_scores *s)
{
    return parse_array(p, RA_SCORE_BIASES, s);
}

static ra_status parse_sinks(ra_parser *p, ra_scores *s)
{
    return parse_array(p, RA_SCORE_SINKS, s);
}

static ra_status parse_dropout(ra_parser *p, ra_scores *s)
{
    static const char what[] = "a probability in [0, 1), as a decimal fraction of up to 15 digits", seed[] = ":seed=";
    if (*p->at != ':')
        return ra_parse_expected(p, p->at, "\":P\" after \"dropout\"");
    const char *start = ++p->at;
    ra_status status = ra_parse_decimal(p, what, &s->dropout);
    if (!status && !(s->dropout < 1))
        status = ra_parse_expected(p, start, what);
    if (status || *p->at != ':')
        return status;
    if (strncmp(p->at, seed, sizeof seed - 1) != 0)
        return ra_parse_expected(p, p->at, "\":seed=S\", \"+\" or the end after the probability of \"dropout\"");
    p->at += sizeof seed - 1;
    int64_t number = 0;
    status = ra_parse_number(p, "a seed, >= 0", &number);
    s->seed = (uint64_t)number;
    return status;
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

enum { NO_STEP = -1 };

typedef struct kind {
    const char *name, *usage;
    ra_status (*parse)(ra_parser *parser, ra_scores *scores); /* what follows the name */
    int step;                                                 /* its ra_score_kind, or NO_STEP */
} kind;

static const kind KINDS[] = {
    {"softcap", "softcap:C", parse_softcap, RA_SCORE_SOFTCAP},
    {"alibi", "alibi[:@FILE.npy]", parse_alibi, RA_SCORE_ALIBI},
    {"relative", "relative:@FILE.npy", parse_relative, RA_SCORE_RELATIVE},
    {"bias", "bias:@FILE.npy", parse_bias, RA_SCORE_BIAS},
    {"sinks", "sinks:@FILE.npy", parse_sinks, NO_STEP},
    {"dropout", "dropout:P[:seed=S]", parse_dropout, NO_STEP},
};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

static ra_status unknown_term(const ra_parser *p)
{
    char known[256] = "one of ";
    for (int i = 0; i < KIND_COUNT; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", KINDS[i].usage);
    }
    return ra_parse_expected(p, p->at, known);
}

/* given[i]: kind i has been there. */
static ra_status parse_term(ra_parser *p, ra_scores *s, bool given[KIND_COUNT])
{
    size_t length = ra_parse_name(p);
    int i = 0;
    while (i < KIND_COUNT && (strlen(KINDS[i].name) != length || memcmp(KINDS[i].name, p->at, length) != 0))
        i++;
    if (i == KIND_COUNT)
        return unknown_term(p);
    if (given[i])
        return ra_parse_expected(p, p->at, "a term that was not given before");
    given[i] = true;
    p->at += length;
    if (KINDS[i].step != NO_STEP)
        s->terms[s->count++] = (ra_score_kind)KINDS[i].step;
    return KINDS[i].parse(p, s);
}

static ra_status parse_terms(ra_parser *p, ra_scores *s)
{
    bool given[KIND_COUNT] = {false};
    for (;;) {
        ra_status status = parse_term(p, s, given);
        if (status || !*p->at)
            return status;
        if (*p->at != '+')
            return ra_parse_expected(p, p->at, "\"+\" or the end");
        p->at++;
    }
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

/* Whether an array is part of the scores: of a bias without keys there is no data. */
static bool has_array(ra_scores *s, int array)
{
    return place_of(s, array)->heads > 0;
}

static ra_status refuse_unused(const char *name, const char *term, bool named, const char *text)
{
    return ra_fail(RA_ERROR_ARGUMENT, "score_arrays: %s is given, but in scores \"%.200s\" %s \"%s\"%s", name,
                   text ? text : "", named ? "the term" : "there is no term", term, named ? " names a file" : "");
}

/* Views that no term uses. */
static ra_status check_used(const ra_score_arrays *arrays, const char *text, ra_scores *s)
{
    for (int i = 0; i < RA_SCORE_ARRAYS; i++) {
        bool named = s->owned[i] || (i == RA_SCORE_BIASES && s->bias_source.read);
        if (view_of(arrays, i) && (!has_array(s, i) || named))
            return refuse_unused(ARRAY_NAMES[i], TERM_NAMES[i], named, text);
        if (gradient_of(arrays, i) && !has_array(s, i))
            return refuse_unused(GRADIENT_NAMES[i], TERM_NAMES[i], false, text);
    }
    return RA_OK;
}

/* A gradient has the shape of its array. */
static ra_status take_gradient(ra_scores *s, int array, const ra_tensor *theirs, const ra_tensor **where)
{
    const ra_tensor *view = place_of(s, array);
    const char *name = GRADIENT_NAMES[array];
    if (!theirs)
        return RA_OK;
    ra_status status = ra_tensor_check(theirs, name, view->batch, view->seq, view->heads, view->dim);
    if (!status)
        status = check_f32(name, theirs);
    s->gradients[array] = *theirs;
    *where = &s->gradients[array];
    return status;
}

/* Gradients are written: they share no memory with each other or with the arrays. */
static ra_status take_gradients(ra_scores *s, const ra_score_arrays *arrays)
{
    const ra_tensor **const where[] = {&s->d_slopes, &s->d_table, &s->d_bias, &s->d_sinks};
    const ra_tensor *all[2 * RA_SCORE_ARRAYS] = {NULL};
    const char *names[2 * RA_SCORE_ARRAYS];
    ra_status status = RA_OK;
    for (int i = 0; i < RA_SCORE_ARRAYS && !status; i++) {
        status = take_gradient(s, i, gradient_of(arrays, i), where[i]);
        names[i] = ARRAY_NAMES[i];
        names[RA_SCORE_ARRAYS + i] = GRADIENT_NAMES[i];
        all[i] = view_of(arrays, i);
        all[RA_SCORE_ARRAYS + i] = *where[i];
    }
    return status ? status : ra_check_apart(all, names, RA_SCORE_ARRAYS, 2 * RA_SCORE_ARRAYS);
}

ra_status ra_scores_check_apart(const ra_scores *scores, const ra_tensor *const tensors[], const char *const names[],
                                int inputs, int count)
{
    enum { MOST = 32 };
    const ra_tensor *all[MOST];
    const char *all_names[MOST];
    static const ra_scores none;
    const ra_scores *s = scores ? scores : &none;
    const ra_tensor *const arrays[] = {&s->slopes, &s->table, &s->bias, &s->sinks};
    const ra_tensor *const gradients[] = {s->d_slopes, s->d_table, s->d_bias, s->d_sinks};
    int at = 0;
    for (int i = 0; i < RA_SCORE_ARRAYS; i++, at++) {
        all[at] = arrays[i]->data ? arrays[i] : NULL;
        all_names[at] = ARRAY_NAMES[i];
    }
    for (int i = 0; i < count; i++, at++) {
        all[at] = tensors[i];
        all_names[at] = names[i];
    }
    for (int i = 0; i < RA_SCORE_ARRAYS; i++, at++) {
        all[at] = gradients[i];
        all_names[at] = GRADIENT_NAMES[i];
    }
    return ra_check_apart(all, all_names, RA_SCORE_ARRAYS + inputs, at);
}

static int64_t bytes_of(ra_scores *s)
{
    enum { BIAS_FILE = 1024 }; /* an open file with its path, about */
    int64_t bytes = (int64_t)sizeof *s + (s->bias_source.read ? BIAS_FILE : 0);
    for (int i = 0; i < RA_SCORE_ARRAYS; i++)
        if (s->owned[i])
            bytes += place_of(s, i)->heads * place_of(s, i)->dim * (int64_t)sizeof(float);
    return bytes;
}

static ra_status fill(const char *text, const context *c, ra_scores *s)
{
    ra_parser p = {"scores", text, text, c};
    ra_status status = text ? parse_terms(&p, s) : RA_OK;
    if (!status)
        status = check_used(c->arrays, text, s);
    if (!status)
        status = take_gradients(s, c->arrays);
    s->bytes = bytes_of(s);
    return status;
}

ra_status ra_scores_parse(const char *text, const ra_score_shape *shape, const ra_score_arrays *arrays,
                          const ra_score_files *files, ra_scores **scores)
{
    const context c = {*shape, arrays, files};
    ra_scores *s = calloc(1, sizeof *s);
    *scores = NULL;
    if (!s)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for scores", sizeof *s);
    ra_status status = fill(text, &c, s);
    if (status || !text) {
        ra_scores_free(s);
        return status;
    }
    *scores = s;
    return RA_OK;
}

ra_status ra_scores_failed(const ra_scores *s)
{
    return s && s->bias_source.read ? s->bias_source.failed(s->bias_source.file) : RA_OK;
}

void ra_scores_free(ra_scores *s)
{
    if (!s)
        return;
    for (int i = 0; i < RA_SCORE_ARRAYS; i++)
        free(s->owned[i]);
    if (s->bias_source.close)
        s->bias_source.close(s->bias_source.file);
    free(s);
}
