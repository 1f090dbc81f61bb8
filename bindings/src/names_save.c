/* names_save.c - Names.save(): prepare a commit of what differs from the store.
 *
 * In order: choose the names to look at (names_collect.c); find and put groups, then
 * names (names_group.c, names_put.c); remove what is gone (names_sweep.c); prepare.
 *
 * Nothing is changed in `records`: what will hold once the commit is published stands
 * in `pending`. On any failure the commit is aborted and `pending` dropped, so that the
 * next save starts from the same place. Marking records as changed in place, and taking
 * it back on failure, was rejected: a commit may also be dropped after a good save.
 */
#include "names_save.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int
save_extra(hfi_save *at, PyObject *extra) {
    PyObject *word, *value;
    Py_ssize_t position = 0;
    while (extra && PyDict_Next(extra, &position, &word, &value)) {
        PyObject *key = PyUnicode_FromFormat("%c%U", HFI_KEY_EXTRA, word);
        uint32_t codec = 0;
        hf_status status = key ? hfi_save_encode(at, value, key, &codec) : HF_E_NOMEM;
        if (status == HF_DECLINED)
            PyErr_Format(at->state->error, "extra '%U' can't be carried: %s", word,
                         at->error.message);
        int failed = status != HF_OK || hfi_save_put(at, key, codec, NULL, NULL) < 0;
        Py_XDECREF(key);
        if (failed)
            return -1;
    }
    return 0;
}

/* New reference: a list, in the namespace's order; of those that `verify` looked at, or
 * of all. */
static PyObject *
saved_names(const hfi_save *at, int only_verified) {
    PyObject *names = PyList_New(0);
    for (size_t i = 0; names && i < at->count; i++) {
        const hfi_member *one = &at->members[i];
        if (one->is_saved && !one->is_class && (one->is_verified || !only_verified) &&
            PyList_Append(names, one->key) < 0)
            Py_CLEAR(names);
    }
    return names;
}

static PyObject *
prepare(hfi_save *at, hf_commit_stats *ret_stats) {
    memset(ret_stats, 0, sizeof *ret_stats);
    if (!at->commit)
        Py_RETURN_NONE;
    hf_prepared prepared;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    hf_commit_get_stats(at->commit, ret_stats);
    Py_BEGIN_ALLOW_THREADS status =
        hf_commit_prepare_consume(at->commit, &prepared, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK) return hfi_raise(at->state, status,
                                                               &error);
    at->commit = NULL;
    return PyBytes_FromStringAndSize((const char *)&prepared, sizeof prepared);
}

static PyObject *
run(hfi_save *at, PyObject *extra) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    hf_session_verify_pages(at->names->attachment->session, at->verify);
    if (hfi_save_collect(at) < 0 || hfi_save_members(at) < 0 ||
        save_extra(at, extra) < 0 || hfi_save_sweep(at) < 0)
        return NULL;
    hfi_save_count_declined(at);
    hf_commit_stats stats;
    uint64_t pages_overlooked =
        hf_session_verify_pages(at->names->attachment->session, 0);
    PyObject *prepared = prepare(at, &stats);
    if (!prepared)
        return NULL;
    if (prepared == Py_None)
        hfi_names_drop_pending(at->names);
    PyObject *declined = PyDict_Copy(at->names->reasons);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - start.tv_sec) +
                     (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:O,s:N,s:O,s:O,s:O,s:n,s:K,s:K,s:K,s:K,s:K,s:K,s:d}", "prepared",
        prepared, "saved", saved_names(at, 0), "overlooked", saved_names(at, 1),
        "removed", at->removed, "declined", declined, "code", at->code, "held",
        at->held, "numbers", at->numbers, "names_examined", (Py_ssize_t)at->count,
        "names_encoded", (unsigned long long)at->encoded, "decoded_again",
        (unsigned long long)at->decoded_again, "bytes_copied",
        (unsigned long long)stats.bytes_copied, "bytes_shared",
        (unsigned long long)stats.bytes_shared, "pages_changed",
        (unsigned long long)stats.pages_changed, "pages_overlooked",
        (unsigned long long)pages_overlooked, "seconds", seconds);
}

static int
open_save(hfi_save *at) {
    hfi_names *names = at->names;
    uint64_t now = hf_session_generation(names->attachment->session);
    if (now != hf_snapshot_generation(names->snapshot)) {
        PyErr_Format(
            at->state->conflict_error,
            "generation %llu was published; what is known here is %llu: adopt it "
            "first",
            (unsigned long long)now,
            (unsigned long long)hf_snapshot_generation(names->snapshot));
        return -1;
    }
    hfi_names_drop_pending(names);
    names->is_pending = 1;
    at->own = PySet_New(NULL);
    at->groups_used = PySet_New(NULL);
    at->lost_classes = PySet_New(NULL);
    at->removed = PyList_New(0);
    at->hot_groups = PySet_New(NULL);
    at->classes = PyList_New(0);
    at->code = PyDict_New();
    at->held = PyList_New(0);
    at->numbers = PyDict_New();
    return at->own && at->groups_used && at->lost_classes && at->removed &&
                   at->hot_groups && at->classes && at->code && at->held && at->numbers
               ? 0
               : -1;
}

static void
close_save(hfi_save *at) {
    hf_session_verify_pages(at->names->attachment->session, 0);
    for (size_t i = 0; i < at->count; i++) {
        Py_DECREF(at->members[i].key);
        Py_DECREF(at->members[i].value);
        Py_XDECREF(at->members[i].group);
    }
    for (size_t i = 0; i < at->other_count; i++)
        Py_DECREF(at->others[i]);
    free(at->members);
    free(at->walked);
    free(at->others);
    hfi_entry_sink_fini(&at->sink);
    hf_commit_abort(at->commit);
    Py_XDECREF(at->own);
    Py_XDECREF(at->groups_used);
    Py_XDECREF(at->lost_classes);
    Py_XDECREF(at->removed);
    Py_XDECREF(at->hot_groups);
    Py_XDECREF(at->classes);
    Py_XDECREF(at->code);
    Py_XDECREF(at->held);
    Py_XDECREF(at->numbers);
}

PyObject *
hfi_names_save(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"namespace", "hidden", "extra", "touched",
                            "holders",   "verify", NULL};
    PyObject *namespace, *hidden = NULL, *extra = NULL, *touched = NULL,
                         *holders = NULL;
    int verify = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O!|$OO!OO!p:save", words, &PyDict_Type, &namespace, &hidden,
            &PyDict_Type, &extra, &touched, &PyTuple_Type, &holders, &verify))
        return NULL;
    if (touched && touched != Py_None && !PyAnySet_CheckExact(touched))
        return PyErr_Format(PyExc_TypeError, "touched is a set or None");
    hfi_names *names = (hfi_names *)(void *)self;
    hfi_save at = {.state = hfi_state_of(Py_TYPE(self)),
                   .names = names,
                   .namespace = namespace,
                   .touched = touched == Py_None ? NULL : touched,
                   .holders = holders,
                   .verify = verify,
                   .hidden = PyFrozenSet_New(hidden)};
    hfi_entry_sink_init(&at.sink, names->attachment->session);
    PyObject *result = NULL;
    if (at.hidden && open_save(&at) == 0) {
        PyObject *before = hfi_context_enter(self, namespace, at.own);
        if (before) {
            result = run(&at, extra);
            hfi_context_leave(before);
        }
    }
    close_save(&at);
    Py_XDECREF(at.hidden);
    if (!result)
        hfi_names_drop_pending(names);
    return result;
}
