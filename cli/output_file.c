#include "output_file.h"

#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int report_errno(const char *path, const char *doing, int code)
{
    return report(code, "%s: cannot %s: %s", path, doing, strerror(errno));
}

int output_file_open(output_file *file, const char *path)
{
    struct stat existing;
    bool exists = stat(path, &existing) == 0;
    *file = (output_file){.path = path};
    if (strcmp(path, "-") == 0) {
        *file = (output_file){.path = "standard output", .stream = stdout};
        return EXIT_OK;
    }
    if (exists && S_ISDIR(existing.st_mode)) {
        errno = EISDIR;
        return report_errno(path, "create", EXIT_USAGE);
    }
    if (!exists || S_ISREG(existing.st_mode)) {
        size_t bytes = strlen(path) + 48;
        file->temporary = malloc(bytes);
        if (!file->temporary)
            return report(EXIT_USAGE, "%s: out of memory", path);
        snprintf(file->temporary, bytes, "%s.partial-%ld", path, (long)getpid());
    }
    file->stream = fopen(file->temporary ? file->temporary : path, "w");
    return file->stream ? EXIT_OK : report_errno(path, "create", EXIT_USAGE);
}

int output_file_finish(output_file *file)
{
    if (fflush(file->stream) != 0 || ferror(file->stream) || (file->temporary && fsync(fileno(file->stream)) != 0))
        return report_errno(file->path, "write", EXIT_WORK);
    return EXIT_OK;
}

int output_file_commit(output_file *file)
{
    if (file->temporary && rename(file->temporary, file->path) != 0)
        return report_errno(file->path, "create", EXIT_WORK);
    free(file->temporary);
    file->temporary = NULL;
    return EXIT_OK;
}

void output_file_close(output_file *file)
{
    if (file->stream && file->temporary)
        unlink(file->temporary);
    if (file->stream && file->stream != stdout)
        fclose(file->stream);
    free(file->temporary);
    *file = (output_file){0};
}

/* The directory that holds `path`, and the name in it. */
static bool locate(const char *path, struct stat *directory, const char **name)
{
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!slash)
        return stat(".", directory) == 0;
    size_t length = (size_t)(slash - path) + 1;
    char *text = malloc(length + 1);
    if (!text)
        return false;
    memcpy(text, path, length);
    text[length] = 0;
    bool found = stat(text, directory) == 0;
    free(text);
    return found;
}

bool same_file(const char *a, const char *b)
{
    struct stat at_a, at_b;
    const char *name_a, *name_b;
    if (!a || !b)
        return false;
    if (strcmp(a, b) == 0)
        return true;
    if (stat(a, &at_a) == 0 && stat(b, &at_b) == 0)
        return at_a.st_dev == at_b.st_dev && at_a.st_ino == at_b.st_ino;
    return locate(a, &at_a, &name_a) && locate(b, &at_b, &name_b) && at_a.st_dev == at_b.st_dev &&
           at_a.st_ino == at_b.st_ino && strcmp(name_a, name_b) == 0;
}
