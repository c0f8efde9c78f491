/* SPDX-License-Identifier: Apache-2.0 */
/* The functions beside the RA_..._INIT macros: the same defaults for callers in other languages. */
#include "base/sized.h"

ra_status ra_problem_init(ra_problem *problem, size_t size)
{
    static const ra_problem defaults = RA_PROBLEM_INIT;
    return ra_sized_init(problem, size, &defaults, &ra_sized_problem);
}

ra_status ra_score_arrays_init(ra_score_arrays *arrays, size_t size)
{
    static const ra_score_arrays defaults = RA_SCORE_ARRAYS_INIT;
    return ra_sized_init(arrays, size, &defaults, &ra_sized_score_arrays);
}

ra_status ra_options_init(ra_options *options, size_t size)
{
    static const ra_options defaults = RA_OPTIONS_INIT;
    return ra_sized_init(options, size, &defaults, &ra_sized_options);
}

ra_status ra_plan_info_init(ra_plan_info *info, size_t size)
{
    static const ra_plan_info defaults = RA_PLAN_INFO_INIT;
    return ra_sized_init(info, size, &defaults, &ra_sized_plan_info);
}

ra_status ra_stats_init(ra_stats *stats, size_t size)
{
    static const ra_stats defaults = RA_STATS_INIT;
    return ra_sized_init(stats, size, &defaults, &ra_sized_stats);
}

ra_status ra_array_info_init(ra_array_info *info, size_t size)
{
    static const ra_array_info defaults = RA_ARRAY_INFO_INIT;
    return ra_sized_init(info, size, &defaults, &ra_sized_array_info);
}

ra_status ra_ring_options_init(ra_ring_options *options, size_t size)
{
    static const ra_ring_options defaults = RA_RING_OPTIONS_INIT;
    return ra_sized_init(options, size, &defaults, &ra_sized_ring_options);
}

ra_status ra_rank_info_init(ra_rank_info *info, size_t size)
{
    static const ra_rank_info defaults = RA_RANK_INFO_INIT;
    return ra_sized_init(info, size, &defaults, &ra_sized_rank_info);
}

ra_status ra_rank_stats_init(ra_rank_stats *stats, size_t size)
{
    static const ra_rank_stats defaults = RA_RANK_STATS_INIT;
    return ra_sized_init(stats, size, &defaults, &ra_sized_rank_stats);
}

ra_status ra_checkpoint_options_init(ra_checkpoint_options *options, size_t size)
{
    static const ra_checkpoint_options defaults = RA_CHECKPOINT_OPTIONS_INIT;
    return ra_sized_init(options, size, &defaults, &ra_sized_checkpoint_options);
}

ra_status ra_cache_init(ra_cache *cache, size_t size)
{
    static const ra_cache defaults = RA_CACHE_INIT;
    return ra_sized_init(cache, size, &defaults, &ra_sized_cache);
}

ra_status ra_system_info_init(ra_system_info *info, size_t size)
{
    static const ra_system_info defaults = RA_SYSTEM_INFO_INIT;
    return ra_sized_init(info, size, &defaults, &ra_sized_system_info);
}
