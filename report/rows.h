/* SPDX-License-Identifier: Apache-2.0 */
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

#include "arena.h"
#include "places.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum row_kind { ROW_ABSENT, ROW_TEXT, ROW_INTEGER, ROW_REAL, ROW_OBJECT } row_kind;

/* A value; its kind says which it is. Texts are the rows' own, and equal ones of one `rows` are the same. */
typedef union row_word {
    const char *text;
    int64_t integer;
    double real;
} row_word;

typedef struct row_value {
    row_kind kind;
    row_word is;
} row_value;

/* A number or text under a name that is not fixed. */
typedef struct row_figure {
    const char *name;
    row_value value;
} row_figure;

/* What is known of a row lies in tables with a place for each field: there may be 100,000 rows. */
typedef struct row {
    row_word *words;
    unsigned char *kinds;
    row_figure *figures;
    int figure_count;
    bool failed; /* by its status, or out of its tolerance: counts nowhere */
} row;

typedef struct rows {
    row *at;
    int count;
    int files;
    int replaced; /* rows of which there was a newer one that ran the same */
    int unusable; /* lines that are no row */
    arena memory;
    places keys; /* of the rows */
    places text_places;
    const char **texts;
    int text_count;
} rows;

/* Told of each line that is no row, lines counted from 1. */
typedef void (*rows_complaint)(void *user, const char *path, int line, const char *what);

/*
 * Adds the rows of a file to those that are there; of rows that ran the same the newest stays. Blank lines are nothing;
 * a line that is no row is complained of, counted and left out. Returns how many rows the file had, -1 with errno set
 * when it cannot be read.
 */
int rows_read(rows *r, const char *path, rows_complaint complain, void *user);

/* The same from a stream; `path` is for complaints. */
int rows_read_stream(rows *r, FILE *stream, const char *path, rows_complaint complain, void *user);

void rows_free(rows *r);

/* The row that ran the same, in suite, case, method, problem and run but for what the run counted; NULL: there is none.
 */
const row *rows_find(const rows *r, const row *like);

/*
 * A field by its path, as in "run.strategy"; "" and NAN where it is absent. Texts hold no control characters and are at
 * most ROWS_MOST_TEXT bytes long, numbers are at most ROWS_MOST_NUMBER either way.
 */
enum { ROWS_MOST_TEXT = 400 };
#define ROWS_MOST_NUMBER 1e30
const char *row_text(const row *r, const char *path);
double row_number(const row *r, const char *path);
row_value row_at(const row *r, const char *path);
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
    ROW_KERNEL = 128,
    ROW_DIRECTION = 256 /* forward or backward */
};

/* Whether two rows ran the same, but for what may differ; cases, being only names, are not looked at. */
bool row_alike(const row *a, const row *b, unsigned may_differ);

/* The number of each row's group, counted from 0 in the order of rows: rows that are alike are in one. */
int *rows_groups(arena *a, const rows *r, unsigned may_differ, int *count);

/* The number of each row's text at `path`, counted in the same way; -1 where there is none. */
int *rows_texts(arena *a, const rows *r, const char *path, int *count);

#endif
