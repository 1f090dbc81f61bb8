/* names_scan.c - which names a save looks at.
 *
 * It looks at all names that are carried. If the caller says which names code can have
 * touched since the last save, it looks only at those, and at values that may have
 * changed without being named. A name is skipped if all of this holds:
 *
 *   - no code that ran since has reached it (`touched`, worker/analysis/touched.py);
 *   - it is bound to the object that it was bound to when it was last looked at;
 *   - it was closed then: each reference to each object in it came from its own group,
 *     from the namespace or from IPython's memory of results. So no library, thread or
 *     C object had a way to it, and none can have got one since without code that
 *     reached the name (graph.c);
 *   - the same is true of all names of its group.
 *
 * So the walk from a touched name cannot reach an object of a name that was skipped:
 * the code that linked the two must have had both. So groups stay right without an
 * index from objects to groups.
 *
 * If the caller asks to verify, names that would be skipped are looked at, too, and
 * marked. One that has changed proves one of these statements wrong.
 *
 * Unchangeable objects that are still the same are always skipped. Classes of the
 * notebook are always looked at: their instances may be anywhere, and change them.
 */
#include "names_stages.h"

#include <stdlib.h>

#include "names_format.h"

typedef struct scanning {
    const hfi_names *names;
    const hfi_scan_request *wanted;
    hfi_scan *found;
    PyObject *hot_groups; /* set of keys: groups with a name that is looked at */
    size_t member_room, other_room;
} scanning;

/* 1: a name that is carried; 0: not; -1 with an exception. */
static int
is_carried(scanning *at, PyObject *key) {
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
    int hidden = PySet_GET_SIZE(at->wanted->hidden)
                     ? PySet_Contains(at->wanted->hidden, key)
                     : 0;
    return hidden < 0 ? -1 : !hidden;
}

static hfi_record *
scanned_record(const scanning *at, PyObject *key) {
    return hfi_records_find(&at->names->records, key);
}

/* 1 if nothing can have changed the value since it was last looked at. */
static int
is_untouched(scanning *at, PyObject *key, PyObject *value, const hfi_record *record) {
    if (!at->wanted->touched || !record || record->state != HFI_BOUND ||
        !record->is_closed || record->bound != value)
        return 0;
    int touched = PySequence_Contains(at->wanted->touched, key);
    return touched < 0 ? -1 : !touched;
}

/* If one name of a group is looked at, the whole group is. */
static int
heat_group(scanning *at, const hfi_record *record) {
    PyObject *group = record ? hfi_record_group(record) : NULL;
    return group ? PySet_Add(at->hot_groups, group) : 0;
}

static int
add_other(scanning *at, PyObject *value) {
    if (at->found->other_count == at->other_room) {
        size_t room = at->other_room * 2 + 64;
        PyObject **others = realloc(at->found->others, room * sizeof(PyObject *));
        if (!others) {
            PyErr_NoMemory();
            return -1;
        }
        at->found->others = others;
        at->other_room = room;
    }
    at->found->others[at->found->other_count++] = Py_NewRef(value);
    return 0;
}

/* The object that is saved for a value, borrowed: the value itself, or the caller's
 * stand-in. NULL with an exception. */
static PyObject *
saved_for(const scanning *at, PyObject *value) {
    PyObject *stand_ins = at->wanted->stand_ins;
    if (!stand_ins || PyDict_GET_SIZE(stand_ins) == 0 ||
        !(PyList_CheckExact(value) || PyDict_CheckExact(value)))
        return value;
    PyObject *identity = PyLong_FromVoidPtr(value);
    PyObject *other = identity ? PyDict_GetItemWithError(stand_ins, identity) : NULL;
    Py_XDECREF(identity);
    return other || PyErr_Occurred() ? other : value;
}

static int
collect_name(scanning *at, PyObject *key, PyObject *value) {
    int carried = is_carried(at, key);
    if (carried <= 0)
        return carried < 0 ? -1 : add_other(at, value);
    value = saved_for(at, value);
    if (!value)
        return -1;
    hfi_record *record = scanned_record(at, key);
    if (record && record->is_held && record->bound == value)
        return 0;
    int untouched = is_untouched(at, key, value, record);
    if (untouched < 0 || (!untouched && heat_group(at, record) < 0))
        return -1;
    int verified = untouched && !hfi_record_group(record);
    if (verified && !at->wanted->verify)
        return 0;
    if (at->found->count == at->member_room) {
        PyErr_SetString(PyExc_RuntimeError, "the namespace changed while it was read");
        return -1;
    }
    at->found->members[at->found->count++] =
        (hfi_member){.key = Py_NewRef(key),
                     .value = Py_NewRef(value),
                     .is_untouched = untouched && !verified,
                     .is_verified = (uint8_t)verified};
    return 0;
}

/* The objects in IPython's memory of results, once for each reference. */
static int
collect_holders(scanning *at) {
    for (Py_ssize_t i = 0;
         at->wanted->holders && i < PyTuple_GET_SIZE(at->wanted->holders); i++) {
        PyObject *key, *value, *holder = PyTuple_GET_ITEM(at->wanted->holders, i);
        Py_ssize_t position = 0;
        while (PyDict_Check(holder) && PyDict_Next(holder, &position, &key, &value))
            if (add_other(at, value) < 0)
                return -1;
    }
    return 0;
}

static int
add_class(scanning *at, PyObject *key) {
    PyObject *carry = PyImport_ImportModule("holdfast.carry.pickling");
    PyObject *found = carry ? PyObject_CallMethod(carry, "class_of", "O", key) : NULL;
    int failed =
        !found || (found != Py_None && PyList_Append(at->found->classes, found) < 0);
    Py_XDECREF(found);
    Py_XDECREF(carry);
    return failed ? -1 : 0;
}

/* A class is looked at, with its group. If a name was deleted, its group remains and
 * must shrink. */
static int
collect_records(scanning *at) {
    hfi_record *record;
    for (size_t position = 0;
         (record = hfi_records_next(&at->names->records, &position));) {
        PyObject *key = record->key;
        int kind = hfi_key_kind(key);
        if (record->state != HFI_BOUND || (kind != 'c' && !hfi_record_group(record)))
            continue;
        if (kind == 'c' && add_class(at, key) < 0)
            return -1;
        if ((kind == 'c' || PyDict_Contains(at->wanted->namespace, key) == 0) &&
            heat_group(at, record) < 0)
            return -1;
    }
    return 0;
}

/* Remove names of groups in which nothing has to be looked at from the list. */
static int
drop_cold_groups(scanning *at) {
    size_t kept = 0;
    int failed = 0;
    for (size_t i = 0; i < at->found->count; i++) {
        hfi_member *one = &at->found->members[i];
        int hot = 1;
        if (one->is_untouched && !failed)
            hot = PySet_Contains(at->hot_groups,
                                 hfi_record_group(scanned_record(at, one->key)));
        failed |= hot < 0;
        if (!hot && at->wanted->verify) {
            one->is_untouched = 0;
            hot = one->is_verified = 1;
        }
        if (hot) {
            at->found->members[kept++] = *one;
            continue;
        }
        Py_DECREF(one->key);
        Py_DECREF(one->value);
    }
    at->found->count = kept;
    return failed ? -1 : 0;
}

static int
scan_namespace(scanning *at) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    int failed = 0;
    while (!failed && PyDict_Next(at->wanted->namespace, &position, &key, &value)) {
        Py_INCREF(key);
        Py_INCREF(value);
        failed = collect_name(at, key, value) < 0;
        Py_DECREF(key);
        Py_DECREF(value);
    }
    return failed ? -1 : 0;
}

int
hfi_scan_init(hfi_scan *ret_scan, const hfi_names *names,
              const hfi_scan_request *wanted) {
    scanning at = {.names = names, .wanted = wanted, .found = ret_scan};
    at.member_room = (size_t)PyDict_GET_SIZE(wanted->namespace);
    *ret_scan = (hfi_scan){.members = malloc((at.member_room + 1) * sizeof(hfi_member)),
                           .classes = PyList_New(0)};
    at.hot_groups = PySet_New(NULL);
    if (!ret_scan->members)
        PyErr_NoMemory();
    int failed = !ret_scan->members || !ret_scan->classes || !at.hot_groups ||
                 scan_namespace(&at) < 0 || collect_holders(&at) < 0;
    if (!failed && wanted->touched)
        failed = collect_records(&at) < 0 || drop_cold_groups(&at) < 0;
    Py_XDECREF(at.hot_groups);
    return failed ? -1 : 0;
}

void
hfi_scan_fini(hfi_scan *scan) {
    for (size_t i = 0; i < scan->count; i++) {
        Py_DECREF(scan->members[i].key);
        Py_DECREF(scan->members[i].value);
        Py_XDECREF(scan->members[i].group);
        Py_XDECREF(scan->members[i].meta);
    }
    for (size_t i = 0; i < scan->other_count; i++)
        Py_DECREF(scan->others[i]);
    free(scan->members);
    free(scan->others);
    Py_XDECREF(scan->classes);
}
