/* names_decode.c - decoding one entry of the store to a value that is bound later.
 *
 * A name in a group decodes the whole group, once, with all of its names: half a group
 * would be taken apart by the next save. Values are collected in `bound` and reach the
 * namespace at the end of the bind, in the order of the names (names_bind.c). A class
 * to which a pickle refers is decoded during the pickle: from its own entry, or from
 * the group that it is in.
 *
 * A value that can't be decoded (a module is missing here) is reported as absent and
 * kept as skipped; the others are decoded all the same.
 *
 * At the next save a decoded value is compared with the entry from which it came
 * (names_stored.c). For a class of the notebook that isn't possible: decoding its entry
 * a second time would reset the existing class. So right after decoding, a class is
 * encoded again, to get the digest of this process's own encoding. The same is done for
 * a group with a class. Classes are small.
 */
#include "names_decode.h"

#include <stdlib.h>

#include "array.h"
#include "codec_call.h"
#include "graph.h"
#include "member_meta.h"
#include "names_format.h"
#include "names_type.h"

int
hfi_keys_add(hfi_keys *keys, PyObject *key) {
    if (keys->count == keys->room) {
        size_t room = keys->room * 2 + 64;
        PyObject **items = realloc(keys->items, room * sizeof *items);
        if (!items) {
            PyErr_NoMemory();
            return -1;
        }
        keys->items = items;
        keys->room = room;
    }
    keys->items[keys->count++] = Py_NewRef(key);
    return 0;
}

void
hfi_keys_fini(hfi_keys *keys) {
    for (size_t i = 0; i < keys->count; i++)
        Py_DECREF(keys->items[i]);
    free(keys->items);
}

int
hfi_decoding_init(hfi_decoding *at, hfi_state *state, hfi_names *names,
                  PyObject *namespace) {
    *at = (hfi_decoding){.state = state,
                         .names = names,
                         .namespace = namespace,
                         .own = PySet_New(NULL),
                         .absent = PyDict_New(),
                         .decoded = PyDict_New(),
                         .open = PyList_New(0),
                         .classes = PyList_New(0)};
    names->decoding = at;
    return at->own && at->absent && at->decoded && at->open && at->classes ? 0 : -1;
}

void
hfi_decoding_fini(hfi_decoding *at) {
    at->names->decoding = NULL;
    if (at->before)
        hfi_context_leave(at->before);
    Py_XDECREF(at->own);
    Py_XDECREF(at->absent);
    Py_XDECREF(at->decoded);
    hfi_keys_fini(&at->bound);
    Py_XDECREF(at->open);
    Py_XDECREF(at->classes);
}

int
hfi_decoding_enter(hfi_decoding *at) {
    if (at->before)
        return 0;
    at->before = hfi_context_enter(at->names, at->namespace, at->own);
    return at->before ? 0 : -1;
}

static PyObject *
decode_entry(hfi_decoding *at, const hf_entry *entry, hfi_entry_source *ret_source) {
    if (hfi_codec_asks_context(entry) && hfi_decoding_enter(at) < 0)
        return NULL;
    PyObject *value = hfi_decode(at->state, at->names->attachment, at->names->snapshot,
                                 entry, at->subject, ret_source);
    at->bytes_mapped += ret_source->bytes_mapped;
    return value;
}

static int
find_entry(hfi_decoding *at, PyObject *key, hf_entry *ret_entry) {
    return hfi_names_find(at->state, at->names, key, ret_entry);
}

static hfi_record *
decoded_record(hfi_decoding *at, PyObject *key) {
    return hfi_records_find(&at->names->records, key);
}

hfi_record *
hfi_decoding_set_record(hfi_decoding *at, PyObject *key, const hf_entry *entry,
                        hfi_record_state state) {
    PyObject *group = NULL, *classes = NULL;
    if (entry->codec == HF_CODEC_MEMBER && hfi_member_find_group(entry, &group) < 0)
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

/* ---- values --------------------------------------------------------------------- */

/* Whether no other code holds a part of what this codec just made. For plain data and
 * arrays in regions of their own that is so. Functions that unpickling calls may keep
 * what they make. */
static int
is_closed(hfi_decoding *at, uint32_t codec, PyObject *value) {
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

/* A second try, for another name of its group, could decode it. */
static int
mark_present(hfi_decoding *at, PyObject *key) {
    int absent = PyDict_Contains(at->absent, key);
    return absent > 0 ? PyDict_DelItem(at->absent, key) : absent;
}

/* Note a value to be bound, with the regions that `source` mapped (NULL: none). `codec`
 * is its own, or that of its group. */
static int
take_decoded(hfi_decoding *at, PyObject *key, const hf_entry *entry, uint32_t codec,
             PyObject *value, const hfi_entry_source *source) {
    int kind = hfi_key_kind(key), closed = is_closed(at, codec, value);
    hfi_record *record = hfi_decoding_set_record(at, key, entry, HFI_BOUND);
    if (!record ||
        (source && hfi_record_keep_regions(record, at->names->attachment, source) < 0))
        return -1;
    record->is_closed = (uint8_t)closed;
    record->is_new = kind == 'n';
    hfi_record_bind(record, value, kind == 'n');
    at->entry_count +=
        entry->codec != HF_CODEC_MEMBER && entry->codec != HF_CODEC_BUFFER;
    if (kind != 'n' && entry->codec != HF_CODEC_MEMBER &&
        PyDict_SetItem(at->decoded, key, value) < 0)
        return -1;
    if (kind != 'n')
        return kind == 'c' ? PyList_Append(at->classes, value) : 0;
    if ((!closed && PyList_Append(at->open, key) < 0) ||
        hfi_names_forget_unserializable(at->names, key) < 0 ||
        mark_present(at, key) < 0)
        return -1;
    return hfi_keys_add(&at->bound, key);
}

/* Has the namespace bound a name anew, or deleted it, since it was met first, and isn't
 * asked for its value in the store? */
static int
is_the_users(hfi_decoding *at, PyObject *name) {
    const hfi_record *record = at->asked ? decoded_record(at, name) : NULL;
    if (!record || hfi_key_kind(name) != 'n')
        return 0;
    int asked = PySet_Contains(at->asked, name);
    if (asked)
        return asked < 0 ? -1 : 0;
    return record->state == HFI_BOUND ? 1 : PyDict_Contains(at->namespace, name);
}

/* One name of a decoded group, unless it has a value of its own by now: a process that
 * never decoded the group may have bound the name anew. */
static int
take_member(hfi_decoding *at, PyObject *group, uint32_t codec, PyObject *name,
            PyObject *value) {
    hf_entry entry = {.struct_size = sizeof entry};
    PyObject *own;
    int found = PyUnicode_Check(name) ? find_entry(at, name, &entry) : 0;
    if (found > 0 && (found = is_the_users(at, name)) >= 0)
        found = !found;
    if (found <= 0 || entry.codec != HF_CODEC_MEMBER)
        return found < 0 ? -1 : 0;
    int same = hfi_member_find_group(&entry, &own);
    if (same > 0)
        same = PyObject_RichCompareBool(own, group, Py_EQ);
    Py_XDECREF(own);
    return same > 0 ? take_decoded(at, name, &entry, codec, value, NULL) : same;
}

static int
take_members(hfi_decoding *at, PyObject *group, uint32_t codec, PyObject *values) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    int failed = 0;
    while (!failed && PyDict_Next(values, &position, &name, &value)) {
        Py_INCREF(name);
        Py_INCREF(value);
        failed = take_member(at, group, codec, name, value) < 0;
        Py_DECREF(name);
        Py_DECREF(value);
    }
    return failed ? -1 : 0;
}

/* Some of its names have no value, so the next name that is asked for decodes it again.
 * An exception that is set stays. */
static void
forget_decoded(hfi_decoding *at, PyObject *key) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    if (PyDict_DelItem(at->decoded, key) < 0)
        PyErr_Clear();
    PyErr_Restore(type, error, traceback);
}

/* Decode a group: its dict, new reference. */
static PyObject *
decode_group(hfi_decoding *at, PyObject *key) {
    PyObject *values = Py_XNewRef(PyDict_GetItemWithError(at->decoded, key));
    if (values || PyErr_Occurred())
        return values;
    hf_entry entry = {.struct_size = sizeof entry};
    int found = find_entry(at, key, &entry);
    if (found == 0)
        PyErr_Format(at->state->corrupt_error, "a group of names is missing");
    hfi_entry_source source;
    values = found > 0 ? decode_entry(at, &entry, &source) : NULL;
    int failed = !values;
    if (values && !PyDict_CheckExact(values)) {
        failed = 1;
        PyErr_SetString(at->state->corrupt_error, "a group of names is no dict");
    }
    failed = failed || take_decoded(at, key, &entry, entry.codec, values, &source) < 0;
    if (values)
        hfi_entry_source_fini(&source);
    if (failed || take_members(at, key, entry.codec, values) < 0) {
        forget_decoded(at, key);
        Py_CLEAR(values);
    }
    return values;
}

/* A group's dict as its member's value: a new reference to that. */
static PyObject *
decode_member(hfi_decoding *at, PyObject *key, const hf_entry *entry) {
    PyObject *group = hfi_member_group(entry);
    PyObject *values = group ? decode_group(at, group) : NULL;
    PyObject *value = values ? Py_XNewRef(PyDict_GetItemWithError(values, key)) : NULL;
    if (values && !value && !PyErr_Occurred())
        PyErr_SetString(at->state->corrupt_error, "a name is missing from its group");
    Py_XDECREF(group);
    Py_XDECREF(values);
    return value;
}

static PyObject *
decode_single(hfi_decoding *at, PyObject *key, const hf_entry *entry) {
    hfi_entry_source source;
    PyObject *value = decode_entry(at, entry, &source);
    if (!value)
        return NULL;
    if (take_decoded(at, key, entry, entry->codec, value, &source) < 0)
        Py_CLEAR(value);
    hfi_entry_source_fini(&source);
    return value;
}

/* The value of `key`, with its whole group if it is in one. New reference. */
static PyObject *
decode_key(hfi_decoding *at, PyObject *key, const hf_entry *entry) {
    PyObject *before = at->subject;
    if (hfi_key_kind(key) == 'n') /* of a class: whose it is */
        at->subject = key;
    PyObject *value = entry->codec == HF_CODEC_MEMBER ? decode_member(at, key, entry)
                                                      : decode_single(at, key, entry);
    at->subject = before;
    return value;
}

/* Clear the exception. Returns its text, or its type's name: a new reference. */
static PyObject *
take_reason(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *reason = value ? PyObject_Str(value) : PyUnicode_FromString("unknown");
    if (reason && value && PyUnicode_GetLength(reason) == 0)
        Py_SETREF(reason, PyUnicode_FromString(Py_TYPE(value)->tp_name));
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return reason;
}

static int
set_absent(hfi_decoding *at, PyObject *key, const hf_entry *entry, PyObject *reason) {
    return PyDict_SetItem(at->absent, key, reason) < 0 ||
                   !hfi_decoding_set_record(at, key, entry, HFI_SKIPPED)
               ? -1
               : 0;
}

/* Clear the exception and note why `key` is absent. */
static int
note_absent(hfi_decoding *at, PyObject *key, const hf_entry *entry) {
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1; /* KeyboardInterrupt and the like aren't caused by the value */
    PyObject *reason = take_reason();
    int failed = !reason || set_absent(at, key, entry, reason) < 0;
    Py_XDECREF(reason);
    return failed ? -1 : 0;
}

/* The names of a group that are bound here, and weren't put anew with it. New list. */
static PyObject *
bound_names(const hfi_decoding *at, PyObject *group) {
    PyObject *found = PyList_New(0);
    hfi_record *record;
    for (size_t position = 0;
         found && (record = hfi_records_next(&at->names->records, &position));) {
        PyObject *own = hfi_record_group(record);
        if (record->state == HFI_BOUND && hfi_key_kind(record->key) == 'n' && own &&
            PyUnicode_Compare(own, group) == 0 && PyList_Append(found, record->key) < 0)
            Py_CLEAR(found);
    }
    return found;
}

/* The same for a group: its names have older values here. */
static int
note_group_absent(hfi_decoding *at, PyObject *group, const hf_entry *entry) {
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyObject *reason = take_reason();
    PyObject *names = reason ? bound_names(at, group) : NULL;
    int failed = !names || !hfi_decoding_set_record(at, group, entry, HFI_SKIPPED);
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(names); i++) {
        PyObject *name = PyList_GET_ITEM(names, i);
        hf_entry own = {.struct_size = sizeof own};
        int found = find_entry(at, name, &own);
        failed = found < 0 || (found && set_absent(at, name, &own, reason) < 0);
    }
    Py_XDECREF(names);
    Py_XDECREF(reason);
    return failed ? -1 : 0;
}

int
hfi_decoding_take(hfi_decoding *at, PyObject *key, const hf_entry *entry) {
    PyObject *value = decode_key(at, key, entry);
    if (!value)
        return note_absent(at, key, entry);
    Py_DECREF(value);
    return 0;
}

int
hfi_decoding_take_group(hfi_decoding *at, PyObject *key, const hf_entry *entry) {
    PyObject *values = decode_group(at, key);
    if (!values)
        return note_group_absent(at, key, entry);
    Py_DECREF(values);
    return 0;
}

PyObject *
hfi_names_load_class(PyObject *self, PyObject *identifier) {
    hfi_decoding *at = hfi_names_of(self)->decoding;
    if (!at) {
        PyErr_SetString(PyExc_RuntimeError, "no binding is going on");
        return NULL;
    }
    PyObject *key = hfi_key_of_class(identifier);
    hf_entry entry = {.struct_size = sizeof entry};
    int found = key ? find_entry(at, key, &entry) : -1;
    PyObject *value = found > 0 ? decode_key(at, key, &entry) : NULL;
    if (found == 0)
        PyErr_SetString(at->state->error, "its class isn't in the store");
    Py_XDECREF(key);
    return value;
}

/* ---- baselines ------------------------------------------------------------------ */

/* Put the decoded classes into `own`. 1 if there is one. */
static int
own_from(hfi_decoding *at, PyObject *key, PyObject *value, int is_group) {
    if (PySet_Clear(at->own) < 0)
        return -1;
    if (hfi_key_kind(key) == 'c')
        return PySet_Add(at->own, value) < 0 ? -1 : 1;
    PyObject *name, *member;
    Py_ssize_t position = 0;
    while (is_group && PyDict_Next(value, &position, &name, &member))
        if (hfi_key_kind(name) == 'c' && PySet_Add(at->own, member) < 0)
            return -1;
    return PySet_GET_SIZE(at->own) > 0;
}

/* The sink has this process's own encoding of this key. */
static int
take_own_digest(hfi_decoding *at, hfi_entry_sink *sink, PyObject *key, uint32_t codec) {
    hfi_record *record = decoded_record(at, key);
    return record ? hfi_record_take_digest(record, at->names->attachment, sink, codec)
                  : 0;
}

/* Of the names of a group: their own entries say where in it they are. */
static int
take_member_baselines(hfi_decoding *at, hfi_entry_sink *sink, PyObject *values) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    int failed = 0;
    while (!failed && PyDict_Next(values, &position, &name, &value)) {
        hfi_record *record = decoded_record(at, name);
        hf_entry stored = {.struct_size = sizeof stored};
        if (!record || !hfi_record_group(record))
            continue;
        int found = find_entry(at, name, &stored);
        failed =
            found < 0 ||
            (found && stored.codec == HF_CODEC_MEMBER &&
             (hfi_member_encode(at->state, sink, stored.meta, stored.meta_size) < 0 ||
              take_own_digest(at, sink, name, HF_CODEC_MEMBER) < 0));
    }
    return failed ? -1 : 0;
}

/* A value that can't be encoded again becomes unserializable at the next save, not now.
 * */
static int
take_baseline(hfi_decoding *at, hfi_entry_sink *sink, PyObject *key, PyObject *value) {
    if (!decoded_record(at, key) || hfi_graph_is_atom(value))
        return 0;
    int is_group = hfi_key_kind(key) == 'g';
    const hf_codec *codec = NULL;
    hf_error error = HF_ERROR_INIT;
    int has_class = own_from(at, key, value, is_group);
    if (has_class <= 0)
        return has_class;
    hf_status status = hfi_encode(at->state, sink, value, key, &codec, &error);
    if (status == HF_OK && take_own_digest(at, sink, key, codec->number) < 0)
        return -1;
    if (is_group && take_member_baselines(at, sink, value) < 0)
        return -1;
    return PyErr_Occurred() ? -1 : 0;
}

int
hfi_decoding_take_baselines(hfi_decoding *at) {
    if (!PyDict_GET_SIZE(at->decoded))
        return 0;
    /* A copy, since encoding runs code that may decode another class. */
    PyObject *items = PyDict_Items(at->decoded);
    hfi_entry_sink sink;
    int failed = !items || hfi_decoding_enter(at) < 0;
    hfi_entry_sink_init(&sink, at->names->attachment->session);
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(items); i++) {
        PyObject *item = PyList_GET_ITEM(items, i);
        failed = take_baseline(at, &sink, PyTuple_GET_ITEM(item, 0),
                               PyTuple_GET_ITEM(item, 1)) < 0;
    }
    hfi_entry_sink_fini(&sink);
    Py_XDECREF(items);
    return failed ? -1 : 0;
}
