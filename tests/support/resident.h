/* SPDX-License-Identifier: Apache-2.0 */
/* What the process holds of the machine's memory now. */
#ifndef SUPPORT_RESIDENT_H
#define SUPPORT_RESIDENT_H

#include <stdint.h>

/* Bytes, in whole pages. */
int64_t resident(void);

#endif
