/*
 * Patterns: which keys does the query at a global position see? A pattern is a list of terms that all apply. Text is
 * parsed once; everything after sees integers only. A kind of term is one term_*.c file and one line of the table in
 * pattern.c.
 */
#ifndef RA_PLAN_PATTERN_H
#define RA_PLAN_PATTERN_H

#include "base/status.h"

#include <stdbool.h>

/* Keys lo <= k < hi; empty when lo >= hi. */
typedef struct ra_interval {
    int64_t lo, hi;
} ra_interval;

/* Reads the lengths in a file; *lengths is malloc'ed for the caller, also when a failure is returned. */
typedef ra_status (*ra_lengths_loader)(const char *path, int64_t **lengths, int64_t *count);

/* A text being read, and what its terms may need to know. */
typedef struct ra_parser {
    const char *text, *at;
    int64_t kv_len;
    ra_lengths_loader load;
} ra_parser;

typedef struct ra_term ra_term;

typedef struct ra_term_kind {
    const char *name;
    const char *usage; /* how it is written, for messages */
    /* Reads what follows the name; NULL when nothing does. */
    ra_status (*parse)(ra_parser *parser, ra_term *term);
    /* The keys that the query at `position` sees. Fast: used to plan and to run. */
    ra_interval (*interval)(const ra_term *term, int64_t position);
    /* Whether that query sees `key`, by the definition: used by the oracle, which shares nothing with `interval`. */
    bool (*sees)(const ra_term *term, int64_t position, int64_t key);
} ra_term_kind;

struct ra_term {
    const ra_term_kind *kind;
    int64_t left, right; /* window */
    int64_t *ends;       /* documents: the position after each one's last; owned */
    int64_t count;       /* of ends */
};

enum { RA_PATTERN_TERMS = 16 };

typedef struct ra_pattern {
    int64_t kv_len;
    int count;
    ra_term terms[RA_PATTERN_TERMS];
} ra_pattern;

extern const ra_term_kind ra_term_full, ra_term_causal, ra_term_window, ra_term_documents;

/* Parse `text` for keys 0 .. kv_len - 1. Clear with ra_pattern_clear, also after a failure. */
ra_status ra_pattern_parse(const char *text, int64_t kv_len, ra_lengths_loader load, ra_pattern *pattern);
void ra_pattern_clear(ra_pattern *pattern);

/* The keys that the query at `position` sees. */
ra_interval ra_pattern_interval(const ra_pattern *pattern, int64_t position);

/*
 * The keys that some query at positions first .. first + count - 1 sees. They are an interval, because neighbours'
 * intervals overlap or touch, and both ends of them only move forward.
 */
ra_interval ra_pattern_reach(const ra_pattern *pattern, int64_t first, int64_t count);

/* How often that query sees `key`, by the definition. */
int ra_pattern_sees(const ra_pattern *pattern, int64_t position, int64_t key);

/* For the terms' parsers: an error at `at`, and a whole number >= 0 at parser->at. */
ra_status ra_parse_expected(const ra_parser *parser, const char *at, const char *what);
ra_status ra_parse_number(ra_parser *parser, const char *what, int64_t *number);

#endif
