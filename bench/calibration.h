/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What work costs on this machine: short runs that differ in what they have most of, round by round.
 *
 *     machine_model model;
 *     double seconds;
 *     if (!calibrate(&model, &problem, &options, RA_F32, false))
 *         model_predict(&model, &problem, &options, NULL, &seconds);
 */
#ifndef BENCH_CALIBRATION_H
#define BENCH_CALIBRATION_H

#include "model.h"

/*
 * With the heads, dims, scores, threads and kernel of a problem; takes about a second. What it learns of backward
 * passes is for work of backward passes alone.
 */
ra_status calibrate(machine_model *model, const ra_problem *like, const ra_options *options, ra_dtype dtype,
                    bool backward);

/* The same in parts, between which other things can be measured, so that a slow moment is slow to both. */
typedef struct calibration calibration;

enum { CALIBRATION_MOST = 1000 }; /* rounds that count; more are not counted */

ra_status calibration_open(const ra_problem *like, const ra_options *options, ra_dtype dtype, bool backward,
                           calibration **opened);
void calibration_close(calibration *c);

/* Forgets all rounds; makes one more. */
void calibration_begin(calibration *c);
ra_status calibration_round(calibration *c);

/* What the rounds say, of which there is one at least. */
void calibration_learn(const calibration *c, machine_model *model);

#endif
