/* names_sweep.c - what leaves the store with a save.
 *
 * A bound name that the namespace lacks was deleted by the user. A skipped one was
 * never there, so its absence says nothing. Groups and classes have no name of their
 * own: they stay while a record that stays refers to them, directly or through another
 * class, and are swept when nothing does. Most saves have neither, and then nothing is
 * marked.
 *
 * Nothing else can refer to them, since an encoding's meta lists the classes that it
 * needs. Counting references instead would have to be right across crashes and
 * conflicts; marking starts from what is there.
 */
#include "names_save.h"

static int
forget_declined(hfi_save *at) {
    PyObject *names = PyDict_Keys(at->names->reasons);
    for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names); i++) {
        PyObject *name = PyList_GET_ITEM(names, i);
        if (PyDict_Contains(at->namespace, name) == 0 &&
            (PyDict_DelItem(at->names->reasons, name) < 0 ||
             PyDict_DelItem(at->names->declined, name) < 0))
            Py_CLEAR(names);
    }
    Py_XDECREF(names);
    return names ? 0 : -1;
}

/* -1, or 0 with the user's deletions in `removed`. */
static int
remove_deleted(hfi_save *at) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(at->names->records, &position, &key, &value)) {
        hfi_record *record = (hfi_record *)(void *)value;
        if (hfi_key_kind(key) != 'n' || record->state != HFI_BOUND ||
            PyDict_Contains(at->namespace, key) != 0)
            continue;
        if (hfi_save_remove(at, key) < 0 || PyList_Append(at->removed, key) < 0)
            return -1;
    }
    return forget_declined(at);
}

/* Mark what the records that stay refer to: groups, classes, and theirs in turn. */
static int
mark(hfi_save *at, PyObject *live, PyObject *key, hfi_record *record) {
    int kind = hfi_key_kind(key);
    if (kind == 'g' || kind == 'c') { /* nothing refers to the others */
        int known = PySet_Contains(live, key);
        if (known)
            return known < 0 ? -1 : 0;
        if (PySet_Add(live, key) < 0)
            return -1;
    }
    if (record->group) {
        hfi_record *group = hfi_save_record_after(at, record->group);
        if (group && mark(at, live, record->group, group) < 0)
            return -1;
    }
    for (Py_ssize_t i = 0; record->classes && i < PyTuple_GET_SIZE(record->classes);
         i++) {
        PyObject *class_key = PyUnicode_FromFormat(
            "%c%c%U", HFI_KEY_GROUP, 'c', PyTuple_GET_ITEM(record->classes, i));
        hfi_record *class_record =
            class_key ? hfi_save_record_after(at, class_key) : NULL;
        int failed =
            !class_key || (class_record && mark(at, live, class_key, class_record) < 0);
        Py_XDECREF(class_key);
        if (failed)
            return -1;
    }
    return 0;
}

static int
has_swept_kinds(PyObject *records) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(records, &position, &key, &value)) {
        int kind = hfi_key_kind(key);
        if (kind == 'g' || kind == 'c')
            return 1;
    }
    return 0;
}

static int
remove_unreferred(hfi_save *at) {
    if (!has_swept_kinds(at->names->records) && !has_swept_kinds(at->names->pending))
        return 0;
    PyObject *keys = PyDict_Keys(at->names->records), *live = PySet_New(NULL);
    PyObject *pending = PyDict_Keys(at->names->pending);
    int failed = !keys || !live || !pending ||
                 PyList_SetSlice(keys, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, pending) < 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        int kind = hfi_key_kind(key);
        hfi_record *record = hfi_save_record_after(at, key);
        if (record && (kind == 'n' || kind == 'x'))
            failed = mark(at, live, key, record) < 0;
    }
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        int kind = hfi_key_kind(key);
        if ((kind == 'g' || kind == 'c') && hfi_save_record_after(at, key) &&
            PySet_Contains(live, key) == 0)
            failed = hfi_save_remove(at, key) < 0;
    }
    Py_XDECREF(keys);
    Py_XDECREF(live);
    Py_XDECREF(pending);
    return failed ? -1 : 0;
}

int
hfi_save_sweep(hfi_save *at) {
    return remove_deleted(at) < 0 || remove_unreferred(at) < 0 ? -1 : 0;
}
