/* SPDX-License-Identifier: Apache-2.0 */
/* A report: its sections, and the forms that it can be written in. */
#ifndef REPORT_DOCUMENT_H
#define REPORT_DOCUMENT_H

#include "section.h"

#include <stdio.h>

typedef struct document {
    arena memory;
    const char *title;
    section *sections;
    int count;
    const char *missing; /* which sections have no rows, and what would give them some; NULL: all have */
} document;

/* All that the rows say; there is at least one row. Choose or trim before it is written. */
void document_make(document *d, const rows *r);

/* Leaves out the sections that have no rows; `missing` says which. */
void document_trim(document *d);

/* Leaves one section, with the charts that have points. NULL; what is wrong when there is none, or no rows for it. */
const char *document_choose(document *d, const char *id);

void document_free(document *d);

/*
 * Each writes the report to a stream. NULL; what is wrong when the charts cannot be drawn, and then what has been
 * written is no report. Whether the stream took it all is the caller's to find out.
 */
const char *document_html(document *d, FILE *stream);
const char *document_markdown(document *d, FILE *stream);
const char *document_svg(document *d, FILE *stream);  /* the charts alone */
const char *document_text(document *d, FILE *stream); /* for a terminal of 80 columns */

/* The rows as they count, flat, with the paths of their fields at the head. */
void rows_csv(const rows *r, FILE *stream);

#endif
