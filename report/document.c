/* SPDX-License-Identifier: Apache-2.0 */
/* The list of sections, in the order in which a report has them. A new section is a line here. See document.h. */
#include "document.h"

#include <string.h>

static void (*const SECTIONS[])(arena *a, const rows *r, section *s) = {
    section_summary,  section_memory,   section_speed,   section_lengths,   section_methods, section_ranks,
    section_backward, section_roofline, section_dilated, section_published, section_failed,  section_cases,
};
enum { SECTION_COUNT = sizeof SECTIONS / sizeof *SECTIONS };

void document_make(document *d, const rows *r)
{
    *d = (document){.title = "ringattn: benchmark report", .count = SECTION_COUNT};
    d->sections = arena_take(&d->memory, SECTION_COUNT * sizeof *d->sections);
    for (int i = 0; i < SECTION_COUNT; i++)
        SECTIONS[i](&d->memory, r, &d->sections[i]);
}

static void miss(document *d, const section *s)
{
    const char *before = d->missing ? d->missing : "Sections without rows, which are not shown:";
    const char *comma = d->missing ? "," : "";
    d->missing = arena_text(&d->memory, "%s%s %s (%s)", before, comma, s->title, s->needs);
}

void document_trim(document *d)
{
    int kept = 0;
    for (int i = 0; i < d->count; i++) {
        const section *s = &d->sections[i];
        if (!s->needs || section_has_data(s))
            d->sections[kept++] = *s;
        else if (*s->needs)
            miss(d, s);
    }
    d->count = kept;
    if (d->missing)
        d->missing = arena_text(&d->memory, "%s.", d->missing);
}

static const char *no_section(document *d, const char *id)
{
    const char *names = d->sections[0].id;
    for (int i = 1; i < d->count; i++)
        names = arena_text(&d->memory, "%s, %s", names, d->sections[i].id);
    return arena_text(&d->memory, "--section '%s': expected one of %s", id, names);
}

static void keep_drawn(section *s)
{
    int kept = 0;
    for (int i = 0; i < s->chart_count; i++)
        if (chart_points(&s->charts[i]))
            s->charts[kept++] = s->charts[i];
    s->chart_count = kept;
}

const char *document_choose(document *d, const char *id)
{
    section *chosen = NULL;
    for (int i = 0; i < d->count; i++)
        if (strcmp(d->sections[i].id, id) == 0)
            chosen = &d->sections[i];
    if (!chosen)
        return no_section(d, id);
    if (chosen->needs && !section_has_data(chosen))
        return arena_text(&d->memory, "--section %s: no rows for it%s%s%s", id, *chosen->needs ? "; " : "",
                          chosen->needs, *chosen->needs ? " --output makes them" : "");
    keep_drawn(chosen);
    d->sections = chosen;
    d->count = 1;
    return NULL;
}

void document_free(document *d)
{
    arena_free(&d->memory);
    *d = (document){0};
}
