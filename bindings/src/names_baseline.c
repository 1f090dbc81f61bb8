/* names_baseline.c - what this process's own encodings of the bound values are.
 *
 * After decoding, each value is encoded again to learn the digest that this process's
 * own encoding has: pickles of equal values differ between processes (the order of
 * sets, which strings are one object), and only the same process's two encodings can
 * tell whether a cell changed a value. It costs a fraction of the decoding. Digests of
 * what the store holds were rejected for that reason: every set would look changed.
 */
#include "names_bind.h"

static int
own_from(hfi_binding *at, PyObject *key, PyObject *value, int is_group) {
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
take_member_baselines(hfi_binding *at, hfi_entry_sink *sink, PyObject *group,
                      PyObject *values) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(values, &position, &name, &value)) {
        hfi_record *record = hfi_binding_record(at, name);
        if (record && record->group &&
            (hfi_member_encode(at->state, sink, value, group) < 0 ||
             hfi_record_take(record, at->names->attachment, sink, HF_CODEC_MEMBER) < 0))
            return -1;
    }
    return 0;
}

/* What can't be encoded again is declined at the next save, not here. */
static int
take_baseline(hfi_binding *at, hfi_entry_sink *sink, PyObject *key, PyObject *value) {
    hfi_record *record = hfi_binding_record(at, key);
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

int
hfi_binding_take_baselines(hfi_binding *at) {
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
