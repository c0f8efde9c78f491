/* SPDX-License-Identifier: Apache-2.0 */
/* What tells two inputs apart: files by their content too, made-up data by all that makes them up. */
#include "support/folder.h"
#include "support/unit.h"

#include <fcntl.h>
#include <ringattn/ringattn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEQ = 500, HEADS = 2, DIM = 64, COUNT = SEQ * HEADS * DIM };

static ra_tensor shape(ra_layout layout)
{
    return ra_tensor_dense(NULL, RA_F32, layout, 1, SEQ, HEADS, DIM);
}

static void make(const char *path, uint64_t seed)
{
    const int64_t extents[] = {SEQ, HEADS, DIM};
    float *values = malloc(COUNT * sizeof *values);
    ra_array *array = NULL;
    assert_non_null(values);
    ra_generate(RA_NORMAL, seed, 0, COUNT, values);
    assert_int_equal(ra_array_create(path, RA_F32, 3, extents, &array), RA_OK);
    assert_int_equal(ra_array_write(array, 0, COUNT, values), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
    free(values);
}

static void of_file(const char *path, ra_layout layout, char text[RA_FINGERPRINT_TEXT])
{
    ra_array *array = NULL;
    ra_storage *storage = NULL;
    ra_tensor view = shape(layout);
    assert_int_equal(ra_array_open(path, &array), RA_OK);
    assert_int_equal(ra_storage_array(array, &view, &storage), RA_OK);
    assert_int_equal(ra_storage_fingerprint(storage, text, RA_FINGERPRINT_TEXT), RA_OK);
    ra_storage_free(storage);
    ra_array_close(array);
}

/* Other bytes at `at`, with the size and the times as before. */
static void change(const char *path, off_t at)
{
    struct stat file;
    char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &file) == 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte = (char)~byte;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    const struct timespec times[] = {file.st_atim, file.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void content_counts(void **state)
{
    (void)state;
    char before[RA_FINGERPRINT_TEXT], after[RA_FINGERPRINT_TEXT];
    make("a.npy", 1);
    of_file("a.npy", RA_BSHD, before);
    of_file("a.npy", RA_BSHD, after);
    assert_string_equal(before, after);
    /* Both ends of the elements, and the start of the sampled place in the middle. */
    const off_t places[] = {128, 128 + COUNT * 4 - 1, 128 + (COUNT * 4 - 4096) / 31 * 15 + 40};
    for (int i = 0; i < 3; i++) {
        change("a.npy", places[i]);
        of_file("a.npy", RA_BSHD, after);
        assert_string_not_equal(before, after);
        assert_int_equal(strcspn(before, "m"), strcspn(after, "m"));
        char *sample = strstr(before, "sample");
        assert_int_equal(strncmp(before, after, (size_t)(sample - before)), 0);
        memcpy(before, after, sizeof before);
    }
}

static void time_and_size_count(void **state)
{
    (void)state;
    char before[RA_FINGERPRINT_TEXT], after[RA_FINGERPRINT_TEXT];
    const struct timespec times[] = {{1000000000, 5}, {1000000000, 5}};
    make("a.npy", 1);
    of_file("a.npy", RA_BSHD, before);
    assert_int_equal(utimensat(AT_FDCWD, "a.npy", times, 0), 0);
    of_file("a.npy", RA_BSHD, after);
    assert_string_not_equal(before, after);
    assert_non_null(strstr(after, "256128 bytes, modified 1000000000.000000005, sample "));
}

/* The same bytes read as another tensor are another input. */
static void layout_counts(void **state)
{
    (void)state;
    char rows[RA_FINGERPRINT_TEXT], heads[RA_FINGERPRINT_TEXT];
    make("a.npy", 1);
    of_file("a.npy", RA_BSHD, rows);
    of_file("a.npy", RA_BHSD, heads);
    assert_string_not_equal(rows, heads);
}

static void made_up(ra_distribution distribution, uint64_t seed, int64_t seq, char text[RA_FINGERPRINT_TEXT])
{
    ra_storage *storage = NULL;
    ra_tensor view = ra_tensor_dense(NULL, RA_F16, RA_BSHD, 1, seq, HEADS, DIM);
    assert_int_equal(ra_storage_generator(distribution, seed, &view, &storage), RA_OK);
    assert_int_equal(ra_storage_fingerprint(storage, text, RA_FINGERPRINT_TEXT), RA_OK);
    ra_storage_free(storage);
}

static void seed_and_shape_count(void **state)
{
    (void)state;
    char one[RA_FINGERPRINT_TEXT], other[RA_FINGERPRINT_TEXT];
    made_up(RA_NORMAL, 7, SEQ, one);
    assert_string_equal(one, "made up, normal, seed 7, float16 [1, 500, 2, 64]");
    made_up(RA_UNIFORM, 7, SEQ, other);
    assert_string_not_equal(one, other);
    made_up(RA_NORMAL, 8, SEQ, other);
    assert_string_not_equal(one, other);
    made_up(RA_NORMAL, 7, SEQ + 1, other);
    assert_string_not_equal(one, other);
}

static void memory_has_none(void **state)
{
    (void)state;
    float values[4] = {0};
    char text[RA_FINGERPRINT_TEXT] = "old";
    const ra_tensor tensor = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 2, 1, 2);
    ra_storage *storage = NULL;
    assert_int_equal(ra_storage_memory(&tensor, &storage), RA_OK);
    assert_int_equal(ra_storage_fingerprint(storage, text, sizeof text), RA_OK);
    assert_string_equal(text, "");
    assert_int_equal(ra_storage_fingerprint(storage, text, 0), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_storage_fingerprint(NULL, text, sizeof text), RA_ERROR_ARGUMENT);
    ra_storage_free(storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(content_counts),         IN_FOLDER(time_and_size_count),
        IN_FOLDER(layout_counts),          cmocka_unit_test(seed_and_shape_count),
        cmocka_unit_test(memory_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
