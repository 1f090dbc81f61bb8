/* session.h - the state of one kernel, and what its files do for each other.
 *
 * Everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_SESSION_H
#define HFI_SESSION_H

#include <jansson.h>

#include "holdfast/kernel.h"
#include "holdfast/store.h"
#include "session/cell.h"
#include "session/channels.h"
#include "session/events.h"
#include "wire/log.h"
#include "workers/reaper.h"
#include "workers/worker.h"

#define HFI_STANDBYS_MAX  2
#define HFI_DEATH_WAIT_NS 1000000000LL /* for the template's word on how it was */

/* How far an unused notebook's rest (rest.c) has come. */
typedef enum hfi_rest_state {
    HFI_REST_AWAITED,
    HFI_REST_COMMITTED, /* the last commit, if one was due, was made */
    HFI_REST_CHECKSUMS, /* the home has given memory back */
    HFI_REST_DONE,
} hfi_rest_state;

/* What the user wants to see after each cell. */
typedef struct hfi_perfreports {
    int on;
    int text;       /* as plain text */
    char level[16]; /* "process", ... */
} hfi_perfreports;

/* A commit that changed a variable: timeline.c. */
typedef struct hfi_step {
    hf_snapshot *snapshot;
    int64_t generation; /* its name */
    int64_t origin;     /* of the step whose variables it has again; 0: its own */
    int64_t unix_ns;    /* when it was published */
    hfi_textbuf cells;  /* numbers of the cells that it is made of: "3, 4" */
    json_t *declined;   /* name: reason, of what it doesn't have */
} hfi_step;

/* Each has a lease, of which a process has 32. */
#define HFI_STEPS_MAX 28

typedef struct hfi_timeline {
    hfi_step steps[HFI_STEPS_MAX + 1]; /* oldest first */
    size_t count;
    long long dropped;    /* steps that aren't kept any more */
    hfi_textbuf cells;    /* that ran since the newest one */
    uint64_t limit_bytes; /* of what the steps alone keep */
    uint64_t kept_bytes;  /* when it was last looked at */
    /* of the request that runs */
    int64_t target;          /* step that it returned to; 0: none */
    json_t *target_declined; /* of that step; or NULL */
    hfi_textbuf undone;      /* cells that it took back */
} hfi_timeline;

/* The sleeping fork of the main worker: rollback.c. */
typedef enum hfi_rollback_state {
    HFI_ROLLBACK_NONE,
    HFI_ROLLBACK_ASKED,  /* the main worker is to make it */
    HFI_ROLLBACK_ASLEEP, /* it holds the notebook as it was then */
    HFI_ROLLBACK_WAKING, /* the main worker is dead: it is that, or commits */
} hfi_rollback_state;

typedef struct hfi_rollback {
    hfi_rollback_state state;
    hfi_worker *worker; /* NULL: NONE */
    int is_whole;       /* it can be the main worker, and needn't commit */
    long long cells;    /* that ran since it was made */
    long long run_ns;   /* their time */
    long long cost_ns;  /* of making the last one; 0: not measured yet */
    long long id;       /* of what it, or the main worker, was asked last */
    hfi_textbuf death;  /* what is to be said when it has committed */
    char name[32];      /* of the error */
} hfi_rollback;

/* What the next main worker is to begin with: restart.c. */
typedef enum hfi_start_kind {
    HFI_START_WHOLE, /* all of the last commit */
    HFI_START_BARE,  /* no variable: taking them over ended those before it */
} hfi_start_kind;

typedef struct hfi_restart {
    hfi_start_kind kind;
    long long due_ns; /* template or main worker are started then; 0: they run */
    int tries;        /* that died since one was ready */
    int failures;     /* that ended by themselves since one answered */
} hfi_restart;

/* Why a main worker, or the template, is no more. */
typedef enum hfi_end {
    HFI_END_OF_CELL,      /* a cell ran in it */
    HFI_END_FROM_OUTSIDE, /* somebody killed it */
    HFI_END_AT_VALUE,     /* which is in quarantine now */
    HFI_END_BY_ITSELF,
} hfi_end;

/* What becomes of the notebook whose main worker died. */
typedef enum hfi_rollback_outcome {
    HFI_ROLLBACK_FAILED,   /* there is no fork: the last commit */
    HFI_ROLLBACK_SUCCEEDS, /* the fork is the main worker now */
    HFI_ROLLBACK_WAITS,    /* for the fork's word; then: it has committed */
} hfi_rollback_outcome;

/* Descriptors on their way between a cell worker and the home. */
typedef struct hfi_handles {
    struct hfi_handle *first; /* that the cell made, oldest first */
    size_t count;
    long long wanted; /* what the cell waits for; 0: nothing */
} hfi_handles;

struct hf_kernel {
    hfi_listener *const *listeners; /* NULL-terminated */
    hfi_connection connection;
    hfi_signer *signer;
    hfi_channels *channels;
    char name[33]; /* the key's mark, and of this run: "session" in headers */
    unsigned long long message_count;
    char **argv;
    json_t *info; /* kernel_info_reply */
    hf_session *store;
    hfi_reaper reaper;  /* frees the store if we are killed */
    hfi_textbuf notice; /* for the first cell, where the session was taken up */
    hfi_commands *commands;
    struct hfi_sampler *sampler; /* NULL: none could be made */
    const char *road; /* of cells that choose none: "auto", "map" or "home" */

    hfi_template template;
    hfi_worker *home;
    hfi_worker *cell_worker;
    hfi_worker *assistant;                 /* NULL as a rule */
    int debugging;                         /* a client does, through the assistant */
    hfi_worker *standby[HFI_STANDBYS_MAX]; /* oldest first */
    size_t standby_count;
    int standby_stale;        /* the template has imported more than they have */
    int standby_resting;      /* given back, until a client asks for something */
    long long standby_due_ns; /* 0: not waited with */
    int standby_failures;     /* that never got ready, since one did */
    json_t *modules;          /* set of names that the template has or was told */
    hfi_cellnames cellnames;  /* of the cells that ran */

    hfi_queue queue;
    hfi_queue assisted;  /* what the assistant was asked */
    hfi_queue forwarded; /* comm messages that the cell worker has */
    hfi_cell cell;
    int interrupt_next; /* the first cell of the queue ends before it begins */
    hfi_perfreports perfreports;
    hfi_textbuf last_parent; /* header of the last execute_request */
    json_t *cell_comms;      /* set of comm ids that the cell worker opened */
    long long next_id;
    long long commit_id; /* of the commit that the home makes; 0: none */
    long long commit_ns; /* when it was asked for */
    int64_t settling;    /* generation that the home has yet to settle on; 0: none */
    long long count;     /* execution count of the last counted cell */
    long long grace_ns;  /* from an interrupt to the worker's end; negative: for ever */

    hfi_rollback rollback;
    hfi_restart restart;
    hfi_timeline timeline;
    json_t *runs;                      /* array, oldest first: runs.c */
    struct hfi_subshell *subshells;    /* oldest first */
    unsigned long long subshell_count; /* ever made */
    hfi_control *aside;                /* to the home's threads; NULL: none yet */

    hfi_handles handles;   /* of the cell that runs */
    json_t *declined;      /* name: reason, of the last commit */
    long long uncommitted; /* plain cells since */
    int owing;             /* the home holds what no commit has the bytes of */
    long long idle_ns;     /* when the last cell, or the last rest, ended */
    int idle_paused;       /* an idle commit took too long */
    hfi_rest_state rest;   /* since the last cell ended */
    uint64_t rest_left;    /* bytes that the last rest could not give back */

    long long turns_due_ns; /* when it is looked who hangs in a value */
    hf_turn suspect;        /* what a worker was loading that somebody ended */
    int suspect_deaths;     /* workers in a row that were ended at it */
    long long memory_kills; /* of the system's, when that was counted last */

    int wake[2]; /* self-pipe: 'i' interrupt, 's' stop */
    int parent;  /* process that started us, as JPY_PARENT_PID; 0: not watched */
    int leaving; /* a cell called exit(): the home's end is the kernel's */
    int stopping;
    int bequeathed;   /* the session is left to a later kernel: takeup.c */
    hf_error failure; /* why hf_kernel_run ends, where it isn't orderly */
};

/* Functions with a kernel, a worker and a map handle one frame of the control protocol:
 * workers/protocol.h names them. */

/* publish.c */
void hfi_publish(hf_kernel *kernel, const char *type, hfi_part parent,
                 hfi_part content);
void hfi_publish_outgoing(hf_kernel *kernel, const hfi_outgoing *message);
void hfi_publish_status(hf_kernel *kernel, hfi_part parent, const char *state);
void hfi_publish_stream(hf_kernel *kernel, int name, hfi_part parent, hfi_part text);
void hfi_publish_input(hf_kernel *kernel, hfi_part parent, json_t *code,
                       long long number);
void hfi_publish_welcomes(hf_kernel *kernel);
/* Tell who read too slowly. */
void hfi_publish_missed(hf_kernel *kernel);
void hfi_reply(hf_kernel *kernel, const hfi_request *request, hfi_part content,
               hfi_part metadata, const hfi_part *buffers, size_t buffer_count);
void hfi_reply_json(hf_kernel *kernel, const hfi_request *request, json_t *content);
/* {"status": "error", "ename", "evalue", "traceback": [one line]} and optionally more.
 */
void hfi_write_error(hfi_textbuf *writer, const char *name, const char *value,
                     long long execution_count);
/* A request has failed: its reply and, unless `silent`, a cell's output "error". */
void hfi_reply_error(hf_kernel *kernel, const hfi_request *request, int silent,
                     const char *name, const char *value);
void hfi_send(hf_kernel *kernel, int channel, const hfi_request *request,
              const char *type, hfi_part content);

/* dispatch.c: what clients send */
/* The next message of a channel as a request; NULL: none waits. */
hfi_request *hfi_dispatch_receive(hf_kernel *kernel, int channel);
/* Read the shell channel: into the queues of the main shell, of subshells and of cells'
 * comms. */
void hfi_dispatch_shell(hf_kernel *kernel);
void hfi_dispatch_stdin(hf_kernel *kernel);
hfi_listener hfi_dispatch_hear;

/* subshell.c */
/* Create, delete and list; 0 where it asks for something else. */
int hfi_subshell_answer(hf_kernel *kernel, const hfi_request *request);
/* A request of the shell channel that names a subshell, which owns it then; 0 where it
 * names none. */
int hfi_subshell_take(hf_kernel *kernel, hfi_request *request);
/* Start what can be started; `answer` does what needs no worker. */
void hfi_subshell_next(hf_kernel *kernel,
                       void (*answer)(hf_kernel *kernel, const hfi_request *request));
/* 0 where it is no reply to a subshell's request. */
int hfi_subshell_replied(hf_kernel *kernel, const msgpack_object *reply);
/* A cell asks for input; the request that it belongs to, or NULL. */
const hfi_request *hfi_subshell_asks(hf_kernel *kernel, hfi_part id);
/* 0 where no subshell waits for this input_reply. */
int hfi_subshell_input(hf_kernel *kernel, const hfi_request *reply);
void hfi_subshell_interrupt(hf_kernel *kernel);
/* Gives a new main worker the second channel, if the kernel has subshells. */
hfi_listener hfi_subshell_hear;
/* The home is gone, and with it the threads. */
void hfi_subshell_lose_home(hf_kernel *kernel);
void hfi_subshell_fini(hf_kernel *kernel);

/* execute.c: one request after the other */
/* Start what can be started. */
void hfi_execute_next(hf_kernel *kernel);
void hfi_execute_interrupt(hf_kernel *kernel);
/* Read the control channel, and answer at once. */
void hfi_execute_control(hf_kernel *kernel);
/* Answer what needs no worker; what nobody knows by an error. */
void hfi_execute_answer(hf_kernel *kernel, const hfi_request *request);

/* replies.c: what a worker says of the request that it has */
void hfi_replies_started(hf_kernel *kernel, hfi_worker *worker,
                         const msgpack_object *map);
void hfi_replies_ended(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);
void hfi_replies_replied(hf_kernel *kernel, hfi_worker *worker,
                         const msgpack_object *reply);

/* ends.c: how a request ends */
int hfi_ends_is_error(hfi_part content);
void hfi_ends_reply(hf_kernel *kernel, const hfi_request *request,
                    const msgpack_object *reply, hfi_part metadata);
/* Answer the execute_requests of a queue that an error stops. */
void hfi_ends_abort(hf_kernel *kernel, hfi_queue *queue);
/* End the running request, if any, with an error. */
void hfi_ends_fail(hf_kernel *kernel, const char *name, const char *value);
/* Its reply is out: what it used is shown, or it ends. */
void hfi_ends_finish(hf_kernel *kernel, int error);
void hfi_ends_want_reports(hf_kernel *kernel, hfi_worker *worker,
                           const msgpack_object *map);
/* The report was made, or will not be: end the cell. 0: there was none to wait for. */
int hfi_ends_report(hf_kernel *kernel);

/* escalate.c: interrupts that aren't taken */
/* The grace: `seconds`, or where 0 the environment's; negative: never. HF_E_INVALID. */
HF_CHECK hf_status hfi_escalate_configure(hf_kernel *kernel, long seconds,
                                          hf_error *reterr);
/* The running cell was interrupted. */
void hfi_escalate_begin(hf_kernel *kernel, long long now_ns);
void hfi_escalate_taken(hf_kernel *kernel, hfi_worker *worker,
                        const msgpack_object *map);
void hfi_escalate_tick(hf_kernel *kernel, long long now_ns);
long long hfi_escalate_deadline_ns(const hf_kernel *kernel);

/* commits.c: the main worker's commits, and what is published */
/* For the cell that waits (COMMITTING), or for nobody. */
void hfi_commits_ask(hf_kernel *kernel, long long now_ns);
void hfi_commits_owe(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map);
/* Publish what a worker's reply has prepared; HF_OK too where that is nothing. */
HF_CHECK hf_status hfi_commits_publish(hf_kernel *kernel, const msgpack_object *reply,
                                       uint64_t *ret_generation, hf_error *reterr);
/* End the running cell with a CommitError: what happened, and why. */
void hfi_commits_fail(hf_kernel *kernel, const char *what, const hf_error *error);
void hfi_commits_keep_declined(hf_kernel *kernel, const msgpack_object *declined);

/* handover.c: where a cell runs, and the state's way there and back */
void hfi_handover_committed(hf_kernel *kernel, const msgpack_object *reply);
void hfi_handover_settled(hf_kernel *kernel, hfi_worker *worker,
                          const msgpack_object *map);
/* Whether this worker is a cell's that has to wait until the home has settled. */
int hfi_handover_holds(const hf_kernel *kernel, const hfi_worker *worker);
void hfi_handover_forked(hf_kernel *kernel, hfi_worker *worker,
                         const msgpack_object *map);
void hfi_handover_declined(hf_kernel *kernel, hfi_worker *worker,
                           const msgpack_object *map);
/* A cell worker gets the running cell; no process: the cell fails. */
void hfi_handover_start_cell(hf_kernel *kernel);
/* Of an instrumented cell, by a cell worker; by the main worker. */
void hfi_handover_replied(hf_kernel *kernel, const msgpack_object *reply);
void hfi_handover_replied_in_process(hf_kernel *kernel, const msgpack_object *reply);
/* The cell worker is gone: nobody answers its comm messages any more. */
void hfi_handover_forget_cell(hf_kernel *kernel);
/* An interrupt before the cell worker has started the cell. */
void hfi_handover_cancel(hf_kernel *kernel);

/* rest.c: giving memory back, and checksums, once nobody uses the notebook */
void hfi_rest(hf_kernel *kernel, long long now_ns);
long long hfi_rest_deadline_ns(const hf_kernel *kernel);
/* When nothing is to be done, let the main worker commit. */
void hfi_rest_commit(hf_kernel *kernel, long long now_ns);
long long hfi_rest_commit_deadline_ns(const hf_kernel *kernel);
/* Something has just ended. */
void hfi_rest_used(hf_kernel *kernel);
/* A client's request ends the rest. */
hfi_listener hfi_rest_hear;

/* rollback.c: the main worker's sleeping fork */
/* Have one made that holds the notebook as it is now: before the next request. */
void hfi_rollback_make(hf_kernel *kernel);
/* It is of no use any more. */
void hfi_rollback_drop(hf_kernel *kernel);
void hfi_rollback_made(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);
/* Counts the cells that run in the main worker. */
hfi_listener hfi_rollback_hear;
/* Whether a plain cell is worth one. */
int hfi_rollback_is_due(const hf_kernel *kernel);
/* The main worker is dead, and nobody's any more. */
hfi_rollback_outcome hfi_rollback_wake(hf_kernel *kernel);
/* A fork that was woken says that it is ready, and is the main worker now; 0: it waits
 * for nothing. */
int hfi_rollback_ready(hf_kernel *kernel);
/* The fork's answer to its commit, and what has come of it; 0: the reply is another
 * one's. */
int hfi_rollback_replied(hf_kernel *kernel, const hfi_worker *worker,
                         const msgpack_object *reply,
                         hfi_rollback_outcome *ret_outcome);
/* The fork that was to commit is done, or dead. */
void hfi_rollback_end(hf_kernel *kernel);

/* timeline.c: the generations that are kept, undo and its like */
/* `limit_bytes`: of what old generations alone may keep; 0: a share of the capacity. */
void hfi_timeline_init(hf_kernel *kernel, uint64_t limit_bytes);
void hfi_timeline_fini(hf_kernel *kernel);
/* The running cell's changes belong to the next step. */
void hfi_timeline_note(hf_kernel *kernel);
/* What ran since the newest step changed nothing, or is lost. */
void hfi_timeline_forget(hf_kernel *kernel);
/* The current generation was published: perhaps a step. `origin`: see hfi_step. */
void hfi_timeline_published(hf_kernel *kernel, int64_t origin);
/* The commit was made, and the home has settled: do the frontend's part of the command,
 * and hand the cell to the home. */
void hfi_timeline_begin(hf_kernel *kernel);
/* The home's reply, which may have a commit; 0 where that failed, and the cell with it.
 */
int hfi_timeline_replied(hf_kernel *kernel, const msgpack_object *reply);
/* The cell is over. */
hfi_listener hfi_timeline_hear;

/* trace.c: what becomes of the trace that a cell wrote */
/* Shows where it is, and opens it. */
hfi_listener hfi_trace_hear;
void hfi_trace_forget(hf_kernel *kernel);
/* The process is dead: have the trace of what it recorded written, and say where. */
void hfi_trace_rescue(hf_kernel *kernel, hfi_textbuf *text);
/* The experiment's directory, absolute. */
void hfi_trace_path(const hf_kernel *kernel, hfi_part trace, hfi_textbuf *ret_path);

/* handles.c: open files, sockets and pipes on their way */
void hfi_handles_want(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map);
void hfi_handles_take(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map);
/* The cell's state was published: the home gets what the cell made. */
void hfi_handles_adopt(hf_kernel *kernel);
/* The cell is gone: close what it made. */
void hfi_handles_drop(hf_kernel *kernel);
/* The home is gone, and answers no more. */
void hfi_handles_lose_home(hf_kernel *kernel);

/* request.c: what a worker is asked, and what it cost */
/* The code that a worker is to run for an execute_request. */
hfi_part hfi_request_code(const hf_kernel *kernel, const hfi_request *request);
void hfi_request_send(hf_kernel *kernel, hfi_worker *worker, hfi_request *request);
/* The same with one key more. */
typedef void hfi_request_key(const hf_kernel *kernel, hfi_frame *frame);
void hfi_request_send_with(hf_kernel *kernel, hfi_worker *worker, hfi_request *request,
                           hfi_request_key *more);
/* Whether a worker answers requests of this type, other than execute_request. */
int hfi_request_is_for_worker(const char *type);
/* To a thread of the home's; `number` is the execution count. */
void hfi_request_send_aside(hf_kernel *kernel, hfi_control *channel,
                            hfi_request *request, const char *subshell,
                            long long number);
void hfi_request_cost(hf_kernel *kernel, const msgpack_object *reply, const char *road,
                      hfi_textbuf *ret_metadata);
/* What the client has waited for until now, and what a worker reports of it. */
typedef struct hfi_times {
    double total_ms, in_ms, run_ms, out_ms; /* the whole; and its three parts */
    double cpu_ms;                          /* of the cell's process */
    double recorder_ms;                     /* of run_ms; 0 where it wasn't measured */
} hfi_times;
hfi_times hfi_request_times(const hf_kernel *kernel, const msgpack_object *report);

/* progress.c: a display while a hand-over takes long */
long long hfi_progress_deadline_ns(const hf_kernel *kernel);
void hfi_progress_tick(hf_kernel *kernel, long long now_ns);
/* Show a display of this kind, in the progress's place where that is shown; `data`: the
 * members of the message's "data". */
void hfi_progress_replace(hf_kernel *kernel, hfi_part data, const char *kind);
/* That part of the hand-over is over. */
hfi_listener hfi_progress_hear;

/* summary.c: the line below an instrumented cell */
hfi_listener hfi_summary_hear;

/* runs.c: what the main worker knows of the instrumented cells that ran */
hfi_listener hfi_runs_hear;

/* observe.c: the frontend's part in the monitor; nothing fails */
void hfi_observe_init(hf_kernel *kernel);
void hfi_observe_fini(hf_kernel *kernel);
/* Processes and cells, for the monitor's log. */
hfi_listener hfi_observe_hear;
void hfi_observe_began(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);
void hfi_observe_asked(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);

/* crew.c */
/* What isn't there of template and home; a bare home binds nothing. HF_E_GONE where the
 * template is dying; HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_crew_start(hf_kernel *kernel, int is_bare, hf_error *reterr);
void hfi_crew_end(hf_kernel *kernel);
HF_CHECK hf_status hfi_crew_fork(hf_kernel *kernel, hfi_role role,
                                 hfi_worker **ret_worker, hf_error *reterr);
/* A fork of the main worker. */
HF_CHECK hf_status hfi_crew_split(hf_kernel *kernel, hfi_role role, long long id,
                                  hfi_worker **ret_fork, hf_error *reterr);
/* The template has forked it. */
void hfi_crew_forked(hfi_worker *worker, pid_t pid);
/* How long a worker may take from its fork until it is ready. */
long long hfi_crew_ready_ns(void);
void hfi_crew_tell_home(hf_kernel *kernel, hfi_frame *frame);
/* The process that has the request that runs, or will run it; NULL: none has. */
hfi_worker *hfi_crew_at_work(const hf_kernel *kernel);
/* The main worker binds what was published; `cell`: whose state it is, or NULL. */
void hfi_crew_adopt(hf_kernel *kernel, const hfi_cell *cell,
                    const msgpack_object *report);
/* Where the home is; where that can't be known, where the frontend is. */
void hfi_crew_directory(const hf_kernel *kernel, char *ret_path, size_t size);
/* Read all of what it has written to its pipes. */
void hfi_crew_drain(hf_kernel *kernel, hfi_worker *worker);
long long hfi_crew_deadline_ns(const hf_kernel *kernel);
/* The header under which a worker's output is shown. */
hfi_part hfi_crew_parent(const hf_kernel *kernel, const hfi_worker *worker);

/* assistant.c: who answers while the home is busy, and debugs */
/* Give it what has waited long enough; release it where nothing needs it. */
void hfi_assistant_tick(hf_kernel *kernel, long long now_ns);
long long hfi_assistant_deadline_ns(const hf_kernel *kernel);
void hfi_assistant_ready(hf_kernel *kernel);
void hfi_assistant_replied(hf_kernel *kernel, const msgpack_object *reply);
void hfi_assistant_died(hf_kernel *kernel);
/* Takes the debug_request. */
void hfi_assistant_debug(hf_kernel *kernel, hfi_request *request);
void hfi_assistant_connect(hf_kernel *kernel, hfi_worker *worker,
                           const msgpack_object *map);
void hfi_assistant_debugging(hf_kernel *kernel, hfi_worker *worker,
                             const msgpack_object *map);
/* If a client debugs, connect its debugger with the cell's process. */
void hfi_assistant_attend(hf_kernel *kernel);

/* standby.c */
void hfi_standby_replenish(hf_kernel *kernel);
/* A home is ready: the first are forked, then or a little later. */
void hfi_standby_begin(hf_kernel *kernel, long long now_ns);
void hfi_standby_tick(hf_kernel *kernel, long long now_ns);
/* A process for a cell: one that lives and is ready, else the oldest that lives, or
 * with `fresh` a new one. NULL where none can be started. */
hfi_worker *hfi_standby_take(hf_kernel *kernel, int fresh);
/* 0 where it is none. */
int hfi_standby_remove(hf_kernel *kernel, const hfi_worker *worker);
void hfi_standby_replace(hf_kernel *kernel);
/* Give all back until there is something to do again. */
void hfi_standby_rest(hf_kernel *kernel);
void hfi_standby_wake(hf_kernel *kernel);
void hfi_standby_import(hf_kernel *kernel, hfi_worker *worker,
                        const msgpack_object *map);
void hfi_standby_know(hf_kernel *kernel, const msgpack_object *modules);

/* death.c */
/* Let time pass for all workers: their output, deadlines, and deaths. */
void hfi_death_tick(hf_kernel *kernel, long long now_ns);
/* What the rollback of the dead main worker has come to, which was waited for. */
void hfi_death_settled(hf_kernel *kernel, hfi_rollback_outcome outcome);
void hfi_death_of_template(hf_kernel *kernel);

/* takeup.c: the session of a frontend that was killed */
/* Before anything else, since it forks. */
void hfi_takeup_begin(hf_kernel *kernel, const char *connection_path);
/* The store: what was left for this kernel, or a new one. As hf_session_create. */
HF_CHECK hf_status hfi_takeup_open(hf_kernel *kernel, const hf_session_options *options,
                                   hf_error *reterr);
/* For who takes it up from us: where we are. */
void hfi_takeup_note(hf_kernel *kernel);
/* Below a cell's header: what happened, once. */
void hfi_takeup_tell(hf_kernel *kernel, hfi_part parent);
/* We end without having been able to start: it is left to a later kernel. 1 where there
 * is something in it, and `error` says how to get at that. */
int hfi_takeup_leave(hf_kernel *kernel, hf_error *error);
/* We end in an orderly way: nobody is to take it up. */
void hfi_takeup_renounce(hf_kernel *kernel);

/* restart.c: a new main worker in place of one that died */
void hfi_restart_note(hf_kernel *kernel, hfi_end end);
/* Start what is missing, at once or after a pause. */
void hfi_restart_begin(hf_kernel *kernel);
/* Whether a start is waited for: requests wait, too. */
int hfi_restart_is_due(const hf_kernel *kernel);
long long hfi_restart_deadline_ns(const hf_kernel *kernel);
void hfi_restart_tick(hf_kernel *kernel, long long now_ns);
/* The main worker says that it is ready; it has answered something. */
void hfi_restart_ready(hf_kernel *kernel);
void hfi_restart_answered(hf_kernel *kernel);
/* Whether a wait status may be the work of somebody else. */
int hfi_restart_is_from_outside(int is_known, int status);

/* quarantine.c: values that end who loads or saves them */
void hfi_quarantine_init(hf_kernel *kernel);
/* End who hangs in one. */
void hfi_quarantine_tick(hf_kernel *kernel, long long now_ns);
/* Whether a worker that isn't ready is busy with one that has time left. */
int hfi_quarantine_spares(const hf_kernel *kernel, const hfi_worker *worker,
                          long long now_ns);
/* A worker is dead, and the store not yet reaped: what it was at is added to its
 * epitaph. 1 where it was loading what goes into quarantine now. */
int hfi_quarantine_note(hf_kernel *kernel, const hfi_worker *worker, int is_late,
                        char *epitaph, size_t size);

/* inbox.c */
void hfi_inbox_read_template(hf_kernel *kernel);
void hfi_inbox_read(hf_kernel *kernel, hfi_worker *worker);
/* Reads a worker that somebody has to know more of. */
hfi_listener hfi_inbox_hear;

#endif
