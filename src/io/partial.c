/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates, locks, renames and removes PATH.partial. The command's own files follow the same rules in cli/output_file.c.
 * See partial.h.
 */
#include "io/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Not blocking: a pipe is refused, instead of waited for. A symbolic link would lead to a file of somebody else's. */
enum { OPEN_FLAGS = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, TRIES = 100 };

static ra_status fail_kind(const char *path, const char *name, const char *doing)
{
    return ra_fail(RA_ERROR_FILE, "%s: cannot %s: %s is not a regular file", path, doing, name);
}

/* Opens `name`, which must be a regular file. If an existing file is not usable, the message names `name`, not `path`.
 */
static ra_status open_regular(const char *path, const char *name, const char *doing, int flags, int *fd)
{
    struct stat file;
    *fd = open(name, flags, 0666);
    int reason = errno;
    bool exists = *fd < 0 ? lstat(name, &file) == 0 : fstat(*fd, &file) == 0;
    if (exists && !S_ISREG(file.st_mode))
        return fail_kind(path, name, doing);
    if (*fd >= 0)
        return RA_OK;
    return ra_fail(RA_ERROR_FILE, "%s: cannot %s: %s%s%s", path, doing, exists ? name : "", exists ? ": " : "",
                   strerror(reason));
}

bool ra_partial_leads_to(const char *name, int fd)
{
    struct stat named, opened;
    return lstat(name, &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

static ra_status take_lock(const char *path, const char *name, int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return RA_OK;
    if (errno == EWOULDBLOCK)
        return ra_fail(RA_ERROR_FILE, "%s: cannot create: another run is writing it (%s)", path, name);
    /* A file system without locks. Nobody can hold the file, which is empty unless it is an old one. */
    struct stat file;
    int reason = errno;
    if (fstat(fd, &file) == 0 && file.st_size == 0)
        unlink(name);
    return ra_fail(RA_ERROR_FILE, "%s: cannot create: %s: cannot lock: %s", path, name, strerror(reason));
}

/*
 * Whether the locked file can be used. Between opening and locking, its last holder may have renamed or removed it:
 * then the name has to be opened again. A leftover with content is removed rather than cut: processes of the killed run
 * may still write to it.
 */
static ra_status take_name(const char *path, const char *name, int fd, bool *taken)
{
    struct stat file;
    *taken = false;
    if (!ra_partial_leads_to(name, fd))
        return RA_OK;
    *taken = fstat(fd, &file) == 0 && file.st_size == 0;
    if (!*taken && unlink(name) != 0)
        return ra_fail(RA_ERROR_FILE, "%s: cannot create: %s: cannot remove: %s", path, name, strerror(errno));
    return RA_OK;
}

ra_status ra_partial_create(const char *path, const char *name, int *fd)
{
    for (int try = 0; try < TRIES; try++) {
        bool taken = false;
        ra_status status = open_regular(path, name, "create", OPEN_FLAGS | O_CREAT, fd);
        if (!status)
            status = take_lock(path, name, *fd);
        if (!status)
            status = take_name(path, name, *fd, &taken);
        if (taken)
            return RA_OK;
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        if (status)
            return status;
    }
    return ra_fail(RA_ERROR_FILE, "%s: cannot create: %s was replaced %d times meanwhile", path, name, TRIES);
}

ra_status ra_partial_join(const char *path, const char *name, int *fd)
{
    ra_status status = open_regular(path, name, "join", OPEN_FLAGS, fd);
    if (status && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return status;
}
