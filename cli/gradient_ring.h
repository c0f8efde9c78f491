/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients over ranks: how they are planned and run, with the forward pass before them if its results are not given.
 * Its output and log-sum-exp are then scratch files, which no rank holds as a whole. Functions return an exit code and
 * report.
 */
#ifndef CLI_GRADIENT_RING_H
#define CLI_GRADIENT_RING_H

#include "gradient_files.h"
#include "run_job.h"

typedef struct gradient_ring {
    ring_run forward;             /* the pass before; the gradients are in run_job.over */
    char *output_path, *lse_path; /* of the scratch files; owned */
} gradient_ring;

/* Plan both passes. The results of the job have their shapes. */
int gradient_ring_plan(gradient_ring *ring, run_job *run, const gradient_files *files);

/*
 * Make the scratch files, if there are to be any; other: NULL, or a file that is written beside the gradients of the
 * job. In all processes of the job, as the next.
 */
int gradient_ring_create(gradient_ring *ring, run_job *run, gradient_files *files, const char *other);

/* Run both passes. */
int gradient_ring_run(gradient_ring *ring, run_job *run, gradient_files *files);

/* Seconds of the forward pass. */
double gradient_ring_seconds_forward(const gradient_ring *ring);

void gradient_ring_free(gradient_ring *ring);

#endif
