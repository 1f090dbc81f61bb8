/* fuzz_codecs.c - whatever reads encoded bytes in plain C, on bytes that lie.
 *
 * One target for libFuzzer (-Dfuzz=true, clang): the first byte chooses the reader, so
 * that one corpus serves all. Each input is in a block of its own size, where the
 * address sanitizer sees a read past the end. Checked beyond "doesn't crash": a value
 * that was accepted encodes again, and every description ends within its buffer.
 *
 * The plain codec's decoder needs Python: tests/serializers/test_plain.py mutates bytes
 * for it.
 */
#include "holdfast/codec.h"

#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/unpacker.h"
#include "driver.h"
#include "support/check.h"
#include "support/memory_sink.h"

enum { EXPANDED_MAX = 1 << 20 };

const uint32_t fuzz_weight = 1;

/* Small encodings and lz4 frames, each for any of the readers. */
size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    static const uint8_t nest[] = {
        0x85, 0xa4, 't',  'y',  'p',  'e',  0xa5, 'b',  'y',  't',  'e', 's',
        0xa5, 's',  'h',  'a',  'p',  'e',  0x92, 0x0a, 0x03, 0xa1, 'x', 0x93,
        0xd4, 0x01, 0x01, 0xc0, 0xc3, 0xa1, 'y',  0xcb, 0x3f, 0xf8, 0,   0,
        0,    0,    0,    0,    0xa1, 'z',  0xc4, 0x01, 0xff};
    static const uint8_t text[300] = "a text that repeats, a text that repeats";
    void *frame;
    size_t size;

    ret_input[0] = (uint8_t)(number % 4);
    if (number / 4 % 2) {
        memcpy(ret_input + 1, nest, sizeof nest);
        return 1 + sizeof nest;
    }
    CHECK(hf_lz4_compress(text, number / 8 % sizeof text, &frame, &size, NULL) ==
          HF_OK);
    CHECK(size < FUZZ_INPUT_MAX);
    memcpy(ret_input + 1, frame, size);
    free(frame);
    return 1 + size;
}

static void
fuzz_msgpack(const uint8_t *data, size_t size) {
    hf_source source = {.payload = data, .payload_size = size};
    memory_sink memory = MEMORY_SINK_INIT;
    void *value;

    if (hf_codec_msgpack.decode(&hf_codec_msgpack, &source, &value, NULL) != HF_OK)
        return;
    CHECK(hf_codec_msgpack.encode(&hf_codec_msgpack, &((msgpack_unpacked *)value)->data,
                                  &memory.sink, NULL) == HF_OK);
    free(memory.payload);
    msgpack_unpacked_destroy(value);
    free(value);
}

static void
fuzz_lz4(const uint8_t *data, size_t size) {
    void *expanded;
    size_t expanded_size;

    if (hf_lz4_expand(data, size, EXPANDED_MAX, &expanded, &expanded_size, NULL) !=
        HF_OK)
        return;
    CHECK(expanded_size <= EXPANDED_MAX);
    free(expanded);
}

static void
fuzz_describe(const uint8_t *data, size_t size) {
    static const uint32_t numbers[] = {
        HF_CODEC_RAW,    HF_CODEC_MSGPACK, HF_CODEC_BUFFER, HF_CODEC_PLAIN,
        HF_CODEC_PICKLE, HF_CODEC_MODULE,  HF_CODEC_MEMBER, 300};
    hf_source source = {.meta = data,
                        .meta_size = size,
                        .payload = data,
                        .payload_size = size,
                        .buffer_count = 1};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t room = 1 + size % 90;
        char *text = malloc(room);
        CHECK(text);
        hf_codec_describe(numbers[i], &source, text, room);
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
    static void (*const readers[])(const uint8_t *, size_t) = {
        fuzz_msgpack, fuzz_lz4, fuzz_describe, fuzz_unpacker};
    uint8_t *copy;

    if (size == 0)
        return 0;
    copy = malloc(size - 1 ? size - 1 : 1);
    CHECK(copy);
    memcpy(copy, data + 1, size - 1);
    readers[data[0] % 4](copy, size - 1);
    free(copy);
    return 0;
}
