/* session.h - one kernel: its owners, the state that belongs to none of them, and its
 * events.
 *
 * An owner is a file with a struct that no other file knows. Other files call the
 * functions of its header. kernel.c creates all owners, closes them, and runs the loop.
 *
 * A function that takes a kernel, a worker and a frame handles that frame of the
 * control protocol. The table in workers/protocol.h names it.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_SESSION_H
#define HFI_SESSION_H

#include <jansson.h>
#include <stddef.h>

#include "holdfast/kernel.h"
#include "holdfast/store.h"
#include "session/cell.h"
#include "session/channels.h"
#include "workers/children.h"
#include "workers/reaper.h"
#include "workers/worker.h"

/* ---- owners --------------------------------------------------------------------- */

/* A member of struct hf_kernel that one file alone knows. `place` is its offset; `size`
 * is the size of its struct, which is allocated zeroed; `init` and `fini` may be
 * NULL. */
typedef struct hfi_owner {
    size_t place;
    size_t size;
    hf_status (*init)(hf_kernel *kernel, hf_error *reterr);
    void (*fini)(hf_kernel *kernel); /* also after an init that failed */
} hfi_owner;

/* Create the owner's struct; close frees it, also if it was never created. HF_E_NOMEM,
 * or what `init` returns. */
HF_CHECK hf_status hfi_owner_create(hf_kernel *kernel, const hfi_owner *owner,
                                    hf_error *reterr);
void hfi_owner_close(hf_kernel *kernel, const hfi_owner *owner);

/* Write one line to the program's log. A line is cut after a thousand characters. Any
 * thread. */
void hfi_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Set where lines go from now on; NULL: to stderr. Call it while no other thread logs.
 */
void hfi_log_to(hf_kernel_log log, void *context);

/* ---- events --------------------------------------------------------------------- */

/* Events are for files that must not change how a cell runs: the monitor's log, the
 * trace, the summary, the list of runs, the progress display, the rest and others. Each
 * has one listener, which gets every event. Listeners are called in the order of the
 * table in kernel.c, before the cell changes further.
 *
 * Two events ask the files that read sockets to do so at once: WORKER_LOOKED_AT and
 * CELL_STOPS_QUEUE.
 *
 * Before each colon stand the members of hfi_event that are set. */
typedef enum hfi_event_kind {
    HFI_EVENT_REQUEST_CAME,   /* a client asks for something */
    HFI_EVENT_SERVER_STARTED, /* there is a new fork server */
    HFI_EVENT_MAIN_MADE,      /* there is a new main worker */
    HFI_EVENT_WORKER_FORKED,  /* worker: its pid is known now */
    /* exit: how a process ended; worker: NULL if it was an orphan */
    HFI_EVENT_WORKER_EXITED,
    /* worker: read its frames now; NULL: those of the fork server */
    HFI_EVENT_WORKER_LOOKED_AT,
    HFI_EVENT_CELL_STARTED,   /* worker, started: its code has begun */
    HFI_EVENT_CELL_ENDED,     /* ended: its code has ended */
    HFI_EVENT_CELL_COLLECTED, /* reply: its worker's; failed: it wasn't published */
    /* reply: of a recorded or isolated cell; metadata: of the reply to the client */
    HFI_EVENT_CELL_REPLIED,
    HFI_EVENT_CELL_DIED,        /* its process died after it had begun */
    HFI_EVENT_CELL_FAILS,       /* an error of our own is about to be shown */
    HFI_EVENT_CELL_FINISHED,    /* it is replied to, and still in its last state */
    HFI_EVENT_CELL_STOPS_QUEUE, /* read the clients' messages now */
    HFI_EVENT_CELL_OVER,        /* its "idle" was sent */
    HFI_EVENT_CELL_RELEASED, /* worker: its process isn't ours any more; may be NULL */
} hfi_event_kind;

typedef struct hfi_event {
    hfi_event_kind kind;
    hfi_worker *worker;
    const hfi_from_worker_started *started;
    const hfi_from_worker_ended *ended;
    const hfi_from_worker_reply *reply;
    const hfi_textbuf *metadata;
    const hfi_exit *exit;
    int failed;
} hfi_event;

typedef void hfi_listener(hf_kernel *kernel, const hfi_event *event);

/* Calls every listener before it returns. */
void hfi_emit(hf_kernel *kernel, const hfi_event *event);

/* ---- the kernel ----------------------------------------------------------------- */

struct hf_kernel {
    /* the owners, the lower layers first */
    struct hfi_clients *publish;   /* messages to clients, and the sockets */
    struct hfi_workers *workers;   /* the processes */
    struct hfi_standby *standby;   /* workers that wait for a cell */
    struct hfi_handles *handles;   /* descriptors that are passed between processes */
    struct hfi_escalate *escalate; /* interrupts that have no effect */
    struct hfi_observe *observe;   /* the monitor's log */
    struct hfi_progress *progress; /* the display of a hand-over that takes long */
    struct hfi_trace *trace;       /* the recording that is open */
    struct hfi_ends *ends;         /* the reports that the user wants after each cell */
    struct hfi_commits *commits;   /* the main worker's commits */
    struct hfi_comms *comms;       /* comms that the cell worker opened */
    struct hfi_assistant *assistant; /* questions while a cell runs; the debugger */
    struct hfi_runs *runs;           /* the recorded cells that ran */
    struct hfi_rerun *rerun;         /* the cells that a crash has lost */
    struct hfi_usage_asked *usage;   /* resource usage since a client's last question */
    struct hfi_generations *generations; /* the generations that are kept for undo */
    struct hfi_rollback *rollback;       /* the sleeping fork */
    struct hfi_restart *restart;         /* restarts of main workers that die */
    struct hfi_takeup *takeup;           /* the session of a frontend that was killed */
    struct hfi_rest *rest;               /* work for when nobody uses the notebook */
    struct hfi_quarantine *quarantine;   /* values that end workers */
    struct hfi_subshell *subshell;       /* requests beside the cell that runs */
    struct hfi_death *death;             /* reports of a death */
    struct hfi_loop *loop;               /* kernel.c's */
    hfi_listener *const *listeners;      /* NULL-terminated */

    /* set at the start */
    hf_session *store;
    const hf_kernel_commands *command_table; /* NULL: cells run as they are */
    hfi_commands *commands;
    hfi_connection connection;
    json_t *info;         /* kernel_info_reply */
    const char *run_mode; /* of cells that choose none: "auto", "isolated", ... */

    /* the requests of the main shell */
    hfi_queue queue;
    hfi_cell cell;      /* the one that runs */
    int interrupt_next; /* the first cell of the queue ends before it begins */
    long long next_id;  /* of requests to workers */
    long long count;    /* execution count of the last counted cell */

    /* the end */
    /* a cell called exit(): when the main worker ends, so does the kernel */
    int leaving;
    int stopping;
    hf_error failure; /* why hf_kernel_run fails */
};

/* The name of the program's command for undo, retry and load, for messages. NULL: it
 * has none. */
static inline const char *
hfi_history_command(const hf_kernel *kernel) {
    return kernel->command_table != NULL ? kernel->command_table->history : NULL;
}

/* How a cell frees a variable, in the program's language; or NULL. */
static inline const char *
hfi_drop_word(const hf_kernel *kernel) {
    return kernel->command_table != NULL ? kernel->command_table->drop : NULL;
}

/* What runs a cell's code in the worker, for messages. */
static inline const char *
hfi_shell_name(const hf_kernel *kernel) {
    const hf_kernel_commands *table = kernel->command_table;
    return table != NULL && table->shell != NULL ? table->shell : "the worker";
}

/* The name of a cell's error after an interrupt that the worker doesn't report. */
static inline const char *
hfi_interrupted_name(const hf_kernel *kernel) {
    const hf_kernel_commands *table = kernel->command_table;
    return table != NULL && table->interrupted != NULL ? table->interrupted
                                                       : "Interrupted";
}

#endif
