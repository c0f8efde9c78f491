/* SPDX-License-Identifier: Apache-2.0 */
/* The command `ringattn`: finds the verb, runs it, and makes sure that what it printed has arrived. */
#include "commands.h"
#include "help.h"
#include "interrupt.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef enum verb_group { COMPUTE, PLAN, LOOK, MEASURE, GROUPS } verb_group;

static const char *const GROUP_NAMES[GROUPS] = {"compute", "plan", "look", "measure"};

static const struct {
    verb_group group;
    const char *verb;
    int (*run)(int argc, char **argv);
    const char *summary;
} COMMANDS[] = {
    {COMPUTE, "attend", cmd_attend, "attention over tensors in files"},
    {COMPUTE, "gradient", cmd_gradient, "gradients of attention, over tensors in files"},
    {COMPUTE, "quantize", cmd_quantize, "keys or values as 8 bits with scales"},
    {COMPUTE, "generate", cmd_generate, "random tensors, the same on every machine"},
    {PLAN, "plan", cmd_plan, "what each rank of a ring will hold, send and compute"},
    {PLAN, "advise", cmd_advise, "the fastest way to run a problem in a memory budget"},
    {LOOK, "show", cmd_show, "a pattern as a picture"},
    {LOOK, "info", cmd_info, "version, processor, what is built in"},
    {MEASURE, "verify", cmd_verify, "compare the library with its oracle on this machine"},
    {MEASURE, "check", cmd_check, "recompute sampled rows of a result in double precision"},
    {MEASURE, "bench", cmd_bench, "measure speed and memory on this machine"},
    {MEASURE, "report", cmd_report, "benchmark results as a page, text or tables"},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof *COMMANDS };

static const char SUMMARY[] = "exact softmax attention on CPUs, in one process or over ranks";

static const char EXAMPLES[] =
    "ringattn attend --query gen:1 --key gen:2 --value gen:3 --shape 1,4K,8,64 --pattern causal --output o.npy\n"
    "ringattn plan --length 1M --heads 8 --dim 64 --pattern causal --ring 16\n"
    "ringattn verify --quick\n";

static const char CODES[] = "0 success, 1 the work failed, 2 wrong usage or bad input, 128 + N stopped by signal N.";

static const char STREAMS[] = "Results go to standard output, everything else to standard error.";

static const arg_topic GENERAL[] = {
    {"help", "help [VERB]: print this text, or the options of a verb, as VERB --help does"},
    {"--help", "the same"},
    {"--version", "print the version"},
};
enum { GENERAL_COUNT = sizeof GENERAL / sizeof *GENERAL };

/* ---- Help about the command as a whole --------------------------------------------------------------------------- */

static void print_overview(FILE *to)
{
    fprintf(to, "usage: ringattn VERB [options]\n\nringattn: %s.\n", SUMMARY);
    for (int group = 0; group < GROUPS; group++) {
        fprintf(to, "\n%s\n", GROUP_NAMES[group]);
        for (int i = 0; i < COMMAND_COUNT; i++)
            if ((int)COMMANDS[i].group == group)
                fprintf(to, "  %-10s %s\n", COMMANDS[i].verb, COMMANDS[i].summary);
    }
    fprintf(to, "\n");
    for (int i = 0; i < GENERAL_COUNT; i++)
        fprintf(to, "  %-10s %s\n", GENERAL[i].name, GENERAL[i].help);
    fprintf(to, "\nexamples\n");
    for (const char *line = EXAMPLES; *line; line = strchr(line, '\n') + 1)
        fprintf(to, "  %.*s\n", (int)strcspn(line, "\n"), line);
    fprintf(to, "\nExit codes: %s\n%s\n", CODES, STREAMS);
}

static void print_overview_page(void)
{
    help_man_begin("", SUMMARY);
    help_man_section("SYNOPSIS");
    printf("\\fBringattn\\fR \\fIVERB\\fR [\\fIoptions\\fR]\n");
    for (int group = 0; group < GROUPS; group++) {
        help_man_section(GROUP_NAMES[group]);
        for (int i = 0; i < COMMAND_COUNT; i++)
            if ((int)COMMANDS[i].group == group) {
                printf(".TP\n\\fB%s\\fR\n", COMMANDS[i].verb);
                help_man_text(COMMANDS[i].summary);
                putchar('\n');
            }
    }
    help_man_section("OTHER");
    for (int i = 0; i < GENERAL_COUNT; i++) {
        printf(".TP\n\\fB");
        help_man_text(GENERAL[i].name);
        printf("\\fR\n");
        help_man_text(GENERAL[i].help);
        putchar('\n');
    }
    help_man_section("EXIT STATUS");
    help_man_text(CODES);
    printf("\n.PP\n%s\n", STREAMS);
    help_man_section("EXAMPLES");
    help_man_lines(EXAMPLES);
    help_man_section("SEE ALSO");
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("\\fBringattn\\-%s\\fR(1)%s\n", COMMANDS[i].verb, i + 1 < COMMAND_COUNT ? "," : "");
}

static void print_overview_words(void)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        help_word(COMMANDS[i].verb, "", COMMANDS[i].summary);
    for (int i = 0; i < GENERAL_COUNT; i++)
        help_word(GENERAL[i].name, "", GENERAL[i].help);
}

static int print_help(void)
{
    switch (help_current_form()) {
    case HELP_TEXT: print_overview(stdout); break;
    case HELP_MAN: print_overview_page(); break;
    case HELP_WORDS: print_overview_words(); break;
    }
    return EXIT_OK;
}

/* ---- Verbs ------------------------------------------------------------------------------------------------------- */

/* The index of a verb, or -1 and a message. */
static int find_verb(const char *verb)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(verb, COMMANDS[i].verb) == 0)
            return i;
    report(EXIT_USAGE, "unknown verb '%s': see ringattn --help", verb);
    return -1;
}

/* ringattn help [--man | --words] [VERB [SUITE]]: what VERB --help prints; as a man page, or for completion scripts. */
static int cmd_help(int argc, char **argv)
{
    char option[] = "--help";
    char *words[4] = {NULL};
    int count = 0, next = 1;
    if (next < argc && (strcmp(argv[next], "--man") == 0 || strcmp(argv[next], "--words") == 0))
        help_set_form(strcmp(argv[next++], "--man") == 0 ? HELP_MAN : HELP_WORDS);
    if (next == argc)
        return print_help();
    int verb = find_verb(argv[next]);
    if (verb < 0)
        return EXIT_USAGE;
    if (argc - next > 2)
        return report(EXIT_USAGE, "help: unexpected '%s': expected help [VERB [SUITE]]", argv[next + 2]);
    while (next < argc)
        words[count++] = argv[next++];
    words[count++] = option;
    if (help_current_form() == HELP_MAN)
        help_man_begin(COMMANDS[verb].verb, COMMANDS[verb].summary);
    int code = COMMANDS[verb].run(count, words);
    if (help_current_form() == HELP_MAN)
        printf(".SH \"SEE ALSO\"\n\\fBringattn\\fR(1)\n");
    return code;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_help();
    if (strcmp(argv[1], "help") == 0)
        return cmd_help(argc - 1, argv + 1);
    if (strcmp(argv[1], "--version") == 0) {
        printf("ringattn %s\n", ra_version());
        return EXIT_OK;
    }
    int verb = find_verb(argv[1]);
    if (verb < 0)
        return EXIT_USAGE;
    report_verb(argv[1]);
    return COMMANDS[verb].run(argc - 1, argv + 1);
}

/*
 * A file that is opened where standard input or output was closed would be taken for it. What stands in for a closed
 * standard output cannot be written, so that printing fails as it must; messages have nowhere else to go.
 */
static void hold_standard_streams(void)
{
    for (int stream = 0; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    setlocale(LC_CTYPE, "");
    interrupt_install();
    int code = dispatch(argc, argv);
    errno = 0;
    if (!code && (fflush(stdout) != 0 || ferror(stdout)))
        return report(EXIT_WORK, "standard output: cannot write: %s",
                      errno ? strerror(errno) : "some of what was printed is lost");
    return code;
}
