/* test_control.c - frames across a socket pair, in pieces, with descriptors, to a dead
 * peer.
 */
#include <fcntl.h>
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
    hfi_map map = {0};
    int peer;
    int frames = 0;
    open_pair(&control, &peer);
    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        CHECK(write(peer, bytes + i, 1) == 1);
        CHECK(hfi_control_fill(control, NULL) == HF_OK);
        while (hfi_control_next(control, &map, NULL) == HF_OK)
            frames++;
        CHECK(frames == (i >= 8) + (i >= 13));
    }
    close(peer);
    CHECK(hfi_control_fill(control, NULL) == HF_E_GONE);
    hfi_map_fini(&map);
    hfi_control_close(control);
}

/* More than the socket takes waits, and all of it arrives. */
static void
test_queue(void) {
    hfi_control *control;
    hfi_frame frame;
    static char large[300000], piece[65536];
    int peer;
    size_t total = 0, wanted = 0;
    open_pair(&control, &peer);
    for (int i = 0; i < 20; i++) {
        hfi_frame_init(&frame, "x", 1);
        hfi_frame_add_bytes(&frame, "b", hfi_part_of(large, sizeof large));
        wanted += frame.buffer.size;
        CHECK(hfi_control_send_consume(control, &frame, NULL, 0, NULL) == HF_OK);
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
    hfi_frame_init(&frame, "x", 0);
    CHECK(hfi_control_send_consume(control, &frame, NULL, 0, NULL) == HF_E_GONE);
    hfi_control_close(control);
}

static void
test_descriptors(void) {
    hfi_control *control;
    hfi_frame frame;
    int peer, pipe_fds[2];
    char data[64], space[CMSG_SPACE(sizeof(int) * 4)];
    struct iovec piece = {data, sizeof data};
    struct msghdr message = {0};
    open_pair(&control, &peer);
    CHECK(hfi_program_pipe(pipe_fds, NULL) == HF_OK);
    hfi_frame_init(&frame, "fork", 0);
    CHECK(hfi_control_send_consume(control, &frame, &pipe_fds[1], 1, NULL) == HF_OK);
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

/* From one channel to another: in their order, closed on exec, and closed where nobody
 * takes them. */
static void
test_descriptors_that_come(void) {
    hfi_control *sender, *control;
    hfi_frame frame;
    hfi_map map = {0};
    int fds[2], ends[3][2], taken;
    char byte;
    CHECK(hfi_program_pair(fds, NULL) == HF_OK);
    CHECK(hfi_control_create_consume(fds[0], &sender, NULL) == HF_OK);
    CHECK(hfi_control_create_consume(fds[1], &control, NULL) == HF_OK);
    CHECK(hfi_control_take_fd(control) == -1);
    for (int i = 0; i < 3; i++) {
        CHECK(hfi_program_pipe(ends[i], NULL) == HF_OK);
        hfi_frame_init(&frame, "handle", 0);
        CHECK(hfi_control_send_consume(sender, &frame, &ends[i][1], 1, NULL) == HF_OK);
    }
    CHECK(hfi_control_fill(control, NULL) == HF_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(hfi_control_next(control, &map, NULL) == HF_OK);
        taken = hfi_control_take_fd(control);
        CHECK(taken >= 0 && (fcntl(taken, F_GETFD) & FD_CLOEXEC));
        CHECK(write(taken, "x", 1) == 1 && read(ends[i][0], &byte, 1) == 1);
        close(taken);
    }
    hfi_control_close(control); /* the third goes with it */
    CHECK(read(ends[2][0], &byte, 1) == 0);
    for (int i = 0; i < 3; i++)
        close(ends[i][0]);
    hfi_map_fini(&map);
    hfi_control_close(sender);
}

int
main(void) {
    test_pieces();
    test_descriptors_that_come();
    test_queue();
    test_descriptors();
    return 0;
}
