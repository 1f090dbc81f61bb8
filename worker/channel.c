/* channel.c - a worker's end of the control channel. A frame is a 4-byte big-endian length
 * and one msgpack map (workers/control.h, which reads here as in the frontend).
 *
 * A frame goes out whole or not at all: it is made first, and sent under a lock of its
 * own, without a look at signals until its end. If a frame can't be ended, the channel is:
 * what came after it would be read as its rest. The descriptor is a blocking one, since a
 * send waits for a slow frontend in one system call, however large the frame is.
 *
 * Frames needn't be handled in their order: a cell that waits for a file leaves a
 * debugger's socket, which came before, alone. So each frame gets its bytes and its
 * descriptors as soon as it is read, and waits in a list for whoever wants it.
 *
 * A fork of a process is a copy in the middle of whatever other threads did. What only
 * the receiving thread uses is whole, since it is the one that forks. What the lock
 * protects may be half done, if a thread held it, and is forgotten then, not freed.
 */
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tally.h"
#include "workers/control.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

#define PIECES_MAX 64 /* in one system call */

struct hfi_channel {
    _Atomic int fd; /* -1: closed */
    hfi_control *control;
    hfi_incoming *first, **last; /* that were read */
    bool has_ended;
    pthread_mutex_t sending; /* protects: one frame at a time, and */
    msgpack_sbuffer kept;    /* frames that travel with the next one */
    hfi_pipes pipes;
};

/* ---- life ------------------------------------------------------------------------ */

hf_status
hfi_channel_create_consume(int fd, hfi_channel **ret_channel, hf_error *reterr) {
    hfi_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL) {
        close(fd);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a control channel");
    }
    hf_status status = hfi_control_create_consume(fd, &channel->control, reterr);
    if (status != HF_OK) {
        free(channel);
        return status;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
        status = hf_error_set_errno(reterr, errno, "control channel");
        hfi_control_close(channel->control);
        free(channel);
        return status;
    }
    channel->fd = fd;
    channel->last = &channel->first;
    pthread_mutex_init(&channel->sending, NULL);
    hfi_pipes_init(&channel->pipes);
    *ret_channel = channel;
    return HF_OK;
}

static void
forget_frames(hfi_channel *channel) {
    hfi_incoming *incoming;
    while ((incoming = hfi_channel_next(channel, NULL)) != NULL)
        hfi_incoming_free(incoming);
    channel->has_ended = false;
}

void
hfi_channel_close(hfi_channel *channel) {
    pthread_mutex_lock(&channel->sending);
    hfi_control *control = channel->control;
    channel->fd = -1;
    channel->control = NULL;
    msgpack_sbuffer_destroy(&channel->kept);
    msgpack_sbuffer_init(&channel->kept);
    pthread_mutex_unlock(&channel->sending);
    hfi_control_close(control);
    hfi_pipes_forget(&channel->pipes);
}

void
hfi_channel_begin_anew(hfi_channel *channel) {
    if (pthread_mutex_trylock(&channel->sending) == 0) {
        msgpack_sbuffer_destroy(&channel->kept);
        pthread_mutex_unlock(&channel->sending);
    }
    msgpack_sbuffer_init(&channel->kept);
    pthread_mutex_init(&channel->sending, NULL);
    forget_frames(channel);
    if (channel->control != NULL)
        hfi_control_begin_anew(channel->control);
    hfi_pipes_begin_anew(&channel->pipes);
}

void
hfi_channel_destroy(hfi_channel *channel) {
    if (channel == NULL)
        return;
    hfi_channel_close(channel);
    forget_frames(channel);
    hfi_pipes_fini(&channel->pipes);
    pthread_mutex_destroy(&channel->sending);
    free(channel);
}

int
hfi_channel_fd(const hfi_channel *channel) {
    return channel->fd;
}

/* ---- what is written to the pipes beside ----------------------------------------- */

hf_status
hfi_channel_watch_consume(hfi_channel *channel, int tally, const int pipes[2],
                          hf_error *reterr) {
    return hfi_pipes_watch_consume(&channel->pipes, tally, pipes, reterr);
}

int
hfi_channel_tally(const hfi_channel *channel) {
    return channel->pipes.fds[2];
}

hf_status
hfi_channel_count(hfi_channel *channel, bool waits, int64_t ret_written[2]) {
    return hfi_pipes_count(&channel->pipes, waits, ret_written);
}

bool
hfi_channel_has_place(const hfi_frame *frame) {
    return frame->row == &hfi_row_from_worker_stream ||
           frame->row == &hfi_row_from_worker_message;
}

/* ---- sending --------------------------------------------------------------------- */

/* As msgpack wants it: 0, or another number if there is no memory. */
static int
add_bytes(void *context, const char *data, size_t size) {
    hfi_packed *packed = context;
    size_t count = packed->piece_count;
    if (size < HFI_CHANNEL_LARGE) {
        packed->pieces[count - 1].iov_len += size;
        return msgpack_sbuffer_write(&packed->small, data, size);
    }
    struct iovec *pieces =
        realloc(packed->pieces, (count + 2) * sizeof *packed->pieces);
    if (pieces == NULL)
        return -1;
    pieces[count] = (struct iovec){(void *)(uintptr_t)data, size};
    pieces[count + 1] = (struct iovec){NULL, 0};
    packed->pieces = pieces;
    packed->piece_count += 2;
    return 0;
}

hf_status
hfi_packed_init(hfi_packed *packed, const hfi_frame *frame, hf_error *reterr) {
    *packed = (hfi_packed){.piece_count = 2, .fd_count = hfi_frame_fd_count(frame)};
    memcpy(packed->fds, frame->fds, sizeof packed->fds);
    packed->pieces = calloc(2, sizeof *packed->pieces);
    if (packed->pieces == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
    hf_status status = hfi_frame_pack(frame, add_bytes, packed, reterr);
    if (status != HF_OK)
        return status;
    char *small = packed->small.data;
    size_t size = 0;
    for (size_t i = 1; i < packed->piece_count; i++) {
        if (i % 2 == 1) {
            packed->pieces[i].iov_base = small;
            small += packed->pieces[i].iov_len;
        }
        size += packed->pieces[i].iov_len;
    }
    return hfi_frame_put_size(packed->small.data, size, reterr);
}

void
hfi_packed_fini(hfi_packed *packed) {
    free(packed->pieces);
    msgpack_sbuffer_destroy(&packed->small);
}

/* The bytes that were taken; -1 and errno. */
static ssize_t
send_some(int fd, hfi_packed *packed, struct iovec *pieces, size_t count) {
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * HFI_FRAME_FDS_MAX)];
    } ancillary = {0};
    struct msghdr message = {0};
    message.msg_iov = pieces;
    message.msg_iovlen = count < PIECES_MAX ? (int)count : PIECES_MAX;
    if (packed->fd_count > 0) {
        size_t size = packed->fd_count * sizeof(int);
        message.msg_control = &ancillary;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(head), packed->fds, size);
    }
    ssize_t size = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (size >= 0)
        packed->fd_count = 0;
    return size;
}

/* 0, or the errno. */
static int
send_pieces(int fd, hfi_packed *packed) {
    struct iovec *at = packed->pieces, *end = at + packed->piece_count;
    bool has_begun = false;
    while (at < end) {
        ssize_t size = send_some(fd, packed, at, (size_t)(end - at));
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0) {
            int err = errno;
            if (has_begun)
                (void)shutdown(fd, SHUT_RDWR);
            return err;
        }
        has_begun = has_begun || size > 0;
        for (; at < end && (size_t)size >= at->iov_len; at++)
            size -= (ssize_t)at->iov_len;
        if (at < end) {
            at->iov_base = (char *)at->iov_base + size;
            at->iov_len -= (size_t)size;
        }
    }
    return 0;
}

static hf_status
closed_channel(hf_error *reterr) {
    return hf_error_set(reterr, HF_E_GONE, "the control channel is closed");
}

hf_status
hfi_channel_send(hfi_channel *channel, hfi_packed *packed, hf_error *reterr) {
    pthread_mutex_lock(&channel->sending);
    packed->pieces[0] = (struct iovec){channel->kept.data, channel->kept.size};
    int fd = channel->fd, err = fd >= 0 ? send_pieces(fd, packed) : 0;
    if (fd >= 0 && err == 0)
        msgpack_sbuffer_clear(&channel->kept);
    pthread_mutex_unlock(&channel->sending);
    if (fd < 0)
        return closed_channel(reterr);
    if (err == EPIPE || err == ECONNRESET)
        return hf_error_set(reterr, HF_E_GONE, "the frontend is gone");
    return err == 0 ? HF_OK : hf_error_set_errno(reterr, err, "control channel");
}

hf_status
hfi_channel_send_frame(hfi_channel *channel, const hfi_frame *frame, hf_error *reterr) {
    hfi_packed packed;
    hf_status status = hfi_packed_init(&packed, frame, reterr);
    if (status == HF_OK)
        status = hfi_channel_send(channel, &packed, reterr);
    hfi_packed_fini(&packed);
    return status;
}

hf_status
hfi_channel_keep(hfi_channel *channel, const hfi_packed *packed, hf_error *reterr) {
    hf_status status = HF_OK;
    pthread_mutex_lock(&channel->sending);
    size_t before = channel->kept.size;
    if (channel->fd < 0)
        status = closed_channel(reterr);
    for (size_t i = 1; status == HF_OK && i < packed->piece_count; i++) {
        const struct iovec *piece = &packed->pieces[i];
        if (msgpack_sbuffer_write(&channel->kept, piece->iov_base, piece->iov_len))
            status = hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
    }
    if (status != HF_OK)
        channel->kept.size = before;
    pthread_mutex_unlock(&channel->sending);
    return status;
}

/* ---- receiving ------------------------------------------------------------------- */

void
hfi_incoming_free(hfi_incoming *incoming) {
    if (incoming == NULL)
        return;
    for (size_t i = 0; i < incoming->fd_count; i++)
        if (incoming->fds[i] >= 0)
            close(incoming->fds[i]);
    hfi_received_fini(&incoming->received);
    free(incoming);
}

/* How many descriptors come with a frame; of another protocol's none. */
static size_t
announced_fds(const hfi_received *received) {
    hfi_part op = hfi_received_op(received);
    const hfi_row *const *row = hfi_rows;
    while (*row != NULL &&
           !(strcmp((*row)->way, "to") == 0 && hfi_part_is(op, (*row)->op)))
        row++;
    if (*row == NULL)
        return 0;
    if ((*row)->fds != HFI_FDS_IF_FOUND)
        return (size_t)(*row)->fds;
    const msgpack_object *found = hfi_map_get(received->object, "found");
    return found != NULL && found->type == MSGPACK_OBJECT_BOOLEAN && found->via.boolean;
}

static hf_status
add_incoming(hfi_channel *channel, hfi_part bytes, hf_error *reterr) {
    hfi_incoming *incoming = malloc(sizeof *incoming + bytes.size);
    if (incoming == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
    *incoming = (hfi_incoming){0};
    memcpy(incoming->bytes, bytes.data, bytes.size);
    hf_status status =
        hfi_received_parse(&incoming->received, incoming->bytes, bytes.size, reterr);
    if (status != HF_OK) {
        free(incoming);
        return status;
    }
    incoming->fd_count = announced_fds(&incoming->received);
    for (size_t i = 0; i < incoming->fd_count; i++)
        incoming->fds[i] = hfi_control_take_fd(channel->control);
    *channel->last = incoming;
    channel->last = &incoming->next;
    return HF_OK;
}

hf_status
hfi_channel_fill(hfi_channel *channel, hf_error *reterr) {
    if (channel->control == NULL)
        return closed_channel(reterr);
    hf_status status = hfi_control_fill(channel->control, reterr);
    channel->has_ended = status == HF_E_GONE;
    if (status != HF_OK && status != HF_E_GONE)
        return status;
    hfi_part bytes = {0};
    bool was_large = false;
    while ((status = hfi_control_cut(channel->control, &bytes, reterr)) == HF_OK) {
        was_large = was_large || bytes.size >= HFI_CHANNEL_LARGE;
        if ((status = add_incoming(channel, bytes, reterr)) != HF_OK)
            return status;
    }
    if (was_large)
        hfi_control_trim(channel->control);
    return status == HF_AGAIN ? HF_OK : status;
}

hfi_incoming *
hfi_channel_next(hfi_channel *channel, const char *op) {
    hfi_incoming **place = &channel->first, *incoming;
    while ((incoming = *place) != NULL && op != NULL &&
           !hfi_part_is(hfi_received_op(&incoming->received), op))
        place = &incoming->next;
    if (incoming == NULL)
        return NULL;
    *place = incoming->next;
    if (incoming->next == NULL)
        channel->last = place;
    incoming->next = NULL;
    return incoming;
}

bool
hfi_channel_has_frames(const hfi_channel *channel) {
    return channel->first != NULL;
}

bool
hfi_channel_has_ended(const hfi_channel *channel) {
    return channel->has_ended;
}

bool
hfi_channel_wait(const hfi_channel *channel, int timeout_ms) {
    struct pollfd at = {.fd = channel->fd, .events = POLLIN};
    return poll(&at, 1, timeout_ms) != 0;
}
