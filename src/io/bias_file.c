/* SPDX-License-Identifier: Apache-2.0 */
/* A bias in a file, read by parts. See bias_file.h. */
#include "io/bias_file.h"

#include "base/checked.h"
#include "base/half.h"
#include "io/array_header.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct ra_bias_file {
    ra_array *array;
    ra_dtype dtype;
    int64_t shape[4];     /* of the file: batch, heads, queries, keys */
    pthread_mutex_t lock; /* of what is below, taken after a failure only */
    ra_status failure;
    char message[512];
};

static bool fits(const ra_array_info *info, const int64_t shape[4])
{
    bool ok = info->dims == 4 && (info->dtype == RA_F32 || info->dtype == RA_F16 || info->dtype == RA_BF16);
    for (int i = 0; i < 3 && ok; i++)
        ok = info->shape[i] == 1 || info->shape[i] == shape[i];
    return ok && info->shape[3] == shape[3];
}

static ra_status refuse(const char *path, const ra_array_info *info, const int64_t shape[4])
{
    char must[256];
    snprintf(must, sizeof must,
             "a bias must be float32, float16 or bfloat16 [batch %lld or 1, heads %lld or 1, q_len %lld or 1, kv_len "
             "%lld]",
             (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)shape[3]);
    return ra_array_unfit(path, info, must);
}

void ra_bias_close(ra_bias_file *file)
{
    if (!file)
        return;
    pthread_mutex_destroy(&file->lock);
    ra_array_close(file->array);
    free(file);
}

ra_status ra_bias_open(const char *path, const int64_t shape[4], ra_tensor *view, ra_bias_file **file)
{
    ra_array_info info = RA_ARRAY_INFO_INIT;
    ra_bias_file *f = *file = calloc(1, sizeof *f);
    if (!f)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: %zu bytes for a bias", path, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    ra_status status = ra_array_open(path, &f->array);
    if (!status)
        status = ra_array_describe(f->array, &info);
    if (!status && !fits(&info, shape))
        status = refuse(path, &info, shape);
    if (status) {
        ra_bias_close(f);
        *file = NULL;
        return status;
    }
    f->dtype = info.dtype;
    for (int i = 0; i < 4; i++)
        f->shape[i] = info.shape[i];
    *view = ra_tensor_dense(NULL, info.dtype, RA_BHSD, f->shape[0], f->shape[2], f->shape[1], f->shape[3]);
    return RA_OK;
}

/* Keys of one row that are read at a time and widened. */
enum { PIECE = 1024 };

static ra_status read_row(ra_bias_file *f, int64_t first, int64_t count, float *to)
{
    uint16_t halves[PIECE];
    if (f->dtype == RA_F32)
        return ra_array_read(f->array, first, count, to);
    ra_status status = RA_OK;
    for (int64_t done = 0; done < count && !status; done += PIECE) {
        int64_t now = ra_min(PIECE, count - done);
        status = ra_array_read(f->array, first + done, now, halves);
        for (int64_t i = 0; i < now && !status; i++)
            to[done + i] = f->dtype == RA_F16 ? ra_f16_to_f32(halves[i]) : ra_bf16_to_f32(halves[i]);
    }
    return status;
}

/* Keeps the calling thread's message if it is the first one. */
static void note_failure(ra_bias_file *f, ra_status status)
{
    pthread_mutex_lock(&f->lock);
    if (!f->failure) {
        f->failure = status;
        snprintf(f->message, sizeof f->message, "%s", ra_last_message());
    }
    pthread_mutex_unlock(&f->lock);
}

ra_status ra_bias_failed(ra_bias_file *f)
{
    pthread_mutex_lock(&f->lock);
    ra_status status = f->failure ? ra_fail(f->failure, "%s", f->message) : RA_OK;
    f->failure = RA_OK;
    pthread_mutex_unlock(&f->lock);
    return status;
}

void ra_bias_read(ra_bias_file *f, int64_t batch, int64_t head, int64_t first_query, int64_t queries, int64_t first_key,
                  int64_t keys, float *to, int64_t stride)
{
    const int64_t *shape = f->shape;
    int64_t slice = (shape[0] == 1 ? 0 : batch) * shape[1] + (shape[1] == 1 ? 0 : head);
    bool one = shape[2] == 1;
    for (int64_t i = 0; i < (one ? 1 : queries); i++) {
        int64_t row = slice * shape[2] + (one ? 0 : first_query + i);
        ra_status status = read_row(f, row * shape[3] + first_key, keys, to + i * stride);
        if (status)
            note_failure(f, status);
        for (int64_t k = 0; status && k < keys; k++)
            to[i * stride + k] = NAN;
    }
}
