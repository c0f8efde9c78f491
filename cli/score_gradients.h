/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradients of the arrays of scores in one .safetensors file, with tensors named alibi, relative, bias and sinks:
 * of the shapes that the files of the scores have, float32. They are held in memory until the run has succeeded.
 * Functions return an exit code and report.
 */
#ifndef CLI_SCORE_GRADIENTS_H
#define CLI_SCORE_GRADIENTS_H

#include <ringattn/ringattn.h>
#include <stdbool.h>

enum { SCORE_GRADIENTS = 4 };

typedef struct score_gradients {
    const char *path; /* NULL: not wanted, and everything below does nothing */
    bool unreadable;  /* some file of the scores */
    int count;
    ra_array_part parts[SCORE_GRADIENTS]; /* [count], as in the file */
    ra_tensor views[SCORE_GRADIENTS];     /* [count] */
    ra_score_arrays arrays;               /* points to the views */
    float *elements;                      /* of all of them, owned */
    int64_t element_count;
    ra_array *array;
    int cleaned; /* the number of its temporary file for interrupt_forget */
} score_gradients;

/* Memory for the arrays that the scores of the problem have; a plan made of the problem then fills it. */
int score_gradients_prepare(score_gradients *gradients, ra_problem *problem);

/* The file, by one process of a job: created before the run, written after it, and given its name at last. */
int score_gradients_create(score_gradients *gradients);
int score_gradients_write(score_gradients *gradients);
int score_gradients_commit(score_gradients *gradients);

void score_gradients_close(score_gradients *gradients);

#endif
