/* names_bind.c - Names.bind() and Names.adopt(): from the store into a namespace.
 *
 * bind() visits the entries in the order in which their names were first put, so that a
 * new process's globals come in the order of the old one's. A name is decoded when it
 * is asked for or costs a mapping only; else it is remembered as skipped. A name in a
 * group decodes the whole group, once, and binds all of its names: half a group would
 * come apart at the next save.
 *
 * After decoding, each value is encoded again to learn the digest that this process's
 * own encoding has: pickles of equal values differ between processes (the order of
 * sets, which strings are one object), and only the same process's two encodings can
 * tell whether a cell changed a value. It costs a fraction of the decoding.
 *
 * adopt() asks the store for the difference of two generations, and touches nothing
 * else: the objects that didn't change stay the same objects. A changed class is
 * decoded onto the class that is there, so that old instances see it.
 *
 * What can't be decoded (a module that is missing here) is reported as absent and kept
 * as skipped; it never fails the rest.
 */
#include "names.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "entry_source.h"
#include "graph.h"

typedef struct hfi_binding {
    hfi_state *state;
    hfi_names *names;
    PyObject *self;
    PyObject *namespace;
    PyObject *own;     /* set: classes encoded by value while a baseline is taken */
    PyObject *wanted;  /* set of names, or NULL for all */
    PyObject *absent;  /* name -> reason */
    PyObject *decoded; /* key -> value: whose baselines are to be taken */
    PyObject *bound;   /* set of names bound now */
    uint64_t bytes_mapped;
    uint64_t skipped;
} binding;

/* ---- decoding one entry
 * ---------------------------------------------------------------- */

static PyObject *
decode(binding *at, const hf_entry *entry) {
    const hf_codec *codec = hf_registry_find(at->state->registry, entry->codec);
    if (!codec)
        return PyErr_Format(at->state->error, "codec %u is not known here",
                            entry->codec);
    hfi_entry_source source;
    if (hfi_entry_source_init(&source, at->state, at->names->attachment,
                              at->names->snapshot, entry) < 0)
        return NULL;
    void *value = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = codec->decode(codec, &source.base, &value, &error);
    at->bytes_mapped += source.bytes_mapped;
    hfi_entry_source_fini(&source);
    return status == HF_OK ? value : hfi_raise(at->state, status, &error);
}

/* 1 found, 0 not, -1 with an exception. */
static int
find(binding *at, PyObject *key, hf_entry *ret_entry) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(key, &size);
    if (!text)
        return -1;
    hf_error error = HF_ERROR_INIT;
    hf_status status =
        hf_snapshot_find(at->names->snapshot, text, (size_t)size, ret_entry, &error);
    if (status == HF_OK || status == HF_NOT_FOUND)
        return status == HF_OK;
    hfi_raise(at->state, status, &error);
    return -1;
}

/* A record in the table, new; borrowed. */
static hfi_record *
set_record(binding *at, PyObject *key, const hf_entry *entry, hfi_record_state state) {
    hfi_record *record = hfi_record_new(at->state);
    if (!record)
        return NULL;
    record->state = state;
    record->codec = entry->codec;
    record->classes = hfi_entry_classes(entry);
    if (record->classes && entry->codec == HF_CODEC_MEMBER)
        record->group = hfi_member_group(entry);
    int failed = !record->classes ||
                 (entry->codec == HF_CODEC_MEMBER && !record->group) ||
                 PyDict_SetItem(at->names->records, key, (PyObject *)record) < 0;
    Py_DECREF(record);
    return failed ? NULL : record;
}

/* Bind and remember. The value's baseline is taken at the end. */
static int
bind_value(binding *at, PyObject *key, const hf_entry *entry, PyObject *value) {
    hfi_record *record = set_record(at, key, entry, HFI_BOUND);
    if (!record)
        return -1;
    if (hfi_graph_is_atom(value))
        record->object = Py_NewRef(value);
    if (entry->codec != HF_CODEC_MEMBER && PyDict_SetItem(at->decoded, key, value) < 0)
        return -1;
    if (hfi_key_kind(key) != 'n')
        return 0;
    if (PyDict_Contains(at->names->reasons, key) == 1 &&
        (PyDict_DelItem(at->names->reasons, key) < 0 ||
         PyDict_DelItem(at->names->declined, key) < 0))
        return -1;
    return PyDict_SetItem(at->namespace, key, value) < 0 ||
                   PySet_Add(at->bound, key) < 0
               ? -1
               : 0;
}

/* Bind one name of a decoded group, unless it has a value of its own by now: a process
 * that never decoded the group may have bound the name anew. */
static int
bind_member(binding *at, PyObject *group, PyObject *name, PyObject *value) {
    hf_entry entry;
    int found = PyUnicode_Check(name) ? find(at, name, &entry) : 0;
    if (found <= 0 || entry.codec != HF_CODEC_MEMBER)
        return found < 0 ? -1 : 0;
    PyObject *own = hfi_member_group(&entry);
    int same = own ? PyObject_RichCompareBool(own, group, Py_EQ) : -1;
    Py_XDECREF(own);
    return same > 0 ? bind_value(at, name, &entry, value) : same;
}

/* Decode a group and bind its names. Gives its dict, new reference. */
static PyObject *
bind_group(binding *at, PyObject *key) {
    PyObject *values = Py_XNewRef(PyDict_GetItemWithError(at->decoded, key));
    if (values || PyErr_Occurred())
        return values;
    hf_entry entry;
    int found = find(at, key, &entry);
    if (found == 0)
        PyErr_Format(at->state->corrupt_error, "a group of names is missing");
    values = found > 0 ? decode(at, &entry) : NULL;
    if (values && !PyDict_CheckExact(values)) {
        Py_CLEAR(values);
        PyErr_SetString(at->state->corrupt_error, "a group of names is no dict");
    }
    int failed = !values || bind_value(at, key, &entry, values) < 0;
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (!failed && PyDict_Next(values, &position, &name, &value))
        failed = bind_member(at, key, name, value) < 0;
    if (failed)
        Py_CLEAR(values);
    return values;
}

/* Decode `key` and bind it. New reference to the value. */
static PyObject *
bind_key(binding *at, PyObject *key, const hf_entry *entry) {
    if (entry->codec != HF_CODEC_MEMBER) {
        PyObject *value = decode(at, entry);
        if (value && bind_value(at, key, entry, value) < 0)
            Py_CLEAR(value);
        return value;
    }
    PyObject *group = hfi_member_group(entry);
    PyObject *values = group ? bind_group(at, group) : NULL;
    PyObject *value = values ? Py_XNewRef(PyDict_GetItemWithError(values, key)) : NULL;
    if (values && !value && !PyErr_Occurred())
        PyErr_SetString(at->state->corrupt_error, "a name is missing from its group");
    Py_XDECREF(group);
    Py_XDECREF(values);
    return value;
}

/* Take the exception away and remember why `key` is absent. */
static int
note_absent(binding *at, PyObject *key, const hf_entry *entry) {
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1; /* KeyboardInterrupt and such: not the value's fault */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *reason = value ? PyObject_Str(value) : PyUnicode_FromString("unknown");
    int failed = !reason || PyDict_SetItem(at->absent, key, reason) < 0 ||
                 !set_record(at, key, entry, HFI_SKIPPED);
    Py_XDECREF(reason);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return failed ? -1 : 0;
}

static int
bind_or_note(binding *at, PyObject *key, const hf_entry *entry) {
    PyObject *value = bind_key(at, key, entry);
    if (!value)
        return note_absent(at, key, entry);
    Py_DECREF(value);
    return 0;
}

/* ---- baselines
 * ---------------------------------------------------------------------------- */

static int
own_from(binding *at, PyObject *key, PyObject *value, int is_group) {
    if (PySet_Clear(at->own) < 0)
        return -1;
    if (!is_group)
        return hfi_key_kind(key) == 'c' ? PySet_Add(at->own, value) : 0;
    PyObject *name, *member;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, &name, &member))
        if (hfi_key_kind(name) == 'c' && PySet_Add(at->own, member) < 0)
            return -1;
    return 0;
}

/* Of the names of a group: each one's entry says only its group and type. */
static int
take_member_baselines(binding *at, hfi_entry_sink *sink, PyObject *group,
                      PyObject *values) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(values, &position, &name, &value)) {
        hfi_record *record =
            (hfi_record *)(void *)PyDict_GetItemWithError(at->names->records, name);
        if (record && record->group &&
            (hfi_member_encode(at->state, sink, value, group) < 0 ||
             hfi_record_take(record, at->names->attachment, sink, HF_CODEC_MEMBER) < 0))
            return -1;
    }
    return 0;
}

/* What can't be encoded again is declined at the next save, not here. */
static int
take_baseline(binding *at, hfi_entry_sink *sink, PyObject *key, PyObject *value) {
    hfi_record *record =
        (hfi_record *)(void *)PyDict_GetItemWithError(at->names->records, key);
    if (!record || record->object)
        return 0;
    int is_group = hfi_key_kind(key) == 'g';
    const hf_codec *codec = NULL;
    hf_error error = HF_ERROR_INIT;
    if (own_from(at, key, value, is_group) < 0)
        return -1;
    hf_status status = hfi_names_encode(at->state, sink, value, &codec, &error);
    if (status == HF_OK &&
        hfi_record_take(record, at->names->attachment, sink, codec->number) < 0)
        return -1;
    if (is_group && take_member_baselines(at, sink, key, value) < 0)
        return -1;
    return PyErr_Occurred() ? -1 : 0;
}

static int
take_baselines(binding *at) {
    hfi_entry_sink sink;
    PyObject *key, *value;
    Py_ssize_t position = 0;
    int failed = 0;
    hfi_entry_sink_init(&sink, at->names->attachment->session);
    while (!failed && PyDict_Next(at->decoded, &position, &key, &value))
        failed = take_baseline(at, &sink, key, value) < 0;
    hfi_entry_sink_fini(&sink);
    return failed ? -1 : 0;
}

/* ---- entries in order
 * -------------------------------------------------------------------- */

typedef struct entry_list {
    hf_entry *entries;
    size_t count;
    size_t room;
} entry_list;

static int
list_add(void *context, const hf_entry *entry) {
    entry_list *list = context;
    if (list->count == list->room) {
        size_t room = list->room * 2 + 64;
        hf_entry *entries = realloc(list->entries, room * sizeof *entries);
        if (!entries)
            return HF_STOP;
        list->entries = entries;
        list->room = room;
    }
    list->entries[list->count++] = *entry;
    return 0;
}

static int
by_sequence(const void *one, const void *other) {
    const hf_entry *left = one, *right = other;
    return (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

static int
list_entries(hfi_state *state, hf_snapshot *snapshot, entry_list *ret_list) {
    *ret_list = (entry_list){NULL, 0, 0};
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_snapshot_each(snapshot, list_add, ret_list, &error);
    if (status != HF_OK) {
        free(ret_list->entries);
        hfi_raise(state, status, &error);
        return -1;
    }
    if (ret_list->count)
        qsort(ret_list->entries, ret_list->count, sizeof *ret_list->entries,
              by_sequence);
    return 0;
}

/* ---- bind
 * ---------------------------------------------------------------------------------- */

/* Is an imported module's name as cheap as a mapping? Yes: binding it imports nothing.
 */
static int
is_wanted(binding *at, PyObject *key, const hf_entry *entry) {
    if (!at->wanted || (entry->flags & HFI_ENTRY_MAPPED))
        return 1;
    return PySet_Contains(at->wanted, key);
}

static int
bind_entry(binding *at, const hf_entry *entry) {
    PyObject *key = hfi_key_decode(entry);
    if (!key)
        return -1;
    hfi_record *known =
        (hfi_record *)(void *)PyDict_GetItemWithError(at->names->records, key);
    int result = 0;
    if (known && known->state == HFI_BOUND) {
        Py_DECREF(key);
        return 0;
    }
    int wanted = hfi_key_kind(key) == 'n' ? is_wanted(at, key, entry) : 0;
    if (wanted > 0)
        result = bind_or_note(at, key, entry);
    else if (wanted < 0 || !set_record(at, key, entry, HFI_SKIPPED))
        result = -1;
    if (!wanted && hfi_key_kind(key) == 'n')
        at->skipped++;
    Py_DECREF(key);
    return result;
}

static int
bind_all(binding *at) {
    entry_list list;
    if (list_entries(at->state, at->names->snapshot, &list) < 0)
        return -1;
    int failed = 0;
    for (size_t i = 0; i < list.count && !failed; i++)
        failed = bind_entry(at, &list.entries[i]) < 0;
    free(list.entries);
    return failed ? -1 : 0;
}

/* ---- adopt
 * -----------------------------------------------------------------------------------
 */

typedef struct difference {
    entry_list changed;
    PyObject *removed; /* list of keys */
    int failed;
} difference;

static int
difference_add(void *context, const hf_entry *before, const hf_entry *after) {
    difference *found = context;
    if (after) {
        found->failed |= list_add(&found->changed, after);
    } else {
        PyObject *key = hfi_key_decode(before);
        found->failed |= !key || PyList_Append(found->removed, key) < 0;
        Py_XDECREF(key);
    }
    return found->failed ? HF_STOP : 0;
}

static int
adopt_removed(binding *at, PyObject *keys, PyObject *removed) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        hfi_record *record =
            (hfi_record *)(void *)PyDict_GetItemWithError(at->names->records, key);
        if (!record)
            continue;
        int bound = record->state == HFI_BOUND && hfi_key_kind(key) == 'n';
        if (PyDict_DelItem(at->names->records, key) < 0)
            return -1;
        if (!bound)
            continue;
        if (PyDict_Contains(at->namespace, key) == 1 &&
            PyDict_DelItem(at->namespace, key) < 0)
            return -1;
        if (PyList_Append(removed, key) < 0)
            return -1;
    }
    return 0;
}

/* Names first told as skipped, then bound: a group in between binds several at once. */
static int
adopt_changed(binding *at, const entry_list *list) {
    int result = 0;
    for (size_t i = 0; i < list->count && result == 0; i++) {
        PyObject *key = hfi_key_decode(&list->entries[i]);
        if (!key || !set_record(at, key, &list->entries[i], HFI_SKIPPED))
            result = -1;
        Py_XDECREF(key);
    }
    for (size_t i = 0; i < list->count && result == 0; i++) {
        const hf_entry *entry = &list->entries[i];
        PyObject *key = hfi_key_decode(entry);
        if (!key)
            return -1;
        int kind = hfi_key_kind(key), done = PyDict_Contains(at->decoded, key);
        hfi_record *record =
            (hfi_record *)(void *)PyDict_GetItemWithError(at->names->records, key);
        if (done || (record && record->state == HFI_BOUND))
            result = done < 0 ? -1 : 0;
        else if (kind == 'n' || kind == 'c')
            result = bind_or_note(at, key, entry);
        else if (kind == 'g') {
            PyObject *values = bind_group(at, key);
            result = values ? 0 : note_absent(at, key, entry);
            Py_XDECREF(values);
        }
        Py_DECREF(key);
    }
    return result;
}

static int
adopt_difference(binding *at, PyObject *removed) {
    hfi_names *names = at->names;
    hf_snapshot *before = names->snapshot;
    names->snapshot = NULL;
    if (hfi_names_advance(at->state, names) < 0) {
        names->snapshot = before;
        return -1;
    }
    difference found = {{NULL, 0, 0}, PyList_New(0), 0};
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_E_NOMEM;
    if (found.removed)
        status =
            hf_snapshot_diff(before, names->snapshot, difference_add, &found, &error);
    int failed = status != HF_OK || found.failed;
    if (failed)
        hfi_raise(at->state, status < 0 ? status : HF_E_NOMEM, &error);
    if (!failed && found.changed.count)
        qsort(found.changed.entries, found.changed.count, sizeof(hf_entry),
              by_sequence);
    failed = failed || adopt_removed(at, found.removed, removed) < 0 ||
             adopt_changed(at, &found.changed) < 0;
    free(found.changed.entries);
    Py_XDECREF(found.removed);
    hf_snapshot_release(before);
    return failed ? -1 : 0;
}

/* ---- the methods
 * ---------------------------------------------------------------------------- */

static double
now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int
binding_init(binding *at, PyObject *self, PyObject *namespace, PyObject *wanted) {
    *at = (binding){.state = hfi_state_of(Py_TYPE(self)),
                    .names = (hfi_names *)(void *)self,
                    .self = self,
                    .namespace = namespace,
                    .own = PySet_New(NULL),
                    .absent = PyDict_New(),
                    .decoded = PyDict_New(),
                    .bound = PySet_New(NULL)};
    if (wanted && wanted != Py_None && !(at->wanted = PySet_New(wanted)))
        return -1;
    return at->own && at->absent && at->decoded && at->bound ? 0 : -1;
}

static void
binding_fini(binding *at) {
    Py_XDECREF(at->own);
    Py_XDECREF(at->wanted);
    Py_XDECREF(at->absent);
    Py_XDECREF(at->decoded);
    Py_XDECREF(at->bound);
}

static PyObject *
report(const binding *at, double start) {
    Py_ssize_t decoded = 0, position = 0;
    PyObject *key, *value;
    while (PyDict_Next(at->decoded, &position, &key, &value)) {
        hfi_record *record =
            (hfi_record *)(void *)PyDict_GetItemWithError(at->names->records, key);
        decoded += record && record->codec != HF_CODEC_BUFFER;
    }
    return Py_BuildValue("{s:n,s:n,s:K,s:K,s:d,s:O}", "bound",
                         PySet_GET_SIZE(at->bound), "decoded", decoded, "skipped",
                         (unsigned long long)at->skipped, "bytes_mapped",
                         (unsigned long long)at->bytes_mapped, "seconds",
                         now_seconds() - start, "absent", at->absent);
}

PyObject *
hfi_names_bind(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"namespace", "names", NULL};
    PyObject *namespace, *wanted = NULL, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$O:bind", words, &PyDict_Type,
                                     &namespace, &wanted))
        return NULL;
    double start = now_seconds();
    binding at;
    hfi_names *names = (hfi_names *)(void *)self;
    if (binding_init(&at, self, namespace, wanted) == 0) {
        PyObject *before = hfi_carry_enter(self, namespace, at.own);
        names->binding = &at;
        if (before &&
            (PyDict_GET_SIZE(names->records) ||
             hfi_names_advance(at.state, names) == 0) &&
            bind_all(&at) == 0 && take_baselines(&at) == 0)
            result = report(&at, start);
        names->binding = NULL;
        if (before)
            hfi_carry_leave(before);
    }
    binding_fini(&at);
    return result;
}

PyObject *
hfi_names_adopt(PyObject *self, PyObject *namespace) {
    if (!PyDict_Check(namespace)) {
        PyErr_SetString(PyExc_TypeError, "a namespace is a dict");
        return NULL;
    }
    double start = now_seconds();
    binding at;
    hfi_names *names = (hfi_names *)(void *)self;
    PyObject *result = NULL, *removed = PyList_New(0);
    if (removed && binding_init(&at, self, namespace, NULL) == 0) {
        PyObject *before = hfi_carry_enter(self, namespace, at.own);
        names->binding = &at;
        if (before && adopt_difference(&at, removed) == 0 && take_baselines(&at) == 0)
            result = report(&at, start);
        PyObject *changed = result ? PySequence_List(at.bound) : NULL;
        if (result &&
            (!changed || PyDict_SetItemString(result, "changed", changed) < 0 ||
             PyDict_SetItemString(result, "removed", removed) < 0))
            Py_CLEAR(result);
        Py_XDECREF(changed);
        names->binding = NULL;
        if (before)
            hfi_carry_leave(before);
    }
    binding_fini(&at);
    Py_XDECREF(removed);
    return result;
}

/* A class that a pickle refers to: from its own entry, or from the group it is in. */
PyObject *
hfi_names_load_class(PyObject *self, PyObject *identifier) {
    binding *at = ((hfi_names *)(void *)self)->binding;
    if (!at) {
        PyErr_SetString(PyExc_RuntimeError, "no binding is going on");
        return NULL;
    }
    PyObject *key = PyUnicode_FromFormat("%c%c%U", HFI_KEY_GROUP, 'c', identifier);
    hf_entry entry;
    int found = key ? find(at, key, &entry) : -1;
    PyObject *value = found > 0 ? bind_key(at, key, &entry) : NULL;
    if (found == 0)
        PyErr_SetString(at->state->error, "its class isn't in the store");
    Py_XDECREF(key);
    return value;
}

PyObject *
hfi_names_extra(PyObject *self, PyObject *word) {
    if (!PyUnicode_Check(word)) {
        PyErr_SetString(PyExc_TypeError, "process state is named by a str");
        return NULL;
    }
    hfi_names *names = (hfi_names *)(void *)self;
    if (PyDict_GET_SIZE(names->records) == 0 &&
        hfi_names_advance(hfi_state_of(Py_TYPE(self)), names) < 0)
        return NULL;
    binding at = {.state = hfi_state_of(Py_TYPE(self)), .names = names, .self = self};
    PyObject *key = PyUnicode_FromFormat("%c%U", HFI_KEY_EXTRA, word);
    hf_entry entry;
    int found = key ? find(&at, key, &entry) : -1;
    PyObject *value = found > 0 ? decode(&at, &entry) : NULL;
    Py_XDECREF(key);
    return found == 0 ? Py_NewRef(Py_None) : value;
}

static PyObject *
listing_item(hfi_state *state, const hf_entry *entry, PyObject *key) {
    const hf_codec *codec = hf_registry_find(state->registry, entry->codec);
    PyObject *type = NULL;
    PyObject *where =
        entry->codec == HF_CODEC_MEMBER ? hfi_member_group(entry) : Py_NewRef(Py_None);
    PyObject *carry = where ? PyImport_ImportModule("holdfast._carry") : NULL;
    if (carry)
        type = PyObject_CallMethod(
            carry, "type_of", "Iy#y#", entry->codec, entry->meta,
            (Py_ssize_t)entry->meta_size, entry->payload ? entry->payload : "",
            (Py_ssize_t)(entry->payload_size < 16 ? entry->payload_size : 16));
    Py_XDECREF(carry);
    if (!type) {
        Py_XDECREF(where);
        return NULL;
    }
    return Py_BuildValue(
        "{s:O,s:s,s:K,s:K,s:N,s:N}", "name", key, "codec",
        codec ? codec->name : (entry->codec == HF_CODEC_MEMBER ? "member" : "unknown"),
        "bytes", (unsigned long long)(entry->buffer_bytes + entry->payload_size),
        "generation", (unsigned long long)entry->generation, "type", type, "where",
        where);
}

PyObject *
hfi_names_listing(PyObject *self, PyObject *ignored) {
    (void)ignored;
    hfi_names *names = (hfi_names *)(void *)self;
    hfi_state *state = hfi_state_of(Py_TYPE(self));
    entry_list list;
    if (list_entries(state, names->snapshot, &list) < 0)
        return NULL;
    PyObject *result = PyList_New(0);
    for (size_t i = 0; result && i < list.count; i++) {
        PyObject *key = hfi_key_decode(&list.entries[i]);
        PyObject *item = key ? listing_item(state, &list.entries[i], key) : NULL;
        if (!item || PyList_Append(result, item) < 0)
            Py_CLEAR(result);
        Py_XDECREF(key);
        Py_XDECREF(item);
    }
    free(list.entries);
    return result;
}
