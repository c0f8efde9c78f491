/* Finds the unit. See bytes_text.h. */
#include "bytes_text.h"

#include <stdio.h>

void bytes_text(int64_t bytes, char text[BYTES_TEXT])
{
    static const char *const UNITS[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, BYTES_TEXT, "%.4g %s", value, UNITS[unit]);
}
