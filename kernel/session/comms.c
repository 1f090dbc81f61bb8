/* comms.c - the comms that the cell worker opened, while it lives.
 *
 * A comm that a cell opens in its own process ends with the process. Until then the
 * process gets the comm's messages at once, beside the queue, because the cell may wait
 * for an answer of its own widget. These messages have no reply, but the worker
 * acknowledges them. "idle" is sent then, or when the worker is gone. One thread.
 */
#include "session/incoming.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "session/workers.h"
#include "session/publish.h"
#include "session/request.h"

struct hfi_comms {
    json_t *ids;         /* set of comm ids that it opened */
    hfi_queue forwarded; /* messages that it hasn't acknowledged yet */
};

static hf_status
init_comms(hf_kernel *kernel, hf_error *reterr) {
    kernel->comms->ids = json_object();
    return kernel->comms->ids != NULL ? HF_OK
                                      : hf_error_set(reterr, HF_E_NOMEM, "no memory");
}

static void
fini_comms(hf_kernel *kernel) {
    json_decref(kernel->comms->ids);
    hfi_queue_fini(&kernel->comms->forwarded);
}

const hfi_owner hfi_comms_owner = {offsetof(hf_kernel, comms), sizeof(struct hfi_comms),
                                   init_comms, fini_comms};

int
hfi_comms_is_one(const char *type) {
    return strcmp(type, "comm_open") == 0 || strcmp(type, "comm_msg") == 0 ||
           strcmp(type, "comm_close") == 0;
}

/* Comms that a cell worker opens are its own while it lives. */
void
hfi_comms_watch(hf_kernel *kernel, const char *type, hfi_part content) {
    if (strncmp(type, "comm_", 5) != 0)
        return;
    json_t *body = json_loadb(content.data, content.size, JSON_ALLOW_NUL, NULL);
    const char *id = json_string_value(json_object_get(body, "comm_id"));
    if (id != NULL && strcmp(type, "comm_open") == 0)
        (void)json_object_set_new(kernel->comms->ids, id, json_true());
    else if (id != NULL && strcmp(type, "comm_close") == 0)
        (void)json_object_del(kernel->comms->ids, id);
    json_decref(body);
}

/* Pass a message for a comm of a running cell to its worker at once, since the worker
 * is gone later. */
int
hfi_comms_forward(hf_kernel *kernel, hfi_request *request) {
    const char *id =
        json_string_value(json_object_get(request->message.body, "comm_id"));
    if (!hfi_cell_is_in_worker(&kernel->cell) || hfi_workers_cell(kernel) == NULL ||
        id == NULL || !hfi_comms_is_one(request->message.type) ||
        json_object_get(kernel->comms->ids, id) == NULL)
        return 0;
    hfi_publish_busy(kernel, request);
    hfi_queue_push(&kernel->comms->forwarded, request);
    hfi_request_send(kernel, hfi_workers_cell(kernel), request);
    return 1;
}

static void
end_forwarded(hf_kernel *kernel, hfi_request *request) {
    hfi_publish_idle(kernel, request);
    hfi_request_close(request);
}

int
hfi_comms_replied(hf_kernel *kernel, long long id) {
    hfi_request *request = hfi_queue_pop_id(&kernel->comms->forwarded, id);
    if (request != NULL)
        end_forwarded(kernel, request);
    return request != NULL;
}

void
hfi_comms_forget(hf_kernel *kernel) {
    hfi_request *request;
    json_object_clear(kernel->comms->ids);
    while ((request = hfi_queue_pop(&kernel->comms->forwarded)) != NULL)
        end_forwarded(kernel, request);
}
