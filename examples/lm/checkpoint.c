/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint: a head of fixed size, the parameters, Adam's means and squares, and a checksum of all that. It is
 * written under another name, and renamed when it is on the disk: at the path there is a whole one or none.
 */
#include "lm.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char MAGIC[16] = "ringattn lm 1\n";
static const uint64_t SEED = 14695981039346656037u;

/* The sum of the checkpoint so far goes with what is read and written. Words of 8 bytes, for speed. */
static uint64_t add_up(uint64_t sum, const void *bytes, size_t count)
{
    const char *at = bytes;
    for (; count >= sizeof(uint64_t); count -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    return lm_mix(sum, at, count);
}

typedef struct stream {
    FILE *file;
    uint64_t sum;
    bool good;
} stream;

static void put(stream *s, const void *bytes, size_t count)
{
    s->sum = add_up(s->sum, bytes, count);
    s->good = s->good && fwrite(bytes, 1, count, s->file) == count;
}

static void get(stream *s, void *bytes, size_t count)
{
    s->good = s->good && fread(bytes, 1, count, s->file) == count;
    if (s->good)
        s->sum = add_up(s->sum, bytes, count);
}

static void put_all(stream *s, const lm_state *state, const float *parameters, const lm_adam *adam)
{
    size_t bytes = (size_t)lm_parameter_count(&state->config) * sizeof(float);
    put(s, MAGIC, sizeof MAGIC);
    put(s, state, sizeof *state);
    put(s, parameters, bytes);
    put(s, adam->mean, bytes);
    put(s, adam->square, bytes);
    uint64_t sum = s->sum;
    put(s, &sum, sizeof sum);
    s->good = s->good && fflush(s->file) == 0 && fsync(fileno(s->file)) == 0;
}

/* So that the new name is on the disk, too. */
static void sync_folder(const char *path)
{
    char *copy = strdup(path);
    int folder = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
    free(copy);
}

int lm_checkpoint_save(const char *path, const lm_state *state, const float *parameters, const lm_adam *adam)
{
    char other[4096];
    snprintf(other, sizeof other, "%s.partial", path);
    stream s = {fopen(other, "wbe"), SEED, true};
    if (!s.file)
        return errno;
    errno = 0;
    put_all(&s, state, parameters, adam);
    int wrong = s.good ? 0 : errno ? errno : EIO;
    if (fclose(s.file) != 0 && !wrong)
        wrong = errno;
    if (!wrong && rename(other, path) != 0)
        wrong = errno;
    if (wrong)
        unlink(other);
    else
        sync_folder(path);
    return wrong;
}

/* Whether the head of a file could be that of a model. */
static bool sound(const lm_config *c)
{
    enum { MOST = 1 << 20 };
    return c->layers >= 1 && c->layers <= MOST && c->embed >= 1 && c->embed <= MOST && c->heads >= 1 &&
           c->embed % c->heads == 0 && c->context >= 1 && c->batch >= 1 && memchr(c->pattern, 0, sizeof c->pattern);
}

lm_found lm_checkpoint_read(const char *path, lm_state *state, char *why, size_t size)
{
    char magic[sizeof MAGIC];
    stream s = {fopen(path, "rbe"), SEED, true};
    if (!s.file && errno == ENOENT)
        return LM_NONE;
    if (!s.file) {
        snprintf(why, size, "--checkpoint '%s': cannot be read: %s", path, strerror(errno));
        return LM_BAD;
    }
    get(&s, magic, sizeof magic);
    get(&s, state, sizeof *state);
    fclose(s.file);
    if (s.good && memcmp(magic, MAGIC, sizeof magic) == 0 && sound(&state->config))
        return LM_FOUND;
    snprintf(why, size, "--checkpoint '%s': is no checkpoint of a model, or is damaged; remove it to begin anew", path);
    return LM_BAD;
}

/* What is read and thrown away still counts for the checksum. */
static void pass(stream *s, size_t bytes)
{
    char some[4096];
    for (; bytes > 0 && s->good; bytes -= bytes < sizeof some ? bytes : sizeof some)
        get(s, some, bytes < sizeof some ? bytes : sizeof some);
}

bool lm_checkpoint_load(const char *path, const lm_state *state, float *parameters, const lm_adam *adam, char *why,
                        size_t size)
{
    size_t bytes = (size_t)lm_parameter_count(&state->config) * sizeof(float);
    char magic[sizeof MAGIC];
    lm_state again;
    uint64_t sum, said = 0;
    stream s = {fopen(path, "rbe"), SEED, true};
    s.good = s.file != NULL;
    get(&s, magic, sizeof magic);
    get(&s, &again, sizeof again);
    get(&s, parameters, bytes);
    if (adam) {
        get(&s, adam->mean, bytes);
        get(&s, adam->square, bytes);
    } else {
        pass(&s, 2 * bytes);
    }
    sum = s.sum;
    get(&s, &said, sizeof said);
    if (s.good && (sum != said || fgetc(s.file) != EOF))
        s.good = false;
    if (s.file)
        fclose(s.file);
    if (!s.good)
        snprintf(why, size,
                 "--checkpoint '%s': is damaged: its checksum is not that of its contents; remove it to begin anew",
                 path);
    return s.good;
}

const char *lm_state_differs(const lm_state *saved, const lm_state *now, char *text, size_t size)
{
    const lm_config *a = &saved->config, *b = &now->config;
    const struct {
        const char *name;
        int64_t saved, now;
    } numbers[] = {{"--layers", a->layers, b->layers},
                   {"--embed", a->embed, b->embed},
                   {"--heads", a->heads, b->heads},
                   {"--context", a->context, b->context},
                   {"--batch", a->batch, b->batch},
                   {"--steps", a->steps, b->steps},
                   {"--warmup", a->warmup, b->warmup},
                   {"--seed", (int64_t)a->seed, (int64_t)b->seed},
                   {"the size of --data", saved->data_size, now->data_size}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].saved != numbers[i].now) {
            snprintf(text, size, "%s is %lld there and %lld here", numbers[i].name, (long long)numbers[i].saved,
                     (long long)numbers[i].now);
            return text;
        }
    if (a->rate != b->rate)
        snprintf(text, size, "--rate is %g there and %g here", a->rate, b->rate);
    else if (strcmp(a->pattern, b->pattern) != 0)
        snprintf(text, size, "--pattern is '%s' there and '%s' here", a->pattern, b->pattern);
    else if (saved->data != now->data)
        snprintf(text, size, "the bytes of --data are others");
    else
        return NULL;
    return text;
}
