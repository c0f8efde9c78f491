/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens, creates, loads and stores the tensor behind a path or a word (gen:SEED, null). File formats are the library's.
 * See tensor_file.h.
 */
#include "tensor_file.h"

#include "interrupt.h"
#include "output_file.h"
#include "report.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* How much is read or written between two looks at the signals. */
enum { PIECE_ELEMENTS = 16 << 20, LINE = 64, LARGE_PAGE = 2 << 20 };

/* The view of a whole file, whose dimensions are those of `axes` from the right. */
static ra_tensor view(tensor_axes axes, ra_dtype dtype, int dims, const int64_t *shape)
{
    if (axes == AXES_BHS)
        return ra_tensor_dense(NULL, dtype, RA_BHSD, shape[0], shape[2], shape[1], 1);
    const int64_t *last = shape + dims - 3; /* seq and heads in either order, then dim */
    int64_t seq = axes == AXES_BSHD ? last[0] : last[1], heads = axes == AXES_BSHD ? last[1] : last[0];
    return ra_tensor_dense(NULL, dtype, (ra_layout)axes, dims == 4 ? shape[0] : 1, seq, heads, last[2]);
}

int tensor_file_open(tensor_file *file, const char *path, tensor_axes axes)
{
    ra_array_info info = RA_ARRAY_INFO_INIT;
    *file = (tensor_file){.path = path};
    if (!path)
        return EXIT_OK;
    if (ra_array_open(path, &file->array) || ra_array_describe(file->array, &info))
        return report_refusal();
    if (info.dtype != RA_F32 && ((info.dtype != RA_F16 && info.dtype != RA_BF16) || axes == AXES_BHS))
        return report(EXIT_USAGE, "%s: dtype %s: expected %s", path, ra_dtype_name(info.dtype),
                      axes == AXES_BHS ? "float32" : "float32, float16 or bfloat16");
    if (info.dims != 3 && (info.dims != 4 || axes == AXES_BHS))
        return report(EXIT_USAGE, "%s: %d dimensions: expected %s", path, info.dims,
                      axes == AXES_BHS ? "[batch, heads, seq]" : "4, or 3 for a batch of 1");
    file->dims = info.dims;
    file->tensor = view(axes, info.dtype, info.dims, info.shape);
    /* No batch and no positions are legal: there is nothing to do. */
    if (file->tensor.heads == 0 || file->tensor.dim == 0)
        return report(EXIT_USAGE, "%s: has no elements", path);
    return EXIT_OK;
}

/* The tensors data and scale of a path without a name; false: there are none, or they are not those of 8 bits. */
static bool open_8_bits(const char *path, ra_array **data, ra_array **scale)
{
    const char *name;
    char named[PATH_MAX];
    ra_array_info info = RA_ARRAY_INFO_INIT;
    bool found = !path[ra_array_split_path(path, &name)] && name;
    *data = *scale = NULL;
    snprintf(named, sizeof named, "%s#data", path);
    found = found && !ra_array_open(named, data) && !ra_array_describe(*data, &info) && info.dtype == RA_I8;
    snprintf(named, sizeof named, "%s#scale", path);
    found = found && !ra_array_open(named, scale);
    if (!found) {
        ra_array_close(*data);
        *data = NULL;
    }
    return found;
}

/* Whether scales are float32 in the shape of the data, with a last axis of 1. */
static bool scales_fit(const ra_array_info *data, const ra_array_info *scale)
{
    int last = data->dims - 1;
    bool fit = scale->dtype == RA_F32 && scale->dims == data->dims && scale->shape[last] == 1;
    for (int i = 0; fit && i < last; i++)
        fit = scale->shape[i] == data->shape[i];
    return fit;
}

int tensor_file_open_cached(tensor_file *file, const char *path, tensor_axes axes)
{
    ra_array *data, *scale;
    ra_array_info of_data = RA_ARRAY_INFO_INIT, of_scale = RA_ARRAY_INFO_INIT;
    if (!open_8_bits(path, &data, &scale))
        return tensor_file_open(file, path, axes);
    *file = (tensor_file){.path = path, .array = data, .scale = scale};
    if (ra_array_describe(data, &of_data) || ra_array_describe(scale, &of_scale))
        return report_refusal();
    if (of_data.dims != 3 && of_data.dims != 4)
        return report(EXIT_USAGE, "%s: data: %d dimensions: expected 4, or 3 for a batch of 1", path, of_data.dims);
    if (!scales_fit(&of_data, &of_scale))
        return report(EXIT_USAGE, "%s: scale: expected float32 in the shape of data, with a last axis of 1", path);
    file->dims = of_data.dims;
    file->tensor = view(axes, RA_F32, of_data.dims, of_data.shape);
    if (file->tensor.heads == 0 || file->tensor.dim == 0)
        return report(EXIT_USAGE, "%s: has no elements", path);
    return EXIT_OK;
}

int tensor_file_expect(const tensor_file *file, int64_t batch, int64_t seq, int64_t heads, int64_t dim)
{
    const ra_tensor *t = &file->tensor;
    char text[256];
    if (!file->path || (t->batch == batch && t->seq == seq && t->heads == heads && t->dim == dim))
        return EXIT_OK;
    return report(EXIT_USAGE, "%s: expected batch %lld, length %lld, heads %lld, dim %lld",
                  tensor_file_describe(file, text, sizeof text), (long long)batch, (long long)seq, (long long)heads,
                  (long long)dim);
}

int tensor_file_generate(tensor_file *file, const char *path, tensor_axes axes, ra_dtype dtype, int dims,
                         const int64_t *shape, ra_distribution distribution, uint64_t seed)
{
    ra_storage *storage = NULL;
    *file =
        (tensor_file){.path = path, .dims = dims, .gen = {.made = true, .distribution = distribution, .seed = seed}};
    memcpy(file->gen.shape, shape, (size_t)dims * sizeof *shape);
    file->tensor = view(axes, dtype, dims, shape);
    ra_status status = tensor_file_storage(file, &storage); /* checks the shape */
    ra_storage_free(storage);
    return status ? report(EXIT_USAGE, "%s: %s", path, ra_last_message()) : EXIT_OK;
}

bool tensor_file_is_null(const char *path)
{
    return path && strcmp(path, "null") == 0;
}

/* The path with the name of the tensor where the format has names and none was given; NULL: no memory. */
static char *named_path(const char *path, const char *default_name)
{
    const char *name;
    size_t length = strlen(path), size = length + strlen(default_name) + sizeof "#";
    bool unnamed = ra_array_split_path(path, &name) == length && name;
    char *named = malloc(size);
    if (named)
        snprintf(named, size, "%s%s%s", path, unnamed ? "#" : "", unnamed ? default_name : "");
    return named;
}

typedef ra_status (*array_maker)(const char *path, ra_dtype dtype, int dims, const int64_t *shape, ra_array **array);

/* The dimensions as a file has them. */
typedef struct file_dims {
    int64_t all[4];
    int first; /* 1: there is no batch */
} file_dims;

static file_dims dims_of(tensor_axes axes, const tensor_shape *t)
{
    bool inside = axes == AXES_BSHD; /* heads inside positions */
    return (file_dims){{t->batch, inside ? t->seq : t->heads, inside ? t->heads : t->seq, t->dim},
                       axes != AXES_BHS && t->dims == 3};
}

void tensor_file_hold(tensor_file *file, const char *name, tensor_axes axes, const tensor_shape *t)
{
    const file_dims dims = dims_of(axes, t);
    *file = (tensor_file){.path = name, .dims = t->dims};
    file->tensor = view(axes, t->dtype, t->dims, dims.all + dims.first);
}

static int make(array_maker maker, tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *t)
{
    const file_dims dims = dims_of(axes, t);
    *file = (tensor_file){.path = path};
    if (!path)
        return EXIT_OK;
    tensor_file_hold(file, path, axes, t);
    file->null.kept_nowhere = tensor_file_is_null(path);
    if (file->null.kept_nowhere)
        return EXIT_OK;
    char *named = named_path(path, t->name);
    if (!named)
        return report(EXIT_USAGE, "%s: out of memory", path);
    ra_status status = maker(named, t->dtype, t->dims, dims.all + dims.first, &file->array);
    free(named);
    return status ? report_refusal() : EXIT_OK;
}

int tensor_file_cleans(const char *path)
{
    char part[PATH_MAX], *name = temporary_name(tensor_file_part(path, part, sizeof part));
    int number = name ? interrupt_cleans(name) : 0;
    free(name);
    return number;
}

int tensor_file_create(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape)
{
    int code = make(ra_array_create, file, path, axes, shape);
    if (!code && file->array)
        file->cleaned = tensor_file_cleans(path);
    return code;
}

int tensor_file_join(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape)
{
    return make(ra_array_join, file, path, axes, shape);
}

static int64_t element_count(const tensor_file *file)
{
    const ra_tensor *t = &file->tensor;
    return t->batch * t->seq * t->heads * t->dim; /* the array has checked the product */
}

static size_t data_bytes(const tensor_file *file)
{
    return file->path ? (size_t)element_count(file) * ra_dtype_size(file->tensor.dtype) : 0;
}

int tensor_files_allocate(tensor_file *const files[], int count)
{
    int code = EXIT_OK;
    for (int i = 0; i < count && !code; i++) {
        size_t bytes = data_bytes(files[i]);
        if (bytes == 0)
            continue;
        size_t alignment = bytes < LARGE_PAGE ? LINE : LARGE_PAGE;
        files[i]->tensor.data = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        if (!files[i]->tensor.data)
            code = report(EXIT_USAGE, "%s: out of memory: %zu bytes", files[i]->path, bytes);
        else /* rows of one head lie far apart: large pages save much of finding them; no matter if refused */
            madvise(files[i]->tensor.data, bytes, MADV_HUGEPAGE);
    }
    return code;
}

/* All elements in pieces, so that a signal is seen soon. */
static int move(tensor_file *file, ra_status (*piece)(const tensor_file *file, int64_t first, int64_t count, char *at))
{
    int64_t total = file->path ? element_count(file) : 0, size = (int64_t)ra_dtype_size(file->tensor.dtype);
    for (int64_t first = 0; first < total; first += PIECE_ELEMENTS) {
        if (interrupted())
            return interrupt_exit();
        int64_t count = total - first < PIECE_ELEMENTS ? total - first : PIECE_ELEMENTS;
        ra_status status = piece(file, first, count, (char *)file->tensor.data + first * size);
        if (status)
            return report_failure(status);
    }
    return EXIT_OK;
}

ra_status tensor_file_source(const tensor_file *file, ra_storage **storage)
{
    const ra_tensor *t = &file->tensor;
    if (file->scale)
        return ra_storage_quantized(file->array, file->scale, t, storage);
    return file->gen.made ? ra_storage_generator(file->gen.distribution, file->gen.seed, t, storage)
                          : ra_storage_array(file->array, t, storage);
}

ra_status tensor_file_storage(const tensor_file *file, ra_storage **storage)
{
    const ra_tensor *t = &file->tensor;
    if (file->null.kept_nowhere)
        return ra_storage_null(t, file->null.rows, file->null.count, file->null.elements, storage);
    bool held = t->data || (!file->array && !file->gen.made);
    return held ? ra_storage_memory(t, storage) : tensor_file_source(file, storage);
}

/* A tensor in memory, to nowhere. One without elements has no memory, and no rows to write. */
static int drop(tensor_file *file)
{
    ra_storage *storage = NULL;
    ra_tensor part = file->tensor;
    ra_status status = tensor_file_storage(file, &storage);
    part.batch = 1;
    for (int64_t batch = 0; file->tensor.data && batch < file->tensor.batch && !status; batch++) {
        part.data = (char *)file->tensor.data + batch * part.batch_stride * (int64_t)ra_dtype_size(part.dtype);
        status = ra_storage_write(storage, batch, 0, part.seq, &part);
    }
    if (!status)
        status = ra_storage_checksum(storage, &file->null.checksum);
    ra_storage_free(storage);
    return status ? report_failure(status) : EXIT_OK;
}

static ra_status read_piece(const tensor_file *file, int64_t first, int64_t count, char *at)
{
    return file->gen.made ? ra_generate_as(file->gen.distribution, file->gen.seed, first, count, file->tensor.dtype, at)
                          : ra_array_read(file->array, first, count, at);
}

static ra_status write_piece(const tensor_file *file, int64_t first, int64_t count, char *at)
{
    return ra_array_write(file->array, first, count, at);
}

/* 8 bits become floats, some rows at a time. */
static int load_8_bits(tensor_file *file)
{
    const ra_tensor *t = &file->tensor;
    int64_t rows = PIECE_ELEMENTS / (t->heads * t->dim) + 1;
    ra_storage *storage = NULL;
    ra_status status = tensor_file_source(file, &storage);
    for (int64_t done = 0; done < t->batch * t->seq && !status && !interrupted();) {
        int64_t batch = done / t->seq, first = done % t->seq;
        ra_tensor part = *t;
        part.batch = 1;
        part.seq = rows < t->seq - first ? rows : t->seq - first;
        part.data = (float *)t->data + batch * t->batch_stride + first * t->seq_stride;
        status = ra_storage_read(storage, batch, first, part.seq, 0, &part);
        done += part.seq;
    }
    ra_storage_free(storage);
    if (interrupted())
        return interrupt_exit();
    return status ? report_failure(status) : EXIT_OK;
}

int tensor_file_load(tensor_file *file)
{
    if (file->scale)
        return load_8_bits(file);
    return move(file, read_piece);
}

int tensor_file_save(tensor_file *file)
{
    return file->null.kept_nowhere ? drop(file) : move(file, write_piece);
}

int tensor_file_commit(tensor_file *file)
{
    ra_status status = file->array ? ra_array_commit(file->array) : RA_OK;
    return status ? report_failure(status) : EXIT_OK;
}

void tensor_file_close(tensor_file *file)
{
    interrupt_forget(file->cleaned);
    ra_array_close(file->array);
    ra_array_close(file->scale);
    free(file->tensor.data);
    *file = (tensor_file){0};
}

const char *tensor_file_part(const char *path, char *buffer, size_t size)
{
    const char *name;
    size_t length = path ? ra_array_split_path(path, &name) : 0;
    if (!path || !path[length])
        return path;
    snprintf(buffer, size, "%.*s", (int)length, path);
    return buffer;
}

const char *tensor_file_describe(const tensor_file *file, char *text, size_t size)
{
    ra_array_info info = RA_ARRAY_INFO_INIT;
    int used = snprintf(text, size, "%s", file->path);
    if (file->gen.made) {
        info.dims = file->dims;
        memcpy(info.shape, file->gen.shape, sizeof file->gen.shape);
    } else if (ra_array_describe(file->array, &info)) {
        return text;
    }
    for (int i = 0; i < info.dims && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%lld%s", i ? ", " : " [", (long long)info.shape[i],
                         i + 1 == info.dims ? "]" : "");
    return text;
}
