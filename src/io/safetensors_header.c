/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a header is read and written with jansson: of the JSON libraries at hand it is the one that refuses what
 * the format forbids (keys that are there twice, text that is not UTF-8, integers past 64 bits) and bounds the depth.
 */
#include "io/safetensors_header.h"

#include "base/checked.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, ALIGNMENT = 64, SHOWN_BYTES = 68, LIST_BYTES = 512, NO_DTYPE = -1 };

static const char METADATA[] = "__metadata__";

/* All dtypes of the format. The first line of an ra_dtype is the one that is written. */
typedef struct dtype_line {
    const char *name;
    int bits;
    int dtype; /* an ra_dtype, or NO_DTYPE */
} dtype_line;

static const dtype_line DTYPES[] = {
    {"F32", 32, RA_F32},      {"F16", 16, RA_F16},  {"BF16", 16, RA_BF16},    {"I64", 64, RA_I64},
    {"U8", 8, RA_U8},         {"BOOL", 8, RA_BOOL}, {"F64", 64, NO_DTYPE},    {"C64", 64, NO_DTYPE},
    {"U64", 64, NO_DTYPE},    {"I32", 32, RA_I32},  {"U32", 32, NO_DTYPE},    {"I16", 16, NO_DTYPE},
    {"U16", 16, NO_DTYPE},    {"I8", 8, RA_I8},     {"F8_E4M3", 8, NO_DTYPE}, {"F8_E5M2", 8, NO_DTYPE},
    {"F8_E8M0", 8, NO_DTYPE}, {"F4", 4, NO_DTYPE},  {"F6_E2M3", 6, NO_DTYPE}, {"F6_E3M2", 6, NO_DTYPE},
};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

/* ---- Text for messages ------------------------------------------------------------------------------------------- */

/* Text of the file, cut to fit between characters; what a terminal should not see becomes '?'. */
static const char *shown(const char *text, char out[SHOWN_BYTES])
{
    size_t used = 0, limit = SHOWN_BYTES - sizeof "...";
    const unsigned char *at = (const unsigned char *)text;
    for (; *at && used < limit; at++) {
        bool control = *at < ' ' || *at == 0x7f || (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0);
        if (control && *at == 0xc2) /* two bytes, one character */
            at++;
        out[used++] = control ? '?' : (char)*at;
    }
    while (*at && used > 0 && (*at & 0xc0) == 0x80) { /* the first byte of a character tells from the rest of it */
        at--;
        used--;
    }
    snprintf(out + used, SHOWN_BYTES - used, "%s", *at ? "..." : "");
    return out;
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

typedef struct tensor {
    const char *name, *dtype_name;
    const dtype_line *dtype; /* NULL: one that this file does not know */
    const json_t *shape;
    int64_t begin, end;
} tensor;

typedef struct reader {
    const char *path;
    json_t *root;
    tensor *tensors; /* [count], owned */
    size_t count;
    int64_t data_at;
} reader;

static ra_status fail_tensor(const reader *r, const char *name, const char *problem)
{
    char text[SHOWN_BYTES];
    return ra_fail(RA_ERROR_FORMAT, "%s: malformed .safetensors header: tensor '%s': %s", r->path, shown(name, text),
                   problem);
}

/* The elements of a shape; an extent of 0 makes an empty tensor, whatever the others are. */
static ra_status count_elements(const reader *r, const tensor *t, int64_t *count)
{
    bool fits = true, empty = false;
    *count = 1;
    for (size_t i = 0; i < json_array_size(t->shape); i++) {
        const json_t *extent = json_array_get(t->shape, i);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0)
            return fail_tensor(r, t->name, "\"shape\" must be an array of integers that are not negative");
        empty |= json_integer_value(extent) == 0;
        fits = fits && ra_mul_ok(*count, json_integer_value(extent), count);
    }
    if (empty)
        *count = 0;
    return fits || empty ? RA_OK : fail_tensor(r, t->name, "the product of its shape overflows 64 bits");
}

static ra_status read_offsets(const reader *r, const json_t *offsets, tensor *t)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return fail_tensor(r, t->name, "\"data_offsets\" must be an array of two integers");
    t->begin = json_integer_value(begin);
    t->end = json_integer_value(end);
    int64_t file_end;
    if (t->begin >= 0 && t->end >= t->begin && ra_add_ok(r->data_at, t->end, &file_end))
        return RA_OK;
    char problem[128];
    snprintf(problem, sizeof problem, "offsets %lld to %lld: must be 0 or more, in order, and fit 64 bits",
             (long long)t->begin, (long long)t->end);
    return fail_tensor(r, t->name, problem);
}

/* The offsets must leave as much room as shape and dtype take; of a dtype that is not known, nobody can tell. */
static ra_status check_size(const reader *r, const tensor *t)
{
    int64_t count, bits;
    ra_status status = count_elements(r, t, &count);
    if (status || !t->dtype)
        return status;
    if (!ra_mul_ok(count, t->dtype->bits, &bits))
        return fail_tensor(r, t->name, "its size in bits overflows 64 bits");
    if (bits % 8 == 0 && bits / 8 == t->end - t->begin)
        return RA_OK;
    char problem[160];
    snprintf(problem, sizeof problem, "%lld elements of %s take %lld bits, its offsets %lld to %lld hold %lld bytes",
             (long long)count, t->dtype_name, (long long)bits, (long long)t->begin, (long long)t->end,
             (long long)(t->end - t->begin));
    return fail_tensor(r, t->name, problem);
}

static ra_status read_tensor(const reader *r, const char *name, const json_t *object, tensor *t)
{
    const json_t *dtype = json_object_get(object, "dtype"), *offsets = json_object_get(object, "data_offsets");
    *t = (tensor){.name = name, .shape = json_object_get(object, "shape")};
    if (!json_is_string(dtype) || !json_is_array(t->shape) || !json_is_array(offsets) || json_object_size(object) != 3)
        return fail_tensor(r, name, "expected {\"dtype\": text, \"shape\": array, \"data_offsets\": array}");
    t->dtype_name = json_string_value(dtype);
    for (int i = 0; i < DTYPE_COUNT && !t->dtype; i++)
        if (strcmp(t->dtype_name, DTYPES[i].name) == 0)
            t->dtype = &DTYPES[i];
    ra_status status = read_offsets(r, offsets, t);
    return status ? status : check_size(r, t);
}

/* Free text about the file, of which nothing is used. */
static ra_status check_metadata(const reader *r, json_t *metadata)
{
    const char *key;
    json_t *value;
    bool texts = json_is_object(metadata);
    json_object_foreach(metadata, key, value) texts = texts && json_is_string(value);
    return texts ? RA_OK
                 : ra_fail(RA_ERROR_FORMAT, "%s: malformed .safetensors header: %s must map texts to texts", r->path,
                           METADATA);
}

static ra_status read_tensors(reader *r)
{
    const char *name;
    json_t *value;
    size_t size = json_object_size(r->root);
    r->tensors = calloc(size ? size : 1, sizeof *r->tensors);
    if (!r->tensors)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: %zu tensors in its header", r->path, size);
    ra_status status = RA_OK;
    json_object_foreach(r->root, name, value)
    {
        if (strcmp(name, METADATA) == 0)
            status = check_metadata(r, value);
        else
            status = read_tensor(r, name, value, &r->tensors[r->count++]);
        if (status)
            break;
    }
    return status;
}

/* ---- The whole file ---------------------------------------------------------------------------------------------- */

/* An empty tensor comes before the one that begins where it lies. */
static int by_offset(const void *a, const void *b)
{
    const tensor *x = a, *y = b;
    int begins = (x->begin > y->begin) - (x->begin < y->begin);
    return begins ? begins : (x->end > y->end) - (x->end < y->end);
}

static ra_status fail_neighbours(const reader *r, const tensor *before, const tensor *t)
{
    char first[SHOWN_BYTES], second[SHOWN_BYTES];
    if (!before)
        return ra_fail(RA_ERROR_FORMAT,
                       "%s: malformed .safetensors header: nothing in the %lld bytes before tensor '%s'", r->path,
                       (long long)t->begin, shown(t->name, second));
    return ra_fail(RA_ERROR_FORMAT,
                   "%s: malformed .safetensors header: tensors '%s' and '%s' %s: bytes %lld to %lld, %lld to %lld",
                   r->path, shown(before->name, first), shown(t->name, second),
                   t->begin < before->end ? "overlap" : "have a gap between them", (long long)before->begin,
                   (long long)before->end, (long long)t->begin, (long long)t->end);
}

/* One after the other, from the end of the header to the end of the file; they are then in this order. */
static ra_status check_cover(const reader *r, int64_t file_bytes)
{
    int64_t end = 0;
    qsort(r->tensors, r->count, sizeof *r->tensors, by_offset);
    for (size_t i = 0; i < r->count; i++) {
        if (r->tensors[i].begin != end)
            return fail_neighbours(r, i ? &r->tensors[i - 1] : NULL, &r->tensors[i]);
        end = r->tensors[i].end;
    }
    end += r->data_at;
    if (end == file_bytes)
        return RA_OK;
    return ra_fail(RA_ERROR_FORMAT, "%s: %s: its header promises %lld bytes, the file has %lld", r->path,
                   end > file_bytes ? "truncated" : "bytes that belong to no tensor", (long long)end,
                   (long long)file_bytes);
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

/* "'q', 'k' and 3 more" */
static const char *list_names(const reader *r, char list[LIST_BYTES])
{
    size_t used = 0, i = 0;
    char text[SHOWN_BYTES];
    for (; i < r->count && used < LIST_BYTES - 2 * SHOWN_BYTES; i++)
        used +=
            (size_t)snprintf(list + used, LIST_BYTES - used, "%s'%s'", i ? ", " : "", shown(r->tensors[i].name, text));
    if (i < r->count)
        snprintf(list + used, LIST_BYTES - used, " and %zu more", r->count - i);
    return list;
}

static ra_status choose(const reader *r, const char *name, const tensor **chosen)
{
    char list[LIST_BYTES], text[SHOWN_BYTES];
    if (r->count == 0)
        return ra_fail(RA_ERROR_FORMAT, "%s: has no tensors", r->path);
    *chosen = NULL;
    for (size_t i = 0; i < r->count; i++)
        if (*name ? strcmp(r->tensors[i].name, name) == 0 : r->count == 1)
            *chosen = &r->tensors[i];
    if (*chosen)
        return RA_OK;
    if (*name)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: has no tensor '%s', but %s", r->path, shown(name, text),
                       list_names(r, list));
    return ra_fail(RA_ERROR_ARGUMENT, "%s: has %zu tensors, choose one as %s#NAME: %s", r->path, r->count, r->path,
                   list_names(r, list));
}

static ra_status describe(const reader *r, const tensor *t, int64_t file_bytes, ra_array_header *header)
{
    char name[SHOWN_BYTES], dtype[SHOWN_BYTES];
    size_t dims = json_array_size(t->shape);
    if (!t->dtype || t->dtype->dtype == NO_DTYPE)
        return ra_fail(RA_ERROR_FORMAT,
                       "%s: tensor '%s': dtype '%s' is not supported: expected F32, F16, BF16, I64, U8 or BOOL",
                       r->path, shown(t->name, name), shown(t->dtype_name, dtype));
    if (dims > RA_ARRAY_MAX_DIMS)
        return ra_fail(RA_ERROR_FORMAT, "%s: tensor '%s': %zu dimensions: at most %d are supported", r->path,
                       shown(t->name, name), dims, RA_ARRAY_MAX_DIMS);
    ra_array_header h = {.dtype = (ra_dtype)t->dtype->dtype, .dims = (int)dims};
    for (size_t i = 0; i < dims; i++)
        h.shape[i] = json_integer_value(json_array_get(t->shape, i));
    h.count = (t->end - t->begin) / (int64_t)ra_dtype_size(h.dtype);
    h.data_at = r->data_at + t->begin;
    h.file_bytes = file_bytes;
    *header = h;
    return RA_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

ra_status ra_safetensors_extent(const char *path, const void *bytes, size_t size, int64_t file_bytes, int64_t *wanted)
{
    const unsigned char *b = bytes;
    uint64_t length = 0;
    if (size < LENGTH_BYTES)
        return ra_fail(RA_ERROR_FORMAT,
                       "%s: not a .safetensors file: it has %zu bytes, the length of its header takes %d", path, size,
                       LENGTH_BYTES);
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)b[i] << 8 * i;
    if (length > RA_SAFETENSORS_READ_BYTES)
        return ra_fail(RA_ERROR_FORMAT,
                       "%s: not a .safetensors file, or a broken one: a header of %llu bytes: at most %d", path,
                       (unsigned long long)length, RA_SAFETENSORS_READ_BYTES);
    if ((int64_t)length > file_bytes - LENGTH_BYTES)
        return ra_fail(RA_ERROR_FORMAT, "%s: truncated: the .safetensors header takes %llu bytes, the file has %lld",
                       path, (unsigned long long)length + LENGTH_BYTES, (long long)file_bytes);
    *wanted = (int64_t)length + LENGTH_BYTES;
    return RA_OK;
}

/*
 * A tree of values takes far more memory than its text, "{}," the most: so they are counted before there is a tree.
 * Each stands behind one of these marks, or behind a key that does; marks in texts are counted with them.
 */
static ra_status check_values(const char *path, const char *text, size_t length)
{
    int64_t values = 0;
    for (size_t i = 0; i < length; i++)
        values += text[i] == '{' || text[i] == '[' || text[i] == ',';
    if (values <= RA_SAFETENSORS_VALUES)
        return RA_OK;
    return ra_fail(RA_ERROR_FORMAT, "%s: a .safetensors header of up to %lld values: at most %d are read", path,
                   (long long)values, RA_SAFETENSORS_VALUES);
}

/* A failure without a word is one of memory: the text is empty then. */
static ra_status fail_json(const char *path, const json_error_t *error)
{
    char text[SHOWN_BYTES];
    if (!*error->text || json_error_code(error) == json_error_out_of_memory)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: its header as JSON", path);
    return ra_fail(RA_ERROR_FORMAT, "%s: malformed .safetensors header: %s at byte %d of its text", path,
                   shown(error->text, text), error->position);
}

ra_status ra_safetensors_parse(const char *path, const char *name, const void *bytes, size_t size, int64_t file_bytes,
                               ra_array_header *header)
{
    const char *text = (const char *)bytes + LENGTH_BYTES;
    json_error_t error;
    if (size <= LENGTH_BYTES || *text != '{')
        return ra_fail(RA_ERROR_FORMAT, "%s: malformed .safetensors header: its text does not begin with '{'", path);
    ra_status status = check_values(path, text, size - LENGTH_BYTES);
    if (status)
        return status;
    reader r = {.path = path, .data_at = (int64_t)size};
    r.root = json_loadb(text, size - LENGTH_BYTES, JSON_REJECT_DUPLICATES, &error);
    if (!r.root)
        return fail_json(path, &error);
    const tensor *chosen = NULL;
    status = read_tensors(&r);
    if (!status)
        status = check_cover(&r, file_bytes);
    if (!status)
        status = choose(&r, name, &chosen);
    if (!status)
        status = describe(&r, chosen, file_bytes, header);
    free(r.tensors);
    json_decref(r.root);
    return status;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static ra_status check_name(const char *path, const char *name)
{
    char text[SHOWN_BYTES];
    size_t length = strlen(name);
    if (length > RA_SAFETENSORS_NAME_BYTES)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: a tensor's name of %zu bytes: at most %d are written", path, length,
                       RA_SAFETENSORS_NAME_BYTES);
    if (strcmp(name, METADATA) == 0)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: '%s' is no name for a tensor: .safetensors keeps texts under it", path,
                       shown(name, text));
    return RA_OK;
}

static json_t *extents(const ra_array_part *part)
{
    json_t *array = json_array();
    for (int i = 0; i < part->dims; i++)
        json_array_append_new(array, json_integer(part->shape[i])); /* what fails leaves an extent out */
    if (json_array_size(array) == (size_t)part->dims)
        return array;
    json_decref(array);
    return NULL;
}

/* What the format calls a dtype; NULL: it has none. */
static const char *written_name(ra_dtype dtype)
{
    for (int line = 0; line < DTYPE_COUNT; line++)
        if (DTYPES[line].dtype == (int)dtype && (int)dtype != NO_DTYPE)
            return DTYPES[line].name;
    return NULL;
}

/* Adds a tensor whose elements begin at byte *offset, and moves that behind them. */
static ra_status add_part(const char *path, ra_dtype dtype, const ra_array_part *part, json_t *root, int64_t *offset)
{
    char shown_name[SHOWN_BYTES];
    json_error_t error;
    ra_array_header h;
    const char *dtype_name = written_name(dtype);
    ra_status status = check_name(path, part->name);
    if (!status && !dtype_name)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: .safetensors has no dtype for %s", path, ra_dtype_name(dtype));
    if (!status)
        status = ra_array_header_start(path, dtype, part->dims, part->shape, &h);
    if (status)
        return status;
    h.data_at = *offset;
    status = ra_array_header_measure(RA_ERROR_ARGUMENT, path, &h);
    if (status)
        return status;
    /* 'o' takes the reference, also when packing fails; a NULL part makes it fail. */
    json_t *tensor = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_name, "shape", extents(part), "data_offsets",
                               (json_int_t)*offset, (json_int_t)h.file_bytes);
    *offset = h.file_bytes;
    json_t *named = tensor ? json_pack_ex(&error, 0, "{s:o}", part->name, tensor) : NULL;
    if (tensor && !named && json_error_code(&error) == json_error_invalid_utf8)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: the tensor's name '%s' is not UTF-8", path,
                       shown(part->name, shown_name));
    bool again = json_object_get(root, part->name) != NULL, added = named && json_object_update(root, named) == 0;
    json_decref(named);
    if (again)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: two tensors are called '%s'", path, shown(part->name, shown_name));
    return added ? RA_OK : ra_fail(RA_ERROR_MEMORY, "%s: out of memory: its header as JSON", path);
}

/* The text of the header, its length, and the bytes of the elements. */
static ra_status write_text(const char *path, ra_dtype dtype, const ra_dtype *dtypes, int count,
                            const ra_array_part *parts, char *text, size_t *length, int64_t *elements)
{
    const size_t most = RA_SAFETENSORS_WRITE_BYTES - LENGTH_BYTES;
    json_t *root = json_object();
    ra_status status = root ? RA_OK : ra_fail(RA_ERROR_MEMORY, "%s: out of memory: its header as JSON", path);
    *elements = 0;
    for (int i = 0; i < count && !status; i++)
        status = add_part(path, dtypes ? dtypes[i] : dtype, &parts[i], root, elements);
    *length = status ? 0 : json_dumpb(root, text, most, JSON_COMPACT);
    json_decref(root);
    if (!status && *length == 0)
        status = ra_fail(RA_ERROR_MEMORY, "%s: out of memory: its header as JSON", path);
    if (!status && *length + ALIGNMENT > most)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: the header of %d tensors takes %zu bytes: at most %zu are written",
                         path, count, *length, most - ALIGNMENT);
    return status;
}

ra_status ra_safetensors_format_parts(const char *path, ra_dtype dtype, const ra_dtype *dtypes, int count,
                                      const ra_array_part *parts, char bytes[RA_SAFETENSORS_WRITE_BYTES],
                                      ra_array_header *header)
{
    size_t used = 0;
    int64_t elements = 0;
    ra_status status = write_text(path, dtype, dtypes, count, parts, bytes + LENGTH_BYTES, &used, &elements);
    if (status)
        return status;
    used += LENGTH_BYTES;
    size_t size = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memset(bytes + used, ' ', size - used);
    for (int i = 0; i < LENGTH_BYTES; i++)
        bytes[i] = (char)((size - LENGTH_BYTES) >> 8 * i & 0xff);
    *header = (ra_array_header){.dtype = dtype, .dims = 1, .data_at = (int64_t)size};
    header->shape[0] = elements / (int64_t)ra_dtype_size(dtype);
    return ra_array_header_measure(RA_ERROR_ARGUMENT, path, header);
}

ra_status ra_safetensors_format(const char *path, const char *name, ra_dtype dtype, int dims, const int64_t *shape,
                                char bytes[RA_SAFETENSORS_WRITE_BYTES], ra_array_header *header)
{
    ra_array_header h;
    ra_array_part part = {.name = name, .dims = dims};
    ra_status status = ra_array_header_start(path, dtype, dims, shape, &h);
    if (status)
        return status;
    memcpy(part.shape, h.shape, sizeof part.shape);
    status = ra_safetensors_format_parts(path, dtype, NULL, 1, &part, bytes, header);
    header->dims = dims;
    memcpy(header->shape, h.shape, sizeof h.shape);
    return status;
}
