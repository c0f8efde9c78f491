/* SPDX-License-Identifier: Apache-2.0 */
/* replay FOLDER: every file in it, once, through a fuzz target that is built without libFuzzer. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    static uint8_t buffer[1 << 16];
    size_t size = fread(buffer, 1, sizeof buffer, file);
    fclose(file);
    /* A copy of exactly this size, so that a sanitizer sees the first byte read past it. */
    uint8_t *data = malloc(size ? size : 1);
    if (!data)
        return 0;
    memcpy(data, buffer, size);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int count = 0, failed = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (replay(path))
            count++;
        else
            failed++;
    }
    closedir(folder);
    printf("%d inputs replayed, %d could not be read\n", count, failed);
    return count > 0 && failed == 0 ? 0 : 1;
}
