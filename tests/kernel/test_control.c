/* test_control.c - frames across a socket pair, in pieces, with descriptors, to a dead
 * peer.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/check.h"
#include "workers/control.h"
#include "workers/program.h"

static void
open_pair(hfi_control **ret_control, int *ret_peer) {
    int fds[2];
    CHECK(hfi_program_pair(fds, NULL) == HF_OK);
    CHECK(hfi_control_create_consume(fds[0], ret_control, NULL) == HF_OK);
    *ret_peer = fds[1];
}

static void
test_pieces(void) {
    static const char bytes[] = "\0\0\0\x05\x81\xa2op\x01\0\0\0\x01\x80";
    hfi_control *control;
    hfi_received received = {0};
    int peer;
    int frames = 0;
    open_pair(&control, &peer);
    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        CHECK(write(peer, bytes + i, 1) == 1);
        CHECK(hfi_control_fill(control, NULL) == HF_OK);
        while (hfi_control_next(control, &received, NULL) == HF_OK)
            frames++;
        CHECK(frames == (i >= 8) + (i >= 13));
    }
    close(peer);
    CHECK(hfi_control_fill(control, NULL) == HF_E_GONE);
    hfi_received_fini(&received);
    hfi_control_close(control);
}

/* More than the socket takes waits, and all of it arrives. */
static void
test_queue(void) {
    hfi_control *control;
    static char large[300000], piece[65536];
    msgpack_sbuffer one;
    int peer;
    size_t total = 0, wanted = 0;
    const hfi_frame *frame =
        HFI_FRAME(to_main_published, .name = hfi_part_of(large, sizeof large));
    open_pair(&control, &peer);
    for (int i = 0; i < 20; i++) {
        CHECK(hfi_frame_write(frame, &one, NULL) == HF_OK);
        wanted += one.size;
        msgpack_sbuffer_destroy(&one);
        CHECK(hfi_control_send_consume(control, frame, NULL) == HF_OK);
    }
    CHECK(hfi_control_is_full(control));
    while (total < wanted) {
        ssize_t size = read(peer, piece, sizeof piece);
        CHECK(size > 0);
        total += (size_t)size;
        CHECK(hfi_control_flush(control, NULL) == HF_OK);
    }
    CHECK(total == wanted && !hfi_control_is_full(control));
    close(peer);
    CHECK(hfi_control_send_consume(control, frame, NULL) == HF_E_GONE);
    hfi_control_close(control);
}

static void
test_descriptors(void) {
    hfi_control *control;
    int peer, pipe_fds[2];
    char data[64], space[CMSG_SPACE(sizeof(int) * 4)];
    struct iovec piece = {data, sizeof data};
    struct msghdr message = {0};
    open_pair(&control, &peer);
    CHECK(hfi_program_pipe(pipe_fds, NULL) == HF_OK);
    CHECK(hfi_control_send_consume(
              control, HFI_FRAME(to_worker_output, .head.fds = {pipe_fds[1]}), NULL) ==
          HF_OK);
    CHECK(fcntl(pipe_fds[1], F_GETFD) == -1); /* ours is closed */
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    CHECK(recvmsg(peer, &message, 0) > 4);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    CHECK(head != NULL && head->cmsg_type == SCM_RIGHTS);
    int received;
    memcpy(&received, CMSG_DATA(head), sizeof received);
    CHECK(write(received, "y", 1) == 1 && read(pipe_fds[0], data, 1) == 1);
    close(received);
    close(pipe_fds[0]);
    close(peer);
    hfi_control_close(control);
    hfi_control_close(NULL);
}

static void
send_handle(hfi_control *sender, int number, int fd) {
    CHECK(hfi_control_send_consume(sender,
                                   HFI_FRAME(from_worker_handle, .head.fds = {fd},
                                             .handle = number, .found = fd >= 0),
                                   NULL) == HF_OK);
}

static void
open_channel(hfi_control **ret_sender, hfi_control **ret_control) {
    int fd;
    open_pair(ret_sender, &fd);
    CHECK(hfi_control_create_consume(fd, ret_control, NULL) == HF_OK);
}

/* From one channel to another: in their order, closed on exec, and closed where nobody
 * takes them. */
static void
test_descriptors_that_come(void) {
    hfi_control *sender, *control;
    hfi_received received = {0};
    hfi_from_worker_handle frame;
    int ends[3][2];
    char byte;
    open_channel(&sender, &control);
    for (int i = 0; i < 3; i++) {
        CHECK(hfi_program_pipe(ends[i], NULL) == HF_OK);
        send_handle(sender, i, ends[i][1]);
        send_handle(sender, i, -1); /* not found: none comes */
    }
    CHECK(hfi_control_fill(control, NULL) == HF_OK);
    for (int i = 0; i < 4; i++) {
        CHECK(hfi_control_next(control, &received, NULL) == HF_OK);
        CHECK(hfi_control_read(control, &received, &hfi_row_from_worker_handle,
                               &frame.head, NULL) == HF_OK);
        CHECK(frame.handle == i / 2 && frame.found == (i % 2 == 0));
        if (!frame.found)
            continue;
        int taken = frame.head.fds[0];
        CHECK(taken >= 0 && (fcntl(taken, F_GETFD) & FD_CLOEXEC));
        CHECK(write(taken, "x", 1) == 1 && read(ends[i / 2][0], &byte, 1) == 1);
        close(taken);
    }
    hfi_control_close(control); /* the third goes with it */
    CHECK(read(ends[2][0], &byte, 1) == 0);
    for (int i = 0; i < 3; i++)
        close(ends[i][0]);
    hfi_received_fini(&received);
    hfi_control_close(sender);
}

/* Fewer or more descriptors than were announced. */
static void
test_a_wrong_number_of_descriptors(void) {
    hfi_control *sender, *control;
    hfi_received received = {0};
    hf_error error = HF_ERROR_INIT;
    msgpack_sbuffer bytes;
    hfi_from_worker_handle frame;
    int ends[2];
    open_channel(&sender, &control);
    CHECK(hfi_frame_write(HFI_FRAME(from_worker_handle, .found = true), &bytes, NULL) ==
          HF_OK);
    CHECK(write(hfi_control_fd(sender), bytes.data, bytes.size) == (ssize_t)bytes.size);
    msgpack_sbuffer_destroy(&bytes);
    CHECK(hfi_control_fill(control, NULL) == HF_OK);
    CHECK(hfi_control_next(control, &received, NULL) == HF_OK);
    CHECK(hfi_control_read(control, &received, &hfi_row_from_worker_handle, &frame.head,
                           &error) == HF_E_PROTOCOL);
    CHECK_TEXT(error.message, "handle: 1 descriptors were announced, and 0 came");

    CHECK(hfi_program_pipe(ends, NULL) == HF_OK);
    send_handle(sender, 1, ends[1]);
    CHECK(hfi_control_fill(control, NULL) == HF_OK);
    CHECK(hfi_control_next(control, &received, NULL) == HF_OK);
    CHECK(hfi_control_next(control, &received, &error) == HF_E_PROTOCOL);
    CHECK_TEXT(error.message, "1 descriptors came that no frame announced");
    close(ends[0]);
    hfi_received_fini(&received);
    hfi_control_close(control);
    hfi_control_close(sender);
}

/* This process has no room for them, which is no fault of the peer's. */
static void
test_no_room_for_a_descriptor(void) {
    hfi_control *sender, *control;
    hfi_received received = {0};
    hfi_from_worker_handle frame;
    struct rlimit limit, none;
    int ends[2];
    open_channel(&sender, &control);
    CHECK(hfi_program_pipe(ends, NULL) == HF_OK);
    send_handle(sender, 1, dup(ends[1]));
    send_handle(sender, 2, ends[1]);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = (struct rlimit){3, limit.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(hfi_control_fill(control, NULL) == HF_OK);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int i = 1; i <= 2; i++) {
        CHECK(hfi_control_next(control, &received, NULL) == HF_OK);
        CHECK(hfi_control_read(control, &received, &hfi_row_from_worker_handle,
                               &frame.head, NULL) == HF_OK);
        CHECK(frame.found && frame.head.fds[0] == -1);
    }
    CHECK(hfi_control_next(control, &received, NULL) == HF_AGAIN);
    close(ends[0]);
    hfi_received_fini(&received);
    hfi_control_close(control);
    hfi_control_close(sender);
}

int
main(void) {
    test_pieces();
    test_descriptors_that_come();
    test_a_wrong_number_of_descriptors();
    test_no_room_for_a_descriptor();
    test_queue();
    test_descriptors();
    return 0;
}
