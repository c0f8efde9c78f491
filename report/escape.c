/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of rows as they may stand in markup, Markdown and tables of commas. */
#include "escape.h"

#include <string.h>

void escape_markup(FILE *stream, const char *text)
{
    for (;; text++) {
        size_t plain = strcspn(text, "<>&\"'");
        fwrite(text, 1, plain, stream);
        text += plain;
        switch (*text) {
        case '<': fputs("&lt;", stream); break;
        case '>': fputs("&gt;", stream); break;
        case '&': fputs("&amp;", stream); break;
        case '"': fputs("&quot;", stream); break;
        case '\'': fputs("&#39;", stream); break;
        default: return;
        }
    }
}

/* A backslash before a character that could mean something; none of them means anything behind one. */
void escape_markdown(FILE *stream, const char *text)
{
    for (; *text; text++) {
        size_t plain = strcspn(text, "<&\\`*_[]|~$");
        fwrite(text, 1, plain, stream);
        text += plain;
        if (!*text)
            return;
        if (*text == '<')
            fputs("&lt;", stream);
        else if (*text == '&')
            fputs("&amp;", stream);
        else
            fprintf(stream, "\\%c", *text);
    }
}

void escape_csv(FILE *stream, const char *text)
{
    if (!strpbrk(text, "\",\r\n")) {
        fputs(text, stream);
        return;
    }
    fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', stream);
        fputc(*text, stream);
    }
    fputc('"', stream);
}
