/* SPDX-License-Identifier: Apache-2.0 */
/* ringattn show: a pattern as a picture, or as the array of its counts. */
#include "commands.h"
#include "interrupt.h"
#include "output_file.h"
#include "pattern_args.h"
#include "picture.h"
#include "report.h"
#include "tensor_file.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_COLUMNS = 80, MOST_COLUMNS = 160, SVG_CELLS = 256, PNG_CELLS = 1024 };
static const int64_t MOST_LENGTH = 64 << 20, MOST_HEADS = 1024, MOST_BATCH = 1 << 20;
static const int64_t MOST_NPY_BYTES = (int64_t)16 << 30;

typedef struct show_job {
    pattern_args args;
    const char *pattern, *output_path;
    int64_t length, keys, heads, batch, element;
    ra_plan *plan;
} show_job;

static int parse(show_job *job, int argc, char **argv)
{
    enum { OWN = 6 };
    arg_option options[PATTERN_OPTIONS + OWN];
    *job = (show_job){.heads = 1, .batch = 1};
    const arg_option own[OWN] = {
        {.name = "length",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .required = true,
         .target = &job->length,
         .min = 1,
         .max = MOST_LENGTH,
         .help = "queries (and keys, unless --kv-length says otherwise); 64K and 1M may be written"},
        {.name = "kv-length",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &job->keys,
         .min = 1,
         .max = MOST_LENGTH,
         .help = "keys (default: as many as queries)"},
        {.name = "heads",
         .kind = ARG_INTEGER,
         .metavar = "H",
         .target = &job->heads,
         .min = 1,
         .max = MOST_HEADS,
         .help = "heads (default 1); those that look the same share a picture"},
        {.name = "batch",
         .kind = ARG_INTEGER,
         .metavar = "B",
         .target = &job->batch,
         .min = 1,
         .max = MOST_BATCH,
         .help = "batch elements (default 1): as many as lengths or a mask of the pattern are for"},
        {.name = "element",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &job->element,
         .min = 0,
         .max = MOST_BATCH - 1,
         .help = "the batch element that is drawn (default 0, the first)"},
        {.name = "output",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->output_path,
         .help = "FILE.svg or FILE.png: the picture; FILE.npy: uint8 [heads, queries, keys], how often\n"
                 "each query sees each key (default: a picture on standard output)"},
    };
    pattern_args_options(&job->args, options);
    memcpy(options + PATTERN_OPTIONS, own, sizeof own);
    const arg_command command = {
        .verb = "show",
        .summary = "A pattern as a picture: queries down, keys across, darker where more is seen.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .example = "ringattn show --pattern causal+window:16,0 --length 64",
    };
    return args_parse(&command, argc, argv);
}

static int make_plan(show_job *job)
{
    ra_problem problem = RA_PROBLEM_INIT;
    if (!job->args.pattern && !job->args.preset)
        return report(EXIT_USAGE, "--pattern P or --preset NAME is missing; see ringattn show --help");
    if (job->args.scores)
        return report(EXIT_USAGE,
                      "--scores %s: a drawing shows which keys are seen, and scores hide none: leave it out",
                      job->args.scores);
    job->pattern = pattern_args_text(&job->args);
    if (!job->pattern)
        return EXIT_USAGE;
    job->keys = job->keys ? job->keys : job->length;
    if (job->element >= job->batch)
        return report(EXIT_USAGE, "--element %lld: must be below --batch %lld", (long long)job->element,
                      (long long)job->batch);
    problem.batch = job->batch;
    problem.q_len = job->length;
    problem.kv_len = job->keys;
    problem.heads = job->heads;
    problem.head_dim = 1;
    problem.pattern = job->pattern;
    pattern_args_place(&job->args, &problem);
    return ra_plan_create(&problem, NULL, &job->plan) ? report_refusal() : EXIT_OK;
}

static pattern_grid grid_of(const show_job *job, int64_t rows, int64_t columns)
{
    return (pattern_grid){.length = job->length,
                          .keys = job->keys,
                          .heads = job->heads,
                          .batch = job->batch,
                          .element = job->element,
                          .rows = rows,
                          .columns = columns};
}

/* ---- On standard output ------------------------------------------------------------------------------------------ */

static int64_t terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return DEFAULT_COLUMNS;
    return size.ws_col < MOST_COLUMNS ? size.ws_col : MOST_COLUMNS;
}

/* A character is about twice as high as wide: two to a cell while they fit, else half as many rows as columns. */
static int show_text(const show_job *job)
{
    pattern_grid grid;
    int64_t columns = terminal_columns();
    int cell_width = 2 * job->keys <= columns ? 2 : 1;
    int64_t rows = job->length < columns ? job->length : columns;
    if (job->keys < columns)
        columns = job->keys;
    if (cell_width == 1)
        rows = (rows + 1) / 2;
    const pattern_grid size = grid_of(job, rows, columns);
    int code = pattern_grid_make(&grid, job->plan, &size);
    if (!code)
        picture_text(&grid, cell_width, strcmp(nl_langinfo(CODESET), "UTF-8") == 0, stdout);
    pattern_grid_free(&grid);
    return code;
}

/* ---- In a file --------------------------------------------------------------------------------------------------- */

typedef int (*image_writer)(const show_job *job, const pattern_grid *grid, FILE *stream);

static int write_svg(const show_job *job, const pattern_grid *grid, FILE *stream)
{
    char title[256];
    snprintf(title, sizeof title, "%s, length %lld", job->pattern, (long long)job->length);
    picture_svg(grid, title, stream);
    return EXIT_OK;
}

static int write_png(const show_job *job, const pattern_grid *grid, FILE *stream)
{
    return picture_png(grid, job->output_path, stream);
}

static int show_image(const show_job *job, int64_t most_cells, image_writer write)
{
    pattern_grid grid = {0};
    output_file file;
    int64_t rows = job->length < most_cells ? job->length : most_cells;
    int64_t columns = job->keys < most_cells ? job->keys : most_cells;
    const pattern_grid size = grid_of(job, rows, columns);
    int code = output_file_open(&file, job->output_path);
    if (!code)
        code = pattern_grid_make(&grid, job->plan, &size);
    if (!code)
        code = write(job, &grid, file.stream);
    if (!code)
        code = output_file_finish(&file);
    if (!code)
        code = output_file_commit(&file);
    output_file_close(&file);
    pattern_grid_free(&grid);
    return code;
}

static ra_status write_counts(const show_job *job, ra_array *array, uint8_t *counts)
{
    ra_status status = RA_OK;
    for (int64_t head = 0; head < job->heads; head++)
        for (int64_t query = 0; query < job->length && !status; query++) {
            status = ra_plan_visible_element(job->plan, job->element, head, query, 0, job->keys, counts);
            if (!status)
                status = ra_array_write(array, (head * job->length + query) * job->keys, job->keys, counts);
            if (!status && interrupted())
                status = RA_ERROR_CANCELLED;
        }
    return status ? status : ra_array_commit(array);
}

static int show_npy(const show_job *job)
{
    const int64_t shape[] = {job->heads, job->length, job->keys};
    ra_array *array = NULL;
    if ((double)job->heads * (double)job->length * (double)job->keys > (double)MOST_NPY_BYTES)
        return report(EXIT_USAGE, "%s: [%lld, %lld, %lld] counts: must be at most %lld in all", job->output_path,
                      (long long)job->heads, (long long)job->length, (long long)job->keys, (long long)MOST_NPY_BYTES);
    if (ra_array_create(job->output_path, RA_U8, 3, shape, &array))
        return report_refusal();
    int code, cleaned = tensor_file_cleans(job->output_path);
    uint8_t *counts = malloc((size_t)job->keys);
    if (!counts) {
        code = report(EXIT_USAGE, "%s: out of memory: %lld bytes", job->output_path, (long long)job->keys);
    } else {
        ra_status status = write_counts(job, array, counts);
        code = status ? report_failure(status) : EXIT_OK;
    }
    free(counts);
    interrupt_forget(cleaned);
    ra_array_close(array);
    return code;
}

static int show(const show_job *job)
{
    if (!job->output_path)
        return show_text(job);
    const char *ending = strrchr(job->output_path, '.');
    if (ending && strcmp(ending, ".svg") == 0)
        return show_image(job, SVG_CELLS, write_svg);
    if (ending && strcmp(ending, ".png") == 0)
        return show_image(job, PNG_CELLS, write_png);
    if (ending && strcmp(ending, ".npy") == 0)
        return show_npy(job);
    return report(EXIT_USAGE, "--output '%s': expected a name that ends in .svg, .png or .npy", job->output_path);
}

int cmd_show(int argc, char **argv)
{
    show_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    code = make_plan(&job);
    if (!code)
        code = show(&job);
    ra_plan_free(job.plan);
    pattern_args_free(&job.args);
    return code;
}
