/* names.c - one process's knowledge of the names in the store.
 *
 * For every key of the store there is a record (record.c). The records are of one
 * generation, whose snapshot is held. A save compares the namespace with the records
 * and prepares a commit of what differs. The records that will hold after the
 * publication are in `pending`. A bind fills a namespace from the snapshot, and the
 * records with what it bound.
 *
 * A name is in one of three states. Bound: the value in the namespace was in the store.
 * Skipped: the name is in the store and was not decoded here. Saving keeps it unless
 * the user bound the name anew. Unserializable: no codec encodes its value. It lives in
 * this process only, and the reason is kept. Deleting a bound name removes it from the
 * store. A skipped one can't be deleted, since the namespace never had it.
 */
#include "names.h"

#include <string.h>

#include "imported.h"
#include "names_format.h"

int
hfi_names_begin(hfi_names *names) {
    if (names->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "a save or a bind is going on");
        return -1;
    }
    names->is_busy = 1;
    return 0;
}

void
hfi_names_end(hfi_names *names) {
    names->is_busy = 0;
}

int
hfi_names_find(hfi_state *state, const hfi_names *names, PyObject *key,
               hf_entry *ret_entry) {
    Py_ssize_t size = 0;
    const char *text = hfi_key_bytes(key, &size);
    if (!text)
        return -1;
    hf_error error;
    hfi_error_init(&error);
    hf_status status =
        hf_snapshot_find(names->snapshot, text, (size_t)size, ret_entry, &error);
    if (status == HF_OK || status == HF_NOT_FOUND)
        return status == HF_OK;
    hfi_raise(state, status, &error);
    return -1;
}

hfi_record *
hfi_names_record_of(const hfi_names *names, PyObject *key) {
    hfi_record *record = hfi_records_find(&names->records, key);
    PyObject *group = record ? hfi_record_group(record) : NULL;
    return group ? hfi_records_find(&names->records, group) : record;
}

hf_snapshot *
hfi_names_current(hfi_state *state, const hfi_names *names) {
    hf_snapshot *snapshot = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hf_snapshot_acquire(names->attachment->session, &snapshot, &error);
    Py_END_ALLOW_THREADS
    return status == HF_OK ? snapshot : hfi_raise(state, status, &error);
}

static void
hold_snapshot(hfi_names *names, hf_snapshot *snapshot) {
    hf_snapshot_release(names->snapshot);
    names->snapshot = snapshot;
}

hf_snapshot *
hfi_names_named(hfi_state *state, const hfi_names *names, const char *name,
                Py_ssize_t size) {
    hf_generation generation;
    hf_snapshot *snapshot = NULL;
    hf_error error = HF_ERROR_INIT;
    if (size == 0)
        return hfi_names_current(state, names);
    if (size != sizeof generation) {
        PyErr_SetString(PyExc_ValueError, "these bytes name no generation");
        return NULL;
    }
    memcpy(&generation, name, sizeof generation);
    hf_status status =
        hf_snapshot_import(names->attachment->session, &generation, &snapshot, &error);
    return status == HF_OK ? snapshot : hfi_raise(state, status, &error);
}

int
hfi_names_begin_with_current(hfi_state *state, hfi_names *names) {
    if (names->records.live || names->is_named)
        return 0;
    hf_snapshot *snapshot = hfi_names_current(state, names);
    if (snapshot)
        hold_snapshot(names, snapshot);
    return snapshot ? 0 : -1;
}

static int
note_difference(void *context, const hf_entry *before, const hf_entry *after) {
    (void)before, (void)after;
    *(int *)context = 1;
    return HF_STOP;
}

int
hfi_names_follow(hfi_state *state, hfi_names *names) {
    int differs = 0;
    hf_error error = HF_ERROR_INIT;
    hf_snapshot *snapshot = hfi_names_current(state, names);
    if (!snapshot)
        return -1;
    hf_status status =
        hf_snapshot_diff(names->snapshot, snapshot, note_difference, &differs, &error);
    if (status == HF_OK && !differs) {
        hold_snapshot(names, snapshot);
        return 1;
    }
    hf_snapshot_release(snapshot);
    if (status == HF_OK)
        return 0;
    hfi_raise(state, status, &error);
    return -1;
}

int
hfi_names_take_published(hfi_state *state, hfi_names *names) {
    if (!names->published)
        return 0;
    if (hfi_records_reserve(&names->records, names->pending.live) < 0)
        return -1;
    hf_snapshot *snapshot = hfi_names_named(
        state, names, (const char *)&names->published_name, names->published_size);
    if (!snapshot)
        return -1;
    if (hf_snapshot_generation(snapshot) != names->published) {
        hf_snapshot_release(snapshot);
        return 0;
    }
    hold_snapshot(names, snapshot);
    int failed = hfi_records_merge(&names->records, &names->pending) < 0;
    hfi_names_drop_pending(names);
    return failed ? -1 : 0;
}

void
hfi_names_drop_pending(hfi_names *names) {
    hfi_records_fini(&names->pending);
    names->is_pending = 0;
    names->published = 0;
}

int
hfi_names_set_unserializable(hfi_names *names, PyObject *key, PyObject *value,
                             PyObject *reason) {
    PyObject *address = PyLong_FromVoidPtr(value);
    int failed = !address || PyDict_SetItem(names->reasons, key, reason) < 0 ||
                 PyDict_SetItem(names->unserializable, key, address) < 0;
    Py_XDECREF(address);
    return failed ? -1 : 0;
}

int
hfi_names_remove_unserializable(hfi_names *names, PyObject *key) {
    int known = PyDict_Contains(names->reasons, key);
    if (known != 1)
        return known;
    return PyDict_DelItem(names->reasons, key) < 0 ||
                   PyDict_DelItem(names->unserializable, key) < 0
               ? -1
               : 0;
}

PyObject *
hfi_context_enter(hfi_names *names, PyObject *namespace, PyObject *own) {
    PyObject *context = hfi_imported("holdfast.carry.context");
    PyObject *before =
        context ? PyObject_CallMethod(context, "enter", "OOO", names, namespace, own)
                : NULL;
    Py_XDECREF(context);
    return before;
}

void
hfi_context_leave(PyObject *before) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *context = hfi_imported("holdfast.carry.context");
    PyObject *done =
        context ? PyObject_CallMethod(context, "leave", "(O)", before) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(context);
    Py_DECREF(before);
    PyErr_Restore(type, value, traceback);
}
