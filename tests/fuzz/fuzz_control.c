/* fuzz_control.c - whatever a worker writes to its control channel is cut into frames.
 *
 * An input is a stream behind a first byte, which says how large the pieces are in
 * which it is written to one end of a socket pair, and whether descriptors ride on
 * them. The other end is read as the frontend reads it. Checked beyond "doesn't crash":
 * a frame is a map, all of it can be read, it can be written again, and the same bytes
 * in other pieces give as many frames.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/check.h"
#include "driver.h"
#include "workers/control.h"
#include "workers/program.h"

const uint32_t fuzz_weight = 10; /* it opens a socket pair, twice */

static void
add_frame(uint8_t *ret_input, size_t *size, hfi_frame *frame) {
    CHECK(hfi_frame_finish(frame, NULL) == HF_OK);
    CHECK(*size + frame->buffer.size <= FUZZ_INPUT_MAX);
    memcpy(ret_input + *size, frame->buffer.data, frame->buffer.size);
    *size += frame->buffer.size;
    hfi_frame_fini(frame);
}

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    size_t size = 1;
    hfi_frame frame;
    ret_input[0] = (uint8_t)number;
    hfi_frame_init(&frame, "ready", 2);
    hfi_frame_add_integer(&frame, "version", HFI_CONTROL_VERSION);
    hfi_frame_add_integer(&frame, "pid", 4711);
    add_frame(ret_input, &size, &frame);
    hfi_frame_init(&frame, "stream", 3);
    hfi_frame_add_text(&frame, "name", hfi_part_text("stdout"));
    hfi_frame_add_text(&frame, "text", hfi_part_text("a line\n"));
    hfi_frame_add_array(&frame, "raw", 2);
    msgpack_pack_int(&frame.packer, 7);
    msgpack_pack_int(&frame.packer, 0);
    add_frame(ret_input, &size, &frame);
    hfi_frame_init(&frame, "reply", 4);
    hfi_frame_add_integer(&frame, "id", 1);
    hfi_frame_add_bytes(&frame, "content", hfi_part_text("{\"status\":\"ok\"}"));
    hfi_frame_add_map(&frame, "report", 1);
    hfi_frame_add_text(&frame, "reason", hfi_part_text(""));
    hfi_frame_add_array(&frame, "buffers", 1);
    hfi_frame_put_bytes(&frame, hfi_part_text("bytes"));
    add_frame(ret_input, &size, &frame);
    return size;
}

static unsigned sum; /* so that each byte is read */

static void
read_part(hfi_part part) {
    for (size_t i = 0; i < part.size; i++)
        sum += ((const unsigned char *)part.data)[i];
}

static void
read_object(const msgpack_object *object) {
    read_part(hfi_object_part(object));
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

static void
read_map(const hfi_map *map) {
    hfi_frame frame;
    CHECK(map->object && map->object->type == MSGPACK_OBJECT_MAP);
    read_object(map->object);
    read_part(hfi_map_part(map->object, "op"));
    sum += (unsigned)hfi_map_integer(map->object, "id", 0);
    sum += (unsigned)hfi_map_flag(map->object, "found");
    sum += hfi_map_real(map->object, "seconds", 0) > 1;
    hfi_frame_init(&frame, "adopt", 1);
    hfi_frame_put_object(&frame, "report", map->object);
    CHECK(hfi_frame_finish(&frame, NULL) == HF_OK);
    hfi_map again = {0};
    CHECK(frame.buffer.size > 4);
    if (hfi_map_read(&again, frame.buffer.data + 4, frame.buffer.size - 4, NULL) ==
        HF_OK)
        CHECK(hfi_map_get(again.object, "report"));
    hfi_map_fini(&again);
    hfi_frame_fini(&frame);
}

/* A piece, with so many descriptors. */
static void
send_piece(int peer, const uint8_t *data, size_t size, size_t descriptors) {
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * HFI_CONTROL_FDS_MAX)];
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

/* The whole frames among the bytes. */
static unsigned
read_stream(const uint8_t *data, size_t size, size_t piece, size_t descriptors) {
    hfi_control *control;
    unsigned frames = 0;
    hf_status status = HF_AGAIN;
    hfi_map map = {0};
    int fds[2];
    CHECK(hfi_program_pair(fds, NULL) == HF_OK);
    CHECK(hfi_control_create_consume(fds[0], &control, NULL) == HF_OK);
    for (size_t at = 0; at < size && status == HF_AGAIN; at += piece) {
        send_piece(fds[1], data + at, piece < size - at ? piece : size - at,
                   descriptors);
        CHECK(hfi_control_fill(control, NULL) == HF_OK);
        while ((status = hfi_control_next(control, &map, NULL)) == HF_OK) {
            read_map(&map);
            frames++;
            int fd = hfi_control_take_fd(control);
            CHECK((fd >= 0) <= (descriptors > 0));
            if (fd >= 0)
                close(fd);
        }
        CHECK(status == HF_AGAIN || status == HF_E_PROTOCOL);
    }
    hfi_map_fini(&map);
    hfi_control_trim(control);
    close(fds[1]);
    if (status == HF_AGAIN)
        CHECK(hfi_control_fill(control, NULL) == HF_E_GONE);
    hfi_control_close(control);
    return frames;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > FUZZ_INPUT_MAX)
        return 0;
    size_t piece = 64 + 8u * (data[0] >> 2), descriptors = data[0] % 4;
    unsigned frames = read_stream(data + 1, size - 1, piece, descriptors);
    CHECK(read_stream(data + 1, size - 1, FUZZ_INPUT_MAX, 0) == frames);
    return 0;
}
