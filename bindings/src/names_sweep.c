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
    hfi_record *record;
    for (size_t position = 0;
         (record = hfi_records_next(&at->names->records, &position));) {
        PyObject *key = record->key;
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
    PyObject *group_key = hfi_record_group(record);
    if (group_key) {
        hfi_record *group = hfi_save_record_after(at, group_key);
        if (group && mark(at, live, group_key, group) < 0)
            return -1;
    }
    PyObject *classes = hfi_record_classes(record);
    for (Py_ssize_t i = 0; classes && i < PyTuple_GET_SIZE(classes); i++) {
        PyObject *class_key = PyUnicode_FromFormat("%c%c%U", HFI_KEY_GROUP, 'c',
                                                   PyTuple_GET_ITEM(classes, i));
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
has_swept_kinds(const hfi_records *records) {
    hfi_record *record;
    for (size_t position = 0; (record = hfi_records_next(records, &position));) {
        int kind = hfi_key_kind(record->key);
        if (kind == 'g' || kind == 'c')
            return 1;
    }
    return 0;
}

static int
add_keys(const hfi_records *records, PyObject *keys) {
    hfi_record *record;
    for (size_t position = 0; (record = hfi_records_next(records, &position));)
        if (PyList_Append(keys, record->key) < 0)
            return -1;
    return 0;
}

static int
remove_unreferred(hfi_save *at) {
    const hfi_names *names = at->names;
    if (!has_swept_kinds(&names->records) && !has_swept_kinds(&names->pending))
        return 0;
    PyObject *keys = PyList_New(0), *live = PySet_New(NULL);
    int failed = !keys || !live || add_keys(&names->records, keys) < 0 ||
                 add_keys(&names->pending, keys) < 0;
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
    return failed ? -1 : 0;
}

int
hfi_save_sweep(hfi_save *at) {
    return remove_deleted(at) < 0 || remove_unreferred(at) < 0 ? -1 : 0;
}
