/* test_msgpack.c - msgpack-c's objects through the codec, and bytes that lie.
 *
 * The counts that announce billions of items must be refused before msgpack-c sees
 * them, and the deepest value that is written must also be read.
 */
#include "holdfast/codec.h"

#include <msgpack.h>

#include "support/check.h"
#include "support/memory_sink.h"

static hf_status
decode(const void *data, size_t size, msgpack_unpacked **ret) {
    hf_source source = {.payload = data, .payload_size = size};
    void *value = NULL;
    hf_status status =
        hf_codec_msgpack.decode(&hf_codec_msgpack, &source, &value, NULL);

    *ret = value;
    return status;
}

static void
unpacked_free(msgpack_unpacked *unpacked) {
    msgpack_unpacked_destroy(unpacked);
    free(unpacked);
}

static void
test_round_trip(void) {
    static const unsigned char bytes[] = {0x82, 0xa1, 'a', 0x93, 0x01, 0xc3,
                                          0xc0, 0xa1, 'b', 0xcb, 0x3f, 0xf8,
                                          0,    0,    0,   0,    0,    0};
    memory_sink memory = MEMORY_SINK_INIT;
    msgpack_unpacked *unpacked;

    CHECK(decode(bytes, sizeof bytes, &unpacked) == HF_OK);
    CHECK(unpacked->data.type == MSGPACK_OBJECT_MAP &&
          unpacked->data.via.map.size == 2);
    CHECK(hf_codec_msgpack.encode(&hf_codec_msgpack, &unpacked->data, &memory.sink,
                                  NULL) == HF_OK);
    CHECK(memory.size == sizeof bytes &&
          memcmp(memory.payload, bytes, memory.size) == 0);
    free(memory.payload);
    unpacked_free(unpacked);
}

static void
test_depth(void) {
    msgpack_object nests[41];
    msgpack_unpacked *unpacked;
    int deepest = 0;

    nests[0].type = MSGPACK_OBJECT_NIL;
    for (int depth = 1; depth <= 40; depth++) {
        memory_sink memory = MEMORY_SINK_INIT;
        hf_status status;
        nests[depth].type = MSGPACK_OBJECT_ARRAY;
        nests[depth].via.array.size = 1;
        nests[depth].via.array.ptr = &nests[depth - 1];
        status = hf_codec_msgpack.encode(&hf_codec_msgpack, &nests[depth], &memory.sink,
                                         NULL);
        CHECK(status == HF_OK || status == HF_DECLINED);
        if (status == HF_OK) {
            deepest = depth;
            CHECK(decode(memory.payload, memory.size, &unpacked) == HF_OK);
            unpacked_free(unpacked);
        }
        free(memory.payload);
    }
    CHECK(deepest == 31);
}

static void
test_lies(void) {
    static const struct {
        const char *bytes;
        size_t size;
    } lies[] = {
        {"", 0},
        {"\xdd\xff\xff\xff\xff", 5}, /* four billion items */
        {"\xdf\xff\xff\xff\xff\xc0\xc0", 7},
        {"\xc6\xff\xff\xff\xff", 5}, /* four billion bytes */
        {"\xc1", 1},
        {"\x92\xc0", 2},
        {"\xc0\xc0", 2},
    };
    msgpack_unpacked *unpacked;

    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        CHECK(decode(lies[i].bytes, lies[i].size, &unpacked) == HF_E_CORRUPT);
}

int
main(void) {
    test_round_trip();
    test_depth();
    test_lies();
    return 0;
}
