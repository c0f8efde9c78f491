/* SPDX-License-Identifier: Apache-2.0 */
/* Starts chromium and speaks the DevTools protocol with it. See browser.h. */
#include "browser.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READS = 3, WRITES = 4, PATIENCE = 120 /* seconds, for anything */ };

static void give_up(const char *what)
{
    fprintf(stderr, "browser: %s\n", what);
    exit(1);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static json_t *next_message(browser *b)
{
    static char *text;
    static size_t room;
    alarm(PATIENCE);
    ssize_t length = getdelim(&text, &room, 0, b->from);
    alarm(0);
    json_t *message = length > 0 ? json_loads(text, 0, NULL) : NULL;
    if (!message)
        give_up("has gone away");
    return message;
}

json_t *browser_call(browser *b, const char *method, json_t *parameters)
{
    int id = ++b->calls;
    json_t *call = json_pack("{s:i, s:s, s:o}", "id", id, "method", method, "params", parameters);
    if (*b->session)
        json_object_set_new(call, "sessionId", json_string(b->session));
    json_dumpf(call, b->to, JSON_COMPACT);
    json_decref(call);
    fputc(0, b->to);
    fflush(b->to);
    for (;;) {
        json_t *message = next_message(b);
        const json_t *answered = json_object_get(message, "id");
        if (!answered) {
            json_array_append_new(b->events, message);
            continue;
        }
        json_t *result = json_incref(json_object_get(message, "result"));
        if (json_integer_value(answered) != id || !result)
            give_up(json_dumps(message, 0));
        json_decref(message);
        return result;
    }
}

static bool has_come(const browser *b, const char *event)
{
    size_t i;
    json_t *message;
    json_array_foreach(b->events, i, message) if (strcmp(json_string_value(json_object_get(message, "method")),
                                                         event) == 0) return true;
    return false;
}

void browser_wait(browser *b, const char *event)
{
    while (!has_come(b, event)) {
        json_t *message = next_message(b);
        if (json_object_get(message, "method"))
            json_array_append(b->events, message);
        json_decref(message);
    }
}

void browser_forget(browser *b)
{
    json_array_clear(b->events);
}

/* ---- The process ------------------------------------------------------------------------------------------------- */

/* In the child. What it says of itself is of no interest; what a page says comes as an event. */
static void become(const char *program, const char *profile, int commands, int answers)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "--user-data-dir=%s", profile);
    const char *words[] = {program,
                           "--headless",
                           "--remote-debugging-pipe",
                           "--disable-gpu",
                           "--disable-background-networking",
                           "--disable-component-update",
                           "--disable-dev-shm-usage",
                           "--no-first-run",
                           folder,
                           geteuid() == 0 ? "--no-sandbox" : "about:blank",
                           NULL};
    /* Above the two numbers first: they may be each other's. */
    int from = dup2(commands, 20), to = dup2(answers, 21);
    dup2(from, READS);
    dup2(to, WRITES);
    for (int fd = WRITES + 1; fd < 64; fd++)
        close(fd);
    if (!freopen("/dev/null", "w", stderr))
        _exit(126);
    execvp(program, (char *const *)words);
    _exit(127);
}

static void attach(browser *b)
{
    json_t *page = browser_call(b, "Target.createTarget", json_pack("{s:s}", "url", "about:blank"));
    json_t *session = browser_call(
        b, "Target.attachToTarget",
        json_pack("{s:s, s:b}", "targetId", json_string_value(json_object_get(page, "targetId")), "flatten", 1));
    snprintf(b->session, sizeof b->session, "%s", json_string_value(json_object_get(session, "sessionId")));
    json_decref(page);
    json_decref(session);
}

void browser_start(browser *b, const char *program, const char *profile)
{
    int commands[2], answers[2];
    *b = (browser){.events = json_array()};
    if (pipe(commands) != 0 || pipe(answers) != 0)
        give_up("no pipes");
    b->process = fork();
    if (b->process == 0)
        become(program, profile, commands[0], answers[1]);
    close(commands[0]);
    close(answers[1]);
    b->to = fdopen(commands[1], "w");
    b->from = fdopen(answers[0], "r");
    if (b->process < 0 || !b->to || !b->from)
        give_up("cannot be started");
    attach(b);
}

void browser_stop(browser *b)
{
    kill(b->process, SIGTERM);
    waitpid(b->process, NULL, 0);
    fclose(b->to);
    fclose(b->from);
    json_decref(b->events);
}
