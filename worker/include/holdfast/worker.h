/* holdfast/worker.h - the processes that run a kernel's cells, for any language.
 *
 * The frontend (holdfast/kernel.h) starts a program, the fork server, which forks
 * workers. This library is that program and its workers, up to the language: it speaks
 * the control protocol, forks, sleeps and wakes, and puts variables into the session's
 * store. A language is a table of functions:
 *
 *     static const hf_worker_language LANGUAGE = {.struct_size = sizeof LANGUAGE,
 *                                                 .execute = run_cell};
 *     int main(int argc, char **argv) { return hf_worker_main(&LANGUAGE, argc, argv); }
 *
 * Every member but `execute` may be NULL. What a language lacks without it is said at
 * each. docs/write-a-kernel.md makes a kernel step by step.
 *
 * Processes: the fork server runs `prepare` only. Each worker is a fork of it, and has
 * one of these roles:
 * - the main worker has the notebook's variables, and runs plain cells
 * - a cell worker runs one isolated cell, with variables from the store, and ends
 * - the assistant answers questions, with variables from the store, while a cell runs
 * The main worker forks, too. A fork of it runs one cell, or sleeps, with the variables
 * as they were, until the main worker is dead. It then goes on as the main worker.
 *
 * Threads: the library calls the language from one thread, the one that called
 * hf_worker_main. From it alone, inside of a call of the language, hf_worker_input,
 * hf_worker_commit, hf_worker_put, hf_worker_remove, hf_worker_stays,
 * hf_worker_variable_set, hf_worker_variable_get and hf_worker_dispatch may be called.
 * All others may be called from any thread. No lock is held while the language runs.
 *
 * Statuses: HF_E_INVALID for a missing pointer, a wrong struct_size, or a call that
 * isn't allowed now. HF_E_GONE: the frontend is dead, or this is a child that a cell has
 * forked, which has no channel. HF_E_NOMEM, HF_E_LIMIT (a text is too long),
 * HF_E_SYSTEM. Functions name others.
 */
#ifndef HOLDFAST_WORKER_H
#define HOLDFAST_WORKER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "holdfast/error.h"
#include "holdfast/status.h"
#include "holdfast/store.h"
#include "holdfast/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* This process. */
typedef struct hf_worker hf_worker;

typedef enum hf_worker_role {
    HF_WORKER_MAIN = 1,
    HF_WORKER_CELL,
    HF_WORKER_ASSISTANT,
} hf_worker_role;

/* Whose an interrupt is. */
typedef enum hf_worker_phase {
    HF_PHASE_IDLE,         /* nobody's: it is ignored */
    HF_PHASE_PREPARING,    /* the cell's: it waits until the code begins */
    HF_PHASE_RUNNING,      /* the cell's */
    HF_PHASE_HANDING_BACK, /* nobody's: changes are being saved */
} hf_worker_phase;

/* Why the main worker forks. */
typedef enum hf_worker_fork {
    HF_FORK_CELL = 1, /* to run one cell */
    HF_FORK_SLEEPER,  /* to have the variables if this process dies */
} hf_worker_fork;

/* A message of a client, valid until it was answered. Texts are UTF-8, with a NUL behind
 * them, and may contain other NULs. */
typedef struct hf_worker_request {
    size_t struct_size;
    int64_t id;
    const char *type; /* execute_request, complete_request, inspect_request,
                         is_complete_request, history_request, comm_info_request,
                         comm_open, comm_msg, comm_close or debug_request */
    const char *code; /* "" if the message has none */
    size_t code_size;
    size_t cursor;        /* the place in `code` that is asked about, in bytes */
    int64_t number;       /* execution_count of a cell */
    int silent;           /* nothing of a cell is shown */
    int allow_stdin;      /* hf_worker_input may be called */
    const char *content;  /* the message's JSON */
    const char *metadata; /* JSON */
    const char *header;   /* JSON */
    hf_worker_role role;  /* of the process that has it */
    int is_fork;          /* it is a fork of the main worker */
} hf_worker_request;

/* Why variables are bound. */
typedef enum hf_worker_occasion {
    HF_BIND_BEGIN = 1, /* the process begins: all of `now` */
    HF_BIND_ADOPT,     /* another process has run a cell: what differs */
    HF_BIND_RETURN,    /* the user went back to a step: what differs */
    HF_BIND_ANSWER,    /* the assistant is asked: what differs */
} hf_worker_occasion;

typedef struct hf_worker_binding {
    size_t struct_size;
    hf_worker_occasion occasion;
    hf_snapshot *before; /* the generation that was bound or saved last; NULL: none */
    hf_snapshot *now;    /* the one that is to be bound */
    const char *code;    /* HF_BIND_ADOPT: of the cell; else "" */
    int64_t number;      /* HF_BIND_ADOPT: of the cell; else 0 */
} hf_worker_binding;

typedef struct hf_worker_language {
    size_t struct_size; /* sizeof(hf_worker_language) */
    void *context;      /* passed to each function */

    /* In the fork server, once: what all workers need. It must leave no thread. A
     * failure ends the program. Without it nothing is prepared. */
    hf_status (*prepare)(void *context, hf_error *reterr);
    /* In a new worker, once, before its variables are bound. A failure ends the worker.
     * The library's handler of SIGINT is in place, and may be replaced by one that calls
     * hf_worker_interrupt. */
    hf_status (*begin)(void *context, hf_worker *worker, hf_worker_role role,
                       hf_error *reterr);
    /* Run a cell. HF_OK: it has run. Any other status: it failed, with what
     * hf_worker_fail has shown, or else the status and the message of `reterr`.
     * HF_INTERRUPTED: after hf_worker_is_interrupted. HF_PENDING: it goes on, and ends by
     * hf_worker_reply; comm messages are answered meanwhile. */
    hf_status (*execute)(void *context, hf_worker *worker,
                         const hf_worker_request *request, hf_error *reterr);
    /* Answer another request by hf_worker_reply, hf_worker_complete or
     * hf_worker_inspect. HF_NOT_FOUND, or HF_OK without an answer: the library gives an
     * empty one. HF_PENDING: it comes later. Without it names of hf_worker_variable_set
     * are completed, and all other answers are empty. */
    hf_status (*answer)(void *context, hf_worker *worker,
                        const hf_worker_request *request, hf_error *reterr);
    /* In the handler of SIGINT while a cell's code runs: async-signal-safe. Without it a
     * cell ends when it asks hf_worker_is_interrupted, or waits in hf_worker_input. A cell
     * that does neither is ended with its process after some seconds. */
    void (*cancel)(void *context);
    /* What a fork of this process would lack, such as "the thread of a timer"; NULL:
     * nothing. Threads and children are found by the library. Without it there is nothing
     * else. */
    const char *(*obstacle)(void *context);
    /* Around a fork of the main worker: before it in that process, after it there with
     * the fork's pid or -1, and in the fork with 0: in one that sleeps when it wakes. */
    void (*before_fork)(void *context, hf_worker_fork kind);
    void (*after_fork)(void *context, hf_worker_fork kind, pid_t pid);
    /* Save the variables: hf_worker_put for each, which finds what has changed, and
     * hf_worker_remove, hf_worker_stays. HF_OK, also if some stay. A failure: nothing is
     * saved, and the user gets its message. Without `save` and `bind`, the variables of
     * hf_worker_variable_set are saved and bound. With `bind` only, a crash costs all
     * variables, and isolated cells begin with none. */
    hf_status (*save)(void *context, hf_worker *worker, hf_error *reterr);
    /* What was saved is the current generation. Without it nothing is done. */
    void (*published)(void *context, hf_worker *worker, uint64_t generation);
    /* Make the variables those of `binding->now`: hf_snapshot_diff gives what differs
     * from `before`, if that may be NULL, too. A failure at HF_BIND_BEGIN ends the main
     * worker; else the user gets its message, and it is tried again before the next
     * cell. With `save` only, what was saved is never read. */
    hf_status (*bind)(void *context, hf_worker *worker,
                      const hf_worker_binding *binding, hf_error *reterr);
    /* The language's own loop, if it has one: until hf_worker_dispatch returns HF_STOP,
     * call that whenever one of hf_worker_fds can be read. Without it the library waits. */
    hf_status (*run)(void *context, hf_worker *worker, hf_error *reterr);
    /* The worker ends, in an orderly way; five seconds at most. Not in a fork. */
    void (*end)(void *context);
} hf_worker_language;

/* The whole program: the fork server, and its workers. `argv` has "--control-fd N
 * --session-fd M", which the frontend appends. The table is copied. Returns the program's
 * exit status; a mistake in `language` is 2, with a line on stderr. */
HF_EXPORT int hf_worker_main(const hf_worker_language *language, int argc, char **argv);

/* ---- what a cell shows ----------------------------------------------------------- */

/* Output: `is_error` is for stderr. Bytes that aren't UTF-8 become U+FFFD. What is
 * printed to the descriptors 1 and 2 is shown, too, in its order. Statuses as above. */
HF_EXPORT HF_CHECK hf_status hf_worker_write(hf_worker *worker, int is_error,
                                             const char *text, size_t size,
                                             hf_error *reterr);

/* One representation of a value. If `type` ends in "json" it is JSON, else any text. */
typedef struct hf_mime {
    const char *type, *text;
    size_t size;
} hf_mime;

/* Show a value: as the cell's result, unless the cell is silent, or beside it. */
HF_EXPORT HF_CHECK hf_status hf_worker_show(hf_worker *worker, int is_result,
                                            const hf_mime *items, size_t count,
                                            hf_error *reterr);

/* The cell fails with this error. `lines`: what a person sees, one text; NULL: name and
 * value. The first one counts. HF_E_INVALID: no cell runs. */
HF_EXPORT HF_CHECK hf_status hf_worker_fail(hf_worker *worker, const char *name,
                                            const char *value, const char *lines,
                                            hf_error *reterr);

/* A Jupyter message on iopub, such as comm_msg; JSON. `metadata` may be NULL. */
HF_EXPORT HF_CHECK hf_status hf_worker_message(hf_worker *worker, const char *type,
                                               const char *content,
                                               const char *metadata, hf_error *reterr);

/* Ask the user for a line, and wait for it. The caller frees the result. HF_INTERRUPTED;
 * HF_DECLINED: the client can't ask; HF_E_INVALID: not in a cell. */
HF_EXPORT HF_CHECK hf_status hf_worker_input(hf_worker *worker, const char *prompt,
                                             int is_password, char **ret_text,
                                             hf_error *reterr);

/* ---- answers --------------------------------------------------------------------- */

/* Answer a request: `content` is the JSON of Jupyter's reply, which needs "status". Of a
 * cell that was HF_PENDING: `outcome` as `execute` would have returned it, and
 * `content` is NULL. HF_E_INVALID: this request isn't open, or was answered. */
HF_EXPORT HF_CHECK hf_status hf_worker_reply(hf_worker *worker, int64_t id,
                                             hf_status outcome, const char *content,
                                             hf_error *reterr);
/* Answer a complete_request: each of the matches may stand in the place of the bytes from
 * `start` to `end` of the code. Statuses of hf_worker_reply. */
HF_EXPORT HF_CHECK hf_status hf_worker_complete(hf_worker *worker,
                                                const hf_worker_request *request,
                                                const char *const *matches,
                                                size_t count, size_t start, size_t end,
                                                hf_error *reterr);
/* Answer an inspect_request with a text. Statuses of hf_worker_reply. */
HF_EXPORT HF_CHECK hf_status hf_worker_inspect(hf_worker *worker,
                                               const hf_worker_request *request,
                                               const char *text, hf_error *reterr);

/* ---- interrupts ------------------------------------------------------------------ */

/* Whether the user has interrupted the cell, since the last call that returned 1. The
 * language then ends the cell soon, with HF_INTERRUPTED. */
HF_EXPORT int hf_worker_is_interrupted(hf_worker *worker);
/* For a language's own handler of SIGINT. Async-signal-safe. */
HF_EXPORT void hf_worker_interrupt(hf_worker *worker);
/* Async-signal-safe. */
HF_EXPORT hf_worker_phase hf_worker_get_phase(const hf_worker *worker);

/* ---- variables: in `save` --------------------------------------------------------- */

/* Put a value, unless the last generation has just the same under its key: the same
 * codec, flags, meta, payload and buffers. Values with regions are always put. Statuses
 * of hf_commit_put and hf_commit_begin. */
HF_EXPORT HF_CHECK hf_status hf_worker_put(hf_worker *worker, const hf_value *value,
                                           hf_error *reterr);
/* The variable is gone. HF_OK also if the store doesn't have it. */
HF_EXPORT HF_CHECK hf_status hf_worker_remove(hf_worker *worker, const char *key,
                                              size_t key_size, hf_error *reterr);
/* The variable can't be saved, for this reason: other processes lack it, and the user is
 * told so. HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_worker_stays(hf_worker *worker, const char *name,
                                             const char *reason, hf_error *reterr);
/* The commit that is being made, for other calls of holdfast/store.h and array.h. It is
 * the library's, which prepares it after `save`. Statuses of hf_commit_begin. */
HF_EXPORT HF_CHECK hf_status hf_worker_commit(hf_worker *worker, hf_commit **ret_commit,
                                              hf_error *reterr);
/* NULL if the frontend gave none. The worker's; another process publishes. */
HF_EXPORT hf_session *hf_worker_session(const hf_worker *worker);

/* ---- variables that the library keeps -------------------------------------------- */

/* For a language without `save` and `bind`: a variable is a name and bytes, which are
 * copied; `data` NULL: it is gone. HF_E_LIMIT: the name has no byte, or more than
 * HF_KEY_SIZE_MAX. */
HF_EXPORT HF_CHECK hf_status hf_worker_variable_set(hf_worker *worker, const char *name,
                                                    size_t name_size, const void *data,
                                                    size_t size, hf_error *reterr);
/* Its bytes, aligned for any type, and valid until it is set or `execute` returns.
 * HF_NOT_FOUND. */
HF_EXPORT HF_CHECK hf_status hf_worker_variable_get(hf_worker *worker, const char *name,
                                                    size_t name_size,
                                                    const void **ret_data,
                                                    size_t *ret_size, hf_error *reterr);

/* ---- a loop of the language's ------------------------------------------------------ */

/* Both can be read when hf_worker_dispatch has something to do. The worker's. */
HF_EXPORT void hf_worker_fds(const hf_worker *worker, int ret_fds[2]);
/* Handle what has come; doesn't wait. Called by a cell that runs it only answers comm
 * messages. In a fork that wakes or runs a cell it returns as
 * well. HF_STOP: the worker is to end. HF_E_PROTOCOL. */
HF_EXPORT HF_CHECK hf_status hf_worker_dispatch(hf_worker *worker, hf_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
