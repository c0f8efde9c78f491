/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte-level language model on the multi-head layer, trained over ranks: what its files share. A model predicts each
 * byte of a text from those before it:
 *
 *     x  = sqrt(embed) * embedding[byte]
 *     x += attention(rms_norm(x))                       `layers` times; the layer of ringattn/multihead.h
 *     x += w_down relu(w_up rms_norm(x))^2
 *     logits = embedding rms_norm(x)                    the same embedding
 *
 * A rank has some rows of every sequence. Attention exchanges keys and values on the ring, all else is local; gradients
 * of parameters are summed over ranks. Every rank has all parameters.
 */
#ifndef LM_H
#define LM_H

#include "world.h"

#include <ringattn/multihead.h>
#include <stdbool.h>
#include <stdint.h>

enum { LM_BYTES = 256, LM_WIDER = 4, LM_PIECE = 2048 }; /* an MLP is 4 times as wide; tokens of a piece */

#define LM_LN2 0.69314718055994530942

/* What makes a model and its training. All of it is in a checkpoint. */
typedef struct lm_config {
    int64_t context, layers, embed, heads, batch, steps, warmup;
    uint64_t seed;
    double rate;
    char pattern[256];
} lm_config;

/* How a run is spread; the losses do not depend on it. */
typedef struct lm_spread {
    ra_order order;
    ra_strategy strategy;
    int threads;
} lm_spread;

/* ---- parameters.c ---------------------------------------------------------------------------------------------- */

/*
 * Where a block's parameters begin, and their gradients: weights are [outputs, inputs], norms [embed]. From w_q to w_o
 * they follow each other.
 */
typedef struct lm_block {
    int64_t norm_attention, w_q, w_k, w_v, w_o;
    int64_t norm_mlp, w_up, w_down;
} lm_block;

/* All parameters lie in one array: the embedding [256, embed], the blocks, the last norm. */
int64_t lm_parameter_count(const lm_config *config);
int64_t lm_last_norm(const lm_config *config);
lm_block lm_block_at(const lm_config *config, int64_t layer);

/* One of the arrays that they consist of. */
typedef struct lm_tensor {
    int64_t first, count;
    double deviation; /* of its first values; 0: they are 1, and do not decay */
} lm_tensor;

bool lm_tensor_at(const lm_config *config, int64_t index, lm_tensor *tensor);

/* The first values: the same on every rank. */
void lm_initialise(const lm_config *config, float *all);

/* ---- model.c --------------------------------------------------------------------------------------------------- */

/* Memory of a piece of LM_PIECE tokens, used again by each. */
typedef struct lm_piece {
    float *normed, *d_normed;          /* [piece, embed] */
    float *hidden, *active, *d_hidden; /* [piece, 4 embed]; for the loss, hidden has the logits */
} lm_piece;

/* What a step did on this rank. */
typedef struct lm_times {
    double wait, communication; /* seconds */
    int64_t bytes_sent;
} lm_times;

typedef struct lm_model {
    lm_config config;
    const lm_world *world;
    ra_layer *layer; /* one for all blocks */
    ra_layer_info info;
    int threads;
    int64_t rows, tokens; /* of this rank: of a sequence, and of the batch */
    bool train;
    int64_t stretches, *cuts; /* a stretch of tokens is worked by one thread: from cuts[i] to cuts[i + 1] */
    float *parameters;
    double *gradients; /* multiples of RA_LAYER_SUM_UNIT: their sums over ranks are exact */
    float *x;          /* [2 layers + 1, tokens, embed]: before each attention, each MLP and the loss; else [2, ...] */
    char *saved;       /* [layers]: what the layer keeps for its backward pass */
    float *normed, *d, *d_normed; /* [tokens, embed]; d: the gradient by x as it goes back */
    float *norm_sums;             /* [stretches, embed]: gradients of a norm's weight */
    lm_piece piece;
    lm_times times;
    int64_t planned_bytes, layer_peak; /* of all; and what the layer has held at most */
} lm_model;

/* What a model on a rank of `ranks` holds at most, in bytes; 0 with a message of the library if it cannot be planned.
 */
int64_t lm_planned_bytes(const lm_config *config, const lm_spread *spread, int ranks, bool train);

/* What a training holds at least, however many ranks there are. */
int64_t lm_least_bytes(const lm_config *config);

/* NULL, or what is wrong. The memory is all taken here. */
const char *lm_model_open(lm_model *model, const lm_config *config, const lm_spread *spread, const lm_world *world,
                          bool train);
void lm_model_close(lm_model *model);

/* The mean loss of all ranks' tokens in nats; NaN if one is. `bytes` and `next` are [tokens]: of this rank. */
ra_status lm_forward(lm_model *model, const unsigned char *bytes, const unsigned char *next, double *loss);

/* The same, and the gradients of this rank's tokens. */
ra_status lm_backward(lm_model *model, const unsigned char *bytes, const unsigned char *next, double *loss);

/* ---- adam.c ---------------------------------------------------------------------------------------------------- */

typedef struct lm_adam {
    float *mean, *square; /* of each parameter's gradients */
} lm_adam;

/* Warm-up, then half a cosine down to a tenth. Steps count from 0. */
double lm_rate(const lm_config *config, int64_t step);

/* One step of AdamW with clipped gradients; returns the norm of the gradients before that. */
double lm_adam_step(const lm_config *config, const lm_adam *adam, int64_t step, int threads, const double *gradients,
                    float *parameters);

/* ---- data.c ---------------------------------------------------------------------------------------------------- */

typedef struct lm_data {
    const char *path;
    int file;
    int64_t size;
    uint64_t sum; /* of all its bytes: tells data apart */
} lm_data;

/* NULL, or what is wrong. */
const char *lm_data_open(lm_data *data, const char *path, int64_t context);
void lm_data_close(lm_data *data);

/* Where the sequence of a batch element of a step begins. */
int64_t lm_data_start(const lm_data *data, const lm_config *config, int64_t step, int64_t element);

/* This rank's bytes of the sequence from `start` on, and the bytes after each. False: the file cannot be read. */
bool lm_data_read(const lm_data *data, const lm_model *model, int64_t start, unsigned char *bytes, unsigned char *next);

/* 64 bits that depend on all those before, and on these. */
uint64_t lm_mix(uint64_t sum, const void *bytes, size_t count);

/* ---- checkpoint.c ---------------------------------------------------------------------------------------------- */

/* Where a training stands: what goes on from it ends with the same bits. */
typedef struct lm_state {
    lm_config config;
    uint64_t data; /* its sum */
    int64_t data_size;
    int64_t step;      /* steps done */
    int64_t log_bytes; /* of the log so far */
} lm_state;

/* What there is at a path. */
typedef enum lm_found { LM_NONE, LM_FOUND, LM_BAD } lm_found;

/* LM_BAD: the message is in `why`. parameters, and adam's arrays if not NULL, are allocated by lm_take. */
lm_found lm_checkpoint_read(const char *path, lm_state *state, char *why, size_t size);
bool lm_checkpoint_load(const char *path, const lm_state *state, float *parameters, const lm_adam *adam, char *why,
                        size_t size);

/* Written whole under another name, then renamed. 0, or an errno. */
int lm_checkpoint_save(const char *path, const lm_state *state, const float *parameters, const lm_adam *adam);

/* NULL if a training with these settings goes on from the state; else the difference. */
const char *lm_state_differs(const lm_state *saved, const lm_state *now, char *text, size_t size);

/* ---- log.c ----------------------------------------------------------------------------------------------------- */

/* What one rank tells of a step. */
typedef struct lm_rank_line {
    double compute, wait, communication;
    int64_t bytes_sent, planned_bytes, peak_bytes;
} lm_rank_line;

typedef struct lm_step_line {
    int64_t step, tokens;
    double loss, gradient_norm, rate, seconds;
    int64_t step_tokens;
} lm_step_line;

typedef struct lm_log {
    const char *path;
    int file;       /* -1: there is no log */
    int64_t length; /* of what is safely in it */
    char *pending;  /* lines that could not be written yet */
    size_t pending_size;
    bool failed; /* that has been said */
} lm_log;

/* A log that goes on behind its first `length` bytes. NULL, or what is wrong. */
const char *lm_log_open(lm_log *log, const char *path, int64_t length);
void lm_log_step(lm_log *log, const lm_step_line *line, const lm_rank_line *ranks, int count);
void lm_log_text(lm_log *log, const char *text);
void lm_log_sync(lm_log *log);
void lm_log_close(lm_log *log);

/* On a terminal: how far it is, and the time left. */
void lm_show_progress(const lm_step_line *line, int64_t steps, double seconds_left);

/* ---- The verbs -------------------------------------------------------------------------------------------------- */

typedef struct lm_options {
    lm_config config;
    lm_spread spread;
    int64_t memory, length, threads;
    double temperature;
    const char *data, *checkpoint, *log, *prompt;
    bool context_given;
} lm_options;

enum { LM_OK = 0, LM_WORK = 1, LM_USAGE = 2, LM_PEER = 3 }; /* the last: another rank says why */

int lm_train(const lm_options *options, const lm_world *world);
int lm_eval(const lm_options *options, const lm_world *world);
int lm_generate(const lm_options *options, const lm_world *world);

/* Returns the code. With LM_OK the message goes to rank 0's standard error, else it is what the run ends with. */
int lm_say(const lm_world *world, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* All ranks come here; LM_PEER where this one is well and another is not. */
int lm_agree(const lm_world *world, int code);

#endif
