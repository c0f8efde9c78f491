/* ringattn bench SUITE: measurements of this machine and this library, in one run. */
#include "args.h"
#include "bench/bench.h"
#include "commands.h"
#include "interrupt.h"
#include "report.h"

#include <string.h>

int cmd_bench(int argc, char **argv)
{
    int64_t threads = 0, rounds = 15;
    bool quick = false;
    const char *only = NULL;
    const arg_option options[] = {
        {.name = "quick", .kind = ARG_FLAG, .help = "three rounds", .target = &quick},
        {.name = "rounds",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .help = "samples of each case (default 15)",
         .target = &rounds,
         .min = 1,
         .max = 1000},
        {.name = "threads",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .help = "threads (default: cores)",
         .target = &threads,
         .min = 1,
         .max = 4096},
        {.name = "only",
         .kind = ARG_TEXT,
         .metavar = "TEXT",
         .help = "only cases whose name contains TEXT",
         .target = &only},
    };
    const arg_command command = {
        .verb = "bench kernel",
        .summary = "The kernels against this machine's multiply-add peak and memory bandwidth.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .example = "ringattn bench kernel --quick",
    };
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (!help && (argc < 2 || strcmp(argv[1], "kernel") != 0))
        return report(EXIT_USAGE, "expected the suite \"kernel\", found %s", argc < 2 ? "nothing" : argv[1]);
    int code = help ? args_parse(&command, argc, argv) : args_parse(&command, argc - 1, argv + 1);
    if (code != ARGS_RUN)
        return code;
    const bench_options bench = {(int)threads, quick ? 3 : (int)rounds, only, interrupted};
    code = bench_kernel(&bench);
    return interrupted() ? interrupt_exit() : code;
}
