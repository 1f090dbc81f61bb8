/* handles.c - passing the descriptors of open files, sockets and pipes.
 *
 * An encoding in the store names a file by a number
 * (bindings/holdfast/codecs/handles.py). The descriptor for that number is passed on
 * here:
 * - To a cell: a cell that decodes a file asks for its descriptor, and the main worker
 *   answers. What the cell doesn't decode costs nothing.
 * - From a cell: descriptors that the cell made are sent before its reply, and held
 *   here until its state is published. Then they go to the main worker right before the
 *   "adopt". If nothing is published they are closed.
 *
 * Rejected: a table that keeps the descriptors of the last commit for later workers. A
 * third process that holds the end of a pipe or connection keeps the peer from seeing
 * that the notebook has closed it, and the notebook would wait for itself. A regular
 * file is opened again if the main worker that had it is dead.
 *
 * A cell waits for one descriptor at a time. Descriptors beyond HANDLES_MAX are closed,
 * but the worker makes such values unserializable before that. One thread.
 */
#include "session/handover.h"

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "session/workers.h"

#define HANDLES_MAX 256

struct hfi_handle {
    struct hfi_handle *next;
    long long number;
    int fd;
};

/* Descriptors that are being passed between a cell worker and the main worker. */
typedef struct hfi_handles {
    struct hfi_handle *first; /* made by the cell, oldest first */
    size_t count;
    long long wanted; /* the number that the cell waits for; 0: none */
} hfi_handles;

const hfi_owner hfi_handles_owner = {offsetof(hf_kernel, handles),
                                     sizeof(struct hfi_handles), NULL, NULL};

/* Send the descriptor, and take ownership of it; -1: not found. */
static void
send_consume(hfi_worker *worker, long long number, int fd) {
    hf_error error = HF_ERROR_INIT;
    if (hfi_control_send_consume(worker->control,
                                 HFI_FRAME(to_worker_handle, .head.fds = {fd},
                                           .handle = number, .found = fd >= 0),
                                 &error) != HF_OK)
        hfi_log("handle: %s", error.message);
}

static int
is_open(const hfi_worker *worker) {
    return worker != NULL && worker->control != NULL;
}

static void
answer_consume(hf_kernel *kernel, int fd) {
    long long number = kernel->handles->wanted;
    kernel->handles->wanted = 0;
    if (number != 0 && is_open(hfi_workers_cell(kernel)))
        send_consume(hfi_workers_cell(kernel), number, fd);
    else if (fd >= 0)
        close(fd);
}

void
hfi_handles_want(hf_kernel *kernel, hfi_worker *worker,
                 const hfi_from_worker_want_handle *frame) {
    if (worker != hfi_workers_cell(kernel))
        return;
    kernel->handles->wanted = frame->handle;
    if (!is_open(hfi_workers_main(kernel))) {
        answer_consume(kernel, -1);
        return;
    }
    hfi_workers_send_main(kernel,
                          HFI_FRAME(to_main_want_handle, .handle = frame->handle));
}

/* Keep a handle that the running cell made. */
static void
keep_consume(hf_kernel *kernel, long long number, int fd) {
    struct hfi_handle **last = &kernel->handles->first;
    struct hfi_handle *made =
        kernel->handles->count < HANDLES_MAX ? calloc(1, sizeof *made) : NULL;
    if (made == NULL) {
        hfi_log("a cell's descriptor was dropped: it made more than %d", HANDLES_MAX);
        close(fd);
        return;
    }
    while (*last != NULL)
        last = &(*last)->next;
    *made = (struct hfi_handle){NULL, number, fd};
    *last = made;
    kernel->handles->count++;
}

void
hfi_handles_take(hf_kernel *kernel, hfi_worker *worker,
                 const hfi_from_worker_handle *frame) {
    long long number = frame->handle;
    int fd = frame->found ? frame->head.fds[0] : -1;
    if (worker == hfi_workers_main(kernel) && number == kernel->handles->wanted)
        answer_consume(kernel, fd);
    else if (worker == hfi_workers_cell(kernel) && fd >= 0)
        keep_consume(kernel, number, fd);
    else if (fd >= 0)
        close(fd);
}

static struct hfi_handle *
pop_handle(hf_kernel *kernel) {
    struct hfi_handle *first = kernel->handles->first;
    if (first != NULL) {
        kernel->handles->first = first->next;
        kernel->handles->count--;
    }
    return first;
}

void
hfi_handles_adopt(hf_kernel *kernel) {
    struct hfi_handle *made;
    while (is_open(hfi_workers_main(kernel)) && (made = pop_handle(kernel)) != NULL) {
        send_consume(hfi_workers_main(kernel), made->number, made->fd);
        free(made);
    }
}

void
hfi_handles_drop(hf_kernel *kernel) {
    struct hfi_handle *made;
    while ((made = pop_handle(kernel)) != NULL) {
        close(made->fd);
        free(made);
    }
    kernel->handles->wanted = 0;
}

void
hfi_handles_lose_main(hf_kernel *kernel) {
    if (kernel->handles->wanted != 0)
        answer_consume(kernel, -1);
}
