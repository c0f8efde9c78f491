/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and writes the header of a .npy file, a Python literal, by hand. See npy_header.h. */
#include "io/npy_header.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

static const char MAGIC[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, LENGTH_AT = 8, ALIGNMENT = 64, DESCR_BYTES = 24 };

/* The dtypes of files. The first line of a dtype is the one that is written. */
static const struct {
    const char *descr;
    ra_dtype dtype;
} DTYPES[] = {{"<f4", RA_F32},  {"<f2", RA_F16}, {"<i8", RA_I64}, {"|u1", RA_U8},
              {"|b1", RA_BOOL}, {"|i1", RA_I8},  {"<i4", RA_I32}};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

/* ---- A cursor over the text of the dictionary -------------------------------------------------------------------- */

typedef struct cursor {
    const char *path;
    const char *start, *at, *end;
} cursor;

static ra_status fail_expected(const cursor *c, const char *what)
{
    return ra_fail(RA_ERROR_FORMAT, "%s: malformed .npy header: expected %s at character %lld", c->path, what,
                   (long long)(c->at - c->start));
}

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

/* Skips blanks, and `symbol` if it is next. */
static bool accept(cursor *c, char symbol)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != symbol)
        return false;
    c->at++;
    return true;
}

static bool accept_word(cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* A quoted string without escapes, cut to fit; what a terminal should not see becomes '?'. */
static ra_status read_string(cursor *c, char *text, size_t size)
{
    char quote = accept(c, '\'') ? '\'' : accept(c, '"') ? '"' : 0;
    if (!quote)
        return fail_expected(c, "a quoted string");
    size_t length = 0;
    for (; c->at < c->end && *c->at != quote; c->at++)
        if (length + 1 < size)
            text[length++] = *c->at >= ' ' && *c->at <= '~' ? *c->at : '?';
    text[length] = 0;
    if (c->at == c->end)
        return fail_expected(c, "a closing quote");
    c->at++;
    return RA_OK;
}

static ra_status read_extent(cursor *c, int64_t *extent)
{
    skip_blanks(c);
    if (c->at < c->end && *c->at == '-')
        return ra_fail(RA_ERROR_FORMAT, "%s: negative extent in the shape at character %lld", c->path,
                       (long long)(c->at - c->start));
    const char *first = c->at;
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!ra_mul_ok(value, 10, &value) || !ra_add_ok(value, *c->at - '0', &value))
            return ra_fail(RA_ERROR_FORMAT, "%s: extent %.*s... in the shape overflows 64 bits", c->path,
                           (int)(c->at - first), first);
    if (c->at == first)
        return fail_expected(c, "a number");
    if (c->at < c->end && *c->at == 'L') /* as Python 2 wrote long integers */
        c->at++;
    *extent = value;
    return RA_OK;
}

/* ---- The three values -------------------------------------------------------------------------------------------- */

static ra_status read_descr(cursor *c, ra_dtype *dtype)
{
    char descr[DESCR_BYTES];
    skip_blanks(c);
    if (c->at < c->end && (*c->at == '[' || *c->at == '('))
        return ra_fail(RA_ERROR_FORMAT, "%s: structured dtypes are not supported", c->path);
    ra_status status = read_string(c, descr, sizeof descr);
    if (status)
        return status;
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(descr, DTYPES[i].descr) == 0) {
            *dtype = DTYPES[i].dtype;
            return RA_OK;
        }
    if (descr[0] == '>')
        return ra_fail(RA_ERROR_FORMAT, "%s: dtype '%s' is big-endian, which is not supported: save it as '<%s'",
                       c->path, descr, descr + 1);
    return ra_fail(RA_ERROR_FORMAT, "%s: dtype '%s' is not supported: expected '<f4', '<f2', '<i8', '|u1' or '|b1'",
                   c->path, descr);
}

static ra_status read_fortran_order(cursor *c, bool *fortran)
{
    *fortran = accept_word(c, "True");
    return *fortran || accept_word(c, "False") ? RA_OK : fail_expected(c, "True or False");
}

/* "()", "(3,)", "(3, 4)", "(3, 4,)"; "(3)" is a number in Python, not a shape. */
static ra_status read_shape(cursor *c, ra_array_header *h)
{
    if (!accept(c, '('))
        return fail_expected(c, "'('");
    bool comma = true;
    for (h->dims = 0; !accept(c, ')'); h->dims++) {
        if (!comma)
            return fail_expected(c, "',' or ')'");
        if (h->dims == RA_ARRAY_MAX_DIMS)
            return ra_fail(RA_ERROR_FORMAT, "%s: more than %d dimensions", c->path, RA_ARRAY_MAX_DIMS);
        ra_status status = read_extent(c, &h->shape[h->dims]);
        if (status)
            return status;
        comma = accept(c, ',');
    }
    return h->dims == 1 && !comma ? fail_expected(c, "',' after the only extent") : RA_OK;
}

static ra_status read_dictionary(cursor *c, ra_array_header *h, bool *fortran)
{
    static const char *const KEYS[] = {"descr", "fortran_order", "shape"};
    enum { DESCR, FORTRAN_ORDER, SHAPE, KEY_COUNT };
    unsigned seen = 0;
    bool comma = true;
    if (!accept(c, '{'))
        return fail_expected(c, "'{'");
    while (!accept(c, '}')) {
        char name[DESCR_BYTES];
        if (!comma)
            return fail_expected(c, "',' or '}'");
        ra_status status = read_string(c, name, sizeof name);
        if (status)
            return status;
        int key = 0;
        while (key < KEY_COUNT && strcmp(name, KEYS[key]) != 0)
            key++;
        if (key == KEY_COUNT || seen & 1U << key)
            return ra_fail(RA_ERROR_FORMAT, "%s: malformed .npy header: %s key '%s'", c->path,
                           key == KEY_COUNT ? "unknown" : "repeated", name);
        seen |= 1U << key;
        if (!accept(c, ':'))
            return fail_expected(c, "':'");
        status = key == DESCR           ? read_descr(c, &h->dtype)
                 : key == FORTRAN_ORDER ? read_fortran_order(c, fortran)
                                        : read_shape(c, h);
        if (status)
            return status;
        comma = accept(c, ',');
    }
    for (int key = 0; key < KEY_COUNT; key++)
        if (!(seen & 1U << key))
            return ra_fail(RA_ERROR_FORMAT, "%s: malformed .npy header: no key '%s'", c->path, KEYS[key]);
    skip_blanks(c);
    return c->at == c->end ? RA_OK : fail_expected(c, "the end of the header");
}

static int extents_above_one(const ra_array_header *h)
{
    int above = 0;
    for (int i = 0; i < h->dims; i++)
        above += h->shape[i] > 1;
    return above;
}

/* ---- Whole headers ----------------------------------------------------------------------------------------------- */

ra_status ra_npy_parse(const char *path, const void *bytes, size_t size, ra_array_header *header)
{
    const unsigned char *b = bytes;
    if (size < LENGTH_AT || memcmp(b, MAGIC, MAGIC_BYTES) != 0)
        return ra_fail(RA_ERROR_FORMAT, "%s: not a .npy file", path);
    int major = b[MAGIC_BYTES], minor = b[MAGIC_BYTES + 1];
    if (major < 1 || major > 3 || minor != 0)
        return ra_fail(RA_ERROR_FORMAT, "%s: .npy version %d.%d: expected 1.0, 2.0 or 3.0", path, major, minor);

    size_t length_bytes = major == 1 ? 2 : 4, text_at = LENGTH_AT + length_bytes;
    uint64_t length = 0;
    if (size < text_at)
        return ra_fail(RA_ERROR_FORMAT, "%s: truncated: the file ends in its .npy header, at byte %zu", path, size);
    for (size_t i = 0; i < length_bytes; i++)
        length |= (uint64_t)b[LENGTH_AT + i] << 8 * i;
    if (length > RA_NPY_READ_BYTES - text_at)
        return ra_fail(RA_ERROR_FORMAT, "%s: a .npy header of %llu bytes: a plain array's is at most %d", path,
                       (unsigned long long)length, RA_NPY_READ_BYTES - (int)text_at);
    if (length > size - text_at)
        return ra_fail(RA_ERROR_FORMAT, "%s: truncated: the .npy header takes %llu bytes, the file has %zu", path,
                       (unsigned long long)length + text_at, size);

    const char *text = (const char *)b + text_at;
    cursor c = {path, text, text, text + length};
    ra_array_header h = {.data_at = (int64_t)(text_at + length)};
    bool fortran = false;
    ra_status status = read_dictionary(&c, &h, &fortran);
    if (status)
        return status;
    if (fortran && extents_above_one(&h) > 1) /* with one long axis, both orders are the same */
        return ra_fail(RA_ERROR_FORMAT, "%s: Fortran order is not supported: save it with numpy.ascontiguousarray",
                       path);
    status = ra_array_header_measure(RA_ERROR_FORMAT, path, &h);
    if (!status)
        *header = h;
    return status;
}

ra_status ra_npy_format(const char *path, ra_dtype dtype, int dims, const int64_t *shape,
                        char bytes[RA_NPY_WRITE_BYTES], ra_array_header *header)
{
    ra_array_header h;
    int line = 0;
    while (line < DTYPE_COUNT && DTYPES[line].dtype != dtype)
        line++;
    if (line == DTYPE_COUNT)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: .npy has no dtype for %s%s", path, ra_dtype_name(dtype),
                       dtype == RA_BF16 ? ": write a .safetensors file, or choose float32 or float16" : "");
    ra_status status = ra_array_header_start(path, dtype, dims, shape, &h);
    if (status)
        return status;

    const int text_at = LENGTH_AT + 2;
    char *text = bytes + text_at;
    int used = snprintf(text, RA_NPY_WRITE_BYTES - text_at,
                        "{'descr': '%s', 'fortran_order': False, 'shape': ", DTYPES[line].descr);
    used += ra_shape_text(&h, text + used, (size_t)(RA_NPY_WRITE_BYTES - text_at - used));
    used += snprintf(text + used, (size_t)(RA_NPY_WRITE_BYTES - text_at - used), ", }");
    /* Blanks and a newline, so that the elements start aligned. */
    int length = (text_at + used + ALIGNMENT) / ALIGNMENT * ALIGNMENT - text_at;
    memset(text + used, ' ', (size_t)(length - used));
    text[length - 1] = '\n';

    memcpy(bytes, MAGIC, MAGIC_BYTES);
    bytes[MAGIC_BYTES] = 1;
    bytes[MAGIC_BYTES + 1] = 0;
    bytes[LENGTH_AT] = (char)(length & 0xff);
    bytes[LENGTH_AT + 1] = (char)(length >> 8);
    h.data_at = text_at + length;
    status = ra_array_header_measure(RA_ERROR_ARGUMENT, path, &h);
    if (!status)
        *header = h;
    return status;
}
