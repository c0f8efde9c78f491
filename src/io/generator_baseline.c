/* SPDX-License-Identifier: Apache-2.0 */
/* The generator for any processor of the target. */
#define GENERATOR_NAME ra_generator_baseline
#define GENERATOR_NEEDS 0
#include "io/generator_loops.h"
