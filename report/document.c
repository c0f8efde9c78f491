/* The list of sections, in the order in which a report has them. A new section is a line here. See document.h. */
#include "document.h"

static void (*const SECTIONS[])(arena *a, const rows *r, section *s) = {
    section_summary,  section_memory,  section_methods,   section_ranks,  section_backward,
    section_roofline, section_dilated, section_published, section_failed, section_cases,
};
enum { SECTION_COUNT = sizeof SECTIONS / sizeof *SECTIONS };

void document_make(document *d, const rows *r)
{
    *d = (document){.title = "ringattn: benchmark report", .count = SECTION_COUNT};
    d->sections = arena_take(&d->memory, SECTION_COUNT * sizeof *d->sections);
    for (int i = 0; i < SECTION_COUNT; i++)
        SECTIONS[i](&d->memory, r, &d->sections[i]);
}

void document_free(document *d)
{
    arena_free(&d->memory);
    *d = (document){0};
}
