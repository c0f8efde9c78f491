/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as scores: refused with a message, or accepted, and then finite for every pair, with one description for the
 * text. Half of the texts have the caller's arrays beside them.
 */
#include "fuzz.h"
#include "score/scores.h"

#include <math.h>
#include <string.h>

enum { BATCH = 2, QUERIES = 3, KEYS = 5, HEADS = 3, REACH = 2, WIDTH = 2 * REACH + 1 };

/* ---- Stand in for files: paths that begin with "no" cannot be read ----------------------------------------------- */

static bool readable(const char *path)
{
    if (strncmp(path, "no", 2) != 0)
        return true;
    ra_fail(RA_ERROR_FILE, "%.40s: cannot be read", path);
    return false;
}

static float *made(int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values);
    MUST(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(i % 7) - 3;
    return values;
}

/* Paths that begin with "inf" have an infinity. */
static ra_status load_list(const char *path, const char *name, int64_t count, float **values)
{
    MUST(name && count == HEADS);
    if (!readable(path))
        return RA_ERROR_FILE;
    *values = made(count);
    if (strncmp(path, "inf", 3) == 0)
        (*values)[1] = INFINITY;
    return RA_OK;
}

static ra_status load_table(const char *path, int64_t heads, float **values, int64_t *rows, int64_t *columns)
{
    if (!readable(path))
        return RA_ERROR_FILE;
    *rows = strncmp(path, "heads", 5) == 0 ? heads : 1;
    *columns = WIDTH;
    *values = made(*rows * WIDTH);
    return RA_OK;
}

struct ra_bias_file {
    int opened;
};

static ra_status open_bias(const char *path, const int64_t shape[4], ra_tensor *view, ra_bias_file **file)
{
    if (!readable(path))
        return RA_ERROR_FILE;
    *file = calloc(1, sizeof **file);
    MUST(*file);
    *view = ra_tensor_dense(NULL, RA_F32, RA_BHSD, 1, shape[2], 1, shape[3]);
    return RA_OK;
}

static void read_bias(ra_bias_file *file, int64_t batch, int64_t head, int64_t first_query, int64_t queries,
                      int64_t first_key, int64_t keys, float *to, int64_t stride)
{
    (void)batch, (void)head;
    MUST(file && first_query + queries <= QUERIES && first_key + keys <= KEYS);
    for (int64_t i = 0; i < queries; i++)
        for (int64_t k = 0; k < keys; k++)
            to[i * stride + k] = (float)(first_query + i - first_key - k);
}

static ra_status bias_failed(ra_bias_file *file)
{
    MUST(file);
    return RA_OK;
}

static void close_bias(ra_bias_file *file)
{
    free(file);
}

/* ---- What was accepted ------------------------------------------------------------------------------------------- */

static void check_pairs(const ra_scores *s)
{
    for (int64_t head = 0; head < HEADS; head++)
        for (int64_t i = 0; i < QUERIES; i++)
            for (int64_t j = 0; j < KEYS; j++) {
                ra_score_pair pair = {BATCH - 1, head, i + 2, j, i, j};
                double slope = -1, changed[RA_SCORE_KINDS];
                MUST(isfinite(ra_score_of_pair(s, &pair, 1.5, &slope, changed)));
                MUST(slope >= 0 && slope <= 1);
                double kept = ra_score_kept(s, &pair);
                MUST(isfinite(kept) && (kept == 0 || kept >= 1));
            }
    MUST(!ra_score_has_sinks(s) || isfinite(ra_score_sink(s, HEADS - 1)));
}

static void check_accepted(const ra_scores *s)
{
    char text[256] = "", again[256] = "";
    bool seen[RA_SCORE_KINDS] = {false};
    MUST(s->count >= 0 && s->count <= RA_SCORE_KINDS && s->bytes >= (int64_t)sizeof *s);
    for (int i = 0; i < s->count; i++) {
        MUST(!seen[s->terms[i]]);
        seen[s->terms[i]] = true;
    }
    MUST(!seen[RA_SCORE_SOFTCAP] || s->cap > 0);
    MUST(s->dropout >= 0 && s->dropout < 1);
    check_pairs(s);
    ra_scores_describe(s, text, sizeof text);
    ra_scores_describe(s, again, sizeof again);
    MUST(*text && strcmp(text, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ra_score_files files = {load_list, load_table, open_bias, read_bias, bias_failed, close_bias};
    const ra_score_shape shape = {BATCH, QUERIES, KEYS, HEADS};
    float values[BATCH * HEADS * QUERIES * KEYS] = {0};
    ra_tensor list = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 1, HEADS, 1), table = list, bias = list;
    table = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 1, 1, WIDTH);
    bias = ra_tensor_dense(values, RA_F32, RA_BSHD, BATCH, QUERIES, HEADS, KEYS);
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    char *text = malloc(size + 1);
    MUST(text);
    memcpy(text, data, size);
    text[size] = 0;
    /* Views for terms without a file, where the text looks as if it had them. */
    arrays.table = strstr(text, "relative+") ? &table : NULL;
    arrays.bias = strstr(text, "bias+") ? &bias : NULL;
    arrays.sinks = strstr(text, "sinks+") ? &list : NULL;

    ra_scores *scores = NULL;
    if (ra_scores_parse(text, &shape, &arrays, &files, &scores))
        MUST(*ra_last_message() && !scores);
    else
        check_accepted(scores);
    ra_scores_free(scores);
    free(text);
    return 0;
}
