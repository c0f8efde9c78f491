/* SPDX-License-Identifier: Apache-2.0 */
/* .npy headers from good and bad bytes; arrays in files: ranges, temporary names, files that lie, killed processes. */
#include "io/npy_header.h"
#include "support/folder.h"
#include "support/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

/* A header of the given version around a dictionary; returns its size. */
static size_t build(int major, const char *dictionary, char *bytes)
{
    size_t length = strlen(dictionary), length_bytes = major == 1 ? 2 : 4;
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (char)major;
    bytes[7] = 0;
    for (size_t i = 0; i < length_bytes; i++)
        bytes[8 + i] = (char)(length >> 8 * i & 0xff);
    memcpy(bytes + 8 + length_bytes, dictionary, length);
    return 8 + length_bytes + length;
}

static ra_status parse(int major, const char *dictionary, ra_array_header *header)
{
    char bytes[1024];
    return ra_npy_parse("x.npy", bytes, build(major, dictionary, bytes), header);
}

static void accepts_what_numpy_writes(void **state)
{
    (void)state;
    static const struct {
        const char *dictionary;
        ra_dtype dtype;
        int dims;
        int64_t first, count;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", RA_F32, 2, 2, 6},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (7,), }\n", RA_F16, 1, 7, 7},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n", RA_I64, 0, 0, 1},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 3, 4, 5, 6, 7, 8), }\n", RA_U8, 8, 1, 40320},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (5, 0), }\n", RA_BOOL, 2, 5, 0},
        {"{'shape': (2L, 3L), 'fortran_order': False, 'descr': '<f4'}", RA_F32, 2, 2, 6},
        {"{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2,3)}", RA_F32, 2, 2, 6},
        {" { 'descr' : '<f4' ,\t'fortran_order' : False ,\n 'shape' : ( 2 , 3 , ) , } ", RA_F32, 2, 2, 6},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 9, 1), }\n", RA_F32, 3, 1, 9},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 3), }\n", RA_F32, 3, 0, 0},
    };
    for (int major = 1; major <= 3; major++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            ra_array_header header;
            assert_int_equal(parse(major, cases[i].dictionary, &header), RA_OK);
            assert_int_equal(header.dtype, cases[i].dtype);
            assert_int_equal(header.dims, cases[i].dims);
            if (header.dims)
                assert_int_equal(header.shape[0], cases[i].first);
            assert_int_equal(header.count, cases[i].count);
            assert_int_equal(header.data_at, (major == 1 ? 10 : 12) + strlen(cases[i].dictionary));
            assert_int_equal(header.file_bytes, header.data_at + header.count * (int64_t)ra_dtype_size(header.dtype));
        }
}

static void refuses_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *dictionary, *message;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "'>f4' is big-endian"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", "dtype '<f8' is not supported"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "dtype '|O' is not supported"},
        {"{'descr': '\x1b[2J', 'fortran_order': False, 'shape': (2,), }", "dtype '?[2J' is not supported"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "structured"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "Fortran order is not supported"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3), }", "expected True or False at character 34"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", "negative extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", "expected ','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", "expected ',' or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,), }", "expected a number"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", "expected '('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", "expected the end"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", "expected ',' or '}'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2", "expected ',' or ')'"},
        {"{'descr': '<f4", "expected a closing quote"},
        {"{'descr': '<f4', 'fortran_order': False}", "no key 'shape'"},
        {"{'descr': '<f4', 'descr': '<f4'}", "repeated key 'descr'"},
        {"{'descr': '<f4', 'colour': 3}", "unknown key 'colour'"},
        {"{'descr' '<f4'}", "expected ':'"},
        {"", "expected '{'"},
        {"{}", "no key 'descr'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "more than 8 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "overflows 64 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
         "shape (4294967296, 4294967296) overflows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2305843009213693952,), }", "overflows 64-bit sizes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ra_array_header header;
        assert_int_equal(parse(1, cases[i].dictionary, &header), RA_ERROR_FORMAT);
        if (!strstr(ra_last_message(), cases[i].message) || strncmp(ra_last_message(), "x.npy: ", 7) != 0)
            fail_msg("'%s' instead of '%s'", ra_last_message(), cases[i].message);
    }
}

static void refuses_every_cut(void **state)
{
    (void)state;
    char bytes[1024];
    size_t size = build(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", bytes);
    ra_array_header header;
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(ra_npy_parse("x.npy", bytes, cut, &header), RA_ERROR_FORMAT);
    assert_int_equal(ra_npy_parse("x.npy", bytes, size, &header), RA_OK);
}

static void refuses_other_starts(void **state)
{
    (void)state;
    char bytes[1024];
    ra_array_header header;
    size_t size = build(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", bytes);
    bytes[7] = 1;
    assert_int_equal(ra_npy_parse("x.npy", bytes, size, &header), RA_ERROR_FORMAT);
    assert_non_null(strstr(ra_last_message(), "version 1.1"));
    bytes[7] = 0;
    bytes[6] = 4;
    assert_int_equal(ra_npy_parse("x.npy", bytes, size, &header), RA_ERROR_FORMAT);
    assert_non_null(strstr(ra_last_message(), "version 4.0"));
    bytes[6] = 2; /* the length is now four bytes, of which two are text: far too long */
    assert_int_equal(ra_npy_parse("x.npy", bytes, size, &header), RA_ERROR_FORMAT);
    assert_non_null(strstr(ra_last_message(), "a plain array's is at most"));
    bytes[0] = 'P';
    assert_int_equal(ra_npy_parse("x.npy", bytes, size, &header), RA_ERROR_FORMAT);
    assert_non_null(strstr(ra_last_message(), "not a .npy file"));
}

static void formats_what_it_parses(void **state)
{
    (void)state;
    static const ra_dtype dtypes[] = {RA_F32, RA_F16, RA_I64, RA_U8, RA_BOOL};
    static const int64_t shape[] = {1, 2, 3, 4, 5, 6, 7, 80};
    for (int dims = 0; dims <= RA_ARRAY_MAX_DIMS; dims++)
        for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
            char bytes[RA_NPY_WRITE_BYTES];
            ra_array_header written, read;
            assert_int_equal(ra_npy_format("x.npy", dtypes[i], dims, shape, bytes, &written), RA_OK);
            assert_int_equal(written.data_at % 64, 0);
            assert_int_equal(bytes[written.data_at - 1], '\n');
            assert_int_equal(ra_npy_parse("x.npy", bytes, (size_t)written.data_at, &read), RA_OK);
            assert_memory_equal(&read, &written, sizeof read);
        }
}

/* Dictionaries of every length, one character after the other: headers end at the next multiple of 64, not past it. */
static void headers_end_where_they_should(void **state)
{
    (void)state;
    bool reached[256] = {false}; /* header bytes before the blanks, newline included */
    for (int dims = 4; dims <= RA_ARRAY_MAX_DIMS; dims++)
        for (int digits = 0; digits <= 51; digits++) { /* zeros behind the last three extents; no elements in all */
            int64_t shape[RA_ARRAY_MAX_DIMS] = {0};
            char bytes[RA_NPY_WRITE_BYTES];
            ra_array_header header, back;
            shape[dims - 1] = shape[dims - 2] = shape[dims - 3] = 1;
            for (int i = 0; i < digits; i++)
                shape[dims - 1 - i / 17] *= 10;
            assert_int_equal(ra_npy_format("x.npy", RA_F32, dims, shape, bytes, &header), RA_OK);
            int64_t end = header.data_at - 2; /* before the newline */
            while (bytes[end] == ' ')
                end--;
            int64_t needed = end + 2;
            REQUIRE(bytes[end] == '}' && bytes[header.data_at - 1] == '\n', "%d dimensions, %d digits", dims, digits);
            REQUIRE(header.data_at == (needed + 63) / 64 * 64, "%d dimensions, %d digits: %lld bytes for %lld", dims,
                    digits, (long long)header.data_at, (long long)needed);
            assert_int_equal(ra_npy_parse("x.npy", bytes, (size_t)header.data_at, &back), RA_OK);
            assert_int_equal(back.data_at, header.data_at);
            assert_memory_equal(back.shape, shape, sizeof *shape * (size_t)dims);
            reached[needed] = true;
        }
    assert_true(reached[127] && reached[128] && reached[129]); /* just under, exactly and just over two units */
}

static void formats_the_largest(void **state)
{
    (void)state;
    char bytes[RA_NPY_WRITE_BYTES];
    ra_array_header header;
    const int64_t empty[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, 0};
    const int64_t negative[] = {-1};
    assert_int_equal(ra_npy_format("x.npy", RA_F32, 8, empty, bytes, &header), RA_OK);
    assert_true(header.data_at <= RA_NPY_WRITE_BYTES);
    assert_int_equal(ra_npy_format("x.npy", RA_F32, 7, empty, bytes, &header), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_npy_format("x.npy", RA_F32, 9, empty, bytes, &header), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_npy_format("x.npy", RA_F32, 1, negative, bytes, &header), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_npy_format("x.npy", RA_BF16, 0, NULL, bytes, &header), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "bfloat16"));
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static void write_floats(const char *path, float first, int64_t count)
{
    ra_array *array;
    assert_int_equal(ra_array_create(path, RA_F32, 1, &count, &array), RA_OK);
    for (int64_t i = 0; i < count; i++) {
        float value = first + (float)i;
        assert_int_equal(ra_array_write(array, i, 1, &value), RA_OK);
    }
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
}

static void reads_ranges_of_what_was_written(void **state)
{
    (void)state;
    ra_array *array;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    float values[4] = {0};
    write_floats("a.npy", 10, 6);
    assert_int_equal(ra_array_open("a.npy", &array), RA_OK);
    assert_int_equal(ra_array_describe(array, &info), RA_OK);
    assert_int_equal(info.dtype, RA_F32);
    assert_int_equal(info.dims, 1);
    assert_int_equal(info.shape[0], 6);
    assert_int_equal(info.count, 6);
    assert_int_equal(ra_array_read(array, 2, 4, values), RA_OK);
    assert_true(values[0] == 12 && values[3] == 15);
    assert_int_equal(ra_array_read(array, 6, 0, values), RA_OK);
    assert_int_equal(ra_array_read(array, 3, 4, values), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_read(array, -1, 1, values), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_read(array, 1, INT64_MAX, values), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_write(array, 0, 1, values), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_commit(array), RA_ERROR_ARGUMENT);
    ra_array_close(array);
}

static void guards_its_structs_and_handles(void **state)
{
    (void)state;
    ra_array *array;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    float value = 0;
    write_floats("a.npy", 10, 6);
    assert_int_equal(ra_array_open("a.npy", &array), RA_OK);
    info.size = 1;
    assert_int_equal(ra_array_describe(array, &info), RA_ERROR_ARGUMENT);
    info.size = offsetof(ra_array_info, dims); /* as from a header that had no more */
    assert_int_equal(ra_array_describe(array, &info), RA_OK);
    assert_int_equal(info.size, offsetof(ra_array_info, dims));
    assert_int_equal(info.dims, 0);
    assert_int_equal(ra_array_describe(array, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_describe(NULL, &info), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_read(NULL, 0, 1, &value), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_write(NULL, 0, 1, &value), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_commit(NULL), RA_ERROR_ARGUMENT);
    ra_array_close(array);
    ra_array_close(NULL);
}

static void appears_on_commit_only(void **state)
{
    (void)state;
    const int64_t shape[] = {3};
    const float values[] = {7, 8, 9};
    float old;
    ra_array *array;
    write_floats("a.npy", 1, 3);

    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &array), RA_OK);
    assert_int_equal(ra_array_write(array, 0, 3, values), RA_OK);
    assert_int_equal(folder_entries(), 2);
    ra_array_close(array); /* without a commit: the old file stays, the temporary one goes */
    assert_int_equal(folder_entries(), 1);
    assert_int_equal(ra_array_open("a.npy", &array), RA_OK);
    assert_int_equal(ra_array_read(array, 0, 1, &old), RA_OK);
    assert_true(old == 1);
    ra_array_close(array);

    assert_int_equal(ra_array_create("./a.npy", RA_F32, 1, shape, &array), RA_OK);
    assert_int_equal(ra_array_write(array, 0, 3, values), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_write(array, 0, 3, values), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_read(array, 0, 1, &old), RA_OK);
    assert_true(old == 7);
    ra_array_close(array);
    assert_int_equal(folder_entries(), 1);
}

static float first_of(const char *path)
{
    ra_array *array;
    float value = 0;
    assert_int_equal(ra_array_open(path, &array), RA_OK);
    assert_int_equal(ra_array_read(array, 0, 1, &value), RA_OK);
    ra_array_close(array);
    return value;
}

static void two_writers_do_not_share_a_file(void **state)
{
    (void)state;
    const int64_t shape[] = {1};
    const float value = 1;
    ra_array *first, *second;
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &first), RA_OK);
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &second), RA_ERROR_FILE);
    assert_string_equal(ra_last_message(), "a.npy: cannot create: another run is writing it (a.npy.partial)");
    assert_null(second);
    assert_int_equal(ra_array_write(first, 0, 1, &value), RA_OK);
    assert_int_equal(ra_array_commit(first), RA_OK);
    /* From here on the next one may be made, though the first is still open. */
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &second), RA_OK);
    ra_array_close(first);
    assert_int_equal(folder_entries(), 2);
    ra_array_close(second);
    assert_int_equal(folder_entries(), 1);
    assert_true(first_of("a.npy") == 1);
}

/* ---- Leftovers --------------------------------------------------------------------------------------------------- */

static void a_leftover_is_replaced(void **state)
{
    (void)state;
    static char junk[5000];
    memset(junk, 'x', sizeof junk);
    folder_write("a.npy.partial", junk, sizeof junk);
    folder_write("b.npy.partial", "", 0); /* as from a run that was killed at once */
    write_floats("a.npy", 3, 2);
    write_floats("b.npy", 4, 2);
    assert_int_equal(folder_entries(), 2);
    assert_true(first_of("a.npy") == 3);
    assert_true(first_of("b.npy") == 4);
}

/* Other processes of the killed run may still have it open: what they write must not get into the new file. */
static void a_leftover_is_not_written_again(void **state)
{
    (void)state;
    const int64_t shape[] = {2};
    const float value = 9;
    folder_write("a.npy.partial", "x", 1);
    FILE *late = fopen("a.npy.partial", "r+");
    ra_array *array;
    float got;
    assert_non_null(late);
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &array), RA_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(fwrite(&value, sizeof value, 1, late), 1);
    assert_int_equal(fclose(late), 0);
    assert_int_equal(ra_array_read(array, 0, 1, &got), RA_OK);
    assert_true(got == 0);
    ra_array_close(array);
    assert_int_equal(folder_entries(), 0);
}

/* Whatever is not a file of ours stays as it is. */
static void refuses_to_replace_other_kinds(void **state)
{
    (void)state;
    const int64_t shape[] = {1};
    ra_array *array;
    folder_write("b.npy", "keep", 4);
    assert_int_equal(symlink("b.npy", "a.npy.partial"), 0);
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &array), RA_ERROR_FILE);
    assert_string_equal(ra_last_message(), "a.npy: cannot create: a.npy.partial is not a regular file");
    assert_int_equal(ra_array_join("a.npy", RA_F32, 1, shape, &array), RA_ERROR_FILE);
    assert_string_equal(ra_last_message(), "a.npy: cannot join: a.npy.partial is not a regular file");
    assert_int_equal(unlink("a.npy.partial"), 0);
    assert_int_equal(mkdir("a.npy.partial", 0777), 0);
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &array), RA_ERROR_FILE);
    assert_string_equal(ra_last_message(), "a.npy: cannot create: a.npy.partial is not a regular file");
    assert_int_equal(rmdir("a.npy.partial"), 0);
    assert_int_equal(mkfifo("a.npy.partial", 0666), 0);
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &array), RA_ERROR_FILE);
    assert_int_equal(unlink("a.npy.partial"), 0);
    struct stat kept;
    assert_int_equal(stat("b.npy", &kept), 0);
    assert_int_equal(kept.st_size, 4);
    assert_int_equal(folder_entries(), 1);
}

/* Somebody has tidied up, and another run has begun: its file is neither renamed nor removed. */
static void a_name_that_is_lost_is_let_go(void **state)
{
    (void)state;
    const int64_t shape[] = {1};
    ra_array *first, *second;
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &first), RA_OK);
    assert_int_equal(unlink("a.npy.partial"), 0);
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &second), RA_OK);
    assert_int_equal(ra_array_commit(first), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), "a.npy.partial was removed while it was written"));
    ra_array_close(first);
    assert_int_equal(ra_array_commit(second), RA_OK);
    ra_array_close(second);
    assert_int_equal(folder_entries(), 1);
}

static void refuses_names_that_are_too_long(void **state)
{
    (void)state;
    char name[252] = {0}; /* fits into a directory, but not with what is added while it is written */
    const int64_t shape[] = {1};
    ra_array *array;
    memset(name, 'n', sizeof name - 1);
    assert_int_equal(ra_array_create(name, RA_F32, 1, shape, &array), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), strerror(ENAMETOOLONG)));
    assert_int_equal(folder_entries(), 0);
}

/* ---- Several processes ------------------------------------------------------------------------------------------- */

/* A process of its own, and a pipe in each direction to take turns with it. */
typedef struct other_process {
    pid_t pid;
    int said[2], told[2];
} other_process;

static void say(const int pipe_ends[2])
{
    if (write(pipe_ends[1], "", 1) != 1)
        abort();
}

static void hear(const int pipe_ends[2])
{
    char byte;
    if (read(pipe_ends[0], &byte, 1) != 1)
        abort();
}

/* Creates a.npy, says so, and then waits for its end. It never returns to the test. */
static void create_and_wait(const other_process *other)
{
    const int64_t shape[] = {3};
    ra_array *array;
    if (ra_array_create("a.npy", RA_F32, 1, shape, &array))
        _exit(1);
    say(other->said);
    hear(other->told);
    _exit(2);
}

static void a_living_run_is_left_alone(void **state)
{
    (void)state;
    const int64_t shape[] = {1};
    other_process other;
    ra_array *array;
    int status;
    write_floats("a.npy", 5, 1);
    assert_true(pipe(other.said) == 0 && pipe(other.told) == 0);
    other.pid = fork();
    assert_true(other.pid >= 0);
    if (other.pid == 0)
        create_and_wait(&other);
    hear(other.said);
    assert_int_equal(ra_array_create("a.npy", RA_F32, 1, shape, &array), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), "another run is writing it (a.npy.partial)"));
    assert_true(first_of("a.npy") == 5);
    assert_int_equal(folder_entries(), 2);

    /* Killed, it leaves its file behind, which nobody holds then. */
    assert_int_equal(kill(other.pid, SIGKILL), 0);
    assert_int_equal(waitpid(other.pid, &status, 0), other.pid);
    assert_int_equal(folder_entries(), 2);
    write_floats("a.npy", 6, 1);
    assert_int_equal(folder_entries(), 1);
    assert_true(first_of("a.npy") == 6);
    for (int i = 0; i < 2; i++)
        close(other.said[i]), close(other.told[i]);
}

/* Joins a.npy of six values and writes the last three. It never returns to the test. */
static void join_and_write(void)
{
    const int64_t shape[] = {2, 3};
    const float values[] = {4, 5, 6};
    ra_array *array;
    if (ra_array_join("a.npy", RA_F32, 2, shape, &array) || ra_array_write(array, 3, 3, values))
        _exit(1);
    if (ra_array_commit(array) != RA_ERROR_ARGUMENT || !strstr(ra_last_message(), "cannot commit: it was joined"))
        _exit(2);
    ra_array_close(array);
    _exit(0);
}

static void processes_write_one_array(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3};
    const float values[] = {1, 2, 3};
    float got[6];
    int status;
    ra_array *array;
    assert_int_equal(ra_array_create("a.npy", RA_F32, 2, shape, &array), RA_OK);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        join_and_write();
    assert_int_equal(ra_array_write(array, 0, 3, values), RA_OK);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
    assert_int_equal(folder_entries(), 1);
    assert_int_equal(ra_array_open("a.npy", &array), RA_OK);
    assert_int_equal(ra_array_read(array, 0, 6, got), RA_OK);
    for (int i = 0; i < 6; i++)
        assert_true(got[i] == (float)(i + 1));
    ra_array_close(array);
}

static void joins_the_same_array_only(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3}, turned[] = {3, 2}, more[] = {2, 4};
    ra_array *maker, *array;
    assert_int_equal(ra_array_join("a.npy", RA_F32, 2, shape, &array), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), "a.npy: cannot join: "));
    assert_non_null(strstr(ra_last_message(), strerror(ENOENT)));
    assert_int_equal(ra_array_create("a.npy", RA_F32, 2, shape, &maker), RA_OK);
    assert_int_equal(ra_array_join("a.npy", RA_F32, 2, turned, &array), RA_ERROR_ARGUMENT);
    assert_null(array);
    assert_string_equal(ra_last_message(), "a.npy: cannot join: a.npy.partial is float32 of shape (2, 3) in 152 bytes, "
                                           "not float32 of shape (3, 2) in 152");
    assert_int_equal(ra_array_join("a.npy", RA_F32, 2, more, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_join("a.npy", RA_F32, 1, shape, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_join("a.npy", RA_F16, 2, shape, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_join("a.npy", RA_BF16, 2, shape, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_join("", RA_F32, 2, shape, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_join("a.npy", RA_F32, 2, shape, &array), RA_OK);
    ra_array_close(array); /* it is the maker's */
    assert_int_equal(folder_entries(), 1);
    assert_int_equal(truncate("a.npy.partial", 153), 0);
    assert_int_equal(ra_array_join("a.npy", RA_F32, 2, shape, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(truncate("a.npy.partial", 151), 0);
    assert_int_equal(ra_array_join("a.npy", RA_F32, 2, shape, &array), RA_ERROR_FORMAT);
    assert_non_null(strstr(ra_last_message(), "a.npy.partial: truncated"));
    ra_array_close(maker);
    folder_write("a.npy.partial", "hello world", 11);
    assert_int_equal(ra_array_join("a.npy", RA_F32, 2, shape, &array), RA_ERROR_FORMAT);
    assert_int_equal(unlink("a.npy.partial"), 0);
    assert_int_equal(folder_entries(), 0);
}

/* ---- Files that cannot be used ----------------------------------------------------------------------------------- */

static void refuses_files_that_lie(void **state)
{
    (void)state;
    char bytes[1024] = {0};
    ra_array *array;
    size_t size = build(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", bytes);
    folder_write("a.npy", bytes, size + 23);
    assert_int_equal(ra_array_open("a.npy", &array), RA_ERROR_FORMAT);
    assert_null(array);
    assert_non_null(strstr(ra_last_message(), "promises 93 bytes, the file has 92"));
    folder_write("a.npy", bytes, size + 24);
    assert_int_equal(ra_array_open("a.npy", &array), RA_OK);
    char values[24];
    assert_int_equal(truncate("a.npy", 80), 0); /* it shrinks while it is open */
    assert_int_equal(ra_array_read(array, 0, 6, values), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), "ends at byte 80"));
    ra_array_close(array);
    folder_write("a.npy", "", 0);
    assert_int_equal(ra_array_open("a.npy", &array), RA_ERROR_FORMAT);
}

static void refuses_paths_by_name(void **state)
{
    (void)state;
    const int64_t shape[] = {1};
    ra_array *array;
    assert_int_equal(mkdir("folder", 0777), 0);
    assert_int_equal(mkfifo("pipe", 0666), 0);
    assert_int_equal(ra_array_open("nowhere.npy", &array), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), strerror(ENOENT)));
    assert_int_equal(ra_array_open("folder", &array), RA_ERROR_FILE);
    assert_int_equal(ra_array_open("pipe", &array), RA_ERROR_FILE);
    assert_int_equal(ra_array_open("", &array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_open(NULL, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_create("folder", RA_F32, 1, shape, &array), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), strerror(EISDIR)));
    assert_int_equal(ra_array_create("pipe", RA_F32, 1, shape, &array), RA_ERROR_FILE);
    assert_int_equal(ra_array_create("nowhere/a.npy", RA_F32, 1, shape, &array), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), "nowhere/a.npy: cannot create: "));
    assert_int_equal(ra_array_create("", RA_F32, 1, shape, &array), RA_ERROR_ARGUMENT);
    assert_null(array);
    assert_int_equal(folder_entries(), 2);
}

/* Sparse: the elements in between take no room on the disk. */
static void reaches_past_four_gib(void **state)
{
    (void)state;
    const int64_t shape[] = {5, (int64_t)1 << 30};
    const uint8_t written[] = {1, 2, 3, 4};
    uint8_t read[5];
    ra_array *array;
    assert_int_equal(ra_array_create("a.npy", RA_U8, 2, shape, &array), RA_OK);
    assert_int_equal(ra_array_write(array, 5 * shape[1] - 4, 4, written), RA_OK);
    assert_int_equal(ra_array_read(array, 5 * shape[1] - 5, 5, read), RA_OK);
    assert_int_equal(read[0], 0);
    assert_memory_equal(read + 1, written, 4);
    ra_array_close(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_numpy_writes),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(refuses_every_cut),
        cmocka_unit_test(refuses_other_starts),
        cmocka_unit_test(formats_what_it_parses),
        cmocka_unit_test(formats_the_largest),
        cmocka_unit_test(headers_end_where_they_should),
        IN_FOLDER(reads_ranges_of_what_was_written),
        IN_FOLDER(guards_its_structs_and_handles),
        IN_FOLDER(appears_on_commit_only),
        IN_FOLDER(two_writers_do_not_share_a_file),
        IN_FOLDER(a_leftover_is_replaced),
        IN_FOLDER(a_leftover_is_not_written_again),
        IN_FOLDER(refuses_to_replace_other_kinds),
        IN_FOLDER(a_name_that_is_lost_is_let_go),
        IN_FOLDER(refuses_names_that_are_too_long),
        IN_FOLDER(a_living_run_is_left_alone),
        IN_FOLDER(processes_write_one_array),
        IN_FOLDER(joins_the_same_array_only),
        IN_FOLDER(refuses_files_that_lie),
        IN_FOLDER(refuses_paths_by_name),
        IN_FOLDER(reaches_past_four_gib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
