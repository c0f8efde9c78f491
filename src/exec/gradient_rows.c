/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a backward pass does row by row before and after its tiles: what the softmax of a query row takes off the
 * gradients of its weights (delta), and the rounding of float32 sums. See gradient.h.
 */
#include "exec/gradient.h"

#include "base/half.h"
#include "base/tensor.h"
#include "base/threads.h"

#include <fenv.h>
#include <omp.h>
#include <string.h>

enum { DIM_MOST = 1024, LANES = 8 };

/* Eight sums side by side, added up in pairs. */
static float dot(const float *a, const float *b, int64_t dim)
{
    float sums[LANES] = {0};
    int64_t d = 0;
    for (; d + LANES <= dim; d += LANES)
        for (int i = 0; i < LANES; i++)
            sums[i] += a[d + i] * b[d + i];
    for (int i = 0; d + i < dim; i++)
        sums[i] += a[d + i] * b[d + i];
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

void ra_gradient_delta(const ra_kernel *kernel, int threads, const ra_tensor *output, const ra_tensor *d_output,
                       const ra_tensor *d_lse, const ra_tensor *delta)
{
    int64_t rows = delta->batch * delta->seq * delta->heads;
    int dynamic = omp_get_dynamic();
    omp_set_dynamic(0);
#pragma omp parallel num_threads(ra_threads_most(threads))
    {
        float widened[2][DIM_MOST];
        fenv_t environment;
        fegetenv(&environment);
        fesetenv(FE_DFL_ENV);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            int64_t head = row % delta->heads, seq = row / delta->heads % delta->seq;
            int64_t batch = row / delta->heads / delta->seq;
            ra_rows o = ra_rows_at(output, batch, seq, head), d_o = ra_rows_at(d_output, batch, seq, head);
            kernel->pack_rows(&o, 1, (int)output->dim, widened[0]);
            kernel->pack_rows(&d_o, 1, (int)output->dim, widened[1]);
            float value = dot(widened[0], widened[1], output->dim);
            if (d_lse)
                value -= (float)ra_tensor_get(d_lse, batch, seq, head, 0);
            ra_tensor_set(delta, batch, seq, head, 0, value);
        }
        fesetenv(&environment);
    }
    omp_set_dynamic(dynamic);
}

static void round_row(const float *from, int64_t from_stride, const ra_tensor *to, void *row)
{
    int64_t stride = to->dim_stride;
    switch (to->dtype) {
    case RA_F16:
        for (int64_t d = 0; d < to->dim; d++)
            ((uint16_t *)row)[d * stride] = ra_f32_to_f16(from[d * from_stride]);
        break;
    case RA_BF16:
        for (int64_t d = 0; d < to->dim; d++)
            ((uint16_t *)row)[d * stride] = ra_f32_to_bf16(from[d * from_stride]);
        break;
    default:
        for (int64_t d = 0; d < to->dim; d++)
            ((float *)row)[d * stride] = from[d * from_stride];
        break;
    }
}

void ra_gradient_round(const ra_tensor *sums, int64_t from_batch, int64_t from_head, const ra_tensor *to, int64_t batch,
                       int64_t head, int64_t heads)
{
    for (int64_t seq = 0; seq < to->seq; seq++)
        for (int64_t h = 0; h < heads; h++)
            round_row(ra_tensor_at(sums, from_batch, seq, from_head + h, 0), sums->dim_stride, to,
                      (void *)ra_tensor_at(to, batch, seq, head + h, 0));
}
