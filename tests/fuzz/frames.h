/* frames.h - inputs of frames, and a frontend, for the targets that read a control channel. */
#ifndef HFT_FUZZ_FRAMES_H
#define HFT_FUZZ_FRAMES_H

#include "../support/check.h"
#include "driver.h"
#include "workers/control.h"

#include <string.h>
#include <sys/socket.h>

/* Add a frame to an input of FUZZ_INPUT_MAX bytes. */
static inline void
add_frame(uint8_t *ret_input, size_t *size, const hfi_frame *frame) {
    msgpack_sbuffer buffer;
    CHECK(hfi_frame_write(frame, &buffer, NULL) == HF_OK);
    CHECK(*size + buffer.size <= FUZZ_INPUT_MAX);
    memcpy(ret_input + *size, buffer.data, buffer.size);
    *size += buffer.size;
    msgpack_sbuffer_destroy(&buffer);
}

/* Whatever was sent is whole frames of the table. */
static inline void
read_frames(hfi_control *frontend) {
    hfi_received received = {0};
    hf_status status = hfi_control_fill(frontend, NULL);
    CHECK(status == HF_OK || status == HF_E_GONE);
    while ((status = hfi_control_next(frontend, &received, NULL)) == HF_OK) {
        size_t i = 0;
        hfi_any_frame frame;
        while (hfi_rows[i] != NULL &&
               !(strcmp(hfi_rows[i]->way, "from") == 0 &&
                 hfi_part_is(hfi_received_op(&received), hfi_rows[i]->op) &&
                 hfi_frame_read(&received, hfi_rows[i], &frame.head, NULL) == HF_OK))
            i++;
        CHECK(hfi_rows[i] != NULL);
        CHECK(hfi_control_read(frontend, &received, hfi_rows[i], &frame.head, NULL) ==
              HF_OK);
    }
    hfi_received_fini(&received);
    CHECK(status == HF_AGAIN);
}

/* Send bytes; if `ridden` isn't -1, three copies of it with them. */
static inline void
send_bytes(int fd, const uint8_t *bytes, size_t size, int ridden) {
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr head;
    } control = {{0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (ridden >= 0) {
        const int fds[3] = {ridden, ridden, ridden};
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS,
                                        .cmsg_len = CMSG_LEN(sizeof fds)};
        memcpy(CMSG_DATA(&control.head), fds, sizeof fds);
    }
    CHECK(sendmsg(fd, &message, 0) == (ssize_t)size);
}

#endif
