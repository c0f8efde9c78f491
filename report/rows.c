/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of JSON to rows: checked, tidied, the newest of each. */
#include "rows.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

typedef enum field_kind {
    OBJECT,
    TEXT,
    COUNT,   /* a whole number from 1 on */
    SIZE,    /* a whole number from 0 on */
    AMOUNT,  /* a number from 0 on */
    DURATION /* a number above 0 */
} field_kind;

enum { ALWAYS = 1 << 30 }; /* never lets rows differ */

/* A field is required where the object that holds it is there. */
typedef struct field {
    const char *path;
    field_kind kind;
    bool required;
    unsigned told; /* part of what was run: a ROW_ group, or ALWAYS; 0: not part of it */
} field;

static const char DIRECTION[] = "run.direction";

static const field FIELDS[] = {
    {"suite", TEXT, true, ROW_SUITE},
    {"case", TEXT, true, 0},
    {"status", TEXT, true, 0},
    {"reason", TEXT, false, 0},
    {"time", TEXT, true, 0},
    {"method", TEXT, true, ROW_METHOD},
    {"problem", OBJECT, true, 0},
    {"problem.batch", COUNT, true, ALWAYS},
    {"problem.q_len", COUNT, true, ROW_LENGTH},
    {"problem.kv_len", COUNT, true, ROW_LENGTH},
    {"problem.heads", COUNT, true, ALWAYS},
    {"problem.kv_heads", COUNT, true, ALWAYS},
    {"problem.head_dim", COUNT, true, ALWAYS},
    {"problem.value_dim", COUNT, true, ALWAYS},
    {"problem.dtype", TEXT, true, ROW_DTYPE},
    {"problem.pattern", TEXT, true, ALWAYS},
    {"run", OBJECT, true, 0},
    {"run.direction", TEXT, false, ROW_DIRECTION}, /* absent: forward */
    {"run.strategy", TEXT, true, ROW_SPREAD},
    {"run.transport", TEXT, true, ROW_SPREAD},
    {"run.order", TEXT, true, ROW_SPREAD},
    {"run.tile_order", TEXT, true, ROW_SPREAD},
    {"run.ring_size", COUNT, true, ROW_RING},
    {"run.hops", SIZE, true, 0},
    {"run.bytes_received", SIZE, false, 0},
    {"run.kernel", TEXT, true, ROW_KERNEL},
    {"run.threads", COUNT, true, ROW_THREADS},
    {"seconds", OBJECT, false, 0},
    {"seconds.median", DURATION, true, 0},
    {"seconds.low", DURATION, true, 0},
    {"seconds.high", DURATION, true, 0},
    {"seconds.spread", AMOUNT, true, 0},
    {"seconds.samples", COUNT, true, 0},
    {"seconds.quiet", SIZE, true, 0},
    {"flops", AMOUNT, false, 0},
    {"gflops", AMOUNT, false, 0},
    {"tokens_per_second", AMOUNT, false, 0},
    {"of_peak", AMOUNT, false, 0},
    {"memory", OBJECT, false, 0},
    {"memory.planned_peak_bytes", SIZE, false, 0},
    {"memory.peak_bytes", SIZE, false, 0},
    {"memory.rss_peak_bytes", SIZE, false, 0},
    {"error", OBJECT, false, 0},
    {"error.largest", AMOUNT, true, 0},
    {"error.tolerance", AMOUNT, true, 0},
    {"error.rows", SIZE, true, 0},
    {"against", OBJECT, false, 0},
    {"against.what", TEXT, true, 0},
    {"against.value", AMOUNT, true, 0},
    {"against.goal", AMOUNT, false, 0},
    {"predicted_seconds", AMOUNT, false, 0},
    {"published", OBJECT, false, 0},
    {"published.where", TEXT, true, 0},
    {"published.device", TEXT, true, 0},
    {"published.dtype", TEXT, true, 0},
    {"published.seconds", AMOUNT, false, 0},
    {"published.tokens_per_second", AMOUNT, false, 0},
    {"published.memory_bytes", AMOUNT, false, 0},
    {"published.includes", TEXT, true, 0},
    {"published.wrong", TEXT, true, 0},
    {"figures", OBJECT, false, 0},
    {"machine", OBJECT, true, 0},
    {"machine.processor", TEXT, true, 0},
    {"machine.cores", COUNT, true, 0},
    {"machine.memory_bytes", SIZE, true, 0},
    {"machine.peak_gflops", AMOUNT, false, 0},
    {"machine.bandwidth_gbs", AMOUNT, false, 0},
    {"version", TEXT, true, 0},
    {"compiler", TEXT, true, 0},
    {"mpi", TEXT, false, 0},
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS };

static int search_field(const char *path)
{
    for (int f = 0; f < FIELD_COUNT; f++)
        if (strcmp(FIELDS[f].path, path) == 0)
            return f;
    return -1;
}

/* The field with that path, -1: none. Paths are constants: where one lies says which it is, most of the time. */
static int field_of(const char *path)
{
    enum { ROOM = 1024 };
    static signed char slots[ROOM]; /* the field and 1 */
    signed char *slot = &slots[(uintptr_t)path / 4 % ROOM];
    if (*slot && strcmp(FIELDS[*slot - 1].path, path) == 0)
        return *slot - 1;
    int f = search_field(path);
    *slot = (signed char)(f + 1);
    return f;
}

row_value row_at(const row *r, const char *path)
{
    static const char FIGURES[] = "figures.";
    int f = field_of(path);
    if (f >= 0)
        return (row_value){r->kinds[f], r->words[f]};
    for (int i = 0; i < r->figure_count && strncmp(path, FIGURES, strlen(FIGURES)) == 0; i++)
        if (strcmp(r->figures[i].name, path + strlen(FIGURES)) == 0)
            return r->figures[i].value;
    return (row_value){.kind = ROW_ABSENT};
}

const char *row_text(const row *r, const char *path)
{
    row_value v = row_at(r, path);
    return v.kind == ROW_TEXT ? v.is.text : "";
}

double row_number(const row *r, const char *path)
{
    row_value v = row_at(r, path);
    return v.kind == ROW_INTEGER ? (double)v.is.integer : v.kind == ROW_REAL ? v.is.real : NAN;
}

bool row_has(const row *r, const char *path)
{
    return row_at(r, path).kind != ROW_ABSENT;
}

bool row_is(const row *r, const char *path, const char *text)
{
    return strcmp(row_text(r, path), text) == 0;
}

const char *row_field(int i)
{
    int left = i;
    for (int f = 0; f < FIELD_COUNT; f++)
        if (FIELDS[f].kind != OBJECT && left-- == 0)
            return FIELDS[f].path;
    return NULL;
}

/* ---- Rows that are alike ------------------------------------------------------------------------------------------
 */

static bool same_value(const row *a, const row *b, int f)
{
    if (a->kinds[f] != b->kinds[f])
        return false;
    switch (a->kinds[f]) {
    case ROW_TEXT: return a->words[f].text == b->words[f].text || strcmp(a->words[f].text, b->words[f].text) == 0;
    case ROW_INTEGER: return a->words[f].integer == b->words[f].integer;
    case ROW_REAL: return a->words[f].real == b->words[f].real;
    default: return true;
    }
}

bool row_alike(const row *a, const row *b, unsigned may_differ)
{
    for (int f = 0; f < FIELD_COUNT; f++)
        if (FIELDS[f].told && !(FIELDS[f].told & may_differ) && !same_value(a, b, f))
            return false;
    return true;
}

static uint64_t hash_of(const row *r, unsigned may_differ)
{
    uint64_t hash = 0;
    for (int f = 0; f < FIELD_COUNT; f++)
        if (FIELDS[f].told && !(FIELDS[f].told & may_differ)) {
            bool text = r->kinds[f] == ROW_TEXT;
            hash = places_hash(hash, text ? (const void *)r->words[f].text : &r->words[f],
                               text ? strlen(r->words[f].text) : sizeof r->words[f]);
        }
    return hash;
}

/* A row, and the first rows of the groups that it may belong to. */
typedef struct group_search {
    const rows *rows;
    const row *row;
    const int *firsts;
    unsigned may_differ;
} group_search;

static bool of_group(const void *user, int group)
{
    const group_search *s = user;
    return row_alike(&s->rows->at[s->firsts[group]], s->row, s->may_differ);
}

int *rows_groups(arena *a, const rows *r, unsigned may_differ, int *count)
{
    places found = {0};
    int *groups = arena_take(a, (size_t)r->count * sizeof *groups), *firsts = NULL;
    *count = 0;
    for (int i = 0; i < r->count; i++) {
        const group_search search = {r, &r->at[i], firsts, may_differ};
        uint64_t hash = hash_of(&r->at[i], may_differ);
        groups[i] = places_find(&found, hash, of_group, &search);
        if (groups[i] >= 0)
            continue;
        places_add(a, &found, hash, *count);
        firsts = arena_more(a, firsts, *count, sizeof *firsts);
        firsts[*count] = i;
        groups[i] = (*count)++;
    }
    return groups;
}

typedef struct text_search {
    const char *const *texts;
    const char *text;
} text_search;

static bool is_text(const void *user, int index)
{
    const text_search *s = user;
    return strcmp(s->texts[index], s->text) == 0;
}

int *rows_texts(arena *a, const rows *r, const char *path, int *count)
{
    places found = {0};
    const char **texts = NULL;
    int *numbers = arena_take(a, (size_t)r->count * sizeof *numbers);
    *count = 0;
    for (int i = 0; i < r->count; i++) {
        const text_search search = {texts, row_text(&r->at[i], path)};
        uint64_t hash = places_hash(0, search.text, strlen(search.text));
        numbers[i] = row_has(&r->at[i], path) ? places_find(&found, hash, is_text, &search) : -1;
        if (numbers[i] >= 0 || !row_has(&r->at[i], path))
            continue;
        places_add(a, &found, hash, *count);
        texts = arena_more(a, texts, *count, sizeof *texts);
        texts[*count] = search.text;
        numbers[i] = (*count)++;
    }
    return numbers;
}

/* ---- A line ------------------------------------------------------------------------------------------------------ */

enum { MOST_LINE = 1 << 20, MOST_REASON = 256 };

static bool right_kind(const json_t *value, field_kind kind)
{
    switch (kind) {
    case OBJECT: return json_is_object(value);
    case TEXT: return json_is_string(value);
    case COUNT: return json_is_integer(value) && json_integer_value(value) >= 1;
    case SIZE: return json_is_integer(value) && json_integer_value(value) >= 0;
    case AMOUNT: return json_is_number(value) && json_number_value(value) >= 0;
    case DURATION: return json_is_number(value) && json_number_value(value) > 0;
    }
    return false;
}

static const char *expected(field_kind kind)
{
    static const char *const NAMES[] = {[OBJECT] = "an object",
                                        [TEXT] = "a text",
                                        [COUNT] = "a whole number from 1 on",
                                        [SIZE] = "a whole number from 0 on",
                                        [AMOUNT] = "a number from 0 on",
                                        [DURATION] = "a number above 0"};
    return NAMES[kind];
}

/* The object that holds the field at `path`, and the field's name in it; NULL: it is not there. */
static const json_t *holder(const json_t *object, const char *path, const char **name)
{
    char parent[32] = "";
    const char *dot = strchr(path, '.');
    *name = dot ? dot + 1 : path;
    if (!dot)
        return object;
    memcpy(parent, path, (size_t)(dot - path) < sizeof parent ? (size_t)(dot - path) : sizeof parent - 1);
    return json_object_get(object, parent);
}

/* The value at `path`, a name or two with a dot between them. */
static json_t *find(const json_t *object, const char *path)
{
    const char *name;
    const json_t *parent = holder(object, path, &name);
    return parent ? json_object_get(parent, name) : NULL;
}

static bool check_field(const json_t *object, const field *f, char reason[MOST_REASON])
{
    const char *name;
    const json_t *parent = holder(object, f->path, &name), *value = parent ? json_object_get(parent, name) : NULL;
    if (!value && (!f->required || !parent))
        return true;
    if (value && right_kind(value, f->kind))
        return true;
    snprintf(reason, MOST_REASON, "%s: %s, expected %s", f->path, value ? "is something else" : "is missing",
             expected(f->kind));
    return false;
}

/* "2026-11-16T05:40:00Z" and the like: text that can be ordered. */
static bool is_time(const char *text)
{
    static const char FORM[] = "0000-00-00T00:00:00";
    for (const char *f = FORM; *f; f++, text++)
        if (*f == '0' ? *text < '0' || *text > '9' : *text != *f)
            return false;
    return true;
}

/* What else must hold for a report to make sense of a row. */
static bool check_sense(const json_t *object, char reason[MOST_REASON])
{
    const char *status = json_string_value(json_object_get(object, "status"));
    double low = json_number_value(find(object, "seconds.low")), high = json_number_value(find(object, "seconds.high"));
    double median = json_number_value(find(object, "seconds.median"));
    const char *wrong = NULL, *direction = json_string_value(find(object, DIRECTION));
    if (strcmp(status, "ok") != 0 && strcmp(status, "failed") != 0)
        wrong = "status: expected ok or failed";
    else if (direction && strcmp(direction, "forward") != 0 && strcmp(direction, "backward") != 0)
        wrong = "run.direction: expected forward or backward";
    else if (!is_time(json_string_value(json_object_get(object, "time"))))
        wrong = "time: expected a time such as 2026-11-16T05:40:00Z";
    else if (low > median || median > high)
        wrong = "seconds: expected low <= median <= high";
    else if (json_number_value(find(object, "seconds.quiet")) > json_number_value(find(object, "seconds.samples")))
        wrong = "seconds: more quiet samples than samples";
    if (wrong)
        snprintf(reason, MOST_REASON, "%s", wrong);
    return !wrong;
}

/*
 * The length of the character at `text`, and whether a terminal or a page might act on it instead of showing it:
 * control characters, and those that turn the direction of writing, U+202A to U+202E and U+2066 to U+2069.
 */
static int character(const unsigned char *text, bool *control)
{
    int length = *text < 0x80 ? 1 : *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : 4;
    bool turns = (*text == 0xe2 && text[1] == 0x80 && (text[2] >= 0xa8 || text[2] == 0x8e || text[2] == 0x8f) &&
                  text[2] <= 0xae) ||
                 (*text == 0xe2 && text[1] == 0x81 && text[2] >= 0xa6 && text[2] <= 0xa9) ||
                 (*text == 0xd8 && text[1] == 0x9c);
    bool nothing = *text == 0xef && text[1] == 0xbf && text[2] >= 0xbe; /* no characters, and not to be in XML */
    *control = *text < 0x20 || *text == 0x7f || (*text == 0xc2 && text[1] < 0xa0) || turns || nothing;
    return length;
}

/* Control characters become spaces; what is too long is cut. jansson has seen to it that it is UTF-8. */
static void tidy_text(const char *text, char tidy[ROWS_MOST_TEXT + 1])
{
    static const char CUT[] = "...";
    size_t used = 0;
    while (*text) {
        bool control;
        int length = character((const unsigned char *)text, &control);
        if (used + (size_t)length > ROWS_MOST_TEXT + 1 - sizeof CUT) {
            memcpy(tidy + used, CUT, sizeof CUT);
            return;
        }
        if (control)
            tidy[used++] = ' ';
        else {
            memcpy(tidy + used, text, (size_t)length);
            used += (size_t)length;
        }
        text += length;
    }
    tidy[used] = 0;
}

/* Every number of an object is looked at: false when one is too large. */
static bool in_bounds(json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) if (json_is_number(value) &&
                                                 fabs(json_number_value(value)) > ROWS_MOST_NUMBER) return false;
    return true;
}

/* A row, and the objects in it; nothing of a row lies deeper. */
static bool all_in_bounds(json_t *object)
{
    const char *name;
    json_t *value;
    bool right = in_bounds(object);
    json_object_foreach(object, name, value) if (right && json_is_object(value)) right = in_bounds(value);
    return right;
}

/* NULL, and why. */
static json_t *parse(const char *line, size_t length, char reason[MOST_REASON])
{
    json_error_t error;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    if (!object) {
        const char *near = strstr(error.text, " near "); /* what follows is the file's own text */
        int shown = near ? (int)(near - error.text) : (int)strlen(error.text);
        snprintf(reason, MOST_REASON, "not JSON: %.*s at column %d", shown, error.text, error.column);
        return NULL;
    }
    bool right = json_is_object(object);
    if (!right)
        snprintf(reason, MOST_REASON, "expected an object");
    const json_t *schema = json_object_get(object, "schema");
    if (right && !(json_is_integer(schema) && json_integer_value(schema) == 1)) {
        right = false;
        snprintf(reason, MOST_REASON, "schema: expected 1, the only version that this ringattn reads");
    }
    for (int f = 0; f < FIELD_COUNT && right; f++)
        right = check_field(object, &FIELDS[f], reason);
    if (right)
        right = check_sense(object, reason);
    if (right && !all_in_bounds(object)) {
        right = false;
        snprintf(reason, MOST_REASON, "a number beyond %g", ROWS_MOST_NUMBER);
    }
    if (right)
        return object;
    json_decref(object);
    return NULL;
}

/* ---- All lines --------------------------------------------------------------------------------------------------- */

/* As with an arena: without memory there is no report. */
static void *have(void *memory)
{
    if (!memory) {
        fprintf(stderr, "ringattn: out of memory for benchmark rows\n");
        exit(1);
    }
    return memory;
}

/* The rows' own copy of a text, tidied; one for all that are equal. */
static const char *keep_text(rows *r, const char *text)
{
    char tidy[ROWS_MOST_TEXT + 1];
    tidy_text(text, tidy);
    const text_search search = {r->texts, tidy};
    uint64_t hash = places_hash(0, tidy, strlen(tidy));
    int place = places_find(&r->text_places, hash, is_text, &search);
    if (place >= 0)
        return r->texts[place];
    places_add(&r->memory, &r->text_places, hash, r->text_count);
    r->texts = arena_more(&r->memory, r->texts, r->text_count, sizeof *r->texts);
    return r->texts[r->text_count++] = arena_text(&r->memory, "%s", tidy);
}

static row_value value_of(rows *r, const json_t *json)
{
    if (json_is_string(json))
        return (row_value){ROW_TEXT, {.text = keep_text(r, json_string_value(json))}};
    if (json_is_integer(json))
        return (row_value){ROW_INTEGER, {.integer = json_integer_value(json)}};
    if (json_is_real(json))
        return (row_value){ROW_REAL, {.real = json_real_value(json)}};
    return (row_value){.kind = json ? ROW_OBJECT : ROW_ABSENT};
}

static void keep_figures(rows *r, row *new, json_t *figures)
{
    const char *name;
    json_t *value;
    new->figures = arena_take(&r->memory, json_object_size(figures) * sizeof *new->figures);
    json_object_foreach(figures, name, value)
    {
        const char *own = arena_text(&r->memory, "%s", name);
        new->figures[new->figure_count++] = (row_figure){own, value_of(r, value)};
    }
}

static void set_field(row *r, int f, row_value v)
{
    r->kinds[f] = (unsigned char)v.kind;
    r->words[f] = v.is;
}

/* In memory of the caller's, but for texts. */
static void read_fields(rows *r, const json_t *object, row *new)
{
    for (int f = 0; f < FIELD_COUNT; f++)
        set_field(new, f, value_of(r, find(object, FIELDS[f].path)));
    if (!row_has(new, DIRECTION))
        set_field(new, field_of(DIRECTION), (row_value){ROW_TEXT, {.text = keep_text(r, "forward")}});
    new->failed =
        row_is(new, "status", "failed") || row_number(new, "error.largest") > row_number(new, "error.tolerance");
}

typedef struct key_search {
    const rows *rows;
    const row *row;
} key_search;

static bool ran_the_same(const void *user, int index)
{
    const key_search *s = user;
    return row_alike(&s->rows->at[index], s->row, 0) && row_is(&s->rows->at[index], "case", row_text(s->row, "case"));
}

static uint64_t key_of(const row *r)
{
    const char *name = row_text(r, "case");
    return places_hash(hash_of(r, 0), name, strlen(name));
}

const row *rows_find(const rows *r, const row *like)
{
    int place = places_find(&r->keys, key_of(like), ran_the_same, &(key_search){r, like});
    return place < 0 ? NULL : &r->at[place];
}

static row *append(rows *r, uint64_t key)
{
    places_add(&r->memory, &r->keys, key, r->count);
    r->at = arena_more(&r->memory, r->at, r->count, sizeof *r->at);
    row *new = &r->at[r->count++];
    new->words = arena_take(&r->memory, FIELD_COUNT * sizeof *new->words);
    new->kinds = arena_take(&r->memory, FIELD_COUNT * sizeof *new->kinds);
    return new;
}

/* Behind the others, or in place of an older one. */
static void add(rows *r, const json_t *object)
{
    row_word words[FIELD_COUNT];
    unsigned char kinds[FIELD_COUNT];
    row new = {.words = words, .kinds = kinds};
    read_fields(r, object, &new);
    uint64_t key = key_of(&new);
    int place = places_find(&r->keys, key, ran_the_same, &(key_search){r, &new});
    row *into = place < 0 ? append(r, key) : &r->at[place];
    r->replaced += place >= 0;
    if (place >= 0 && strcmp(row_text(&new, "time"), row_text(into, "time")) < 0)
        return;
    keep_figures(r, &new, json_object_get(object, "figures"));
    memcpy(into->words, words, sizeof words);
    memcpy(into->kinds, kinds, sizeof kinds);
    into->figures = new.figures;
    into->figure_count = new.figure_count;
    into->failed = new.failed;
}

/* One line without its end, or the first MOST_LINE + 1 bytes of one that is too long; false at the end of the file. */
static bool read_line(FILE *stream, char *line, size_t *length)
{
    int c = getc_unlocked(stream);
    if (c == EOF)
        return false;
    for (*length = 0; c != EOF && c != '\n'; c = getc_unlocked(stream))
        if (*length <= MOST_LINE)
            line[(*length)++] = (char)c;
    return true;
}

static bool blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

int rows_read_stream(rows *r, FILE *stream, const char *path, rows_complaint complain, void *user)
{
    char *line = have(malloc(MOST_LINE + 1)), reason[MOST_REASON];
    size_t length;
    int found = 0;
    r->files++;
    for (int number = 1; read_line(stream, line, &length); number++) {
        if (blank(line, length))
            continue;
        json_t *object = NULL;
        if (length > MOST_LINE)
            snprintf(reason, sizeof reason, "longer than %d bytes", MOST_LINE);
        else
            object = parse(line, length, reason);
        if (object) {
            add(r, object);
            json_decref(object);
            found++;
        } else {
            r->unusable++;
            complain(user, path, number, reason);
        }
    }
    free(line);
    return ferror(stream) ? -1 : found;
}

int rows_read(rows *r, const char *path, rows_complaint complain, void *user)
{
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return -1;
    int found = rows_read_stream(r, stream, path, complain, user);
    int reason = errno;
    fclose(stream);
    errno = reason;
    return found;
}

void rows_free(rows *r)
{
    arena_free(&r->memory);
    *r = (rows){0};
}
