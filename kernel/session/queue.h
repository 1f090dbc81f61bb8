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

/* What waits together: the first of each kind is found without a walk. */
typedef enum hfi_request_kind {
    HFI_REQUEST_CELL,     /* an execute_request */
    HFI_REQUEST_QUESTION, /* it needs no live object, so others than the main worker
                             can answer it; one that has begun is none */
    HFI_REQUEST_OTHER,
    HFI_REQUEST_KINDS
} hfi_request_kind;

typedef struct hfi_request_link {
    struct hfi_request *before;
    struct hfi_request *next;
} hfi_request_link;

typedef struct hfi_request {
    hfi_request_link link[2]; /* in the order of all, and in that of its kind */
    hfi_request_kind kind;    /* in the queue that it is in */
    hfi_message message;
    int channel;        /* HFI_SHELL or HFI_CONTROL: where the reply goes */
    long long id;       /* under which a worker was asked; 0: not asked yet */
    long long begin_ns; /* when it came */
    int begun;          /* its "busy" was published */
    /* of the cell, once it has begun; all its runs have this number */
    long long number;
    int reruns;                  /* it runs the cells that a crash has lost (rerun.c) */
    struct hfi_repeats *repeats; /* the runs of it that are over; NULL: none */
} hfi_request;

/* The runs of a cell that is to be repeated. */
typedef struct hfi_repeats {
    size_t count;
    double run_ms[]; /* as many as there are to be runs */
} hfi_repeats;

typedef struct hfi_request_list {
    hfi_request *first;
    hfi_request *last;
} hfi_request_list;

/* Zeroed is empty. No call but hfi_queue_pop_id takes longer for a longer queue. */
typedef struct hfi_queue {
    hfi_request_list all;
    hfi_request_list kinds[HFI_REQUEST_KINDS];
    size_t count;
} hfi_queue;

/* Take the message over. NULL without memory: then the message is finished too. */
hfi_request *hfi_request_create_consume(hfi_message *message, int channel);
void hfi_request_close(hfi_request *request);

void hfi_queue_push(hfi_queue *queue, hfi_request *request);
/* In front of all others. */
void hfi_queue_push_first(hfi_queue *queue, hfi_request *request);
hfi_request *hfi_queue_pop(hfi_queue *queue);
/* The first of a kind, which stays in the queue; NULL: none. */
const hfi_request *hfi_queue_first(const hfi_queue *queue, hfi_request_kind kind);
/* Take out the first of a kind, leaving the order of the others; NULL: none. */
hfi_request *hfi_queue_pop_kind(hfi_queue *queue, hfi_request_kind kind);
/* Take out the request that a worker was asked under `id`; NULL: none. */
hfi_request *hfi_queue_pop_id(hfi_queue *queue, long long id);
void hfi_queue_fini(hfi_queue *queue);

#endif
