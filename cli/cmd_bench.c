/* SPDX-License-Identifier: Apache-2.0 */
/* ringattn bench SUITE: measurements of this machine and this library, in one run. */
#include "bench/bench.h"
#include "commands.h"
#include "gen_input.h"
#include "help.h"
#include "interrupt.h"
#include "job.h"
#include "report.h"
#include "report/compare.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

typedef struct bench_suite {
    const char *name;
    int (*run)(const bench_options *options);
    int rounds, quick_rounds; /* without --rounds */
    int short_rounds;         /* 0: as many as others */
    bool samples, length;     /* whether it takes the options of samples, and --length */
    bool lengths, budget;     /* whether --length takes several, and whether it takes --memory */
    bool published;           /* --seed-table */
    bool hidden;              /* started by another suite */
    bool parts;               /* --only takes one of its parts */
    bool all;                 /* every suite that is not hidden and not this one */
    const char *summary, *quick, *length_help, *example;
} bench_suite;

static const bench_suite SUITES[] = {
    {.name = "compare",
     .run = bench_compare,
     .rounds = 7,
     .quick_rounds = 3,
     .short_rounds = 21,
     .samples = true,
     .lengths = true,
     .published = true,
     .summary = "Every strategy, order and pattern side by side, and naive attention on OpenBLAS.",
     .quick = "2048 tokens alone, three rounds",
     .length_help = "lengths (default 2048,4096,8192)",
     .example = "ringattn bench compare --seed-table --output results.jsonl"},
    {.name = "kernel",
     .run = bench_kernel,
     .rounds = 15,
     .quick_rounds = 3,
     .samples = true,
     .summary = "The kernels against this machine's multiply-add peak and memory bandwidth.",
     .quick = "three rounds",
     .example = "ringattn bench kernel --quick"},
    {.name = "decode",
     .run = bench_decode,
     .rounds = 9,
     .quick_rounds = 3,
     .samples = true,
     .length = true,
     .summary =
         "Few queries against long caches: 16 and 8 bits, both layouts, ragged and in pages, to the bandwidth of\n"
         "reading the same bytes.",
     .quick = "8192 keys, three rounds",
     .length_help = "keys (default 131072; about 4 GiB of memory)",
     .example = "ringattn bench decode --quick"},
    {.name = "backward",
     .run = bench_backward,
     .rounds = 7,
     .quick_rounds = 3,
     .samples = true,
     .length = true,
     .summary = "Gradients in one piece against this machine's multiply-add peak.",
     .quick = "three rounds",
     .length_help = "length of all cases (default: 512 to 65536, each its own)",
     .example = "ringattn bench backward --quick"},
    {.name = "memory",
     .run = bench_memory,
     .length = true,
     .parts = true,
     .summary = "What a rank of a ring holds: planned, accounted and as the system saw it, for rings of 2 to 64,\n"
                "over lengths, and for MPI processes. Exit code 1 when a bound does not hold.",
     .quick = "runs of length 4096",
     .length_help = "length of the runs (default 16384); plans are shown for 65536",
     .example = "ringattn bench memory --quick"},
    {.name = "ring",
     .run = bench_ring,
     .rounds = 7,
     .quick_rounds = 3,
     .samples = true,
     .length = true,
     .summary = "The same problem over ranks and in one piece, with as many threads in all. Starts itself under\n"
                "mpirun when MPI is built in.",
     .quick = "three rounds",
     .length_help = "length of the sequence (default 8192)",
     .example = "ringattn bench ring --quick"},
    {.name = "ring-rank",
     .run = bench_ring_rank,
     .rounds = 7,
     .quick_rounds = 3,
     .samples = true,
     .length = true,
     .hidden = true,
     .summary = "One process of ringattn bench ring: started by it, under mpirun.",
     .quick = "three rounds",
     .length_help = "length of the sequence (default 8192)",
     .example = "mpirun --bind-to none -n 2 ringattn bench ring-rank --threads 2"},
    {.name = "sparse",
     .run = bench_sparse,
     .rounds = 7,
     .quick_rounds = 2,
     .samples = true,
     .length = true,
     .summary = "Dilated, block-sparse and windowed attention, against the multiply-add peak and a dense run.",
     .quick = "a quarter of the lengths, two rounds",
     .length_help = "length of the dense case (default 16384); others are 4 to 64 times as long",
     .example = "ringattn bench sparse --quick"},
    {.name = "scores",
     .run = bench_scores,
     .rounds = 7,
     .quick_rounds = 3,
     .samples = true,
     .length = true,
     .summary = "What softcaps, biases, sinks, dropout and masks of single pairs cost, beside a plain run.",
     .quick = "2048 tokens, three rounds",
     .length_help = "length of the sequence (default 8192)",
     .example = "ringattn bench scores --quick"},
    {.name = "tiles",
     .run = bench_tiles,
     .rounds = 7,
     .quick_rounds = 3,
     .samples = true,
     .length = true,
     .summary = "The orders in which tiles are worked: row, serpentine and hilbert on the same problem, by time and\n"
                "by cache misses, which valgrind models if the processor's counters cannot be read.",
     .quick = "three rounds",
     .length_help = "length of the sequence (default 8192)",
     .example = "ringattn bench tiles --quick"},
    {.name = "layer",
     .run = bench_layer,
     .rounds = 7,
     .quick_rounds = 2,
     .samples = true,
     .lengths = true,
     .summary = "A multi-head layer with its projections, in one process and over MPI ranks, beside published times.",
     .quick = "4096 tokens alone, two rounds",
     .length_help = "lengths (default 4096,8192,16384,32768)",
     .example = "ringattn bench layer --output results.jsonl"},
    {.name = "layer-rank",
     .run = bench_layer_rank,
     .rounds = 7,
     .quick_rounds = 2,
     .samples = true,
     .lengths = true,
     .hidden = true,
     .summary = "One process of ringattn bench layer: started by it, under mpirun.",
     .quick = "4096 tokens alone, two rounds",
     .length_help = "lengths (default 4096,8192,16384,32768)",
     .example = "mpirun --bind-to none -n 2 ringattn bench layer-rank --threads 2"},
    {.name = "extreme",
     .run = bench_extreme,
     .lengths = true,
     .budget = true,
     .summary = "Dilated attention over a million tokens and more, with made-up inputs, in a memory budget; and full\n"
                "attention over 262144 tokens in 64 MiB. About ten minutes.",
     .quick = "a million tokens alone",
     .length_help = "lengths of the dilated runs (default 1M,4M,16M,64M; 1G may be written)",
     .example = "ringattn bench extreme --length 1G --output results.jsonl"},
    {.name = "all",
     .rounds = 7,
     .quick_rounds = 3,
     .samples = true,
     .published = true,
     .all = true,
     .summary = "All suites, one after the other; ringattn report makes a page of their results.",
     .quick = "each as quick as it can be: about seven minutes in all",
     .example = "ringattn bench all --quick --output results.jsonl"},
    {.name = "tiles-run",
     .run = bench_tiles_run,
     .rounds = 1,
     .quick_rounds = 1,
     .samples = true,
     .length = true,
     .hidden = true,
     .summary = "One run of ringattn bench tiles: started by it, under valgrind.",
     .quick = "one run",
     .length_help = "length of the sequence",
     .example = "valgrind --tool=cachegrind ringattn bench tiles-run --only hilbert --length 512"},
};
enum { SUITE_COUNT = sizeof SUITES / sizeof *SUITES };

static void set_rounds(bench_options *bench, const bench_suite *suite)
{
    bench->rounds = bench->quick ? suite->quick_rounds : suite->rounds;
    bench->short_rounds = bench->quick || !suite->short_rounds ? bench->rounds : suite->short_rounds;
}

/* The options that a suite takes; `rounds` and the others are left alone where it takes none. */
static int parse(const bench_suite *suite, int argc, char **argv, bench_options *bench)
{
    int64_t rounds = 0, threads = 0;
    char verb[32], rounds_help[96], more[48] = "";
    const char *input = "gen:1";
    snprintf(verb, sizeof verb, "bench %s", suite->name);
    if (suite->short_rounds)
        snprintf(more, sizeof more, ", of short sequences up to %d", suite->short_rounds);
    snprintf(rounds_help, sizeof rounds_help, "samples of each case at most (default %d%s)", suite->rounds, more);
    arg_shape lengths = {0};
    const struct {
        bool taken;
        arg_option option;
    } all[] = {
        {true, {.name = "quick", .kind = ARG_FLAG, .help = suite->quick, .target = &bench->quick}},
        {suite->samples,
         {.name = "rounds",
          .kind = ARG_INTEGER,
          .metavar = "N",
          .help = rounds_help,
          .target = &rounds,
          .min = 1,
          .max = 1000}},
        {suite->samples,
         {.name = "seconds",
          .kind = ARG_REAL,
          .metavar = "S",
          .help = "begin no round of samples after S seconds (default: no limit)",
          .target = &bench->seconds}},
        {suite->samples || suite->lengths,
         {.name = "threads",
          .kind = ARG_INTEGER,
          .metavar = "N",
          .help = strcmp(suite->name, "kernel") == 0 ? "threads (default: cores)" : "threads in all (default 2)",
          .target = &threads,
          .min = 1,
          .max = 4096}},
        {suite->samples || suite->parts,
         {.name = "only",
          .kind = ARG_TEXT,
          .metavar = "TEXT",
          .help = suite->parts ? "only parts whose name contains TEXT: plans, rings, lengths, processes"
                               : "only cases whose name contains TEXT",
          .target = &bench->only}},
        {suite->samples,
         {.name = "input",
          .kind = ARG_TEXT,
          .metavar = "gen:SEED",
          .help = "made-up tensors: the queries of SEED, keys and values of the next two\n(default gen:1)",
          .target = &input}},
        {suite->length,
         {.name = "length",
          .kind = ARG_INTEGER,
          .metavar = "N",
          .help = suite->length_help,
          .target = &bench->length,
          .min = 64,
          .max = 1 << 20}},
        {suite->lengths,
         {.name = "length", .kind = ARG_SHAPE, .metavar = "N,N,...", .help = suite->length_help, .target = &lengths}},
        {suite->budget,
         {.name = "memory",
          .kind = ARG_BYTES,
          .metavar = "BYTES",
          .help = "what a process may hold (default 768MiB)",
          .target = &bench->memory,
          .min = 1,
          .max = INT64_MAX}},
        {suite->published,
         {.name = "seed-table",
          .kind = ARG_FLAG,
          .help = "the configurations of published reports, too",
          .target = &bench->seed_table}},
        {true,
         {.name = "output",
          .kind = ARG_TEXT,
          .metavar = "FILE",
          .help = "append results to this file, one JSON object a line",
          .target = &bench->output}},
    };
    arg_option taken[sizeof all / sizeof *all];
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].taken)
            taken[count++] = all[i].option;
    const arg_command command = {
        .verb = verb, .summary = suite->summary, .options = taken, .option_count = count, .example = suite->example};
    int code = args_parse(&command, argc, argv);
    if (code == ARGS_RUN) {
        int refused = gen_seed("input", input, &bench->seed);
        code = refused ? refused : code;
    }
    for (int i = 0; i < lengths.dims && i < BENCH_MOST_LENGTHS; i++)
        bench->lengths[bench->length_count++] = lengths.extents[i];
    bench->threads = (int)threads;
    set_rounds(bench, suite);
    if (rounds)
        bench->rounds = bench->short_rounds = (int)rounds;
    return code;
}

/* Every suite with the rounds of its own, into the same file. A suite that fails does not keep others from running. */
static int run_all(const bench_options *bench)
{
    int code = EXIT_OK;
    for (int i = 0; i < SUITE_COUNT && !interrupted(); i++) {
        const bench_suite *suite = &SUITES[i];
        if (suite->hidden || suite->all || (suite->run == bench_layer && !bench_layer_blas()))
            continue;
        bench_options own = *bench;
        set_rounds(&own, suite);
        printf("%s== %s\n", i ? "\n" : "", suite->name);
        fflush(stdout);
        int failed = suite->run(&own);
        code = failed > code ? failed : code;
    }
    return code;
}

/* ringattn bench --compare OLD NEW, with its options in any order. */
static int compare_files(int argc, char **argv)
{
    double threshold = REPORT_COMPARE_THRESHOLD;
    bool compare = false;
    const arg_option options[] = {
        {.name = "compare", .kind = ARG_FLAG, .help = "two files of results", .required = true, .target = &compare},
        {.name = "threshold",
         .kind = ARG_REAL,
         .metavar = "PERCENT",
         .help = "what may get slower, or larger, by so much (default 5)",
         .target = &threshold},
    };
    const arg_command command = {
        .verb = "bench",
        .summary =
            "What got faster or slower beyond the noise between two files of results. Exit code 1 when something\n"
            "is slower, or holds more memory, by more than the threshold, or has become wrong.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .operands = "OLD.jsonl NEW.jsonl",
        .example = "ringattn bench --compare before.jsonl after.jsonl --threshold 10"};
    int code = args_parse(&command, argc, argv);
    if (code != ARGS_RUN)
        return code;
    if (argc - optind != 2)
        return report(EXIT_USAGE, "--compare takes two files, OLD.jsonl and NEW.jsonl, found %d", argc - optind);
    if (threshold < 0)
        return report(EXIT_USAGE, "--threshold %g: must be 0 or more", threshold);
    return report_compare(argv[optind], argv[optind + 1], threshold, stdout);
}

/* A man page has the options of all suites; other forms of help about bench name the suites. */
static int print_suites(void)
{
    arg_topic topics[SUITE_COUNT];
    int count = 0;
    for (int i = 0; i < SUITE_COUNT; i++)
        if (!SUITES[i].hidden)
            topics[count++] = (arg_topic){SUITES[i].name, SUITES[i].summary};
    const arg_option options[] = {
        {.name = "compare",
         .kind = ARG_TEXT,
         .metavar = "OLD NEW",
         .help = "in place of a suite: what got faster or slower beyond the noise between two files of\n"
                 "results; exit code 1 when something is slower by more than the threshold"},
        {.name = "threshold", .kind = ARG_REAL, .metavar = "PERCENT", .help = "of --compare (default 5)"},
    };
    const arg_command command = {.verb = "bench",
                                 .summary = "Measurements of this machine and this library, in one run.",
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .topics = topics,
                                 .topic_count = count,
                                 .operands = "SUITE",
                                 .notes = "ringattn bench SUITE --help: the options of a suite.",
                                 .example = "ringattn bench kernel --quick"};
    help_print(&command);
    for (int i = 0; i < SUITE_COUNT && help_current_form() == HELP_MAN; i++) {
        char name[] = "bench", help[] = "--help";
        bench_options unused = {0};
        if (!SUITES[i].hidden)
            parse(&SUITES[i], 2, (char *[]){name, help, NULL}, &unused);
    }
    return EXIT_OK;
}

static const bench_suite *find(const char *name)
{
    for (int i = 0; i < SUITE_COUNT; i++)
        if (strcmp(name, SUITES[i].name) == 0)
            return &SUITES[i];
    return NULL;
}

int cmd_bench(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return print_suites();
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--compare") == 0)
            return compare_files(argc, argv);
    const bench_suite *suite = argc < 2 ? NULL : find(argv[1]);
    if (!suite)
        return report(EXIT_USAGE,
                      "expected one of the suites compare, kernel, backward, memory, ring, sparse, scores, tiles, "
                      "layer, extreme and all, or "
                      "--compare, found %s",
                      argc < 2 ? "nothing" : argv[1]);
    interrupt_waits();
    bench_options bench = {.interrupted = interrupted, .mpi = job_mpi_name()};
    int code = parse(suite, argc - 1, argv + 1, &bench);
    if (code != ARGS_RUN)
        return code;
    code = suite->all ? run_all(&bench) : suite->run(&bench);
    return interrupted() ? interrupt_exit() : code;
}
