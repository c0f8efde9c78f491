/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, enters and removes the folder of a test. See folder.h. */
#include "support/folder.h"
#include "support/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int folder_enter(void **state)
{
    char name[] = "/tmp/ringattn-test-XXXXXX";
    if (!mkdtemp(name) || chdir(name) != 0)
        return -1;
    *state = malloc(sizeof name);
    if (!*state)
        return -1;
    memcpy(*state, name, sizeof name);
    return 0;
}

int folder_leave(void **state)
{
    static const char *const NAMES[] = {"a.npy",   "b.npy",   "a.safetensors", "b.safetensors",
                                        "a.jsonl", "b.jsonl", "pipe",          "folder"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        remove(NAMES[i]);
    int left = chdir("/") || rmdir(*state);
    free(*state);
    return left;
}

int folder_entries(void)
{
    int count = 0;
    DIR *directory = opendir(".");
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

void folder_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

char *folder_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}
