/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether views share memory, exactly: two of them with each other, or the elements of one with each other. Views that
 * lie between each other, such as every second head of one array, may share none.
 */
#ifndef RA_BASE_OVERLAP_H
#define RA_BASE_OVERLAP_H

#include "base/status.h"

typedef enum ra_overlap {
    RA_APART,
    RA_OVERLAPPING,
    RA_TANGLED /* strides so entangled that the search was given up */
} ra_overlap;

/*
 * Views of any dtypes and strides that ra_tensor_check accepts; without elements they are apart. Views whose bytes lie
 * in ranges of their own are told apart at once. Otherwise the search looks at one or two values for each dimension
 * where strides are nested, as those of slices of dense arrays are. Others may take it up to a million values (a few
 * milliseconds), after which it is given up.
 */
ra_overlap ra_tensors_overlap(const ra_tensor *a, const ra_tensor *b);

/* Whether two different indices of a view lead to the same element. */
ra_overlap ra_tensor_overlaps_itself(const ra_tensor *tensor);

/*
 * The tensors of a run: the first `inputs` of them are read and the others written; a NULL one is not there. RA_OK if
 * none that is written shares memory with itself or with another one.
 */
ra_status ra_check_apart(const ra_tensor *const tensors[], const char *const names[], int inputs, int count);

#endif
