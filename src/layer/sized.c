/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of the layer that grow: their defaults, and how they are copied between a caller's version and this one. */
#include "layer/layer.h"

#include <ringattn/transport.h>
#include <string.h>

/* A struct whose first version is this one. */
#define SIZED(type, macro)                                                                                             \
    {                                                                                                                  \
#type, macro, sizeof(type), sizeof(type)                                                                       \
    }

const ra_layer_sized ra_layer_sized_options = SIZED(ra_layer_options, "RA_LAYER_OPTIONS_INIT");
const ra_layer_sized ra_layer_sized_parameters = SIZED(ra_layer_parameters, "RA_LAYER_PARAMETERS_INIT");
const ra_layer_sized ra_layer_sized_gradients = SIZED(ra_layer_gradients, "RA_LAYER_GRADIENTS_INIT");
const ra_layer_sized ra_layer_sized_info = SIZED(ra_layer_info, "RA_LAYER_INFO_INIT");
const ra_layer_sized ra_layer_sized_stats = SIZED(ra_layer_stats, "RA_LAYER_STATS_INIT");

static ra_status check(size_t size, const ra_layer_sized *kind)
{
    enum { MOST = 4096 };
    if (size < kind->first || size > MOST)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s: size %zu: set the struct up with %s", kind->name, size,
                                 kind->set_up);
    return RA_OK;
}

ra_status ra_layer_check_sized(const void *theirs, const ra_layer_sized *kind)
{
    size_t size;
    if (!theirs)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s: is NULL", kind->name);
    memcpy(&size, theirs, sizeof size);
    return check(size, kind);
}

ra_status ra_layer_copy_in(void *ours, const void *theirs, const ra_layer_sized *kind)
{
    ra_status status = ra_layer_check_sized(theirs, kind);
    size_t size;
    if (status)
        return status;
    memcpy(&size, theirs, sizeof size);
    if (size > kind->size)
        return ra_transport_fail(RA_ERROR_UNSUPPORTED, "%s: size %zu is of a newer version than this library %s",
                                 kind->name, size, ra_version());
    memcpy(ours, theirs, size);
    return RA_OK;
}

ra_status ra_layer_copy_out(void *theirs, const void *ours, const ra_layer_sized *kind)
{
    ra_status status = ra_layer_check_sized(theirs, kind);
    size_t size;
    if (status)
        return status;
    memcpy(&size, theirs, sizeof size);
    memcpy((char *)theirs + sizeof size, (const char *)ours + sizeof size,
           (size < kind->size ? size : kind->size) - sizeof size);
    return RA_OK;
}

static ra_status set_up(void *theirs, size_t size, const void *defaults, const ra_layer_sized *kind)
{
    if (!theirs)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s: the struct to set up is NULL", kind->name);
    ra_status status = check(size, kind);
    if (status)
        return status;
    memset(theirs, 0, size);
    memcpy(theirs, defaults, size < kind->size ? size : kind->size);
    memcpy(theirs, &size, sizeof size);
    return RA_OK;
}

ra_status ra_layer_options_init(ra_layer_options *options, size_t size)
{
    ra_layer_options defaults = RA_LAYER_OPTIONS_INIT;
    return set_up(options, size, &defaults, &ra_layer_sized_options);
}

ra_status ra_layer_parameters_init(ra_layer_parameters *parameters, size_t size)
{
    ra_layer_parameters defaults = RA_LAYER_PARAMETERS_INIT;
    return set_up(parameters, size, &defaults, &ra_layer_sized_parameters);
}

ra_status ra_layer_gradients_init(ra_layer_gradients *gradients, size_t size)
{
    ra_layer_gradients defaults = RA_LAYER_GRADIENTS_INIT;
    return set_up(gradients, size, &defaults, &ra_layer_sized_gradients);
}

ra_status ra_layer_info_init(ra_layer_info *info, size_t size)
{
    ra_layer_info defaults = RA_LAYER_INFO_INIT;
    return set_up(info, size, &defaults, &ra_layer_sized_info);
}

ra_status ra_layer_stats_init(ra_layer_stats *stats, size_t size)
{
    ra_layer_stats defaults = RA_LAYER_STATS_INIT;
    return set_up(stats, size, &defaults, &ra_layer_sized_stats);
}
