#include "base/sized.h"

#include <string.h>

/* Every struct begins with its size; none comes near the upper bound, so anything past it was never set up. */
static ra_status read_size(const void *theirs, const char *name, const char *macro, size_t *size)
{
    enum { MOST = 4096 };
    memcpy(size, theirs, sizeof *size);
    if (*size < sizeof *size || *size > MOST)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: size %zu: set the struct up with %s", name, *size, macro);
    return RA_OK;
}

ra_status ra_check_sized(const void *theirs, const char *name, const char *macro)
{
    size_t size;
    return read_size(theirs, name, macro, &size);
}

ra_status ra_copy_in(void *ours, size_t our_size, const void *theirs, const char *name, const char *macro)
{
    size_t size;
    ra_status status = read_size(theirs, name, macro, &size);
    if (status)
        return status;
    if (size > our_size)
        return ra_fail(RA_ERROR_UNSUPPORTED, "%s: size %zu is of a newer version than this library %s", name, size,
                       ra_version());
    memcpy(ours, theirs, size);
    return RA_OK;
}

ra_status ra_copy_out(void *theirs, const void *ours, size_t our_size, const char *name, const char *macro)
{
    size_t size;
    ra_status status = read_size(theirs, name, macro, &size);
    if (status)
        return status;
    memcpy((char *)theirs + sizeof size, (const char *)ours + sizeof size,
           (size < our_size ? size : our_size) - sizeof size);
    return RA_OK;
}
