/* fuzz_codecs.c - whatever reads encoded bytes in plain C, on bytes that lie.
 *
 * One target for libFuzzer (-Dfuzz=true, clang): the first byte chooses the reader, so
 * that one corpus serves all. Each input is in a block of its own size, where the
 * address sanitizer sees a read past the end. Checked beyond "doesn't crash":
 * every description ends within its buffer.
 *
 * The plain codec's decoder needs Python: tests/serializers/test_plain.py mutates bytes
 * for it.
 */
#include <stdlib.h>
#include <string.h>

#include "codecs/describe.h"
#include "base/unpacker.h"
#include "driver.h"
#include "support/check.h"

const uint32_t fuzz_weight = 1;

/* One nested value, for each of the readers. */
size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    static const uint8_t nest[] = {
        0x85, 0xa4, 't',  'y',  'p',  'e',  0xa5, 'b',  'y',  't',  'e', 's',
        0xa5, 's',  'h',  'a',  'p',  'e',  0x92, 0x0a, 0x03, 0xa1, 'x', 0x93,
        0xd4, 0x01, 0x01, 0xc0, 0xc3, 0xa1, 'y',  0xcb, 0x3f, 0xf8, 0,   0,
        0,    0,    0,    0,    0xa1, 'z',  0xc4, 0x01, 0xff};

    ret_input[0] = (uint8_t)(number % 2);
    memcpy(ret_input + 1, nest, sizeof nest);
    return 1 + sizeof nest;
}

static void
fuzz_describe(const uint8_t *data, size_t size) {
    static const uint32_t numbers[] = {
        HF_CODEC_RAW,    HF_CODEC_MSGPACK, HF_CODEC_BUFFER, HF_CODEC_PLAIN,
        HF_CODEC_PICKLE, HF_CODEC_MODULE,  HF_CODEC_MEMBER, 300};
    hf_source source = {.struct_size = sizeof source,
                        .meta = data,
                        .meta_size = size,
                        .payload = data,
                        .payload_size = size,
                        .buffer_count = 1};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t room = 1 + size % 90;
        char *text = malloc(room);
        CHECK(text);
        hfi_codec_describe(numbers[i], &source, text, room);
        CHECK(memchr(text, '\0', room));
        free(text);
    }
}

static void
fuzz_unpacker(const uint8_t *data, size_t size) {
    hfi_unpacker unpacker;
    hfi_item item;

    hfi_unpacker_init(&unpacker, data, size);
    while (hfi_unpacker_next(&unpacker, &item) == HF_OK)
        CHECK(unpacker.at <= unpacker.end);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const readers[])(const uint8_t *, size_t) = {fuzz_describe,
                                                               fuzz_unpacker};
    uint8_t *copy;

    if (size == 0)
        return 0;
    copy = malloc(size - 1 ? size - 1 : 1);
    CHECK(copy);
    memcpy(copy, data + 1, size - 1);
    readers[data[0] % 2](copy, size - 1);
    free(copy);
    return 0;
}
