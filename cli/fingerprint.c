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

int fingerprints_take(fingerprints *prints, const run_file *inputs, int count)
{
    int code = EXIT_OK;
    prints->count = count;
    for (int i = 0; i < count && !code; i++) {
        prints->text[i][0] = 0;
        if (inputs[i].path)
            code = take(&inputs[i], prints->text[i]);
    }
    return code;
}

int fingerprints_compare(const fingerprints *before, const run_file *inputs, int count)
{
    fingerprints now;
    int code = fingerprints_take(&now, inputs, count);
    for (int i = 0; i < count && !code; i++)
        if (strcmp(before->text[i], now.text[i]) != 0)
            code = report(EXIT_WORK, "%s: was changed during the run: it had \"%s\", and has \"%s\": run again",
                          inputs[i].path, before->text[i], now.text[i]);
    return code;
}
