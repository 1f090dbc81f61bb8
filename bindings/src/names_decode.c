/* names_decode.c - one entry of the store becomes a value, to be bound.
 *
 * A name in a group decodes the whole group, once, and all of its names with it: half a
 * group would come apart at the next save. Values are collected in `bound` and reach
 * the namespace at the end of the bind, in the order of the names (names_bind.c). A
 * class that a pickle refers to is decoded while the pickle is: from its own entry, or
 * from the group that it is in.
 *
 * What can't be decoded (a module that is missing here) is reported as absent and kept
 * as skipped; it never fails the rest.
 */
#include "names_bind.h"
#include "plain.h"

#include "array.h"
#include "graph.h"

int
hfi_binding_enter(hfi_binding *at) {
    if (at->before || !at->namespace)
        return 0;
    at->before = hfi_context_enter((PyObject *)at->names, at->namespace, at->own);
    return at->before ? 0 : -1;
}

/* Those that make their values in C ask nobody for whom. */
static int
asks_context(const hf_entry *entry) {
    if (entry->codec == HF_CODEC_PLAIN)
        return hfi_plain_looks_back(entry->meta, entry->meta_size);
    return entry->codec != HF_CODEC_BUFFER && entry->codec != HF_CODEC_MODULE;
}

PyObject *
hfi_binding_decode(hfi_binding *at, const hf_entry *entry,
                   hfi_entry_source *ret_source) {
    const hf_codec *codec = hfi_codec_find(at->state, entry->codec);
    if (!codec)
        return PyErr_Format(at->state->error, "codec %u is not known here",
                            entry->codec);
    int named = !hfi_codec_is_quiet(entry->codec);
    if (named && hfi_turn_check(at->state, at->names->attachment->session, entry) < 0)
        return NULL;
    if (asks_context(entry) && hfi_binding_enter(at) < 0)
        return NULL;
    if (hfi_entry_source_init(ret_source, at->state, at->names->attachment,
                              at->names->snapshot, entry) < 0)
        return NULL;
    void *value = NULL;
    hf_turn before;
    if (named)
        hfi_turn_begin(at->names->attachment->session, at->subject, entry, &before);
    hf_status status = codec->decode(codec, &ret_source->base, &value, &at->error);
    if (named)
        hf_session_turn_end(at->names->attachment->session, &before);
    at->bytes_mapped += ret_source->bytes_mapped;
    if (status == HF_OK)
        return value;
    hfi_entry_source_fini(ret_source);
    return hfi_raise(at->state, status, &at->error);
}

int
hfi_binding_find(hfi_binding *at, PyObject *key, hf_entry *ret_entry) {
    Py_ssize_t size = 0;
    const char *text = hfi_key_bytes(key, &size);
    if (!text)
        return -1;
    hf_status status = hf_snapshot_find(at->names->snapshot, text, (size_t)size,
                                        ret_entry, &at->error);
    if (status == HF_OK || status == HF_NOT_FOUND)
        return status == HF_OK;
    hfi_raise(at->state, status, &at->error);
    return -1;
}

hfi_record *
hfi_binding_record(hfi_binding *at, PyObject *key) {
    return hfi_records_find(&at->names->records, key);
}

hfi_record *
hfi_binding_set_record(hfi_binding *at, PyObject *key, const hf_entry *entry,
                       hfi_record_state state) {
    PyObject *group = NULL, *classes = NULL;
    if (entry->codec == HF_CODEC_MEMBER && !(group = hfi_member_group(entry)))
        return NULL;
    if (entry->codec == HF_CODEC_PICKLE && !(classes = hfi_entry_classes(entry)))
        return NULL;
    hfi_record *record = hfi_records_put(&at->names->records, key);
    if (record) {
        record->state = (uint8_t)state;
        record->baseline = HFI_BY_ENTRY;
        record->codec = (uint16_t)entry->codec;
    }
    int failed = !record || hfi_record_set_group(record, group) < 0 ||
                 (classes && hfi_record_set_classes_consume(record, classes) < 0);
    Py_XDECREF(group);
    return failed ? NULL : record;
}

/* Does nobody else hold a part of what this codec just made? Of plain data and arrays
 * in regions of their own, yes; what unpickling calls may keep what it makes. */
static int
is_closed(hfi_binding *at, uint32_t codec, PyObject *value) {
    if (codec == HF_CODEC_PLAIN || codec == HF_CODEC_MODULE)
        return 1;
    if (codec != HF_CODEC_BUFFER || hfi_array_check(value) != 1)
        return 0;
    PyObject *base = hfi_array_base(value);
    int own = base == Py_None || (base && Py_IS_TYPE(base, at->state->region_type));
    Py_XDECREF(base);
    PyErr_Clear();
    return own;
}

/* To be bound, and remembered with the regions that `source` mapped; NULL for one that
 * has none. `codec` is its own, or that of its group. */
static int
bind_value(hfi_binding *at, PyObject *key, const hf_entry *entry, uint32_t codec,
           PyObject *value, const hfi_entry_source *source) {
    hfi_record *record = hfi_binding_set_record(at, key, entry, HFI_BOUND);
    if (!record ||
        (source && hfi_record_keep_regions(record, at->names->attachment, source) < 0))
        return -1;
    record->is_closed = (uint8_t)is_closed(at, codec, value);
    at->decoded_count +=
        entry->codec != HF_CODEC_MEMBER && entry->codec != HF_CODEC_BUFFER;
    int kind = hfi_key_kind(key);
    hfi_record_bind(record, value, kind == 'n');
    record->is_new = kind == 'n';
    if (kind != 'n' && entry->codec != HF_CODEC_MEMBER &&
        PyDict_SetItem(at->decoded, key, value) < 0)
        return -1;
    if (kind != 'n')
        return kind == 'c' ? PyList_Append(at->classes, value) : 0;
    if (!record->is_closed && PyList_Append(at->open, key) < 0)
        return -1;
    if (PyDict_GET_SIZE(at->names->reasons) &&
        PyDict_Contains(at->names->reasons, key) == 1 &&
        (PyDict_DelItem(at->names->reasons, key) < 0 ||
         PyDict_DelItem(at->names->declined, key) < 0))
        return -1;
    return hfi_keys_add(&at->bound, key);
}

/* Bind one name of a decoded group, unless it has a value of its own by now: a process
 * that never decoded the group may have bound the name anew. */
static int
bind_member(hfi_binding *at, PyObject *group, uint32_t codec, PyObject *name,
            PyObject *value) {
    hf_entry entry;
    int found = PyUnicode_Check(name) ? hfi_binding_find(at, name, &entry) : 0;
    if (found <= 0 || entry.codec != HF_CODEC_MEMBER)
        return found < 0 ? -1 : 0;
    PyObject *own = hfi_member_group(&entry);
    int same = own ? PyObject_RichCompareBool(own, group, Py_EQ) : -1;
    Py_XDECREF(own);
    return same > 0 ? bind_value(at, name, &entry, codec, value, NULL) : same;
}

PyObject *
hfi_binding_group(hfi_binding *at, PyObject *key) {
    PyObject *values = Py_XNewRef(PyDict_GetItemWithError(at->decoded, key));
    if (values || PyErr_Occurred())
        return values;
    hf_entry entry;
    int found = hfi_binding_find(at, key, &entry);
    if (found == 0)
        PyErr_Format(at->state->corrupt_error, "a group of names is missing");
    hfi_entry_source source;
    values = found > 0 ? hfi_binding_decode(at, &entry, &source) : NULL;
    int failed = !values;
    if (values && !PyDict_CheckExact(values)) {
        failed = 1;
        PyErr_SetString(at->state->corrupt_error, "a group of names is no dict");
    }
    failed = failed || bind_value(at, key, &entry, entry.codec, values, &source) < 0;
    if (values)
        hfi_entry_source_fini(&source);
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (!failed && PyDict_Next(values, &position, &name, &value))
        failed = bind_member(at, key, entry.codec, name, value) < 0;
    if (failed)
        Py_CLEAR(values);
    return values;
}

/* A group's dict as its member's value: a new reference to that. */
static PyObject *
decode_member(hfi_binding *at, PyObject *key, const hf_entry *entry) {
    PyObject *group = hfi_member_group(entry);
    PyObject *values = group ? hfi_binding_group(at, group) : NULL;
    PyObject *value = values ? Py_XNewRef(PyDict_GetItemWithError(values, key)) : NULL;
    if (values && !value && !PyErr_Occurred())
        PyErr_SetString(at->state->corrupt_error, "a name is missing from its group");
    Py_XDECREF(group);
    Py_XDECREF(values);
    return value;
}

static PyObject *
decode_single(hfi_binding *at, PyObject *key, const hf_entry *entry) {
    hfi_entry_source source;
    PyObject *value = hfi_binding_decode(at, entry, &source);
    if (!value)
        return NULL;
    if (bind_value(at, key, entry, entry->codec, value, &source) < 0)
        Py_CLEAR(value);
    hfi_entry_source_fini(&source);
    return value;
}

PyObject *
hfi_binding_key(hfi_binding *at, PyObject *key, const hf_entry *entry) {
    PyObject *before = at->subject;
    if (hfi_key_kind(key) == 'n') /* of a class: whose it is */
        at->subject = key;
    PyObject *value = entry->codec == HF_CODEC_MEMBER ? decode_member(at, key, entry)
                                                      : decode_single(at, key, entry);
    at->subject = before;
    return value;
}

int
hfi_binding_note_absent(hfi_binding *at, PyObject *key, const hf_entry *entry) {
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1; /* KeyboardInterrupt and such: not the value's fault */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *reason = value ? PyObject_Str(value) : PyUnicode_FromString("unknown");
    int failed = !reason || PyDict_SetItem(at->absent, key, reason) < 0 ||
                 !hfi_binding_set_record(at, key, entry, HFI_SKIPPED);
    Py_XDECREF(reason);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return failed ? -1 : 0;
}

/* A class that a pickle refers to: from its own entry, or from the group it is in. */
PyObject *
hfi_names_load_class(PyObject *self, PyObject *identifier) {
    hfi_binding *at = ((hfi_names *)(void *)self)->binding;
    if (!at) {
        PyErr_SetString(PyExc_RuntimeError, "no binding is going on");
        return NULL;
    }
    PyObject *key = PyUnicode_FromFormat("%c%c%U", HFI_KEY_GROUP, 'c', identifier);
    hf_entry entry;
    int found = key ? hfi_binding_find(at, key, &entry) : -1;
    PyObject *value = found > 0 ? hfi_binding_key(at, key, &entry) : NULL;
    if (found == 0)
        PyErr_SetString(at->state->error, "its class isn't in the store");
    Py_XDECREF(key);
    return value;
}
