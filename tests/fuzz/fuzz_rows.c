/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of benchmark rows: lines are refused with a reason, or become rows that a report can be made of.
 */
#include "fuzz.h"
#include "report/document.h"

#include <math.h>
#include <string.h>

static void hear(void *user, const char *path, int line, const char *what)
{
    MUST(line > 0 && *what && *path);
    ++*(int *)user;
}

static void check_row(const rows *all, const row *r)
{
    const char *path;
    MUST(rows_find(all, r) == r);
    for (int f = 0; (path = row_field(f)); f++) {
        MUST(strlen(row_text(r, path)) <= ROWS_MOST_TEXT && !strpbrk(row_text(r, path), "\n\r\033"));
        MUST(!(fabs(row_number(r, path)) > ROWS_MOST_NUMBER));
    }
}

static char *written(void (*write)(const rows *r, FILE *stream), const rows *r)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    MUST(stream);
    write(r, stream);
    MUST(fclose(stream) == 0 && size > 0 && strlen(text) == size);
    return text;
}

static void write_markdown(const rows *r, FILE *stream)
{
    document d;
    document_make(&d, r);
    MUST(document_markdown(&d, stream) == NULL);
    document_free(&d);
}

/* In the forms that gnuplot has no part in. No text of a row can be a tag. */
static void check_report(const rows *r)
{
    char *markdown = written(write_markdown, r), *csv = written(rows_csv, r);
    MUST(!strchr(markdown, '<'));
    free(markdown);
    free(csv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rows r = {0};
    int complaints = 0;
    if (size == 0) /* no stream of nothing */
        return 0;
    FILE *stream = fmemopen((void *)data, size, "r");
    MUST(stream);
    int found = rows_read_stream(&r, stream, "input", hear, &complaints);
    fclose(stream);
    MUST(found == r.count + r.replaced && complaints == r.unusable);
    for (int i = 0; i < r.count; i++)
        check_row(&r, &r.at[i]);
    if (r.count)
        check_report(&r);
    rows_free(&r);
    return 0;
}
