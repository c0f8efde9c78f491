/* SPDX-License-Identifier: Apache-2.0 */
/* cli/free_memory.c on systems that are made up: the linker hands its files to this test. */
#include "cli/free_memory.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

typedef struct made_file {
    const char *path, *text;
} made_file;

static const made_file *made; /* ends with a path of NULL */

FILE *__wrap_fopen(const char *path, const char *mode);

FILE *__wrap_fopen(const char *path, const char *mode)
{
    for (const made_file *file = made; file->path; file++)
        if (strcmp(file->path, path) == 0)
            return fmemopen((void *)file->text, strlen(file->text), mode);
    return NULL;
}

/* What is free where these are all files. */
static int64_t free_with(const made_file *files)
{
    made = files;
    return free_memory();
}

#define SYSTEM                                                                                                         \
    {                                                                                                                  \
        "/proc/meminfo", "MemTotal: 9999 kB\nMemFree: 10 kB\nMemAvailable:    5000 kB\n"                               \
    }
enum { AVAILABLE = 5000 * 1024 };

static void the_system_has_some(void **state)
{
    (void)state;
    const made_file alone[] = {SYSTEM, {NULL, NULL}};
    assert_int_equal(free_with(alone), AVAILABLE);
    const made_file unlimited[] = {SYSTEM,
                                   {"/proc/self/cgroup", "0::/job\n"},
                                   {"/sys/fs/cgroup/job/memory.max", "max\n"},
                                   {"/sys/fs/cgroup/job/memory.current", "700000\n"},
                                   {NULL, NULL}};
    assert_int_equal(free_with(unlimited), AVAILABLE);
}

/* Pages of files that can be given up are not counted as used. */
static void a_control_group_leaves_less(void **state)
{
    (void)state;
    const made_file files[] = {SYSTEM,
                               {"/proc/self/cgroup", "0::/job\n"},
                               {"/sys/fs/cgroup/job/memory.max", "1000000\n"},
                               {"/sys/fs/cgroup/job/memory.current", "300000\n"},
                               {"/sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n"},
                               {NULL, NULL}};
    assert_int_equal(free_with(files), 800000);
    const made_file full[] = {SYSTEM,
                              {"/proc/self/cgroup", "0::/job\n"},
                              {"/sys/fs/cgroup/job/memory.max", "1000000\n"},
                              {"/sys/fs/cgroup/job/memory.current", "1300000\n"},
                              {NULL, NULL}};
    assert_int_equal(free_with(full), 0);
}

/* The least of a group and those around it, up to the root, which is where a container sees its own. */
static void groups_around_it_count(void **state)
{
    (void)state;
    const made_file around[] = {SYSTEM,
                                {"/proc/self/cgroup", "0::/outer/inner\n"},
                                {"/sys/fs/cgroup/outer/inner/memory.max", "2000000\n"},
                                {"/sys/fs/cgroup/outer/inner/memory.current", "0\n"},
                                {"/sys/fs/cgroup/outer/memory.max", "900000\n"},
                                {"/sys/fs/cgroup/outer/memory.current", "200000\n"},
                                {NULL, NULL}};
    assert_int_equal(free_with(around), 700000);
    const made_file container[] = {SYSTEM,
                                   {"/proc/self/cgroup", "0::/\n"},
                                   {"/sys/fs/cgroup/memory.max", "600000\n"},
                                   {"/sys/fs/cgroup/memory.current", "100000\n"},
                                   {NULL, NULL}};
    assert_int_equal(free_with(container), 500000);
}

static void the_first_version_counts_too(void **state)
{
    (void)state;
    const made_file files[] = {SYSTEM,
                               {"/proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n"},
                               {"/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000\n"},
                               {"/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "600000\n"},
                               {NULL, NULL}};
    assert_int_equal(free_with(files), 400000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_system_has_some),
        cmocka_unit_test(a_control_group_leaves_less),
        cmocka_unit_test(groups_around_it_count),
        cmocka_unit_test(the_first_version_counts_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
