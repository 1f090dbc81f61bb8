/* fuzz_wire.c - whatever comes by the wire or from a worker is refused or read.
 *
 * The first byte of the input says which parser gets the rest: the parts of a multipart
 * (cut at each 0xfe), a connection file, a frame of the control channel, or the parts
 * again, signed: that is accepted once, and with another byte never. What was accepted
 * is used, so that a parser that accepts too much shows.
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
static const char signed_seed[] = "\3{\"msg_id\":\"1\",\"msg_type\":\"x\"}\xfe{}\xfe{}"
                                  "\xfe{\"code\":\"1\"}";
static const char connection_seed[] =
    "\1{\"transport\":\"ipc\",\"ip\":\"/x\",\"key\":\"k\",\"shell_port\":1,"
    "\"iopub_port\":2,\"stdin_port\":3,\"control_port\":4,\"hb_port\":5,"
    "\"signature_scheme\":\"hmac-sha256\"}";
static const char frame_seed[] =
    "\2\x85\xa2op\xa5reply\xa2id\x07\xa7"
    "content\xc4\x02{}\xa4list\x92\xa1x\xc0\xa1r\xcb\0\0\0\0\0"
    "\0\0\0";

const uint32_t fuzz_weight = 1;

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    static const struct {
        const char *bytes;
        size_t size;
    } seeds[] = {{message_seed, sizeof message_seed - 1},
                 {connection_seed, sizeof connection_seed - 1},
                 {frame_seed, sizeof frame_seed - 1},
                 {signed_seed, sizeof signed_seed - 1}};
    memcpy(ret_input, seeds[number % 4].bytes, seeds[number % 4].size);
    return seeds[number % 4].size;
}

static size_t
cut(const uint8_t *data, size_t size, hfi_part ret_parts[PARTS_MAX]) {
    size_t count = 0, begin = 0;
    for (size_t i = 0; i <= size && count < PARTS_MAX; i++)
        if (i == size || data[i] == 0xfe) {
            ret_parts[count++] = hfi_part_of(data + begin, i - begin);
            begin = i + 1;
        }
    return count;
}

/* Of one signer, which has two MiB of memory: it serves for as many messages. */
static char accepted[256][HFI_SIGNATURE_TEXT + 1];
static size_t accepted_count;

static hfi_signer *
signer_for_next(void) {
    static hfi_signer *signer;
    if (signer == NULL || accepted_count == sizeof accepted / sizeof *accepted) {
        hfi_signer_close(signer);
        signer = NULL;
        accepted_count = 0;
        if (hfi_signer_create(hfi_part_text("key"), &signer, NULL) != HF_OK)
            return NULL;
    }
    return signer;
}

static int
was_accepted(const char *text) {
    for (size_t i = 0; i < accepted_count; i++)
        if (strcmp(accepted[i], text) == 0)
            return 1;
    return 0;
}

static void
sign(const hfi_part parts[4], char ret_text[HFI_SIGNATURE_TEXT + 1]) {
    static hfi_signer *client;
    if (client == NULL &&
        hfi_signer_create(hfi_part_text("key"), &client, NULL) != HF_OK)
        abort();
    hfi_signer_sign(client, parts, ret_text);
}

static void
try_signed(const uint8_t *data, size_t size) {
    hfi_part parts[PARTS_MAX];
    char text[HFI_SIGNATURE_TEXT + 1];
    hfi_signer *signer = signer_for_next();
    if (signer == NULL || cut(data, size, parts) < 4)
        return;
    sign(parts, text);
    hfi_part signature = hfi_part_text(text);
    text[size % HFI_SIGNATURE_TEXT] ^= 1; /* another hexadecimal digit, or none */
    if (hfi_signer_verify(signer, parts, signature, NULL) != HF_E_ACCESS)
        abort();
    text[size % HFI_SIGNATURE_TEXT] ^= 1;
    if (hfi_signer_verify(signer, parts, signature, NULL) !=
            (was_accepted(text) ? HF_E_ACCESS : HF_OK) ||
        hfi_signer_verify(signer, parts, signature, NULL) != HF_E_ACCESS)
        abort();
    memcpy(accepted[accepted_count++], text, sizeof text);
    parts[size % 4] = hfi_part_of("other", 5);
    if (hfi_signer_verify(signer, parts, signature, NULL) != HF_E_ACCESS)
        abort();
}

static void
try_message(const uint8_t *data, size_t size) {
    hfi_part parts[PARTS_MAX];
    size_t count = cut(data, size, parts);
    hfi_signer *signer = NULL;
    hfi_message message;
    if (hfi_signer_create(hfi_part_text(""), &signer, NULL) != HF_OK)
        return;
    if (hfi_message_parse(parts, count, signer, &message, NULL) == HF_OK) {
        if (message.type == NULL || message.id == NULL || message.head == NULL)
            abort();
        const hfi_part kept[] = {message.header, message.parent, message.metadata,
                                 message.content};
        for (size_t i = 0; i < 4; i++) /* a worker's parser is never given another */
            if (message.fault[0] == '\0' &&
                (kept[i].size < 2 || ((const char *)kept[i].data)[0] != '{' ||
                 ((const char *)kept[i].data)[kept[i].size - 1] != '}'))
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
    hfi_received received = {0};
    if (hfi_received_parse(&received, data, size, NULL) == HF_OK) {
        if (!hfi_frame_is_valid(data, size))
            abort();
        (void)hfi_received_op(&received);
    }
    hfi_received_fini(&received);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    switch (data[0] % 4) {
    case 0:
        try_message(data + 1, size - 1);
        break;
    case 1:
        try_connection(data + 1, size - 1);
        break;
    case 2:
        try_frame(data + 1, size - 1);
        break;
    default:
        try_signed(data + 1, size - 1);
    }
    return 0;
}
