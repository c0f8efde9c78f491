/* SPDX-License-Identifier: Apache-2.0 */
/* ringattn report: what rows of ringattn bench or logs of trainings say, as a page, text or tables. */
#include "args.h"
#include "commands.h"
#include "interrupt.h"
#include "output_file.h"
#include "report.h"
#include "report/document.h"
#include "report/training.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

typedef enum report_form { HTML, MARKDOWN, CSV, SVG, TEXT, BY_NAME } report_form;
static const char *const FORMS[] = {"html", "md", "csv", "svg", "text", NULL};

typedef struct report_job {
    const char *output_path;
    int form;
    const char *section; /* the only one; NULL: all */
    char **paths;        /* of the results */
    int path_count;
    rows rows;
    trainings trainings; /* of logs; then there are no rows */
} report_job;

static int parse(report_job *job, int argc, char **argv)
{
    *job = (report_job){.form = BY_NAME};
    const arg_option options[] = {
        {.name = "output",
         .letter = 'o',
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->output_path,
         .help = "where to write it (default, and -: standard output, for md, csv and text)"},
        {.name = "format",
         .kind = ARG_CHOICE,
         .metavar = "FORM",
         .target = &job->form,
         .choices = FORMS,
         .help = "html: one page with charts, that needs nothing else; md: its sentences and tables;\n"
                 "csv: the rows, flat; svg: its charts; text: its sentences and charts in a terminal\n"
                 "(default: by the extension of FILE, else html)"},
        {.name = "section",
         .kind = ARG_TEXT,
         .metavar = "NAME",
         .target = &job->section,
         .help = "one section alone: summary, memory, speed, lengths, methods, ranks, backward, roofline,\n"
                 "dilated, published, failed or cases; --format svg makes one picture of its charts"},
    };
    const arg_command command = {
        .verb = "report",
        .summary = "A report of what ringattn bench --output wrote: memory, throughput, ranks, roofline, comparisons.\n"
                   "From training logs (lm train --log): loss over tokens, speed, waiting, memory.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .notes =
            "If several rows measured the same, the newest counts. Failed rows are listed and not used. Lines that\n"
            "are not rows are named on standard error and skipped. Charts are drawn by gnuplot.",
        .example = "ringattn report results.jsonl -o report.html",
        .operands = "RESULTS.jsonl...",
    };
    int code = args_parse(&command, argc, argv);
    job->paths = argv + optind;
    job->path_count = argc - optind;
    return code;
}

/* The form by the extension of the name; "txt" means text. */
static int form_of(const char *path)
{
    const char *ending = path ? strrchr(path, '.') : NULL;
    for (int form = 0; ending && FORMS[form]; form++)
        if (strcmp(ending + 1, FORMS[form]) == 0)
            return form;
    return ending && strcmp(ending, ".txt") == 0 ? TEXT : HTML;
}

static int choose_output(report_job *job)
{
    if (job->form == BY_NAME)
        job->form = form_of(job->output_path);
    if (!job->output_path && (job->form == HTML || job->form == SVG))
        return report(EXIT_USAGE, "--output FILE is missing: %s goes to a file; see ringattn report --help",
                      FORMS[job->form]);
    if (job->section && job->form == CSV)
        return report(EXIT_USAGE, "--section %s: csv has the rows alone, not sections", job->section);
    for (int i = 0; i < job->path_count && job->output_path; i++)
        if (strcmp(job->output_path, "-") != 0 && same_file(job->output_path, job->paths[i]))
            return report(EXIT_USAGE, "--output '%s': is one of the files to read", job->output_path);
    if (!job->output_path)
        job->output_path = "-";
    return EXIT_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

enum { MOST_COMPLAINTS = 20 };

/* The first of each file are written. */
static void complain(void *user, const char *path, int line, const char *what)
{
    int *count = user;
    if (++*count <= MOST_COMPLAINTS)
        report(EXIT_OK, "%s:%d: %s", path, line, what);
}

/* Logs of trainings: all files are, or none is. */
static int read_trainings(report_job *job)
{
    for (int i = 0; i < job->path_count; i++) {
        const char *path = job->paths[i];
        int complaints = 0;
        if (!training_is_log(path))
            return report(EXIT_USAGE, "%s: is no log of a training, and '%s' is one: a report is of one kind of files",
                          path, job->paths[0]);
        if (trainings_read(&job->trainings, path, complain, &complaints) < 0)
            return report(EXIT_USAGE, "%s: cannot be read: %s", path, strerror(errno));
        if (complaints)
            report(EXIT_OK, "%s: %d lines left out", path, complaints);
    }
    return job->form == CSV ? report(EXIT_USAGE, "--format csv: is for rows of ringattn bench, not for trainings")
                            : EXIT_OK;
}

static int read_results(report_job *job)
{
    if (job->path_count > 0 && training_is_log(job->paths[0]))
        return read_trainings(job);
    for (int i = 0; i < job->path_count; i++) {
        const char *path = job->paths[i];
        int complaints = 0;
        int found = rows_read(&job->rows, path, complain, &complaints);
        if (found < 0)
            return report(EXIT_USAGE, "%s: cannot be read: %s", path, strerror(errno));
        if (complaints > MOST_COMPLAINTS)
            report(EXIT_OK, "%s: and %d more lines", path, complaints - MOST_COMPLAINTS);
        if (found == 0)
            return report(EXIT_USAGE, "%s: has no row that can be used; ringattn bench --output makes them", path);
        if (complaints)
            report(EXIT_OK, "%s: %d lines left out, %d rows used", path, complaints, found);
    }
    return EXIT_OK;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static int choose_sections(const report_job *job, document *d)
{
    if (!job->section) {
        document_trim(d);
        return EXIT_OK;
    }
    const char *problem = document_choose(d, job->section);
    return problem ? report(EXIT_USAGE, "%s", problem) : EXIT_OK;
}

static int write_form(const report_job *job, FILE *stream)
{
    static const char *(*const WRITERS[])(document * d, FILE * stream) = {
        [HTML] = document_html, [MARKDOWN] = document_markdown, [SVG] = document_svg, [TEXT] = document_text};
    if (job->form == CSV) {
        rows_csv(&job->rows, stream);
        return EXIT_OK;
    }
    document d;
    interrupt_release(); /* nothing is begun yet */
    if (job->trainings.count)
        document_make_training(&d, &job->trainings);
    else
        document_make(&d, &job->rows);
    interrupt_install();
    int code = choose_sections(job, &d);
    if (!code) {
        const char *problem = WRITERS[job->form](&d, stream);
        code = interrupted() ? interrupt_exit() : problem ? report(EXIT_WORK, "%s", problem) : EXIT_OK;
    }
    document_free(&d);
    return code;
}

static int copy(FILE *from, FILE *to)
{
    char some[1 << 16];
    size_t count;
    while ((count = fread(some, 1, sizeof some, from)) > 0)
        if (fwrite(some, 1, count, to) < count)
            return -1;
    return ferror(from) ? -1 : 0;
}

static int write_file(const report_job *job, FILE *text)
{
    output_file file;
    int code = output_file_open(&file, job->output_path);
    if (!code && copy(text, file.stream) != 0)
        code = report(EXIT_WORK, "%s: cannot write: %s", file.path, strerror(errno));
    if (!code)
        code = output_file_finish(&file);
    if (!code)
        code = output_file_commit(&file);
    output_file_close(&file);
    return code;
}

/* Write to an unnamed file first, so that nothing of a failed report is seen, not even on standard output. */
static int write_report(const report_job *job)
{
    FILE *stream = tmpfile();
    if (!stream)
        return report(EXIT_WORK, "cannot make a temporary file: %s", strerror(errno));
    int code = write_form(job, stream);
    if (!code && (fflush(stream) != 0 || fseek(stream, 0, SEEK_SET) != 0))
        code = report(EXIT_WORK, "cannot write a temporary file: %s", strerror(errno));
    if (!code)
        code = write_file(job, stream);
    fclose(stream);
    return code;
}

int cmd_report(int argc, char **argv)
{
    report_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    code = choose_output(&job);
    if (!code)
        code = read_results(&job);
    if (!code)
        code = write_report(&job);
    rows_free(&job.rows);
    trainings_free(&job.trainings);
    return code;
}
