/* forking.c - forks of a worker: what they would lack, and what makes one another worker.
 * Python's worker has its own (bindings/holdfast/worker/forking.py, rollback.py).
 *
 * A fork has all of a process's memory, and only the thread that forked. So threads and
 * children are found here, by the system; a language adds what only it knows.
 *
 * In the fork the same descriptors are others: the channel, the pipes at 1 and 2, and the
 * pipe by which a reply of another thread wakes the loop. Frames that the parent had read
 * are the parent's.
 */
#include "forking.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- obstacles ------------------------------------------------------------------- */

/* If the system doesn't say it, there may be some. */
static bool
has_children(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static bool
has_threads(void) {
    DIR *list = opendir("/proc/self/task");
    size_t count = 0;
    if (list == NULL)
        return errno != ENOENT;
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(list);
    return count > 1;
}

const char *
hfi_forking_obstacle(hf_worker *worker, char words[HFI_OBSTACLE_SIZE]) {
    const hf_worker_language *language = &worker->language;
    const char *lacks =
        language->obstacle != NULL ? language->obstacle(language->context) : NULL;
    if (lacks != NULL)
        snprintf(words, HFI_OBSTACLE_SIZE, "a fork lacks %s", lacks);
    else if (has_threads())
        snprintf(words, HFI_OBSTACLE_SIZE, "a fork lacks the process's threads");
    else if (has_children())
        snprintf(words, HFI_OBSTACLE_SIZE,
                 "the process has child processes, for which "
                 "only their parent can wait");
    else
        return NULL;
    return words;
}

/* ---- forking --------------------------------------------------------------------- */

typedef struct forking_hooks {
    const hf_worker_language *language;
    hf_worker_fork kind;
} forking_hooks;

static void
before_forking(void *context) {
    const forking_hooks *hooks = context;
    if (hooks->language->before_fork != NULL)
        hooks->language->before_fork(hooks->language->context, hooks->kind);
}

static void
after_forking(void *context, pid_t pid) {
    const forking_hooks *hooks = context;
    if (hooks->language->after_fork != NULL)
        hooks->language->after_fork(hooks->language->context, hooks->kind, pid);
}

static void
become_other(hf_worker *worker, hf_worker_fork kind) {
    worker->pid = getpid();
    worker->thread = pthread_self();
    worker->is_protected = false;
    pthread_mutex_init(&worker->mutex, NULL);
    hfi_channel_begin_anew(worker->channel);
    for (hfi_incoming *one; (one = worker->waiting) != NULL;) {
        worker->waiting = one->next;
        hfi_incoming_free(one);
    }
    worker->last_waiting = &worker->waiting;
    if (kind == HF_FORK_CELL) {
        worker->way = HFI_WAY_FORKED;
        hfi_fork_start_timers();
    }
}

hf_status
hfi_forking_make(hf_worker *worker, hf_worker_fork kind, hfi_incoming *incoming,
                 pid_t *ret_pid, double *ret_seconds, hf_error *reterr) {
    const int *fds = incoming->fds;
    int wake[2]; /* the fork's own, which will have the numbers of this process's */
    if (incoming->fd_count != 3 || fds[0] < 0 || fds[1] < 0 || fds[2] < 0)
        return hf_error_set(reterr, HF_E_PROTOCOL,
                            "a descriptor of the fork is missing");
    hf_status status = hfi_self_make_wake(wake, reterr);
    if (status != HF_OK)
        return status;
    const hfi_descriptor_move moves[] = {{fds[0], hfi_channel_fd(worker->channel)},
                                         {fds[1], 1},
                                         {fds[2], 2},
                                         {wake[0], worker->wake[0]},
                                         {wake[1], worker->wake[1]}};
    forking_hooks hooks = {&worker->language, kind};
    const hfi_fork_request request = {
        .purpose = kind == HF_FORK_CELL ? HFI_FORK_CELL : HFI_FORK_SLEEPER,
        .session = worker->session,
        .frontend = worker->frontend,
        .moves = moves,
        .move_count = sizeof moves / sizeof *moves,
        .kept = NULL,
        .hooks = {&hooks, before_forking, after_forking}};
    fflush(NULL); /* else the fork would write it, too */
    (void)hfi_fork_note_timers();
    status = hfi_fork(&request, ret_pid, ret_seconds, reterr);
    if (status == HF_OK && *ret_pid == 0) {
        for (int i = 0; i < 3; i++)
            incoming->fds[i] = -1; /* they were moved */
        become_other(worker, kind);
    } else {
        close(wake[0]);
        close(wake[1]);
    }
    return status;
}
