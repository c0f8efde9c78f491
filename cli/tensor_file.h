/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor with a file behind it, FILE.npy or FILE.safetensors#NAME, or made up (gen:SEED), or kept nowhere (null).
 * Opening and creating look at files only; memory is taken by a call of its own, so that everything that can be refused
 * is refused before the work. Functions return an exit code and report.
 */
#ifndef CLI_TENSOR_FILE_H
#define CLI_TENSOR_FILE_H

#include <ringattn/ringattn.h>
#include <stdbool.h>

/* What the dimensions of a file mean. */
typedef enum tensor_axes {
    AXES_BSHD = RA_BSHD, /* [batch, seq, heads, dim], or without batch */
    AXES_BHSD = RA_BHSD, /* [batch, heads, seq, dim], or without batch */
    AXES_BHS             /* [batch, heads, seq]: a log-sum-exp */
} tensor_axes;

typedef struct tensor_file {
    const char *path; /* NULL: there is no such file, and everything below does nothing */
    ra_array *array;
    ra_array *scale;  /* of a file of 8 bits, whose data `array` is: read as float32 */
    int cleaned;      /* the number of its temporary file for interrupt_forget */
    int dims;         /* 3 or 4, as in the file */
    ra_tensor tensor; /* data is NULL until tensor_files_allocate */
    struct {
        bool made; /* gen:SEED: there is no array */
        ra_distribution distribution;
        uint64_t seed;
        int64_t shape[RA_ARRAY_MAX_DIMS]; /* [dims], as a file would have it */
    } gen;
    struct {
        bool kept_nowhere; /* null: there is no array */
        const ra_row *rows;
        int64_t count;
        void *elements;    /* [count] rows, set by whoever wants to see them */
        uint64_t checksum; /* of what was written */
    } null;
} tensor_file;

/* Open for reading: the shape and dtype of the tensor are then known. */
int tensor_file_open(tensor_file *file, const char *path, tensor_axes axes);

/* The same where 8 bits are taken, too: FILE.safetensors with the tensors data (int8) and scale (float32). */
int tensor_file_open_cached(tensor_file *file, const char *path, tensor_axes axes);

/* Made up, of a shape as a file would have it. */
int tensor_file_generate(tensor_file *file, const char *path, tensor_axes axes, ra_dtype dtype, int dims,
                         const int64_t *shape, ra_distribution distribution, uint64_t seed);

/* Whether this path of an output means that it is kept nowhere. */
bool tensor_file_is_null(const char *path);

/* An array that this process has created at this path: interrupt_cleans of what it is called until it is committed. */
int tensor_file_cleans(const char *path);

/*
 * What a file is created with: `dims` 3 or 4, of which a fourth is the batch (AXES_BHS: 3). `name` is what a tensor of
 * a .safetensors file is called if its path does not say.
 */
typedef struct tensor_shape {
    const char *name;
    int dims;
    ra_dtype dtype;
    int64_t batch, seq, heads, dim;
} tensor_shape;

/* Create for writing. */
int tensor_file_create(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape);

/* In memory only, once it is allocated. `name` is for messages. */
void tensor_file_hold(tensor_file *file, const char *name, tensor_axes axes, const tensor_shape *shape);

/* Refuse a file whose tensor has another shape. */
int tensor_file_expect(const tensor_file *file, int64_t batch, int64_t seq, int64_t heads, int64_t dim);

/* Write rows of a file that another process of the job has created. */
int tensor_file_join(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape);

/* Memory for all of them. */
int tensor_files_allocate(tensor_file *const files[], int count);

/* The whole tensor as a storage, the caller's: in memory if it is there. */
ra_status tensor_file_storage(const tensor_file *file, ra_storage **storage);

/* Where an input comes from, as a storage, the caller's: its file or what makes it up, never memory. */
ra_status tensor_file_source(const tensor_file *file, ra_storage **storage);

int tensor_file_load(tensor_file *file);
int tensor_file_save(tensor_file *file);
int tensor_file_commit(tensor_file *file);
void tensor_file_close(tensor_file *file);

/*
 * The file that a path means, without the name of a tensor in it; `buffer` is used where there is one, and a path that
 * does not fit it is cut: no file can have it. NULL stays NULL.
 */
const char *tensor_file_part(const char *path, char *buffer, size_t size);

/* "path [1, 7, 2, 64]", in the order of the file: for messages. */
const char *tensor_file_describe(const tensor_file *file, char *text, size_t size);

#endif
