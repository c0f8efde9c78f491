/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle. */
#ifndef RA_EXEC_REFERENCE_H
#define RA_EXEC_REFERENCE_H

#include "plan/plan.h"

/* One row in double precision, by the definition; the arguments have been checked. */
ra_status ra_reference_compute(const ra_plan *plan, const ra_tensor *q, const ra_cache *cache, int64_t batch,
                               int64_t head, int64_t query, double *output, double *lse);

#endif
