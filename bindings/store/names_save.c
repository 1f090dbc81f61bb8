/* names_save.c - Names.save(): prepare a commit of what differs from the store.
 *
 *     namespace ── scan ──► members ── group ──► groups ── encode ──► sink ── commit
 *
 * Scan chooses the names to look at (names_scan.c). Group finds out which of them share
 * objects (names_group.c). Encode makes one encoding after the other, of groups, then
 * names (names_encode.c). Commit compares each with the store and puts it if it
 * differs, removes what is gone, and prepares (names_commit.c). Each stage knows those
 * before it only by a plain struct.
 *
 * On any failure the commit is aborted and `pending` dropped, so that the next save
 * starts from the same place.
 */
#include "names_type.h"

#include <time.h>

#include "names_stages.h"

typedef struct save {
    hfi_scan_request wanted;
    hfi_scan scan;
    hfi_grouping grouping;
    hfi_encoder encoder;
    hfi_changes changes;
    uint64_t pages_overlooked;
    int is_trial;
} save;

/* New reference: a list, in the namespace's order; of those that `verify` looked at, or
 * of all. */
static PyObject *
saved_names(const hfi_scan *scan, int only_verified) {
    PyObject *names = PyList_New(0);
    for (size_t i = 0; names && i < scan->count; i++) {
        const hfi_member *one = &scan->members[i];
        if (one->is_saved && !one->is_class && (one->is_verified || !only_verified) &&
            PyList_Append(names, one->key) < 0)
            Py_CLEAR(names);
    }
    return names;
}

/* New reference: a list of the notebook's classes that were saved. */
static PyObject *
saved_classes(const hfi_scan *scan) {
    PyObject *classes = PyList_New(0);
    for (size_t i = 0; classes && i < scan->count; i++) {
        const hfi_member *one = &scan->members[i];
        if (one->is_saved && one->is_class && PyList_Append(classes, one->value) < 0)
            Py_CLEAR(classes);
    }
    return classes;
}

/* The names that have no record. */
static Py_ssize_t
count_unserializable_refs(const hfi_scan *scan) {
    Py_ssize_t count = 0;
    for (size_t i = 0; i < scan->count; i++)
        if (scan->members[i].is_unserializable)
            count += scan->members[i].namespace_refs;
    return count;
}

static double
now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The stages, one after the other. The prepared commit's token, or NULL with an
 * exception. */
static PyObject *
run_stages(save *at, hfi_names *names, PyObject *extra, hf_commit_stats *ret_stats) {
    hf_session *session = names->attachment->session;
    hf_session_verify_pages(session, at->wanted.verify);
    if (hfi_scan_init(&at->scan, names, &at->wanted) < 0 ||
        hfi_grouping_init(&at->grouping, &at->scan, at->wanted.namespace, session) <
            0 ||
        hfi_encoder_members(&at->encoder, &at->scan, &at->grouping) < 0)
        return NULL;
    if (at->is_trial)
        Py_RETURN_NONE;
    if (hfi_encoder_extra(&at->encoder, extra) < 0 ||
        hfi_changes_sweep(&at->changes, &at->wanted) < 0)
        return NULL;
    names->unserializable_refs = count_unserializable_refs(&at->scan);
    at->pages_overlooked = hf_session_verify_pages(session, 0);
    return hfi_changes_prepare(&at->changes, ret_stats);
}

/* Consumes the reference to `prepared`. */
static PyObject *
report_save(const save *at, const hfi_names *names, PyObject *prepared,
            const hf_commit_stats *stats, double start) {
    PyObject *unserializable = PyDict_Copy(names->reasons);
    double seconds = now_seconds() - start;
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:N,s:O,s:N,s:O,s:O,s:O,s:n,s:K,s:K,s:K,s:K,s:K,s:K,s:d}",
        "prepared", prepared, "saved", saved_names(&at->scan, 0), "classes",
        saved_classes(&at->scan), "overlooked", saved_names(&at->scan, 1), "removed",
        at->changes.removed, "unserializable", unserializable, "code",
        at->grouping.code, "held", at->grouping.held, "numbers", at->grouping.numbers,
        "names_examined", (Py_ssize_t)at->scan.count, "names_encoded",
        (unsigned long long)at->encoder.encoded, "decoded_again",
        (unsigned long long)at->changes.decoded_again, "bytes_copied",
        (unsigned long long)stats->bytes_copied, "bytes_shared",
        (unsigned long long)stats->bytes_shared, "pages_changed",
        (unsigned long long)stats->pages_changed, "pages_overlooked",
        (unsigned long long)at->pages_overlooked, "seconds", seconds);
}

/* 0 with an exception. What was published but not noted is kept for the next try. */
static int
knows_current(hfi_state *state, hfi_names *names) {
    if (hfi_names_take_published(state, names) < 0)
        return 0;
    uint64_t now = hf_session_generation(names->attachment->session);
    uint64_t known = hf_snapshot_generation(names->snapshot);
    int follows = now == known ? 1 : hfi_names_follow(state, names);
    if (follows)
        return follows > 0;
    hfi_names_drop_pending(names);
    PyErr_Format(state->conflict_error,
                 "generation %llu was published; what is known here is %llu: adopt it "
                 "first",
                 (unsigned long long)now, (unsigned long long)known);
    return 0;
}

static PyObject *
save_namespace(save *at, hfi_state *state, hfi_names *names, PyObject *extra) {
    PyObject *result = NULL, *before = NULL, *prepared = NULL;
    int failed = hfi_changes_init(&at->changes, state, names, at->is_trial) < 0;
    failed |= hfi_encoder_init(&at->encoder, &at->changes) < 0;
    if (!failed)
        before = hfi_context_enter(names, at->wanted.namespace, at->encoder.own);
    if (before) {
        double start = now_seconds();
        hf_commit_stats stats = {.struct_size = sizeof stats};
        prepared = run_stages(at, names, extra, &stats);
        if (prepared)
            result = report_save(at, names, prepared, &stats, start);
        hfi_context_leave(before);
    }
    hf_session_verify_pages(names->attachment->session, 0);
    hfi_encoder_fini(&at->encoder);
    hfi_grouping_fini(&at->grouping);
    hfi_scan_fini(&at->scan);
    hfi_changes_fini(&at->changes);
    return result;
}

PyObject *
hfi_names_save(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"namespace", "hidden", "extra",     "touched",
                            "holders",   "verify", "stand_ins", "given_back",
                            "trial",     NULL};
    PyObject *namespace, *hidden = NULL, *extra = NULL, *touched = NULL,
                         *holders = NULL, *stand_ins = NULL, *given_back = NULL;
    int verify = 0, is_trial = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$OO!OO!pO!Op:save", words,
                                     &PyDict_Type, &namespace, &hidden, &PyDict_Type,
                                     &extra, &touched, &PyTuple_Type, &holders, &verify,
                                     &PyDict_Type, &stand_ins, &given_back, &is_trial))
        return NULL;
    if (touched && touched != Py_None && !PyAnySet_CheckExact(touched))
        return PyErr_Format(PyExc_TypeError, "touched is a set or None");
    hfi_names *names = hfi_names_of(self);
    save at = {.wanted = {.namespace = namespace,
                          .hidden = PyFrozenSet_New(hidden),
                          .touched = touched == Py_None ? NULL : touched,
                          .holders = holders,
                          .stand_ins = stand_ins,
                          .given_back = given_back,
                          .verify = verify},
               .is_trial = is_trial};
    PyObject *result = NULL;
    if (at.wanted.hidden && hfi_names_begin(names) == 0) {
        if (knows_current(hfi_state_of(Py_TYPE(self)), names)) {
            result = save_namespace(&at, hfi_state_of(Py_TYPE(self)), names, extra);
            if (!result && !is_trial)
                hfi_names_drop_pending(names);
        }
        hfi_names_end(names);
    }
    Py_XDECREF(at.wanted.hidden);
    return result;
}
