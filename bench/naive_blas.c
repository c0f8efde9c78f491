/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as two matrix products of OpenBLAS, which is loaded with dlopen. See naive_blas.h. */
#include "naive_blas.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the C interface to BLAS. */
enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

/* A function of a library, in C's own way round: a pointer to data is not one to a function. */
static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found;
}

bool naive_blas_open(naive_blas *blas, char why[256])
{
    *blas = (naive_blas){.library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL)};
    if (!blas->library)
        snprintf(why, 256, "there is no libopenblas.so.0 here (Debian: libopenblas0-pthread)");
    else if (!find(blas->library, "cblas_sgemm", &blas->product) ||
             !find(blas->library, "openblas_set_num_threads", &blas->set_threads))
        snprintf(why, 256, "this libopenblas.so.0 has no cblas_sgemm");
    else
        return true;
    naive_blas_close(blas);
    return false;
}

bool naive_blas_reserve(naive_blas *blas, const bench_shape *shape)
{
    int64_t bytes = shape->heads * shape->q_len * shape->kv_len * (int64_t)sizeof *blas->scores;
    if (bytes <= blas->bytes)
        return true;
    free(blas->scores);
    blas->scores = malloc((size_t)bytes);
    blas->bytes = blas->scores ? bytes : 0;
    return blas->scores;
}

/* exp(x) for x <= 0, to about 1e-7 of itself: 2^n by its bits, and a polynomial that a compiler can put in vectors. */
static inline float exponential(float x)
{
    x = x > -87.0F ? x : -87.0F;
    float n = (float)(int)(x * 1.44269504F - 0.5F), r = x - n * 0.693359375F + n * 2.12194440e-4F;
    float p =
        1.0F +
        r * (1.0F + r * (0.5F + r * (1.66666667e-1F + r * (4.16666667e-2F + r * (8.33333e-3F + r * 1.38889e-3F)))));
    int32_t bits = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* A row of scores becomes its weights; those beyond `seen` become 0. */
static void soften(float *scores, int64_t seen, int64_t length)
{
    float most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < seen; i++)
        most = scores[i] > most ? scores[i] : most;
    for (int64_t i = 0; i < seen; i++)
        scores[i] = exponential(scores[i] - most);
    for (int64_t i = 0; i < seen; i++)
        sum += scores[i];
    for (int64_t i = 0; i < seen; i++)
        scores[i] /= sum;
    memset(scores + seen, 0, (size_t)(length - seen) * sizeof *scores);
}

/* Where a head of a float32 tensor begins. */
static float *head_of(const ra_tensor *t, int64_t batch, int64_t head)
{
    return (float *)t->data + batch * t->batch_stride + head * t->head_stride;
}

void naive_blas_attention(const naive_blas *blas, const bench_tensors *t, bool causal, int threads)
{
    int64_t length = t->q.seq, heads = t->q.heads, dim = t->q.dim, stride = heads * dim;
    float scale = (float)(1 / sqrt((double)dim));
    blas->set_threads(threads);
    for (int64_t batch = 0; batch < t->q.batch; batch++) {
        for (int64_t head = 0; head < heads; head++)
            blas->product(ROW_MAJOR, PLAIN, TRANSPOSED, (int)length, (int)length, (int)dim, scale,
                          head_of(&t->q, batch, head), (int)stride, head_of(&t->k, batch, head), (int)stride, 0,
                          blas->scores + head * length * length, (int)length);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t row = 0; row < heads * length; row++)
            soften(blas->scores + row * length, causal ? row % length + 1 : length, length);
        for (int64_t head = 0; head < heads; head++)
            blas->product(ROW_MAJOR, PLAIN, PLAIN, (int)length, (int)dim, (int)length, 1,
                          blas->scores + head * length * length, (int)length, head_of(&t->v, batch, head), (int)stride,
                          0, head_of(&t->output, batch, head), (int)stride);
    }
}

void naive_blas_close(naive_blas *blas)
{
    free(blas->scores);
    if (blas->library)
        dlclose(blas->library);
    *blas = (naive_blas){0};
}
