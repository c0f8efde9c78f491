/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn plan: what a run over ranks will do and hold, as a table or a summary of it; for gradients in one piece, the
 * figures of the whole run. Nothing is read or run.
 */
#include "commands.h"
#include "interrupt.h"
#include "problem_args.h"
#include "report.h"
#include "ring_args.h"
#include "stats_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above this number of ranks a summary is printed, unless all are asked for. */
enum { ROWS_SHOWN = 32 };

typedef struct plan_job {
    problem_args about;
    bool json, lent, all, backward;
    int64_t rank; /* -1: all of them */
    ring_args ring;
    ra_problem problem;
    ra_ring_options options;
    ra_ring_plan *plan;
} plan_job;

static int parse(plan_job *job, int argc, char **argv)
{
    enum { OWN = 5 };
    arg_option options[PROBLEM_OPTIONS + OWN + RING_OPTIONS];
    const arg_option own[OWN] = {
        {.name = "in-memory",
         .kind = ARG_FLAG,
         .target = &job->lent,
         .help = "tensors are in memory, as for the library's ra_ring_forward; else in files"},
        {.name = "rank",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &job->rank,
         .min = 0,
         .max = 65535,
         .help = "plan rank N alone, as a process of a large ring does"},
        {.name = "backward",
         .kind = ARG_FLAG,
         .target = &job->backward,
         .help = "plan the gradients of ringattn gradient: in one piece, or over ranks if an option\n"
                 "of ranks is given"},
        {.name = "all", .kind = ARG_FLAG, .target = &job->all, .help = "print every rank, also above 32"},
        {.name = "json", .kind = ARG_FLAG, .target = &job->json, .help = "print JSON, with every rank"},
    };
    *job = (plan_job){.rank = RA_ALL_RANKS};
    problem_args_options(&job->about, options);
    memcpy(options + PROBLEM_OPTIONS, own, sizeof own);
    ring_args_options(&job->ring, options + PROBLEM_OPTIONS + OWN);
    const arg_command command = {
        .verb = "plan",
        .summary = "What each rank will hold, send and compute. With --memory and without --ring: for the smallest\n"
                   "ring that fits. Above 32 ranks: least, median and most.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .example = "ringattn plan --length 1M --heads 8 --dim 64 --pattern causal --ring 16 --order zigzag",
    };
    return args_parse(&command, argc, argv);
}

static int make_plan(plan_job *job)
{
    ra_options run = ring_args_run(&job->ring);
    ra_problem *p = &job->problem;
    *p = problem_args_problem(&job->about, pattern_args_text(&job->about.pattern));
    if (!p->pattern)
        return EXIT_USAGE;
    if (job->ring.timeout <= 0)
        return report(EXIT_USAGE, "--timeout %g: expected more than 0 seconds", job->ring.timeout);
    job->options = ring_args_library(&job->ring, job->ring.ring ? (int)job->ring.ring : 1);
    job->options.lent = job->lent;
    job->options.q_dtype = job->options.k_dtype = job->options.v_dtype = job->options.o_dtype =
        (ra_dtype)job->about.dtype;
    job->options.lse = job->backward;
    job->options.backward = job->backward;
    job->options.d_output_dtype = job->options.d_q_dtype = job->options.d_k_dtype = job->options.d_v_dtype =
        (ra_dtype)job->about.dtype;
    if (job->ring.memory && !job->ring.ring) {
        if (ra_ring_smallest(p, &run, &job->options, &job->options.ranks))
            return report_refusal();
        if (!job->options.ranks)
            job->options.ranks = 1; /* none fits: planning says so */
    }
    if (job->rank >= job->options.ranks)
        return report(EXIT_USAGE, "--rank %lld: the ring has ranks 0..%d", (long long)job->rank,
                      job->options.ranks - 1);
    job->options.rank = (int)job->rank;
    return ra_ring_plan_create(p, &run, &job->options, &job->plan) ? report_refusal() : EXIT_OK;
}

/* Prints the object, NULL if it could not be made, and releases it. */
static int print_root(json_t *root)
{
    int failed = !root || json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) || putchar('\n') < 0;
    json_decref(root);
    return failed ? report(EXIT_WORK, "standard output: cannot write") : EXIT_OK;
}

/* ---- Gradients --------------------------------------------------------------------------------------------------- */

/* Pattern, scores and length, which end the first line. */
static void print_problem(const plan_job *job)
{
    const ra_problem *p = &job->problem;
    printf("%s%s%s, length %lld\n", p->pattern, p->scores ? ", scores " : "", p->scores ? p->scores : "",
           (long long)job->about.length);
}

static void print_backward(const plan_job *job, const ra_plan_info *info)
{
    char text[RA_BYTES_TEXT];
    printf("gradients in one piece, kernel %s; ", ra_kernel_name(info->kernel));
    print_problem(job);
    printf("%.4g visible pairs, %.4g worked in %.4g tiles, %.4g flops; holds at most %s beyond the tensors\n",
           info->pairs_visible, info->pairs_worked, info->tiles, info->flops, ra_bytes_text(info->peak_bytes, text));
    if (info->density < 1)
        printf("%.6g of the blocks are kept\n", info->density);
}

static int print_backward_json(const ra_plan_info *info)
{
    json_t *root = json_pack(
        "{s:{s:s, s:s, s:s}, s:o, s:o, s:o, s:o, s:f, s:I}", "run", "direction", "backward", "strategy", "local",
        "kernel", ra_kernel_name(info->kernel), "pairs_visible", stats_json_count(info->pairs_visible), "pairs_worked",
        stats_json_count(info->pairs_worked), "tiles", stats_json_count(info->tiles), "flops",
        stats_json_count(info->flops), "density", info->density, "process_peak_bytes", (json_int_t)info->peak_bytes);
    return print_root(root);
}

/* In one piece. */
static int plan_backward(const plan_job *job)
{
    ra_plan_info info = RA_PLAN_INFO_INIT;
    if (ra_plan_describe_backward(ra_ring_plan_problem(job->plan), &info))
        return report_refusal();
    if (job->json)
        return print_backward_json(&info);
    print_backward(job, &info);
    return EXIT_OK;
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

static void describe(const plan_job *job, ra_plan_info *info)
{
    const ra_plan *plan = ra_ring_plan_problem(job->plan);
    if (job->backward)
        ra_plan_describe_backward(plan, info);
    else
        ra_plan_describe(plan, info);
}

static ra_rank_info rank_info(const plan_job *job, int rank)
{
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_ring_plan_rank(job->plan, rank, &info);
    return info;
}

/* The ranks that are shown: *first .. *first + the result - 1. */
static int shown(const plan_job *job, int *first)
{
    *first = job->rank < 0 ? 0 : (int)job->rank;
    return job->rank < 0 ? job->options.ranks : 1;
}

static void print_ranks(const plan_job *job)
{
    int first, count = shown(job, &first);
    printf("%5s %12s %12s %6s %11s %11s %12s %11s\n", "rank", "queries", "keys", "hops", "sent", "received", "pairs",
           "memory");
    for (int rank = first; rank < first + count; rank++) {
        ra_rank_info r = rank_info(job, rank);
        char sent[RA_BYTES_TEXT], received[RA_BYTES_TEXT], peak[RA_BYTES_TEXT];
        printf("%5d %12lld %12lld %6lld %11s %11s %12.5g %11s\n", rank, (long long)r.q_rows, (long long)r.kv_rows,
               (long long)r.hops, ra_bytes_text(r.bytes_sent, sent), ra_bytes_text(r.bytes_received, received),
               r.pairs_visible, ra_bytes_text(r.peak_bytes, peak));
    }
}

/* ---- The summary ------------------------------------------------------------------------------------------------- */

/* A figure of a rank. */
typedef struct figure {
    double value;
    int rank;
} figure;

static double queries_of(const ra_rank_info *r)
{
    return (double)r->q_rows;
}

static double keys_of(const ra_rank_info *r)
{
    return (double)r->kv_rows;
}

static double hops_of(const ra_rank_info *r)
{
    return (double)r->hops;
}

static double sent_of(const ra_rank_info *r)
{
    return (double)r->bytes_sent;
}

static double received_of(const ra_rank_info *r)
{
    return (double)r->bytes_received;
}

static double pairs_of(const ra_rank_info *r)
{
    return r->pairs_visible;
}

static double peak_of(const ra_rank_info *r)
{
    return (double)r->peak_bytes;
}

static int by_value(const void *a, const void *b)
{
    const figure *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* A column of the summary. */
typedef struct column {
    const char *name;
    double (*of)(const ra_rank_info *);
    bool bytes;
} column;

static const char *figure_text(const column *c, double value, char text[RA_BYTES_TEXT])
{
    if (c->bytes)
        return ra_bytes_text((int64_t)value, text);
    snprintf(text, RA_BYTES_TEXT, "%.0f", value);
    return text;
}

/* If several ranks have the same figure, the first is named. */
static void print_figure(const column *c, figure *figures, int count)
{
    char least[RA_BYTES_TEXT], median[RA_BYTES_TEXT], greatest[RA_BYTES_TEXT];
    qsort(figures, (size_t)count, sizeof *figures, by_value);
    int most = count - 1;
    while (most > 0 && figures[most - 1].value == figures[count - 1].value)
        most--;
    printf("%-14s %18s %6d %18s %18s %6d\n", c->name, figure_text(c, figures[0].value, least), figures[0].rank,
           figure_text(c, figures[count / 2].value, median), figure_text(c, figures[most].value, greatest),
           figures[most].rank);
}

static int print_summary(const plan_job *job)
{
    static const column columns[] = {
        {"queries", queries_of, false},  {"keys", keys_of, false},   {"hops", hops_of, false}, {"sent", sent_of, true},
        {"received", received_of, true}, {"pairs", pairs_of, false}, {"memory", peak_of, true}};
    int count = job->options.ranks;
    figure *figures = malloc((size_t)count * sizeof *figures);
    if (!figures)
        return report(EXIT_WORK, "out of memory: a summary of %d ranks", count);
    printf("%-14s %18s %6s %18s %18s %6s\n", "of a rank", "least", "rank", "median", "most", "rank");
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        for (int rank = 0; rank < count; rank++) {
            ra_rank_info r = rank_info(job, rank);
            figures[rank] = (figure){columns[i].of(&r), rank};
        }
        print_figure(&columns[i], figures, count);
    }
    free(figures);
    printf("\nevery rank: --all, or --json; one of them: --rank N\n");
    return EXIT_OK;
}

static int print_text(const plan_job *job)
{
    const ra_ring_options *o = &job->options;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    char whose[32] = "a process", text[RA_BYTES_TEXT];
    if (job->rank >= 0)
        snprintf(whose, sizeof whose, "rank %lld", (long long)job->rank);
    describe(job, &info);
    printf("%sring of %d, %s, order %s, transport %s; ", job->backward ? "gradients, " : "", o->ranks,
           ra_strategy_name(o->strategy), ra_order_name(o->order), ra_transport_name(o->transport));
    print_problem(job);
    printf("%.4g visible pairs, %.4g flops; %s holds at most %s\n", info.pairs_visible, info.flops, whose,
           ra_bytes_text(ra_ring_plan_process_bytes(job->plan), text));
    if (info.density < 1)
        printf("%.6g of the blocks are kept\n", info.density);
    putchar('\n');
    if (job->rank < 0 && o->ranks > ROWS_SHOWN && !job->all)
        return print_summary(job);
    print_ranks(job);
    return EXIT_OK;
}

static json_t *rank_json(const plan_job *job, int rank)
{
    ra_rank_info r = rank_info(job, rank);
    bool known = r.pairs_worked > 0 || r.pairs_visible == 0;
    return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I}", "rank", rank, "rows", (json_int_t)r.q_rows,
                     "kv_rows", (json_int_t)r.kv_rows, "hops", (json_int_t)r.hops, "bytes_sent",
                     (json_int_t)r.bytes_sent, "bytes_received", (json_int_t)r.bytes_received, "pairs_visible",
                     stats_json_count(r.pairs_visible), "pairs_worked",
                     known ? stats_json_count(r.pairs_worked) : json_null(), "planned_peak_bytes",
                     (json_int_t)r.peak_bytes, "lent_bytes", (json_int_t)r.lent_bytes);
}

static int print_json(const plan_job *job)
{
    const ra_ring_options *o = &job->options;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    describe(job, &info);
    json_t *ranks = json_array();
    int first, count = shown(job, &first);
    for (int rank = first; rank < first + count; rank++)
        json_array_append_new(ranks, rank_json(job, rank));
    json_t *root =
        json_pack("{s:{s:s, s:s, s:s, s:s, s:i, s:s}, s:o, s:o, s:f, s:I, s:o}", "run", "direction",
                  job->backward ? "backward" : "forward", "strategy", ra_strategy_name(o->strategy), "transport",
                  ra_transport_name(o->transport), "order", ra_order_name(o->order), "ring_size", o->ranks, "kernel",
                  ra_kernel_name(info.kernel), "pairs_visible", stats_json_count(info.pairs_visible), "flops",
                  stats_json_count(info.flops), "density", info.density, "process_peak_bytes",
                  (json_int_t)ra_ring_plan_process_bytes(job->plan), "ranks", ranks);
    return print_root(root);
}

int cmd_plan(int argc, char **argv)
{
    plan_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    interrupt_release(); /* a large ring may take its time */
    code = make_plan(&job);
    if (!code && job.backward && !ring_args_given(&job.ring))
        code = plan_backward(&job);
    else if (!code && job.json)
        code = print_json(&job);
    else if (!code)
        code = print_text(&job);
    pattern_args_free(&job.about.pattern);
    ra_ring_plan_free(job.plan);
    return code;
}
