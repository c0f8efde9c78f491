/*
 * The CBLAS. Only cblas_sgemm is needed, so it is declared here: headers of BLAS libraries have different names. What
 * sets the threads of a BLAS is weak: the library that is there at run time has one of these functions, or none.
 */
#include "layer/blas.h"

#include <omp.h>
#include <pthread.h>
#include <ringattn/multihead.h>
#include <stdio.h>

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };

void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                 int a_stride, const float *b, int b_stride, float beta, float *c, int c_stride);

__attribute__((weak)) int openblas_get_num_threads(void);
__attribute__((weak)) void openblas_set_num_threads(int threads);
__attribute__((weak)) char *openblas_get_config(void);
__attribute__((weak)) int64_t bli_thread_get_num_threads(void);
__attribute__((weak)) void bli_thread_set_num_threads(int64_t threads);
__attribute__((weak)) char *bli_info_get_version_str(void);
__attribute__((weak)) int MKL_Get_Max_Threads(void);
__attribute__((weak)) void MKL_Set_Num_Threads(int threads);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;     /* calls that are between begin and end */
static int64_t found; /* threads of the BLAS before the first of them */

static int64_t threads_of_blas(void)
{
    if (openblas_get_num_threads && openblas_set_num_threads)
        return openblas_get_num_threads();
    if (bli_thread_get_num_threads && bli_thread_set_num_threads)
        return bli_thread_get_num_threads();
    return MKL_Get_Max_Threads && MKL_Set_Num_Threads ? MKL_Get_Max_Threads() : 1;
}

/* An OpenBLAS over OpenMP sets the calling thread's own number of threads, too, which is the program's. */
static void set_threads_of_blas(int64_t threads)
{
    int of_program = omp_get_max_threads();
    if (openblas_get_num_threads && openblas_set_num_threads)
        openblas_set_num_threads((int)threads);
    else if (bli_thread_get_num_threads && bli_thread_set_num_threads)
        bli_thread_set_num_threads(threads);
    else if (MKL_Get_Max_Threads && MKL_Set_Num_Threads)
        MKL_Set_Num_Threads((int)threads);
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
    cblas_sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)k, keep, c, (int)n);
    return flops(m, n, k);
}

double ra_blas_rows_by_columns(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c)
{
    cblas_sgemm(ROW_MAJOR, AS_IS, AS_IS, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)n, keep, c, (int)n);
    return flops(m, n, k);
}

double ra_blas_columns_by_columns(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_stride, const float *b,
                                  int64_t b_stride, float *c, int64_t c_stride)
{
    cblas_sgemm(ROW_MAJOR, TRANSPOSED, AS_IS, (int)m, (int)n, (int)k, 1, a, (int)a_stride, b, (int)b_stride, 0, c,
                (int)c_stride);
    return flops(m, n, k);
}

const char *ra_layer_blas(void)
{
    static _Thread_local char name[64];
    if (openblas_get_config)
        return openblas_get_config();
    if (bli_info_get_version_str)
        snprintf(name, sizeof name, "BLIS %s", bli_info_get_version_str());
    else
        snprintf(name, sizeof name, "%s", MKL_Get_Max_Threads ? "MKL" : "CBLAS");
    return name;
}
