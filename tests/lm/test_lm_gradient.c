/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradients of the whole model against finite differences of the oracle in double precision, on a tiny model of odd
 * sizes, on as many ranks as it is started with. Each rank differentiates some of the parameters.
 */
#include "lm.h"
#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lm_config CONFIG = {.context = 141,
                                 .layers = 2,
                                 .embed = 12,
                                 .heads = 2,
                                 .batch = 2,
                                 .steps = 10,
                                 .seed = 7,
                                 .rate = 1e-3,
                                 .pattern = "causal"};
enum { CONTEXT = 141, BATCH = 2, EVERY = 23 };

static void make_text(unsigned char *text)
{
    uint64_t draw = 1;
    for (int i = 0; i < BATCH * (CONTEXT + 1); i++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        text[i] = (unsigned char)(draw >> 33) % (i % 3 ? 256 : 5);
    }
}

static double mean_loss(const double *parameters, const unsigned char *text)
{
    const oracle_model model = {CONTEXT, CONFIG.layers, CONFIG.embed, CONFIG.heads};
    double sum = 0;
    for (int b = 0; b < BATCH; b++)
        sum += oracle_loss(&model, parameters, text + b * (CONTEXT + 1));
    return sum / (BATCH * CONTEXT);
}

/* Parameters between two that are differentiated: more where each one takes longer. */
static int64_t apart(void)
{
    return getenv("RINGATTN_SANITIZED") ? (int64_t)EVERY * 8 : EVERY;
}

/* The largest difference, relative to the largest gradient of the parameter's array. */
static double check(const lm_model *m, const unsigned char *text, double *p)
{
    const double step = 1e-5;
    double worst = 0;
    lm_tensor t;
    for (int64_t index = 0; lm_tensor_at(&m->config, index, &t); index++) {
        double largest = 0;
        for (int64_t i = t.first; i < t.first + t.count; i++)
            largest = fmax(largest, fabs((double)m->gradients[i]));
        for (int64_t i = t.first + m->world->rank * apart(); i < t.first + t.count; i += apart() * m->world->ranks) {
            double was = p[i];
            p[i] = was + step;
            double above = mean_loss(p, text);
            p[i] = was - step;
            double slope = (above - mean_loss(p, text)) / (2 * step);
            p[i] = was;
            worst = fmax(worst, fabs(slope - m->gradients[i]) / largest);
        }
    }
    return worst;
}

static int run(const lm_world *world, ra_order order, ra_strategy strategy)
{
    const lm_spread spread = {.order = order, .strategy = strategy, .threads = 2};
    unsigned char text[BATCH * (CONTEXT + 1)], bytes[BATCH * CONTEXT], next[BATCH * CONTEXT];
    int64_t count = lm_parameter_count(&CONFIG);
    double *p = calloc((size_t)count, sizeof *p), loss = 0;
    lm_model m;
    const char *wrong = lm_model_open(&m, &CONFIG, &spread, world, true);
    if (wrong || !p) {
        printf("rank %d: %s\n", world->rank, wrong ? wrong : "no memory");
        return 1;
    }
    make_text(text);
    lm_initialise(&CONFIG, m.parameters);
    for (int64_t i = 0; i < count; i++) {
        m.parameters[i] *= 1 + 0.1F * (float)(i % 7 - 3); /* norms are not all 1 */
        p[i] = m.parameters[i];
    }
    for (int64_t i = 0; i < BATCH * m.rows; i++) {
        int64_t at = i / m.rows * (CONTEXT + 1) + ra_layer_row(m.layer, i % m.rows);
        bytes[i] = text[at], next[i] = text[at + 1];
    }
    int failed = lm_backward(&m, bytes, next, &loss) != RA_OK;
    lm_world_sum(world, m.gradients, count);
    double expected = mean_loss(p, text), worst = check(&m, text, p);
    printf("rank %d of %d, %s, %s: loss %.9f, by definition %.9f; gradients differ by %.2g\n", world->rank,
           world->ranks, ra_order_name(order), ra_strategy_name(strategy), loss, expected, worst);
    failed |= !(fabs(loss - expected) < 1e-6 * expected) || !(worst < 2e-5);
    failed |= m.layer_peak > m.info.backward_bytes && m.layer_peak > m.info.training_bytes;
    lm_model_close(&m);
    free(p);
    return failed;
}

int main(int argc, char **argv)
{
    lm_world world;
    if (lm_world_open(&world, &argc, &argv))
        return 2;
    int failed = run(&world, RA_ORDER_ZIGZAG, RA_STRATEGY_RING);
    if (world.ranks > 1)
        failed |= run(&world, RA_ORDER_STRIPED, RA_STRATEGY_BROADCAST);
    lm_world_close(&world);
    return failed;
}
