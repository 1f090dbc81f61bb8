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
#include <string.h>

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

/* ---- two orders ----------------------------------------------------------------- */

enum { OF_ALL, OF_KIND };

static void
append_request(hfi_request_list *list, hfi_request *request, int order) {
    request->link[order] = (hfi_request_link){.before = list->last};
    *(list->last != NULL ? &list->last->link[order].next : &list->first) = request;
    list->last = request;
}

static void
prepend_request(hfi_request_list *list, hfi_request *request, int order) {
    request->link[order] = (hfi_request_link){.next = list->first};
    *(list->first != NULL ? &list->first->link[order].before : &list->last) = request;
    list->first = request;
}

static void
take_request_out(hfi_request_list *list, hfi_request *request, int order) {
    hfi_request_link link = request->link[order];
    *(link.before != NULL ? &link.before->link[order].next : &list->first) = link.next;
    *(link.next != NULL ? &link.next->link[order].before : &list->last) = link.before;
    request->link[order] = (hfi_request_link){0};
}

static hfi_request_kind
kind_of(const hfi_request *request) {
    static const char *const questions[] = {"complete_request", "inspect_request",
                                            "is_complete_request", "history_request"};
    const char *type = request->message.type;
    if (strcmp(type, "execute_request") == 0)
        return HFI_REQUEST_CELL;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (strcmp(type, questions[i]) == 0 && !request->begun &&
            request->message.fault[0] == '\0')
            return HFI_REQUEST_QUESTION;
    return HFI_REQUEST_OTHER;
}

/* ---- the queue ------------------------------------------------------------------ */

void
hfi_queue_push(hfi_queue *queue, hfi_request *request) {
    request->kind = kind_of(request);
    append_request(&queue->all, request, OF_ALL);
    append_request(&queue->kinds[request->kind], request, OF_KIND);
    queue->count++;
}

void
hfi_queue_push_first(hfi_queue *queue, hfi_request *request) {
    request->kind = kind_of(request);
    prepend_request(&queue->all, request, OF_ALL);
    prepend_request(&queue->kinds[request->kind], request, OF_KIND);
    queue->count++;
}

static hfi_request *
unlink_request(hfi_queue *queue, hfi_request *request) {
    if (request == NULL)
        return NULL;
    take_request_out(&queue->all, request, OF_ALL);
    take_request_out(&queue->kinds[request->kind], request, OF_KIND);
    queue->count--;
    return request;
}

hfi_request *
hfi_queue_pop(hfi_queue *queue) {
    return unlink_request(queue, queue->all.first);
}

const hfi_request *
hfi_queue_first(const hfi_queue *queue, hfi_request_kind kind) {
    return queue->kinds[kind].first;
}

hfi_request *
hfi_queue_pop_kind(hfi_queue *queue, hfi_request_kind kind) {
    return unlink_request(queue, queue->kinds[kind].first);
}

hfi_request *
hfi_queue_pop_id(hfi_queue *queue, long long id) {
    hfi_request *at = queue->all.first;
    while (at != NULL && at->id != id)
        at = at->link[OF_ALL].next;
    return unlink_request(queue, at);
}

void
hfi_queue_fini(hfi_queue *queue) {
    while (queue->count > 0)
        hfi_request_close(hfi_queue_pop(queue));
}
