#include "tensor_file.h"

#include "interrupt.h"
#include "report.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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
    if (info.dtype != RA_F32 && (info.dtype != RA_F16 || axes == AXES_BHS))
        return report(EXIT_USAGE, "%s: dtype %s: expected %s", path, ra_dtype_name(info.dtype),
                      axes == AXES_BHS ? "float32" : "float32 or float16");
    if (info.dims != 3 && (info.dims != 4 || axes == AXES_BHS))
        return report(EXIT_USAGE, "%s: %d dimensions: expected %s", path, info.dims,
                      axes == AXES_BHS ? "[batch, heads, seq]" : "4, or 3 for a batch of 1");
    if (info.count == 0)
        return report(EXIT_USAGE, "%s: has no elements", path);
    file->dims = info.dims;
    file->tensor = view(axes, info.dtype, info.dims, info.shape);
    return EXIT_OK;
}

typedef ra_status (*array_maker)(const char *path, ra_dtype dtype, int dims, const int64_t *shape, ra_array **array);

static int make(array_maker maker, tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *t)
{
    bool inside = axes == AXES_BSHD; /* heads inside positions */
    const int64_t shape[] = {t->batch, inside ? t->seq : t->heads, inside ? t->heads : t->seq, t->dim};
    *file = (tensor_file){.path = path, .dims = t->dims};
    if (!path)
        return EXIT_OK;
    const int64_t *first = axes != AXES_BHS && t->dims == 3 ? shape + 1 : shape;
    if (maker(path, t->dtype, t->dims, first, &file->array))
        return report_refusal();
    file->tensor = view(axes, t->dtype, t->dims, first);
    return EXIT_OK;
}

int tensor_file_create(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape)
{
    return make(ra_array_create, file, path, axes, shape);
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

/*
 * The system may promise more memory than it has, and end the process when it is used; so what can never fit is refused
 * here.
 */
static int check_memory(tensor_file *const files[], int count)
{
    double total = 0, memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < count; i++)
        total += (double)data_bytes(files[i]);
    if (total > memory)
        return report(EXIT_USAGE, "out of memory: the tensors take %.1f GiB, this machine has %.1f GiB",
                      total * 0x1p-30, memory * 0x1p-30);
    return EXIT_OK;
}

int tensor_files_allocate(tensor_file *const files[], int count)
{
    int code = check_memory(files, count);
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

static ra_status read_piece(const tensor_file *file, int64_t first, int64_t count, char *at)
{
    return ra_array_read(file->array, first, count, at);
}

static ra_status write_piece(const tensor_file *file, int64_t first, int64_t count, char *at)
{
    return ra_array_write(file->array, first, count, at);
}

int tensor_file_load(tensor_file *file)
{
    return move(file, read_piece);
}

int tensor_file_save(tensor_file *file)
{
    return move(file, write_piece);
}

int tensor_file_commit(tensor_file *file)
{
    ra_status status = file->path ? ra_array_commit(file->array) : RA_OK;
    return status ? report_failure(status) : EXIT_OK;
}

void tensor_file_close(tensor_file *file)
{
    ra_array_close(file->array);
    free(file->tensor.data);
    *file = (tensor_file){0};
}

const char *tensor_file_describe(const tensor_file *file, char *text, size_t size)
{
    ra_array_info info = RA_ARRAY_INFO_INIT;
    int used = snprintf(text, size, "%s", file->path);
    if (ra_array_describe(file->array, &info) == RA_OK)
        for (int i = 0; i < info.dims && (size_t)used < size; i++)
            used += snprintf(text + used, size - (size_t)used, "%s%lld%s", i ? ", " : " [", (long long)info.shape[i],
                             i + 1 == info.dims ? "]" : "");
    return text;
}
