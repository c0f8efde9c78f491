#include "interrupt.h"

#include "report.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t caught;
static const char *kept;

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
enum { SIGNAL_COUNT = sizeof SIGNALS / sizeof *SIGNALS };

static void on_signal(int number)
{
    caught = number;
}

void interrupt_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        struct sigaction previous;
        /* A signal that was ignored from outside (nohup) stays ignored. */
        if (sigaction(SIGNALS[i], NULL, &previous) == 0 && previous.sa_handler != SIG_IGN)
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
    return caught != 0;
}

void interrupt_keeps(const char *path)
{
    kept = path;
}

int interrupt_exit(void)
{
    int number = (int)caught;
    if (!number)
        return report(EXIT_STOPPED, "stopped, as another process was");
    if (kept)
        return report(EXIT_STOPPED + number,
                      "stopped (%s): what was done is in %s, and the same command goes on from there",
                      strsignal(number), kept);
    return report(EXIT_STOPPED + number, "stopped (%s): nothing was written", strsignal(number));
}
