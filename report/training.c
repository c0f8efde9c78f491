/* SPDX-License-Identifier: Apache-2.0 */
/* Reading logs of trainings: lines of JSON to steps. What they say is in section_training.c. */
#include "training.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_LINES = 20 };

/* NAN: there is none that can be used. */
static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    double is = json_is_number(value) ? json_number_value(value) : NAN;
    return fabs(is) <= ROWS_MOST_NUMBER ? is : NAN;
}

static double at_least_zero(double value)
{
    return value >= 0 ? value : 0;
}

static void read_rank(const json_t *rank, training_step *s)
{
    const json_t *seconds = json_object_get(rank, "seconds");
    s->compute += at_least_zero(number(seconds, "compute"));
    s->wait += at_least_zero(number(seconds, "wait"));
    s->communication += at_least_zero(number(seconds, "communication"));
    s->planned_bytes = fmax(s->planned_bytes, at_least_zero(number(rank, "planned_peak_bytes")));
    s->peak_bytes = fmax(s->peak_bytes, at_least_zero(number(rank, "peak_bytes")));
}

/* NULL, or why a line with a loss is no step. */
static const char *read_step(const json_t *object, training_step *s)
{
    const json_t *ranks = json_object_get(object, "ranks");
    *s = (training_step){.step = number(object, "step"),
                         .tokens = number(object, "tokens"),
                         .loss = number(object, "loss"),
                         .tokens_per_second = number(object, "tokens_per_second")};
    if (!(s->step >= 1) || !(s->tokens >= 1) || !isfinite(s->loss))
        return "has a loss, and lacks a number among step, tokens and loss";
    for (size_t i = 0; i < json_array_size(ranks); i++)
        read_rank(json_array_get(ranks, i), s);
    s->ranks = (int)json_array_size(ranks);
    return NULL;
}

/* The object of a line, which has a loss; NULL, and *why if that is to be complained of. */
static json_t *parse(const char *line, size_t length, const char **why)
{
    json_t *object = json_loadb(line, length, 0, NULL);
    bool has = json_is_object(object) && json_object_get(object, "loss");
    *why = !object ? "is no JSON" : NULL;
    if (has)
        return object;
    json_decref(object);
    return NULL;
}

bool training_is_log(const char *path)
{
    FILE *stream = fopen(path, "rbe");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool found = false;
    for (int i = 0; stream && !found && i < FIRST_LINES && (length = getline(&line, &room, stream)) > 0; i++) {
        const char *why;
        training_step step;
        json_t *object = parse(line, (size_t)length, &why);
        found = object && !read_step(object, &step);
        json_decref(object);
    }
    free(line);
    if (stream)
        fclose(stream);
    return found;
}

static const char *name_of(arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = arena_text(a, "%.80s", slash ? slash + 1 : path);
    for (char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    return name;
}

int trainings_read(trainings *t, const char *path, rows_complaint complain, void *user)
{
    FILE *stream = fopen(path, "rbe");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    if (!stream)
        return -1;
    t->at = arena_more(&t->memory, t->at, t->count, sizeof *t->at);
    training *new = &t->at[t->count++];
    *new = (training){.name = name_of(&t->memory, path)};
    for (int number = 1; (length = getline(&line, &room, stream)) > 0; number++) {
        const char *why;
        training_step step;
        json_t *object = parse(line, (size_t)length, &why);
        if (object)
            why = read_step(object, &step);
        if (object && !why) {
            new->steps = arena_more(&t->memory, new->steps, new->count, sizeof step);
            new->steps[new->count++] = step;
        }
        if (why && strspn(line, " \t\r\n") < (size_t)length)
            complain(user, path, number, why);
        json_decref(object);
    }
    int wrong = ferror(stream) ? errno : 0;
    free(line);
    fclose(stream);
    errno = wrong;
    return wrong ? -1 : new->count;
}

void trainings_free(trainings *t)
{
    arena_free(&t->memory);
    *t = (trainings){0};
}
