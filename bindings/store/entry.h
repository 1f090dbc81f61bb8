/* entry.h - an entry of the store, on its way out and in.
 *
 * Threads: a sink or source belongs to one thread at a time, with the interpreter
 * attached.
 */
#ifndef HFI_ENTRY_H
#define HFI_ENTRY_H

#include <holdfast/store.h>

#include "attachment.h"
#include "pointer_map.h"

/* ---- entry_sink.c: an encoding, before it is put into the store ----
 *
 * A codec writes to `base`; the fields are for the owner of the sink to read until it
 * is emptied. The sink owns payload and meta (malloc), and holds a reference to each
 * region and to each pin, the object that keeps a buffer's memory. With the interpreter
 * attached; emptying it drops the pins, which may run any code of Python.
 */

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
    hf_digest *digests; /* as many, if `has_digests` */
    PyObject **pins;
    uint32_t *earlier;          /* the buffer before it with this address, plus one */
    hfi_pointer_map by_address; /* address -> the last buffer with it, plus one */
    uint32_t buffer_count;
    uint32_t buffer_room;
    int is_digested; /* since it was emptied, which is done before each encoding */
    int has_digests; /* of the buffers that were copied */
    uint32_t digest_codec;
    hf_digest digest;
} hfi_entry_sink;

/* Needs no memory and can't fail. `session` is borrowed. */
void hfi_entry_sink_init(hfi_entry_sink *sink, hf_session *session);
/* Empty it, for the next codec. */
void hfi_entry_sink_clear(hfi_entry_sink *sink);
void hfi_entry_sink_fini(hfi_entry_sink *sink);
/* Whether so much lies outside of regions that comparing it is four times the work of a
 * digest. */
int hfi_entry_sink_is_large(const hfi_entry_sink *sink);
/* The place for the digests of the buffers, one for each, which the code that copies
 * them fills in; borrowed. NULL if none is needed. */
hf_digest *hfi_entry_sink_take_digests(hfi_entry_sink *sink);
/* 128 bits over everything but the contents of regions, of a whole encoding. */
void hfi_entry_sink_digest(hfi_entry_sink *sink, uint32_t codec, hf_digest *ret_digest);

/* ---- entry_source.c: an entry of the store, to be decoded ----
 *
 * A codec reads from `base`. The source maps buffers when they are asked for and holds
 * a Region for each; attachment, snapshot and entry are borrowed, and must outlive it.
 * With the interpreter attached, which is detached while a buffer is mapped.
 */

typedef struct hfi_entry_source {
    hf_source base;
    hfi_state *state;
    hfi_attachment *attachment;
    hf_snapshot *snapshot;
    const hf_entry *entry;
    PyObject **regions; /* a Region for each buffer that was mapped */
    uint64_t bytes_mapped;
} hfi_entry_source;

/* -1 with MemoryError: fini is not needed then. */
int hfi_entry_source_init(hfi_entry_source *source, hfi_state *state,
                          hfi_attachment *attachment, hf_snapshot *snapshot,
                          const hf_entry *entry);
void hfi_entry_source_fini(hfi_entry_source *source);

#endif
