/*
 * A tensor with a .npy file behind it. Opening and creating look at files only; memory is taken by a call of its own,
 * so that everything that can be refused is refused before the work. Functions return an exit code and report.
 */
#ifndef CLI_TENSOR_FILE_H
#define CLI_TENSOR_FILE_H

#include <ringattn/ringattn.h>

/* What the dimensions of a file mean. */
typedef enum tensor_axes {
    AXES_BSHD = RA_BSHD, /* [batch, seq, heads, dim], or without batch */
    AXES_BHSD = RA_BHSD, /* [batch, heads, seq, dim], or without batch */
    AXES_BHS             /* [batch, heads, seq]: a log-sum-exp */
} tensor_axes;

typedef struct tensor_file {
    const char *path; /* NULL: there is no such file, and everything below does nothing */
    ra_array *array;
    int dims;         /* 3 or 4, as in the file */
    ra_tensor tensor; /* data is NULL until tensor_files_allocate */
} tensor_file;

/* Open for reading: the shape and dtype of the tensor are then known. */
int tensor_file_open(tensor_file *file, const char *path, tensor_axes axes);

/* What a file is created with: float32 or float16, `dims` 3 or 4, of which a fourth is the batch (AXES_BHS: 3). */
typedef struct tensor_shape {
    int dims;
    ra_dtype dtype;
    int64_t batch, seq, heads, dim;
} tensor_shape;

/* Create for writing. */
int tensor_file_create(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape);

/* Write rows of a file that another process of the job has created. */
int tensor_file_join(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape);

/* Memory for all of them, or for none when it is more than there is. */
int tensor_files_allocate(tensor_file *const files[], int count);

int tensor_file_load(tensor_file *file);
int tensor_file_save(tensor_file *file);
int tensor_file_commit(tensor_file *file);
void tensor_file_close(tensor_file *file);

/* "path [1, 7, 2, 64]", in the order of the file: for messages. */
const char *tensor_file_describe(const tensor_file *file, char *text, size_t size);

#endif
