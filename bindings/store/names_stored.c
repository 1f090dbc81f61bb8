/* names_stored.c - whether a value is still equal to what the store has.
 *
 * Binding and saving do little more than decoding or writing. The cost of recognizing a
 * value is paid by the save that looks at it again, and only for values that a cell may
 * have touched. The baseline is the entry from which the value came, or which it
 * became. The value's encoding is compared with it, byte by byte and buffer by buffer:
 *
 *   - the same bytes, or a pickle that says the same (pickle_compare.c), and no page of
 *     its regions written: unchanged;
 *   - other bytes than this process wrote, or than anybody did where they are canonical
 *     (plain data without sets, members, modules): changed, for then equal values have
 *     equal encodings;
 *   - other opcodes of a pickle, or another order of a set: that alone says nothing,
 *     since sets come in another order in each process. So the entry is
 *     decoded a second time, and this fresh copy encoded: two encodings of the same
 *     process differ only if the values do. The same for an entry of another program's
 *     (foreign.c), which no encoding of ours equals.
 *
 * The second decoding is needed for few values, after the cell, so it disturbs no
 * measurement. It runs the code that unpickling runs. If that is code of the notebook,
 * which may count or print, the value is taken as changed instead.
 *
 * A value that was found unchanged has a digest from then on. A large one has it from
 * its save on, where the copy also computes it. To compare a GiB that was made in
 * another process then takes 40 to 50 ms of processor time, and the first comparison
 * with the entry 250.
 *
 * This replaces two other ways: encoding every value while it is bound (for a dict of a
 * million that took 80 ms of its restore), and a digest of each small value that is
 * saved (a tenth of its work). Digests of the stored data, made by the writer, would
 * count every set as changed.
 */
#include "names_stages.h"

#include <string.h>

#include "codec_call.h"
#include "python_codecs.h"
#include "plain.h"
#include "attachment.h"

static int
same_content(const void *one, size_t one_size, const void *other, size_t other_size) {
    return one_size == other_size &&
           (one_size == 0 || memcmp(one, other, one_size) == 0);
}

/* Compare two payloads of one codec. */
static int
same_payload(uint32_t codec, const void *one, size_t one_size, const void *other,
             size_t other_size) {
    return same_content(one, one_size, other, other_size) ||
           (codec == HF_CODEC_PICKLE &&
            hfi_pickle_payload_same(one, one_size, other, other_size));
}

/* Compare two metas of one codec. What a pickle's says of a table is left out: it is about
 * the bytes of the payload, and those of equal values may differ. */
static int
same_meta(uint32_t codec, const void *one, size_t one_size, const void *other,
          size_t other_size) {
    return same_content(one, one_size, other, other_size) ||
           (codec == HF_CODEC_PICKLE &&
            hfi_pickle_meta_same(one, one_size, other, other_size));
}

/* Whether the sink has the entry's bytes, buffers included. No page of the regions was
 * written, so they show the stored data. */
static int
sink_is_entry(hf_snapshot *snapshot, const hfi_entry_sink *sink, const hf_entry *entry,
              const hfi_record *record) {
    if (sink->buffer_count != entry->buffer_count ||
        sink->buffer_count != hfi_record_region_count(record) ||
        !same_meta(entry->codec, sink->meta, sink->meta_size, entry->meta,
                   entry->meta_size) ||
        !same_payload(entry->codec, sink->payload, sink->payload_size, entry->payload,
                      entry->payload_size))
        return 0;
    for (uint32_t i = 0; i < sink->buffer_count; i++) {
        const hf_buffer *one = &sink->buffers[i];
        if (one->region ? one->region != record->rest->regions[i]
                        : !hf_snapshot_holds(snapshot, entry, i, one->data, one->size))
            return 0;
    }
    return 1;
}

static int
is_canonical(const hf_entry *entry) {
    return entry->codec == HF_CODEC_MEMBER || entry->codec == HF_CODEC_MODULE ||
           (entry->codec == HF_CODEC_PLAIN &&
            hfi_plain_is_canonical(entry->meta, entry->meta_size));
}

/* Whether decoding it again runs no code of the notebook. */
static int
record_is_quiet(const hfi_record *record) {
    PyObject *classes = hfi_record_classes(record);
    if (!classes || PyTuple_GET_SIZE(classes) == 0)
        return 1;
    PyObject *carry = PyImport_ImportModule("holdfast.carry.pickling");
    PyObject *quiet =
        carry ? PyObject_CallMethod(carry, "is_quiet", "(O)", classes) : NULL;
    int result = quiet ? PyObject_IsTrue(quiet) : -1;
    Py_XDECREF(quiet);
    Py_XDECREF(carry);
    return result;
}

/* The index of the entry's buffer that this one is, or -1. */
static int64_t
index_among(const hf_region *region, const hfi_record *record) {
    for (uint32_t i = 0; i < hfi_record_region_count(record); i++)
        if (record->rest->regions[i] == region)
            return i;
    return -1;
}

static int64_t
index_in_source(const hf_region *region, const hfi_entry_source *source) {
    for (uint32_t i = 0; i < source->base.buffer_count; i++)
        if (source->regions[i] && hfi_region_of(source->regions[i]) == region)
            return i;
    return -1;
}

/* Whether two encodings are of equal values, one of the bound value, one of a fresh
 * copy. */
static int
same_encoding(uint32_t codec, const hfi_entry_sink *bound, const hfi_record *record,
              const hfi_entry_sink *fresh, const hfi_entry_source *source) {
    if (bound->buffer_count != fresh->buffer_count ||
        !same_meta(codec, bound->meta, bound->meta_size, fresh->meta,
                   fresh->meta_size) ||
        !same_payload(codec, bound->payload, bound->payload_size, fresh->payload,
                      fresh->payload_size))
        return 0;
    for (uint32_t i = 0; i < bound->buffer_count; i++) {
        const hf_buffer *one = &bound->buffers[i], *other = &fresh->buffers[i];
        if (!one->region != !other->region)
            return 0;
        if (!one->region) {
            if (!same_content(one->data, one->size, other->data, other->size))
                return 0;
            continue;
        }
        int64_t index = index_among(one->region, record);
        if (index < 0 || index != index_in_source(other->region, source))
            return 0;
    }
    return 1;
}

typedef struct comparison {
    hfi_state *state;
    hfi_names *names;
    PyObject *key;
    hfi_record *record;
    hfi_entry_sink *sink;
    uint32_t codec; /* of what the sink has */
    uint64_t *decoded_again;
} comparison;

/* The copy ends, and no object of the notebook does: finalizers of the notebook don't
 * run for it. */
static int
drop_copy(PyObject *value) {
    PyObject *module = PyImport_ImportModule("holdfast.carry.finalizers");
    PyObject *done =
        module ? PyObject_CallMethod(module, "disarm", "(O)", value) : NULL;
    Py_XDECREF(module);
    Py_DECREF(value);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Decode the entry once more, encode that, compare. */
static int
is_fresh_copy(comparison *at, const hf_entry *entry) {
    hfi_attachment *attachment = at->names->attachment;
    hfi_entry_source source;
    PyObject *value =
        hfi_decode(at->state, attachment, at->names->snapshot, entry, NULL, &source);
    if (!value)
        return PyErr_ExceptionMatches(PyExc_Exception) ? (PyErr_Clear(), 0) : -1;
    hfi_entry_sink fresh;
    const hf_codec *found = NULL;
    hf_error error = HF_ERROR_INIT;
    hfi_entry_sink_init(&fresh, attachment->session);
    hf_status status = hfi_encode(at->state, &fresh, value, at->key, &found, &error);
    int same = status == HF_OK && found->number == at->codec &&
               same_encoding(at->codec, at->sink, at->record, &fresh, &source);
    hfi_entry_sink_fini(&fresh);
    hfi_entry_source_fini(&source);
    ++*at->decoded_again;
    if (PyErr_Occurred()) {
        Py_DECREF(value);
        return -1;
    }
    return drop_copy(value) < 0 ? -1 : same;
}

static int
entry_matches(comparison *at) {
    hf_entry entry = {.struct_size = sizeof entry};
    int is_foreign =
        at->record->codec == HF_CODEC_RAW || at->record->codec == HF_CODEC_MSGPACK;
    int found = at->record->codec == at->codec || is_foreign
                    ? hfi_names_find(at->state, at->names, at->key, &entry)
                    : 0;
    if (found <= 0 || is_foreign)
        return found > 0 ? is_fresh_copy(at, &entry) : found;
    int same = hfi_record_pages_unchanged(at->state, at->record);
    if (same != 1 || sink_is_entry(at->names->snapshot, at->sink, &entry, at->record))
        return same;
    if (at->record->baseline == HFI_BY_OWN || is_canonical(&entry))
        return 0;
    same = record_is_quiet(at->record);
    return same == 1 ? is_fresh_copy(at, &entry) : same;
}

int
hfi_stored_matches(hfi_state *state, hfi_names *names, PyObject *key,
                   hfi_record *record, hfi_entry_sink *sink, uint32_t codec,
                   uint64_t *decoded_again) {
    if (record->state != HFI_BOUND)
        return 0;
    if (record->baseline == HFI_BY_DIGEST)
        return hfi_record_matches(state, record, sink, codec);
    comparison at = {state, names, key, record, sink, codec, decoded_again};
    int same = entry_matches(&at);
    /* From now on the digest recognizes it, even if this commit is dropped. */
    if (same == 1 && hfi_record_take_digest(record, names->attachment, sink, codec) < 0)
        return -1;
    return same;
}
