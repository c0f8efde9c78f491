/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates, locks, renames and removes the command's own text and image files. Arrays follow the same rules in
 * src/io/partial.c. See output_file.h.
 */
#include "output_file.h"

#include "interrupt.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int report_errno(const char *path, const char *doing, int code)
{
    return report(code, "%s: cannot %s: %s", path, doing, strerror(errno));
}

/* ---- Temporary files, by the rules that ra_array_create has ------------------------------------------------------ */

char *temporary_name(const char *path)
{
    size_t bytes = strlen(path) + sizeof ".partial";
    char *name = malloc(bytes);
    if (name)
        snprintf(name, bytes, "%s.partial", path);
    return name;
}

/* Whether the name still leads to the open file: only then is it this run's to rename or to remove. */
static bool leads_to(const char *name, int fd)
{
    struct stat named, opened;
    return lstat(name, &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

/* Not blocking, and through no link: what is not a regular file is refused. */
static int open_regular(const char *path, const char *name, int *fd)
{
    struct stat at;
    *fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    int reason = errno;
    bool exists = *fd < 0 ? lstat(name, &at) == 0 : fstat(*fd, &at) == 0;
    if (exists && !S_ISREG(at.st_mode))
        return report(EXIT_USAGE, "%s: cannot create: %s is not a regular file", path, name);
    if (*fd >= 0)
        return EXIT_OK;
    return report(EXIT_USAGE, "%s: cannot create: %s%s%s", path, exists ? name : "", exists ? ": " : "",
                  strerror(reason));
}

/*
 * The lock lasts as long as this process: a file that can be locked has no owner. It is taken if the name still leads
 * to it and it is empty; one that a killed run has left is removed, for the next try to make it anew.
 */
static int take(const char *path, const char *name, int fd, bool *taken)
{
    struct stat at;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? report(EXIT_USAGE, "%s: cannot create: another run is writing it (%s)", path, name)
                   : report(EXIT_USAGE, "%s: cannot create: %s: cannot lock: %s", path, name, strerror(errno));
    bool ours = leads_to(name, fd);
    *taken = ours && fstat(fd, &at) == 0 && at.st_size == 0;
    if (ours && !*taken && unlink(name) != 0)
        return report(EXIT_USAGE, "%s: cannot create: %s: cannot remove: %s", path, name, strerror(errno));
    return EXIT_OK;
}

static int open_temporary(const char *path, const char *name, FILE **stream)
{
    enum { TRIES = 100 };
    for (int try = 0; try < TRIES; try++) {
        int fd;
        bool taken = false;
        int code = open_regular(path, name, &fd);
        if (!code)
            code = take(path, name, fd, &taken);
        *stream = taken ? fdopen(fd, "w") : NULL;
        if (*stream)
            return EXIT_OK;
        if (taken) {
            code = report_errno(path, "create", EXIT_USAGE);
            unlink(name);
        }
        if (fd >= 0)
            close(fd);
        if (code)
            return code;
    }
    return report(EXIT_USAGE, "%s: cannot create: %s was replaced %d times meanwhile", path, name, TRIES);
}

/* ---- Output files ------------------------------------------------------------------------------------------------ */

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
    if (exists && !S_ISREG(existing.st_mode)) {
        file->stream = fopen(path, "w");
        return file->stream ? EXIT_OK : report_errno(path, "create", EXIT_USAGE);
    }
    file->temporary = temporary_name(path);
    if (!file->temporary)
        return report(EXIT_USAGE, "%s: out of memory", path);
    int code = open_temporary(path, file->temporary, &file->stream);
    file->cleaned = code ? 0 : interrupt_cleans(file->temporary);
    return code;
}

int output_file_finish(output_file *file)
{
    if (fflush(file->stream) != 0 || ferror(file->stream) || (file->temporary && fsync(fileno(file->stream)) != 0))
        return report_errno(file->path, "write", EXIT_WORK);
    return EXIT_OK;
}

int output_file_commit(output_file *file)
{
    if (file->temporary && !leads_to(file->temporary, fileno(file->stream)))
        return report(EXIT_WORK, "%s: cannot create: %s was removed while it was written", file->path, file->temporary);
    if (file->temporary && rename(file->temporary, file->path) != 0)
        return report_errno(file->path, "create", EXIT_WORK);
    interrupt_forget(file->cleaned);
    file->cleaned = 0;
    free(file->temporary);
    file->temporary = NULL;
    return EXIT_OK;
}

void output_file_close(output_file *file)
{
    /* Before the lock is given up: afterwards the name may be another run's. */
    interrupt_forget(file->cleaned);
    if (file->stream && file->temporary && leads_to(file->temporary, fileno(file->stream)))
        unlink(file->temporary);
    if (file->stream && file->stream != stdout)
        fclose(file->stream);
    free(file->temporary);
    *file = (output_file){0};
}

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

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
