/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a .safetensors file: refused with a message, or accepted as something that can be written again. */
#include "fuzz.h"
#include "io/safetensors_header.h"

#include <string.h>

static void check_sizes(const ra_array_header *header, int64_t file_bytes)
{
    int64_t bytes = header->count * (int64_t)ra_dtype_size(header->dtype);
    MUST(header->dims >= 0 && header->dims <= RA_ARRAY_MAX_DIMS);
    for (int i = 0; i < header->dims; i++)
        MUST(header->shape[i] >= 0);
    MUST(header->count >= 0 && header->count <= file_bytes);
    MUST(header->data_at >= 0 && header->data_at + bytes <= file_bytes);
    MUST(header->file_bytes == file_bytes);
}

/* What was read, in a file of its own. */
static void check_again(const ra_array_header *header)
{
    ra_array_header written, again;
    char bytes[RA_SAFETENSORS_WRITE_BYTES];
    int64_t wanted = 0;
    MUST(ra_safetensors_format("output", "t", header->dtype, header->dims, header->shape, bytes, &written) == RA_OK);
    MUST(ra_safetensors_extent("output", bytes, (size_t)written.data_at, written.file_bytes, &wanted) == RA_OK);
    MUST(wanted == written.data_at && written.data_at % 64 == 0);
    MUST(ra_safetensors_parse("output", "", bytes, (size_t)wanted, written.file_bytes, &again) == RA_OK);
    MUST(memcmp(&again, &written, sizeof again) == 0);
    MUST(again.dtype == header->dtype && again.dims == header->dims && again.count == header->count);
    MUST(memcmp(again.shape, header->shape, sizeof header->shape) == 0);
}

/* Under a name, or as the only tensor. */
static void try_name(const uint8_t *data, size_t wanted, int64_t file_bytes, const char *name)
{
    ra_array_header header;
    if (ra_safetensors_parse("input", name, data, wanted, file_bytes, &header)) {
        MUST(*ra_last_message());
        return;
    }
    check_sizes(&header, file_bytes);
    check_again(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t wanted = 0;
    if (ra_safetensors_extent("input", data, size, (int64_t)size, &wanted)) {
        MUST(*ra_last_message());
        return 0;
    }
    MUST(wanted >= 8 && wanted <= (int64_t)size);
    uint8_t *header = malloc((size_t)wanted); /* so that a sanitizer sees the first byte read past it */
    MUST(header);
    memcpy(header, data, (size_t)wanted);
    try_name(header, (size_t)wanted, (int64_t)size, "");
    try_name(header, (size_t)wanted, (int64_t)size, "q");
    free(header);
    return 0;
}
