/* request.h - what a worker is asked, and how a request ends. */
#ifndef HFI_REQUEST_H
#define HFI_REQUEST_H

#include "session/session.h"

/* ---- request.c: what a worker is asked, and what it cost ---- */

/* Ask a worker, under a new id. */
void hfi_request_send(hf_kernel *kernel, hfi_worker *worker, hfi_request *request);
/* The same with one key more. */
typedef void hfi_request_key(const hf_kernel *kernel, hfi_frame *frame);
void hfi_request_send_with(hf_kernel *kernel, hfi_worker *worker, hfi_request *request,
                           hfi_request_key *more);
/* Whether a worker answers requests of this type, other than execute_request. */
int hfi_request_is_for_worker(const char *type);
/* To a subshell of the main worker's; `number` is the execution count. */
void hfi_request_send_aside(hf_kernel *kernel, hfi_control *channel,
                            hfi_request *request, const char *subshell,
                            long long number);
/* The metadata of the client's reply: the worker's, with what the cell cost. */
void hfi_request_cost(hf_kernel *kernel, const msgpack_object *reply,
                      const char *run_mode, hfi_textbuf *ret_metadata);
/* What the client has waited for until now, and what a worker reports of it. */
typedef struct hfi_times {
    double total_ms, in_ms, run_ms, out_ms; /* the whole; and its three parts */
    double commit_ms, wait_ms, bind_ms;     /* of in_ms: until a process had the cell,
                                             * until that had time for it, its own work */
    double prepare_ms;  /* memory made ready: of bind_ms, in-process besides it */
    double trace_ms;    /* of out_ms: the recording's end */
    double cpu_ms;      /* of the cell's process */
    double recorder_ms; /* of run_ms; 0 where it wasn't measured */
} hfi_times;
hfi_times hfi_request_times(const hf_kernel *kernel, const msgpack_object *report);

/* ---- ends.c: how a request ends ---- */

extern const hfi_owner hfi_ends_owner;
/* What the content of an execute_reply says. */
typedef struct hfi_ends_outcome {
    int failed;
    int exits; /* the cell called exit(): the main worker is about to leave */
} hfi_ends_outcome;
hfi_ends_outcome hfi_ends_read(const msgpack_object *reply);
/* Send a worker's reply to the client, if it has content. */
void hfi_ends_reply(hf_kernel *kernel, const hfi_request *request,
                    const msgpack_object *reply, hfi_part metadata);
/* Answer the execute_requests of a queue that an error stops. */
void hfi_ends_abort(hf_kernel *kernel, hfi_queue *queue);
/* End the running request, if any, with an error. */
void hfi_ends_fail(hf_kernel *kernel, const char *name, const char *value);
/* The same with the reply's metadata, JSON. */
void hfi_ends_fail_with(hf_kernel *kernel, const char *name, const char *value,
                        hfi_part metadata);
/* Its reply is out: what it used is shown, or it ends. */
void hfi_ends_finish(hf_kernel *kernel, int error);
void hfi_ends_want_reports(hf_kernel *kernel, hfi_worker *worker,
                           const msgpack_object *map);
/* The report was made, or will not be: end the cell. 0: there was none to wait for. */
int hfi_ends_report(hf_kernel *kernel);

#endif
