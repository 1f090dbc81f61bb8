/* entry_source.c - an entry of the store, to be decoded.
 *
 * Buffers are mapped when a codec asks for them, once each: two views of one buffer
 * must see one memory. A codec gets a Region object as pin; the arrays made from it
 * hold it, and the store's pin on the extents goes with the last of them. The source's
 * own references end with the decoding.
 */
#include "entry.h"

#include <stdlib.h>

#include "attachment.h"
#include "base/argument.h"

static hf_status
source_map(hf_source *base, uint32_t index, void **ret_data, size_t *ret_size,
           void **ret_pin, hf_error *reterr) {
    HFI_NEED(reterr, base, ret_data, ret_size, ret_pin);
    hfi_entry_source *source = (hfi_entry_source *)(void *)base;
    if (index >= base->buffer_count)
        return hf_error_set(reterr, HF_E_CORRUPT, "an entry has no buffer %u", index);
    if (!source->regions[index]) {
        hf_region *region = NULL;
        hf_status status;
        Py_BEGIN_ALLOW_THREADS
        status = hf_region_map(source->snapshot, source->entry, index, &region, reterr);
        Py_END_ALLOW_THREADS
        if (status != HF_OK)
            return status;
        source->bytes_mapped += hf_region_size(region);
        source->regions[index] =
            hfi_region_new_consume(source->state, source->attachment, region);
        if (!source->regions[index]) {
            PyErr_Clear();
            return hf_error_set(reterr, HF_E_NOMEM, "no memory for a region");
        }
    }
    Py_buffer view;
    if (PyObject_GetBuffer(source->regions[index], &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return hf_error_set(reterr, HF_E_CODEC, "a region exports no buffer");
    }
    *ret_data = view.buf;
    *ret_size = (size_t)view.len;
    PyBuffer_Release(&view);
    *ret_pin = Py_NewRef(source->regions[index]);
    return HF_OK;
}

int
hfi_entry_source_init(hfi_entry_source *source, hfi_state *state,
                      hfi_attachment *attachment, hf_snapshot *snapshot,
                      const hf_entry *entry) {
    *source = (hfi_entry_source){
        .base = {sizeof(hf_source), entry->meta, entry->meta_size, entry->payload,
                 entry->payload_size, entry->buffer_count, source_map},
        .state = state,
        .attachment = attachment,
        .snapshot = snapshot,
        .entry = entry};
    if (entry->buffer_count)
        source->regions = calloc(entry->buffer_count, sizeof(PyObject *));
    if (entry->buffer_count && !source->regions) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void
hfi_entry_source_fini(hfi_entry_source *source) {
    for (uint32_t i = 0; i < source->base.buffer_count; i++)
        Py_XDECREF(source->regions[i]);
    free(source->regions);
}
