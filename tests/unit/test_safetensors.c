/* SPDX-License-Identifier: Apache-2.0 */
/* .safetensors headers from good and bad bytes; tensors in files: names, ranges, temporary names, files that lie. */
#include "io/safetensors_header.h"
#include "support/folder.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

enum { PREFIX = 8, FILE_BYTES = 1 << 16 };

static void put_length(uint64_t length, char *bytes)
{
    for (int i = 0; i < PREFIX; i++)
        bytes[i] = (char)(length >> 8 * i & 0xff);
}

/* The length and the text of a header; returns their size. */
static size_t build(const char *text, char *bytes)
{
    size_t length = strlen(text);
    put_length(length, bytes);
    memcpy(bytes + PREFIX, text, length + 1);
    return PREFIX + length;
}

/* A header in a file that has `data` bytes behind it. */
static ra_status parse(const char *text, int64_t data, const char *name, ra_array_header *header)
{
    static char bytes[FILE_BYTES];
    int64_t wanted = 0, size = (int64_t)build(text, bytes);
    ra_status status = ra_safetensors_extent("x.safetensors", bytes, (size_t)size, size + data, &wanted);
    if (status)
        return status;
    assert_int_equal(wanted, size);
    char *exact = malloc((size_t)size); /* so that a sanitizer sees the first byte read past it */
    assert_non_null(exact);
    memcpy(exact, bytes, (size_t)size);
    status = ra_safetensors_parse("x.safetensors", name, exact, (size_t)size, size + data, header);
    free(exact);
    return status;
}

static void expect_message(const char *part)
{
    REQUIRE(strstr(ra_last_message(), part), "'%s' instead of '%s'", ra_last_message(), part);
    REQUIRE(strncmp(ra_last_message(), "x.safetensors: ", 15) == 0, "'%s'", ra_last_message());
}

static void accepts_what_others_write(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t data;
        ra_dtype dtype;
        int dims;
        int64_t first, count;
    } cases[] = {
        {"{\"q\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24, RA_F32, 2, 2, 6},
        {"{\"q\":{\"dtype\":\"F16\",\"shape\":[7],\"data_offsets\":[0,14]}}   ", 14, RA_F16, 1, 7, 7},
        {"{\"q\":{\"dtype\":\"BF16\",\"shape\":[7,1],\"data_offsets\":[0,14]}}\n", 14, RA_BF16, 2, 7, 7},
        {"{\"q\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, RA_I64, 0, 0, 1},
        {"{\"q\":{\"dtype\":\"U8\",\"shape\":[1,2,3,4,5,6,7,1],\"data_offsets\":[0,5040]}}", 5040, RA_U8, 8, 1, 5040},
        {"{\"q\":{\"dtype\":\"BOOL\",\"shape\":[5,0],\"data_offsets\":[0,0]}}", 0, RA_BOOL, 2, 5, 0},
        {"{\"q\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807,3],\"data_offsets\":[0,0]}}", 0, RA_F32, 3, 0, 0},
        {"{ \"q\" : { \"data_offsets\" : [ 0 , 4 ] ,\t\"shape\" : [ 1 ] , \"dtype\" : \"F32\" } }", 4, RA_F32, 1, 1, 1},
        {"{\"__metadata__\":{\"format\":\"pt\"},\"q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         RA_F32, 1, 1, 1},
        {"{\"__metadata__\":{},\"q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, RA_F32, 1, 1, 1},
        {"{\"\\u0071\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, RA_F32, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int named = 0; named < 2; named++) {
            ra_array_header header = {0};
            REQUIRE(parse(cases[i].text, cases[i].data, named ? "q" : "", &header) == RA_OK, "%s", ra_last_message());
            assert_int_equal(header.dtype, cases[i].dtype);
            assert_int_equal(header.dims, cases[i].dims);
            assert_int_equal(header.shape[0], cases[i].first);
            assert_int_equal(header.count, cases[i].count);
            assert_int_equal(header.data_at, PREFIX + strlen(cases[i].text));
            assert_int_equal(header.file_bytes, header.data_at + cases[i].data);
        }
}

#define F32(name, shape, offsets) "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void refuses_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t data;
        const char *message;
    } cases[] = {
        {"", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {"{", 0, "at byte 1 of its text"},
        {"{} x", 0, "end of file expected"},
        {"{\"q\"", 0, "':' expected"},
        {"{\"q\":{\"dtype\":\"F32\",\"shape\":[1],}}", 4, "string or '}' expected"},
        {"{\"q\\ud800\":1}", 0, "malformed .safetensors header: "},
        {"{\"q\\u0000\":1}", 0, "malformed .safetensors header: "},
        {"{\"q\xff\":1}", 0, "unable to decode byte 0xff"},
        {"{\"q\xc0\xaf\":1}", 0, "unable to decode byte 0xc0"},
        {"{\"q\x01\":1}", 0, "control character 0x1"},
        {"{" F32("q", "[1]", "[0,4]") "," F32("q", "[1]", "[4,8]") "}", 8, "duplicate object key"},
        {"{\"q\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "duplicate object key"},
        {"{}", 0, "has no tensors"},
        {"{\"__metadata__\":{\"a\":\"b\"}}", 0, "has no tensors"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ must map texts to texts"},
        {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "__metadata__ must map texts to texts"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ must map texts to texts"},
        {"{\"q\":1}", 0, "tensor 'q': expected {\"dtype\": text"},
        {"{\"q\":{}}", 0, "tensor 'q': expected {\"dtype\": text"},
        {"{\"q\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor 'q': expected"},
        {"{\"q\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor 'q': expected"},
        {"{\"q\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor 'q': expected"},
        {"{\"q\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor 'q': expected"},
        {"{\"q\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "tensor 'q': expected"},
        {"{\"q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"strides\":[1]}}", 4, "tensor 'q': expected"},
        {"{" F32("q", "[-1]", "[0,4]") "}", 4, "\"shape\" must be an array of integers"},
        {"{" F32("q", "[1.0]", "[0,4]") "}", 4, "\"shape\" must be an array of integers"},
        {"{" F32("q", "[[1]]", "[0,4]") "}", 4, "\"shape\" must be an array of integers"},
        {"{" F32("q", "[\"1\"]", "[0,4]") "}", 4, "\"shape\" must be an array of integers"},
        {"{" F32("q", "[1]", "[0]") "}", 4, "must be an array of two integers"},
        {"{" F32("q", "[1]", "[0,4,8]") "}", 4, "must be an array of two integers"},
        {"{" F32("q", "[1]", "[0,4.0]") "}", 4, "must be an array of two integers"},
        {"{" F32("q", "[1]", "[-4,0]") "}", 4, "offsets -4 to 0: must be"},
        {"{" F32("q", "[1]", "[4,0]") "}", 4, "offsets 4 to 0: must be"},
        {"{" F32("q", "[1]", "[0,9223372036854775807]") "}", 4, "offsets 0 to 9223372036854775807: must be"},
        {"{" F32("q", "[1]", "[0,9223372036854775808]") "}", 4, "too big integer"},
        {"{" F32("q", "[99999999999999999999]", "[0,4]") "}", 4, "too big integer"},
        {"{" F32("q", "[4294967296,4294967296]", "[0,4]") "}", 4, "the product of its shape overflows"},
        {"{" F32("q", "[2305843009213693952]", "[0,4]") "}", 4, "its size in bits overflows"},
        {"{" F32("q", "[2]", "[0,4]") "}", 4,
         "tensor 'q': 2 elements of F32 take 64 bits, its offsets 0 to 4 hold 4 bytes"},
        {"{" F32("q", "[0]", "[0,4]") "}", 4, "0 elements of F32 take 0 bits"},
        {"{\"q\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "3 elements of F4 take 12 bits"},
        {"{\"q\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8,
         "tensor 'q': dtype 'F64' is not supported"},
        {"{\"q\":{\"dtype\":\"\\u001b[2J\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "dtype '?[2J' is not supported"},
        {"{\"\\u001b[2J\\u009b\":1}", 0, "tensor '?[2J?': expected"},
        {"{" F32("q", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "9 dimensions: at most 8"},
        {"{" F32("q", "[1]", "[0,4]") "}", 3, "truncated: its header promises 66 bytes, the file has 65"},
        {"{" F32("q", "[1]", "[0,4]") "}", 5, "belong to no tensor: its header promises 66 bytes, the file has 67"},
        {"{" F32("q", "[1]", "[4,8]") "}", 8, "nothing in the 4 bytes before tensor 'q'"},
        {"{" F32("q", "[2]", "[0,8]") "," F32("k", "[2]", "[4,12]") "}", 12,
         "tensors 'q' and 'k' overlap: bytes 0 to 8, 4 to 12"},
        {"{" F32("q", "[1]", "[0,4]") "," F32("k", "[1]", "[0,4]") "}", 4, "overlap: bytes 0 to 4, 0 to 4"},
        {"{" F32("q", "[2]", "[0,8]") "," F32("k", "[0]", "[4,4]") "}", 8, "tensors 'q' and 'k' overlap"},
        {"{" F32("k", "[1]", "[8,12]") "," F32("q", "[1]", "[0,4]") "}", 12,
         "tensors 'q' and 'k' have a gap between them: bytes 0 to 4, 8 to 12"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ra_array_header header;
        REQUIRE(parse(cases[i].text, cases[i].data, "", &header) == RA_ERROR_FORMAT, "case %zu: %s", i, cases[i].text);
        expect_message(cases[i].message);
    }
}

static void refuses_deep_text(void **state)
{
    (void)state;
    enum { DEEP = 30000 };
    static char text[2 * DEEP + 8];
    ra_array_header header;
    int used = snprintf(text, sizeof text, "{\"q\":");
    memset(text + used, '[', DEEP);
    memset(text + used + DEEP, ']', DEEP);
    text[used + 2 * DEEP] = '}';
    assert_int_equal(parse(text, 0, "", &header), RA_ERROR_FORMAT);
    expect_message("maximum parsing depth reached");
}

/* Which would take hundreds of bytes each, if they were read. */
static void refuses_too_many_values(void **state)
{
    (void)state;
    const size_t size = PREFIX + 6 + 3 * (size_t)RA_SAFETENSORS_VALUES / 2;
    ra_array_header header;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    for (size_t i = PREFIX; i < size; i++)
        bytes[i] = i < PREFIX + 6 ? "{\"q\":["[i - PREFIX] : "{},"[i % 3];
    assert_int_equal(ra_safetensors_parse("x.safetensors", "", bytes, size, (int64_t)size, &header), RA_ERROR_FORMAT);
    expect_message("a .safetensors header of up to 4000002 values: at most 4000000 are read");
    free(bytes);
}

static void refuses_lengths_that_lie(void **state)
{
    (void)state;
    char bytes[PREFIX];
    int64_t wanted = 0;
    for (size_t size = 0; size < PREFIX; size++) {
        assert_int_equal(ra_safetensors_extent("x.safetensors", "{}{}{}{}", size, (int64_t)size, &wanted),
                         RA_ERROR_FORMAT);
        expect_message("not a .safetensors file: it has ");
    }
    static const struct {
        uint64_t length;
        int64_t file;
        const char *message;
    } cases[] = {
        {3, 10, "truncated: the .safetensors header takes 11 bytes, the file has 10"},
        {RA_SAFETENSORS_READ_BYTES, 4096, "truncated: the .safetensors header takes 100000008 bytes"},
        {RA_SAFETENSORS_READ_BYTES + 1, INT64_MAX, "a header of 100000001 bytes: at most 100000000"},
        {UINT64_MAX, INT64_MAX, "a header of 18446744073709551615 bytes"},
        {UINT64_C(1) << 63, INT64_MAX, "a header of 9223372036854775808 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_length(cases[i].length, bytes);
        assert_int_equal(ra_safetensors_extent("x.safetensors", bytes, PREFIX, cases[i].file, &wanted),
                         RA_ERROR_FORMAT);
        expect_message(cases[i].message);
    }
    put_length(2, bytes);
    assert_int_equal(ra_safetensors_extent("x.safetensors", bytes, PREFIX, 10, &wanted), RA_OK);
    assert_int_equal(wanted, 10);
}

static void chooses_among_several(void **state)
{
    (void)state;
    const char *text =
        "{\"k\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[12,16]},\"__metadata__\":{\"a\":\"b\"},"
        "\"q/\\u00e9\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[12,12]},"
        "\"new\":{\"dtype\":\"F128\",\"shape\":[1],\"data_offsets\":[16,32]},"
        "\"deep\":{\"dtype\":\"I8\",\"shape\":[1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[32,33]}}";
    ra_array_header header = {0};
    int64_t data_at = PREFIX + (int64_t)strlen(text);
    assert_int_equal(parse(text, 33, "q/\xc3\xa9", &header), RA_OK);
    assert_int_equal(header.data_at, data_at);
    assert_int_equal(header.count, 3);
    assert_int_equal(parse(text, 33, "k", &header), RA_OK);
    assert_int_equal(header.data_at, data_at + 12);
    assert_int_equal(header.dtype, RA_F16);
    assert_int_equal(header.count, 2);
    assert_int_equal(header.file_bytes, data_at + 33);
    assert_int_equal(parse(text, 33, "none", &header), RA_OK);
    assert_int_equal(header.count, 0);
    assert_int_equal(parse(text, 33, "new", &header), RA_ERROR_FORMAT);
    expect_message("tensor 'new': dtype 'F128' is not supported");
    assert_int_equal(parse(text, 33, "", &header), RA_ERROR_ARGUMENT);
    expect_message("x.safetensors: has 5 tensors, choose one as x.safetensors#NAME: "
                   "'q/\xc3\xa9', 'none', 'k', 'new', 'deep'");
    assert_int_equal(parse(text, 33, "K", &header), RA_ERROR_ARGUMENT);
    expect_message("has no tensor 'K', but 'q/\xc3\xa9', 'none', 'k', 'new', 'deep'");
    assert_int_equal(parse(text, 33, "__metadata__", &header), RA_ERROR_ARGUMENT);
    expect_message("has no tensor '__metadata__'");
    /* What is wrong with one is a reason not to trust the others. */
    assert_int_equal(parse(text, 34, "k", &header), RA_ERROR_FORMAT);
}

/* Names are cut between characters, and not all of them are listed. */
static void lists_many_names(void **state)
{
    (void)state;
    enum { TENSORS = 100 };
    static char text[FILE_BYTES / 2];
    ra_array_header header;
    size_t used = 0;
    for (int i = 0; i < TENSORS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s\"%03d \xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2"
                                 "\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2"
                                 "\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2"
                                 "\x82\xac\xe2\x82\xac\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                                 i ? "," : "{", i, i, i + 1);
    snprintf(text + used, sizeof text - used, "}");
    assert_int_equal(parse(text, TENSORS, "", &header), RA_ERROR_ARGUMENT);
    expect_message("has 100 tensors, choose one as x.safetensors#NAME: '000 \xe2\x82\xac");
    expect_message("\xe2\x82\xac...', '001 ");
    expect_message(" and 94 more");
}

static void refuses_every_cut(void **state)
{
    (void)state;
    const char *text = "{" F32("q", "[2,3]", "[0,24]") "}";
    char cut[256], bytes[256];
    ra_array_header header;
    for (size_t length = 0; length < strlen(text); length++) {
        snprintf(cut, sizeof cut, "%.*s", (int)length, text);
        assert_int_equal(parse(cut, 24, "", &header), RA_ERROR_FORMAT);
    }
    size_t size = build(text, bytes);
    for (int64_t file = 0; file < (int64_t)size + 24; file++) {
        int64_t wanted = 0, here = file < (int64_t)size ? file : (int64_t)size;
        ra_status status = ra_safetensors_extent("x.safetensors", bytes, (size_t)here, file, &wanted);
        if (!status)
            status = ra_safetensors_parse("x.safetensors", "", bytes, (size_t)wanted, file, &header);
        assert_int_equal(status, RA_ERROR_FORMAT);
    }
    assert_int_equal(parse(text, 24, "", &header), RA_OK);
}

static void formats_what_it_parses(void **state)
{
    (void)state;
    static const ra_dtype dtypes[] = {RA_F32, RA_F16, RA_BF16, RA_I64, RA_U8};
    static const int64_t shape[] = {1, 2, 3, 4, 5, 6, 7, 80};
    static const char *const names[] = {"output", "a \"quoted\" \\ name\n", "\xe2\x82\xac", "#", "\x01\x02\x1f"};
    for (int dims = 0; dims <= RA_ARRAY_MAX_DIMS; dims++)
        for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
            char bytes[RA_SAFETENSORS_WRITE_BYTES];
            ra_array_header written, read;
            int64_t wanted = 0;
            assert_int_equal(ra_safetensors_format("x", names[i], dtypes[i], dims, shape, bytes, &written), RA_OK);
            assert_int_equal(written.data_at % 64, 0);
            assert_int_equal(ra_safetensors_extent("x", bytes, (size_t)written.data_at, written.file_bytes, &wanted),
                             RA_OK);
            assert_int_equal(wanted, written.data_at);
            assert_int_equal(ra_safetensors_parse("x", names[i], bytes, (size_t)wanted, written.file_bytes, &read),
                             RA_OK);
            assert_memory_equal(&read, &written, sizeof read);
        }
}

static void formats_the_largest(void **state)
{
    (void)state;
    char bytes[RA_SAFETENSORS_WRITE_BYTES], name[RA_SAFETENSORS_NAME_BYTES + 2] = {0};
    ra_array_header header;
    const int64_t empty[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, 0};
    const int64_t negative[] = {-1}, just[] = {INT64_MAX - 64};
    memset(name, '\x01', RA_SAFETENSORS_NAME_BYTES); /* six characters each in JSON */
    assert_int_equal(ra_safetensors_format("x.safetensors", name, RA_BF16, 8, empty, bytes, &header), RA_OK);
    assert_in_range(header.data_at, 1600, RA_SAFETENSORS_WRITE_BYTES);
    name[RA_SAFETENSORS_NAME_BYTES] = 'n';
    assert_int_equal(ra_safetensors_format("x.safetensors", name, RA_F32, 8, empty, bytes, &header), RA_ERROR_ARGUMENT);
    expect_message("name of 256 bytes: at most 255");
    assert_int_equal(ra_safetensors_format("x.safetensors", "q\xff", RA_F32, 8, empty, bytes, &header),
                     RA_ERROR_ARGUMENT);
    expect_message("is not UTF-8");
    assert_int_equal(ra_safetensors_format("x.safetensors", "__metadata__", RA_F32, 8, empty, bytes, &header),
                     RA_ERROR_ARGUMENT);
    expect_message("'__metadata__' is no name");
    assert_int_equal(ra_safetensors_format("x.safetensors", "q", RA_F32, 7, empty, bytes, &header), RA_ERROR_ARGUMENT);
    expect_message("overflows 64-bit sizes");
    assert_int_equal(ra_safetensors_format("x.safetensors", "q", RA_U8, 1, just, bytes, &header), RA_ERROR_ARGUMENT);
    expect_message("overflows 64-bit sizes");
    assert_int_equal(ra_safetensors_format("x.safetensors", "q", RA_F32, 9, empty, bytes, &header), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_safetensors_format("x.safetensors", "q", RA_F32, 1, negative, bytes, &header),
                     RA_ERROR_ARGUMENT);
    assert_int_equal(ra_safetensors_format("x.safetensors", "q", (ra_dtype)-1, 1, just, bytes, &header),
                     RA_ERROR_ARGUMENT);
    expect_message("no dtype for unknown");
}

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

static void splits_paths(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int file;
        const char *name; /* NULL: the format has none */
    } cases[] = {
        {"a.npy", 5, NULL},
        {"a#b.npy", 7, NULL},
        {"", 0, NULL},
        {"a.safetensors", 13, ""},
        {"a.safetensors#", 13, ""},
        {"d/a.safetensors#q", 15, "q"},
        {"a.safetensors#model.layers.0/q.npy", 13, "model.layers.0/q.npy"},
        {"a.safetensors#b.safetensors#c", 13, "b.safetensors#c"},
        {"a.safetensors/b.safetensors", 27, ""},
        {"a.safetensors/b.npy", 19, NULL},
        {"a.safetensors.partial", 21, NULL},
        {".safetensors", 12, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name;
        assert_int_equal(ra_array_split_path(cases[i].path, &name), cases[i].file);
        REQUIRE(cases[i].name ? name && strcmp(name, cases[i].name) == 0 : !name, "%s", cases[i].path);
    }
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* A file with a header and as many bytes as it speaks of: 0, 1, 2, ... */
static void write_tensors(const char *path, const char *text, size_t data)
{
    static char bytes[FILE_BYTES];
    size_t size = build(text, bytes);
    for (size_t i = 0; i < data; i++)
        bytes[size + i] = (char)i;
    folder_write(path, bytes, size + data);
}

static void reads_one_of_several(void **state)
{
    (void)state;
    ra_array *array;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    uint8_t got[4];
    write_tensors("a.safetensors",
                  "{\"q\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                  "\"k\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[3,11]}}",
                  11);
    assert_int_equal(ra_array_open("a.safetensors", &array), RA_ERROR_ARGUMENT);
    assert_null(array);
    assert_string_equal(ra_last_message(), "a.safetensors: has 2 tensors, choose one as a.safetensors#NAME: 'q', 'k'");
    assert_int_equal(ra_array_open("a.safetensors#v", &array), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "a.safetensors: has no tensor 'v', but 'q', 'k'");
    assert_int_equal(ra_array_open("a.safetensors#", &array), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "a.safetensors#: no name after '#'");
    assert_int_equal(ra_array_open("./a.safetensors#k", &array), RA_OK);
    assert_int_equal(ra_array_describe(array, &info), RA_OK);
    assert_int_equal(info.dtype, RA_BF16);
    assert_int_equal(info.dims, 2);
    assert_int_equal(info.count, 4);
    assert_int_equal(ra_array_read(array, 1, 2, got), RA_OK);
    assert_memory_equal(got, "\5\6\7\10", 4); /* though they do not lie where such numbers should */
    assert_int_equal(ra_array_read(array, 3, 2, got), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_write(array, 0, 1, got), RA_ERROR_ARGUMENT);
    ra_array_close(array);
}

/* A header that is not read with the first bytes of the file. */
static void reads_long_headers(void **state)
{
    (void)state;
    enum { TENSORS = 500 };
    static char text[FILE_BYTES / 2 + 1000];
    ra_array *array;
    uint8_t got;
    size_t used = 0;
    for (int i = 0; i < TENSORS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "{",
                                 i, i, i + 1);
    snprintf(text + used, sizeof text - used, "}");
    assert_true(used > 20000);
    write_tensors("a.safetensors", text, TENSORS);
    assert_int_equal(ra_array_open("a.safetensors#t250", &array), RA_OK);
    assert_int_equal(ra_array_read(array, 0, 1, &got), RA_OK);
    assert_int_equal(got, 250);
    ra_array_close(array);
    assert_int_equal(truncate("a.safetensors", 10000), 0);
    assert_int_equal(ra_array_open("a.safetensors#t250", &array), RA_ERROR_FORMAT);
    assert_non_null(strstr(ra_last_message(), "truncated"));
}

static void writes_what_it_reads(void **state)
{
    (void)state;
    static const ra_dtype dtypes[] = {RA_F32, RA_F16, RA_BF16, RA_I64, RA_U8};
    const int64_t shape[] = {2, 3, 5};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char values[30 * 8], got[30 * 8];
        size_t size = ra_dtype_size(dtypes[i]);
        ra_array *array;
        ra_array_info info = RA_ARRAY_INFO_INIT;
        for (size_t b = 0; b < sizeof values; b++)
            values[b] = (char)(b + i);
        assert_int_equal(ra_array_create("a.safetensors#x", dtypes[i], 3, shape, &array), RA_OK);
        assert_int_equal(ra_array_write(array, 20, 10, values + 20 * size), RA_OK);
        assert_int_equal(ra_array_write(array, 0, 20, values), RA_OK);
        assert_int_equal(ra_array_commit(array), RA_OK);
        ra_array_close(array);
        assert_int_equal(folder_entries(), 1);
        struct stat file;
        assert_int_equal(stat("a.safetensors", &file), 0);
        assert_int_equal(file.st_size, 128 + 30 * size);

        assert_int_equal(ra_array_open(i % 2 ? "a.safetensors" : "a.safetensors#x", &array), RA_OK);
        assert_int_equal(ra_array_describe(array, &info), RA_OK);
        assert_int_equal(info.dtype, dtypes[i]);
        assert_int_equal(info.dims, 3);
        assert_memory_equal(info.shape, shape, sizeof shape);
        assert_int_equal(ra_array_read(array, 0, 30, got), RA_OK);
        assert_memory_equal(got, values, 30 * size);
        ra_array_close(array);
    }
}

static void makes_names_as_asked(void **state)
{
    (void)state;
    const int64_t shape[] = {1};
    char bytes[256] = {0};
    ra_array *array;
    assert_int_equal(ra_array_create("a.safetensors", RA_F32, 1, shape, &array), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
    FILE *file = fopen("a.safetensors", "r");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), 128 + 4);
    fclose(file);
    const char *text = "{\"output\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    assert_memory_equal(bytes, "\x78\0\0\0\0\0\0\0", 8);
    assert_memory_equal(bytes + 8, text, strlen(text));
    for (size_t i = 8 + strlen(text); i < 128; i++)
        assert_int_equal(bytes[i], ' ');
    assert_int_equal(ra_array_create("a.safetensors#__metadata__", RA_F32, 1, shape, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_create("a.safetensors#", RA_F32, 1, shape, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(folder_entries(), 1);
}

static void writes_several_tensors(void **state)
{
    (void)state;
    const ra_array_part parts[] = {
        {.name = "b", .dims = 2, .shape = {2, 3}}, {.name = "a", .dims = 1, .shape = {4}}, {.name = "none", .dims = 0}};
    const float values[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    float got[6];
    ra_array *array;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    assert_int_equal(ra_array_create_parts("a.safetensors", RA_F32, 3, parts, &array), RA_OK);
    assert_int_equal(ra_array_describe(array, &info), RA_OK);
    assert_true(info.dims == 1 && info.count == 11);
    assert_int_equal(ra_array_write(array, 0, 11, values), RA_OK);
    assert_int_equal(folder_entries(), 1);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
    assert_int_equal(ra_array_open("a.safetensors#a", &array), RA_OK);
    assert_int_equal(ra_array_describe(array, &info), RA_OK);
    assert_true(info.dtype == RA_F32 && info.dims == 1 && info.shape[0] == 4);
    assert_int_equal(ra_array_read(array, 0, 4, got), RA_OK);
    assert_memory_equal(got, values + 6, 4 * sizeof *got);
    ra_array_close(array);
    assert_int_equal(ra_array_open("a.safetensors#b", &array), RA_OK);
    assert_int_equal(ra_array_read(array, 0, 6, got), RA_OK);
    assert_memory_equal(got, values, sizeof got);
    ra_array_close(array);
}

static void refuses_several_tensors(void **state)
{
    (void)state;
    const ra_array_part twice[] = {{.name = "a", .dims = 1, .shape = {4}}, {.name = "a", .dims = 1, .shape = {4}}};
    ra_array *array;
    assert_int_equal(ra_array_create_parts("a.npy", RA_F32, 1, twice, &array), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "a.npy: several tensors need a .safetensors file");
    assert_int_equal(ra_array_create_parts("a.safetensors#a", RA_F32, 1, twice, &array), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "a.safetensors#a: has a name after '#': each of its tensors has its own");
    assert_int_equal(ra_array_create_parts("a.safetensors", RA_F32, 0, twice, &array), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "a.safetensors: 0 tensors: there must be one or more");
    assert_int_equal(ra_array_create_parts("a.safetensors", RA_F32, 2, twice, &array), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "a.safetensors: two tensors are called 'a'");
    assert_null(array);
    assert_int_equal(folder_entries(), 0);
}

static void appears_on_commit_only(void **state)
{
    (void)state;
    const int64_t shape[] = {1};
    ra_array *array, *second;
    assert_int_equal(ra_array_create("a.safetensors#q", RA_F32, 1, shape, &array), RA_OK);
    assert_int_equal(access("a.safetensors.partial", F_OK), 0);
    assert_int_equal(ra_array_create("a.safetensors#k", RA_F32, 1, shape, &second), RA_ERROR_FILE);
    assert_string_equal(ra_last_message(),
                        "a.safetensors: cannot create: another run is writing it (a.safetensors.partial)");
    ra_array_close(array);
    assert_int_equal(folder_entries(), 0);
    folder_write("a.safetensors.partial", "left", 4);
    assert_int_equal(ra_array_create("a.safetensors#q", RA_F32, 1, shape, &array), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
    assert_int_equal(folder_entries(), 1);
}

/* Joins a.safetensors of six values and writes the last three. It never returns to the test. */
static void join_and_write(void)
{
    const int64_t shape[] = {2, 3};
    const uint16_t values[] = {4, 5, 6};
    ra_array *array;
    if (ra_array_join("a.safetensors#o", RA_BF16, 2, shape, &array) || ra_array_write(array, 3, 3, values))
        _exit(1);
    ra_array_close(array);
    _exit(0);
}

static void processes_write_one_array(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3};
    const uint16_t values[] = {1, 2, 3}, expected[] = {1, 2, 3, 4, 5, 6};
    uint16_t got[6];
    int status;
    ra_array *array;
    assert_int_equal(ra_array_create("a.safetensors#o", RA_BF16, 2, shape, &array), RA_OK);
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
    assert_int_equal(ra_array_open("a.safetensors", &array), RA_OK);
    assert_int_equal(ra_array_read(array, 0, 6, got), RA_OK);
    assert_memory_equal(got, expected, sizeof got);
    ra_array_close(array);
}

static void joins_the_same_array_only(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3}, turned[] = {3, 2};
    ra_array *maker, *array;
    assert_int_equal(ra_array_create("a.safetensors#o", RA_F16, 2, shape, &maker), RA_OK);
    assert_int_equal(ra_array_join("a.safetensors#o", RA_F16, 2, turned, &array), RA_ERROR_ARGUMENT);
    assert_string_equal(
        ra_last_message(),
        "a.safetensors: cannot join: a.safetensors.partial is float16 of shape (2, 3) in 140 bytes, not "
        "float16 of shape (3, 2) in 140");
    assert_int_equal(ra_array_join("a.safetensors#o", RA_BF16, 2, shape, &array), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_array_join("a.safetensors#p", RA_F16, 2, shape, &array), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "a.safetensors.partial: has no tensor 'p', but 'o'");
    assert_int_equal(ra_array_join("a.safetensors", RA_F16, 2, shape, &array), RA_ERROR_ARGUMENT);
    assert_null(array);
    assert_int_equal(ra_array_join("a.safetensors#o", RA_F16, 2, shape, &array), RA_OK);
    ra_array_close(array); /* it is the maker's */
    ra_array_close(maker);
    assert_int_equal(folder_entries(), 0);
}

static void refuses_files_that_lie(void **state)
{
    (void)state;
    char values[24];
    ra_array *array;
    write_tensors("a.safetensors", "{" F32("q", "[2,3]", "[0,24]") "}", 23);
    assert_int_equal(ra_array_open("a.safetensors", &array), RA_ERROR_FORMAT);
    assert_non_null(strstr(ra_last_message(), "truncated: its header promises 89 bytes, the file has 88"));
    write_tensors("a.safetensors", "{" F32("q", "[2,3]", "[0,24]") "}", 24);
    assert_int_equal(ra_array_open("a.safetensors", &array), RA_OK);
    assert_int_equal(truncate("a.safetensors", 80), 0); /* it shrinks while it is open */
    assert_int_equal(ra_array_read(array, 0, 6, values), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), "ends at byte 80"));
    ra_array_close(array);
    folder_write("a.safetensors", "", 0);
    assert_int_equal(ra_array_open("a.safetensors", &array), RA_ERROR_FORMAT);
    folder_write("a.safetensors", "hello world", 11);
    assert_int_equal(ra_array_open("a.safetensors", &array), RA_ERROR_FORMAT);
    assert_non_null(
        strstr(ra_last_message(), "not a .safetensors file, or a broken one: a header of 8031924123371070824"));
    assert_int_equal(ra_array_open("b.safetensors#q", &array), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), "b.safetensors: cannot open"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_others_write),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(refuses_deep_text),
        cmocka_unit_test(refuses_too_many_values),
        cmocka_unit_test(refuses_lengths_that_lie),
        cmocka_unit_test(chooses_among_several),
        cmocka_unit_test(lists_many_names),
        cmocka_unit_test(refuses_every_cut),
        cmocka_unit_test(formats_what_it_parses),
        cmocka_unit_test(formats_the_largest),
        cmocka_unit_test(splits_paths),
        IN_FOLDER(reads_one_of_several),
        IN_FOLDER(reads_long_headers),
        IN_FOLDER(writes_what_it_reads),
        IN_FOLDER(makes_names_as_asked),
        IN_FOLDER(writes_several_tensors),
        IN_FOLDER(refuses_several_tensors),
        IN_FOLDER(appears_on_commit_only),
        IN_FOLDER(processes_write_one_array),
        IN_FOLDER(joins_the_same_array_only),
        IN_FOLDER(refuses_files_that_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
