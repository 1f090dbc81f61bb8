/* fork.h - forks that are children of the frontend: a worker, the process of a cell, and
 * the sleeping fork of a worker. fork.c says how they are made.
 *
 * What is the language's stands in two hooks. Everything else is here: the fork belongs to
 * the frontend and dies with it, and has the descriptors, the signals and the session that
 * its purpose needs.
 *
 * All functions are for one thread at a time, that from which the process forks.
 */
#ifndef HFI_FORK_H
#define HFI_FORK_H

#include "descriptors.h"

#include <holdfast/store.h>
#include <sys/types.h>

typedef enum hfi_fork_purpose {
    /* A new worker, of the fork server: of descriptors it has its own only, an empty stdin,
     * and the signals of a program that begins. */
    HFI_FORK_WORKER,
    /* Runs one cell: all descriptors are shared, as after any fork(). */
    HFI_FORK_CELL,
    /* Sleeps, with a memory that stays as it is now, until its control channel has
     * something to read. At the channel's end it leaves. */
    HFI_FORK_SLEEPER,
} hfi_fork_purpose;

/* What a language does around a fork. Either may be NULL. */
typedef struct hfi_fork_hooks {
    void *context;
    void (*before)(void *context); /* in the process that forks */
    void (*after)(void *context,
                  pid_t pid); /* there, with the fork's pid, or -1 if there is
                                                none; and with 0 in the fork, when it goes on */
} hfi_fork_hooks;

typedef struct hfi_fork_request {
    hfi_fork_purpose purpose;
    hf_session *session;              /* NULL: there is none */
    pid_t frontend;                   /* the parent of this process, and of the fork */
    const hfi_descriptor_move *moves; /* the control channel's first */
    size_t move_count;                /* 1 to HFI_DESCRIPTORS_MAX */
    const int *kept;   /* others that the fork needs; of a cell's all are */
    size_t kept_count; /* HFI_DESCRIPTORS_MAX - 1 at most */
    hfi_fork_hooks hooks;
} hfi_fork_request;

/* Fork: `*ret_pid` is the fork's pid, and 0 in it, when it goes on. `ret_seconds`: the
 * processor time of the helper that made it. HF_E_SYSTEM, HF_E_NOMEM, HF_E_INVALID, and
 * what hf_session_fork_begin() returns; then there is no fork. */
HF_CHECK hf_status hfi_fork(const hfi_fork_request *request, pid_t *ret_pid,
                            double *ret_seconds, hf_error *error);

/* A fork has none of its process's interval timers. Before it: note them; whether one
 * runs. */
int hfi_fork_note_timers(void);

/* In a fork, once handlers of signals may run: start the timers that were noted, with the
 * time that was left then. */
void hfi_fork_start_timers(void);

#endif
