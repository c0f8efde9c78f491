/*
 * Takes fingerprints of all inputs, and compares them after the run. How one is made: src/io/fingerprint.c. See
 * fingerprint.h.
 */
#include "fingerprint.h"

#include "report.h"

#include <stdio.h>
#include <string.h>

static int take(const char *name, const tensor_file *file, char *text)
{
    char source[RA_FINGERPRINT_TEXT];
    ra_storage *storage = NULL;
    ra_status status = tensor_file_source(file, &storage);
    if (!status)
        status = ra_storage_fingerprint(storage, source, sizeof source);
    ra_storage_free(storage);
    if (status)
        return report_refusal();
    snprintf(text, FINGERPRINT_TEXT, "%s: %s", name, source);
    return EXIT_OK;
}

int fingerprints_take(fingerprints *prints, const attention_files *in)
{
    int code = take("query", &in->query, prints->text[0]);
    if (!code)
        code = take("key", &in->key, prints->text[1]);
    return code ? code : take("value", &in->value, prints->text[2]);
}

int fingerprints_compare(const fingerprints *before, const attention_files *in)
{
    const char *const paths[FINGERPRINT_INPUTS] = {in->query_path, in->key_path, in->value_path};
    fingerprints now;
    int code = fingerprints_take(&now, in);
    for (int i = 0; i < FINGERPRINT_INPUTS && !code; i++)
        if (strcmp(before->text[i], now.text[i]) != 0)
            code = report(EXIT_WORK, "%s: was changed during the run: it had \"%s\", and has \"%s\": run again",
                          paths[i], before->text[i], now.text[i]);
    return code;
}
