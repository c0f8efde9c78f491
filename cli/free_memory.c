/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/meminfo, the control groups and the limits of the process, and takes the least of them. See
 * free_memory.h.
 */
#include "free_memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The number after `name` in a file of lines, or the only one where `name` is ""; below 0: it is not there. */
static int64_t figure(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[256];
    long long value = -1;
    size_t length = strlen(name);
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, length) != 0 || sscanf(line + length, "%lld", &value) != 1)
            value = -1;
    if (file)
        fclose(file);
    return value;
}

/* ---- The system -------------------------------------------------------------------------------------------------- */

static int64_t of_system(void)
{
    int64_t kib = figure("/proc/meminfo", "MemAvailable:");
    return kib >= 0 ? kib * 1024 : (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
}

/* ---- Control groups ---------------------------------------------------------------------------------------------- */

/* The two versions have the same under different names. */
typedef struct group_files {
    const char *root, *most, *used;
} group_files;

static const group_files VERSION_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"};
static const group_files VERSION_2 = {"/sys/fs/cgroup", "memory.max", "memory.current"};

static int64_t group_figure(const group_files *files, const char *group, const char *file, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s/%s", files->root, group, file);
    return figure(path, name);
}

/* Files that the system keeps in memory can be given up, and are not counted. */
static int64_t of_group(const group_files *files, const char *group)
{
    int64_t most = group_figure(files, group, files->most, ""), used = group_figure(files, group, files->used, "");
    if (most < 0 || used < 0)
        return INT64_MAX; /* "max": no limit */
    int64_t cached = group_figure(files, group, "memory.stat", "inactive_file ");
    used -= cached > 0 ? least(cached, used) : 0;
    return most > used ? most - used : 0;
}

/* A group's limit holds for those inside it. */
static int64_t of_groups(const group_files *files, char *group)
{
    int64_t left = INT64_MAX;
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = 0;
        left = least(left, of_group(files, group));
    }
    return left;
}

static int64_t of_control_groups(void)
{
    FILE *file = fopen("/proc/self/cgroup", "r");
    char line[PATH_MAX];
    int64_t left = INT64_MAX;
    while (file && fgets(line, sizeof line, file)) {
        char *kinds = strchr(line, ':'), *group = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (!kinds[1])
            left = least(left, of_groups(&VERSION_2, group));
        else if (strstr(kinds, "memory"))
            left = least(left, of_groups(&VERSION_1, group));
    }
    if (file)
        fclose(file);
    return left;
}

/* ---- The process ------------------------------------------------------------------------------------------------- */

static int64_t of_limit(int resource, const char *name)
{
    struct rlimit limit;
    int64_t kib = figure("/proc/self/status", name);
    if (kib < 0 || getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT64_MAX)
        return INT64_MAX;
    int64_t most = (int64_t)limit.rlim_cur, used = kib * 1024;
    return most > used ? most - used : 0;
}

int64_t free_memory(void)
{
    int64_t left = least(of_system(), of_control_groups());
    left = least(left, of_limit(RLIMIT_AS, "VmSize:"));
    return least(left, of_limit(RLIMIT_DATA, "VmData:"));
}
