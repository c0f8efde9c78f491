/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, paths and messages of short texts. See parser.h. */
#include "base/parser.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ra_status ra_parse_expected(const ra_parser *p, const char *at, const char *what)
{
    const char *quote = *at ? "\"" : "";
    return ra_fail(RA_ERROR_ARGUMENT, "%s \"%.200s\", character %lld: expected %s, found %s%.40s%s", p->name, p->text,
                   (long long)(at - p->text) + 1, what, quote, *at ? at : "the end", quote);
}

ra_status ra_parse_failed(const ra_parser *p, const char *at, ra_status status)
{
    char said[600];
    snprintf(said, sizeof said, "%s", ra_last_message());
    return ra_fail(status, "%s \"%.200s\", character %lld: %s", p->name, p->text, (long long)(at - p->text) + 1, said);
}

ra_status ra_parse_number(ra_parser *p, const char *what, int64_t *number)
{
    const char *start = p->at;
    int64_t value = 0;
    if (*p->at < '0' || *p->at > '9')
        return ra_parse_expected(p, start, what);
    for (; *p->at >= '0' && *p->at <= '9'; p->at++)
        if (!ra_mul_ok(value, 10, &value) || !ra_add_ok(value, *p->at - '0', &value))
            return ra_parse_expected(p, start, "a number below 2^63");
    *number = value;
    return RA_OK;
}

ra_status ra_parse_decimal(ra_parser *p, const char *what, double *number)
{
    const char *start = p->at;
    double value = 0, scale = 1;
    int digits = 0;
    bool point = false;
    for (; (*p->at >= '0' && *p->at <= '9') || (*p->at == '.' && !point); p->at++) {
        if (*p->at == '.') {
            point = true;
            continue;
        }
        value = 10 * value + (*p->at - '0');
        scale = point ? 10 * scale : scale;
        digits++;
    }
    *number = value / scale;
    return digits == 0 || digits > 15 ? ra_parse_expected(p, start, what) : RA_OK;
}

ra_status ra_parse_path(ra_parser *p, char **path)
{
    const char *start = p->at + 1;
    size_t length = strcspn(start, "+");
    *path = NULL;
    if (length == 0)
        return ra_parse_expected(p, start, "a path after \"@\"");
    *path = malloc(length + 1);
    if (!*path)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for a path", length + 1);
    memcpy(*path, start, length);
    (*path)[length] = '\0';
    p->at = start + length;
    return RA_OK;
}

size_t ra_parse_name(const ra_parser *p)
{
    return strcspn(p->at, ":+");
}
