/* session.h - one kernel: its owners, the state that belongs to none of them, and
 * events.
 *
 * Each owner's struct is known to its own file alone; others call the functions of its
 * header. kernel.c makes them all, ends them all, and turns the loop.
 *
 * A function with a kernel, a worker and a frame handles one frame of the control
 * protocol: workers/protocol.h names it. Everything belongs to the one thread that runs
 * hf_kernel_run.
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

/* HF_E_NOMEM, or what `init` returns. To close one that isn't there is fine. */
HF_CHECK hf_status hfi_owner_create(hf_kernel *kernel, const hfi_owner *owner,
                                    hf_error *reterr);
void hfi_owner_close(hf_kernel *kernel, const hfi_owner *owner);

/* One line for the program's log; cut after a thousand characters. Any thread. */
void hfi_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Where they go from now on; NULL: to stderr. While no other thread logs. */
void hfi_log_to(hf_kernel_log log, void *context);

/* ---- events --------------------------------------------------------------------- */

/* The monitor's log, the trace, the summary, the list of runs, the progress display,
 * the rest and the like change nothing about a cell's way. They listen: each has one
 * function that gets every event, in the order of the table in kernel.c, while the cell
 * is as it was when it happened. Two events ask the files that read sockets to do so
 * now: WORKER_LOOKED_AT and CELL_STOPS_QUEUE. */
typedef enum hfi_event_kind {
    HFI_EVENT_REQUEST_CAME,   /* a client asks for something */
    HFI_EVENT_SERVER_STARTED, /* there is a new fork server */
    HFI_EVENT_MAIN_MADE,      /* there is a new main worker */
    HFI_EVENT_WORKER_FORKED,  /* worker: its pid is known */
    HFI_EVENT_WORKER_EXITED, /* exit: how a process ended, an orphan if worker is NULL */
    HFI_EVENT_WORKER_LOOKED_AT, /* worker: its frames are to be read now; NULL: the
                                   fork server's */
    HFI_EVENT_CELL_STARTED,     /* worker, started */
    HFI_EVENT_CELL_ENDED,       /* ended: its code has */
    HFI_EVENT_CELL_COLLECTED,   /* reply: that came; failed: not published */
    HFI_EVENT_CELL_REPLIED,     /* reply: the same, of a recorded or isolated cell;
                                   metadata: of the client's reply */
    HFI_EVENT_CELL_DIED,        /* its process did, after it had begun */
    HFI_EVENT_CELL_FAILS,       /* an error of our own is about to be shown */
    HFI_EVENT_CELL_FINISHED,    /* it is replied to, and still in its last state */
    HFI_EVENT_CELL_STOPS_QUEUE, /* read clients' messages now */
    HFI_EVENT_CELL_OVER,        /* "idle" was said */
    HFI_EVENT_CELL_RELEASED,    /* worker: its process is no more ours; may be NULL */
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
    struct hfi_handles *handles;   /* descriptors on their way */
    struct hfi_escalate *escalate; /* interrupts that are not taken */
    struct hfi_observe *observe;   /* the monitor's log */
    struct hfi_progress *progress; /* the display while a hand-over takes long */
    struct hfi_trace *trace;       /* the recording that is open */
    struct hfi_ends *ends;         /* the reports that the user wants after each cell */
    struct hfi_commits *commits;   /* the main worker's commits */
    struct hfi_comms *comms;       /* comms that the cell worker opened */
    struct hfi_assistant *assistant;     /* questions while a cell runs, the debugger */
    struct hfi_runs *runs;               /* the recorded cells that ran */
    struct hfi_usage_asked *usage;       /* up to a client's last question */
    struct hfi_generations *generations; /* the generations that are kept */
    struct hfi_rollback *rollback;       /* the sleeping fork */
    struct hfi_restart *restart;         /* main workers that die */
    struct hfi_takeup *takeup;           /* the session of a frontend that was killed */
    struct hfi_rest *rest;               /* idle work */
    struct hfi_quarantine *quarantine;   /* values that end workers */
    struct hfi_subshell *subshell;       /* requests beside the cell that runs */
    struct hfi_death *death;             /* reports of a death */
    struct hfi_loop *loop;               /* kernel.c's */
    hfi_listener *const *listeners;      /* NULL-terminated */

    /* from the start on */
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
    int leaving; /* a cell called exit(): the main worker's end is the kernel's */
    int stopping;
    hf_error failure; /* why hf_kernel_run ends, if not in an orderly way */
};

/* The program's command of undo, retry and load, as messages name it; NULL: it has
 * none. */
static inline const char *
hfi_history_command(const hf_kernel *kernel) {
    return kernel->command_table != NULL ? kernel->command_table->history : NULL;
}

#endif
