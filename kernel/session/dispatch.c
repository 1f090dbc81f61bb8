/* dispatch.c - messages of clients: read, checked, and queued.
 *
 * shell     queued, all of it, and taken one after the other (queue.c says why), or
 *           the same in a subshell, which the header names (subshell.c)
 * control   answered at once by execute.c
 * stdin     input_reply, for the worker that waits for one
 *
 * A message is dropped with a line on stderr if it is forged, replayed or one of our
 * own, if its header is malformed, or if no client may send its type on its channel. If
 * another part of a request is malformed, the request gets an error as its reply, and
 * no worker sees it. One thread.
 */
#include "session/incoming.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/workers.h"
#include "session/publish.h"
#include "session/beside.h"
#include "workers/program.h"

#define TURN_MAX 1000 /* messages of one channel, before the others get their turn */

static int
ends_with(const char *text, const char *ending) {
    size_t size = strlen(text), tail = strlen(ending);
    return size > tail && strcmp(text + size - tail, ending) == 0;
}

/* Whether clients may send this type. Messages that only a kernel sends can be
 * overheard by other users of the machine, who could simply send them back. */
static int
is_clients(const char *type, int channel) {
    if (channel == HFI_STDIN)
        return strcmp(type, "input_reply") == 0;
    return (ends_with(type, "_request") && strcmp(type, "input_request") != 0) ||
           hfi_comms_is_one(type);
}

/* Why the message is dropped; NULL: it isn't. */
static const char *
find_objection(const hf_kernel *kernel, const hfi_message *message, int channel) {
    const char *session = json_string_value(json_object_get(message->head, "session"));
    if (session != NULL &&
        strncmp(session, hfi_publish_name(kernel), HFI_MARK_TEXT) == 0)
        return "a kernel sent it";
    if (!is_clients(message->type, channel))
        return "clients don't send this type on this channel";
    if (message->fault[0] != '\0' && !ends_with(message->type, "_request"))
        return message->fault;
    return NULL;
}

/* Make a request of the message; NULL if it is dropped. */
static hfi_request *
accept_consume(hf_kernel *kernel, hfi_message *message, int channel) {
    const char *why = find_objection(kernel, message, channel);
    if (why != NULL) {
        hfi_log("dropped a %.60s on %s: %s", message->type, hfi_channel_name(channel),
                why);
        hfi_message_fini(message);
        return NULL;
    }
    hfi_request *request = hfi_request_create_consume(message, channel);
    if (request != NULL)
        request->begin_ns = hfi_clock_ns();
    return request;
}

hfi_request *
hfi_dispatch_receive(hf_kernel *kernel, int channel) {
    for (int i = 0; i < TURN_MAX; i++) {
        hfi_message message;
        hf_error error = HF_ERROR_INIT;
        hf_status status = hfi_publish_receive(kernel, channel, &message, &error);
        if (status == HF_AGAIN)
            return NULL;
        if (status == HF_OK) {
            hfi_request *request = accept_consume(kernel, &message, channel);
            if (request != NULL)
                return request;
        } else {
            hfi_log("dropped a message: %s", error.message);
        }
    }
    return NULL;
}

/* ---- channels ------------------------------------------------------------------- */

void
hfi_dispatch_shell(hf_kernel *kernel) {
    hfi_request *request;
    while ((request = hfi_dispatch_receive(kernel, HFI_SHELL)) != NULL) {
        hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_REQUEST_CAME});
        if (!hfi_comms_forward(kernel, request) && !hfi_subshell_take(kernel, request))
            hfi_queue_push(&kernel->queue, request);
    }
}

static void
pass_input(hf_kernel *kernel, const hfi_request *reply) {
    json_t *value = json_object_get(reply->message.body, "value");
    hfi_worker *worker = hfi_cell_is_in_worker(&kernel->cell)
                             ? hfi_workers_cell(kernel)
                             : hfi_workers_main(kernel);
    hf_error error = HF_ERROR_INIT;
    if (strcmp(reply->message.type, "input_reply") != 0 || !json_is_string(value) ||
        !kernel->cell.input_wanted || worker == NULL) {
        hfi_log("stdin: no request waits for a %s", reply->message.type);
        return;
    }
    hfi_cell_input(&kernel->cell, 0);
    if (hfi_control_send_consume(
            worker->control,
            HFI_FRAME(to_worker_input_reply,
                      .value = hfi_part_of(json_string_value(value),
                                           json_string_length(value))),
            &error) != HF_OK)
        hfi_log("input_reply: %s", error.message);
}

void
hfi_dispatch_stdin(hf_kernel *kernel) {
    hfi_request *reply;
    while ((reply = hfi_dispatch_receive(kernel, HFI_STDIN)) != NULL) {
        if (!hfi_subshell_input(kernel, reply))
            pass_input(kernel, reply);
        hfi_request_close(reply);
    }
}

void
hfi_dispatch_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_STOPS_QUEUE)
        hfi_dispatch_shell(kernel);
}
