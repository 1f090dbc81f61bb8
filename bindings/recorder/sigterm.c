/* sigterm.c - SIGTERM reaches its handler in Python although the program waits.
 *
 * A handler in Python runs when the interpreter comes to it. A signal that arrives just
 * before the program begins to wait in a system call is noted and interrupts nothing:
 * the handler then runs when the wait is over, which may be never. A pool that ends
 * its workers hits that moment often, and would wait for them forever. So the first
 * signal starts a timer, which sends it again until the handler has run: one of
 * them falls into the wait and ends it.
 *
 * The timer belongs to the process: a forked child makes its own. Only
 * async-signal-safe functions are called by the handler. If the system has no such
 * timers, the signal is sent once, as ever.
 *
 * Rejected: writing the trace in the signal's own handler (it may have interrupted
 * malloc()).
 */
#include "recorder_python.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
enum { AGAIN_NS = 20000000 };

static void (*volatile handler_of_python)(int);
static timer_t timer;
static pid_t timer_owner; /* 0: there is none */

static void
note_and_insist(int number) {
    int before = errno;
    struct itimerspec again = {{0, AGAIN_NS}, {0, AGAIN_NS}};
    (void)timer_settime(timer, 0, &again, NULL);
    handler_of_python(number);
    errno = before;
}

static bool
make_timer(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
    if (timer_owner == getpid())
        return true;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        return false;
    timer_owner = getpid();
    return true;
}

void
hfi_sigterm_insist(void) {
    struct sigaction now;
    if (sigaction(SIGTERM, NULL, &now) != 0 || now.sa_flags & SA_SIGINFO ||
        now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN ||
        now.sa_handler == note_and_insist || !make_timer())
        return;
    handler_of_python = now.sa_handler;
    now.sa_handler = note_and_insist;
    (void)sigaction(SIGTERM, &now, NULL);
}
#else
void
hfi_sigterm_insist(void) {}
#endif
