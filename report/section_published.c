/* SPDX-License-Identifier: Apache-2.0 */
/* Figures that others published for the same shapes, beside ours. */
#include "format.h"
#include "section.h"

void section_published(arena *a, const rows *r, section *s)
{
    *s = (section){.id = "published", .title = "Published elsewhere", .needs = "ringattn bench compare --seed-table"};
    s->about =
        "The columns that begin with \"published\" were not measured here: they are what was published for the same "
        "shape, on the device that is named, with what their time includes that ours does not and what was wrong "
        "with them. They count in no sentence and no chart.";
    table *t = NULL;
    for (int i = 0; i < r->count; i++) {
        const row *it = &r->at[i];
        if (it->failed || !row_has(it, "published"))
            continue;
        if (!t)
            t = section_table(
                a, s, "Ours, measured here, and published elsewhere",
                "case|ours: dtype|ours: time#|ours: tokens/s#|ours: held#|published: where|published: device|"
                "published: dtype|published: time#|published: tokens/s#|published: memory#|published time "
                "includes|what was wrong with it");
        table_put(a, t, format_case(a, it));
        table_put(a, t, row_text(it, "problem.dtype"));
        table_put(a, t, format_seconds(a, row_number(it, "seconds.median")));
        table_put(a, t, format_count(a, row_number(it, "tokens_per_second")));
        table_put(a, t, format_bytes(a, row_number(it, "memory.peak_bytes")));
        table_put(a, t, row_text(it, "published.where"));
        table_put(a, t, row_text(it, "published.device"));
        table_put(a, t, row_text(it, "published.dtype"));
        table_put(a, t, format_seconds(a, row_number(it, "published.seconds")));
        table_put(a, t, format_count(a, row_number(it, "published.tokens_per_second")));
        table_put(a, t, format_bytes(a, row_number(it, "published.memory_bytes")));
        table_put(a, t, row_text(it, "published.includes"));
        table_put(a, t, row_text(it, "published.wrong"));
    }
    if (!t)
        section_say(a, s, "No row has a published figure beside it.");
}
