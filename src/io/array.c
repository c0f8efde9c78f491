/* SPDX-License-Identifier: Apache-2.0 */
/* ra_array: an array in a file of any format, read or written by range of elements. */
#include "io/array.h"
#include "io/array_format.h"
#include "io/fingerprint.h"
#include "io/partial.h"
#include "io/safetensors_header.h"

#include "base/checked.h"
#include "base/sized.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elements are read and written as they lie in memory, which files here hold little-endian"
#endif

struct ra_array {
    ra_array_header header;
    const ra_array_format *format;
    const char *name; /* of the array within its file; "": the only one */
    int fd;           /* -1: not open */
    bool maker;       /* by ra_array_create: holds the lock on the temporary file */
    bool joined;      /* by ra_array_join: writes to a temporary file that another process holds */
    bool committed;   /* the temporary file has become `path` */
    char *path;       /* of the file */
    char *temporary;  /* the name while it is being written */
    char given[];     /* as it was given; behind it the other two */
};

static ra_status fail_errno(const char *path, const char *doing)
{
    return ra_fail(RA_ERROR_FILE, "%s: cannot %s: %s", path, doing, strerror(errno));
}

/* ---- Making and closing ------------------------------------------------------------------------------------------ */

static ra_status array_new(const char *path, ra_array **array)
{
    if (!path || !*path)
        return ra_fail(RA_ERROR_ARGUMENT, "the path of an array is %s", path ? "empty" : "NULL");
    const char *name;
    size_t bytes = strlen(path) + 1, length = ra_array_split_path(path, &name);
    if (name && !*name && path[length])
        return ra_fail(RA_ERROR_ARGUMENT, "%s: no name after '#'", path);
    ra_array *a = calloc(1, sizeof *a + bytes + 2 * (length + 1) + strlen(RA_PARTIAL_SUFFIX));
    if (!a)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: %zu bytes for its path", path, bytes + 2 * length);
    memcpy(a->given, path, bytes);
    a->path = a->given + bytes;
    memcpy(a->path, path, length);
    a->temporary = a->path + length + 1;
    memcpy(a->temporary, path, length);
    memcpy(a->temporary + length, RA_PARTIAL_SUFFIX, sizeof RA_PARTIAL_SUFFIX);
    a->format = ra_array_format_of(path);
    a->name = name ? a->given + (name - path) : "";
    a->fd = -1;
    *array = a;
    return RA_OK;
}

/* What opening, creating and joining need. *array is NULL until it is made. */
static ra_status check_names(const char *path, ra_array **array)
{
    if (!array)
        return ra_fail(RA_ERROR_ARGUMENT, "array: the pointer to the result is NULL");
    *array = NULL;
    return path ? RA_OK : ra_fail(RA_ERROR_ARGUMENT, "path is NULL");
}

static ra_status check_made(const char *path, int dims, const int64_t *shape, ra_array **array)
{
    ra_status status = check_names(path, array);
    if (!status && dims > 0 && !shape)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: %d dimensions, and the shape is NULL", path, dims);
    return status;
}

/* The same for an array that is written. */
static ra_status array_new_made(const char *path, ra_array **array)
{
    ra_status status = array_new(path, array);
    if (!status && !*(*array)->name && (*array)->format->default_name)
        (*array)->name = (*array)->format->default_name;
    return status;
}

void ra_array_close(ra_array *a)
{
    if (!a)
        return;
    if (a->fd >= 0) {
        /* Before the lock is given up: afterwards the name may be another run's. */
        if (a->maker && !a->committed && ra_partial_leads_to(a->temporary, a->fd))
            unlink(a->temporary);
        close(a->fd);
    }
    free(a);
}

/* Hands `a` to the caller, or closes it when making it has failed. */
static ra_status hand_over(ra_status status, ra_array *a, ra_array **array)
{
    if (status)
        ra_array_close(a);
    else
        *array = a;
    return status;
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

/*
 * A call that reads a file does not see signals before its end: pieces are what a slow disk reads in well under a
 * second. A call may move less than it was asked for.
 */
enum { PIECE_BYTES = 4 << 20 };

static ra_status read_bytes(ra_array *a, int64_t at, int64_t count, char *bytes)
{
    while (count > 0) {
        ssize_t moved = pread(a->fd, bytes, (size_t)ra_min(count, PIECE_BYTES), (off_t)at);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return fail_errno(a->path, "read");
        if (moved == 0)
            return ra_fail(RA_ERROR_FILE, "%s: ends at byte %lld: it became shorter while it was read", a->path,
                           (long long)at);
        bytes += moved;
        at += moved;
        count -= moved;
    }
    return RA_OK;
}

static ra_status write_bytes(ra_array *a, int64_t at, int64_t count, const char *bytes)
{
    while (count > 0) {
        ssize_t moved = pwrite(a->fd, bytes, (size_t)ra_min(count, PIECE_BYTES), (off_t)at);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return fail_errno(a->path, "write");
        bytes += moved;
        at += moved;
        count -= moved;
    }
    return RA_OK;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* The bytes that the header takes, of which `size` are here already; *all is the caller's to free. */
static ra_status read_long_header(ra_array *a, const char *file, const char *first, int64_t size, int64_t wanted,
                                  char **all)
{
    *all = malloc((size_t)wanted);
    if (!*all)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: %lld bytes for its header", file, (long long)wanted);
    memcpy(*all, first, (size_t)size);
    return read_bytes(a, size, wanted - size, *all + size);
}

/* Reads the header of the open file, which is called `file`; the file must be as long as it says. */
static ra_status read_header(ra_array *a, const char *file, int64_t file_bytes)
{
    char first[RA_HEADER_FIRST_BYTES], *all = NULL;
    int64_t size = ra_min(file_bytes, RA_HEADER_FIRST_BYTES), wanted = 0;
    ra_status status = read_bytes(a, 0, size, first);
    if (!status)
        status = a->format->extent(file, first, (size_t)size, file_bytes, &wanted);
    if (!status && wanted > size)
        status = read_long_header(a, file, first, size, wanted, &all);
    if (!status)
        status = a->format->parse(file, a->name, all ? all : first, (size_t)wanted, file_bytes, &a->header);
    free(all);
    return status;
}

static ra_status open_and_check(ra_array *a)
{
    struct stat file;
    /* Not blocking: a pipe is refused below, instead of waited for. */
    a->fd = open(a->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (a->fd < 0 || fstat(a->fd, &file) != 0)
        return fail_errno(a->path, "open");
    if (!S_ISREG(file.st_mode))
        return ra_fail(RA_ERROR_FILE, "%s: not a regular file", a->path);
    return read_header(a, a->path, (int64_t)file.st_size);
}

ra_status ra_array_open(const char *path, ra_array **array)
{
    ra_array *a = NULL;
    ra_status status = check_names(path, array);
    if (!status)
        status = array_new(path, &a);
    return status ? status : hand_over(open_and_check(a), a, array);
}

/* ---- Creating ---------------------------------------------------------------------------------------------------- */

/* With the bytes of its header, which is known. */
static ra_status create_and_size(ra_array *a, const char bytes[RA_HEADER_WRITE_BYTES])
{
    struct stat file;
    /* The commit would fail on a directory, and would replace a device or a pipe. */
    if (stat(a->path, &file) == 0 && !S_ISREG(file.st_mode))
        return ra_fail(RA_ERROR_FILE, "%s: cannot create: %s", a->path,
                       S_ISDIR(file.st_mode) ? strerror(EISDIR) : "it exists and is not a regular file");
    /* Beside the path, so that the rename stays within one file system. */
    ra_status status = ra_partial_create(a->path, a->temporary, &a->fd);
    /* The full length at once: a size that the file system cannot hold is refused before the work. */
    if (!status && ftruncate(a->fd, (off_t)a->header.file_bytes) != 0)
        return fail_errno(a->path, "create");
    return status ? status : write_bytes(a, 0, a->header.data_at, bytes);
}

ra_status ra_array_create(const char *path, ra_dtype dtype, int dims, const int64_t *shape, ra_array **array)
{
    ra_array *a = NULL;
    ra_status status = check_made(path, dims, shape, array);
    if (!status)
        status = array_new_made(path, &a);
    if (status)
        return status;
    char bytes[RA_HEADER_WRITE_BYTES];
    a->maker = true;
    status = a->format->format(a->path, a->name, dtype, dims, shape, bytes, &a->header);
    return hand_over(status ? status : create_and_size(a, bytes), a, array);
}

static ra_status create_parts(const char *path, ra_dtype dtype, const ra_dtype *dtypes, int count,
                              const ra_array_part *parts, ra_array **array)
{
    ra_array *a = NULL;
    const char *name = NULL;
    ra_status status = check_names(path, array);
    if (!status && (count < 1 || !parts))
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: %d tensors: there must be one or more", path, parts ? count : 0);
    if (!status && path[ra_array_split_path(path, &name)])
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: has a name after '#': each of its tensors has its own", path);
    if (!status && !name)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: several tensors need a .safetensors file", path);
    if (!status)
        status = array_new(path, &a);
    if (status)
        return status;
    char bytes[RA_HEADER_WRITE_BYTES];
    a->maker = true;
    status = ra_safetensors_format_parts(a->path, dtype, dtypes, count, parts, bytes, &a->header);
    return hand_over(status ? status : create_and_size(a, bytes), a, array);
}

ra_status ra_array_create_parts(const char *path, ra_dtype dtype, int count, const ra_array_part *parts,
                                ra_array **array)
{
    return create_parts(path, dtype, NULL, count, parts, array);
}

ra_status ra_array_create_mixed(const char *path, int count, const ra_array_part *parts, const ra_dtype *dtypes,
                                ra_array **array)
{
    return create_parts(path, RA_U8, dtypes, dtypes ? count : 0, parts, array);
}

/* ---- Joining ----------------------------------------------------------------------------------------------------- */

static ra_status fail_other_array(const ra_array *a, int64_t file_bytes, const ra_array_header *expected)
{
    char theirs[RA_SHAPE_TEXT_BYTES], ours[RA_SHAPE_TEXT_BYTES];
    ra_shape_text(&a->header, theirs, sizeof theirs);
    ra_shape_text(expected, ours, sizeof ours);
    return ra_fail(RA_ERROR_ARGUMENT, "%s: cannot join: %s is %s of shape %s in %lld bytes, not %s of shape %s in %lld",
                   a->path, a->temporary, ra_dtype_name(a->header.dtype), theirs, (long long)file_bytes,
                   ra_dtype_name(expected->dtype), ours, (long long)expected->file_bytes);
}

static ra_status join_and_check(ra_array *a, ra_dtype dtype, int dims, const int64_t *shape)
{
    struct stat file;
    char bytes[RA_HEADER_WRITE_BYTES];
    ra_array_header expected;
    ra_status status = a->format->format(a->path, a->name, dtype, dims, shape, bytes, &expected);
    if (!status)
        status = ra_partial_join(a->path, a->temporary, &a->fd);
    if (status)
        return status;
    if (fstat(a->fd, &file) != 0)
        return fail_errno(a->path, "join");
    status = read_header(a, a->temporary, (int64_t)file.st_size);
    if (status)
        return status;
    const ra_array_header *h = &a->header;
    if (h->dtype != dtype || h->dims != dims || memcmp(h->shape, expected.shape, sizeof h->shape) != 0 ||
        h->data_at != expected.data_at || file.st_size != expected.file_bytes)
        return fail_other_array(a, (int64_t)file.st_size, &expected);
    return RA_OK;
}

ra_status ra_array_join(const char *path, ra_dtype dtype, int dims, const int64_t *shape, ra_array **array)
{
    ra_array *a = NULL;
    ra_status status = check_made(path, dims, shape, array);
    if (!status)
        status = array_new_made(path, &a);
    if (status)
        return status;
    a->joined = true;
    return hand_over(join_and_check(a, dtype, dims, shape), a, array);
}

/* ---- Committing -------------------------------------------------------------------------------------------------- */

/* Arrays that were created or joined can be written; those that were created can be committed, and are finished then.
 */
static ra_status check_unfinished(const ra_array *a, bool allowed, const char *doing)
{
    if (allowed && !a->committed)
        return RA_OK;
    return ra_fail(RA_ERROR_ARGUMENT, "%s: cannot %s: it was %s", a->path, doing,
                   a->committed ? "committed already"
                   : a->joined  ? "joined"
                                : "opened for reading");
}

/* The new name must be on the disk too; a file system that cannot promise that is no reason to fail. */
static void sync_directory(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = '\0'; /* "/name" lies in "/" */
    int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

ra_status ra_array_commit(ra_array *a)
{
    if (!a)
        return ra_fail(RA_ERROR_ARGUMENT, "array is NULL");
    ra_status status = check_unfinished(a, a->maker, "commit");
    if (status)
        return status;
    if (fsync(a->fd) != 0)
        return fail_errno(a->path, "write");
    /* Somebody who tidies up may have removed it, and another run made its own: not ours to rename. */
    if (!ra_partial_leads_to(a->temporary, a->fd))
        return ra_fail(RA_ERROR_FILE, "%s: cannot create: %s was removed while it was written", a->path, a->temporary);
    if (rename(a->temporary, a->path) != 0)
        return fail_errno(a->path, "create");
    a->committed = true;
    sync_directory(a->temporary); /* which is gone: its name may be cut */
    return RA_OK;
}

/* ---- Using ------------------------------------------------------------------------------------------------------- */

const char *ra_array_path(const ra_array *a)
{
    return a->given;
}

ra_status ra_array_fingerprint(const ra_array *a, char *text, size_t size)
{
    int64_t bytes = a->header.count * (int64_t)ra_dtype_size(a->header.dtype);
    return ra_file_fingerprint(a->fd, a->path, a->header.data_at, bytes, text, size);
}

ra_status ra_array_describe(const ra_array *a, ra_array_info *info)
{
    if (!a || !info)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", a ? "info" : "array");
    ra_array_info ours = {.size = sizeof ours, .dtype = a->header.dtype, .dims = a->header.dims};
    memcpy(ours.shape, a->header.shape, sizeof ours.shape);
    ours.count = a->header.count;
    return ra_copy_out(info, &ours, &ra_sized_array_info);
}

static ra_status check_range(const ra_array *a, int64_t first, int64_t count, const void *elements)
{
    if (!a || (!elements && count > 0))
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", a ? "elements" : "array");
    if (first < 0 || count < 0 || first > a->header.count || count > a->header.count - first)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: elements [%lld, %lld + %lld) of %lld", a->path, (long long)first,
                       (long long)first, (long long)count, (long long)a->header.count);
    return RA_OK;
}

ra_status ra_array_read(ra_array *a, int64_t first, int64_t count, void *elements)
{
    ra_status status = check_range(a, first, count, elements);
    if (status)
        return status;
    int64_t size = (int64_t)ra_dtype_size(a->header.dtype);
    return read_bytes(a, a->header.data_at + first * size, count * size, elements);
}

ra_status ra_array_write(ra_array *a, int64_t first, int64_t count, const void *elements)
{
    ra_status status = check_range(a, first, count, elements);
    if (!status)
        status = check_unfinished(a, a->maker || a->joined, "write");
    if (status)
        return status;
    int64_t size = (int64_t)ra_dtype_size(a->header.dtype);
    return write_bytes(a, a->header.data_at + first * size, count * size, elements);
}
