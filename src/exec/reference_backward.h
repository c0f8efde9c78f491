/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of the backward pass. */
#ifndef RA_EXEC_REFERENCE_BACKWARD_H
#define RA_EXEC_REFERENCE_BACKWARD_H

#include "plan/plan.h"

/*
 * Whole gradients in double precision, by the definition; the arguments have been checked. d_lse may be NULL. d_q, d_k
 * and d_v are dense [batch, seq, heads, dim]; NULL: not wanted.
 */
ra_status ra_reference_gradients(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                                 const ra_tensor *d_output, const ra_tensor *d_lse, double *d_q, double *d_k,
                                 double *d_v);

#endif
