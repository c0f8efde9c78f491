/* The command `ringattn`: finds the verb, runs it, and makes sure that what it printed has arrived. */
#include "commands.h"
#include "interrupt.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *verb;
    int (*run)(int argc, char **argv);
    const char *summary;
} COMMANDS[] = {
    {"attend", cmd_attend, "attention over tensors in files"},
    {"gradient", cmd_gradient, "gradients of attention by its inputs, over tensors in files"},
    {"plan", cmd_plan, "what a ring of ranks will do and hold, without running it"},
    {"advise", cmd_advise, "how to run a problem in a budget, and how long it will take"},
    {"check", cmd_check, "recompute sampled rows of a result in double precision"},
    {"verify", cmd_verify, "the library against its oracle, on this machine"},
    {"show", cmd_show, "a pattern as a picture"},
    {"generate", cmd_generate, "made-up tensors"},
    {"info", cmd_info, "version, processor, what is built in"},
    {"bench", cmd_bench, "measure the speed and the memory of this library on this machine"},
    {"report", cmd_report, "benchmark results as a page, text or tables"},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof *COMMANDS };

static int print_help(void)
{
    printf("usage: ringattn VERB [options]\n\nExact softmax attention.\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s%s\n", COMMANDS[i].verb, COMMANDS[i].summary);
    printf("  --help    print this text; with a verb, its options\n"
           "  --version print the version\n\n"
           "Exit codes: 0 success, 1 the work failed, 2 wrong usage or bad input, 128 + N stopped by signal N.\n"
           "Results go to standard output, everything else to standard error.\n");
    return EXIT_OK;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2)
        return report(EXIT_USAGE, "expected a verb: see ringattn --help");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return print_help();
    if (strcmp(argv[1], "--version") == 0) {
        printf("ringattn %s\n", ra_version());
        return EXIT_OK;
    }
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(argv[1], COMMANDS[i].verb) == 0) {
            report_verb(argv[1]);
            return COMMANDS[i].run(argc - 1, argv + 1);
        }
    return report(EXIT_USAGE, "unknown verb '%s': see ringattn --help", argv[1]);
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
