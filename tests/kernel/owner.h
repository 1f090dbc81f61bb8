/* owner.h - a kernel of which only some owners exist, to test each by itself. */
#ifndef HFT_OWNER_H
#define HFT_OWNER_H

#include "../support/check.h"
#include "session/workers.h"
#include "workers/program.h"

/* Nobody listens. */
static hfi_listener *const owner_listeners[] = {NULL};

/* With a main worker that is no process; what it is sent comes out of `ret_peer`. */
static inline void
owner_begin(hf_kernel *kernel, hfi_worker *main_worker, hfi_control **ret_peer) {
    int fds[2];
    *kernel = (hf_kernel){.listeners = owner_listeners};
    *main_worker =
        (hfi_worker){.role = HFI_MAIN, .pid = 1 << 30, .state = HFI_WORKER_READY};
    CHECK(hfi_program_pair(fds, NULL) == HF_OK);
    CHECK(hfi_control_create_consume(fds[0], &main_worker->control, NULL) == HF_OK);
    CHECK(hfi_control_create_consume(fds[1], ret_peer, NULL) == HF_OK);
    CHECK(hfi_owner_create(kernel, &hfi_workers_owner, NULL) == HF_OK);
    hfi_workers_set_main(kernel, main_worker);
}

static inline void
owner_end(hf_kernel *kernel, hfi_worker *main_worker, hfi_control *peer) {
    hfi_fork_server *server = hfi_workers_server(kernel);
    while (server->workers != NULL) /* those that the kernel has made */
        hfi_worker_forget(server, server->workers);
    hfi_control_close(main_worker->control);
    hfi_control_close(peer);
    hfi_owner_close(kernel, &hfi_workers_owner);
}

/* The next frame that the main worker was sent, which has to be of this row. */
static inline void
owner_read(hfi_control *peer, hfi_received *received, const hfi_row *row,
           hfi_frame *ret_frame) {
    CHECK(hfi_control_fill(peer, NULL) == HF_OK);
    CHECK(hfi_control_next(peer, received, NULL) == HF_OK);
    CHECK(hfi_part_is(hfi_received_op(received), row->op));
    CHECK(hfi_control_read(peer, received, row, ret_frame, NULL) == HF_OK);
}

#endif
