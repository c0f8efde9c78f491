/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as messages for people have them. Machines read integers. */
#include <ringattn/ringattn.h>

#include <stdio.h>

const char *ra_bytes_text(int64_t bytes, char text[RA_BYTES_TEXT])
{
    static const char *const UNITS[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, RA_BYTES_TEXT, "%.4g %s", value, UNITS[unit]);
    return text;
}
