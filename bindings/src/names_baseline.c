/* names_baseline.c - what this process's own encodings of the classes are.
 *
 * A value that was decoded is known again by the entry that it came from
 * (names_stored.c). For a class of the notebook that won't do: decoding its entry a
 * second time would set back the class that is there. So right after decoding, a class
 * is encoded again to learn the digest that this process's own encoding has, and with
 * it a group that has a class in it. Classes are small.
 */
#include "names_bind.h"

#include "graph.h"

/* The classes among what was decoded go to `own`: 1 where there is one. */
static int
own_from(hfi_binding *at, PyObject *key, PyObject *value, int is_group) {
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

/* Of the names of a group: each one's entry says only its group and type. */
static int
take_member_baselines(hfi_binding *at, hfi_entry_sink *sink, PyObject *group,
                      PyObject *values) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(values, &position, &name, &value)) {
        hfi_record *record = hfi_binding_record(at, name);
        if (record && hfi_record_group(record) &&
            (hfi_member_encode(at->state, sink, value, group) < 0 ||
             hfi_record_take_digest(record, at->names->attachment, sink,
                                    HF_CODEC_MEMBER) < 0))
            return -1;
    }
    return 0;
}

/* What can't be encoded again is declined at the next save, not here. */
static int
take_baseline(hfi_binding *at, hfi_entry_sink *sink, PyObject *key, PyObject *value) {
    hfi_record *record = hfi_binding_record(at, key);
    if (!record || hfi_graph_is_atom(value))
        return 0;
    int is_group = hfi_key_kind(key) == 'g';
    const hf_codec *codec = NULL;
    hf_error error = HF_ERROR_INIT;
    int has_class = own_from(at, key, value, is_group);
    if (has_class <= 0)
        return has_class;
    hf_status status = hfi_names_encode(at->state, sink, value, key, &codec, &error);
    if (status == HF_OK &&
        hfi_record_take_digest(record, at->names->attachment, sink, codec->number) < 0)
        return -1;
    if (is_group && take_member_baselines(at, sink, key, value) < 0)
        return -1;
    return PyErr_Occurred() ? -1 : 0;
}

int
hfi_binding_take_baselines(hfi_binding *at) {
    if (!PyDict_GET_SIZE(at->decoded))
        return 0;
    /* A copy: encoding runs code that may decode another class. */
    PyObject *items = PyDict_Items(at->decoded);
    hfi_entry_sink sink;
    int failed = !items || hfi_binding_enter(at) < 0;
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
