/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a script for gnuplot, runs it, and reads back what it drew. What becomes of an SVG: chart_svg.c. See
 * gnuplot.h.
 */
#include "gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- Axes -------------------------------------------------------------------------------------------------------- */

typedef struct range {
    double least, most;
} range;

static double drawn_at(const chart_point *p)
{
    return p->x * (1 + p->beside);
}

/* Of all points and lines, x or y, with some room around them: what is drawn is never cut. */
static range range_of(const chart *c, chart_scale scale, bool x)
{
    range r = {INFINITY, 0};
    for (int i = 0; i < c->count; i++)
        for (int j = 0; j < c->series[i].count; j++) {
            const chart_point *p = &c->series[i].points[j];
            r.least = fmin(r.least, x ? p->x : p->low);
            r.most = fmax(r.most, x ? drawn_at(p) : p->high);
        }
    if (scale == CHART_FROM_ZERO)
        return (range){0, r.most > 0 ? 1.08 * r.most : 1};
    const double least_ratio = 2.6; /* so that 1, 2 or 5 of some decade lies in it */
    double room = fmax(pow(r.most / r.least, 0.05), sqrt(fmax(1, least_ratio * r.least / r.most)));
    return (range){r.least / room, r.most * room};
}

/* Powers of two with the letters for 1024s, not more than fit. */
static void write_count_tics(FILE *script, char axis, range r)
{
    enum { MOST = 7 };
    static const char *const UNITS[] = {"", "K", "M", "G", "T"};
    int first = (int)ceil(log2(r.least)), last = (int)floor(log2(r.most));
    int step = (last - first) / MOST + 1;
    const char *between = "";
    fprintf(script, "set %ctics (", axis);
    for (int power = first < 0 ? 0 : first; power <= last; power += step) {
        int unit = power / 10 < 4 ? power / 10 : 4;
        fprintf(script, "%s'%.4g%s' %.17g", between, exp2(power - 10 * unit), UNITS[unit], exp2(power));
        between = ", ";
    }
    fputs(")\n", script);
}

/* Decades; 1, 2 and 5 of each where there are few. */
static void write_decade_tics(FILE *script, char axis, range r)
{
    static const double DIGITS[] = {1, 2, 5};
    bool all = r.most / r.least < 400;
    const char *between = "";
    fprintf(script, "set %ctics (", axis);
    for (int power = (int)floor(log10(r.least)); power <= (int)floor(log10(r.most)); power++)
        for (int i = 0; i < (all ? 3 : 1); i++) {
            double at = pow(10, power) * DIGITS[i];
            if (at < r.least || at > r.most)
                continue;
            fprintf(script, "%s'%g' %g", between, at, at);
            between = ", ";
        }
    fputs(")\n", script);
}

static void write_axis(FILE *script, char axis, const char *name, chart_scale scale, range r)
{
    fprintf(script, "set %clabel '%s'\nset %crange [%.17g:%.17g]\n", axis, name, axis, r.least, r.most);
    if (scale == CHART_FROM_ZERO)
        return;
    fprintf(script, "set logscale %c\n", axis);
    if (scale == CHART_LOG_COUNT)
        write_count_tics(script, axis, r);
    else
        write_decade_tics(script, axis, r);
}

/* ---- The script -------------------------------------------------------------------------------------------------- */

int gnuplot_symbol(int series)
{
    static const int SYMBOLS[] = {6, 4, 8, 10, 12, 14, 5, 3}; /* filled ones first, each as easy to see */
    enum { COUNT = sizeof SYMBOLS / sizeof *SYMBOLS };
    return SYMBOLS[(series + series / COUNT) % COUNT];
}

static void write_data(FILE *script, const chart *c)
{
    for (int i = 0; i < c->count; i++) {
        fprintf(script, "$s%d << END\n", i);
        for (int j = 0; j < c->series[i].count; j++) {
            const chart_point *p = &c->series[i].points[j];
            fprintf(script, "%.17g %.17g %.17g %.17g\n", drawn_at(p), p->y, p->low, p->high);
        }
        fputs("END\n", script);
    }
}

/* Lines below points, so that none is hidden. Quartiles are bars, as vectors: gnuplot puts a second point on its own.
 */
static void write_plot(FILE *script, const chart *c, gnuplot_form form)
{
    const char *between = "plot ";
    for (int i = 0; i < c->count; i++) {
        bool reference = c->series[i].reference;
        if (!reference && (!c->joined || form == GNUPLOT_CHARACTERS))
            continue;
        fprintf(script, "%s$s%d using 1:2 with lines lw 1.5 dt %d lc rgb '#%02x0000'", between, i, reference ? 2 : 1,
                reference ? GNUPLOT_REFERENCE : i % (GNUPLOT_REFERENCE - 1) + 1);
        between = ", ";
    }
    for (int i = 0; i < c->count; i++) {
        if (c->series[i].reference)
            continue;
        if (form == GNUPLOT_SVG)
            fprintf(script,
                    "%s$s%d using 1:3:(0):($4-$3) with vectors nohead lw 1.5 lc rgb '#%02x0000', "
                    "$s%d using 1:2 with points ps 0.8 pt %d lc rgb '#%02x0000'",
                    between, i, i % (GNUPLOT_REFERENCE - 1) + 1, i, gnuplot_symbol(i) + 1,
                    i % (GNUPLOT_REFERENCE - 1) + 1);
        else
            fprintf(script, "%s$s%d using 1:2 with points pt %d", between, i, i + 1);
        between = ", ";
    }
    fputc('\n', script);
}

static void write_script(FILE *script, const chart *c, gnuplot_form form)
{
    if (form == GNUPLOT_SVG)
        fprintf(script,
                "set terminal svg size %d,%d noenhanced font 'sans-serif,14'\n"
                "set grid lt 1 lw 1 lc rgb '#%02x0000'\n",
                GNUPLOT_WIDTH, GNUPLOT_HEIGHT, GNUPLOT_GRID);
    else
        fprintf(script, "set terminal dumb %d %d noenhanced mono\n", GNUPLOT_COLUMNS, GNUPLOT_LINES);
    fputs("unset key\nset border 3\nset tics nomirror scale 0.5\nset tmargin 0.7\n", script);
    write_axis(script, 'x', c->x_axis, c->x_scale, range_of(c, c->x_scale, true));
    write_axis(script, 'y', c->y_axis, c->y_scale, range_of(c, c->y_scale, false));
    write_data(script, c);
    write_plot(script, c, form);
}

/* ---- The process ------------------------------------------------------------------------------------------------- */

/* gnuplot, reading from the pipe and writing to the two files; 0 or why it could not be started. */
static int start(const int script[2], FILE *output, FILE *errors, pid_t *child)
{
    /* -d: without anybody's own settings. What is named is read in blocks; gnuplot reads its input byte by byte. */
    char name[] = "gnuplot", defaults[] = "-d", input[] = "/dev/stdin";
    char *const words[] = {name, defaults, input, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, script[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(output), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(errors), STDERR_FILENO);
    posix_spawn_file_actions_addclose(&actions, script[0]);
    posix_spawn_file_actions_addclose(&actions, script[1]);
    int failed = posix_spawnp(child, name, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* How it ended, as waitpid has it. The pipe has no other writer, so that closing it is the end of the script. */
static int feed(const int script[2], const chart *c, gnuplot_form form, pid_t child)
{
    int status = -1;
    close(script[0]);
    FILE *stream = fdopen(script[1], "w");
    if (stream) {
        write_script(stream, c, form);
        fclose(stream);
    } else
        close(script[1]);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* Why: the last of what it said, which is what is wrong after a copy of where; else how it ended. */
static const char *reason_of(arena *a, const char *said, int status)
{
    size_t length = strlen(said);
    while (length > 0 && strchr(" \n", said[length - 1]))
        length--;
    size_t first = length;
    while (first > 0 && said[first - 1] != '\n')
        first--;
    first += strspn(said + first, " ");
    if (length > first)
        return arena_text(a, "%.*s", (int)(length - first), said + first);
    if (status >= 0 && WIFSIGNALED(status))
        return arena_text(a, "it was ended by signal %d", WTERMSIG(status));
    if (status >= 0 && WEXITSTATUS(status))
        return arena_text(a, "it ended with exit code %d", WEXITSTATUS(status));
    return "it drew nothing, and did not say why";
}

static char *read_all(arena *a, FILE *file)
{
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = arena_take(a, (size_t)(size > 0 ? size : 0) + 1);
    size_t got = size > 0 ? fread(text, 1, (size_t)size, file) : 0;
    text[got] = 0;
    return text;
}

static const char *not_started(arena *a, int reason)
{
    if (reason == ENOENT)
        return "gnuplot, which draws the charts, was not found: install it (Debian: gnuplot-nox), or ask for --format "
               "md "
               "or csv, which have none";
    return arena_text(a, "gnuplot, which draws the charts, cannot be started: %s", strerror(reason));
}

/* Its output goes to files, so that neither process ever waits for the other to read. */
static const char *run(arena *a, const chart *c, gnuplot_form form, FILE *output, FILE *errors, char **drawn)
{
    int script[2];
    pid_t child;
    if (!output || !errors || pipe(script) != 0)
        return arena_text(a, "gnuplot cannot be given a chart: %s", strerror(errno));
    int failed = start(script, output, errors, &child);
    if (failed) {
        close(script[0]);
        close(script[1]);
        return not_started(a, failed);
    }
    int status = feed(script, c, form, child);
    const char *said = read_all(a, errors);
    *drawn = read_all(a, output);
    if (status == 0 && **drawn)
        return NULL;
    return arena_text(a, "gnuplot could not draw \"%s\": %s", c->title, reason_of(a, said, status));
}

const char *gnuplot_draw(arena *a, const chart *c, gnuplot_form form, char **drawn)
{
    FILE *output = tmpfile(), *errors = tmpfile();
    const char *problem = run(a, c, form, output, errors, drawn);
    if (output)
        fclose(output);
    if (errors)
        fclose(errors);
    return problem;
}
