/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of the short runs of a calibration. See trial_scores.h. */
#define _GNU_SOURCE /* memfd_create */
#include "trial_scores.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Terms ------------------------------------------------------------------------------------------------------- */

static bool is_term(const char *term, size_t length, const char *name)
{
    size_t own = strlen(name);
    return length >= own && strncmp(term, name, own) == 0 && (length == own || term[own] == ':');
}

/* Whether the file behind "bias:@" has a row for each query. */
static ra_status look_at_bias(trial_scores *s, const char *term, size_t length)
{
    ra_array_info info = RA_ARRAY_INFO_INIT;
    ra_array *array = NULL;
    char *path = strndup(term + sizeof "bias:@" - 1, length - (sizeof "bias:@" - 1));
    ra_status status = path ? ra_array_open(path, &array) : RA_ERROR_MEMORY;
    if (!status)
        status = ra_array_describe(array, &info);
    s->biased = true;
    s->bias_by_query = info.dims == 4 && info.shape[2] > 1;
    ra_array_close(array);
    free(path);
    return status;
}

/* One term: as it is, or without its file. */
static ra_status take_term(trial_scores *s, const char *term, size_t length)
{
    static const char *const ARRAYS[] = {"alibi", "relative", "sinks"};
    if (is_term(term, length, "bias"))
        return look_at_bias(s, term, length);
    for (size_t i = 0; i < sizeof ARRAYS / sizeof *ARRAYS; i++)
        if (is_term(term, length, ARRAYS[i]))
            length = strlen(ARRAYS[i]);
    s->arrays.table = is_term(term, length, "relative") ? &s->table : s->arrays.table;
    s->arrays.sinks = is_term(term, length, "sinks") ? &s->sinks : s->arrays.sinks;
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof s->text - used, "%s%.*s", used ? "+" : "", (int)length, term);
    return RA_OK;
}

ra_status trial_scores_take(trial_scores *s, const char *text, int64_t heads)
{
    *s = (trial_scores){.arrays = RA_SCORE_ARRAYS_INIT};
    s->table = ra_tensor_dense(s->zeros, RA_F32, RA_BSHD, 1, 1, 1, TRIAL_ZEROS);
    s->sinks = ra_tensor_dense(s->zeros, RA_F32, RA_BSHD, 1, 1, heads, 1);
    ra_status status = RA_OK;
    while (text && *text && !status) {
        size_t length = strcspn(text, "+");
        status = take_term(s, text, length);
        text += length + (text[length] == '+');
    }
    return status;
}

void trial_scores_give(trial_scores *s)
{
    for (int i = 0; i < s->count; i++)
        fclose(s->biases[i].file);
    s->count = 0;
}

/* ---- Biases ------------------------------------------------------------------------------------------------------ */

/* The header of a .npy file, padded to its usual 128 bytes, and zeros. */
static bool write_zeros(FILE *file, int64_t queries, int64_t keys)
{
    enum { MAGIC = 10, HEADER = 128 };
    char header[HEADER + 1];
    snprintf(header + MAGIC, sizeof header - MAGIC, "%-*s", HEADER - MAGIC, "");
    int used = snprintf(header + MAGIC, HEADER - MAGIC,
                        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, %lld, %lld), }", (long long)queries,
                        (long long)keys);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", MAGIC);
    header[MAGIC + used] = ' ';
    header[HEADER - 1] = '\n';
    const float zeros[64] = {0};
    bool written = fwrite(header, 1, HEADER, file) == HEADER;
    for (int64_t left = queries * keys; left > 0 && written; left -= 64)
        written = fwrite(zeros, sizeof *zeros, left < 64 ? (size_t)left : 64, file) > 0;
    return fflush(file) == 0 && written;
}

/* The file for runs of so many queries and keys; NULL with a message. */
static FILE *bias_file(trial_scores *s, int64_t queries, int64_t keys)
{
    for (int i = 0; i < s->count; i++)
        if (s->biases[i].queries == queries && s->biases[i].keys == keys)
            return s->biases[i].file;
    int descriptor = s->count < TRIAL_BIASES ? memfd_create("ringattn-bias", MFD_CLOEXEC) : -1;
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (file)
        s->biases[s->count++] = (trial_bias){file, queries, keys};
    else if (descriptor >= 0)
        close(descriptor);
    if (file && write_zeros(file, queries, keys))
        return file;
    fprintf(stderr, "ringattn: no memory for a bias of %lld x %lld of a calibration\n", (long long)queries,
            (long long)keys);
    return NULL;
}

ra_status trial_scores_place(trial_scores *s, ra_problem *problem, char text[TRIAL_SCORES_TEXT])
{
    if (!s->biased && !*s->text)
        return RA_OK;
    snprintf(text, TRIAL_SCORES_TEXT, "%s", s->text);
    problem->scores = text;
    problem->score_arrays = &s->arrays;
    if (!s->biased)
        return RA_OK;
    FILE *file = bias_file(s, s->bias_by_query ? problem->q_len : 1, problem->kv_len);
    if (!file)
        return RA_ERROR_MEMORY;
    snprintf(text, TRIAL_SCORES_TEXT, "%s%sbias:@/proc/self/fd/%d", s->text, *s->text ? "+" : "", fileno(file));
    return RA_OK;
}
