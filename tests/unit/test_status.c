/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses have names; a message belongs to its thread and is cut, never overrun. */
#include "base/status.h"
#include "support/unit.h"

#include <pthread.h>
#include <string.h>

static void statuses_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"ok",        "argument", "unsupported", "memory", "file",  "format",
                                        "cancelled", "internal", "timeout",     "peer",   "budget"};
    for (int i = 0; i <= RA_ERROR_BUDGET; i++)
        assert_string_equal(ra_status_name((ra_status)i), names[i]);
    assert_string_equal(ra_status_name((ra_status)99), "unknown");
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    assert_int_equal(ra_fail(RA_ERROR_FILE, "begins %s", text), RA_ERROR_FILE);
    assert_in_range(strlen(ra_last_message()), 500, sizeof text - 2);
    assert_memory_equal(ra_last_message(), "begins xxx", 10);
}

static void *fail_elsewhere(void *before)
{
    *(int *)before = strcmp(ra_last_message(), "of the first thread");
    ra_fail(RA_ERROR_FILE, "of the second thread");
    return NULL;
}

static void a_message_belongs_to_its_thread(void **state)
{
    (void)state;
    pthread_t thread;
    int before = 0;
    ra_fail(RA_ERROR_ARGUMENT, "of the %s thread", "first");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &before), 0);
    pthread_join(thread, NULL);
    assert_int_not_equal(before, 0);
    assert_string_equal(ra_last_message(), "of the first thread");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(a_message_belongs_to_its_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
