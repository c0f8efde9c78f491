/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading short texts such as patterns and scores: terms joined with '+'. Every message names the character, from 1, at
 * which something else was expected.
 */
#ifndef RA_BASE_PARSER_H
#define RA_BASE_PARSER_H

#include "base/status.h"

/* A text being read. */
typedef struct ra_parser {
    const char *name; /* what the text is, for messages: "pattern" */
    const char *text, *at;
    const void *context; /* what the parsers of its terms may need to know */
} ra_parser;

/* An error at `at`: what was expected there, and what was found. */
ra_status ra_parse_expected(const ra_parser *parser, const char *at, const char *what);

/* The thread's last message, with the place `at` of the text in front. Returns `status`. */
ra_status ra_parse_failed(const ra_parser *parser, const char *at, ra_status status);

/* A whole number >= 0 where the parser stands. */
ra_status ra_parse_number(ra_parser *parser, const char *what, int64_t *number);

/*
 * A number >= 0 in decimals where the parser stands. Up to 15 digits are exact in a double, and so is their quotient's
 * rounding; no digits or more of them are an error.
 */
ra_status ra_parse_decimal(ra_parser *parser, const char *what, double *number);

/* The path after an '@' where the parser stands, up to the next '+' or the end; malloc'ed for the caller. */
ra_status ra_parse_path(ra_parser *parser, char **path);

/* The length of the term's name where the parser stands. */
size_t ra_parse_name(const ra_parser *parser);

#endif
