#include "rows.h"

#include <errno.h>
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

/* The value at `path`, a name or two with a dot between them. */
static json_t *find(const json_t *object, const char *path)
{
    char name[32];
    const char *dot = strchr(path, '.');
    if (!dot)
        return json_object_get(object, path);
    snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
    return json_object_get(json_object_get(object, name), dot + 1);
}

const char *row_text(const row *r, const char *path)
{
    const char *text = json_string_value(find(r->json, path));
    return text ? text : "";
}

double row_number(const row *r, const char *path)
{
    const json_t *value = find(r->json, path);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const json_t *row_value(const row *r, const char *path)
{
    return find(r->json, path);
}

bool row_has(const row *r, const char *path)
{
    return find(r->json, path) != NULL;
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

bool row_alike(const row *a, const row *b, unsigned may_differ)
{
    for (int f = 0; f < FIELD_COUNT; f++)
        if (FIELDS[f].told && !(FIELDS[f].told & may_differ) && !json_equal(a->told[f], b->told[f]))
            return false;
    return true;
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

static bool check_field(const json_t *object, const field *f, char reason[MOST_REASON])
{
    char parent[32];
    const char *dot = strchr(f->path, '.');
    snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - f->path) : 0, f->path);
    const json_t *value = find(object, f->path);
    if (!value && (!f->required || (dot && !json_object_get(object, parent))))
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
    const char *wrong = NULL;
    if (strcmp(status, "ok") != 0 && strcmp(status, "failed") != 0)
        wrong = "status: expected ok or failed";
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
static json_t *tidy_text(const char *text)
{
    static const char CUT[] = "...";
    char tidy[ROWS_MOST_TEXT + 1];
    size_t used = 0;
    while (*text) {
        bool control;
        int length = character((const unsigned char *)text, &control);
        if (used + (size_t)length > sizeof tidy - sizeof CUT) {
            memcpy(tidy + used, CUT, sizeof CUT);
            return json_string(tidy);
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
    return json_string(tidy);
}

/* Every text of an object tidied, every number looked at: false when one is too large. */
static bool tidy_object(json_t *object)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, name, value)
    {
        if (json_is_number(value) && fabs(json_number_value(value)) > ROWS_MOST_NUMBER)
            return false;
        if (json_is_string(value))
            json_object_set_new(object, name, tidy_text(json_string_value(value)));
    }
    return true;
}

/* A row, and the objects in it; nothing of a row lies deeper. */
static bool tidy(json_t *object)
{
    const char *name;
    json_t *value;
    bool right = tidy_object(object);
    json_object_foreach(object, name, value) if (right && json_is_object(value)) right = tidy_object(value);
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
    if (right && !tidy(object)) {
        right = false;
        snprintf(reason, MOST_REASON, "a number beyond %g", ROWS_MOST_NUMBER);
    }
    if (right)
        return object;
    json_decref(object);
    return NULL;
}

/* ---- All lines --------------------------------------------------------------------------------------------------- */

static char *key_of(const json_t *object)
{
    json_t *values = json_array();
    json_array_append(values, json_object_get(object, "case"));
    for (int f = 0; f < FIELD_COUNT; f++)
        if (FIELDS[f].told)
            json_array_append(values, find(object, FIELDS[f].path));
    char *key = json_dumps(values, JSON_COMPACT);
    json_decref(values);
    return key;
}

/* As with an arena: without memory there is no report. */
static void *have(void *memory)
{
    if (!memory) {
        fprintf(stderr, "ringattn: out of memory for benchmark rows\n");
        exit(1);
    }
    return memory;
}

static row row_of(json_t *object)
{
    row r = {object, have(key_of(object)), have(calloc(FIELD_COUNT, sizeof(const json_t *))), false};
    for (int f = 0; f < FIELD_COUNT; f++)
        r.told[f] = FIELDS[f].told ? find(object, FIELDS[f].path) : NULL;
    r.failed = row_is(&r, "status", "failed") || row_number(&r, "error.largest") > row_number(&r, "error.tolerance");
    return r;
}

static void row_free(row *r)
{
    json_decref(r->json);
    free(r->key);
    free(r->told);
}

/* Behind the others, or in place of an older one. */
static void add(rows *r, json_t *object)
{
    row new = row_of(object);
    if (!r->places)
        r->places = json_object();
    const json_t *place = json_object_get(r->places, new.key);
    if (place) {
        row *old = &r->at[json_integer_value(place)];
        bool newer = strcmp(row_text(&new, "time"), row_text(old, "time")) >= 0;
        row_free(newer ? old : &new);
        if (newer)
            *old = new;
        r->replaced++;
        return;
    }
    json_object_set_new(r->places, new.key, json_integer(r->count));
    r->at = have(realloc(r->at, ((size_t)r->count + 1) * sizeof *r->at));
    r->at[r->count++] = new;
}

/* One line without its end, or the first MOST_LINE + 1 bytes of one that is too long; false at the end of the file. */
static bool read_line(FILE *stream, char *line, size_t *length)
{
    int c = getc(stream);
    if (c == EOF)
        return false;
    for (*length = 0; c != EOF && c != '\n'; c = getc(stream))
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

const row *rows_find(const rows *r, const char *key)
{
    const json_t *place = json_object_get(r->places, key);
    return place ? &r->at[json_integer_value(place)] : NULL;
}

void rows_free(rows *r)
{
    for (int i = 0; i < r->count; i++)
        row_free(&r->at[i]);
    free(r->at);
    json_decref(r->places);
    *r = (rows){0};
}
