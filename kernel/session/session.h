/* session.h - the state of one kernel, and what its files do for each other.
 *
 * Everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_SESSION_H
#define HFI_SESSION_H

#include <jansson.h>

#include "holdfast/kernel.h"
#include "holdfast/store.h"
#include "session/channels.h"
#include "commands/command.h"
#include "session/queue.h"
#include "workers/worker.h"

#define HFI_STANDBYS_MAX  2
#define HFI_DEATH_WAIT_NS 1000000000LL /* for the template's word on how it was */

/* Where the running request is. */
typedef enum hfi_phase {
    HFI_PHASE_NONE,   /* nothing runs, or the frontend answers by itself */
    HFI_PHASE_HOME,   /* the home has it */
    HFI_PHASE_COMMIT, /* an instrumented cell waits for the home's commit */
    HFI_PHASE_CELL,   /* a cell worker has it */
} hfi_phase;

/* How far an unused notebook's rest (rest.c) has come. */
typedef enum hfi_rest_state {
    HFI_REST_AWAITED,
    HFI_REST_COMMITTED, /* the last commit, if one was due, was made */
    HFI_REST_CHECKSUMS, /* the home has given memory back */
    HFI_REST_DONE,
} hfi_rest_state;

/* The execute_request that runs, beyond the request itself. */
typedef struct hfi_execution {
    hfi_verdict verdict;
    int silent;
    int store_history;
    int stop_on_error;
    int allow_stdin;
    int started;          /* the worker has begun it: SIGINT reaches the cell */
    int interrupted;      /* before that: still to be told */
    int retries;          /* processes that ended before they had started it */
    int input_wanted;     /* a worker blocks in input() */
    long long number;     /* execution count that the worker is told */
    long long begin_ns;   /* taken from the queue */
    long long sent_ns;    /* sent to the worker */
    long long replied_ns; /* its reply came */
    double commit_bytes_copied;
    int at_home;             /* instrumented, and the home runs it (road.c) */
    hfi_textbuf road_reason; /* why it took the road that it took; may be empty */
} hfi_execution;

/* Descriptors on their way between a cell worker and the home. */
typedef struct hfi_handles {
    struct hfi_handle *first; /* that the cell made, oldest first */
    size_t count;
    long long wanted; /* what the cell waits for; 0: nothing */
} hfi_handles;

struct hf_kernel {
    hfi_connection connection;
    hfi_signer *signer;
    hfi_channels *channels;
    char name[33]; /* of this run of the kernel: "session" in headers */
    unsigned long long message_count;
    char **argv;
    json_t *info; /* kernel_info_reply */
    hf_session *store;
    hfi_commands *commands;
    const char *road; /* of cells that choose none: "auto", "map" or "home" */

    hfi_template template;
    hfi_worker *home;
    hfi_worker *cell;
    hfi_worker *standby[HFI_STANDBYS_MAX]; /* oldest first */
    size_t standby_count;
    int standby_stale;    /* the template has imported more than they have */
    int starts;           /* of template or home, since a home was last ready */
    int standby_failures; /* that never got ready, since one did */
    json_t *modules;      /* set of names that the template has or was told */

    hfi_queue queue;
    hfi_queue forwarded; /* comm messages that the cell worker has */
    hfi_request *running;
    hfi_phase phase;
    int interrupt_next; /* the first cell of the queue ends before it begins */
    hfi_execution execution;
    hfi_textbuf last_parent; /* header of the last execute_request */
    json_t *cell_comms;      /* set of comm ids that the cell worker opened */
    long long next_id;
    long long commit_id; /* of the commit that the home makes; 0: none */
    long long commit_ns; /* when it was asked for */
    int64_t settling;    /* generation that the home has yet to settle on; 0: none */
    long long count;     /* execution count of the last counted cell */

    hfi_handles handles;   /* of the cell that runs */
    json_t *declined;      /* name: reason, of the last commit */
    long long uncommitted; /* plain cells since */
    int owing;             /* the home holds what no commit has the bytes of */
    long long idle_ns;     /* when the last cell ended */
    int idle_paused;       /* an idle commit took too long */
    hfi_rest_state rest;   /* since the last cell ended */
    uint64_t rest_left;    /* bytes that the last rest could not give back */

    int wake[2]; /* self-pipe: 'i' interrupt, 's' stop */
    int parent;  /* process that started us, as JPY_PARENT_PID; 0: not watched */
    int leaving; /* a cell called exit(): the home's end is the kernel's */
    int stopping;
    hf_error failure; /* why hf_kernel_run ends, where it isn't orderly */
};

/* kernel.c */
void hfi_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* publish.c */
void hfi_publish(hf_kernel *kernel, const char *type, hfi_part parent,
                 hfi_part content);
void hfi_publish_outgoing(hf_kernel *kernel, const hfi_outgoing *message);
void hfi_publish_status(hf_kernel *kernel, hfi_part parent, const char *state);
void hfi_publish_stream(hf_kernel *kernel, int name, hfi_part parent, hfi_part text);
void hfi_publish_welcomes(hf_kernel *kernel);
void hfi_reply(hf_kernel *kernel, const hfi_request *request, hfi_part content,
               hfi_part metadata, const hfi_part *buffers, size_t buffer_count);
void hfi_reply_json(hf_kernel *kernel, const hfi_request *request, json_t *content);
/* {"status": "error", "ename", "evalue", "traceback": [one line]} and optionally more.
 */
void hfi_write_error(hfi_textbuf *writer, const char *name, const char *value,
                     long long execution_count);
void hfi_send(hf_kernel *kernel, int channel, const hfi_request *request,
              const char *type, hfi_part content);

/* dispatch.c */
void hfi_dispatch_shell(hf_kernel *kernel);
void hfi_dispatch_control(hf_kernel *kernel);
void hfi_dispatch_stdin(hf_kernel *kernel);
/* Answer what needs no worker; 0 where it is not of that kind. */
int hfi_dispatch_answer(hf_kernel *kernel, const hfi_request *request);

/* execute.c */
/* Start what can be started. */
void hfi_execute_next(hf_kernel *kernel);
void hfi_execute_replied(hf_kernel *kernel, hfi_worker *worker,
                         const msgpack_object *reply);
int hfi_execute_is_error(hfi_part content);
void hfi_execute_send_reply(hf_kernel *kernel, const hfi_request *request,
                            const msgpack_object *reply, hfi_part metadata);
void hfi_execute_interrupt(hf_kernel *kernel);
/* A worker has begun request `id`. */
void hfi_execute_started(hf_kernel *kernel, hfi_worker *worker, long long id);
/* End the running request, if any, with an error. */
void hfi_execute_fail(hf_kernel *kernel, const char *name, const char *value);
void hfi_execute_finish(hf_kernel *kernel, int error);

/* handover.c: the state's way from the home to a cell worker and back */
void hfi_handover_ask_commit(hf_kernel *kernel, long long now_ns);
void hfi_handover_committed(hf_kernel *kernel, const msgpack_object *reply);
void hfi_handover_start_cell(hf_kernel *kernel);
void hfi_handover_replied(hf_kernel *kernel, const msgpack_object *reply);
/* Whether this worker is a cell's that has to wait until the home has settled. */
int hfi_handover_holds(const hf_kernel *kernel, const hfi_worker *worker);
void hfi_handover_settled(hf_kernel *kernel, int64_t generation);
/* The cell worker is gone: nobody answers its comm messages any more. */
void hfi_handover_forget_cell(hf_kernel *kernel);
/* An interrupt before the cell worker has started the cell. */
void hfi_handover_cancel(hf_kernel *kernel);
/* When nothing is to be done, let the home commit. */
void hfi_handover_idle(hf_kernel *kernel, long long now_ns);
long long hfi_handover_idle_deadline_ns(const hf_kernel *kernel);

/* rest.c: giving memory back, and checksums, once nobody uses the notebook */
void hfi_rest(hf_kernel *kernel, long long now_ns);
long long hfi_rest_deadline_ns(const hf_kernel *kernel);
void hfi_rest_end(hf_kernel *kernel); /* a cell begins */

/* road.c: instrumented cells that the home runs */
/* Put the question into a commit's frame: three keys. */
void hfi_road_ask(hf_kernel *kernel, hfi_frame *frame);
/* The answer, whose reason is kept for the client. */
int hfi_road_is_home(hf_kernel *kernel, const msgpack_object *reply);
void hfi_road_start(hf_kernel *kernel);
void hfi_road_replied(hf_kernel *kernel, const msgpack_object *reply);

/* trace.c: nothing is done where `trace`, the experiment's directory, is empty */
void hfi_trace_show(hf_kernel *kernel, hfi_part trace);
/* In Vampir, where the running cell's verdict says so. */
void hfi_trace_open(hf_kernel *kernel, hfi_part trace);

/* handles.c: open files, sockets and pipes on their way */
/* Frames "want_handle" and "handle" of a worker. */
void hfi_handles_want(hf_kernel *kernel, const hfi_worker *worker,
                      const msgpack_object *map);
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
void hfi_request_cost(hf_kernel *kernel, const msgpack_object *reply, const char *road,
                      hfi_textbuf *ret_metadata);

/* crew.c */
HF_CHECK hf_status hfi_crew_start(hf_kernel *kernel, hf_error *reterr);
void hfi_crew_end(hf_kernel *kernel);
HF_CHECK hf_status hfi_crew_fork(hf_kernel *kernel, hfi_role role,
                                 hfi_worker **ret_worker, hf_error *reterr);
/* The template has forked it. */
void hfi_crew_forked(hfi_worker *worker, pid_t pid);
/* How long a worker may take from its fork until it is ready. */
long long hfi_crew_ready_ns(void);
void hfi_crew_tell_home(hf_kernel *kernel, hfi_frame *frame);
void hfi_crew_adopt(hf_kernel *kernel, const msgpack_object *report);
/* Where the home is; where that can't be known, where the frontend is. */
void hfi_crew_directory(const hf_kernel *kernel, char *ret_path, size_t size);
/* Deaths and deadlines. */
void hfi_crew_tick(hf_kernel *kernel, long long now_ns);
long long hfi_crew_deadline_ns(const hf_kernel *kernel);
/* The header under which a worker's output is shown. */
hfi_part hfi_crew_parent(const hf_kernel *kernel, const hfi_worker *worker);

/* standby.c */
void hfi_standby_replenish(hf_kernel *kernel);
/* A process for a cell: one that lives and is ready, else the oldest that lives, or
 * with `fresh` a new one. NULL where none can be started. */
hfi_worker *hfi_standby_take(hf_kernel *kernel, int fresh);
/* 0 where it is none. */
int hfi_standby_remove(hf_kernel *kernel, const hfi_worker *worker);
void hfi_standby_replace(hf_kernel *kernel);
void hfi_standby_import(hf_kernel *kernel, const msgpack_object *modules);
void hfi_standby_know(hf_kernel *kernel, const msgpack_object *modules);

/* death.c */
void hfi_death_of(hf_kernel *kernel, hfi_worker *worker);
void hfi_death_of_template(hf_kernel *kernel);

/* inbox.c */
void hfi_inbox_read_template(hf_kernel *kernel);
void hfi_inbox_read(hf_kernel *kernel, hfi_worker *worker);
void hfi_inbox_drain(hf_kernel *kernel, hfi_worker *worker);

#endif
