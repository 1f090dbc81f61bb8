/* fuzz_wire.c - whatever comes by the wire or from a worker is refused or read.
 *
 * The first byte of the input says which parser gets the rest: the parts of a multipart
 * (cut at each 0xfe), a connection file, or a frame of the control channel. What was
 * accepted is used, so that a parser that accepts too much shows.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "wire/connection.h"
#include "wire/message.h"
#include "workers/frame.h"

enum { PARTS_MAX = 64 };

static const char message_seed[] =
    "\0ident\xfe<IDS|MSG>\xfe\xfe{\"msg_id\":\"1\",\"msg_type\":\"x\"}\xfe{}\xfe{}\xfe"
    "{\"code\":\"1\"}\xfe"
    "buffer";
static const char connection_seed[] =
    "\1{\"transport\":\"ipc\",\"ip\":\"/x\",\"key\":\"k\",\"shell_port\":1,"
    "\"signature_scheme\":\"hmac-sha256\"}";
static const char frame_seed[] =
    "\2\x85\xa2op\xa5reply\xa2id\x07\xa7"
    "content\xc4\x02{}\xa4list\x92\xa1x\xc0\xa1r\xcb\0\0\0\0\0"
    "\0\0\0";

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    static const struct {
        const char *bytes;
        size_t size;
    } seeds[] = {{message_seed, sizeof message_seed - 1},
                 {connection_seed, sizeof connection_seed - 1},
                 {frame_seed, sizeof frame_seed - 1}};
    memcpy(ret_input, seeds[number % 3].bytes, seeds[number % 3].size);
    return seeds[number % 3].size;
}

static void
try_message(const uint8_t *data, size_t size) {
    hfi_part parts[PARTS_MAX];
    size_t count = 0, begin = 0;
    hfi_signer *signer = NULL;
    hfi_message message;
    for (size_t i = 0; i <= size && count < PARTS_MAX; i++)
        if (i == size || data[i] == 0xfe) {
            parts[count++] = hfi_part_of(data + begin, i - begin);
            begin = i + 1;
        }
    if (hfi_signer_create(hfi_part_text(""), &signer, NULL) != HF_OK)
        return;
    if (hfi_message_parse(parts, count, signer, &message, NULL) == HF_OK) {
        if (message.type == NULL || message.id == NULL || message.head == NULL)
            abort();
        hfi_message_fini(&message);
    }
    hfi_signer_close(signer);
}

static void
try_connection(const uint8_t *data, size_t size) {
    hfi_connection connection;
    char endpoint[256];
    if (hfi_connection_parse((const char *)data, size, &connection, NULL) == HF_OK)
        for (int i = 0; i < HFI_CHANNEL_COUNT; i++) {
            hf_status status = hfi_connection_endpoint(&connection, i, endpoint,
                                                       sizeof endpoint, NULL);
            if (status != HF_OK && status != HF_E_INVALID)
                abort();
        }
    hfi_connection_fini(&connection);
}

static void
try_frame(const uint8_t *data, size_t size) {
    hfi_map map = {0};
    if (hfi_map_read(&map, data, size, NULL) == HF_OK) {
        if (!hfi_frame_is_valid(data, size))
            abort();
        (void)hfi_map_part(map.object, "op");
        (void)hfi_map_integer(map.object, "id", 0);
    }
    hfi_map_fini(&map);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    if (data[0] % 3 == 0)
        try_message(data + 1, size - 1);
    else if (data[0] % 3 == 1)
        try_connection(data + 1, size - 1);
    else
        try_frame(data + 1, size - 1);
    return 0;
}
