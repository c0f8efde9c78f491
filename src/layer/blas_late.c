/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BLAS of the command: loaded when a layer is made or asked for, by the name RA_BLAS_LATE that it had when the
 * command was built. Verbs without a layer start no threads of a BLAS, and run where there is none.
 */
#include "layer/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static ra_blas_library found;
static char failure[192];

/* A function of a library, in C's own way round: a pointer to data is not one to a function. */
static void find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
}

static void load(void)
{
    void *library = dlopen(RA_BLAS_LATE, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(failure, sizeof failure, "%s cannot be loaded", RA_BLAS_LATE);
        return;
    }
    find(library, "cblas_sgemm", &found.sgemm);
    find(library, "openblas_get_num_threads", &found.openblas_threads);
    find(library, "openblas_set_num_threads", &found.openblas_set_threads);
    find(library, "openblas_get_config", &found.openblas_config);
    find(library, "bli_thread_get_num_threads", &found.blis_threads);
    find(library, "bli_thread_set_num_threads", &found.blis_set_threads);
    find(library, "bli_info_get_version_str", &found.blis_version);
    find(library, "MKL_Get_Max_Threads", &found.mkl_threads);
    find(library, "MKL_Set_Num_Threads", &found.mkl_set_threads);
    if (!found.sgemm)
        snprintf(failure, sizeof failure, "%s has no cblas_sgemm", RA_BLAS_LATE);
}

const ra_blas_library *ra_blas_library_find(const char **why)
{
    pthread_once(&once, load);
    *why = failure;
    return found.sgemm ? &found : NULL;
}
