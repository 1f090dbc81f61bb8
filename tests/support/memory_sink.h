/* memory_sink.h - a sink in memory for tests of codecs: one payload, meta, no buffers.
 */
#ifndef HOLDFAST_MEMORY_SINK_H
#define HOLDFAST_MEMORY_SINK_H

#include <stdlib.h>
#include <string.h>

#include "holdfast/codec.h"

typedef struct memory_sink {
    hf_sink sink; /* first: a hf_sink * is a memory_sink * */
    unsigned char *payload;
    size_t size;
    unsigned char meta[256];
    size_t meta_size;
} memory_sink;

static inline hf_status
memory_sink_write(hf_sink *sink, const void *data, size_t size, hf_error *reterr) {
    memory_sink *memory = (memory_sink *)sink;
    unsigned char *payload = realloc(memory->payload, memory->size + size);

    if (!payload)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    memcpy(payload + memory->size, data, size);
    memory->payload = payload;
    memory->size += size;
    return HF_OK;
}

static inline hf_status
memory_sink_set_meta(hf_sink *sink, const void *data, size_t size, hf_error *reterr) {
    memory_sink *memory = (memory_sink *)sink;

    if (size > sizeof memory->meta)
        return hf_error_set(reterr, HF_E_LIMIT, "meta of %zu bytes", size);
    memcpy(memory->meta, data, size);
    memory->meta_size = size;
    return HF_OK;
}

#define MEMORY_SINK_INIT                                                               \
    {                                                                                  \
        .sink = {.write = memory_sink_write, .set_meta = memory_sink_set_meta }        \
    }

#endif
