/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes samples between readings of the probes; medians, quartiles and ratios of samples. Which case is next:
 * harness.c. See sampling.h.
 */
#include "sampling.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sampling_median(double *values, int count)
{
    if (count == 0)
        return 0;
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double sampling_quantile(double *values, int count, double fraction)
{
    if (count == 0)
        return 0;
    qsort(values, (size_t)count, sizeof *values, ascending);
    double place = fraction * (count - 1);
    int below = (int)place, above = below + 1 < count ? below + 1 : below;
    return values[below] + (place - below) * (values[above] - values[below]);
}

int sampling_readings(const samples *s, double *readings)
{
    for (int i = 0; i < s->count; i++) {
        readings[2 * i] = s->at[i].before.gemm;
        readings[2 * i + 1] = s->at[i].after.gemm;
    }
    return 2 * s->count;
}

probe_reading sampling_undisturbed(double *readings, int count)
{
    return (probe_reading){0, sampling_quantile(readings, count, 0.9)};
}

static bool quiet(const sample *s, probe_reading best)
{
    const double enough = 0.95;
    return s->share >= enough && s->before.gemm >= enough * best.gemm && s->after.gemm >= enough * best.gemm;
}

double sampling_spread(const samples *s)
{
    double seconds[SAMPLING_MOST];
    if (s->count < 3)
        return INFINITY;
    for (int i = 0; i < s->count; i++)
        seconds[i] = s->at[i].seconds;
    double median = sampling_median(seconds, s->count);
    return (sampling_quantile(seconds, s->count, 0.75) - sampling_quantile(seconds, s->count, 0.25)) / median;
}

sampling_result sampling_of(const samples *s, probe_reading best)
{
    sampling_result result = {.count = s->count};
    for (int i = 0; i < s->count; i++)
        result.quiet += quiet(&s->at[i], best);
    double values[SAMPLING_MOST], ratios[SAMPLING_MOST], products[SAMPLING_MOST];
    double seconds[SAMPLING_MOST], peaks[SAMPLING_MOST];
    int n = 0;
    for (int i = 0; i < s->count; i++)
        if (result.quiet == 0 || quiet(&s->at[i], best)) {
            const sample *one = &s->at[i];
            double peak = fmax(one->before.fma, one->after.fma);
            values[n] = one->value;
            seconds[n] = one->seconds;
            peaks[n] = peak;
            ratios[n] = one->value / (one->yard > 0 ? one->yard : peak);
            products[n++] = (one->before.gemm + one->after.gemm) / 2 / peak;
        }
    result.value = sampling_median(values, n);
    result.ratio = sampling_median(ratios, n);
    result.product = sampling_median(products, n);
    result.peak = sampling_median(peaks, n);
    result.seconds = sampling_median(seconds, n);
    result.low = sampling_quantile(seconds, n, 0.25);
    result.high = sampling_quantile(seconds, n, 0.75);
    return result;
}

sampling_relation sampling_against(const samples *s, const samples *base, probe_reading best)
{
    sampling_relation result = {0, 0, 0, 0, s->count < base->count ? s->count : base->count};
    for (int i = 0; i < result.count; i++)
        result.quiet += quiet(&s->at[i], best) && quiet(&base->at[i], best);
    double seconds[SAMPLING_MOST], bases[SAMPLING_MOST], ratios[SAMPLING_MOST];
    int n = 0;
    for (int i = 0; i < result.count; i++)
        if (result.quiet == 0 || (quiet(&s->at[i], best) && quiet(&base->at[i], best))) {
            seconds[n] = s->at[i].seconds;
            bases[n] = base->at[i].seconds;
            ratios[n++] = s->at[i].seconds / base->at[i].seconds;
        }
    result.seconds = sampling_median(seconds, n);
    result.base = sampling_median(bases, n);
    result.ratio = sampling_median(ratios, n);
    return result;
}

ra_status sampling_take(samples *taken, ra_kernel_id kernel, int threads, sampling_work work, void *user)
{
    sample *s = &taken->at[taken->count];
    *s = (sample){.share = -1, .before = probe_now(kernel, threads)};
    double processor = probe_processor_seconds(), start = probe_seconds();
    ra_status status = work(user, s);
    if (status)
        return status;
    if (s->share < 0)
        s->share = (probe_processor_seconds() - processor) / ((probe_seconds() - start) * threads);
    if (s->value == 0)
        s->value = 1 / s->seconds;
    s->after = probe_now(kernel, threads);
    taken->count++;
    return RA_OK;
}
