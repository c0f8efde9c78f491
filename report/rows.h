/*
 * Rows of `ringattn bench --output`, read from files of JSON lines in the form of docs/results.schema.json.
 *
 *     rows r = {0};
 *     if (rows_read(&r, "results.jsonl", complain, NULL) == 0)
 *         for (int i = 0; i < r.count; i++)
 *             if (!r.at[i].failed)
 *                 printf("%s %g\n", row_text(&r.at[i], "case"), row_number(&r.at[i], "seconds.median"));
 *     rows_free(&r);
 */
#ifndef REPORT_ROWS_H
#define REPORT_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct row {
    json_t *json;
    char *key;           /* what was run: suite, case, method, problem and run but for what the run counted */
    const json_t **told; /* the parts of it but for the case, for row_alike */
    bool failed;         /* by its status, or out of its tolerance: counts nowhere */
} row;

typedef struct rows {
    row *at;
    int count;
    int files;
    int replaced; /* rows of which there was a newer one with the same key */
    int unusable; /* lines that are no row */
    json_t *places;
} rows;

/* Told of each line that is no row, lines counted from 1. */
typedef void (*rows_complaint)(void *user, const char *path, int line, const char *what);

/*
 * Adds the rows of a file to those that are there; of rows with the same key the newest stays. Blank lines are nothing;
 * a line that is no row is complained of, counted and left out. Returns how many rows the file had, -1 with errno set
 * when it cannot be read.
 */
int rows_read(rows *r, const char *path, rows_complaint complain, void *user);

/* The same from a stream; `path` is for complaints. */
int rows_read_stream(rows *r, FILE *stream, const char *path, rows_complaint complain, void *user);

void rows_free(rows *r);

/* The row with that key; NULL: there is none. */
const row *rows_find(const rows *r, const char *key);

/*
 * A field by its path, as in "run.strategy"; "" and NAN where it is absent. Texts hold no control characters and are at
 * most ROWS_MOST_TEXT bytes long, numbers are at most ROWS_MOST_NUMBER either way.
 */
enum { ROWS_MOST_TEXT = 400 };
#define ROWS_MOST_NUMBER 1e30
const char *row_text(const row *r, const char *path);
double row_number(const row *r, const char *path);
const json_t *row_value(const row *r, const char *path);
bool row_has(const row *r, const char *path);
bool row_is(const row *r, const char *path, const char *text);

/* The path of the i-th text or number that a row may have; NULL past the last. */
const char *row_field(int i);

/* What may differ between rows that are put on one line of a chart. */
enum {
    ROW_SUITE = 1,
    ROW_METHOD = 2,
    ROW_LENGTH = 4,
    ROW_RING = 8, /* the ring size */
    ROW_THREADS = 16,
    ROW_SPREAD = 32, /* strategy, transport, order, tile order */
    ROW_DTYPE = 64,
    ROW_KERNEL = 128
};

/* Whether two rows ran the same, but for what may differ; cases, being only names, are not looked at. */
bool row_alike(const row *a, const row *b, unsigned may_differ);

#endif
