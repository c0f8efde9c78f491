/* The rows as one flat table, for spreadsheets and scripts. Fields of `figures`, which have no fixed names, come last.
 */
#include "document.h"
#include "escape.h"

/* The names in any row's figures, as the keys of an object. */
static json_t *figure_names(const rows *r)
{
    json_t *names = json_object();
    for (int i = 0; i < r->count; i++)
        json_object_update(names, json_object_get(r->at[i].json, "figures"));
    return names;
}

static void write_value(FILE *stream, const json_t *value)
{
    if (json_is_string(value))
        escape_csv(stream, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(stream, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        fprintf(stream, "%.9g", json_real_value(value));
}

static void write_head(FILE *stream, json_t *figures)
{
    const char *name;
    json_t *value;
    arena memory = {0};
    for (int f = 0; (name = row_field(f)); f++)
        fprintf(stream, "%s%s", f ? "," : "", name);
    json_object_foreach(figures, name, value)
    {
        fputc(',', stream);
        escape_csv(stream, arena_text(&memory, "figures.%s", name));
    }
    fputc('\n', stream);
    arena_free(&memory);
}

void rows_csv(const rows *r, FILE *stream)
{
    json_t *figures = figure_names(r), *value;
    const char *name;
    write_head(stream, figures);
    for (int i = 0; i < r->count; i++) {
        for (int f = 0; (name = row_field(f)); f++) {
            fputs(f ? "," : "", stream);
            write_value(stream, row_value(&r->at[i], name));
        }
        json_object_foreach(figures, name, value)
        {
            fputc(',', stream);
            write_value(stream, json_object_get(json_object_get(r->at[i].json, "figures"), name));
        }
        fputc('\n', stream);
    }
    json_decref(figures);
}
