/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options of a verb: args.h parses by it, help.h prints it. */
#ifndef CLI_ARG_TABLE_H
#define CLI_ARG_TABLE_H

#include <ringattn/ringattn.h>
#include <stdbool.h>

/* The kinds of values, as they are written, and the type behind `target`. */
typedef enum arg_kind {
    ARG_FLAG,    /* no value: bool */
    ARG_TEXT,    /* anything: const char *, which points into argv */
    ARG_INTEGER, /* digits, with K, M or G for 1024s: int64_t, min..max */
    ARG_BYTES,   /* the same, and the letter may be followed by iB: int64_t, min..max */
    ARG_REAL,    /* a finite number: double */
    ARG_CHOICE,  /* one of `choices`: int, its index */
    ARG_DTYPE,   /* float32, float16 or bfloat16, or f32, f16 or bf16: int, an ra_dtype */
    ARG_SHAPE    /* integers separated by commas: arg_shape */
} arg_kind;

typedef struct arg_shape {
    int dims;
    int64_t extents[RA_ARRAY_MAX_DIMS];
} arg_shape;

typedef struct arg_option {
    const char *name; /* without the dashes */
    char letter;      /* a short name, "-o"; 0: none */
    arg_kind kind;
    const char *metavar; /* what the value is called in the help text */
    const char *help;    /* '\n' starts a new line; NULL: not in the help text, for options that are always refused */
    bool required;
    void *target;
    int64_t min, max;           /* ARG_INTEGER */
    const char *const *choices; /* ARG_CHOICE: ends with NULL */
} arg_option;

/* A value of a verb's first operand, if that is one of a list. */
typedef struct arg_topic {
    const char *name, *help;
} arg_topic;

typedef struct arg_command {
    const char *verb;
    const char *summary;
    const arg_option *options;
    int option_count;  /* at most ARGS_MAX_OPTIONS */
    const char *notes; /* more paragraphs for the help text, or NULL */
    const char *example;
    const char *operands; /* what is given without an option, at least one, as the help text has it; NULL: nothing is */
    const arg_topic *topics; /* for the help text alone */
    int topic_count;
} arg_command;

/* The names of tensors' dtypes, long and short: ends with NULL. */
extern const char *const ARG_DTYPES[];

/* The values that an option chooses from, ending with NULL; NULL: it does not choose from a list. */
const char *const *arg_choices(const arg_option *option);

#endif
