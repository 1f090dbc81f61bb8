/* test_raw.c - bytes come back as they were, and belong to the caller. */
#include "holdfast/codec.h"

#include "support/check.h"
#include "support/memory_sink.h"

static void
check_round_trip(const void *data, size_t size) {
    memory_sink memory = MEMORY_SINK_INIT;
    hf_bytes bytes = {data, size};
    hf_source source = {0};
    void *value;
    const hf_bytes *back;

    CHECK(hf_codec_raw.encode(&hf_codec_raw, &bytes, &memory.sink, NULL) == HF_OK);
    source.payload = memory.payload;
    source.payload_size = memory.size;
    CHECK(hf_codec_raw.decode(&hf_codec_raw, &source, &value, NULL) == HF_OK);
    if (memory.size)
        memory.payload[0] ^= 1; /* what came back must be a copy */
    back = value;
    CHECK(back->size == size);
    CHECK(size == 0 || memcmp(back->data, data, size) == 0);
    free(value);
    free(memory.payload);
}

int
main(void) {
    check_round_trip("", 0);
    check_round_trip(NULL, 0);
    check_round_trip("a\0b", 3);
    CHECK(!hf_codec_raw.accepts(&hf_codec_raw, NULL));
    return 0;
}
