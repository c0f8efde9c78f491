/* SPDX-License-Identifier: Apache-2.0 */
/* Which structs grow, and how they are copied between a caller's version and this library's. */
#include "base/sized.h"

#include <string.h>

/* A struct whose first version ended with the field `last`. */
#define SIZED(type, macro, last)                                                                                       \
    {                                                                                                                  \
#type, macro, offsetof(type, last) + sizeof(((type *)NULL)->last), sizeof(type)                                \
    }

const ra_sized ra_sized_problem = SIZED(ra_problem, "RA_PROBLEM_INIT", head_dim);
const ra_sized ra_sized_score_arrays = {"ra_score_arrays", "RA_SCORE_ARRAYS_INIT", sizeof(ra_score_arrays),
                                        sizeof(ra_score_arrays)};
const ra_sized ra_sized_options = SIZED(ra_options, "RA_OPTIONS_INIT", threads);
const ra_sized ra_sized_cache = {"ra_cache", "RA_CACHE_INIT", sizeof(ra_cache), sizeof(ra_cache)};
const ra_sized ra_sized_plan_info = SIZED(ra_plan_info, "RA_PLAN_INFO_INIT", threads);
const ra_sized ra_sized_stats = SIZED(ra_stats, "RA_STATS_INIT", threads);
const ra_sized ra_sized_array_info = SIZED(ra_array_info, "RA_ARRAY_INFO_INIT", dtype);
const ra_sized ra_sized_ring_options = SIZED(ra_ring_options, "RA_RING_OPTIONS_INIT", strategy);
const ra_sized ra_sized_rank_info = SIZED(ra_rank_info, "RA_RANK_INFO_INIT", kv_rows);
const ra_sized ra_sized_rank_stats = SIZED(ra_rank_stats, "RA_RANK_STATS_INIT", threads);
const ra_sized ra_sized_checkpoint_options = SIZED(ra_checkpoint_options, "RA_CHECKPOINT_OPTIONS_INIT", path);
const ra_sized ra_sized_system_info = SIZED(ra_system_info, "RA_SYSTEM_INFO_INIT", instruction_sets);

/* No struct comes near the upper bound, so anything past it was never set up. */
static ra_status check_size(size_t size, const ra_sized *kind)
{
    enum { MOST = 4096 };
    if (size < kind->first || size > MOST)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: size %zu: set the struct up with %s", kind->name, size, kind->set_up);
    return RA_OK;
}

static ra_status read_size(const void *theirs, const ra_sized *kind, size_t *size)
{
    memcpy(size, theirs, sizeof *size);
    return check_size(*size, kind);
}

ra_status ra_sized_init(void *theirs, size_t size, const void *defaults, const ra_sized *kind)
{
    if (!theirs)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: the struct to set up is NULL", kind->name);
    ra_status status = check_size(size, kind);
    if (status)
        return ra_fail(status, "%s: size %zu: must be sizeof(%s), which is %zu in this version %s", kind->name, size,
                       kind->name, kind->size, ra_version());
    memset(theirs, 0, size);
    memcpy(theirs, defaults, size < kind->size ? size : kind->size);
    memcpy(theirs, &size, sizeof size);
    return RA_OK;
}

ra_status ra_check_sized(const void *theirs, const ra_sized *kind)
{
    size_t size;
    return read_size(theirs, kind, &size);
}

ra_status ra_copy_in(void *ours, const void *theirs, const ra_sized *kind)
{
    size_t size;
    ra_status status = read_size(theirs, kind, &size);
    if (status)
        return status;
    if (size > kind->size)
        return ra_fail(RA_ERROR_UNSUPPORTED, "%s: size %zu is of a newer version than this library %s", kind->name,
                       size, ra_version());
    memcpy(ours, theirs, size);
    return RA_OK;
}

ra_status ra_copy_out(void *theirs, const void *ours, const ra_sized *kind)
{
    size_t size;
    ra_status status = read_size(theirs, kind, &size);
    if (status)
        return status;
    memcpy((char *)theirs + sizeof size, (const char *)ours + sizeof size,
           (size < kind->size ? size : kind->size) - sizeof size);
    return RA_OK;
}
