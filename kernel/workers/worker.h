/* worker.h - the fork server, and the workers that are forked from it.
 *
 * A worker's state is one of HFI_WORKER_STATES, and changes only by hfi_worker_move,
 * along one of HFI_WORKER_MOVES:
 *
 *     FORKING┬►STARTING┬►READY┬►SILENT┬►KILLED
 *            │         │      │       └►DEAD
 *            │         │      ├►KILLED
 *            │         │      └►EXITED─►DEAD
 *            │         ├►SILENT
 *            │         ├►KILLED
 *            │         └►EXITED
 *            ├►READY
 *            └►SILENT
 *
 * KILLED, EXITED and DEAD are the final states: session/death.c handles the death then,
 * and hfi_worker_forget frees the worker. tests/kernel/test_worker.c compares this
 * picture with the table. The state doesn't say whether the session still uses the
 * worker: `owned` does.
 *
 * If the system allows it (children.h), a worker is a child of the frontend, and
 * outlives the fork server that forked it. Otherwise the fork server waits for the
 * worker, and reports its exit.
 *
 * The fork server's list owns the workers. A pointer to one is valid until
 * hfi_worker_forget or hfi_fork_server_end.
 *
 * Threads: everything belongs to one thread. A tally is shared with the worker's
 * process.
 */
#ifndef HFI_WORKER_H
#define HFI_WORKER_H

#include <sys/types.h>

#include "holdfast/error.h"
#include "workers/control.h"
#include "workers/stream.h"

typedef enum hfi_role {
    HFI_MAIN,
    HFI_CELL,
    HFI_ASSISTANT,
    HFI_SLEEPER, /* a fork of the main worker that sleeps (session/rollback.c) */
    HFI_FORKED,  /* a fork of the main worker that runs a cell */
} hfi_role;

/* The role's name in the control protocol. */
const char *hfi_role_name(hfi_role role);

/* X(name, what is known of the process) */
#define HFI_WORKER_STATES(X)                                                           \
    X(FORKING, "its parent was asked to fork it")                                      \
    X(STARTING, "it is forked, and not ready yet")                                     \
    X(READY, "it takes requests")                                                      \
    X(SILENT, "its channel is at its end, or broke the protocol: it isn't read again") \
    X(KILLED, "we killed it, since its deadline passed before its exit was known")     \
    X(EXITED, "its exit is known, and its last frames are still to be read")           \
    X(DEAD, "its exit is known, and its channel is at its end")

/* X(from, to, why) */
#define HFI_WORKER_MOVES(X)                                                            \
    X(FORKING, STARTING, "its parent reports its pid")                                 \
    X(FORKING, READY, "its own frame came first; or it has the notebook already")      \
    X(FORKING, SILENT, "the fork failed, or the fork server died before it")           \
    X(STARTING, READY, "it says so")                                                   \
    X(STARTING, SILENT, "its channel ended, or broke the protocol")                    \
    X(STARTING, KILLED, "it wasn't ready in time")                                     \
    X(STARTING, EXITED, "its parent, which we are as a rule, has waited for it")       \
    X(READY, SILENT, "its channel ended, or broke the protocol")                       \
    X(READY, KILLED, "it didn't answer, or was released and didn't exit")              \
    X(READY, EXITED, "its parent, which we are as a rule, has waited for it")          \
    X(SILENT, KILLED, "it didn't exit in time, or nobody reported its exit")           \
    X(SILENT, DEAD, "its parent has waited for it")                                    \
    X(EXITED, DEAD, "its last frames are read")

typedef enum hfi_worker_state {
#define HFI_STATE(name, text) HFI_WORKER_##name,
    HFI_WORKER_STATES(HFI_STATE)
#undef HFI_STATE
        HFI_WORKER_STATE_COUNT
} hfi_worker_state;

/* Why we ended a worker, or gave it up. */
typedef enum hfi_worker_fault {
    HFI_FAULT_NONE,
    HFI_FAULT_LATE,          /* it wasn't ready in time */
    HFI_FAULT_HUNG,          /* it was busy with one value for too long */
    HFI_FAULT_UNINTERRUPTED, /* its cell went on after an interrupt; see `cause` */
    HFI_FAULT_UNFORKED,      /* the fork server could not fork it; see `cause` */
} hfi_worker_fault;

typedef struct hfi_worker {
    struct hfi_worker *next; /* in the fork server's list */
    hfi_role role;
    hfi_worker_state state; /* changed by hfi_worker_move alone */
    int owned;   /* the session still uses it: as main worker, cell worker or standby */
    pid_t pid;   /* 0: not known yet */
    pid_t group; /* process group: the pid of its fork server */
    long long ready_ns;   /* when it got ready; kept in later states; 0: it never was */
    hfi_control *control; /* NULL once closed */
    int output[2];        /* read ends of its fds 1 and 2; -1 once at their end */
    hfi_tally *tally;     /* of `output`; shared with the process */
    int tally_fd;         /* -1 once it was sent to the process */
    hfi_stream stream;
    int texts;         /* reads in a row that brought nothing but text */
    long long text_ns; /* time of the last of these */
    long long calm_ns; /* not to be read before this time; 0: read at once */
    int status;        /* raw wait status; see hfi_worker_status_is_known */
    hfi_worker_fault fault;
    char cause[160]; /* for an exit reason, with the last two faults */
    /* end of our patience, if it isn't ready, is silent or is to exit; 0: none */
    long long deadline_ns;
} hfi_worker;

/* Whether the table has this move. */
int hfi_worker_can_move(hfi_worker_state from, hfi_worker_state to);
/* The only way to change the state. Asserts that the table has the move. */
void hfi_worker_move(hfi_worker *worker, hfi_worker_state to);

/* is_starting: FORKING or STARTING. lives: FORKING, STARTING or READY. */
int hfi_worker_is_starting(const hfi_worker *worker);
int hfi_worker_lives(const hfi_worker *worker);
/* Whether frames on its channel are still read. */
int hfi_worker_is_heard(const hfi_worker *worker);
/* Whether it is KILLED, EXITED or DEAD. */
int hfi_worker_is_over(const hfi_worker *worker);
/* Whether `status` says how it ended. If we killed it, the status says only that. */
int hfi_worker_status_is_known(const hfi_worker *worker);

typedef struct hfi_fork_server {
    pid_t pid;
    hfi_control *control; /* NULL: not running */
    int ready;
    int has_history;     /* as one of these said in its `ready` */
    hfi_worker *workers; /* all that may still run, newest first */
} hfi_fork_server;

/* Start the program `argv` with "--control-fd N --session-fd M" appended.
 * HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_fork_server_start(hfi_fork_server *server,
                                         const char *const *argv, int session_fd,
                                         hf_error *reterr);
/* Close the fork server's channel and wait for it. Kill the rest of its process group
 * and of its workers' groups, wait for the workers that were killed before, and forget
 * all of them. Returns its raw wait status; -1 if it wasn't running, or other code has
 * waited for it already. */
int hfi_fork_server_end(hfi_fork_server *server, int timeout_ms);
/* The fork server is dead or dying: close its channel, and wait for it alone. Its
 * workers live on. Returns as hfi_fork_server_end does. */
int hfi_fork_server_lose(hfi_fork_server *server, int timeout_ms);

/* Ask for a worker. A bare one, which only a main worker can be, begins without
 * variables. Requests can be sent to the worker at once: they wait in its channel. The
 * fork server's list keeps it until hfi_worker_forget. HF_E_GONE: no fork server runs,
 * or it is dead; HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_worker_fork(hfi_fork_server *server, hfi_role role, int is_bare,
                                   hfi_worker **ret_worker, hf_error *reterr);
/* Ask a worker for a fork of itself in the same way. `role` is HFI_SLEEPER or
 * HFI_FORKED. HF_E_GONE: the worker is dead; HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_worker_split(hfi_fork_server *server, hfi_worker *worker,
                                    hfi_role role, long long id, hfi_worker **ret_fork,
                                    hf_error *reterr);
/* Send the first frame, which every worker gets, with the descriptor of its tally. A
 * sleeping fork gets it when it is woken. HF_E_GONE, HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_worker_begin(hfi_worker *worker, hf_error *reterr);
/* The worker that a frame "forked" or "exited" of the fork server refers to, by its pid
 * or by its role. NULL: there is none. */
hfi_worker *hfi_worker_named(hfi_fork_server *server, pid_t pid);
hfi_worker *hfi_worker_awaiting(hfi_fork_server *server, hfi_role role);
/* Whether the fork server died after it was asked for this worker and before it
 * reported the fork. */
int hfi_worker_is_unforked(const hfi_fork_server *server, const hfi_worker *worker);
/* A worker is dead or about to be, and wasn't waited for yet. If it is the last worker
 * of a former fork server, kill the processes that the notebook's code left in their
 * process group. The group of the present fork server is killed when that ends. */
void hfi_worker_end_group(const hfi_fork_server *server, const hfi_worker *worker);

/* Read its fds 1 and 2 until both are empty. */
void hfi_worker_drain(hfi_worker *worker, hfi_part parent, long long now_ns);
/* How many bytes were written to each of its pipes so far; UINT64_MAX for both if no
 * process can write any more. */
void hfi_worker_written(const hfi_worker *worker, uint64_t ret_written[2]);
/* Read each pipe until so many bytes were read of it in all. */
void hfi_worker_drain_to(hfi_worker *worker, const uint64_t until[2], hfi_part parent,
                         long long now_ns);
/* Close the channel. The worker exits by itself, or is killed after `patience_ms`. */
void hfi_worker_release(hfi_worker *worker, int patience_ms);
/* Send a signal, unless its exit is known. The state stays as it is. */
void hfi_worker_kill(hfi_worker *worker, int number);

/* Events of a worker. Each is ignored in a state in which it has no meaning. */
/* Its parent has reported its pid. */
void hfi_worker_note_forked(hfi_worker *worker, pid_t pid);
/* It takes requests. */
void hfi_worker_note_ready(hfi_worker *worker);
/* Its channel is at its end. Its exit has to be reported within `patience_ns`. */
void hfi_worker_note_silence(hfi_worker *worker, long long patience_ns);
/* Its fork server has died before it forked it: its deadline is now. */
void hfi_worker_note_unforked(hfi_worker *worker);
/* The same for one that its fork server could not fork, and why. */
void hfi_worker_note_fork_failed(hfi_worker *worker, hfi_part error);
/* Its exit is known. */
void hfi_worker_note_exit(hfi_worker *worker, int status);
/* Its deadline has passed: it is killed, unless it is over or not forked yet. */
void hfi_worker_give_up(hfi_worker *worker);

/* Take it out of the list and free it. */
void hfi_worker_forget(hfi_fork_server *server, hfi_worker *worker);

#endif
