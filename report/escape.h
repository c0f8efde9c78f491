/* SPDX-License-Identifier: Apache-2.0 */
/* Text of rows as text, whatever it contains. */
#ifndef REPORT_ESCAPE_H
#define REPORT_ESCAPE_H

#include <stdio.h>

/* In HTML and SVG, between tags and in attributes. */
void escape_markup(FILE *stream, const char *text);

/* In Markdown, also in the cell of a table. */
void escape_markdown(FILE *stream, const char *text);

/* One field of a line of CSV. */
void escape_csv(FILE *stream, const char *text);

#endif
