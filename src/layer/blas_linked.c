/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BLAS that the library is linked with. It is declared here: headers of BLAS libraries have different names. What
 * sets the threads of a BLAS is weak: the library that is there at run time has one of these functions, or none.
 */
#include "layer/blas.h"

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

const ra_blas_library *ra_blas_library_find(const char **why)
{
    static const ra_blas_library linked = {cblas_sgemm,
                                           openblas_get_num_threads,
                                           openblas_set_num_threads,
                                           openblas_get_config,
                                           bli_thread_get_num_threads,
                                           bli_thread_set_num_threads,
                                           bli_info_get_version_str,
                                           MKL_Get_Max_Threads,
                                           MKL_Set_Num_Threads};
    *why = NULL;
    return &linked;
}
