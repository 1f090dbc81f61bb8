/* record.c - what this process knows of one key of the store.
 *
 * A record answers one question at the next save: is the value still what the store
 * has? Three means, cheapest first: an unchangeable object is known again by identity;
 * an encoding by its digest; memory in a region by being the same region with no page
 * written since (the store asks the page tables). A value that was decoded here has no
 * digest before it is encoded for the first time (names_stored.c). The record holds a
 * reference to its regions: otherwise another region could come to lie at the same
 * address and pass for it.
 *
 * What a record refers to are atoms and texts, so it is in no cycle and the collector
 * needn't know it: binding a thousand names must not set off a collection of a heap of
 * millions.
 *
 * A save never changes a record that stands in the table, it makes new ones: a prepared
 * commit that is dropped leaves the old ones as they were.
 */
#include "names.h"

#include <stdlib.h>
#include <string.h>

hfi_record *
hfi_record_new(hfi_state *state) {
    return (hfi_record *)(void *)state->record_type->tp_alloc(state->record_type, 0);
}

static void
drop_regions(hfi_record *record) {
    for (uint32_t i = 0; i < record->region_count; i++)
        hf_region_release(record->regions[i]);
    free(record->regions);
    record->regions = NULL;
    record->region_count = 0;
    hfi_attachment_release(record->attachment);
    record->attachment = NULL;
}

/* For that many regions, none of which is there yet. */
static int
make_room(hfi_record *record, hfi_attachment *attachment, uint32_t count) {
    drop_regions(record);
    if (!count)
        return 0;
    record->regions = calloc(count, sizeof(hf_region *));
    if (!record->regions) {
        PyErr_NoMemory();
        return -1;
    }
    record->attachment = hfi_attachment_acquire(attachment);
    record->region_count = count;
    return 0;
}

int
hfi_record_take(hfi_record *record, hfi_attachment *attachment, hfi_entry_sink *sink,
                uint32_t codec) {
    record->codec = codec;
    record->state = HFI_BOUND;
    record->is_stored = 0;
    hfi_entry_sink_digest(sink, codec, record->digest);
    if (make_room(record, attachment, sink->buffer_count) < 0)
        return -1;
    for (uint32_t i = 0; i < sink->buffer_count; i++)
        if (sink->buffers[i].region)
            record->regions[i] = hf_region_acquire(sink->buffers[i].region);
    return 0;
}

int
hfi_record_keep_regions(hfi_record *record, hfi_attachment *attachment,
                        const hfi_entry_source *source) {
    if (make_room(record, attachment, source->base.buffer_count) < 0)
        return -1;
    for (uint32_t i = 0; i < record->region_count; i++)
        if (source->regions[i])
            record->regions[i] = hf_region_acquire(hfi_region_of(source->regions[i]));
    return 0;
}

static int
region_unchanged(hfi_state *state, hf_region *region) {
    uint64_t pages = 1;
    hf_status status = HF_OK;
    hf_error error = HF_ERROR_INIT;
    if (hf_region_is_own(region))
        return 0;
    Py_BEGIN_ALLOW_THREADS status = hf_region_changed_pages(region, &pages, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK) {
        hfi_raise(state, status, &error);
        return -1;
    }
    return pages == 0;
}

int
hfi_record_pages_unchanged(hfi_state *state, const hfi_record *record) {
    int same = 1;
    for (uint32_t i = 0; same == 1 && i < record->region_count; i++)
        if (record->regions[i])
            same = region_unchanged(state, record->regions[i]);
    return same;
}

int
hfi_record_matches(hfi_state *state, const hfi_record *record, hfi_entry_sink *sink,
                   uint32_t codec) {
    uint64_t digest[2];
    if (record->state != HFI_BOUND || record->codec != codec ||
        record->region_count != sink->buffer_count)
        return 0;
    for (uint32_t i = 0; i < sink->buffer_count; i++)
        if (sink->buffers[i].region != record->regions[i])
            return 0;
    hfi_entry_sink_digest(sink, codec, digest);
    if (memcmp(digest, record->digest, sizeof digest) != 0)
        return 0;
    return hfi_record_pages_unchanged(state, record);
}

static void
record_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hfi_record *record = (hfi_record *)self;
    Py_CLEAR(record->object);
    Py_CLEAR(record->group);
    Py_CLEAR(record->classes);
    drop_regions(record);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot record_slots[] = {{Py_tp_doc, "What a process knows of one key."},
                                     HFI_SLOT(Py_tp_dealloc, record_dealloc),
                                     {0, NULL}};

PyType_Spec hfi_record_spec = {.name = "holdfast._store._Record",
                               .basicsize = sizeof(hfi_record),
                               .flags = Py_TPFLAGS_DEFAULT |
                                        Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                        Py_TPFLAGS_IMMUTABLETYPE,
                               .slots = record_slots};
