/* SPDX-License-Identifier: Apache-2.0 */
/* The text: a file of bytes, of which each rank reads its own. */
#include "lm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t lm_mix(uint64_t sum, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

/* count bytes from `first` on. */
static bool read_all(const lm_data *data, int64_t first, int64_t count, unsigned char *bytes)
{
    while (count > 0) {
        ssize_t got = pread(data->file, bytes, (size_t)count, first);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        first += got, count -= got, bytes += got;
    }
    return true;
}

static bool sum_up(lm_data *data)
{
    enum { SOME = 1 << 16 };
    unsigned char bytes[SOME];
    data->sum = 14695981039346656037u;
    for (int64_t first = 0; first < data->size; first += SOME) {
        int64_t count = data->size - first < SOME ? data->size - first : SOME;
        if (!read_all(data, first, count, bytes))
            return false;
        data->sum = lm_mix(data->sum, bytes, (size_t)count);
    }
    return true;
}

const char *lm_data_open(lm_data *data, const char *path, int64_t context)
{
    static char why[512];
    struct stat status;
    *data = (lm_data){.path = path, .file = open(path, O_RDONLY | O_CLOEXEC)};
    if (data->file < 0 || fstat(data->file, &status) != 0) {
        snprintf(why, sizeof why, "--data '%s': cannot be opened: %s", path, strerror(errno));
        return why;
    }
    data->size = status.st_size;
    if (!S_ISREG(status.st_mode))
        snprintf(why, sizeof why, "--data '%s': is no file", path);
    else if (data->size == 0)
        snprintf(why, sizeof why, "--data '%s': is empty", path);
    else if (data->size <= context)
        snprintf(why, sizeof why,
                 "--context %lld: is longer than the data: '%s' has %lld bytes, and a context of N takes N + 1",
                 (long long)context, path, (long long)data->size);
    else if (!sum_up(data))
        snprintf(why, sizeof why, "--data '%s': cannot be read", path);
    else
        return NULL;
    return why;
}

void lm_data_close(lm_data *data)
{
    if (data->file >= 0)
        close(data->file);
}

int64_t lm_data_start(const lm_data *data, const lm_config *config, int64_t step, int64_t element)
{
    uint64_t key[3] = {config->seed, (uint64_t)step, (uint64_t)element};
    uint64_t draw = lm_mix(14695981039346656037u, key, sizeof key);
    draw = (draw ^ draw >> 32) * 0xd6e8feb86659fd93u;
    draw = (draw ^ draw >> 32) * 0xd6e8feb86659fd93u;
    return (int64_t)((draw ^ draw >> 32) % (uint64_t)(data->size - config->context));
}

bool lm_data_read(const lm_data *data, const lm_model *model, int64_t start, unsigned char *bytes, unsigned char *next)
{
    int64_t row = 0;
    while (row < model->rows) { /* rows that follow each other in the sequence, at once */
        int64_t first = ra_layer_row(model->layer, row), count = 1;
        while (row + count < model->rows && ra_layer_row(model->layer, row + count) == first + count)
            count++;
        if (!read_all(data, start + first, count, bytes + row) || !read_all(data, start + first + 1, count, next + row))
            return false;
        row += count;
    }
    return true;
}
