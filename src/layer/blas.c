/* SPDX-License-Identifier: Apache-2.0 */
/* Products by the CBLAS with one thread each, and the name of the library that computes them. See blas.h. */
#include "layer/blas.h"

#include <omp.h>
#include <pthread.h>
#include <ringattn/multihead.h>
#include <ringattn/transport.h>
#include <stdio.h>

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;     /* calls that are between begin and end */
static int64_t found; /* threads of the BLAS before the first of them */

static const ra_blas_library *library(void)
{
    const char *why;
    return ra_blas_library_find(&why);
}

ra_status ra_blas_check(void)
{
    const char *why;
    if (!ra_blas_library_find(&why))
        return ra_transport_fail(RA_ERROR_UNSUPPORTED, "the layer needs a BLAS: %s", why);
    return RA_OK;
}

static int64_t threads_of_blas(void)
{
    const ra_blas_library *blas = library();
    if (blas->openblas_threads && blas->openblas_set_threads)
        return blas->openblas_threads();
    if (blas->blis_threads && blas->blis_set_threads)
        return blas->blis_threads();
    return blas->mkl_threads && blas->mkl_set_threads ? blas->mkl_threads() : 1;
}

/* An OpenBLAS over OpenMP sets the calling thread's own number of threads, too, which is the program's. */
static void set_threads_of_blas(int64_t threads)
{
    const ra_blas_library *blas = library();
    int of_program = omp_get_max_threads();
    if (blas->openblas_threads && blas->openblas_set_threads)
        blas->openblas_set_threads((int)threads);
    else if (blas->blis_threads && blas->blis_set_threads)
        blas->blis_set_threads(threads);
    else if (blas->mkl_threads && blas->mkl_set_threads)
        blas->mkl_set_threads((int)threads);
    omp_set_num_threads(of_program);
}

void ra_blas_single_begin(void)
{
    pthread_mutex_lock(&lock);
    if (users++ == 0) {
        found = threads_of_blas();
        if (found != 1)
            set_threads_of_blas(1);
    }
    pthread_mutex_unlock(&lock);
}

void ra_blas_single_end(void)
{
    pthread_mutex_lock(&lock);
    if (--users == 0 && found != 1)
        set_threads_of_blas(found);
    pthread_mutex_unlock(&lock);
}

static double flops(int64_t m, int64_t n, int64_t k)
{
    return 2.0 * (double)m * (double)n * (double)k;
}

double ra_blas_rows_by_rows(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c)
{
    library()->sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)k, keep, c, (int)n);
    return flops(m, n, k);
}

double ra_blas_rows_by_columns(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c)
{
    library()->sgemm(ROW_MAJOR, AS_IS, AS_IS, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)n, keep, c, (int)n);
    return flops(m, n, k);
}

double ra_blas_columns_by_columns(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_stride, const float *b,
                                  int64_t b_stride, float *c, int64_t c_stride)
{
    library()->sgemm(ROW_MAJOR, TRANSPOSED, AS_IS, (int)m, (int)n, (int)k, 1, a, (int)a_stride, b, (int)b_stride, 0, c,
                     (int)c_stride);
    return flops(m, n, k);
}

const char *ra_layer_blas(void)
{
    static _Thread_local char name[192];
    const char *why;
    const ra_blas_library *blas = ra_blas_library_find(&why);
    if (!blas)
        return why;
    if (blas->openblas_config)
        return blas->openblas_config();
    if (blas->blis_version)
        snprintf(name, sizeof name, "BLIS %s", blas->blis_version());
    else
        snprintf(name, sizeof name, "%s", blas->mkl_threads ? "MKL" : "CBLAS");
    return name;
}
