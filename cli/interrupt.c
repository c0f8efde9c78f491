/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of the signals that ask to stop, a timer for work that does not look, and the files to remove. Only
 * functions that are safe in a signal handler are called there. See interrupt.h.
 */
#include "interrupt.h"

#include "report.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
enum { SIGNAL_COUNT = sizeof SIGNALS / sizeof *SIGNALS, MOST_FILES = 8, NAME_TEXT = 48 };

static const long LOOK_NANOSECONDS = 500000000; /* for the work to look for a signal, */
static const long NEXT_NANOSECONDS = 400000000; /* to look again, where it goes on to be saved, */
static const time_t END_SECONDS = 5;            /* and to come to its end then */
/* `timeout` and launchers send a signal to the process and to its group: the same request, twice. */
static const double SAME_SECONDS = 0.1;

static volatile sig_atomic_t caught, noticed, alive, waits, saving, silent;
static double caught_at;
static const char *volatile kept;
static char signal_names[SIGNAL_COUNT][NAME_TEXT]; /* strsignal cannot be called where they are needed */
static timer_t timer;
static bool has_timer;

/* ---- Files that were begun --------------------------------------------------------------------------------------- */

static struct {
    volatile sig_atomic_t used;
    char name[PATH_MAX];
    dev_t device;
    ino_t inode;
} files[MOST_FILES];

int interrupt_cleans(const char *name)
{
    struct stat file;
    if (lstat(name, &file) != 0 || strlen(name) >= PATH_MAX)
        return 0;
    for (int i = 0; i < MOST_FILES; i++)
        if (!files[i].used) {
            snprintf(files[i].name, PATH_MAX, "%s", name);
            files[i].device = file.st_dev;
            files[i].inode = file.st_ino;
            files[i].used = 1;
            return i + 1;
        }
    return 0;
}

void interrupt_forget(int number)
{
    if (number > 0)
        files[number - 1].used = 0;
}

/* ---- In a signal handler: nothing that takes a lock ---------------------------------------------------------------
 */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* A name may lead to another run's file by now. */
static void remove_files(void)
{
    for (int i = 0; i < MOST_FILES; i++) {
        struct stat file;
        if (files[i].used && lstat(files[i].name, &file) == 0 && file.st_dev == files[i].device &&
            file.st_ino == files[i].inode)
            unlink(files[i].name);
    }
}

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void say_begin(void)
{
    const char *verb = report_current_verb();
    say("ringattn");
    say(*verb ? " " : "");
    say(verb);
    say(": ");
}

static void say_stopped(int number)
{
    bool can_go_on = kept && access(kept, F_OK) == 0;
    say_begin();
    say("stopped (");
    for (int i = 0; i < SIGNAL_COUNT; i++)
        say(SIGNALS[i] == number ? signal_names[i] : "");
    say(!kept       ? "): nothing was written"
        : can_go_on ? ") at once: what was saved before is in "
                    : ") at once: nothing was saved yet");
    say(can_go_on ? kept : "");
    say("\n");
}

static void end_at_once(int number)
{
    remove_files();
    if (!silent)
        say_stopped(number);
    _exit(EXIT_STOPPED + number);
}

static void set_timer(time_t seconds, long nanoseconds)
{
    const struct itimerspec once = {.it_value = {seconds, nanoseconds}};
    if (has_timer)
        timer_settime(timer, 0, &once, NULL);
}

static void on_signal(int number)
{
    if (caught && now() - caught_at > SAME_SECONDS)
        end_at_once(number);
    if (caught)
        return;
    caught_at = now();
    caught = number;
    set_timer(0, LOOK_NANOSECONDS);
}

/* Work that is saved goes on to where it can be. It is left alone while it looks for the signal, and while it saves. */
static void on_timer_of_saved_work(void)
{
    static volatile sig_atomic_t told;
    if (!alive && !saving)
        end_at_once((int)caught);
    if (!told && !silent) {
        say_begin();
        say("stops when it has been saved; a second signal ends it at once\n");
    }
    told = 1;
    alive = 0;
    set_timer(0, NEXT_NANOSECONDS);
}

static void on_timer(int number)
{
    static volatile sig_atomic_t ending;
    (void)number;
    if (waits)
        return;
    if (kept) {
        on_timer_of_saved_work();
        return;
    }
    if (!noticed || ending)
        end_at_once((int)caught);
    ending = 1;
    set_timer(END_SECONDS, 0);
}

/* ---- Before anything else ---------------------------------------------------------------------------------------- */

static bool ignored_from_outside[SIGNAL_COUNT];

/*
 * A library that is loaded may take a signal for itself before main begins: the UCX of MPICH takes SIGHUP. Whether one
 * was ignored from outside (nohup) is looked up before that, by the kernel's own call: nothing is set up yet,
 * sanitizers neither.
 */
__attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) static void look_first(void)
{
    enum { KERNEL_SET_BYTES = 8, ROOM = 16 };
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        void (*current[ROOM])(int) = {NULL}; /* the kernel's struct begins with the handler */
        if (syscall(SYS_rt_sigaction, SIGNALS[i], NULL, current, KERNEL_SET_BYTES) == 0)
            ignored_from_outside[i] = current[0] == SIG_IGN;
    }
}

__attribute__((section(".preinit_array"), used)) static void (*before_libraries)(void) = look_first;

/* ---- Outside of it ----------------------------------------------------------------------------------------------- */

static void install_timer(const sigset_t *all)
{
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART, .sa_mask = *all};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
    has_timer = has_timer || (sigaction(event.sigev_signo, &action, NULL) == 0 &&
                              timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
}

void interrupt_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    install_timer(&action.sa_mask);
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        struct sigaction previous;
        snprintf(signal_names[i], NAME_TEXT, "%s", strsignal(SIGNALS[i]));
        /* A signal that was ignored from outside (nohup) stays ignored. */
        if (ignored_from_outside[i])
            signal(SIGNALS[i], SIG_IGN);
        else if (sigaction(SIGNALS[i], NULL, &previous) == 0 && previous.sa_handler != SIG_IGN)
            sigaction(SIGNALS[i], &action, NULL);
    }
    /* A write past a size limit, or to a pipe that nobody reads, then fails instead of ending the process. */
    action.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &action, NULL);
    sigaction(SIGPIPE, &action, NULL);
}

void interrupt_release(void)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        struct sigaction current;
        if (sigaction(SIGNALS[i], NULL, &current) == 0 && current.sa_handler == on_signal)
            signal(SIGNALS[i], SIG_DFL);
    }
}

bool interrupted(void)
{
    if (caught)
        noticed = alive = 1;
    return caught != 0;
}

void interrupt_goes_on(void)
{
    if (caught)
        alive = 1;
}

void interrupt_keeps(const char *path)
{
    kept = path;
}

void interrupt_saving(bool begins)
{
    saving = begins;
    alive = caught != 0;
}

void interrupt_waits(void)
{
    waits = 1;
}

void interrupt_is_silent(void)
{
    silent = 1;
}

int interrupt_exit(void)
{
    int number = (int)caught;
    noticed = 1;
    if (!number)
        return report(EXIT_STOPPED, "stopped, as another process was");
    if (kept)
        return report(EXIT_STOPPED + number,
                      "stopped (%s): what was done is in %s, and the same command goes on from there",
                      strsignal(number), kept);
    return report(EXIT_STOPPED + number, "stopped (%s): nothing was written", strsignal(number));
}
