/* fuzz_control.c - whatever a peer writes to its control channel is cut into frames.
 *
 * An input is a stream behind a first byte, which says how large the pieces are in
 * which it is written to one end of a socket pair, and whether descriptors ride on
 * them. The other end is read as the frontend reads it, and as a worker does. Checked
 * beyond "doesn't crash": a frame is a map, all of it can be read, and the same bytes in
 * other pieces, or read by the other, give as many frames. Each is read as each row of the protocol's table, of both sides; what can
 * be read as one can be written again, and read again as the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/check.h"
#include "channel.h"
#include "driver.h"
#include "frames.h"
#include "workers/control.h"
#include "workers/program.h"

const uint32_t fuzz_weight = 20; /* it opens four socket pairs */

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    static const int64_t raw[] = {7, 0};
    const hfi_part bytes = hfi_part_text("bytes");
    const hfi_text reason = {hfi_part_text("lock"), hfi_part_text("why")};
    const hfi_map_moment moment = {.time_ns = 5, .io = bytes};
    const hfi_map_report report = {.reason = hfi_part_text(""), .seconds = 0.5};
    const hfi_keyed_step step = {hfi_part_text("4"), {.changed = {&bytes, 1}}};
    size_t size = 1;
    ret_input[0] = (uint8_t)number;
    add_frame(
        ret_input, &size,
        HFI_FRAME(from_worker_ready, .version = HFI_CONTROL_VERSION, .pid = 4711));
    add_frame(ret_input, &size,
              HFI_FRAME(from_worker_stream, .head.raw = {raw, 2},
                        .name = hfi_part_text("stdout"),
                        .text = hfi_part_text("a line\n")));
    if (number % 3 == 0)
        add_frame(ret_input, &size,
                  HFI_FRAME(from_worker_reply, .id = 1,
                            .content = hfi_part_text("{\"status\":\"ok\"}"),
                            .report = &report, .buffers = {&bytes, 1},
                            .looked = {raw, 2}, .unserializable = {&reason, 1}));
    else if (number % 3 == 1)
        add_frame(ret_input, &size,
                  HFI_FRAME(from_worker_ended, .begin = &moment, .end = &moment));
    else
        add_frame(ret_input, &size,
                  HFI_FRAME(to_worker_request,
                            .history = &(hfi_map_history){.steps = {&step, 1}},
                            .instrument = &(hfi_map_instrument){.name = bytes}));
    return size;
}

static unsigned sum; /* so that each byte is read */

static void
read_bytes(const void *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        sum += ((const unsigned char *)data)[i];
}

static void
read_object(const msgpack_object *object) {
    if (object->type == MSGPACK_OBJECT_STR)
        read_bytes(object->via.str.ptr, object->via.str.size);
    if (object->type == MSGPACK_OBJECT_BIN)
        read_bytes(object->via.bin.ptr, object->via.bin.size);
    if (object->type == MSGPACK_OBJECT_ARRAY)
        for (uint32_t i = 0; i < object->via.array.size; i++)
            read_object(&object->via.array.ptr[i]);
    if (object->type != MSGPACK_OBJECT_MAP)
        return;
    for (uint32_t i = 0; i < object->via.map.size; i++) {
        read_object(&object->via.map.ptr[i].key);
        read_object(&object->via.map.ptr[i].val);
    }
}

/* Read it as this row, and what is written of that again. */
static void
read_as(const hfi_received *received, const hfi_row *row) {
    hfi_any_frame frame, again;
    hfi_received second = {0};
    msgpack_sbuffer once, twice;
    if (hfi_frame_read(received, row, &frame.head, NULL) != HF_OK)
        return;
    CHECK(hfi_frame_write(&frame.head, &once, NULL) == HF_OK);
    read_bytes(once.data, once.size);
    CHECK(hfi_received_parse(&second, once.data + 4, once.size - 4, NULL) == HF_OK);
    CHECK(hfi_frame_read(&second, row, &again.head, NULL) == HF_OK);
    CHECK(hfi_frame_write(&again.head, &twice, NULL) == HF_OK);
    CHECK(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    msgpack_sbuffer_destroy(&once);
    msgpack_sbuffer_destroy(&twice);
    hfi_received_fini(&second);
}

static void
read_frame(const hfi_received *received) {
    CHECK(received->object && received->object->type == MSGPACK_OBJECT_MAP);
    read_object(received->object);
    for (const hfi_row *const *row = hfi_rows; *row; row++)
        read_as(received, *row);
}

/* A piece, with so many descriptors. */
static void
send_piece(int peer, const uint8_t *data, size_t size, size_t descriptors) {
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * HFI_FRAME_FDS_MAX)];
    } ancillary = {0};
    struct iovec piece = {(void *)(uintptr_t)data, size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (descriptors) {
        size_t bytes = descriptors * sizeof(int);
        message.msg_control = &ancillary;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(bytes);
        for (size_t i = 0; i < descriptors; i++)
            memcpy(CMSG_DATA(head) + i * sizeof(int), &(int){STDERR_FILENO},
                   sizeof(int));
    }
    CHECK(sendmsg(peer, &message, 0) == (ssize_t)size);
}

/* The whole frames among the bytes. A frame `handle` takes its descriptor. */
static unsigned
read_stream(const uint8_t *data, size_t size, size_t piece, size_t descriptors) {
    hfi_control *control;
    unsigned frames = 0;
    hf_status status = HF_AGAIN;
    hfi_received received = {0};
    hfi_from_worker_handle handle;
    int fds[2];
    CHECK(hfi_program_pair(fds, NULL) == HF_OK);
    CHECK(hfi_control_create_consume(fds[0], &control, NULL) == HF_OK);
    for (size_t at = 0; at < size && status == HF_AGAIN; at += piece) {
        send_piece(fds[1], data + at, piece < size - at ? piece : size - at,
                   descriptors);
        CHECK(hfi_control_fill(control, NULL) == HF_OK);
        while ((status = hfi_control_next(control, &received, NULL)) == HF_OK) {
            read_frame(&received);
            frames++;
            if (hfi_control_read(control, &received, &hfi_row_from_worker_handle,
                                 &handle.head, NULL) == HF_OK &&
                handle.found)
                close(handle.head.fds[0]);
        }
        CHECK(status == HF_AGAIN || status == HF_E_PROTOCOL);
    }
    hfi_received_fini(&received);
    hfi_control_trim(control);
    close(fds[1]);
    if (status == HF_AGAIN)
        CHECK(hfi_control_fill(control, NULL) == HF_E_GONE);
    hfi_control_close(control);
    return frames;
}

/* The same, read by a worker. */
static unsigned
read_channel(const uint8_t *data, size_t size, size_t piece, size_t descriptors) {
    hfi_channel *channel;
    hfi_incoming *incoming;
    unsigned frames = 0;
    hf_status status = HF_OK;
    int fds[2];
    CHECK(hfi_program_pair(fds, NULL) == HF_OK);
    CHECK(hfi_channel_create_consume(fds[0], &channel, NULL) == HF_OK);
    for (size_t at = 0; at < size && status == HF_OK; at += piece) {
        send_piece(fds[1], data + at, piece < size - at ? piece : size - at,
                   descriptors);
        status = hfi_channel_fill(channel, NULL);
        CHECK(status == HF_OK || status == HF_E_PROTOCOL);
    }
    for (; (incoming = hfi_channel_next(channel, NULL)); hfi_incoming_free(incoming)) {
        read_object(incoming->received.object);
        frames++;
    }
    close(fds[1]);
    hfi_channel_destroy(channel);
    return frames;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > FUZZ_INPUT_MAX)
        return 0;
    size_t piece = 64 + 8u * (data[0] >> 2), descriptors = data[0] % 4;
    unsigned frames = read_stream(data + 1, size - 1, piece, descriptors);
    unsigned whole = read_stream(data + 1, size - 1, FUZZ_INPUT_MAX, 0);
    CHECK(frames == whole || (descriptors > 0 && frames < whole)); /* one too many */
    CHECK(read_channel(data + 1, size - 1, piece, 0) == whole);
    CHECK(read_channel(data + 1, size - 1, piece, descriptors) <= whole);
    return 0;
}
