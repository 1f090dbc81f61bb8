/* incoming.h - everything that the frontend reads: requests of clients, frames of
 * workers, comms.
 *
 * None of these functions blocks or returns a failure: a message that can't be handled
 * is answered with an error, or logged and dropped.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_INCOMING_H
#define HFI_INCOMING_H

#include "session/session.h"

/* ---- dispatch.c: messages of clients ---- */

/* The next message of a channel as a request; NULL: none waits. */
hfi_request *hfi_dispatch_receive(hf_kernel *kernel, int channel);
/* Read the shell channel: into the queues of the main shell, of subshells and of cells'
 * comms. */
void hfi_dispatch_shell(hf_kernel *kernel);
void hfi_dispatch_stdin(hf_kernel *kernel);
/* Reads the shell channel when an error stops the queue. */
hfi_listener hfi_dispatch_hear;

/* ---- execute.c: one request after the other; answers without a worker ---- */

/* Take requests from the queue for as long as each ends at once. */
void hfi_execute_next(hf_kernel *kernel);
/* A client or a signal interrupts the running request. */
void hfi_execute_interrupt(hf_kernel *kernel);
/* Read the control channel, and answer at once. */
void hfi_execute_control(hf_kernel *kernel);
/* Answer a request that needs no worker; an unknown one gets an error. */
void hfi_execute_answer(hf_kernel *kernel, const hfi_request *request);
/* Reports of the worker that has the request. */
void hfi_execute_started(hf_kernel *kernel, hfi_worker *worker,
                         const hfi_from_worker_started *frame);
void hfi_execute_ended(hf_kernel *kernel, hfi_worker *worker,
                       const hfi_from_worker_ended *frame);
void hfi_execute_replied(hf_kernel *kernel, hfi_worker *worker,
                         const hfi_from_worker_reply *reply);

/* ---- inbox.c: frames of workers and of the fork server ---- */

/* Read the frames that wait, and handle each by the table of workers/protocol.h. */
void hfi_inbox_read_fork_server(hf_kernel *kernel);
void hfi_inbox_read(hf_kernel *kernel, hfi_worker *worker);
/* The same after a poll(): whether its pipes had something then. */
void hfi_inbox_read_polled(hf_kernel *kernel, hfi_worker *worker, int has_printed);
/* Reads a worker whose state has to be known now. */
hfi_listener hfi_inbox_hear;

/* ---- comms.c: comms that the cell worker opened ---- */

extern const hfi_owner hfi_comms_owner;
int hfi_comms_is_one(const char *type); /* comm_open, comm_msg or comm_close */
/* The cell worker publishes a message of this type. */
void hfi_comms_watch(hf_kernel *kernel, const char *type, hfi_part content);
/* Take the request over if it is for such a comm; 0: it isn't. */
int hfi_comms_forward(hf_kernel *kernel, hfi_request *request);
/* The worker has acknowledged a message. Returns 0 if this reply is to another
 * request. */
int hfi_comms_replied(hf_kernel *kernel, long long id);
/* The worker is gone. */
void hfi_comms_forget(hf_kernel *kernel);

#endif
