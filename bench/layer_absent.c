/* SPDX-License-Identifier: Apache-2.0 */
/* A build without a BLAS has no layer. With one it is layer_suite.c. See bench.h. */
#include "bench.h"

#include <stdio.h>

const char *bench_layer_blas(void)
{
    return NULL;
}

int bench_layer_rank(const bench_options *options)
{
    return bench_layer(options);
}

int bench_layer(const bench_options *options)
{
    (void)options;
    fprintf(stderr, "ringattn bench: this ringattn was built without a BLAS, and has no layer\n");
    return 2;
}
