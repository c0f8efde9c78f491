/* SPDX-License-Identifier: Apache-2.0 */
/* An empty folder for each test that writes files, and what it does there. */
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include <stddef.h>

/* The test runs in a folder of its own, which is gone afterwards. It may leave a.* and b.*, `pipe` and `folder` there.
 */
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int folder_enter(void **state);
int folder_leave(void **state); /* fails when anything else was left */

/* How many files and folders there are. */
int folder_entries(void);

void folder_write(const char *path, const void *bytes, size_t size);

/* All of a file, the caller's to free. */
char *folder_read(const char *path, size_t *size);

#endif
