/* SPDX-License-Identifier: Apache-2.0 */
/* cli/output_file.c: a file gets its name when it is on the disk, and only if the temporary one is still this run's. */
#include "cli/output_file.h"
#include "cli/report.h"
#include "support/folder.h"
#include "support/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The disk, by the linker ---------------------------------------------------------------------------------------
 */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

static int syncs, syncs_before_rename, sync_error;

int __wrap_fsync(int fd)
{
    syncs++;
    errno = sync_error;
    return sync_error ? -1 : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
    syncs_before_rename = syncs;
    return __real_rename(from, to);
}

/* ---- Tests --------------------------------------------------------------------------------------------------------
 */

static const char PARTIAL[] = "a.npy.partial";

/* A file with `text` in it, on the way to a.npy. */
static void begin(output_file *file, const char *text)
{
    syncs = syncs_before_rename = sync_error = 0;
    assert_int_equal(output_file_open(file, "a.npy"), EXIT_OK);
    assert_int_equal(access(PARTIAL, F_OK), 0);
    fputs(text, file->stream);
}

static void holds(const char *path, const char *text)
{
    size_t size;
    char *bytes = folder_read(path, &size);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static void it_is_on_the_disk_before_its_name(void **state)
{
    (void)state;
    output_file file;
    begin(&file, "new");
    assert_int_equal(output_file_finish(&file), EXIT_OK);
    assert_int_equal(output_file_commit(&file), EXIT_OK);
    output_file_close(&file);
    assert_int_equal(syncs_before_rename, 1);
    holds("a.npy", "new");
    assert_int_equal(folder_entries(), 1);
}

static void a_disk_that_fails_is_said(void **state)
{
    (void)state;
    output_file file;
    folder_write("a.npy", "old", 3);
    begin(&file, "new");
    sync_error = EIO;
    assert_int_equal(output_file_finish(&file), EXIT_WORK);
    output_file_close(&file);
    holds("a.npy", "old");
    assert_int_equal(folder_entries(), 1);
}

static void a_lost_file_is_said(void **state)
{
    (void)state;
    output_file file;
    begin(&file, "new");
    assert_int_equal(output_file_finish(&file), EXIT_OK);
    unlink(PARTIAL);
    assert_int_equal(output_file_commit(&file), EXIT_WORK);
    output_file_close(&file);
    assert_int_equal(folder_entries(), 0);
}

/* Another run has made its own in the meantime: it is neither renamed nor removed. */
static void a_file_of_others_stays(void **state)
{
    (void)state;
    output_file file;
    begin(&file, "new");
    assert_int_equal(output_file_finish(&file), EXIT_OK);
    unlink(PARTIAL);
    folder_write(PARTIAL, "theirs", 6);
    assert_int_equal(output_file_commit(&file), EXIT_WORK);
    output_file_close(&file);
    holds(PARTIAL, "theirs");
    assert_int_equal(folder_entries(), 1);
    unlink(PARTIAL);
}

static void what_is_not_committed_disappears(void **state)
{
    (void)state;
    output_file file;
    begin(&file, "new");
    output_file_close(&file);
    assert_int_equal(folder_entries(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(it_is_on_the_disk_before_its_name),
        IN_FOLDER(a_disk_that_fails_is_said),
        IN_FOLDER(a_lost_file_is_said),
        IN_FOLDER(a_file_of_others_stays),
        IN_FOLDER(what_is_not_committed_disappears),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
