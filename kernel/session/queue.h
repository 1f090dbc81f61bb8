/* queue.h - requests of the shell channel that wait for their turn.
 *
 * A request is in one queue at most. The queue owns its requests; the caller owns each
 * request that it takes out, and closes it.
 *
 * Threads: one thread at a time.
 */
#ifndef HFI_QUEUE_H
#define HFI_QUEUE_H

#include "wire/message.h"

typedef struct hfi_request {
    struct hfi_request *next;
    hfi_message message;
    int channel;        /* HFI_SHELL or HFI_CONTROL: where the reply goes */
    long long id;       /* under which a worker was asked; 0: not asked yet */
    long long begin_ns; /* when it came */
    int begun; /* its "busy" was published, and the main worker is to answer it */
    /* of the cell, once it has begun; all its runs have this number */
    long long number;
    struct hfi_repeats *repeats; /* the runs of it that are over; NULL: none */
} hfi_request;

/* The runs of a cell that is to be repeated. */
typedef struct hfi_repeats {
    size_t count;
    double run_ms[]; /* as many as there are to be runs */
} hfi_repeats;

/* Zeroed is empty. */
typedef struct hfi_queue {
    hfi_request *first;
    hfi_request *last;
    size_t count;
} hfi_queue;

/* Take the message over. NULL without memory: then the message is finished too. */
hfi_request *hfi_request_create_consume(hfi_message *message, int channel);
void hfi_request_close(hfi_request *request);

void hfi_queue_push(hfi_queue *queue, hfi_request *request);
/* In front of all others. */
void hfi_queue_push_first(hfi_queue *queue, hfi_request *request);
hfi_request *hfi_queue_pop(hfi_queue *queue);
/* Take out this request, which is in the queue. */
hfi_request *hfi_queue_take(hfi_queue *queue, const hfi_request *request);
/* Take out the first request of a type, leaving the order of the others. */
hfi_request *hfi_queue_pop_type(hfi_queue *queue, const char *type);
/* Take out the request that a worker was asked under `id`; NULL: none. */
hfi_request *hfi_queue_pop_id(hfi_queue *queue, long long id);
void hfi_queue_fini(hfi_queue *queue);

#endif
