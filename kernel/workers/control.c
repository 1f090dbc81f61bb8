/* control.c - frames over a Unix socket, in both directions, without ever blocking.
 *
 * The frontend has one thread, and a worker may be busy for hours or stopped in a
 * debugger. So frames to send are queued, and written as the socket takes them. Bytes
 * are read as they come, and cut into frames. The queue to a worker is bounded only by
 * what clients ask of it. The buffer for a worker's bytes grows with the bytes that
 * have arrived, never by the length that a frame claims.
 *
 * Descriptors are sent with the first byte of their frame: sendmsg gets them with the
 * frame's first piece, never with the tail of the frame before. They are closed here
 * once sent. Received descriptors wait in their order until their frame is read. A peer
 * that sends fewer or more than its frames announce breaks the protocol, because other
 * frames would get the wrong ones. If this process has no room for a descriptor, the
 * frame lacks it: that isn't the peer's fault.
 *
 * A frame that was handed out points into the receive buffer, which moves only in
 * hfi_control_fill. Writing to a dead peer is an answer (HF_E_GONE), not a SIGPIPE.
 */
#include "workers/control.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "wire/textbuf.h"

#define FILL_PIECE 65536u
#define FILL_MAX   (16u << 20) /* in one call, so that other channels get their turn */

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0 /* keep_fds does it */
#endif

typedef struct pending {
    struct pending *next;
    msgpack_sbuffer buffer;
    size_t done;
    int fds[HFI_FRAME_FDS_MAX];
    size_t fd_count; /* 0 once sent */
} pending;

struct hfi_control {
    int fd;
    pending *first;
    pending **last;
    hfi_textbuf input;
    size_t taken; /* bytes of input that were handed out */
    /* received ones, a ring; -1: one that was lost */
    int fds[HFI_CONTROL_FDS_HELD_MAX];
    size_t fd_first;
    size_t fd_count;
};

hf_status
hfi_control_create_consume(int fd, hfi_control **ret_control, hf_error *reterr) {
    hfi_control *control = calloc(1, sizeof *control);
    if (control == NULL) {
        close(fd);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a control channel");
    }
#ifdef SO_NOSIGPIPE
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    control->fd = fd;
    control->last = &control->first;
    *ret_control = control;
    return HF_OK;
}

static void
drop_fds(pending *item) {
    for (size_t i = 0; i < item->fd_count; i++)
        close(item->fds[i]);
    item->fd_count = 0;
}

static void
drop_first(hfi_control *control) {
    pending *item = control->first;
    control->first = item->next;
    if (control->first == NULL)
        control->last = &control->first;
    drop_fds(item);
    msgpack_sbuffer_destroy(&item->buffer);
    free(item);
}

int
hfi_control_take_fd(hfi_control *control) {
    int fd = control->fd_count > 0 ? control->fds[control->fd_first] : -1;
    if (control->fd_count > 0) {
        control->fd_first = (control->fd_first + 1) % HFI_CONTROL_FDS_HELD_MAX;
        control->fd_count--;
    }
    return fd;
}

void
hfi_control_begin_anew(hfi_control *control) {
    while (control->first != NULL)
        drop_first(control);
    while (control->fd_count > 0) {
        int fd = hfi_control_take_fd(control);
        if (fd >= 0)
            close(fd);
    }
    hfi_textbuf_fini(&control->input);
    control->taken = 0;
}

void
hfi_control_close(hfi_control *control) {
    if (control == NULL)
        return;
    hfi_control_begin_anew(control);
    close(control->fd);
    free(control);
}

int
hfi_control_fd(const hfi_control *control) {
    return control->fd;
}

int
hfi_control_is_full(const hfi_control *control) {
    return control->first != NULL;
}

static ssize_t
send_piece(int fd, const pending *item) {
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * HFI_FRAME_FDS_MAX)];
    } ancillary;
    struct iovec piece = {item->buffer.data + item->done,
                          item->buffer.size - item->done};
    struct msghdr message = {0};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (item->fd_count > 0) {
        size_t size = item->fd_count * sizeof(int);
        memset(&ancillary, 0, sizeof ancillary);
        message.msg_control = &ancillary;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(head), item->fds, size);
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void
hfi_control_end(hfi_control *control) {
    (void)shutdown(control->fd, SHUT_RDWR);
}

/* Whether the error is temporary, as in unix(7): the system lacks memory, or room for
 * descriptors in flight. */
static int
is_passing(int err) {
    return err == EAGAIN || err == EWOULDBLOCK || err == ENOMEM || err == ENOBUFS ||
           err == ETOOMANYREFS;
}

hf_status
hfi_control_flush(hfi_control *control, hf_error *reterr) {
    while (control->first != NULL) {
        pending *item = control->first;
        ssize_t size = send_piece(control->fd, item);
        if (size < 0) {
            if (errno == EINTR)
                continue;
            if (is_passing(errno))
                return HF_OK;
            if (errno == EPIPE || errno == ECONNRESET)
                return hf_error_set(reterr, HF_E_GONE, "the peer is gone");
            int err = errno;
            /* frames that wait here would come out of order */
            hfi_control_end(control);
            return hf_error_set_errno(reterr, err, "writing to a worker");
        }
        drop_fds(item);
        item->done += (size_t)size;
        if (item->done == item->buffer.size)
            drop_first(control);
    }
    return HF_OK;
}

hf_status
hfi_control_send_consume(hfi_control *control, const hfi_frame *frame,
                         hf_error *reterr) {
    pending *item = calloc(1, sizeof *item);
    size_t fd_count = hfi_frame_fd_count(frame);
    hf_status status = item != NULL
                           ? hfi_frame_write(frame, &item->buffer, reterr)
                           : hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
    for (size_t i = 0; i < fd_count; i++)
        assert(frame->fds[i] > 0);
    if (status != HF_OK) {
        for (size_t i = 0; i < fd_count; i++)
            close(frame->fds[i]);
        free(item);
        return status;
    }
    memcpy(item->fds, frame->fds, fd_count * sizeof *frame->fds);
    item->fd_count = fd_count;
    *control->last = item;
    control->last = &item->next;
    return hfi_control_flush(control, reterr);
}

static void
compact_input(hfi_control *control, size_t kept_max) {
    hfi_textbuf *input = &control->input;
    if (control->taken > 0)
        memmove(input->data, input->data + control->taken,
                input->size - control->taken);
    input->size -= control->taken;
    control->taken = 0;
    if (input->size == 0 && input->capacity > kept_max)
        hfi_textbuf_fini(input);
}

void
hfi_control_trim(hfi_control *control) {
    compact_input(control, 0);
}

static void
keep_fd(hfi_control *control, int fd) {
    size_t place = control->fd_first + control->fd_count;
    if (control->fd_count < HFI_CONTROL_FDS_HELD_MAX) {
        control->fds[place % HFI_CONTROL_FDS_HELD_MAX] = fd;
        control->fd_count++;
    } else if (fd >= 0) {
        close(fd);
    }
}

static void
keep_fds(hfi_control *control, struct msghdr *message) {
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
         head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
            keep_fd(control, fd);
        }
    }
    if (message->msg_flags & MSG_CTRUNC)
        keep_fd(control, -1);
}

static ssize_t
receive_piece(hfi_control *control, void *data, size_t size) {
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * HFI_FRAME_FDS_MAX)];
    } ancillary;
    struct iovec piece = {data, size};
    struct msghdr message = {0};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = &ancillary;
    message.msg_controllen = sizeof ancillary;
    ssize_t received = recvmsg(control->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (received > 0)
        keep_fds(control, &message);
    return received;
}

hf_status
hfi_control_fill(hfi_control *control, hf_error *reterr) {
    compact_input(control, FILL_MAX);
    for (size_t total = 0; total < FILL_MAX;) {
        size_t fds = control->fd_count;
        size_t room = hfi_textbuf_room(&control->input, FILL_PIECE);
        if (room == 0)
            return hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
        char *end = control->input.data + control->input.size;
        ssize_t size = receive_piece(control, end, room);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HF_OK;
        if (size == 0 || (size < 0 && errno == ECONNRESET))
            return hf_error_set(reterr, HF_E_GONE, "the peer is gone");
        if (size < 0)
            return hf_error_set_errno(reterr, errno, "reading from a worker");
        control->input.size += (size_t)size;
        total += (size_t)size;
        /* All of it, or a part that the system cuts behind descriptors. */
        if ((size_t)size < room && control->fd_count == fds)
            return HF_OK;
    }
    return HF_OK;
}

hf_status
hfi_control_cut(hfi_control *control, hfi_part *ret_bytes, hf_error *reterr) {
    const hfi_textbuf *input = &control->input;
    size_t left = input->size - control->taken;
    if (left == 0 && control->fd_count > 0)
        return hf_error_set(reterr, HF_E_PROTOCOL,
                            "%zu descriptors came that no frame announced",
                            control->fd_count);
    if (left < 4)
        return HF_AGAIN;
    const unsigned char *p = (const unsigned char *)input->data + control->taken;
    size_t size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    if (size > HFI_FRAME_SIZE_MAX)
        return hf_error_set(reterr, HF_E_PROTOCOL, "a frame of %zu bytes", size);
    if (left - 4 < size)
        return HF_AGAIN;
    control->taken += 4 + size;
    *ret_bytes = hfi_part_of(p + 4, size);
    return HF_OK;
}

hf_status
hfi_control_next(hfi_control *control, hfi_received *ret_received, hf_error *reterr) {
    hfi_part bytes = {0};
    hf_status status = hfi_control_cut(control, &bytes, reterr);
    return status == HF_OK
               ? hfi_received_parse(ret_received, bytes.data, bytes.size, reterr)
               : status;
}

hf_status
hfi_control_read(hfi_control *control, const hfi_received *received, const hfi_row *row,
                 hfi_frame *ret_frame, hf_error *reterr) {
    hf_status status = hfi_frame_read(received, row, ret_frame, reterr);
    size_t count = status == HF_OK ? hfi_frame_fd_count(ret_frame) : 0;
    if (count > control->fd_count)
        return hf_error_set(reterr, HF_E_PROTOCOL,
                            "%s: %zu descriptors were announced, and %zu came", row->op,
                            count, control->fd_count);
    for (size_t i = 0; i < count; i++)
        ret_frame->fds[i] = hfi_control_take_fd(control);
    return status;
}
