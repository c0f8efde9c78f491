/* SPDX-License-Identifier: Apache-2.0 */
/* lm train: from a checkpoint if there is one, step by step, with a line of the log for each. */
#include "lm.h"
#include "memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct training {
    const lm_options *options;
    const lm_world *world;
    lm_data data;
    lm_model model;
    lm_adam adam;
    lm_state state;
    lm_log log;
    lm_rank_line *ranks; /* of all, for the log */
    unsigned char *bytes, *next;
    double began, saved_at, save_seconds; /* the run; the last save: when, and how long it took */
    int save_error;                       /* of the last save: an errno */
    int64_t began_at;                     /* the step */
    bool shown;                           /* progress, on a terminal */
} training;

/* Saving takes at most this part of the time. */
static const double SAVING_SHARE = 0.05;

/* ---- Before the first step ----------------------------------------------------------------------------------------
 */

static bool same_file(const char *a, const char *b)
{
    struct stat one, other;
    return a && b &&
           (strcmp(a, b) == 0 ||
            (stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino));
}

/* What is written to one file must not take the place of another. */
static int check_files(const lm_options *o, const lm_world *world)
{
    const struct {
        const char *name, *path, *other_name, *other;
    } pairs[] = {{"log", o->log, "data", o->data},
                 {"checkpoint", o->checkpoint, "data", o->data},
                 {"log", o->log, "checkpoint", o->checkpoint}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (same_file(pairs[i].path, pairs[i].other))
            return lm_say(world, LM_USAGE, "--%s '%s': is the file of --%s", pairs[i].name, pairs[i].path,
                          pairs[i].other_name);
    return LM_OK;
}

static int refuse_memory(const lm_options *o, const lm_world *world, int64_t planned)
{
    enum { MOST_RANKS = 4096 };
    const double MIB = 1 << 20;
    bool fits = lm_least_bytes(&o->config) <= o->memory;
    int below = world->ranks, above = world->ranks;
    while (fits && above < MOST_RANKS && lm_planned_bytes(&o->config, &o->spread, above, true) > o->memory)
        below = above, above = 2 * above < MOST_RANKS ? 2 * above : MOST_RANKS;
    fits = fits && lm_planned_bytes(&o->config, &o->spread, above, true) <= o->memory;
    while (fits && above - below > 1) {
        int middle = below + (above - below) / 2;
        if (lm_planned_bytes(&o->config, &o->spread, middle, true) <= o->memory)
            above = middle;
        else
            below = middle;
    }
    if (fits)
        return lm_say(world, LM_USAGE, "a rank of %d needs %.1f MiB, and --memory allows %.1f MiB: %d ranks fit",
                      world->ranks, (double)planned / MIB, (double)o->memory / MIB, above);
    return lm_say(world, LM_USAGE,
                  "a rank of %d needs %.1f MiB, and --memory allows %.1f MiB: up to %d ranks none fits; take a smaller "
                  "model or a shorter --context",
                  world->ranks, (double)planned / MIB, (double)o->memory / MIB, MOST_RANKS);
}

static int check_memory(const lm_options *o, const lm_world *world)
{
    int64_t planned = lm_planned_bytes(&o->config, &o->spread, world->ranks, true);
    if (!planned)
        return lm_say(world, LM_USAGE, "%s", ra_last_message());
    return o->memory && planned > o->memory ? refuse_memory(o, world, planned) : LM_OK;
}

static int take_memory(training *t)
{
    const lm_config *c = &t->options->config;
    const char *wrong = lm_model_open(&t->model, c, &t->options->spread, t->world, true);
    if (wrong)
        return lm_say(t->world, LM_WORK, "%s", wrong);
    t->adam.mean = lm_take(lm_parameter_count(c), sizeof(float));
    t->adam.square = lm_take(lm_parameter_count(c), sizeof(float));
    t->bytes = lm_take(t->model.tokens, 1);
    t->next = lm_take(t->model.tokens, 1);
    t->ranks = calloc((size_t)t->world->ranks, sizeof *t->ranks);
    if (!t->adam.mean || !t->adam.square || !t->bytes || !t->next || !t->ranks)
        return lm_say(t->world, LM_WORK, "no memory for the model: take more ranks, or a shorter --context");
    return LM_OK;
}

/* From the checkpoint, or from the beginning. All ranks read it. */
static int go_on(training *t)
{
    const char *path = t->options->checkpoint;
    char why[512], text[256];
    lm_state now = {.config = t->options->config, .data = t->data.sum, .data_size = t->data.size}, saved;
    t->state = now;
    lm_found found = path ? lm_checkpoint_read(path, &saved, why, sizeof why) : LM_NONE;
    if (found == LM_BAD)
        return lm_say(t->world, LM_USAGE, "%s", why);
    if (found == LM_NONE) {
        lm_initialise(&t->state.config, t->model.parameters);
        return LM_OK;
    }
    if (lm_state_differs(&saved, &now, text, sizeof text))
        return lm_say(t->world, LM_USAGE, "--checkpoint '%s': is of another training: %s", path, text);
    if (!lm_checkpoint_load(path, &saved, t->model.parameters, &t->adam, why, sizeof why))
        return lm_say(t->world, LM_USAGE, "%s", why);
    t->state = saved;
    return lm_say(t->world, LM_OK, "goes on after step %lld of %lld", (long long)saved.step,
                  (long long)now.config.steps);
}

/* Rank 0 writes. A first line says what is trained. */
static int begin_log(training *t)
{
    char line[1024];
    const lm_config *c = &t->state.config;
    const char *wrong = NULL;
    t->log.file = -1;
    if (t->world->rank == 0)
        wrong = lm_log_open(&t->log, t->options->log, t->state.log_bytes);
    int code = lm_agree(t->world, wrong ? lm_say(t->world, LM_USAGE, "%s", wrong) : LM_OK);
    if (code || t->log.length > 0)
        return code;
    snprintf(line, sizeof line,
             "{\"model\":{\"layers\":%lld,\"embed\":%lld,\"heads\":%lld,\"parameters\":%lld},\"context\":%lld,"
             "\"batch\":%lld,\"steps\":%lld,\"seed\":%llu,\"data_bytes\":%lld}\n",
             (long long)c->layers, (long long)c->embed, (long long)c->heads, (long long)lm_parameter_count(c),
             (long long)c->context, (long long)c->batch, (long long)c->steps, (unsigned long long)c->seed,
             (long long)t->data.size);
    lm_log_text(&t->log, line);
    return LM_OK;
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

/* Rank 0 saves as often as its share of the time allows, and at the end. A save that fails is said. */
static void save(training *t, bool last)
{
    double begin = lm_clock();
    if (t->world->rank != 0 || !t->options->checkpoint)
        return;
    if (!last && (begin - t->saved_at) * SAVING_SHARE < t->save_seconds)
        return;
    lm_log_sync(&t->log);
    t->state.log_bytes = t->log.length;
    t->save_error = lm_checkpoint_save(t->options->checkpoint, &t->state, t->model.parameters, &t->adam);
    if (t->save_error)
        fprintf(stderr, "lm: --checkpoint '%s': not saved after step %lld: %s; training goes on\n",
                t->options->checkpoint, (long long)t->state.step, strerror(t->save_error));
    t->saved_at = lm_clock();
    t->save_seconds = t->saved_at - begin;
}

/* What rank 0 could not write to the end. */
static int check_written(const training *t)
{
    if (t->save_error)
        return lm_say(t->world, LM_WORK, "--checkpoint '%s': the trained model could not be saved: %s",
                      t->options->checkpoint, strerror(t->save_error));
    if (t->log.pending_size)
        return lm_say(t->world, LM_WORK, "--log '%s': its last lines could not be written", t->options->log);
    return LM_OK;
}

static int read_batch(training *t)
{
    const lm_config *c = &t->state.config;
    int64_t failed = 0;
    for (int64_t b = 0; b < c->batch; b++) {
        int64_t start = lm_data_start(&t->data, c, t->state.step, b), at = b * t->model.rows;
        failed += !lm_data_read(&t->data, &t->model, start, t->bytes + at, t->next + at);
    }
    if (lm_world_sum_integer(t->world, failed))
        return lm_say(t->world, LM_WORK, "--data '%s': cannot be read any more", t->data.path);
    return LM_OK;
}

static void tell(training *t, lm_step_line *line)
{
    const lm_times *times = &t->model.times;
    const lm_rank_line mine = {.compute = line->seconds - times->wait - times->communication,
                               .wait = times->wait,
                               .communication = times->communication,
                               .bytes_sent = times->bytes_sent,
                               .planned_bytes = t->model.planned_bytes,
                               .peak_bytes = lm_taken() + t->model.info.layer_bytes + t->model.layer_peak};
    lm_world_gather(t->world, &mine, sizeof mine, t->ranks);
    if (t->world->rank != 0)
        return;
    lm_log_step(&t->log, line, t->ranks, t->world->ranks);
    double spent = lm_clock() - t->began;
    int64_t steps = t->state.config.steps;
    if (t->shown)
        lm_show_progress(line, steps, spent / (double)(line->step - t->began_at) * (double)(steps - line->step));
}

static int step(training *t, double *last_loss)
{
    const lm_config *c = &t->state.config;
    double begin = lm_clock(), loss = NAN;
    int code = read_batch(t);
    if (code)
        return code;
    if (lm_backward(&t->model, t->bytes, t->next, &loss)) {
        fprintf(stderr, "lm: rank %d: %s\n", t->world->rank, ra_last_message());
        lm_world_abort(t->world, LM_WORK);
    }
    double sums = lm_clock();
    t->model.times.bytes_sent += lm_world_sum(t->world, t->model.gradients, lm_parameter_count(c));
    t->model.times.communication += lm_clock() - sums;
    lm_step_line line = {.step = t->state.step + 1,
                         .tokens = (t->state.step + 1) * c->batch * c->context,
                         .loss = loss,
                         .rate = lm_rate(c, t->state.step),
                         .step_tokens = c->batch * c->context};
    if (isfinite(loss))
        line.gradient_norm =
            lm_adam_step(c, &t->adam, t->state.step, t->model.threads, t->model.gradients, t->model.parameters);
    if (!isfinite(loss) || !isfinite(line.gradient_norm))
        return lm_say(t->world, LM_WORK,
                      "the %s of step %lld is not finite: training stops%s; a smaller --rate or a longer --warmup may "
                      "help",
                      isfinite(loss) ? "gradient" : "loss", (long long)line.step,
                      t->options->checkpoint ? ", and the last checkpoint stays" : "");
    line.seconds = lm_clock() - begin;
    t->state.step++;
    tell(t, &line);
    save(t, t->state.step == c->steps);
    *last_loss = loss;
    return LM_OK;
}

static int run_steps(training *t)
{
    double loss = NAN;
    int code = LM_OK;
    t->began = t->saved_at = lm_clock(), t->began_at = t->state.step;
    t->shown = t->world->rank == 0 && isatty(STDERR_FILENO);
    while (!code && t->state.step < t->state.config.steps)
        code = step(t, &loss);
    if (!code && t->world->rank == 0 && isfinite(loss))
        printf("step %lld: %.5f nats, %.5f bits a byte\n", (long long)t->state.step, loss, loss / LM_LN2);
    return code ? code : check_written(t);
}

int lm_train(const lm_options *options, const lm_world *world)
{
    training t = {.options = options, .world = world, .data = {.file = -1}, .log = {.file = -1}};
    const char *wrong = lm_data_open(&t.data, options->data, options->config.context);
    int code = wrong ? lm_say(world, LM_USAGE, "%s", wrong) : check_files(options, world);
    if (!code)
        code = check_memory(options, world);
    if (!code)
        code = take_memory(&t);
    if (!code)
        code = go_on(&t);
    code = lm_agree(world, code);
    if (!code)
        code = begin_log(&t);
    if (!code)
        code = run_steps(&t);
    lm_log_close(&t.log);
    lm_data_close(&t.data);
    void *all[] = {t.adam.mean, t.adam.square, t.bytes, t.next};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lm_give(all[i]);
    free(t.ranks);
    lm_model_close(&t.model);
    return code;
}
