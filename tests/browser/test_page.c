/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_page CHROMIUM PROFILE LOOK.js REPORT.html CHART=POINTS...: a report in a browser, light and dark, wide and
 * narrow. It has exactly these charts with that many points, complains of nothing and asks the network for nothing.
 */
#include "browser.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct view {
    const char *scheme;
    int width;
} view;

static const view VIEWS[] = {{"light", 1200}, {"dark", 1200}, {"light", 360}, {"dark", 360}};
enum { VIEW_COUNT = sizeof VIEWS / sizeof *VIEWS };

typedef struct test {
    browser browser;
    char *look;
    char url[4096];
    char **charts; /* as on the command line */
    int chart_count;
    int wrong;
} test;

/* Counts what does not hold, and says which. */
#define EXPECT(t, v, condition, ...)                                                                                   \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s, %d wide: not so: %s: ", (v)->scheme, (v)->width, #condition);                         \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            (t)->wrong++;                                                                                              \
        }                                                                                                              \
    } while (0)

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 16);
    if (!file || !text || fread(text, 1, (1 << 16) - 1, file) == 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    return text;
}

static void call(test *t, const char *method, json_t *parameters)
{
    json_decref(browser_call(&t->browser, method, parameters));
}

/* The page as this view shows it; what look.js found. */
static json_t *open_page(test *t, const view *v)
{
    call(t, "Emulation.setDeviceMetricsOverride",
         json_pack("{s:i, s:i, s:i, s:b}", "width", v->width, "height", 800, "deviceScaleFactor", 1, "mobile",
                   v->width < 500));
    call(t, "Emulation.setEmulatedMedia",
         json_pack("{s:[{s:s, s:s}]}", "features", "name", "prefers-color-scheme", "value", v->scheme));
    browser_forget(&t->browser);
    call(t, "Page.navigate", json_pack("{s:s}", "url", t->url));
    browser_wait(&t->browser, "Page.loadEventFired");
    json_t *answer = browser_call(&t->browser, "Runtime.evaluate",
                                  json_pack("{s:s, s:b}", "expression", t->look, "returnByValue", 1));
    const json_t *value = json_object_get(json_object_get(answer, "result"), "value");
    json_t *seen = json_is_string(value) ? json_loads(json_string_value(value), 0, NULL) : NULL;
    if (!seen) {
        fprintf(stderr, "look.js gave nothing: %s\n", json_dumps(answer, 0));
        exit(1);
    }
    json_decref(answer);
    return seen;
}

/* ---- What must hold ---------------------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void check_charts(test *t, const view *v, const json_t *charts)
{
    EXPECT(t, v, (int)json_object_size(charts) == t->chart_count, "%d charts", (int)json_object_size(charts));
    for (int i = 0; i < t->chart_count; i++) {
        char id[64];
        int points = 0;
        sscanf(t->charts[i], "%63[^=]=%d", id, &points);
        const json_t *chart = json_object_get(charts, id);
        EXPECT(t, v, chart, "%s", id);
        EXPECT(t, v, number(chart, "points") == points, "%s: %g, expected %d", id, number(chart, "points"), points);
        EXPECT(t, v, number(chart, "declared") == points, "%s: %g", id, number(chart, "declared"));
        EXPECT(t, v, number(chart, "titled") == points, "%s: %g", id, number(chart, "titled"));
        EXPECT(t, v, number(chart, "placed") == points, "%s: %g", id, number(chart, "placed"));
    }
}

static void check_page(test *t, const view *v, const json_t *seen)
{
    EXPECT(t, v, number(seen, "sideways") <= 0, "%g pixels", number(seen, "sideways"));
    EXPECT(t, v, number(seen, "small") == 0, "%g charts", number(seen, "small"));
    EXPECT(t, v, number(seen, "ink") >= 7, "%g", number(seen, "ink"));
    EXPECT(t, v, number(seen, "faintest") >= 3, "%g", number(seen, "faintest"));
    EXPECT(t, v, number(seen, "scripts") == 0, "%g", number(seen, "scripts"));
    EXPECT(t, v, number(seen, "handlers") == 0, "%g", number(seen, "handlers"));
    EXPECT(t, v, number(seen, "headless") == 0, "%g tables", number(seen, "headless"));
    EXPECT(t, v, number(seen, "repeated") == 0, "%g ids", number(seen, "repeated"));
    EXPECT(t, v, number(seen, "sentences") > 0, "%g", number(seen, "sentences"));
    EXPECT(t, v, strcmp(json_string_value(json_object_get(seen, "language")), "en") == 0, "the language");
    EXPECT(t, v, *json_string_value(json_object_get(seen, "title")), "the title");
}

/* Complaints of any kind, and requests for anything but the page. */
static void check_events(test *t, const view *v)
{
    size_t i;
    json_t *event;
    json_array_foreach(t->browser.events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "method"));
        const json_t *request = json_object_get(json_object_get(event, "params"), "request");
        const char *url = json_string_value(json_object_get(request, "url"));
        bool complaint = strcmp(name, "Runtime.consoleAPICalled") == 0 ||
                         strcmp(name, "Runtime.exceptionThrown") == 0 || strcmp(name, "Log.entryAdded") == 0;
        EXPECT(t, v, !complaint, "%s", json_dumps(event, 0));
        EXPECT(t, v, !url || strcmp(url, t->url) == 0, "asked for %s", url);
    }
}

static void check_view(test *t, const view *v, char *colour, size_t size)
{
    json_t *seen = open_page(t, v);
    check_charts(t, v, json_object_get(seen, "charts"));
    check_page(t, v, seen);
    check_events(t, v);
    snprintf(colour, size, "%s", json_string_value(json_object_get(seen, "page")));
    json_decref(seen);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: %s CHROMIUM PROFILE LOOK.js REPORT.html CHART=POINTS...\n", argv[0]);
        return 2;
    }
    char colours[VIEW_COUNT][64];
    test t = {.look = read_file(argv[3]), .charts = argv + 5, .chart_count = argc - 5};
    snprintf(t.url, sizeof t.url, "file://%s", argv[4]);
    browser_start(&t.browser, argv[1], argv[2]);
    call(&t, "Page.enable", json_object());
    call(&t, "Runtime.enable", json_object());
    call(&t, "Log.enable", json_object());
    call(&t, "Network.enable", json_object());
    for (int i = 0; i < VIEW_COUNT; i++)
        check_view(&t, &VIEWS[i], colours[i], sizeof colours[i]);
    EXPECT(&t, &VIEWS[1], strcmp(colours[0], colours[1]) != 0, "both are %s", colours[0]);
    browser_stop(&t.browser);
    free(t.look);
    printf("%d charts in %d views: %d things wrong\n", t.chart_count, VIEW_COUNT, t.wrong);
    return t.wrong ? 1 : 0;
}
