/* SPDX-License-Identifier: Apache-2.0 */
/* Two files of benchmark rows, an older and a newer one: what got faster, slower, larger or broken. */
#ifndef REPORT_COMPARE_H
#define REPORT_COMPARE_H

#include <stdio.h>

enum { REPORT_COMPARE_THRESHOLD = 5 }; /* percent, unless somebody asks for another */

/*
 * Rows are matched by suite, case, method, problem and run. A time has changed when the medians differ by more than
 * their noise: Student's t for 95%, two-sided, times the standard error of the difference, that of each median being
 * taken from its quartiles and the number of samples behind it. A regression is a row that got slower beyond the noise
 * and by more than `threshold` percent, that holds as much more memory, or that fails where it did not. Differences are
 * printed.
 *
 * 0; 1 when there is a regression; 2, with a message on standard error, when a file cannot be used or when no row is in
 * both.
 */
int report_compare(const char *old_path, const char *new_path, double threshold, FILE *out);

#endif
