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

/* The next frame that the main worker was sent; its op has to be this one. */
static inline const msgpack_object *
owner_read(hfi_control *peer, hfi_map *map, const char *op) {
    CHECK(hfi_control_fill(peer, NULL) == HF_OK);
    CHECK(hfi_control_next(peer, map, NULL) == HF_OK);
    CHECK(hfi_part_equal(hfi_map_part(map->object, "op"), hfi_part_text(op)));
    return map->object;
}

/* A frame of one number, as if a worker had said it; the map points into it. */
static inline void
owner_say(hfi_frame *frame, hfi_map *map, const char *op, const char *key,
          long long value) {
    hfi_frame_init(frame, op, 1);
    hfi_frame_add_integer(frame, key, value);
    CHECK(hfi_frame_finish(frame, NULL) == HF_OK);
    CHECK(hfi_map_read(map, frame->buffer.data + 4, frame->buffer.size - 4, NULL) ==
          HF_OK);
}

#endif
