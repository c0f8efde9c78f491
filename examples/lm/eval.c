/* SPDX-License-Identifier: Apache-2.0 */
/* lm eval: the loss of a model on a file, in sequences that do not overlap. What is left at the end is not scored. */
#include "lm.h"
#include "memory.h"

#include <stdio.h>

static int score(lm_model *model, const lm_data *data, unsigned char *bytes, unsigned char *next)
{
    const lm_world *world = model->world;
    int64_t context = model->config.context, sequences = 0;
    double sum = 0, loss = 0;
    for (int64_t start = 0; start + context < data->size; start += context, sequences++) {
        if (lm_world_sum_integer(world, !lm_data_read(data, model, start, bytes, next)))
            return lm_say(world, LM_WORK, "--data '%s': cannot be read any more", data->path);
        if (lm_forward(model, bytes, next, &loss)) {
            fprintf(stderr, "lm: rank %d: %s\n", world->rank, ra_last_message());
            lm_world_abort(world, LM_WORK);
        }
        sum += loss;
    }
    if (world->rank == 0)
        printf("%lld bytes: %.5f nats, %.5f bits a byte\n", (long long)(sequences * context), sum / (double)sequences,
               sum / (double)sequences / LM_LN2);
    return LM_OK;
}

int lm_eval(const lm_options *options, const lm_world *world)
{
    char why[512];
    lm_state state;
    lm_data data = {.file = -1};
    lm_model model = {0};
    unsigned char *bytes = NULL, *next = NULL;
    lm_found found = lm_checkpoint_read(options->checkpoint, &state, why, sizeof why);
    if (found != LM_FOUND)
        return lm_say(world, LM_USAGE, found == LM_BAD ? "%s" : "--checkpoint '%s': there is none",
                      found == LM_BAD ? why : options->checkpoint);
    lm_config config = state.config;
    config.batch = 1;
    if (options->context_given)
        config.context = options->config.context;
    const char *wrong = lm_data_open(&data, options->data, config.context);
    int code = wrong ? lm_say(world, LM_USAGE, "%s", wrong) : LM_OK;
    if (!code && (wrong = lm_model_open(&model, &config, &options->spread, world, false)))
        code = lm_say(world, LM_WORK, "%s", wrong);
    if (!code && !lm_checkpoint_load(options->checkpoint, &state, model.parameters, NULL, why, sizeof why))
        code = lm_say(world, LM_USAGE, "%s", why);
    if (!code) {
        bytes = lm_take(model.tokens, 1), next = lm_take(model.tokens, 1);
        code = bytes && next ? LM_OK : lm_say(world, LM_WORK, "no memory for %lld bytes", (long long)model.tokens);
    }
    code = lm_agree(world, code);
    if (!code)
        code = score(&model, &data, bytes, next);
    lm_give(bytes), lm_give(next);
    lm_model_close(&model);
    lm_data_close(&data);
    return code;
}
