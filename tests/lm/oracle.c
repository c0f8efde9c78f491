/* SPDX-License-Identifier: Apache-2.0 */
/* Token after token, head after head: x is [context, embed]; attention is causal with rotary positions of base 10000.
 */
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, WIDER = 4 };

/* out = weight [outputs, inputs] in */
static void apply(const double *weight, int64_t outputs, int64_t inputs, const double *in, double *out)
{
    for (int64_t i = 0; i < outputs; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < inputs; j++)
            out[i] += weight[i * inputs + j] * in[j];
    }
}

static void norm(int64_t width, const double *x, const double *weight, double *out)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
        sum += x[i] * x[i];
    for (int64_t i = 0; i < width; i++)
        out[i] = x[i] / sqrt(sum / (double)width + 1e-5) * weight[i];
}

static void rotate(int64_t dim, int64_t position, double *head)
{
    for (int64_t i = 0; i < dim / 2; i++) {
        double angle = (double)position * pow(10000, -2.0 * (double)i / (double)dim);
        double a = head[i], b = head[i + dim / 2];
        head[i] = a * cos(angle) - b * sin(angle);
        head[i + dim / 2] = b * cos(angle) + a * sin(angle);
    }
}

/* One head of one query over the keys up to its own; rows are `embed` apart. */
static void attend(int64_t embed, int64_t dim, int64_t query, const double *q, const double *k, const double *v,
                   double *out)
{
    double most = -INFINITY, total = 0;
    memset(out, 0, (size_t)dim * sizeof(double));
    for (int pass = 0; pass < 2; pass++)
        for (int64_t key = 0; key <= query; key++) {
            double score = 0;
            for (int64_t i = 0; i < dim; i++)
                score += q[query * embed + i] * k[key * embed + i];
            score /= sqrt((double)dim);
            if (pass == 0) {
                most = fmax(most, score);
                continue;
            }
            total += exp(score - most);
            for (int64_t i = 0; i < dim; i++)
                out[i] += exp(score - most) * v[key * embed + i];
        }
    for (int64_t i = 0; i < dim; i++)
        out[i] /= total;
}

/* Parameters of a block: norm, w_q, w_k, w_v, w_o, norm, w_up, w_down. `room` has 3 * context * embed + 6 * embed. */
static void run_block(const oracle_model *m, const double *p, double *x, double *room)
{
    int64_t n = m->context, e = m->embed, dim = e / m->heads, square = e * e;
    double *q = room, *k = q + n * e, *v = k + n * e, *normed = v + n * e, *hidden = normed + e, *sum = hidden + 4 * e;
    const double *w = p + e, *after = w + 4 * square;
    for (int64_t t = 0; t < n; t++) {
        norm(e, x + t * e, p, normed);
        apply(w, e, e, normed, q + t * e);
        apply(w + square, e, e, normed, k + t * e);
        apply(w + 2 * square, e, e, normed, v + t * e);
        for (int64_t h = 0; h < m->heads; h++) {
            rotate(dim, t, q + t * e + h * dim);
            rotate(dim, t, k + t * e + h * dim);
        }
    }
    for (int64_t t = 0; t < n; t++) {
        for (int64_t h = 0; h < m->heads; h++)
            attend(e, dim, t, q + h * dim, k + h * dim, v + h * dim, normed + h * dim);
        apply(w + 3 * square, e, e, normed, sum);
        for (int64_t i = 0; i < e; i++)
            x[t * e + i] += sum[i];
        norm(e, x + t * e, after, normed);
        apply(after + e, WIDER * e, e, normed, hidden);
        for (int64_t i = 0; i < WIDER * e; i++)
            hidden[i] = hidden[i] > 0 ? hidden[i] * hidden[i] : 0;
        apply(after + e + WIDER * square, e, WIDER * e, hidden, sum);
        for (int64_t i = 0; i < e; i++)
            x[t * e + i] += sum[i];
    }
}

double oracle_loss(const oracle_model *m, const double *p, const unsigned char *bytes)
{
    int64_t n = m->context, e = m->embed, block = 2 * e + (4 + 2 * WIDER) * e * e;
    double *x = malloc((size_t)(4 * n * e + 6 * e + BYTES) * sizeof(double)), loss = 0;
    if (!x)
        return NAN;
    double *room = x + n * e, *normed = room, *logits = room + 3 * n * e + 6 * e;
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < e; i++)
            x[t * e + i] = sqrt((double)e) * p[bytes[t] * e + i];
    for (int64_t l = 0; l < m->layers; l++)
        run_block(m, p + BYTES * e + l * block, x, room);
    for (int64_t t = 0; t < n; t++) {
        double sum = 0;
        norm(e, x + t * e, p + BYTES * e + m->layers * block, normed);
        apply(p, BYTES, e, normed, logits);
        for (int64_t i = 0; i < BYTES; i++)
            sum += exp(logits[i]);
        loss += log(sum) - logits[bytes[t + 1]];
    }
    free(x);
    return loss;
}
