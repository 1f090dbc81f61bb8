/* queue.c - the execution queue: first come, first served.
 *
 * All requests of the shell channel are in one queue, also completions and comm
 * messages, as in other kernels. Clients read the kernel's state from the busy and idle
 * messages, so an "idle" for a completion in the middle of a cell would mislead them.
 * Requests that must be answered while a cell runs come on the control channel, which
 * has no queue.
 *
 * A request owns its message. One thread.
 */
#include "session/queue.h"

#include <stdlib.h>

hfi_request *
hfi_request_create_consume(hfi_message *message, int channel) {
    hfi_request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        hfi_message_fini(message);
        return NULL;
    }
    request->message = *message;
    request->channel = channel;
    memset(message, 0, sizeof *message);
    return request;
}

void
hfi_request_close(hfi_request *request) {
    if (request == NULL)
        return;
    hfi_message_fini(&request->message);
    free(request->repeats);
    free(request);
}

void
hfi_queue_push(hfi_queue *queue, hfi_request *request) {
    request->next = NULL;
    if (queue->last != NULL)
        queue->last->next = request;
    else
        queue->first = request;
    queue->last = request;
    queue->count++;
}

void
hfi_queue_push_first(hfi_queue *queue, hfi_request *request) {
    request->next = queue->first;
    queue->first = request;
    if (queue->last == NULL)
        queue->last = request;
    queue->count++;
}

static hfi_request *
unlink_request(hfi_queue *queue, hfi_request *before, hfi_request *request) {
    if (before != NULL)
        before->next = request->next;
    else
        queue->first = request->next;
    if (queue->last == request)
        queue->last = before;
    queue->count--;
    request->next = NULL;
    return request;
}

hfi_request *
hfi_queue_pop(hfi_queue *queue) {
    return queue->first != NULL ? unlink_request(queue, NULL, queue->first) : NULL;
}

hfi_request *
hfi_queue_take(hfi_queue *queue, const hfi_request *request) {
    hfi_request *before = NULL;
    for (hfi_request *at = queue->first; at != NULL; before = at, at = at->next)
        if (at == request)
            return unlink_request(queue, before, at);
    return NULL;
}

hfi_request *
hfi_queue_pop_type(hfi_queue *queue, const char *type) {
    hfi_request *before = NULL;
    for (hfi_request *at = queue->first; at != NULL; before = at, at = at->next)
        if (strcmp(at->message.type, type) == 0)
            return unlink_request(queue, before, at);
    return NULL;
}

hfi_request *
hfi_queue_pop_id(hfi_queue *queue, long long id) {
    hfi_request *before = NULL;
    for (hfi_request *at = queue->first; at != NULL; before = at, at = at->next)
        if (at->id == id)
            return unlink_request(queue, before, at);
    return NULL;
}

void
hfi_queue_fini(hfi_queue *queue) {
    while (queue->first != NULL)
        hfi_request_close(hfi_queue_pop(queue));
}
