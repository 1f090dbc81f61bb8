/* record.c - this process's knowledge of one key of the store.
 *
 * A record answers one question at the next save: does the store still have this value?
 * There are three ways, the cheapest first. An unchangeable object is recognized by its
 * identity. An encoding is compared with the stored entry, or by its digest if it is
 * large or the comparison has shown that it is equal (names_stored.c). Memory in a
 * region is unchanged if the region is the same and no page of it was written since
 * (the store asks the page tables). The record holds a reference to its regions:
 * otherwise another region could get the same address.
 *
 * Records lie side by side in a table of their own, in the order in which keys were
 * first put. An index by the keys' hashes lies beside it. A process that saves or binds
 * a thousand names for the first time pays for each page that it touches. This takes 40
 * KiB. A Python object for each name, and a dict of them, took 128 and 75 KiB, and
 * three times the instructions. Fields that few names have (regions, a group, classes,
 * a digest) are separate. A record refers to atoms and texts only, so it is in no cycle
 * and the collector needn't know it.
 *
 * A save never changes a record of the table. It makes new ones, so after a prepared
 * commit was dropped the old ones are as they were.
 */
#include "record.h"

#include <stdlib.h>
#include <string.h>

#include "attachment.h"

enum { ROOM_FIRST = 16 };

/* ---- the table ------------------------------------------------------------------ */

static Py_hash_t
hash_of_key(PyObject *key) {
    Py_hash_t known = ((PyASCIIObject *)key)->hash; /* a str keeps it, and can't fail */
    return known != -1 ? known : PyObject_Hash(key);
}

/* Most keys are the same object as the namespace's. */
static int
is_key(PyObject *one, PyObject *other, Py_hash_t hash) {
    return one == other ||
           (hash_of_key(one) == hash && PyUnicode_Compare(one, other) == 0);
}

/* The slot of the index that leads to `key`, or the free one where it would stand. */
static uint32_t *
slot_of_key(const hfi_records *records, PyObject *key, Py_hash_t hash) {
    uint32_t at = (uint32_t)((size_t)hash & records->mask);
    while (records->index[at]) {
        const hfi_record *item = &records->items[records->index[at] - 1];
        if (item->key && is_key(item->key, key, hash))
            break;
        at = (at + 1) & records->mask;
    }
    return &records->index[at];
}

hfi_record *
hfi_records_find(const hfi_records *records, PyObject *key) {
    if (!records->live)
        return NULL;
    uint32_t place = *slot_of_key(records, key, hash_of_key(key));
    return place ? &records->items[place - 1] : NULL;
}

/* Make the table anew with room for `room` records, without unused places. */
static int
resize_table(hfi_records *records, size_t room) {
    size_t slots = 2 * ROOM_FIRST;
    while (2 * slots < 3 * room)
        slots *= 2;
    if (room > UINT32_MAX / 4) {
        PyErr_NoMemory();
        return -1;
    }
    hfi_records fresh = {.items = malloc(room * sizeof *fresh.items),
                         .index = calloc(slots, sizeof *fresh.index),
                         .room = (uint32_t)room,
                         .mask = (uint32_t)(slots - 1)};
    if (!fresh.items || !fresh.index) {
        free(fresh.items);
        free(fresh.index);
        PyErr_NoMemory();
        return -1;
    }
    hfi_record *item;
    for (size_t position = 0; (item = hfi_records_next(records, &position));) {
        fresh.items[fresh.count] = *item;
        *slot_of_key(&fresh, item->key, hash_of_key(item->key)) = ++fresh.count;
    }
    fresh.live = fresh.count;
    free(records->items);
    free(records->index);
    *records = fresh;
    return 0;
}

int
hfi_records_reserve(hfi_records *records, size_t more) {
    if (more <= records->room - records->count)
        return 0;
    return resize_table(records, records->live + more);
}

static void
drop_regions(hfi_record_rest *rest) {
    for (uint32_t i = 0; i < rest->region_count; i++)
        hf_region_release(rest->regions[i]);
    free(rest->regions);
    rest->regions = NULL;
    rest->region_count = 0;
    hfi_attachment_release(rest->attachment);
    rest->attachment = NULL;
}

/* Clear all but the key. Returns the reference to the object that it held, or NULL.
 * Releasing it may run a finalizer, which may move the records. Nothing else runs
 * Python code. */
static PyObject *
empty_record(hfi_record *record) {
    hfi_record_rest *rest = record->rest;
    PyObject *held = record->is_held ? record->bound : NULL;
    *record = (hfi_record){.key = record->key};
    if (rest) {
        Py_XDECREF(rest->group);
        Py_XDECREF(rest->classes);
        drop_regions(rest);
        free(rest);
    }
    return held;
}

hfi_record *
hfi_records_put(hfi_records *records, PyObject *key) {
    if (records->count == records->room) {
        size_t room = records->live < ROOM_FIRST ? ROOM_FIRST : records->live * 2;
        if (resize_table(records, room) < 0)
            return NULL;
    }
    uint32_t *slot = slot_of_key(records, key, hash_of_key(key));
    if (*slot) {
        hfi_record *known = &records->items[*slot - 1];
        PyObject *held = empty_record(known);
        if (!held)
            return known;
        Py_DECREF(held);
        return hfi_records_put(records, key); /* wherever it is now */
    }
    hfi_record *record = &records->items[records->count++];
    *slot = records->count;
    records->live++;
    *record = (hfi_record){.key = Py_NewRef(key)};
    return record;
}

void
hfi_records_remove(hfi_records *records, PyObject *key) {
    hfi_record *record = hfi_records_find(records, key);
    if (!record)
        return;
    PyObject *held = empty_record(record);
    Py_CLEAR(record->key); /* the index entry stays, so that searches go past it */
    records->live--;
    Py_XDECREF(held);
}

hfi_record *
hfi_records_next(const hfi_records *records, size_t *position) {
    while (*position < records->count) {
        hfi_record *item = &records->items[(*position)++];
        if (item->key)
            return item;
    }
    return NULL;
}

int
hfi_records_merge(hfi_records *records, hfi_records *from) {
    hfi_record *item;
    int is_first = !records->live; /* then it is all there is */
    if (is_first) {
        hfi_records swapped = *records;
        *records = *from;
        *from = swapped;
    }
    for (size_t position = 0;
         is_first && (item = hfi_records_next(records, &position));)
        if (item->state == HFI_REMOVED)
            hfi_records_remove(records, item->key);
    if (!is_first && hfi_records_reserve(records, from->live) < 0)
        return -1;
    for (size_t position = 0; (item = hfi_records_next(from, &position));) {
        if (item->state == HFI_REMOVED) {
            hfi_records_remove(records, item->key);
            continue;
        }
        hfi_record *here = hfi_records_put(records, item->key);
        if (!here)
            return -1;
        PyObject *key = here->key;
        *here = *item;
        here->key = key;
        *item = (hfi_record){.key = item->key};
    }
    hfi_records_fini(from);
    return 0;
}

void
hfi_records_fini(hfi_records *records) {
    hfi_records gone = *records;
    *records = (hfi_records){.items = NULL};
    for (uint32_t i = 0; i < gone.count; i++) {
        Py_XDECREF(empty_record(&gone.items[i]));
        Py_CLEAR(gone.items[i].key);
    }
    free(gone.items);
    free(gone.index);
}

/* ---- a record ------------------------------------------------------------------- */

void
hfi_record_bind(hfi_record *record, PyObject *object, int is_held) {
    PyObject *before = record->is_held ? record->bound : NULL;
    record->bound = is_held ? Py_NewRef(object) : object;
    record->is_held = (uint8_t)is_held;
    Py_XDECREF(before);
}

static hfi_record_rest *
rest_of(hfi_record *record) {
    if (!record->rest && !(record->rest = calloc(1, sizeof *record->rest)))
        PyErr_NoMemory();
    return record->rest;
}

int
hfi_record_set_namespace_refs(hfi_record *record, Py_ssize_t count) {
    if (!count && !record->rest)
        return 0;
    if (!rest_of(record))
        return -1;
    record->rest->namespace_refs = count;
    return 0;
}

int
hfi_record_set_group(hfi_record *record, PyObject *group) {
    if (!group && !record->rest)
        return 0;
    if (!rest_of(record))
        return -1;
    Py_XSETREF(record->rest->group, Py_XNewRef(group));
    return 0;
}

int
hfi_record_set_classes_consume(hfi_record *record, PyObject *classes) {
    if (!classes)
        return -1;
    int is_needed = PyTuple_GET_SIZE(classes) || record->rest;
    if (is_needed && !rest_of(record)) {
        Py_DECREF(classes);
        return -1;
    }
    if (is_needed)
        Py_XSETREF(record->rest->classes, classes);
    else
        Py_DECREF(classes);
    return 0;
}

/* Make room for so many regions, all of which are new. */
static int
make_region_room(hfi_record *record, hfi_attachment *attachment, uint32_t count) {
    if (record->rest)
        drop_regions(record->rest);
    if (!count)
        return 0;
    if (!rest_of(record))
        return -1;
    record->rest->regions = calloc(count, sizeof(hf_region *));
    if (!record->rest->regions) {
        PyErr_NoMemory();
        return -1;
    }
    record->rest->attachment = hfi_attachment_acquire(attachment);
    record->rest->region_count = count;
    return 0;
}

static int
take_sink_digest(hfi_record *record, hfi_entry_sink *sink, uint32_t codec) {
    if (!rest_of(record))
        return -1;
    record->baseline = HFI_BY_DIGEST;
    hfi_entry_sink_digest(sink, codec, &record->rest->digest);
    return 0;
}

int
hfi_record_take(hfi_record *record, hfi_attachment *attachment, hfi_entry_sink *sink,
                uint32_t codec) {
    record->codec = (uint16_t)codec;
    record->state = HFI_BOUND;
    record->baseline = HFI_BY_OWN;
    if ((hfi_entry_sink_is_large(sink) && take_sink_digest(record, sink, codec) < 0) ||
        make_region_room(record, attachment, sink->buffer_count) < 0)
        return -1;
    for (uint32_t i = 0; i < sink->buffer_count; i++)
        if (sink->buffers[i].region)
            record->rest->regions[i] = hf_region_acquire(sink->buffers[i].region);
    return 0;
}

int
hfi_record_take_digest(hfi_record *record, hfi_attachment *attachment,
                       hfi_entry_sink *sink, uint32_t codec) {
    if (hfi_record_take(record, attachment, sink, codec) < 0)
        return -1;
    return take_sink_digest(record, sink, codec);
}

int
hfi_record_keep_regions(hfi_record *record, hfi_attachment *attachment,
                        const hfi_entry_source *source) {
    if (make_region_room(record, attachment, source->base.buffer_count) < 0)
        return -1;
    for (uint32_t i = 0; i < source->base.buffer_count; i++)
        if (source->regions[i])
            record->rest->regions[i] =
                hf_region_acquire(hfi_region_of(source->regions[i]));
    return 0;
}

static int
region_unchanged(hfi_state *state, hf_region *region) {
    uint64_t pages = 1;
    hf_status status = HF_OK;
    hf_error error = HF_ERROR_INIT;
    if (!hf_region_is_committed(region))
        return 0;
    Py_BEGIN_ALLOW_THREADS
    status = hf_region_changed_pages(region, &pages, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK) {
        hfi_raise(state, status, &error);
        return -1;
    }
    return pages == 0;
}

int
hfi_record_pages_unchanged(hfi_state *state, const hfi_record *record) {
    int same = 1;
    for (uint32_t i = 0; same == 1 && i < hfi_record_region_count(record); i++)
        if (record->rest->regions[i])
            same = region_unchanged(state, record->rest->regions[i]);
    return same;
}

int
hfi_record_matches(hfi_state *state, const hfi_record *record, hfi_entry_sink *sink,
                   uint32_t codec) {
    hf_digest digest;
    if (record->codec != codec || hfi_record_region_count(record) != sink->buffer_count)
        return 0;
    for (uint32_t i = 0; i < sink->buffer_count; i++)
        if (sink->buffers[i].region != record->rest->regions[i])
            return 0;
    hfi_entry_sink_digest(sink, codec, &digest);
    if (memcmp(&digest, &record->rest->digest, sizeof digest) != 0)
        return 0;
    return hfi_record_pages_unchanged(state, record);
}
