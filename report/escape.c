#include "escape.h"

#include <string.h>

void escape_markup(FILE *stream, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<': fputs("&lt;", stream); break;
        case '>': fputs("&gt;", stream); break;
        case '&': fputs("&amp;", stream); break;
        case '"': fputs("&quot;", stream); break;
        case '\'': fputs("&#39;", stream); break;
        default: fputc(*text, stream);
        }
}

/* A backslash before a character that could mean something; none of them means anything behind one. */
void escape_markdown(FILE *stream, const char *text)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", stream);
        else if (*text == '&')
            fputs("&amp;", stream);
        else {
            if (strchr("\\`*_[]|~$", *text))
                fputc('\\', stream);
            fputc(*text, stream);
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
