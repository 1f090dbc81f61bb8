/* request.h - what a worker is asked, and what it cost. */
#ifndef HFI_REQUEST_H
#define HFI_REQUEST_H

#include "session/session.h"

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

#endif
