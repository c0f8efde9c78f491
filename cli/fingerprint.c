/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes fingerprints of all inputs, and compares them after the run. How one is made: src/io/fingerprint.c. See
 * fingerprint.h.
 */
#include "fingerprint.h"

#include "report.h"

#include <stdio.h>
#include <string.h>

static int take(const run_file *input, char *text)
{
    char source[RA_FINGERPRINT_TEXT];
    ra_storage *storage = NULL;
    ra_status status = tensor_file_source(input->file, &storage);
    if (!status)
        status = ra_storage_fingerprint(storage, source, sizeof source);
    ra_storage_free(storage);
    if (status)
        return report_refusal();
    snprintf(text, FINGERPRINT_TEXT, "%s: %s", input->option, source);
    return EXIT_OK;
}

/* An array of any shape, as one row. "" for what cannot be opened: a plan of it is refused, with the reason. */
static void take_array(const char *path, int number, char *text)
{
    char source[RA_FINGERPRINT_TEXT];
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    ra_storage *storage = NULL;
    ra_status status = ra_array_open(path, &array);
    if (!status)
        status = ra_array_describe(array, &info);
    ra_tensor row = ra_tensor_dense(NULL, info.dtype, RA_BSHD, 1, 1, 1, info.count);
    if (!status)
        status = ra_storage_array(array, &row, &storage);
    if (!status)
        status = ra_storage_fingerprint(storage, source, sizeof source);
    ra_storage_free(storage);
    ra_array_close(array);
    text[0] = 0;
    if (!status)
        snprintf(text, FINGERPRINT_TEXT, "scores file %d: %s", number, source);
}

int fingerprints_take(fingerprints *prints, const run_file *inputs, int count, const char *scores)
{
    char path[PATH_MAX];
    int code = EXIT_OK;
    for (int i = 0; i < count && !code; i++) {
        prints->text[i][0] = 0;
        if (inputs[i].path)
            code = take(&inputs[i], prints->text[i]);
    }
    prints->count = count;
    while (!code && prints->count < FINGERPRINT_INPUTS && named_file(&scores, path)) {
        take_array(path, prints->count - count + 1, prints->text[prints->count]);
        prints->count++;
    }
    return code;
}

static int report_change(const char *path, const char *before, const char *now)
{
    return report(EXIT_WORK, "%s: was changed during the run: it had \"%s\", and has \"%s\": run again", path, before,
                  now);
}

int fingerprints_compare(const fingerprints *before, const run_file *inputs, int count, const char *scores)
{
    fingerprints now;
    char path[PATH_MAX];
    int code = fingerprints_take(&now, inputs, count, scores);
    for (int i = 0; i < now.count && !code; i++) {
        if (i >= count)
            named_file(&scores, path);
        if (strcmp(before->text[i], now.text[i]) != 0)
            code = report_change(i < count ? inputs[i].path : path, before->text[i], now.text[i]);
    }
    return code;
}
