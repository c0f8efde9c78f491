/*
 * Checksums and sampled rows of outputs that are not written. The rows are compared in sampled_rows.c. See
 * null_outputs.h.
 */
#include "null_outputs.h"

#include "job.h"
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

int null_outputs_prepare(null_outputs *n, const ra_problem *problem, int64_t rows, double tolerance,
                         tensor_file *const files[SAMPLED_RESULTS])
{
    static const char *const NAMES[] = {[SAMPLED_OUTPUT] = "output", [SAMPLED_LSE] = "lse"};
    const double tolerances[] = {[SAMPLED_OUTPUT] = tolerance, [SAMPLED_LSE] = NAN};
    int code = EXIT_OK;
    for (int i = 0; i < SAMPLED_RESULTS; i++) {
        n->files[i] = files[i];
        n->any |= files[i]->null.kept_nowhere;
    }
    if (n->any)
        code = sampled_rows_choose(&n->sample, problem, rows);
    for (int i = 0; i < SAMPLED_RESULTS && !code; i++) {
        sampled_result *result = &n->sample.results[i];
        if (!files[i]->null.kept_nowhere)
            continue;
        code = sampled_rows_take(&n->sample, result, NAMES[i], files[i], tolerances[i]);
        files[i]->null.rows = n->sample.rows;
        files[i]->null.count = n->sample.count;
        files[i]->null.elements = result->elements;
    }
    return code;
}

/* A row has been written by one process; in the others it is still zero, so that adding brings it to all. */
void null_outputs_gather(null_outputs *n)
{
    for (int i = 0; i < SAMPLED_RESULTS && n->any; i++)
        if (n->files[i]->null.kept_nowhere) {
            job_add(&n->files[i]->null.checksum, 1);
            job_add(n->sample.results[i].elements, n->sample.results[i].words);
        }
}

static void print_checksums(const null_outputs *n)
{
    for (int i = 0; i < SAMPLED_RESULTS; i++)
        if (n->files[i]->null.kept_nowhere)
            printf("%s: checksum %016" PRIx64 " of %lld rows\n", n->sample.results[i].name, n->files[i]->null.checksum,
                   (long long)n->sample.total);
}

int null_outputs_check(null_outputs *n, const ra_plan *plan, const attention_files *inputs, progress *bar, bool speak)
{
    if (!n->any)
        return EXIT_OK;
    if (speak)
        print_checksums(n);
    if (n->sample.count == 0)
        return EXIT_OK;
    int code = sampled_rows_compare(&n->sample, plan, inputs, bar);
    if (code)
        return code;
    if (speak)
        sampled_rows_print(&n->sample);
    if (sampled_rows_ok(&n->sample))
        return EXIT_OK;
    const sampled_result *output = &n->sample.results[SAMPLED_OUTPUT], *lse = &n->sample.results[SAMPLED_LSE];
    const sampled_result *wrong = output->error > output->tolerance ? output : lse;
    return report(EXIT_WORK, "%s: error %.2e at batch %lld, head %lld, query %lld is past the tolerance %.2e",
                  wrong->name, wrong->error, (long long)wrong->where.batch, (long long)wrong->where.head,
                  (long long)wrong->where.seq, wrong->tolerance);
}

void null_outputs_free(null_outputs *n)
{
    sampled_rows_free(&n->sample);
}
