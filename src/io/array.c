/* ra_array: one .npy file, read or written by range of elements. */
#include "io/npy_header.h"

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
#error "elements are read and written as they lie in memory, which .npy files here hold little-endian"
#endif

struct ra_array {
    ra_npy_header header;
    int fd;         /* -1: not open */
    bool writable;  /* made by ra_array_create */
    bool committed; /* the temporary file has become `path` */
    char *temporary;
    char path[]; /* and behind it the temporary name, of a writable array */
};

/* What is added to a path while its file is being written: says what it is, and whose. */
static const char SUFFIX[] = ".partial-";
enum { SUFFIX_BYTES = sizeof SUFFIX + 32, NAME_TRIES = 100 };

static ra_status fail_errno(const char *path, const char *doing)
{
    return ra_fail(RA_ERROR_FILE, "%s: cannot %s: %s", path, doing, strerror(errno));
}

/* ---- Making and closing ------------------------------------------------------------------------------------------ */

static ra_status array_new(const char *path, ra_array **array)
{
    if (!path || !*path)
        return ra_fail(RA_ERROR_ARGUMENT, "the path of an array is %s", path ? "empty" : "NULL");
    size_t bytes = strlen(path) + 1;
    ra_array *a = calloc(1, sizeof *a + 2 * bytes + SUFFIX_BYTES);
    if (!a)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: %zu bytes for its path", path, 2 * bytes);
    memcpy(a->path, path, bytes);
    a->temporary = a->path + bytes;
    a->fd = -1;
    *array = a;
    return RA_OK;
}

void ra_array_close(ra_array *a)
{
    if (!a)
        return;
    if (a->fd >= 0) {
        close(a->fd);
        if (a->writable && !a->committed)
            unlink(a->temporary);
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

/* A call moves at most about 2 GiB, and may move less. */
static ra_status read_bytes(ra_array *a, int64_t at, int64_t count, char *bytes)
{
    while (count > 0) {
        ssize_t moved = pread(a->fd, bytes, (size_t)count, (off_t)at);
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
        ssize_t moved = pwrite(a->fd, bytes, (size_t)count, (off_t)at);
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

static ra_status open_and_check(ra_array *a)
{
    struct stat file;
    char bytes[RA_NPY_READ_BYTES];
    /* Not blocking: a pipe is refused below, instead of waited for. */
    a->fd = open(a->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (a->fd < 0 || fstat(a->fd, &file) != 0)
        return fail_errno(a->path, "open");
    if (!S_ISREG(file.st_mode))
        return ra_fail(RA_ERROR_FILE, "%s: not a regular file", a->path);
    int64_t size = ra_min((int64_t)file.st_size, RA_NPY_READ_BYTES);
    ra_status status = read_bytes(a, 0, size, bytes);
    if (!status)
        status = ra_npy_parse(a->path, bytes, (size_t)size, &a->header);
    if (!status && a->header.file_bytes > file.st_size)
        return ra_fail(RA_ERROR_FORMAT, "%s: truncated: its header promises %lld bytes, the file has %lld", a->path,
                       (long long)a->header.file_bytes, (long long)file.st_size);
    return status;
}

ra_status ra_array_open(const char *path, ra_array **array)
{
    ra_array *a = NULL;
    *array = NULL;
    ra_status status = array_new(path, &a);
    return status ? status : hand_over(open_and_check(a), a, array);
}

/* ---- Creating ---------------------------------------------------------------------------------------------------- */

/* A new file beside the path, so that the rename stays within one file system. */
static ra_status open_temporary(ra_array *a)
{
    for (int try = 0; a->fd < 0; try++) {
        snprintf(a->temporary, strlen(a->path) + SUFFIX_BYTES, "%s%s%ld-%d", a->path, SUFFIX, (long)getpid(), try);
        a->fd = open(a->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (a->fd < 0 && (errno != EEXIST || try == NAME_TRIES))
            return fail_errno(a->path, "create");
    }
    return RA_OK;
}

static ra_status create_and_size(ra_array *a, ra_dtype dtype, int dims, const int64_t *shape)
{
    struct stat file;
    char bytes[RA_NPY_WRITE_BYTES];
    ra_status status = ra_npy_format(a->path, dtype, dims, shape, bytes, &a->header);
    if (status)
        return status;
    /* The commit would fail on a directory, and would replace a device or a pipe. */
    if (stat(a->path, &file) == 0 && !S_ISREG(file.st_mode))
        return ra_fail(RA_ERROR_FILE, "%s: cannot create: %s", a->path,
                       S_ISDIR(file.st_mode) ? strerror(EISDIR) : "it exists and is not a regular file");
    status = open_temporary(a);
    /* The full length at once: a size that the file system cannot hold is refused before the work. */
    if (!status && ftruncate(a->fd, (off_t)a->header.file_bytes) != 0)
        return fail_errno(a->path, "create");
    return status ? status : write_bytes(a, 0, a->header.data_at, bytes);
}

ra_status ra_array_create(const char *path, ra_dtype dtype, int dims, const int64_t *shape, ra_array **array)
{
    ra_array *a = NULL;
    *array = NULL;
    ra_status status = array_new(path, &a);
    if (status)
        return status;
    a->writable = true;
    return hand_over(create_and_size(a, dtype, dims, shape), a, array);
}

/* Arrays that were created, until they are committed, can be written. */
static ra_status check_unfinished(const ra_array *a, const char *doing)
{
    if (a->writable && !a->committed)
        return RA_OK;
    return ra_fail(RA_ERROR_ARGUMENT, "%s: cannot %s: it was %s", a->path, doing,
                   a->writable ? "committed already" : "opened for reading");
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
    ra_status status = check_unfinished(a, "commit");
    if (status)
        return status;
    if (fsync(a->fd) != 0)
        return fail_errno(a->path, "write");
    if (rename(a->temporary, a->path) != 0)
        return fail_errno(a->path, "create");
    a->committed = true;
    sync_directory(a->temporary); /* which is gone: its name may be cut */
    return RA_OK;
}

/* ---- Using ------------------------------------------------------------------------------------------------------- */

ra_status ra_array_describe(const ra_array *a, ra_array_info *info)
{
    if (!a || !info)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", a ? "info" : "array");
    ra_array_info ours = {.size = sizeof ours, .dtype = a->header.dtype, .dims = a->header.dims};
    memcpy(ours.shape, a->header.shape, sizeof ours.shape);
    ours.count = a->header.count;
    return ra_copy_out(info, &ours, sizeof ours, "ra_array_info", "RA_ARRAY_INFO_INIT");
}

static ra_status check_range(const ra_array *a, int64_t first, int64_t count)
{
    if (!a)
        return ra_fail(RA_ERROR_ARGUMENT, "array is NULL");
    if (first < 0 || count < 0 || first > a->header.count || count > a->header.count - first)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: elements [%lld, %lld + %lld) of %lld", a->path, (long long)first,
                       (long long)first, (long long)count, (long long)a->header.count);
    return RA_OK;
}

ra_status ra_array_read(ra_array *a, int64_t first, int64_t count, void *elements)
{
    ra_status status = check_range(a, first, count);
    if (status)
        return status;
    int64_t size = (int64_t)ra_dtype_size(a->header.dtype);
    return read_bytes(a, a->header.data_at + first * size, count * size, elements);
}

ra_status ra_array_write(ra_array *a, int64_t first, int64_t count, const void *elements)
{
    ra_status status = check_range(a, first, count);
    if (!status)
        status = check_unfinished(a, "write");
    if (status)
        return status;
    int64_t size = (int64_t)ra_dtype_size(a->header.dtype);
    return write_bytes(a, a->header.data_at + first * size, count * size, elements);
}
