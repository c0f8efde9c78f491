/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/interrupt.c in processes of its own: work that never looks for a signal is ended by it, and leaves none of its
 * files; work that looks, or is saved, ends by itself, unless a second signal comes. Nothing here is timed: a process
 * that does not end is found by the limit that all tests have.
 */
#include "cli/interrupt.h"
#include "cli/report.h"
#include "support/folder.h"
#include "support/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int said[2], answers[2]; /* pipes from the child: standard error, and one byte where it has come to something */

/* A process that does `work`; it has begun when it says so. */
static pid_t start(void (*work)(void))
{
    assert_true(pipe(said) == 0 && pipe(answers) == 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        close(said[1]);
        close(answers[1]);
        return child;
    }
    dup2(said[1], STDERR_FILENO);
    work();
    _exit(99);
}

static void answer(void)
{
    if (write(answers[1], "x", 1) != 1)
        _exit(98);
}

static void wait_for_answer(void)
{
    char byte;
    assert_int_equal(read(answers[0], &byte, 1), 1);
}

/* The exit code; what was said is compared with `words`. */
static int ended(pid_t child, const char *words)
{
    char text[512] = "";
    int state;
    assert_int_equal(waitpid(child, &state, 0), child);
    ssize_t count = read(said[0], text, sizeof text - 1);
    text[count > 0 ? count : 0] = 0;
    assert_string_equal(text, words);
    close(said[0]);
    close(answers[0]);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

static void nap(double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&time, NULL);
}

static void for_ever(void)
{
    for (;;)
        nap(100);
}

static void begin(const char *name)
{
    FILE *file = fopen(name, "w");
    if (!file || fclose(file) != 0)
        _exit(97);
}

/* ---- Work that never looks ----------------------------------------------------------------------------------------
 */

static void does_not_look(void)
{
    report_verb("attend");
    interrupt_install();
    begin("a.npy");
    interrupt_cleans("a.npy");
    begin("b.npy");
    interrupt_forget(interrupt_cleans("b.npy"));
    answer();
    for_ever();
}

static void work_that_does_not_look_is_ended(void **state)
{
    (void)state;
    static const struct {
        int number;
        const char *words;
    } CASES[] = {{SIGINT, "ringattn attend: stopped (Interrupt): nothing was written\n"},
                 {SIGTERM, "ringattn attend: stopped (Terminated): nothing was written\n"}};
    for (int i = 0; i < 2; i++) {
        pid_t child = start(does_not_look);
        wait_for_answer();
        kill(child, CASES[i].number);
        assert_int_equal(ended(child, CASES[i].words), 128 + CASES[i].number);
        assert_int_not_equal(access("a.npy", F_OK), 0);
        assert_int_equal(access("b.npy", F_OK), 0);
    }
}

static void files_are_replaced(void)
{
    interrupt_install();
    begin("a.npy");
    interrupt_cleans("a.npy");
    begin("b.npy");
    if (rename("b.npy", "a.npy") != 0)
        _exit(97);
    interrupt_is_silent();
    answer();
    for_ever();
}

static void files_of_others_stay(void **state)
{
    (void)state;
    pid_t child = start(files_are_replaced);
    wait_for_answer();
    kill(child, SIGTERM);
    assert_int_equal(ended(child, ""), 128 + SIGTERM);
    assert_int_equal(access("a.npy", F_OK), 0);
}

/* ---- Work that looks -----------------------------------------------------------------------------------------------
 */

static void looks(void)
{
    interrupt_install();
    answer();
    while (!interrupted())
        nap(0.01);
    nap(0.8); /* longer than it has to look */
    _exit(interrupt_exit() == 128 + SIGTERM ? 5 : 6);
}

static void work_that_looks_ends_by_itself(void **state)
{
    (void)state;
    pid_t child = start(looks);
    wait_for_answer();
    kill(child, SIGTERM);
    assert_int_equal(ended(child, "ringattn: stopped (Terminated): nothing was written\n"), 5);
}

/* ---- Work that is saved -------------------------------------------------------------------------------------------
 */

#define GOES_ON "ringattn: stops when it has been saved; a second signal ends it at once\n"

static void saves(void)
{
    begin("a.state");
    interrupt_install();
    interrupt_keeps("a.state");
    answer();
    while (!interrupted())
        nap(0.01);
    interrupt_saving(true);
    answer();
    for_ever();
}

static void a_second_signal_ends_at_once(void **state)
{
    (void)state;
    pid_t child = start(saves);
    int status;
    wait_for_answer();
    kill(child, SIGINT);
    wait_for_answer();
    nap(1.3);                                              /* longer than work that does not look has */
    assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* it still saves */
    kill(child, SIGTERM);
    assert_int_equal(
        ended(child, GOES_ON "ringattn: stopped (Terminated) at once: what was saved before is in a.state\n"),
        128 + SIGTERM);
    unlink("a.state");
}

/* It cannot be saved for a while, looks all the time, and then saves for longer than it has to look. */
static void goes_on_and_saves(void)
{
    interrupt_install();
    interrupt_keeps("a.state");
    answer();
    for (int i = 0; i < 130; i++) {
        interrupt_goes_on();
        nap(0.01);
    }
    if (!interrupted())
        _exit(1);
    interrupt_saving(true);
    nap(1.3);
    interrupt_saving(false);
    _exit(5);
}

static void work_that_can_be_saved_later_is_left_alone(void **state)
{
    (void)state;
    pid_t child = start(goes_on_and_saves);
    wait_for_answer();
    kill(child, SIGTERM);
    assert_int_equal(ended(child, GOES_ON), 5);
}

/* A read that takes long: nobody looks. */
static void reads(void)
{
    interrupt_install();
    interrupt_keeps("a.state");
    interrupt_saving(true);
    interrupt_saving(false);
    answer();
    for_ever();
}

static void saved_work_that_does_not_look_is_ended(void **state)
{
    (void)state;
    static const char *const WORDS[] = {"ringattn: stopped (Interrupt) at once: nothing was saved yet\n",
                                        "ringattn: stopped (Interrupt) at once: what was saved before is in a.state\n"};
    for (int saved = 0; saved < 2; saved++) {
        pid_t child = start(reads);
        wait_for_answer();
        kill(child, SIGINT);
        assert_int_equal(ended(child, WORDS[saved]), 128 + SIGINT);
        begin("a.state");
    }
    unlink("a.state");
}

/* It has saved, and then waits for a read that does not end. */
static void saves_and_hangs(void)
{
    begin("a.state");
    interrupt_install();
    interrupt_keeps("a.state");
    answer();
    while (!interrupted())
        nap(0.01);
    interrupt_saving(true);
    interrupt_saving(false);
    for_ever();
}

static void work_that_was_saved_and_does_not_end_is_ended(void **state)
{
    (void)state;
    pid_t child = start(saves_and_hangs);
    wait_for_answer();
    kill(child, SIGINT);
    assert_int_equal(
        ended(child, GOES_ON "ringattn: stopped (Interrupt) at once: what was saved before is in a.state\n"),
        128 + SIGINT);
    unlink("a.state");
}

static void saves_and_ends(void)
{
    interrupt_install();
    interrupt_keeps("state");
    answer();
    while (!interrupted())
        nap(0.01);
    nap(0.3);
    _exit(5);
}

/* `timeout` sends a signal to a process, and then to its group. */
static void the_same_signal_twice_is_one(void **state)
{
    (void)state;
    pid_t child = start(saves_and_ends);
    wait_for_answer();
    kill(child, SIGTERM);
    kill(child, SIGTERM);
    assert_int_equal(ended(child, ""), 5);
}

/* ---- Signals that were ignored -------------------------------------------------------------------------------------
 */

static void under_nohup(void)
{
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    interrupt_install();
    raise(SIGHUP);
    raise(SIGINT);
    if (interrupted())
        _exit(1);
    raise(SIGTERM);
    if (!interrupted())
        _exit(2);
    interrupt_release();
    raise(SIGHUP);
    _exit(0);
}

static void ignored_signals_stay_ignored(void **state)
{
    (void)state;
    assert_int_equal(ended(start(under_nohup), ""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(work_that_does_not_look_is_ended),
        IN_FOLDER(files_of_others_stay),
        cmocka_unit_test(work_that_looks_ends_by_itself),
        IN_FOLDER(a_second_signal_ends_at_once),
        cmocka_unit_test(work_that_can_be_saved_later_is_left_alone),
        IN_FOLDER(saved_work_that_does_not_look_is_ended),
        IN_FOLDER(work_that_was_saved_and_does_not_end_is_ended),
        cmocka_unit_test(the_same_signal_twice_is_one),
        cmocka_unit_test(ignored_signals_stay_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
