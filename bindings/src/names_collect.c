/* names_collect.c - which names a save looks at.
 *
 * All that are carried; or, where the caller says which names code can have touched
 * since the last save, those alone, and what may have changed without being named. A
 * name is passed over when all of this holds:
 *
 *   - no code that ran since has reached it (`touched`, worker/analysis/touched.py);
 *   - it is bound to the object that it was bound to when it was last looked at;
 *   - it was closed then: each reference to each object in it came from its own group,
 *     from the namespace or from IPython's memory of results. So no library, thread or
 *     C object had a way to it, and none can have got one since without code that
 *     reached the name (graph.c);
 *   - the same is true of all names of its group.
 *
 * It follows that the walk from a touched name cannot run into an object of a name that
 * was passed over: the code that linked the two had to have both. So groups stay right
 * without an index from objects to groups.
 *
 * Where the caller asks to verify, names that would be passed over are looked at all
 * the same, and marked: one that has changed proves one of these sentences wrong.
 *
 * Unchangeable objects that are still the same are passed over in any case. Classes of
 * the notebook are always looked at: their instances may be anywhere, and change them.
 */
#include "names_save.h"

#include <stdlib.h>

/* 1: a name that is carried; 0: not; -1 with an exception. */
static int
is_carried(hfi_save *at, PyObject *key) {
    Py_ssize_t size = 0;
    if (!PyUnicode_CheckExact(key) || hfi_key_kind(key) != 'n' ||
        (PyUnicode_GET_LENGTH(key) == 12 &&
         PyUnicode_CompareWithASCIIString(key, "__builtins__") == 0))
        return 0;
    if (!hfi_key_bytes(key, &size)) {
        PyErr_Clear();
        return 0;
    }
    if (size < 1 || size > HF_KEY_SIZE_MAX)
        return 0;
    int hidden = PySet_GET_SIZE(at->hidden) ? PySet_Contains(at->hidden, key) : 0;
    return hidden < 0 ? -1 : !hidden;
}

/* 1 where nothing can have changed the value since it was last looked at. */
static int
is_untouched(hfi_save *at, PyObject *key, PyObject *value, const hfi_record *record) {
    if (!at->touched || !record || record->state != HFI_BOUND || !record->is_closed ||
        record->bound != value)
        return 0;
    int touched = PySequence_Contains(at->touched, key);
    return touched < 0 ? -1 : !touched;
}

/* A group with a name that is looked at is looked at as a whole. */
static int
heat(hfi_save *at, const hfi_record *record) {
    PyObject *group = record ? hfi_record_group(record) : NULL;
    return group ? PySet_Add(at->hot_groups, group) : 0;
}

static int
add_other(hfi_save *at, PyObject *value) {
    if (at->other_count == at->other_room) {
        size_t room = at->other_room * 2 + 64;
        PyObject **others = realloc(at->others, room * sizeof(PyObject *));
        if (!others) {
            PyErr_NoMemory();
            return -1;
        }
        at->others = others;
        at->other_room = room;
    }
    at->others[at->other_count++] = Py_NewRef(value);
    return 0;
}

static int
collect_name(hfi_save *at, PyObject *key, PyObject *value) {
    int carried = is_carried(at, key);
    if (carried <= 0)
        return carried < 0 ? -1 : add_other(at, value);
    hfi_record *record = hfi_save_record(at, key);
    if (record && record->is_held && record->bound == value)
        return 0;
    int untouched = is_untouched(at, key, value, record);
    if (untouched < 0 || (!untouched && heat(at, record) < 0))
        return -1;
    int verified = untouched && !hfi_record_group(record);
    if (verified && !at->verify)
        return 0;
    if (at->count == at->member_room) {
        PyErr_SetString(PyExc_RuntimeError, "the namespace changed while it was read");
        return -1;
    }
    at->members[at->count++] = (hfi_member){.key = Py_NewRef(key),
                                            .value = Py_NewRef(value),
                                            .is_untouched = untouched && !verified,
                                            .is_verified = (uint8_t)verified};
    return 0;
}

/* What IPython's memory holds: once for each reference. */
static int
collect_holders(hfi_save *at) {
    for (Py_ssize_t i = 0; at->holders && i < PyTuple_GET_SIZE(at->holders); i++) {
        PyObject *key, *value, *holder = PyTuple_GET_ITEM(at->holders, i);
        Py_ssize_t position = 0;
        while (PyDict_Check(holder) && PyDict_Next(holder, &position, &key, &value))
            if (add_other(at, value) < 0)
                return -1;
    }
    return 0;
}

static int
add_class(hfi_save *at, PyObject *key) {
    PyObject *carry = PyImport_ImportModule("holdfast._carry");
    PyObject *found = carry ? PyObject_CallMethod(carry, "class_of", "O", key) : NULL;
    int failed = !found || (found != Py_None && PyList_Append(at->classes, found) < 0);
    Py_XDECREF(found);
    Py_XDECREF(carry);
    return failed ? -1 : 0;
}

/* A class is looked at, and with it its group. A name that was deleted leaves its group
 * behind, which must shrink. */
static int
collect_records(hfi_save *at) {
    hfi_record *record;
    for (size_t position = 0;
         (record = hfi_records_next(&at->names->records, &position));) {
        PyObject *key = record->key;
        int kind = hfi_key_kind(key);
        if (record->state != HFI_BOUND || (kind != 'c' && !hfi_record_group(record)))
            continue;
        if (kind == 'c' && add_class(at, key) < 0)
            return -1;
        if ((kind == 'c' || PyDict_Contains(at->namespace, key) == 0) &&
            heat(at, record) < 0)
            return -1;
    }
    return 0;
}

/* Those of groups that turned out to have nothing to look at leave the list. */
static int
drop_cold_groups(hfi_save *at) {
    size_t kept = 0;
    int failed = 0;
    for (size_t i = 0; i < at->count; i++) {
        hfi_member *one = &at->members[i];
        int hot = 1;
        if (one->is_untouched && !failed)
            hot = PySet_Contains(at->hot_groups,
                                 hfi_record_group(hfi_save_record(at, one->key)));
        failed |= hot < 0;
        if (!hot && at->verify) {
            one->is_untouched = 0;
            hot = one->is_verified = 1;
        }
        if (hot) {
            at->members[kept++] = *one;
            continue;
        }
        Py_DECREF(one->key);
        Py_DECREF(one->value);
    }
    at->count = kept;
    return failed ? -1 : 0;
}

int
hfi_save_collect(hfi_save *at) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    at->member_room = (size_t)PyDict_GET_SIZE(at->namespace);
    at->members = malloc((at->member_room + 1) * sizeof *at->members);
    if (!at->members) {
        PyErr_NoMemory();
        return -1;
    }
    /* Nothing here runs the user's code, but a `hidden` of his own would. */
    while (PyDict_Next(at->namespace, &position, &key, &value))
        if (collect_name(at, key, value) < 0)
            return -1;
    if (collect_holders(at) < 0)
        return -1;
    if (!at->touched)
        return 0;
    return collect_records(at) < 0 || drop_cold_groups(at) < 0 ? -1 : 0;
}
