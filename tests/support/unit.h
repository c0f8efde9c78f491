/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka, with the headers it wants before it. */
#ifndef SUPPORT_UNIT_H
#define SUPPORT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* For tests of a seed or of a table of cases: stop unless `condition`, and say where it was. */
#define REQUIRE(condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_msg(__VA_ARGS__);                                                                                     \
    } while (0)

#endif
