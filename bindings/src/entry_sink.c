/* entry_sink.c - an encoding in this process, before it is put into the store.
 *
 * The sink collects first and puts later: whether an entry changed at all is known only
 * when its encoding is there, and a codec may decline half-way. So payload and meta
 * grow in malloc'ed memory, and buffers are kept by reference, pinned by the object
 * that owns them.
 *
 * Memory that lies in a region of the session becomes that whole region, once, however
 * many views of it there are: that is what makes a save without copying, and what keeps
 * views together. Other memory is merged only when address and size are the same.
 *
 * The digest tells "the same as last time" (digest.c). It is taken once an encoding:
 * what differs is compared first, and then remembered.
 */
#include "entry_sink.h"

#include "digest.h"

#include <stdlib.h>
#include <string.h>

static hf_status
sink_write(hf_sink *base, const void *data, size_t size, hf_error *reterr) {
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
    hfi_entry_sink *sink = (hfi_entry_sink *)(void *)base;
    if (size > 65536)
        return hf_error_set(reterr, HF_DECLINED, "its meta takes %zu bytes", size);
    if (size > sink->meta_room || !sink->meta) {
        char *meta = realloc(sink->meta, size + 64);
        if (!meta)
            return hf_error_set(reterr, HF_E_NOMEM, "no memory for %zu bytes", size);
        sink->meta = meta;
        sink->meta_room = size + 64;
    }
    memcpy(sink->meta, data, size);
    sink->meta_size = size;
    return HF_OK;
}

static hf_status
make_room(hfi_entry_sink *sink, hf_error *reterr) {
    if (sink->buffer_count < sink->buffer_room)
        return HF_OK;
    uint32_t room = sink->buffer_room * 2 + 4;
    hf_buffer *buffers = realloc(sink->buffers, room * sizeof *buffers);
    if (buffers)
        sink->buffers = buffers;
    PyObject **pins = realloc(sink->pins, room * sizeof *pins);
    if (pins)
        sink->pins = pins;
    if (!buffers || !pins)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a list of buffers");
    sink->buffer_room = room;
    return HF_OK;
}

static hf_status
sink_add_buffer(hf_sink *base, const void *data, size_t size, void *pin,
                uint32_t *ret_index, uint64_t *ret_offset, hf_error *reterr) {
    hfi_entry_sink *sink = (hfi_entry_sink *)(void *)base;
    hf_buffer buffer = {data, size, NULL};
    uint64_t offset = 0;
    hf_region *region = sink->session ? hf_region_find(sink->session, data) : NULL;
    if (region) {
        const char *start = hf_region_address(region);
        offset = (uint64_t)((const char *)data - start);
        if (offset + size <= hf_region_size(region)) {
            buffer = (hf_buffer){start, hf_region_size(region), region};
        } else {
            hf_region_release(region);
            region = NULL;
            offset = 0;
        }
    }
    for (uint32_t i = 0; i < sink->buffer_count; i++) {
        const hf_buffer *other = &sink->buffers[i];
        if (other->data == buffer.data && other->size == buffer.size &&
            other->region == region) {
            hf_region_release(region);
            *ret_index = i;
            *ret_offset = offset;
            return HF_OK;
        }
    }
    hf_status status = make_room(sink, reterr);
    if (status != HF_OK) {
        hf_region_release(region);
        return status;
    }
    sink->buffers[sink->buffer_count] = buffer;
    sink->pins[sink->buffer_count] = Py_XNewRef((PyObject *)pin);
    *ret_index = sink->buffer_count++;
    *ret_offset = offset;
    return HF_OK;
}

void
hfi_entry_sink_init(hfi_entry_sink *sink, hf_session *session) {
    *sink = (hfi_entry_sink){
        .base = {sink_write, sink_set_meta, sink_add_buffer, sink_write_consume},
        .session = session};
}

void
hfi_entry_sink_clear(hfi_entry_sink *sink) {
    for (uint32_t i = 0; i < sink->buffer_count; i++) {
        hf_region_release(sink->buffers[i].region);
        Py_XDECREF(sink->pins[i]);
    }
    sink->buffer_count = 0;
    sink->payload_size = 0;
    sink->meta_size = 0;
    sink->is_digested = 0;
}

void
hfi_entry_sink_fini(hfi_entry_sink *sink) {
    hfi_entry_sink_clear(sink);
    free(sink->payload);
    free(sink->meta);
    free(sink->buffers);
    free(sink->pins);
}

static void
take_digest(hfi_entry_sink *sink, uint32_t codec) {
    hfi_digest digest;
    hfi_digest_init(&digest, codec);
    hfi_digest_add(&digest, sink->meta, sink->meta_size);
    hfi_digest_add(&digest, sink->payload, sink->payload_size);
    for (uint32_t i = 0; i < sink->buffer_count; i++) {
        const hf_buffer *buffer = &sink->buffers[i];
        if (!buffer->region)
            hfi_digest_add(&digest, buffer->data, buffer->size);
        hfi_digest_add_number(&digest, buffer->size + (buffer->region != NULL));
    }
    hfi_digest_finish(&digest, sink->digest);
    sink->digest_codec = codec;
    sink->is_digested = 1;
}

void
hfi_entry_sink_digest(hfi_entry_sink *sink, uint32_t codec, uint64_t ret_digest[2]) {
    if (!sink->is_digested || sink->digest_codec != codec)
        take_digest(sink, codec);
    memcpy(ret_digest, sink->digest, sizeof sink->digest);
}
