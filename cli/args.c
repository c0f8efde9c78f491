/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the options of a verb. See args.h. */
#include "args.h"

#include "help.h"
#include "report.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* Each stands for 1024 times as much as the one before it. */
static const char SUFFIXES[] = "KMG";

/* Digits and at most one suffix, up to `end`. */
static bool read_integer(const char *text, const char *end, int64_t *value)
{
    int64_t number = 0;
    const char *c = text;
    for (; c < end && *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *c - '0', &number))
            return false;
    if (c == text)
        return false;
    const char *suffix = c < end ? strchr(SUFFIXES, *c) : NULL;
    if (suffix) {
        c++;
        for (const char *s = SUFFIXES; s <= suffix; s++)
            if (__builtin_mul_overflow(number, 1024, &number))
                return false;
    }
    *value = number;
    return c == end;
}

bool args_read_integer(const char *text, int64_t *value)
{
    return read_integer(text, text + strlen(text), value);
}

static bool read_shape(const char *text, arg_shape *shape)
{
    shape->dims = 0;
    for (const char *start = text;;) {
        const char *end = strchr(start, ',');
        int64_t *extent = &shape->extents[shape->dims];
        if (shape->dims == RA_ARRAY_MAX_DIMS || !read_integer(start, end ? end : start + strlen(start), extent) ||
            *extent < 0)
            return false;
        shape->dims++;
        if (!end)
            return true;
        start = end + 1;
    }
}

static bool read_real(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end && isfinite((float)*value);
}

static bool read_choice(const char *text, const char *const *choices, int *index)
{
    for (*index = 0; choices[*index]; ++*index)
        if (strcmp(text, choices[*index]) == 0)
            return true;
    return false;
}

enum { DTYPE_COUNT = 3 };

static bool read_dtype(const char *text, int *dtype)
{
    static const ra_dtype IDS[DTYPE_COUNT] = {RA_F32, RA_F16, RA_BF16};
    int index;
    bool found = read_choice(text, ARG_DTYPES, &index);
    if (found)
        *dtype = (int)IDS[index % DTYPE_COUNT];
    return found;
}

static int report_choice(const arg_option *option, const char *const *choices, const char *text)
{
    char list[128] = "";
    for (int i = 0; choices[i]; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s",
                 i == 0           ? ""
                 : choices[i + 1] ? ", "
                                  : " or ",
                 choices[i]);
    return report(EXIT_USAGE, "--%s '%s': expected %s", option->name, text, list);
}

/* Sets the target; ARGS_RUN, or an exit code when the text is not a value of this kind. */
static int read_value(const arg_option *option, const char *text)
{
    switch (option->kind) {
    case ARG_FLAG: *(bool *)option->target = true; return ARGS_RUN;
    case ARG_TEXT:
        *(const char **)option->target = text;
        return *text ? ARGS_RUN : report(EXIT_USAGE, "--%s '': expected a value", option->name);
    case ARG_INTEGER: {
        int64_t *value = option->target;
        if (args_read_integer(text, value) && *value >= option->min && *value <= option->max)
            return ARGS_RUN;
        return report(EXIT_USAGE, "--%s '%s': expected a whole number, %lld..%lld", option->name, text,
                      (long long)option->min, (long long)option->max);
    }
    case ARG_BYTES: {
        int64_t *value = option->target;
        size_t length = strlen(text);
        bool unit = length > 3 && strcmp(text + length - 2, "iB") == 0 && strchr(SUFFIXES, text[length - 3]);
        if (read_integer(text, text + length - (unit ? 2 : 0), value) && *value >= option->min && *value <= option->max)
            return ARGS_RUN;
        return report(EXIT_USAGE, "--%s '%s': expected a number of bytes from %lld on, such as 512M or 512MiB",
                      option->name, text, (long long)option->min);
    }
    case ARG_REAL:
        return read_real(text, option->target)
                   ? ARGS_RUN
                   : report(EXIT_USAGE, "--%s '%s': expected a finite number", option->name, text);
    case ARG_CHOICE:
        return read_choice(text, option->choices, option->target) ? ARGS_RUN
                                                                  : report_choice(option, option->choices, text);
    case ARG_DTYPE: return read_dtype(text, option->target) ? ARGS_RUN : report_choice(option, ARG_DTYPES, text);
    case ARG_SHAPE:
        return read_shape(text, option->target)
                   ? ARGS_RUN
                   : report(EXIT_USAGE, "--%s '%s': expected 1 to %d whole numbers separated by commas", option->name,
                            text, RA_ARRAY_MAX_DIMS);
    }
    return ARGS_RUN;
}

/* ---- The command line -------------------------------------------------------------------------------------------- */

/* What getopt returns for the first option of a table: past every character that it returns on its own account. */
enum { FIRST_OPTION = 256 };

static int report_unknown(const arg_command *command, int option, char **argv)
{
    const char *word = argv[optind - 1];
    if (option == ':')
        return report(EXIT_USAGE, "%s: expected a value", word);
    if (optopt >= FIRST_OPTION) /* getopt knew it: a flag with "=value" */
        return report(EXIT_USAGE, "%s: takes no value", word);
    if (optopt)
        return report(EXIT_USAGE, "unknown option '-%c': see ringattn %s --help", optopt, command->verb);
    return report(EXIT_USAGE, "unknown option '%s': see ringattn %s --help", word, command->verb);
}

/* The table as getopt wants it. */
static void list_options(const arg_command *command, struct option *longs, char *letters)
{
    *letters++ = ':';
    for (int i = 0; i < command->option_count; i++) {
        const arg_option *option = &command->options[i];
        bool value = option->kind != ARG_FLAG;
        *longs++ = (struct option){option->name, value ? required_argument : no_argument, NULL, FIRST_OPTION + i};
        if (option->letter)
            *letters++ = option->letter;
        if (option->letter && value)
            *letters++ = ':';
    }
    *longs++ = (struct option){HELP_OPTION.name, no_argument, NULL, FIRST_OPTION + command->option_count};
    *longs = (struct option){0};
    *letters = 0;
}

/* What getopt returns for an option's letter is made what it returns for its name. */
static int next_option(const arg_command *command, int argc, char **argv, const char *letters,
                       const struct option *longs)
{
    int got = getopt_long(argc, argv, letters, longs, NULL);
    for (int i = 0; i < command->option_count; i++)
        if (command->options[i].letter && got == command->options[i].letter)
            return FIRST_OPTION + i;
    return got;
}

int args_parse(const arg_command *command, int argc, char **argv)
{
    struct option longs[ARGS_MAX_OPTIONS + 2];
    char letters[2 * ARGS_MAX_OPTIONS + 2];
    bool seen[ARGS_MAX_OPTIONS] = {false};
    const int count = command->option_count;
    list_options(command, longs, letters);

    opterr = 0;
    optind = 0; /* begin anew: help about several commands parses several times */
    for (int got; (got = next_option(command, argc, argv, letters, longs)) != -1;) {
        if (got < FIRST_OPTION)
            return report_unknown(command, got, argv);
        if (got == FIRST_OPTION + count) {
            help_print(command);
            return EXIT_OK;
        }
        const arg_option *option = &command->options[got - FIRST_OPTION];
        if (seen[got - FIRST_OPTION])
            return report(EXIT_USAGE, "--%s: given twice", option->name);
        seen[got - FIRST_OPTION] = true;
        /* "--query --key K": the value was forgotten, not an option name meant as a path. */
        if (option->kind != ARG_FLAG && strncmp(optarg, "--", 2) == 0)
            return report(EXIT_USAGE, "--%s: expected a value, found '%s'", option->name, optarg);
        int code = read_value(option, optarg);
        if (code != ARGS_RUN)
            return code;
    }
    if (optind < argc && !command->operands)
        return report(EXIT_USAGE, "unexpected '%s': see ringattn %s --help", argv[optind], command->verb);
    for (int i = 0; i < count; i++)
        if (command->options[i].required && !seen[i])
            return report(EXIT_USAGE, "--%s %s is missing: see ringattn %s --help", command->options[i].name,
                          command->options[i].metavar, command->verb);
    if (optind == argc && command->operands)
        return report(EXIT_USAGE, "%s is missing: see ringattn %s --help", command->operands, command->verb);
    return ARGS_RUN;
}
