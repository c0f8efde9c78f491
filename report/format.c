/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, bytes, seconds, problems and runs as texts for readers. See format.h. */
#include "format.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

const char *format_number(arena *a, double number)
{
    return isfinite(number) ? arena_text(a, "%.3g", number) : "-";
}

const char *format_percent(arena *a, double fraction)
{
    return isfinite(fraction) ? arena_text(a, "%.1f%%", 100 * fraction) : "-";
}

/* Three digits that count, all of those before the point, and three behind it of what is less than 1. */
static const char *with_unit(arena *a, double value, const char *unit)
{
    int behind = value < 0.9995 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
    return arena_text(a, "%.*f %s", behind, value, unit);
}

const char *format_bytes(arena *a, double bytes)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    if (!isfinite(bytes))
        return "-";
    for (; bytes >= 1023.5 && unit + 1 < sizeof UNITS / sizeof *UNITS; unit++)
        bytes /= 1024;
    return unit == 0 ? arena_text(a, "%.0f B", bytes) : with_unit(a, bytes, UNITS[unit]);
}

const char *format_seconds(arena *a, double seconds)
{
    static const char *const UNITS[] = {"s", "ms", "us", "ns"};
    size_t unit = 0;
    if (!isfinite(seconds))
        return "-";
    for (; seconds > 0 && seconds < 0.1 && unit + 1 < sizeof UNITS / sizeof *UNITS; unit++)
        seconds *= 1000;
    return with_unit(a, seconds, UNITS[unit]);
}

const char *format_count(arena *a, double count)
{
    if (!isfinite(count))
        return "-";
    if (fabs(count) >= 1e15)
        return format_number(a, count);
    const char *digits = arena_text(a, "%.0f", count);
    size_t length = strlen(digits), used = 0;
    char *grouped = arena_take(a, 2 * length + 1);
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-')
            grouped[used++] = ',';
        grouped[used++] = digits[i];
    }
    return grouped;
}

const char *format_short(arena *a, const char *text)
{
    enum { MOST = 44 };
    size_t length = strlen(text);
    if (length <= MOST)
        return text;
    size_t cut = MOST - 3;
    while (cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80)
        cut--;
    return arena_text(a, "%.*s...", (int)cut, text);
}

/* One of two counts where they are the same. */
static const char *pair(arena *a, const row *r, const char *first, const char *second, const char *between)
{
    double x = row_number(r, first), y = row_number(r, second);
    return x == y ? format_count(a, x) : arena_text(a, "%s%s%s", format_count(a, x), between, format_count(a, y));
}

const char *format_heads(arena *a, const row *r)
{
    return arena_text(a, "%s head%s", pair(a, r, "problem.heads", "problem.kv_heads", ":"),
                      row_number(r, "problem.heads") == 1 ? "" : "s");
}

const char *format_problem(arena *a, const row *r)
{
    double batch = row_number(r, "problem.batch");
    return arena_text(a, "%s%s tokens, %s of %s, %s, %s", batch > 1 ? arena_text(a, "%.0f x ", batch) : "",
                      pair(a, r, "problem.q_len", "problem.kv_len", " on "), format_heads(a, r),
                      pair(a, r, "problem.head_dim", "problem.value_dim", ":"), row_text(r, "problem.pattern"),
                      row_text(r, "problem.dtype"));
}

const char *format_run(arena *a, const row *r)
{
    double threads = row_number(r, "run.threads");
    const char *tiles = row_text(r, "run.tile_order");
    const char *direction = row_is(r, "run.direction", "backward") ? "backward, " : "";
    const char *end = arena_text(a, "%.0f thread%s%s%s", threads, threads == 1 ? "" : "s",
                                 strcmp(tiles, "row") == 0 ? "" : ", tiles ", strcmp(tiles, "row") == 0 ? "" : tiles);
    if (row_is(r, "run.strategy", "local"))
        return arena_text(a, "%sone piece, %s", direction, end);
    return arena_text(a, "%s%s of %.0f, %s, %s, %s", direction, row_text(r, "run.strategy"),
                      row_number(r, "run.ring_size"), row_text(r, "run.order"), row_text(r, "run.transport"), end);
}

const char *format_case(arena *a, const row *r)
{
    const char *name = row_text(r, "case");
    return row_is(r, "method", "ringattn") ? name : arena_text(a, "%s (%s)", name, row_text(r, "method"));
}

const char *format_hover(arena *a, const row *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *values = arena_vtext(a, format, arguments);
    va_end(arguments);
    return arena_text(a, "%s: %s\n%s\n%s\n%s", row_text(r, "suite"), format_case(a, r), format_problem(a, r),
                      format_run(a, r), values);
}
