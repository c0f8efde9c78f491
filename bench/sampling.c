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
    return values[(int)(fraction * (count - 1))];
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

sampling_result sampling_of(const samples *s, probe_reading best)
{
    sampling_result result = {0, 0, 0, 0, s->count};
    for (int i = 0; i < s->count; i++)
        result.quiet += quiet(&s->at[i], best);
    double values[SAMPLING_MOST], ratios[SAMPLING_MOST], products[SAMPLING_MOST];
    int n = 0;
    for (int i = 0; i < s->count; i++)
        if (result.quiet == 0 || quiet(&s->at[i], best)) {
            double peak = fmax(s->at[i].before.fma, s->at[i].after.fma);
            values[n] = s->at[i].value;
            ratios[n] = s->at[i].value / peak;
            products[n++] = (s->at[i].before.gemm + s->at[i].after.gemm) / 2 / peak;
        }
    result.value = sampling_median(values, n);
    result.ratio = sampling_median(ratios, n);
    result.product = sampling_median(products, n);
    return result;
}

sampling_relation sampling_against(const samples *s, const samples *base, probe_reading best)
{
    sampling_relation result = {0, 0, 0, 0, s->count < base->count ? s->count : base->count};
    for (int i = 0; i < result.count; i++)
        result.quiet += quiet(&s->at[i], best) && quiet(&base->at[i], best);
    double values[SAMPLING_MOST], bases[SAMPLING_MOST], ratios[SAMPLING_MOST];
    int n = 0;
    for (int i = 0; i < result.count; i++)
        if (result.quiet == 0 || (quiet(&s->at[i], best) && quiet(&base->at[i], best))) {
            values[n] = s->at[i].value;
            bases[n] = base->at[i].value;
            ratios[n++] = s->at[i].value / base->at[i].value;
        }
    result.value = sampling_median(values, n);
    result.base = sampling_median(bases, n);
    result.ratio = sampling_median(ratios, n);
    return result;
}

ra_status sampling_take(samples *taken, ra_kernel_id kernel, int threads, sampling_work work, void *user)
{
    sample *s = &taken->at[taken->count++];
    double seconds;
    s->before = probe_now(kernel, threads);
    double processor = probe_processor_seconds(), start = probe_seconds();
    ra_status status = work(user, &seconds);
    if (status)
        return status;
    s->share = (probe_processor_seconds() - processor) / ((probe_seconds() - start) * threads);
    s->value = 1 / seconds;
    s->after = probe_now(kernel, threads);
    return RA_OK;
}
