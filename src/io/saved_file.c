/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes a file with a checksum at its end, and renames it when it is on the disk. What checkpoints put into
 * it: ring/checkpoint.c. See saved_file.h.
 */
#include "io/saved_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Linux moves less than 2 GiB at a time; where somebody waits, it is less than a second's work of a slow disk. */
enum { BUFFER_BYTES = 1 << 16, MOST_BYTES = 1 << 30, PIECE_BYTES = 16 << 20 };
static const uint64_t START = UINT64_C(0xcbf29ce484222325);

/* Eight bytes at a time, every one of which changes everything after it. */
uint64_t ra_saved_hash(uint64_t hash, const void *data, int64_t bytes)
{
    const char *at = data;
    for (; bytes > 0; at += 8, bytes -= 8) {
        uint64_t word = 0;
        memcpy(&word, at, bytes < 8 ? (size_t)bytes : 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static ra_status fail(const ra_saved_file *f, const char *doing, int reason)
{
    return ra_fail(RA_ERROR_FILE, "%s: cannot %s: %s", f->path, doing, strerror(reason));
}

static size_t piece(const ra_saved_file *f, int64_t bytes)
{
    int64_t most = f->between ? PIECE_BYTES : MOST_BYTES;
    return (size_t)(bytes < most ? bytes : most);
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static char *temporary_name(const char *path)
{
    size_t size = strlen(path) + sizeof ".new";
    char *name = malloc(size);
    if (name)
        snprintf(name, size, "%s.new", path);
    return name;
}

ra_status ra_saved_begin(ra_saved_file *f, const char *path)
{
    *f = (ra_saved_file){.fd = -1, .path = path, .hash = START};
    f->name = temporary_name(path);
    if (!f->name)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: its temporary name", path);
    f->fd = open(f->name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    return f->fd < 0 ? fail(f, "create", errno) : RA_OK;
}

ra_status ra_saved_probe(const char *path)
{
    ra_saved_file f = {.fd = -1, .path = path, .name = temporary_name(path)};
    if (!f.name)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: its temporary name", path);
    const int flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC;
    f.fd = open(f.name, flags | O_CREAT | O_EXCL, 0666);
    bool made = f.fd >= 0;
    if (!made && errno == EEXIST) /* left by a process that was killed while it saved */
        f.fd = open(f.name, flags);
    ra_status status = f.fd < 0 ? fail(&f, "create", errno) : RA_OK;
    if (f.fd >= 0)
        close(f.fd);
    if (made)
        unlink(f.name);
    free(f.name);
    return status;
}

static ra_status write_all(ra_saved_file *f, const void *data, int64_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(f->fd, at, piece(f, bytes));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return fail(f, "write", written < 0 ? errno : ENOSPC);
        at += written;
        bytes -= written;
        if (!f->between || bytes == 0)
            continue;
        /* What is left to flush in the end must not take long either. */
        if (fdatasync(f->fd) != 0)
            return fail(f, "write", errno);
        f->between(f->between_user);
    }
    return RA_OK;
}

ra_status ra_saved_write(ra_saved_file *f, const void *data, int64_t bytes)
{
    /* The length goes in too: parts that are split differently are different. */
    f->hash = ra_saved_hash(ra_saved_hash(f->hash, &bytes, sizeof bytes), data, bytes);
    ra_status status = write_all(f, &bytes, sizeof bytes);
    return status ? status : write_all(f, data, bytes);
}

/* The new name is on the disk when the directory is. */
static void flush_directory(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(copy);
}

ra_status ra_saved_finish(ra_saved_file *f)
{
    ra_status status = write_all(f, &f->hash, sizeof f->hash);
    if (!status && fdatasync(f->fd) != 0)
        status = fail(f, "write", errno);
    if (!status && rename(f->name, f->path) != 0)
        status = fail(f, "replace", errno);
    if (status)
        return status;
    flush_directory(f->path);
    free(f->name);
    f->name = NULL;
    return RA_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static ra_status read_all(ra_saved_file *f, void *data, int64_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t got = pread(f->fd, at, piece(f, bytes), f->at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(f, "read", errno);
        if (got == 0)
            return ra_fail(RA_ERROR_FORMAT, "%s: is damaged: it ends at byte %lld", f->path, (long long)f->at);
        at += got;
        f->at += got;
        bytes -= got;
        if (f->between)
            f->between(f->between_user);
    }
    return RA_OK;
}

/* Each part is its length and its bytes. */
static ra_status hash_part(ra_saved_file *f, char *buffer)
{
    int64_t bytes;
    ra_status status = read_all(f, &bytes, sizeof bytes);
    if (!status && (bytes < 0 || bytes > f->size - f->at))
        status = ra_fail(RA_ERROR_FORMAT, "%s: is damaged: a part of %lld bytes where %lld are left", f->path,
                         (long long)bytes, (long long)(f->size - f->at));
    f->hash = ra_saved_hash(f->hash, &bytes, sizeof bytes);
    for (int64_t some; bytes > 0 && !status; bytes -= some) {
        some = bytes < BUFFER_BYTES ? bytes : BUFFER_BYTES;
        status = read_all(f, buffer, some);
        if (!status)
            f->hash = ra_saved_hash(f->hash, buffer, some);
    }
    return status;
}

static ra_status verify(ra_saved_file *f)
{
    uint64_t written = 0;
    ra_status status = RA_OK;
    char *buffer = malloc(BUFFER_BYTES);
    if (!buffer)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: %d bytes", f->path, (int)BUFFER_BYTES);
    f->hash = START;
    while (f->at < f->size && !status)
        status = hash_part(f, buffer);
    free(buffer);
    if (!status)
        status = read_all(f, &written, sizeof written);
    if (!status && written != f->hash)
        status = ra_fail(RA_ERROR_FORMAT, "%s: is damaged: its checksum is %016llx, and that of its content %016llx",
                         f->path, (unsigned long long)written, (unsigned long long)f->hash);
    f->at = 0;
    return status;
}

ra_status ra_saved_peek(ra_saved_file *f, const char *path, bool *found)
{
    struct stat file;
    *f = (ra_saved_file){.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), .path = path};
    *found = f->fd >= 0;
    if (f->fd < 0)
        return errno == ENOENT ? RA_OK : fail(f, "open", errno);
    if (fstat(f->fd, &file) != 0)
        return fail(f, "read", errno);
    f->size = file.st_size - (int64_t)sizeof f->hash;
    if (!S_ISREG(file.st_mode) || f->size < 0)
        return ra_fail(RA_ERROR_FORMAT, "%s: %s", path,
                       S_ISREG(file.st_mode) ? "is damaged: it has no room for a checksum" : "is not a regular file");
    return RA_OK;
}

ra_status ra_saved_open(ra_saved_file *f, const char *path, bool *found)
{
    ra_status status = ra_saved_peek(f, path, found);
    return status || !*found ? status : verify(f);
}

ra_status ra_saved_read(ra_saved_file *f, void *data, int64_t bytes)
{
    int64_t part;
    ra_status status = read_all(f, &part, sizeof part);
    if (!status && part != bytes)
        status = ra_fail(RA_ERROR_FORMAT, "%s: a part of %lld bytes where %lld were expected", f->path, (long long)part,
                         (long long)bytes);
    return status ? status : read_all(f, data, bytes);
}

void ra_saved_close(ra_saved_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->name)
        unlink(f->name);
    free(f->name);
    *f = (ra_saved_file){.fd = -1};
}

void ra_saved_remove(const char *path)
{
    char *name = temporary_name(path);
    unlink(path);
    if (name)
        unlink(name);
    free(name);
}
