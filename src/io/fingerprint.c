/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size, time and a checksum of sampled places of a file. Who compares them: ring/greeting.c, cli/fingerprint.c. See
 * fingerprint.h.
 */
#include "io/fingerprint.h"

#include "base/checked.h"
#include "io/saved_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACES = 32, PLACE_BYTES = 4096 };

/* A file that became shorter has less to be read: that is a difference, not a failure. */
static ra_status read_place(int fd, const char *path, int64_t at, int64_t bytes, uint64_t *hash)
{
    char place[PLACE_BYTES];
    for (int64_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, place + done, (size_t)(bytes - done), (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ra_fail(RA_ERROR_FILE, "%s: cannot read: %s", path, strerror(errno));
        if (got == 0)
            bytes = done;
        done += got;
    }
    *hash = ra_saved_hash(*hash, place, bytes);
    return RA_OK;
}

/* Where place i of a range of `count` bytes begins: the first at its start, the last at its end. */
static int64_t place_at(int64_t count, int i)
{
    int64_t last = ra_max(0, count - PLACE_BYTES), whole = last / (PLACES - 1), rest = last % (PLACES - 1);
    return whole * i + rest * i / (PLACES - 1);
}

ra_status ra_file_fingerprint(int fd, const char *path, int64_t first, int64_t count, char *text, size_t size)
{
    struct stat file;
    const int64_t range[] = {first, count};
    uint64_t hash = ra_saved_hash(0, range, sizeof range);
    ra_status status = RA_OK;
    if (fstat(fd, &file) != 0)
        return ra_fail(RA_ERROR_FILE, "%s: cannot read: %s", path, strerror(errno));
    for (int i = 0; i < PLACES && !status; i++)
        status = read_place(fd, path, first + place_at(count, i), ra_min(count, PLACE_BYTES), &hash);
    snprintf(text, size, "%lld bytes, modified %lld.%09ld, sample %016llx", (long long)file.st_size,
             (long long)file.st_mtim.tv_sec, file.st_mtim.tv_nsec, (unsigned long long)hash);
    return status;
}
