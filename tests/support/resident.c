/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what the system says of this process. See resident.h. */
#include "support/resident.h"

#include "support/unit.h"

#include <stdio.h>
#include <unistd.h>

int64_t resident(void)
{
    long long pages = 0, ignored = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lld %lld", &ignored, &pages), 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}
