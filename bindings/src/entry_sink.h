/* entry_sink.h - an encoding in this process, before it is put into the store. */
#ifndef HFI_ENTRY_SINK_H
#define HFI_ENTRY_SINK_H

#include "store_python.h"

typedef struct hfi_entry_sink {
    hf_sink base;
    hf_session *session; /* NULL: no region is looked for (streams) */
    char *payload;
    size_t payload_size;
    size_t payload_room;
    char *meta;
    size_t meta_size;
    size_t meta_room;
    hf_buffer *buffers; /* with a reference to each region */
    PyObject **pins;
    uint32_t buffer_count;
    uint32_t buffer_room;
    int is_digested; /* since it was emptied, which is done before each encoding */
    uint32_t digest_codec;
    uint64_t digest[2];
} hfi_entry_sink;

void hfi_entry_sink_init(hfi_entry_sink *sink, hf_session *session);
/* Empty it, for the next codec. */
void hfi_entry_sink_clear(hfi_entry_sink *sink);
void hfi_entry_sink_fini(hfi_entry_sink *sink);
/* 128 bits over everything but the contents of regions, of a whole encoding. */
void hfi_entry_sink_digest(hfi_entry_sink *sink, uint32_t codec,
                           uint64_t ret_digest[2]);

#endif
