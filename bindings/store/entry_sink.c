/* entry_sink.c - an encoding in this process, before it is put into the store.
 *
 * The sink collects first and puts later. Only a complete encoding shows whether an
 * entry changed, and a codec may decline half-way. So payload and meta grow in
 * malloc'ed memory, and buffers are kept by reference, pinned by the object that owns
 * them.
 *
 * Memory that lies in a region of the session becomes that whole region, once, however
 * many views of it there are. That makes a save without copying possible, and keeps
 * views together. Other memory is merged only if address and size are the same.
 *
 * The digest shows whether bytes are the same as last time (hf_digest_add). It is
 * computed once for each encoding: the bytes are compared with the digest, which is
 * then kept. An encoding that is put without a comparison gets the digests of its
 * buffers from the code that copied them.
 */
#include "entry.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>

#define LARGE ((size_t)1 << 20)

static hf_status
sink_write(hf_sink *base, const void *data, size_t size, hf_error *reterr) {
    HFI_NEED(reterr, base, data || !size);
    hfi_entry_sink *sink = (hfi_entry_sink *)(void *)base;
    if (size > sink->payload_room - sink->payload_size) {
        size_t room = sink->payload_room ? sink->payload_room : 256;
        while (room - sink->payload_size < size)
            room += room / 2;
        char *payload = realloc(sink->payload, room);
        if (!payload)
            return hf_error_set(reterr, HF_E_NOMEM, "no memory for %zu bytes", room);
        sink->payload = payload;
        sink->payload_room = room;
    }
    if (size)
        memcpy(sink->payload + sink->payload_size, data, size);
    sink->payload_size += size;
    return HF_OK;
}

/* Most payloads are one block: it becomes the payload as it is. */
static hf_status
sink_write_consume(hf_sink *base, void *data, size_t size, hf_error *reterr) {
    HFI_NEED(reterr, base, data);
    hfi_entry_sink *sink = (hfi_entry_sink *)(void *)base;
    hf_status status = HF_OK;
    if (sink->payload_size == 0) {
        free(sink->payload);
        sink->payload = data;
        sink->payload_size = sink->payload_room = size;
    } else {
        status = sink_write(base, data, size, reterr);
        free(data);
    }
    return status;
}

static hf_status
sink_set_meta(hf_sink *base, const void *data, size_t size, hf_error *reterr) {
    HFI_NEED(reterr, base, data || !size);
    hfi_entry_sink *sink = (hfi_entry_sink *)(void *)base;
    if (size > HF_META_SIZE_MAX)
        return hf_error_set(reterr, HF_DECLINED, "its meta takes %zu bytes", size);
    if (size > sink->meta_room || !sink->meta) {
        char *meta = realloc(sink->meta, size + 64);
        if (!meta)
            return hf_error_set(reterr, HF_E_NOMEM, "no memory for %zu bytes", size);
        sink->meta = meta;
        sink->meta_room = size + 64;
    }
    if (size)
        memcpy(sink->meta, data, size);
    sink->meta_size = size;
    return HF_OK;
}

static hf_status
make_buffer_room(hfi_entry_sink *sink, hf_error *reterr) {
    if (sink->buffer_count < sink->buffer_room)
        return HF_OK;
    uint32_t room = sink->buffer_room * 2 + 4;
    hf_buffer *buffers = realloc(sink->buffers, room * sizeof *buffers);
    if (buffers)
        sink->buffers = buffers;
    hf_digest *digests = realloc(sink->digests, room * sizeof *digests);
    if (digests)
        sink->digests = digests;
    PyObject **pins = realloc(sink->pins, room * sizeof *pins);
    if (pins)
        sink->pins = pins;
    uint32_t *earlier = realloc(sink->earlier, room * sizeof *earlier);
    if (earlier)
        sink->earlier = earlier;
    if (!buffers || !digests || !pins || !earlier)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a list of buffers");
    sink->buffer_room = room;
    return HF_OK;
}

/* The buffer that is the same memory. Without one: `buffer_count`, whose place in the
 * map and in `earlier` is made. */
static hf_status
find_same_buffer(hfi_entry_sink *sink, const hf_buffer *buffer, uint32_t *ret_index,
                 hf_error *reterr) {
    static const char nothing;
    const void *key = buffer->data ? buffer->data : &nothing;
    int is_new = 0;
    hf_status status = make_buffer_room(sink, reterr);
    uint32_t *last =
        status == HF_OK ? hfi_pointer_map_put(&sink->by_address, key, &is_new) : NULL;
    if (!last)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a list of buffers");
    for (uint32_t next = *last; next; next = sink->earlier[next - 1]) {
        const hf_buffer *other = &sink->buffers[next - 1];
        if (other->size == buffer->size && other->region == buffer->region) {
            *ret_index = next - 1;
            return HF_OK;
        }
    }
    *ret_index = sink->buffer_count;
    sink->earlier[sink->buffer_count] = *last;
    *last = sink->buffer_count + 1;
    return HF_OK;
}

static hf_status
sink_add_buffer(hf_sink *base, const void *data, size_t size, void *pin,
                uint32_t *ret_index, uint64_t *ret_offset, hf_error *reterr) {
    HFI_NEED(reterr, base, data || !size, ret_index, ret_offset);
    hfi_entry_sink *sink = (hfi_entry_sink *)(void *)base;
    hf_buffer buffer = {sizeof buffer, data, size, NULL};
    uint64_t offset = 0;
    hf_region *region = sink->session ? hf_region_find(sink->session, data) : NULL;
    if (region) {
        const char *start = hf_region_address(region);
        offset = (uint64_t)((const char *)data - start);
        if (offset + size <= hf_region_size(region)) {
            buffer.data = start;
            buffer.size = hf_region_size(region);
            buffer.region = region;
        } else {
            hf_region_release(region);
            region = NULL;
            offset = 0;
        }
    }
    uint32_t index = 0;
    hf_status status = find_same_buffer(sink, &buffer, &index, reterr);
    if (status != HF_OK || index < sink->buffer_count) {
        hf_region_release(region);
    } else {
        sink->buffers[index] = buffer;
        sink->pins[index] = Py_XNewRef((PyObject *)pin);
        sink->buffer_count++;
    }
    if (status != HF_OK)
        return status;
    *ret_index = index;
    *ret_offset = offset;
    return HF_OK;
}

void
hfi_entry_sink_init(hfi_entry_sink *sink, hf_session *session) {
    *sink = (hfi_entry_sink){.base = {sizeof(hf_sink), sink_write, sink_set_meta,
                                      sink_add_buffer, sink_write_consume},
                             .session = session};
}

void
hfi_entry_sink_clear(hfi_entry_sink *sink) {
    for (uint32_t i = 0; i < sink->buffer_count; i++) {
        hf_region_release(sink->buffers[i].region);
        Py_XDECREF(sink->pins[i]);
    }
    hfi_pointer_map_fini(&sink->by_address);
    sink->buffer_count = 0;
    sink->payload_size = 0;
    sink->meta_size = 0;
    sink->is_digested = sink->has_digests = 0;
}

void
hfi_entry_sink_fini(hfi_entry_sink *sink) {
    hfi_entry_sink_clear(sink);
    free(sink->payload);
    free(sink->meta);
    free(sink->buffers);
    free(sink->digests);
    free(sink->pins);
    free(sink->earlier);
}

int
hfi_entry_sink_is_large(const hfi_entry_sink *sink) {
    size_t size = sink->payload_size;
    for (uint32_t i = 0; i < sink->buffer_count; i++)
        size += sink->buffers[i].region ? 0 : sink->buffers[i].size;
    return size >= LARGE;
}

hf_digest *
hfi_entry_sink_take_digests(hfi_entry_sink *sink) {
    if (sink->is_digested || !hfi_entry_sink_is_large(sink))
        return NULL;
    sink->has_digests = 1;
    return sink->digests;
}

static void
add_buffer_digest(hf_digest *digest, const hfi_entry_sink *sink, uint32_t index) {
    const hf_buffer *buffer = &sink->buffers[index];
    hf_digest own = {{0, 0}};
    if (buffer->size && !buffer->region) {
        if (sink->has_digests)
            own = sink->digests[index];
        else
            hf_digest_add(&own, buffer->data, buffer->size);
    }
    uint64_t said[] = {buffer->size, buffer->region != NULL, own.words[0],
                       own.words[1]};
    hf_digest_add(digest, said, sizeof said);
}

void
hfi_entry_sink_digest(hfi_entry_sink *sink, uint32_t codec, hf_digest *ret_digest) {
    if (!sink->is_digested || sink->digest_codec != codec) {
        sink->digest = (hf_digest){{codec, 0}};
        hf_digest_add(&sink->digest, sink->meta, sink->meta_size);
        hf_digest_add(&sink->digest, sink->payload, sink->payload_size);
        for (uint32_t i = 0; i < sink->buffer_count; i++)
            add_buffer_digest(&sink->digest, sink, i);
        sink->digest_codec = codec;
        sink->is_digested = 1;
    }
    *ret_digest = sink->digest;
}
