/*
 * The options of a verb as one table, which makes both the parsing and the --help text.
 *
 *     int64_t length = 0;
 *     const arg_option options[] = {
 *         {.name = "length", .kind = ARG_INTEGER, .metavar = "N", .help = "tokens", .required = true,
 *          .target = &length, .min = 1, .max = 1000},
 *     };
 *     const arg_command command = {.verb = "show", .summary = "Draw a pattern.", .options = options,
 *                                  .option_count = 1, .example = "ringattn show --length 64"};
 *     int code = args_parse(&command, argc, argv);
 *     if (code != ARGS_RUN)
 *         return code;
 */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <ringattn/ringattn.h>
#include <stdbool.h>

/* What is written as a value, and the type behind `target`. */
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

typedef struct arg_command {
    const char *verb;
    const char *summary;
    const arg_option *options;
    int option_count;  /* at most ARGS_MAX_OPTIONS */
    const char *notes; /* more paragraphs for the help text, or NULL */
    const char *example;
    const char *operands; /* what is given without an option, at least one, as the help text has it; NULL: nothing is */
} arg_command;

enum { ARGS_MAX_OPTIONS = 40, ARGS_RUN = -1 };

/*
 * argv[0] is the verb. ARGS_RUN when the targets are set, else the exit code: of asking for help, or of wrong usage.
 * Operands are then argv[optind .. argc).
 */
int args_parse(const arg_command *command, int argc, char **argv);

/* A text that is a number as ARG_INTEGER has them, 0 or more. */
bool args_read_integer(const char *text, int64_t *value);

#endif
