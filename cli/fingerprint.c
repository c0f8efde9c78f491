#include "fingerprint.h"

#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Both ends of the file and some places in between. */
enum { PLACES = 32, PLACE_BYTES = 4096 };

static uint64_t mix(uint64_t hash, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static int sample(const char *path, int fd, int64_t size, uint64_t *hash)
{
    unsigned char bytes[PLACE_BYTES];
    *hash = UINT64_C(0xcbf29ce484222325);
    for (int place = 0; place < PLACES; place++) {
        int64_t last = size > PLACE_BYTES ? size - PLACE_BYTES : 0, at = last / (PLACES - 1) * place;
        ssize_t got = pread(fd, bytes, sizeof bytes, place == PLACES - 1 ? last : at);
        if (got < 0)
            return report(EXIT_USAGE, "%s: cannot read: %s", path, strerror(errno));
        *hash = mix(*hash, bytes, (size_t)got);
    }
    return EXIT_OK;
}

static int of_file(const char *name, const char *path, char text[FINGERPRINT_TEXT])
{
    char part[PATH_MAX];
    struct stat file;
    uint64_t hash = 0;
    const char *tensor = strchr(path, '#'), *only = tensor_file_part(path, part, sizeof part);
    int fd = open(only, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &file) != 0) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        return report(EXIT_USAGE, "%s: cannot open: %s", only, strerror(reason));
    }
    int code = sample(only, fd, file.st_size, &hash);
    close(fd);
    snprintf(text, FINGERPRINT_TEXT, "%s: %lld bytes, modified %lld.%09ld, sample %016llx%.100s", name,
             (long long)file.st_size, (long long)file.st_mtim.tv_sec, file.st_mtim.tv_nsec, (unsigned long long)hash,
             tensor ? tensor : "");
    return code;
}

int fingerprint(const char *name, const tensor_file *file, char text[FINGERPRINT_TEXT])
{
    if (!file->gen.made)
        return of_file(name, file->path, text);
    snprintf(text, FINGERPRINT_TEXT, "%s: made up, %s, seed %llu, axes of %lld, %lld", name,
             file->gen.distribution == RA_NORMAL ? "normal" : "uniform", (unsigned long long)file->gen.seed,
             (long long)file->gen.shape[0], (long long)file->gen.shape[1]);
    return EXIT_OK;
}
