/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts this program again as child processes, alone, under mpirun or under another program, and waits for them. See
 * launch.h.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The first program of that name on PATH. */
static bool on_path(const char *name, char found[PATH_MAX])
{
    const char *at = getenv("PATH");
    while (at && *at) {
        int length = (int)strcspn(at, ":");
        if (snprintf(found, PATH_MAX, "%.*s/%s", length, at, name) < PATH_MAX && access(found, X_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    found[0] = 0;
    return false;
}

int launch_find(launch *l, const char *mpi, bool (*interrupted)(void))
{
    *l = (launch){.interrupted = interrupted};
    /* Read now: under mpirun it would be mpirun's own. */
    ssize_t length = readlink("/proc/self/exe", l->self, sizeof l->self - 1);
    if (length < 0) {
        fprintf(stderr, "ringattn bench: /proc/self/exe: cannot read which program this is: %s\n", strerror(errno));
        return -1;
    }
    l->self[length] = 0;
    if (!mpi)
        return 0;
    /* Where several are installed, the name without an end may be another MPI's. */
    l->open_mpi = strstr(mpi, "Open MPI") != NULL;
    if (!on_path(l->open_mpi ? "mpirun.openmpi" : "mpirun.mpich", l->mpirun))
        on_path("mpirun", l->mpirun);
    return 0;
}

static void add_launcher(const launch *l, const char **words, int *count, const char *processes)
{
    words[(*count)++] = l->mpirun;
    if (l->open_mpi) {
        words[(*count)++] = "--oversubscribe";
        words[(*count)++] = "--bind-to";
        words[(*count)++] = "none";
        if (geteuid() == 0)
            words[(*count)++] = "--allow-run-as-root";
    }
    words[(*count)++] = "-n";
    words[(*count)++] = processes;
}

/* In the child: never returns. */
static void become(const char *const *words, launch_heard heard)
{
    int nothing = open("/dev/null", O_RDWR);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO); /* mpirun would read ahead in ours */
    if (nothing >= 0 && heard < LAUNCH_RESULTS_TOO)
        dup2(nothing, STDOUT_FILENO);
    if (nothing >= 0 && heard < LAUNCH_TALK)
        dup2(nothing, STDERR_FILENO);
    /* Containers often forbid processes to read each other's memory; whoever can allow it sets the variable. */
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    execv(words[0], (char *const *)words);
    fprintf(stderr, "ringattn bench: %s: cannot be started: %s\n", words[0], strerror(errno));
    _exit(127);
}

/* Naps in between, so that waiting disturbs nothing that is measured. */
static int wait_for(const launch *l, pid_t child)
{
    const struct timespec nap = {0, 20000000};
    bool told = false;
    int status;
    for (;;) {
        pid_t got = waitpid(child, &status, WNOHANG);
        if (got == child)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (got < 0 && errno != EINTR) {
            fprintf(stderr, "ringattn bench: process %d: cannot be waited for: %s\n", (int)child, strerror(errno));
            return -1;
        }
        if (!told && l->interrupted()) {
            told = true;
            kill(child, SIGTERM);
        }
        nanosleep(&nap, NULL);
    }
}

static int start(const launch *l, const char *const *words, launch_heard heard)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        fprintf(stderr, "ringattn bench: no new process: %s\n", strerror(errno));
        return -1;
    }
    if (child == 0)
        become(words, heard);
    return wait_for(l, child);
}

static void add_self(const launch *l, const char **words, int *count, const char *const *arguments)
{
    words[(*count)++] = l->self;
    for (int i = 0; i < LAUNCH_MOST_ARGUMENTS && arguments[i]; i++)
        words[(*count)++] = arguments[i];
    words[*count] = NULL;
}

enum { MOST_WORDS = LAUNCH_MOST_ARGUMENTS + 16 };

int launch_run(const launch *l, int processes, launch_heard heard, const char *const *arguments)
{
    const char *words[MOST_WORDS];
    char number[16];
    int count = 0;
    snprintf(number, sizeof number, "%d", processes);
    if (processes)
        add_launcher(l, words, &count, number);
    add_self(l, words, &count, arguments);
    return start(l, words, heard);
}

int launch_under(const launch *l, const char *const *program, const char *const *arguments)
{
    const char *words[MOST_WORDS];
    char path[PATH_MAX];
    int count = 0;
    if (!on_path(program[0], path))
        return 127;
    for (int i = 0; i < 8 && program[i]; i++)
        words[count++] = i ? program[i] : path;
    add_self(l, words, &count, arguments);
    return start(l, words, LAUNCH_NOTHING);
}
