/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that outputs share no memory with arrays of the pattern. See arrays.h. */
#include "plan/arrays.h"

#include "base/overlap.h"

ra_status ra_pattern_check_apart(const ra_pattern *p, const ra_tensor *const tensors[], const char *const names[],
                                 int inputs, int count)
{
    enum { ARRAYS = 3, MOST = 32 };
    const ra_tensor *all[MOST] = {p->mask && p->mask->array.data ? &p->mask->array : NULL,
                                  p->lengths && p->lengths->array.data ? &p->lengths->array : NULL,
                                  p->ragged && p->ragged->array.data ? &p->ragged->array : NULL};
    const char *all_names[MOST] = {"mask", "lengths", "documents"};
    if (!all[0] && !all[1] && !all[2])
        return RA_OK;
    for (int i = inputs; i < count; i++) {
        all[ARRAYS + i - inputs] = tensors[i];
        all_names[ARRAYS + i - inputs] = names[i];
    }
    return ra_check_apart(all, all_names, ARRAYS, ARRAYS + count - inputs);
}
