/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the start of a .npy file: refused with a message, or accepted as something that can be written again. */
#include "fuzz.h"
#include "io/npy_header.h"

#include <string.h>

static void check_sizes(const ra_array_header *header)
{
    MUST(header->dims >= 0 && header->dims <= RA_ARRAY_MAX_DIMS);
    for (int i = 0; i < header->dims; i++)
        MUST(header->shape[i] >= 0);
    MUST(header->count >= 0);
    MUST((header->file_bytes - header->data_at) / (int64_t)ra_dtype_size(header->dtype) == header->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ra_array_header header, written, again;
    char bytes[RA_NPY_WRITE_BYTES];
    if (size > RA_NPY_READ_BYTES)
        size = RA_NPY_READ_BYTES;
    if (ra_npy_parse("input.npy", data, size, &header)) {
        MUST(*ra_last_message());
        return 0;
    }
    check_sizes(&header);
    MUST(header.data_at <= (int64_t)size);

    /* A longer header than the one that was read can make the size overflow; nothing else may stand in the way. */
    if (ra_npy_format("output.npy", header.dtype, header.dims, header.shape, bytes, &written)) {
        MUST(header.file_bytes > INT64_MAX - RA_NPY_WRITE_BYTES);
        return 0;
    }
    MUST(ra_npy_parse("output.npy", bytes, (size_t)written.data_at, &again) == RA_OK);
    MUST(again.dtype == header.dtype && again.dims == header.dims && again.count == header.count);
    MUST(memcmp(again.shape, header.shape, sizeof header.shape) == 0);
    MUST(again.data_at == written.data_at && again.file_bytes == written.file_bytes);
    return 0;
}
