/* SPDX-License-Identifier: Apache-2.0 */
/* The rows as one flat table, for spreadsheets and scripts. Fields of `figures`, which have no fixed names, come last.
 */
#include "document.h"
#include "escape.h"

#include <string.h>

typedef struct names {
    const char **at;
    int count;
    places found;
} names;

typedef struct name_search {
    const names *names;
    const char *name;
} name_search;

static bool is_name(const void *user, int index)
{
    const name_search *s = user;
    return strcmp(s->names->at[index], s->name) == 0;
}

/* The index of a figure's name; -1: it is not among them. */
static int name_index(const names *n, const char *name)
{
    return places_find(&n->found, places_hash(0, name, strlen(name)), is_name, &(name_search){n, name});
}

/* The names in any row's figures, in the order of rows. */
static names figure_names(arena *a, const rows *r)
{
    names n = {0};
    for (int i = 0; i < r->count; i++)
        for (int j = 0; j < r->at[i].figure_count; j++) {
            const char *name = r->at[i].figures[j].name;
            if (name_index(&n, name) >= 0)
                continue;
            places_add(a, &n.found, places_hash(0, name, strlen(name)), n.count);
            n.at = arena_more(a, n.at, n.count, sizeof *n.at);
            n.at[n.count++] = name;
        }
    return n;
}

static void write_value(FILE *stream, row_value value)
{
    if (value.kind == ROW_TEXT)
        escape_csv(stream, value.is.text);
    else if (value.kind == ROW_INTEGER)
        fprintf(stream, "%lld", (long long)value.is.integer);
    else if (value.kind == ROW_REAL)
        fprintf(stream, "%.9g", value.is.real);
}

static void write_head(arena *a, FILE *stream, const names *figures)
{
    const char *name;
    for (int f = 0; (name = row_field(f)); f++)
        fprintf(stream, "%s%s", f ? "," : "", name);
    for (int i = 0; i < figures->count; i++) {
        fputc(',', stream);
        escape_csv(stream, arena_text(a, "figures.%s", figures->at[i]));
    }
    fputc('\n', stream);
}

/* `values` has a place for each figure, and is all absent before and after. */
static void write_figures(FILE *stream, const row *r, const names *figures, row_value *values)
{
    for (int i = 0; i < r->figure_count; i++)
        values[name_index(figures, r->figures[i].name)] = r->figures[i].value;
    for (int i = 0; i < figures->count; i++) {
        fputc(',', stream);
        write_value(stream, values[i]);
        values[i].kind = ROW_ABSENT;
    }
}

void rows_csv(const rows *r, FILE *stream)
{
    arena memory = {0};
    names figures = figure_names(&memory, r);
    row_value *values = arena_take(&memory, (size_t)figures.count * sizeof *values);
    const char *name;
    write_head(&memory, stream, &figures);
    for (int i = 0; i < r->count; i++) {
        for (int f = 0; (name = row_field(f)); f++) {
            fputs(f ? "," : "", stream);
            write_value(stream, row_at(&r->at[i], name));
        }
        write_figures(stream, &r->at[i], &figures, values);
        fputc('\n', stream);
    }
    arena_free(&memory);
}
