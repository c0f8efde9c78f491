/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a rank's line to the others takes for lost, by what a transport says of them: no rank runs, and nothing waits.
 */
#include "ring/link.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static const double TIMEOUT = 10, LONG_AGO = 1000;

static ra_status tell(void *state, ra_transport_state *found)
{
    *found = *(const ra_transport_state *)state;
    return RA_OK;
}

/* One look at the others, at `hop` (-1: the greeting), by a rank that has been able to look for `here` seconds. */
static ra_status look_once(ra_transport_state state, int64_t hop, double here)
{
    ra_transport transport = {.size = sizeof transport, .ranks = 4, .state = &state, .progress = tell};
    double now = ra_seconds();
    ra_link link = {.transport = &transport,
                    .timeout = TIMEOUT,
                    .looked = now - 0.01,
                    .back = now - here,
                    .what = hop < 0 ? "the greeting" : "hop",
                    .hop = hop};
    return ra_link_poll(&link);
}

static void require_lost(ra_transport_state state, int64_t hop, const char *words)
{
    assert_int_equal(look_once(state, hop, LONG_AGO), RA_ERROR_TIMEOUT);
    REQUIRE(strstr(ra_last_message(), words), "said: %s", ra_last_message());
}

static void who_is_waited_for_may_not_be_silent(void **state)
{
    (void)state;
    const ra_transport_state silent = {.waiting_for = 2, .silent = TIMEOUT + 1, .quietest = -1};
    require_lost(silent, 3, "rank 2 has been silent for 11.0 s (timeout 10 s): hop 3 is given up");
    require_lost(silent, -1, "rank 2 has been silent for 11.0 s (timeout 10 s): the greeting is given up");
    assert_int_equal(
        look_once((ra_transport_state){.waiting_for = 2, .silent = TIMEOUT - 1, .quietest = -1}, 3, LONG_AGO), RA_OK);
}

static void in_a_hop_who_is_not_waited_for_may_not_be_silent_either(void **state)
{
    (void)state;
    const ra_transport_state quiet = {.waiting_for = -1, .quietest = 1, .quiet = TIMEOUT + 1};
    require_lost(quiet, 0, "rank 1 has been silent for 11.0 s (timeout 10 s): hop 0 is given up");
    assert_int_equal(look_once(quiet, -1, LONG_AGO), RA_OK);
}

static void the_most_silent_is_named(void **state)
{
    (void)state;
    ra_transport_state both = {.waiting_for = 2, .silent = TIMEOUT + 1, .quietest = 1, .quiet = TIMEOUT + 2};
    require_lost(both, 3, "rank 1 has been silent for 12.0 s");
    both.silent = TIMEOUT + 3;
    require_lost(both, 3, "rank 2 has been silent for 13.0 s");
}

/* A rank that was stopped itself has heard of nobody meanwhile. */
static void who_was_away_waits_anew(void **state)
{
    (void)state;
    const ra_transport_state silent = {.waiting_for = 2, .silent = LONG_AGO, .quietest = 1, .quiet = LONG_AGO};
    assert_int_equal(look_once(silent, 3, TIMEOUT - 1), RA_OK);
    require_lost(silent, 3, "rank 2 has been silent for 1000.0 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_waited_for_may_not_be_silent),
        cmocka_unit_test(in_a_hop_who_is_not_waited_for_may_not_be_silent_either),
        cmocka_unit_test(the_most_silent_is_named),
        cmocka_unit_test(who_was_away_waits_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
