/* events.h - what happens to the request that runs and to workers, for what only
 * listens.
 *
 * The monitor's log, the trace, the summary, the list of runs, the progress display,
 * the rest and the like change nothing about a cell's way. They listen: each has one
 * function that gets every event, in the order of the table in kernel.c, while the cell
 * is as it was when it happened. Two events ask the files that read sockets to do so
 * now: WORKER_LOOKED_AT and CELL_STOPS_QUEUE.
 *
 * One thread.
 */
#ifndef HFI_EVENTS_H
#define HFI_EVENTS_H

#include "workers/worker.h"

typedef enum hfi_event_kind {
    HFI_EVENT_REQUEST_CAME,     /* a client asks for something */
    HFI_EVENT_SERVER_STARTED,   /* there is a new fork server */
    HFI_EVENT_MAIN_MADE,        /* there is a new main worker */
    HFI_EVENT_WORKER_FORKED,    /* worker: its pid is known */
    HFI_EVENT_WORKER_EXITED,    /* map: "exited" */
    HFI_EVENT_WORKER_LOOKED_AT, /* worker: what it has said is to be read now */
    HFI_EVENT_CELL_STARTED,     /* worker, map: "started" */
    HFI_EVENT_CELL_ENDED,       /* map: "ended" */
    HFI_EVENT_CELL_COLLECTED,   /* map: the reply that came; failed: not published */
    HFI_EVENT_CELL_REPLIED,     /* map: the same, of a recorded or isolated cell;
                                   metadata: of the client's reply */
    HFI_EVENT_CELL_DIED,        /* its process did, after it had begun */
    HFI_EVENT_CELL_FAILS,       /* an error of our own is about to be shown */
    HFI_EVENT_CELL_FINISHED,    /* it is replied to, and still in its last state */
    HFI_EVENT_CELL_STOPS_QUEUE, /* what clients have sent by now is to be read */
    HFI_EVENT_CELL_OVER,        /* "idle" was said */
    HFI_EVENT_CELL_RELEASED,    /* worker: its process is no more ours; may be NULL */
} hfi_event_kind;

typedef struct hfi_event {
    hfi_event_kind kind;
    hfi_worker *worker;
    const msgpack_object *map;
    const hfi_textbuf *metadata;
    int failed;
} hfi_event;

typedef void hfi_listener(hf_kernel *kernel, const hfi_event *event);

/* Calls every listener before it returns. */
void hfi_tell(hf_kernel *kernel, const hfi_event *event);

#endif
