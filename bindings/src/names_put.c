/* names_put.c - one value of a save: encode it, compare it, put it or decline it.
 *
 * A value is put where its encoding differs from what its record says; the record that
 * will hold once the commit is published goes to `pending`. A codec that fails on a
 * value doesn't carry it, whatever the reason: it is declined with the codec's words.
 * Running out of memory or space is no reason to decline; it ends the save.
 *
 * A small value is put with the interpreter attached, since the store then only copies
 * to memory of its own; what goes to the arena is written detached.
 */
#include "names_save.h"

#include <string.h>

enum { DETACH_SIZE = 4096 }; /* payload from which putting may mean a system call */

hfi_record *
hfi_save_record(hfi_save *at, PyObject *key) {
    return hfi_records_find(&at->names->records, key);
}

hfi_record *
hfi_save_record_after(hfi_save *at, PyObject *key) {
    hfi_record *pending = hfi_records_find(&at->names->pending, key);
    if (pending)
        return pending->state == HFI_REMOVED ? NULL : pending;
    return hfi_save_record(at, key);
}

static int
begin(hfi_save *at) {
    if (at->commit)
        return 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS status =
        hf_commit_begin(at->names->attachment->session, &at->commit, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK) hfi_raise(at->state, status, &error);
    return status == HF_OK ? 0 : -1;
}

int
hfi_save_remove(hfi_save *at, PyObject *key) {
    Py_ssize_t size = 0;
    const char *text = hfi_key_bytes(key, &size);
    if (!text || begin(at) < 0)
        return -1;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS status =
        hf_commit_remove(at->commit, text, (size_t)size, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK && status != HF_NOT_FOUND) {
        hfi_raise(at->state, status, &error);
        return -1;
    }
    hfi_record *record = hfi_records_put(&at->names->pending, key);
    if (!record)
        return -1;
    record->state = HFI_REMOVED;
    return 0;
}

static uint32_t
flags_of(const hfi_save *at, PyObject *key, uint32_t codec) {
    if (hfi_key_kind(key) == 'g')
        return HFI_ENTRY_GROUP;
    int cheap = at->sink.buffer_count || at->sink.payload_size < 32768;
    return codec == HF_CODEC_BUFFER && cheap ? HFI_ENTRY_MAPPED : 0;
}

static hf_status
put_value(hfi_save *at, const hf_value *value) {
    hf_status status;
    if (!value->buffer_count && value->payload_size < DETACH_SIZE)
        return hf_commit_put(at->commit, value, &at->error);
    Py_BEGIN_ALLOW_THREADS status = hf_commit_put(at->commit, value, &at->error);
    Py_END_ALLOW_THREADS return status;
}

/* Put the sink's encoding under `key`. Gives a new record, borrowed from pending. */
static hfi_record *
put(hfi_save *at, PyObject *key, uint32_t codec) {
    Py_ssize_t size = 0;
    const char *text = hfi_key_bytes(key, &size);
    if (!text || begin(at) < 0)
        return NULL;
    hf_value value = {.key = text,
                      .key_size = (size_t)size,
                      .codec = codec,
                      .flags = flags_of(at, key, codec),
                      .meta = at->sink.meta,
                      .meta_size = at->sink.meta_size,
                      .payload = at->sink.payload_size ? at->sink.payload : NULL,
                      .payload_size = at->sink.payload_size,
                      .buffers = at->sink.buffers,
                      .buffer_count = at->sink.buffer_count,
                      .ret_digests = hfi_entry_sink_take_digests(&at->sink)};
    hf_status status = put_value(at, &value);
    if (status != HF_OK)
        return hfi_raise(at->state, status, &at->error);
    hfi_record *record = hfi_records_put(&at->names->pending, key);
    if (!record || hfi_record_take(record, at->names->attachment, &at->sink, codec) < 0)
        return NULL;
    if (codec != HF_CODEC_PICKLE) /* no other one's meta has classes */
        return record;
    hf_entry written = {
        .codec = codec, .meta = value.meta, .meta_size = value.meta_size};
    return hfi_record_set_classes_consume(record, hfi_entry_classes(&written)) < 0
               ? NULL
               : record;
}

int
hfi_save_put(hfi_save *at, PyObject *key, uint32_t codec, PyObject *group,
             hfi_record **ret_record) {
    hfi_record *known = hfi_save_record(at, key);
    if (ret_record)
        *ret_record = known;
    int same = known ? hfi_save_matches(at, key, known, codec) : 0;
    if (same)
        return same < 0 ? -1 : 0;
    hfi_record *record = put(at, key, codec);
    if (!record)
        return -1;
    if (hfi_record_set_group(record, group) < 0)
        return -1;
    if (ret_record)
        *ret_record = record;
    return 1;
}

/* Does the sink's encoding refer to a class that was declined? */
static int
needs_lost_class(hfi_save *at, uint32_t codec) {
    if (PySet_GET_SIZE(at->lost_classes) == 0)
        return 0;
    hf_entry written = {
        .codec = codec, .meta = at->sink.meta, .meta_size = at->sink.meta_size};
    PyObject *classes = hfi_entry_classes(&written);
    int lost = classes ? 0 : -1;
    for (Py_ssize_t i = 0; classes && !lost && i < PyTuple_GET_SIZE(classes); i++)
        lost = PySet_Contains(at->lost_classes, PyTuple_GET_ITEM(classes, i));
    Py_XDECREF(classes);
    return lost;
}

hf_status
hfi_save_encode(hfi_save *at, PyObject *value, PyObject *subject, uint32_t *ret_codec) {
    hf_error *reterr = &at->error;
    const hf_codec *codec = NULL;
    hf_status status =
        hfi_names_encode(at->state, &at->sink, value, subject, &codec, reterr);
    at->encoded++;
    if (PyErr_Occurred())
        return HF_E_CODEC;
    if (status == HF_OK) {
        int lost = needs_lost_class(at, codec->number);
        if (lost < 0)
            return HF_E_CODEC;
        if (lost)
            return hf_error_set(reterr, HF_DECLINED, "its class can't be carried");
        *ret_codec = codec->number;
    } else if (status < 0 && status != HF_E_CODEC) {
        hfi_raise(at->state, status, reterr);
    } else {
        status = HF_DECLINED; /* a codec that failed on a value doesn't carry it */
    }
    return status;
}

static int
decline_class(hfi_save *at, const hfi_member *one) {
    PyObject *identifier = PyUnicode_Substring(one->key, 2, PY_SSIZE_T_MAX);
    int failed = !identifier || PySet_Add(at->lost_classes, identifier) < 0;
    Py_XDECREF(identifier);
    return failed ? -1 : 0;
}

/* The reason that is kept, where it is still about this object; else the search for
 * the part at fault. */
static PyObject *
reason_of(hfi_save *at, const hfi_member *one, const char *why) {
    hfi_names *names = at->names;
    PyObject *known = PyDict_GetItemWithError(names->declined, one->key);
    PyObject *reason = NULL;
    if (known == one->value)
        reason = Py_XNewRef(PyDict_GetItemWithError(names->reasons, one->key));
    if (reason || PyErr_Occurred())
        return reason;
    PyObject *module = PyImport_ImportModule("holdfast._explain");
    if (module)
        reason =
            PyObject_CallMethod(module, "explain", "OOs", one->key, one->value, why);
    Py_XDECREF(module);
    return reason;
}

static int
decline_name(hfi_save *at, const hfi_member *one, const char *why) {
    PyObject *reason = reason_of(at, one, why);
    int failed = !reason || PyDict_SetItem(at->names->reasons, one->key, reason) < 0 ||
                 PyDict_SetItem(at->names->declined, one->key, one->value) < 0;
    Py_XDECREF(reason);
    return failed ? -1 : 0;
}

int
hfi_save_decline(hfi_save *at, hfi_member *one, const char *why) {
    one->is_declined = 1;
    if ((one->is_class ? decline_class(at, one) : decline_name(at, one, why)) < 0)
        return -1;
    /* What the store still has under this key is not the value any more. */
    return hfi_save_record(at, one->key) ? hfi_save_remove(at, one->key) : 0;
}

int
hfi_save_accept(hfi_save *at, const hfi_member *one) {
    if (one->is_class || PyDict_GET_SIZE(at->names->reasons) == 0 ||
        PyDict_Contains(at->names->reasons, one->key) != 1)
        return 0;
    return PyDict_DelItem(at->names->reasons, one->key) < 0 ||
                   PyDict_DelItem(at->names->declined, one->key) < 0
               ? -1
               : 0;
}

int
hfi_save_own_classes(hfi_save *at, hfi_member *const *list, size_t count) {
    if (PySet_GET_SIZE(at->own) && PySet_Clear(at->own) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (list[i]->is_class && PySet_Add(at->own, list[i]->value) < 0)
            return -1;
    return 0;
}

int
hfi_save_single(hfi_save *at, hfi_member *one) {
    uint32_t codec = 0;
    if ((one->is_class || PySet_GET_SIZE(at->own)) &&
        hfi_save_own_classes(at, &one, 1) < 0)
        return -1;
    hf_status status = hfi_save_encode(at, one->value, one->key, &codec);
    if (status == HF_DECLINED)
        return hfi_save_decline(at, one, at->error.message);
    if (status != HF_OK || hfi_save_accept(at, one) < 0)
        return -1;
    hfi_record *record;
    int changed = hfi_save_put(at, one->key, codec, NULL, &record);
    if (changed < 0)
        return -1;
    one->is_saved = (uint8_t)changed;
    return hfi_save_remember(record, one);
}

int
hfi_save_member(hfi_save *at, hfi_member *one) {
    if (hfi_save_accept(at, one) < 0 ||
        hfi_member_encode(at->state, &at->sink, one->value, one->group) < 0)
        return -1;
    hfi_record *record;
    int changed = hfi_save_put(at, one->key, HF_CODEC_MEMBER, one->group, &record);
    if (changed < 0)
        return -1;
    one->is_saved |= (uint8_t)changed;
    return hfi_save_remember(record, one);
}
