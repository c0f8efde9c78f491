/* SPDX-License-Identifier: Apache-2.0 */
/* The naive layer: loops over tokens, heads and elements, nothing shared with the library. */
#include "oracle.h"

#include <math.h>
#include <stdlib.h>

void oracle_count(oracle *s)
{
    const ra_layer_options *o = &s->o;
    int64_t q = o->heads * o->head_dim, k = o->kv_heads * o->head_dim, e = o->embed;
    int64_t in = o->input_bias, rms = o->query_key_norm ? o->head_dim : 0, ln = o->output_norm ? q : 0;
    int64_t counts[ORACLE_PARTS] = {q * e,
                                    k * e,
                                    k * e,
                                    e * q,
                                    in * q,
                                    in * k,
                                    in * k,
                                    o->output_bias * e,
                                    rms,
                                    rms,
                                    ln,
                                    ln,
                                    o->batch * o->rows * e,
                                    s->scored ? o->heads : 0,
                                    s->scored ? o->heads : 0,
                                    s->scored ? o->rows * o->rows : 0};
    for (int i = 0; i < ORACLE_PARTS; i++)
        s->count[i] = counts[i];
}

static double dot(int64_t n, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* A linear map of one token. */
static void linear(const oracle *s, int weight, int64_t outputs, int64_t inputs, const double *in, double *out)
{
    for (int64_t i = 0; i < outputs; i++)
        out[i] = dot(inputs, in, s->part[weight] + i * inputs) + (s->count[weight + 4] ? s->part[weight + 4][i] : 0);
}

static void finish(const oracle *s, int norm, int64_t heads, int64_t position, double *row)
{
    int64_t dim = s->o.head_dim;
    for (int64_t h = 0; h < heads; h++, row += dim) {
        if (s->o.query_key_norm) {
            double rms = sqrt(dot(dim, row, row) / (double)dim + s->o.norm_epsilon);
            for (int64_t i = 0; i < dim; i++)
                row[i] = row[i] / rms * s->part[norm][i];
        }
        for (int64_t i = 0; s->o.rotary_base > 0 && i < dim / 2; i++) {
            double angle = (double)position / s->o.rotary_scale * pow(s->o.rotary_base, -2.0 * (double)i / (double)dim);
            double *a = row + (s->o.rotary_interleaved ? 2 * i : i), *b = s->o.rotary_interleaved ? a + 1 : a + dim / 2;
            double turned = *a * cos(angle) - *b * sin(angle);
            *b = *a * sin(angle) + *b * cos(angle);
            *a = turned;
        }
    }
}

static double score(const oracle *s, int64_t head, int64_t row, int64_t key, double product)
{
    if (!s->scored)
        return product;
    double capped = 3 * tanh(product / 3), apart = fabs((double)(row - key));
    return capped - s->part[ORACLE_SLOPES][head] * apart + s->part[ORACLE_BIAS][row * s->o.rows + key];
}

static int times_seen(const oracle *s, int64_t head, int64_t row, int64_t key)
{
    uint8_t count = 0;
    if (!s->plan)
        return !s->causal || key <= row;
    ra_plan_visible(s->plan, head, row, key, 1, &count);
    return count;
}

static void attend(const oracle *s, int64_t head, int64_t row, const double *q, const double *k, const double *v,
                   double *out)
{
    int64_t dim = s->o.head_dim, width = s->o.kv_heads * dim, keys = s->o.rows;
    double total = s->scored ? exp(s->part[ORACLE_SINKS][head]) : 0;
    for (int64_t i = 0; i < dim; i++)
        out[i] = 0;
    for (int64_t j = 0; j < keys; j++) {
        int times = times_seen(s, head, row, j);
        double product = times ? dot(dim, q, k + j * width) / sqrt((double)dim) : 0;
        double weight = times ? times * exp(score(s, head, row, j, product)) : 0;
        total += weight;
        for (int64_t i = 0; i < dim; i++)
            out[i] += weight * v[j * width + i];
    }
    for (int64_t i = 0; i < dim; i++)
        out[i] = total > 0 ? out[i] / total : 0;
}

static void norm_output(const oracle *s, int64_t width, double *row)
{
    double mean = 0, square = 0;
    for (int64_t i = 0; i < width; i++)
        mean += row[i] / (double)width;
    for (int64_t i = 0; i < width; i++)
        square += (row[i] - mean) * (row[i] - mean) / (double)width;
    for (int64_t i = 0; i < width; i++)
        row[i] = (row[i] - mean) / sqrt(square + s->o.norm_epsilon) * s->part[10][i] + s->part[11][i];
}

void oracle_forward(const oracle *s, double *y)
{
    const ra_layer_options *o = &s->o;
    int64_t dim = o->head_dim, qw = o->heads * dim, kw = o->kv_heads * dim, n = o->batch * o->rows;
    double *q = malloc((size_t)(n * (2 * qw + 2 * kw) + 1) * sizeof(double));
    double *k = q + n * qw, *v = k + n * kw, *a = v + n * kw;
    for (int64_t t = 0; t < n; t++) {
        const double *x = s->part[ORACLE_X] + t * o->embed;
        linear(s, 0, qw, o->embed, x, q + t * qw);
        linear(s, 1, kw, o->embed, x, k + t * kw);
        linear(s, 2, kw, o->embed, x, v + t * kw);
        finish(s, 8, o->heads, o->first_position + t % o->rows, q + t * qw);
        finish(s, 9, o->kv_heads, o->first_position + t % o->rows, k + t * kw);
    }
    for (int64_t t = 0; t < n; t++) {
        int64_t begin = t / o->rows * o->rows;
        for (int64_t h = 0; h < o->heads; h++) {
            int64_t at = begin * kw + h / (o->heads / o->kv_heads) * dim;
            attend(s, h, t - begin, q + t * qw + h * dim, k + at, v + at, a + t * qw + h * dim);
        }
        if (o->output_norm)
            norm_output(s, qw, a + t * qw);
        linear(s, 3, o->embed, qw, a + t * qw, y + t * o->embed);
    }
    free(q);
}
