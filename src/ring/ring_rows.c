/* SPDX-License-Identifier: Apache-2.0 */
/* Rows between a whole tensor and a rank's part of it: see ring_rows.h. */
#include "ring/ring_rows.h"

#include "base/tensor.h"

#include <string.h>

static void move_row(const ra_tensor *whole, int64_t there, const ra_tensor *part, int64_t here, bool split)
{
    size_t size = ra_dtype_size(whole->dtype);
    for (int64_t batch = 0; batch < whole->batch; batch++)
        for (int64_t head = 0; head < whole->heads; head++)
            for (int64_t d = 0; d < whole->dim; d++) {
                char *outside = (char *)ra_tensor_at(whole, batch, there, head, d);
                char *inside = (char *)ra_tensor_at(part, batch, here, head, d);
                memcpy(split ? inside : outside, split ? outside : inside, size);
            }
}

void ra_ring_move_rows(const ra_share *share, const ra_tensor *whole, const ra_tensor *part, bool split)
{
    for (int64_t i = 0; i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        for (int64_t row = 0; row < range.end - range.first; row++)
            move_row(whole, range.first + row, part, range.row + row, split);
    }
}
