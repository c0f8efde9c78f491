/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums and sampled rows of results that are not written. How rows are compared: sampled_result.c. See
 * null_outputs.h.
 */
#include "null_outputs.h"

#include "job.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

void null_outputs_keep(null_outputs *n, int which)
{
    const sampled_result *r = &n->results[which];
    r->file->null.rows = r->rows;
    r->file->null.count = r->count;
    r->file->null.elements = r->elements;
    n->any = true;
}

/* A row has been written by one process; in the others it is still zero, so that adding brings it to all. */
void null_outputs_gather(null_outputs *n)
{
    for (int i = 0; i < n->count; i++)
        if (n->results[i].elements) {
            job_add(&n->results[i].file->null.checksum, 1);
            job_add(n->results[i].elements, n->results[i].words);
        }
}

static void print_checksums(const null_outputs *n)
{
    for (int i = 0; i < n->count; i++)
        if (n->results[i].elements)
            printf("%s: checksum %016" PRIx64 " of %lld rows\n", n->results[i].name, n->results[i].file->null.checksum,
                   (long long)n->results[i].total);
}

static bool has_rows(const null_outputs *n)
{
    for (int i = 0; i < n->count; i++)
        if (n->results[i].count > 0)
            return true;
    return false;
}

int null_outputs_check(null_outputs *n, null_oracle oracle, void *user, bool speak)
{
    if (!n->any)
        return EXIT_OK;
    if (speak)
        print_checksums(n);
    if (!has_rows(n))
        return EXIT_OK;
    int code = oracle(user, n->results);
    if (code)
        return code;
    if (speak)
        sampled_results_print(n->results, n->count);
    return sampled_results_ok(n->results, n->count) ? EXIT_OK : sampled_results_report(n->results, n->count);
}

void null_outputs_free(null_outputs *n)
{
    sampled_results_free(n->results, n->count);
}
