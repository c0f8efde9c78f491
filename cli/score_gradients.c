/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of the arrays of scores, from their text to their file. See score_gradients.h. */
#include "score_gradients.h"

#include "interrupt.h"
#include "report.h"
#include "run_files.h"

#include <stdlib.h>
#include <string.h>

static const char *const TERMS[SCORE_GRADIENTS] = {"alibi", "relative", "bias", "sinks"};

/* The term's place among TERMS, or -1. */
static int place_of(const char *term)
{
    size_t length = strcspn(term, ":+");
    for (int i = 0; i < SCORE_GRADIENTS; i++)
        if (strlen(TERMS[i]) == length && strncmp(TERMS[i], term, length) == 0)
            return i;
    return -1;
}

/* Shape of the array that a term names; false where it names none that can be read. */
static bool read_shape(const char *term, ra_array_part *part)
{
    char path[PATH_MAX];
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    const char *end = term + strcspn(term, "+");
    if (!named_file(&term, path) || term > end)
        return false;
    bool read = !ra_array_open(path, &array) && !ra_array_describe(array, &info);
    ra_array_close(array);
    part->dims = info.dims;
    memcpy(part->shape, info.shape, sizeof part->shape);
    return read;
}

/* The array of a term, if it has one. */
static void add_term(score_gradients *g, const char *term, int64_t heads)
{
    int place = place_of(term);
    ra_array_part part = {.name = place < 0 ? NULL : TERMS[place], .dims = 1, .shape = {heads}};
    if (place < 0 || g->count == SCORE_GRADIENTS)
        return;
    if (term[strlen(TERMS[place])] == ':')
        g->unreadable |= !read_shape(term, &part);
    g->parts[g->count++] = part;
}

/* As the library sees an array of these dimensions. */
static ra_tensor view_of(const ra_array_part *part, float *elements)
{
    const int64_t *s = part->shape;
    if (part->dims == 4)
        return ra_tensor_dense(elements, RA_F32, RA_BHSD, s[0], s[2], s[1], s[3]);
    return ra_tensor_dense(elements, RA_F32, RA_BHSD, 1, 1, s[0], part->dims == 2 ? s[1] : 1);
}

static int64_t elements_of(const ra_array_part *part)
{
    int64_t count = 1;
    for (int i = 0; i < part->dims; i++)
        count *= part->shape[i]; /* of an array that there is, or of heads */
    return count;
}

static int take_memory(score_gradients *g)
{
    for (int i = 0; i < g->count; i++)
        g->element_count += elements_of(&g->parts[i]);
    g->elements = calloc((size_t)g->element_count + 1, sizeof *g->elements);
    if (!g->elements)
        return report(EXIT_USAGE, "--scores-gradient %s: out of memory: %lld elements", g->path,
                      (long long)g->element_count);
    return EXIT_OK;
}

int score_gradients_prepare(score_gradients *g, ra_problem *problem)
{
    g->arrays = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    const ra_tensor **const where[SCORE_GRADIENTS] = {&g->arrays.d_slopes, &g->arrays.d_table, &g->arrays.d_bias,
                                                      &g->arrays.d_sinks};
    if (!g->path)
        return EXIT_OK;
    for (const char *term = problem->scores; term; term = strchr(term, '+') ? strchr(term, '+') + 1 : NULL)
        add_term(g, term, problem->heads);
    if (g->count == 0)
        return report(EXIT_USAGE,
                      "--scores-gradient %s: scores \"%s\" have no array that can have a gradient: alibi, "
                      "relative, bias or sinks",
                      g->path, problem->scores ? problem->scores : "");
    if (g->unreadable) /* no plan can be made, and the library says why */
        return EXIT_OK;
    int code = take_memory(g);
    float *at = g->elements;
    for (int i = 0; i < g->count && !code; i++) {
        g->views[i] = view_of(&g->parts[i], at);
        *where[place_of(g->parts[i].name)] = &g->views[i];
        at += elements_of(&g->parts[i]);
    }
    problem->score_arrays = &g->arrays;
    return code;
}

int score_gradients_create(score_gradients *g)
{
    if (!g->path)
        return EXIT_OK;
    if (ra_array_create_parts(g->path, RA_F32, g->count, g->parts, &g->array))
        return report_refusal();
    g->cleaned = tensor_file_cleans(g->path);
    return EXIT_OK;
}

int score_gradients_write(score_gradients *g)
{
    ra_status status = g->array ? ra_array_write(g->array, 0, g->element_count, g->elements) : RA_OK;
    return status ? report_failure(status) : EXIT_OK;
}

int score_gradients_commit(score_gradients *g)
{
    ra_status status = g->array ? ra_array_commit(g->array) : RA_OK;
    return status ? report_failure(status) : EXIT_OK;
}

void score_gradients_close(score_gradients *g)
{
    interrupt_forget(g->cleaned);
    ra_array_close(g->array);
    free(g->elements);
}
