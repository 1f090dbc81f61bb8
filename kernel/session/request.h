/* request.h - sending requests to workers, and ending them.
 *
 * request.c writes a request's frame, and computes its cost. ends.c sends the reply,
 * and then shows a report or ends the cell.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_REQUEST_H
#define HFI_REQUEST_H

#include "session/session.h"

/* ---- request.c: requests to workers, and their cost ---- */

/* Send a request to a worker, under a new id. */
void hfi_request_send(hf_kernel *kernel, hfi_worker *worker, hfi_request *request);
/* The same with a line of the history, or NULL. */
void hfi_request_send_with(hf_kernel *kernel, hfi_worker *worker, hfi_request *request,
                           const hfi_map_history *history);
/* Whether a worker answers requests of this type, other than execute_request. */
int hfi_request_is_for_worker(const char *type);
/* Send it to a subshell of the main worker; `number` is the execution count. */
void hfi_request_send_aside(hf_kernel *kernel, hfi_control *channel,
                            hfi_request *request, const char *subshell,
                            long long number);
/* Write the metadata of the client's reply: the worker's, and what the cell cost. */
void hfi_request_cost(hf_kernel *kernel, const hfi_from_worker_reply *reply,
                      const char *run_mode, hfi_textbuf *ret_metadata);
/* How long the client has waited until now, and the parts of that as a worker reports
 * them. */
typedef struct hfi_times {
    double total_ms, in_ms, run_ms, out_ms; /* the total, and its three parts */
    /* parts of in_ms: until a process had the cell; until that process had time for it;
     * its own work */
    double commit_ms, wait_ms, bind_ms;
    double prepare_ms;  /* making memory ready; a part of bind_ms, but in-process not */
    double trace_ms;    /* of out_ms: ending the recording */
    double cpu_ms;      /* of the cell's process */
    double recorder_ms; /* of cpu_ms; 0 if it wasn't measured */
} hfi_times;
hfi_times hfi_request_times(const hf_kernel *kernel, const hfi_map_report *report);

/* ---- ends.c: how a request ends ---- */

extern const hfi_owner hfi_ends_owner;
#define HFI_ENDS_ERROR_SIZE 64
/* The outcome in the content of an execute_reply. */
typedef struct hfi_ends_outcome {
    int failed;
    char error[HFI_ENDS_ERROR_SIZE]; /* its name, cut off; "?": it has none; "": well */
    int exits; /* the cell called exit(): the main worker is about to exit */
} hfi_ends_outcome;
hfi_ends_outcome hfi_ends_read(const hfi_from_worker_reply *reply);
/* Whether the running request has another run: of the same cell (repeat.c), or of another
 * one (rerun.c) unless this one has failed, and not as the first time. `error` is as in
 * its outcome. */
int hfi_ends_goes_on(hf_kernel *kernel, const char *error);
/* Send a worker's reply to the client, if it has content and its request doesn't go
 * on. */
void hfi_ends_reply(hf_kernel *kernel, const hfi_request *request,
                    const hfi_from_worker_reply *reply, hfi_part metadata);
/* Answer the execute_requests of a queue that an error stops. */
void hfi_ends_abort(hf_kernel *kernel, hfi_queue *queue);
/* End the running request, if any, with an error. */
void hfi_ends_fail(hf_kernel *kernel, const char *name, const char *value);
/* The same with the reply's metadata, which is JSON. */
void hfi_ends_fail_with(hf_kernel *kernel, const char *name, const char *value,
                        hfi_part metadata);
/* Put the running request, if any, back at the head of the queue. No process has begun
 * it, and clients hear nothing. */
void hfi_ends_postpone(hf_kernel *kernel);
/* The reply of the running request is sent: show a report of what it used, or end
 * it. */
void hfi_ends_finish(hf_kernel *kernel, int error);
void hfi_ends_want_reports(hf_kernel *kernel, hfi_worker *worker,
                           const hfi_from_worker_perfreports *frame);
/* The report was made or won't be: end the cell. Returns 0 if none was waited for. */
int hfi_ends_report(hf_kernel *kernel);
/* Whether a report will follow the running cell's reply. */
int hfi_ends_will_report(const hf_kernel *kernel);

#endif
