/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the paths of a run, temporary names included, before anything is written. See run_files.h. */
#include "run_files.h"

#include "gen_input.h"
#include "output_file.h"
#include "report.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A path by its option; NULL: no file. */
typedef struct named_path {
    const char *option, *path;
    char part[PATH_MAX]; /* where the path of a tensor has a name after it */
} named_path;

enum { READS = 7, RESULTS = 3, OTHERS = 3 };

/* The name under which `path` is written first must not be another file's, which would be taken for a leftover. */
static int check_temporary(const char *option, const char *path, const char *other_option, const char *other)
{
    char *temporary = path && other ? temporary_name(path) : NULL;
    int code = EXIT_OK;
    if (path && other && !temporary)
        code = report(EXIT_USAGE, "--%s %s: out of memory", option, path);
    else if (same_file(temporary, other))
        code = report(EXIT_USAGE, "--%s %s: the temporary name of --%s %s", other_option, other, option, path);
    free(temporary);
    return code;
}

bool named_file(const char **text, char path[PATH_MAX])
{
    const char *at = *text ? strchr(*text, '@') : NULL;
    if (!at)
        return false;
    size_t length = strcspn(at + 1, "+");
    snprintf(path, PATH_MAX, "%.*s", (int)length, at + 1);
    *text = at + 1 + length;
    return true;
}

/* Files that a text names are read too. */
static int check_text(const char *option, const char *text, const named_path *written)
{
    char path[PATH_MAX], part[PATH_MAX];
    while (written->path && named_file(&text, path)) {
        const char *file = tensor_file_part(path, part, sizeof part);
        if (same_file(written->path, file))
            return report(EXIT_USAGE, "--%s %s: the same file as in --%s", written->option, written->path, option);
        if (check_temporary(written->option, written->path, option, file))
            return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* FILE.rows, FILE.RANK and the temporary names of a checkpoint are removed in the end. */
static int check_beside(const char *checkpoint, const named_path *named)
{
    size_t length = checkpoint ? strlen(checkpoint) : 0;
    if (!length || !named->path || strncmp(named->path, checkpoint, length) != 0 || named->path[length] != '.')
        return EXIT_OK;
    const char *end = named->path + length + 1, *after = end + strspn(end, "0123456789");
    bool of_rank = after > end && (!*after || strcmp(after, ".new") == 0);
    if (!of_rank && strcmp(end, "rows") != 0 && strcmp(end, "new") != 0)
        return EXIT_OK;
    return report(EXIT_USAGE, "--%s %s: a file of --checkpoint %s", named->option, named->path, checkpoint);
}

/* What is made up or kept nowhere is no file. */
static void name_tensor(const run_file *file, bool made_up, named_path *named)
{
    const char *path = made_up || tensor_file_is_null(file->path) ? NULL : file->path;
    named->option = file->option;
    named->path = tensor_file_part(path, named->part, sizeof named->part);
}

/* One that is written against all others. */
static int check_written(const named_path *paths, int count, int written, const run_paths *others)
{
    const named_path *own = &paths[written];
    int code = check_text("pattern", others->pattern, own);
    if (!code)
        code = check_text("scores", others->scores, own);
    for (int other = 0; other < written && !code; other++)
        if (same_file(own->path, paths[other].path))
            code = report(EXIT_USAGE, "--%s %s: the same file as --%s", own->option, own->path, paths[other].option);
    for (int other = 0; other < count && !code; other++)
        code = check_temporary(own->option, own->path, paths[other].option, paths[other].path);
    return code;
}

int run_files_check(const run_file *reads, int read_count, const run_file *results, int result_count,
                    const run_paths *others)
{
    named_path paths[READS + RESULTS + OTHERS];
    int count = 0, code = EXIT_OK;
    for (int i = 0; i < read_count; i++)
        name_tensor(&reads[i], gen_named(reads[i].path), &paths[count++]);
    for (int i = 0; i < result_count; i++)
        name_tensor(&results[i], false, &paths[count++]);
    paths[count++] = (named_path){.option = "stats", .path = others->stats};
    paths[count++] = (named_path){.option = "checkpoint", .path = others->checkpoint};
    paths[count++] = (named_path){.option = "scores-gradient", .path = others->scores_gradient};
    for (int i = 0; i < count && !code; i++)
        code = check_beside(others->checkpoint, &paths[i]);
    for (int written = read_count; written < count && !code; written++)
        code = check_written(paths, count, written, others);
    return code;
}

double run_files_bytes(const run_file *reads, int read_count, const run_file *results, int result_count)
{
    double bytes = 0;
    for (int i = 0; i < read_count; i++) {
        const ra_tensor *t = &reads[i].file->tensor;
        if (reads[i].file->path)
            bytes +=
                (double)t->batch * (double)t->seq * (double)t->heads * (double)t->dim * (double)ra_dtype_size(t->dtype);
    }
    for (int i = 0; i < result_count; i++) {
        const tensor_shape *s = &results[i].shape;
        if (results[i].path)
            bytes +=
                (double)s->batch * (double)s->seq * (double)s->heads * (double)s->dim * (double)ra_dtype_size(s->dtype);
    }
    return bytes;
}
