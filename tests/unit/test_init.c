/* SPDX-License-Identifier: Apache-2.0 */
/* The functions beside the RA_..._INIT macros: the same defaults, for a struct of any version. */
#include "ringattn/ringattn.h"
#include "support/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef ra_status (*set_up)(void *memory, size_t size);

#define KIND(type, macro)                                                                                              \
    static const type type##_defaults = macro;                                                                         \
    static ra_status type##_set_up(void *memory, size_t size)                                                          \
    {                                                                                                                  \
        return type##_init(memory, size);                                                                              \
    }

KIND(ra_problem, RA_PROBLEM_INIT)
KIND(ra_score_arrays, RA_SCORE_ARRAYS_INIT)
KIND(ra_options, RA_OPTIONS_INIT)
KIND(ra_plan_info, RA_PLAN_INFO_INIT)
KIND(ra_stats, RA_STATS_INIT)
KIND(ra_array_info, RA_ARRAY_INFO_INIT)
KIND(ra_ring_options, RA_RING_OPTIONS_INIT)
KIND(ra_rank_info, RA_RANK_INFO_INIT)
KIND(ra_rank_stats, RA_RANK_STATS_INIT)
KIND(ra_checkpoint_options, RA_CHECKPOINT_OPTIONS_INIT)
KIND(ra_system_info, RA_SYSTEM_INFO_INIT)
KIND(ra_cache, RA_CACHE_INIT)

#define OF(type)                                                                                                       \
    {                                                                                                                  \
#type, type##_set_up, &type##_defaults, sizeof(type)                                                           \
    }

static const struct kind {
    const char *name;
    set_up init;
    const void *defaults;
    size_t size;
} kinds[] = {OF(ra_problem),    OF(ra_score_arrays),       OF(ra_options),      OF(ra_plan_info),
             OF(ra_stats),      OF(ra_array_info),         OF(ra_ring_options), OF(ra_rank_info),
             OF(ra_rank_stats), OF(ra_checkpoint_options), OF(ra_system_info),  OF(ra_cache)};
enum { KINDS = sizeof kinds / sizeof *kinds, MORE = 64, UNTOUCHED = 0x5a };

/* The first `size` bytes of a struct as the macro has them, but for its size, and nothing after them. */
static void check(const struct kind *k, const unsigned char *memory, size_t size, size_t room)
{
    size_t said, common = size < k->size ? size : k->size;
    memcpy(&said, memory, sizeof said);
    REQUIRE(said == size, "%s of %zu bytes: says %zu", k->name, size, said);
    REQUIRE(memcmp(memory + sizeof said, (const char *)k->defaults + sizeof said, common - sizeof said) == 0,
            "%s of %zu bytes: not the macro's", k->name, size);
    for (size_t i = common; i < size; i++)
        REQUIRE(memory[i] == 0, "%s of %zu bytes: byte %zu", k->name, size, i);
    for (size_t i = size; i < room; i++)
        REQUIRE(memory[i] == UNTOUCHED, "%s of %zu bytes: byte %zu was written", k->name, size, i);
}

static bool untouched(const unsigned char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != UNTOUCHED)
            return false;
    return true;
}

static void every_size_from_the_first_version_on(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        const struct kind *k = &kinds[i];
        size_t room = k->size + MORE, legal = 0;
        unsigned char *memory = malloc(room);
        for (size_t size = 0; size <= room; size++) {
            memset(memory, UNTOUCHED, room);
            ra_status status = k->init(memory, size);
            if (status == RA_OK)
                check(k, memory, size, room);
            else
                REQUIRE(status == RA_ERROR_ARGUMENT && untouched(memory, room), "%s of %zu bytes", k->name, size);
            REQUIRE(legal == 0 || status == RA_OK, "%s: %zu bytes are refused, and less are not", k->name, size);
            legal += status == RA_OK;
        }
        /* No version had its size alone. */
        REQUIRE(legal > MORE && legal + sizeof(size_t) < room, "%s: %zu sizes are legal", k->name, legal);
        free(memory);
    }
}

static void absurd_sizes(void **state)
{
    (void)state;
    ra_options options;
    char message[160];
    assert_int_equal(ra_options_init(&options, 4097), RA_ERROR_ARGUMENT);
    snprintf(message, sizeof message,
             "ra_options: size 4097: must be sizeof(ra_options), which is %zu in this version %s", sizeof options,
             ra_version());
    assert_string_equal(ra_last_message(), message);
    assert_int_equal(ra_options_init(&options, SIZE_MAX), RA_ERROR_ARGUMENT);
}

/* The size field that a function is handed is held to the same bounds. */
static void sizes_of_structs_that_are_used(void **state)
{
    (void)state;
    ra_problem problem;
    ra_options options;
    ra_plan *plan = NULL;
    assert_int_equal(ra_problem_init(&problem, sizeof problem), RA_OK);
    assert_int_equal(ra_options_init(&options, sizeof options), RA_OK);
    problem.q_len = 7, problem.heads = 1, problem.head_dim = 4;
    assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
    ra_plan_free(plan);
    const size_t bad[] = {0, 1, sizeof(size_t), offsetof(ra_problem, head_dim), 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        problem.size = bad[i];
        REQUIRE(ra_plan_create(&problem, &options, &plan) == RA_ERROR_ARGUMENT, "ra_problem.size %zu", bad[i]);
    }
    problem.size = sizeof problem;
    options.size = sizeof(size_t);
    assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_size_from_the_first_version_on),
                                       cmocka_unit_test(absurd_sizes),
                                       cmocka_unit_test(sizes_of_structs_that_are_used)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
