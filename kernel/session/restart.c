/* restart.c - main workers and fork servers that die before they are of use.
 *
 * A main worker that dies is replaced at once, with the variables of the last commit.
 * If the next one also dies before it has answered anything, what follows depends on
 * the cause:
 *
 *   from outside      Somebody killed it. This says nothing about the notebook, and is
 *                     never a reason to give up.
 *   at a value        The value is in quarantine now (quarantine.c), so the next main
 *                     worker gets further.
 *   by itself         A failure. After FAILURES_MAX failures in a row the next main
 *                     worker binds nothing at all ("bare"), and says so. After as many
 *                     of those, or if there is nothing to bind, nothing can be started.
 *
 *   WHOLE ──failures──► BARE ──failures──► nothing can be started: the kernel ends,
 *     ▲                  │                 and leaves its session to a later one
 *     └─────an answer────┘
 *
 * Between tries in a row there are pauses, which grow up to PAUSE_MAX_NS. They end with
 * the first main worker that gets ready. Requests wait for as long.
 *
 * A fork server that dies while there is a main worker is replaced in the same way. But
 * no request waits for it, and it is tried for ever, since the notebook goes on.
 * One thread.
 */
#include "session/restart.h"

#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "session/commits.h"
#include "session/workers.h"
#include "session/publish.h"
#include "session/rollback.h"
#include "workers/program.h"

#define FAILURES_MAX 3
#define PAUSE_NS     50000000LL
#define PAUSE_MAX_NS 2000000000LL
#define DOUBLINGS    6
#define LOOK_NS      20000000LL

/* What the next main worker binds. */
typedef enum hfi_start_kind {
    HFI_START_WHOLE, /* all variables of the last commit */
    HFI_START_BARE,  /* no variable: binding them ended the main workers before */
} hfi_start_kind;

typedef struct hfi_restart {
    hfi_start_kind kind;
    /* when to start the missing fork server or main worker; 0: they run */
    long long due_ns;
    int tries;           /* that died since one was ready */
    int failures;        /* that ended by themselves since one answered */
    off_t session_bytes; /* at the last look */
    long long looked_ns; /* when that was */
} hfi_restart;

const hfi_owner hfi_restart_owner = {offsetof(hf_kernel, restart),
                                     sizeof(struct hfi_restart), NULL, NULL};

/* The pause before a try. The first try is made at once. */
static long long
pause_ns(int tries) {
    if (tries < 2)
        return 0;
    long long pause = PAUSE_NS << (tries - 2 < DOUBLINGS ? tries - 2 : DOUBLINGS);
    return pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS;
}

/* End the kernel, since nothing can be started. */
static void
give_up(hf_kernel *kernel, const hf_error *error) {
    hfi_textbuf text = {0};
    kernel->failure = *error;
    kernel->stopping = 1;
    if (!hfi_takeup_leave(kernel, &kernel->failure))
        return;
    hfi_textbuf_format(&text, "holdfast: %s\n", kernel->failure.message);
    hfi_publish_stream(kernel, HFI_STDERR, hfi_publish_last_parent(kernel),
                       hfi_textbuf_part(&text));
    hfi_textbuf_fini(&text);
}

static void
fail_start(hf_kernel *kernel, const hf_error *error) {
    hfi_restart *restart = kernel->restart;
    if (++restart->failures < FAILURES_MAX)
        return;
    if (restart->kind == HFI_START_WHOLE && hf_session_generation(kernel->store) > 0) {
        restart->kind = HFI_START_BARE;
        restart->failures = 0;
        hfi_log("the notebook's process ended %d times by itself: the next one binds "
                "no variable",
                FAILURES_MAX);
        return;
    }
    give_up(kernel, error);
}

/* Truncated by another program, the session has lost variables, and nobody can bind
 * them. It must not be taken up. A kernel that is started again is a new one. */
static void
end_without_session(hf_kernel *kernel) {
    hfi_textbuf text = {0};
    kernel->stopping = 1;
    (void)hf_error_set(&kernel->failure, HF_E_GONE,
                       "another program has truncated /dev/shm%s, where the notebook's "
                       "variables are: they are lost, and the kernel ends. Start it "
                       "again and run the cells",
                       hf_session_name(kernel->store));
    (void)shm_unlink(hf_session_name(kernel->store));
    hfi_textbuf_format(&text, "holdfast: %s\n", kernel->failure.message);
    hfi_publish_stream(kernel, HFI_STDERR, hfi_publish_last_parent(kernel),
                       hfi_textbuf_part(&text));
    hfi_textbuf_fini(&text);
}

static void
check_size(hf_kernel *kernel) {
    struct stat now;
    if (kernel->stopping || fstat(hf_session_fd(kernel->store), &now) != 0)
        return;
    if (now.st_size < kernel->restart->session_bytes &&
        hf_session_is_cut(kernel->store))
        end_without_session(kernel);
    kernel->restart->session_bytes = now.st_size;
}

/* In a run of short cells not in each turn. A process that dies of it is looked into
 * before another one is started. */
void
hfi_restart_check_session(hf_kernel *kernel, long long now_ns) {
    if (now_ns - kernel->restart->looked_ns < LOOK_NS)
        return;
    kernel->restart->looked_ns = now_ns;
    check_size(kernel);
}

void
hfi_restart_note(hf_kernel *kernel, hfi_end end) {
    hf_error error = HF_ERROR_INIT;
    check_size(kernel);
    (void)hf_error_set(&error, HF_E_GONE,
                       "the worker program ended %d times before it was ready",
                       FAILURES_MAX);
    if (end == HFI_END_OF_CELL)
        return;
    kernel->restart->tries++;
    if (end == HFI_END_BY_ITSELF)
        fail_start(kernel, &error);
}

static void
start_workers(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    int with_main = hfi_workers_main(kernel) == NULL && !hfi_rollback_is_waking(kernel);
    kernel->restart->due_ns = 0;
    hf_status status = hfi_workers_start(
        kernel, with_main, kernel->restart->kind == HFI_START_BARE, &error);
    if (status != HF_OK) {
        hfi_log("%s", error.message);
        kernel->restart->tries++;
        /* If the fork server is dying, its end will be handled. A healthy notebook
         * needs none. */
        if (status != HF_E_GONE && with_main)
            fail_start(kernel, &error);
        hfi_restart_begin(kernel);
    } else if (with_main && !hfi_cell_is_in_worker(&kernel->cell)) {
        hfi_commits_adopt(kernel, NULL, NULL); /* bind nothing of a dead cell */
    }
}

void
hfi_restart_begin(hf_kernel *kernel) {
    long long wait_ns = pause_ns(kernel->restart->tries);
    if (kernel->stopping)
        return;
    if (wait_ns > 0)
        kernel->restart->due_ns = hfi_clock_ns() + wait_ns;
    else
        start_workers(kernel);
}

int
hfi_restart_is_due(const hf_kernel *kernel) {
    return kernel->restart->due_ns != 0 && hfi_workers_main(kernel) == NULL;
}

long long
hfi_restart_deadline_ns(const hf_kernel *kernel) {
    return kernel->restart->due_ns != 0 ? kernel->restart->due_ns : -1;
}

void
hfi_restart_tick(hf_kernel *kernel, long long now_ns) {
    if (kernel->restart->due_ns != 0 && now_ns >= kernel->restart->due_ns)
        start_workers(kernel);
}

void
hfi_restart_ready(hf_kernel *kernel) {
    kernel->restart->tries = 0;
}

void
hfi_restart_answered(hf_kernel *kernel) {
    kernel->restart->failures = 0;
    kernel->restart->kind = HFI_START_WHOLE;
}

int
hfi_restart_is_from_outside(int is_known, int status) {
    int number = is_known && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return number == SIGKILL || number == SIGTERM || number == SIGINT ||
           number == SIGHUP;
}

int
hfi_restart_is_bare(const hf_kernel *kernel) {
    return kernel->restart->kind == HFI_START_BARE;
}
