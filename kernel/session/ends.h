/* ends.h - how a request ends. */
#ifndef HFI_ENDS_H
#define HFI_ENDS_H

#include "session/session.h"

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
/* Its reply is out: what it used is shown, or it ends. */
void hfi_ends_finish(hf_kernel *kernel, int error);
void hfi_ends_want_reports(hf_kernel *kernel, hfi_worker *worker,
                           const msgpack_object *map);
/* The report was made, or will not be: end the cell. 0: there was none to wait for. */
int hfi_ends_report(hf_kernel *kernel);

#endif
