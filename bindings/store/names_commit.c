/* names_commit.c - the commit of a save: what is put, what is removed.
 *
 * A value is put if its encoding differs from its record. The record that will hold
 * after the publication goes to `pending`. Nothing is changed in `records`: a commit
 * may be dropped after a successful save, and then the next save starts from the same
 * place. For that reason it was rejected to mark records as changed in place and to
 * undo that.
 *
 * A small value is put with the interpreter attached, since the store then only copies
 * to its own memory. Data for the arena is written detached.
 *
 * A bound name that the namespace lacks was deleted by the user. A skipped one was
 * never there, so its absence means nothing. Groups and classes have no name of their
 * own. They stay while a remaining record refers to them, directly or through another
 * class, and are removed when none does. Most saves have neither, and then nothing is
 * marked. Nothing else can refer to them, since an encoding's meta lists the classes
 * that it needs. Reference counts would have to stay right through crashes and
 * conflicts. Marking starts from the existing records.
 */
#include "names_stages.h"

#include <string.h>

#include "member_meta.h"
#include "names_format.h"

enum { DETACH_SIZE = 4096 }; /* putting a larger payload may need a system call */

int
hfi_changes_init(hfi_changes *ret_changes, hfi_state *state, hfi_names *names,
                 int is_trial) {
    *ret_changes = (hfi_changes){
        .state = state, .names = names, .removed = PyList_New(0), .is_trial = is_trial};
    if (is_trial) {
        ret_changes->aside = names->pending;
        names->pending = (hfi_records){0};
    } else {
        hfi_names_drop_pending(names);
        names->is_pending = 1;
    }
    return ret_changes->removed ? 0 : -1;
}

void
hfi_changes_fini(hfi_changes *at) {
    hf_commit_abort(at->commit);
    Py_XDECREF(at->removed);
    if (at->is_trial) {
        hfi_records_fini(&at->names->pending);
        at->names->pending = at->aside;
    }
}

int
hfi_changes_expect(hfi_changes *at, size_t count) {
    return at->names->records.live ? 0
                                   : hfi_records_reserve(&at->names->pending, count);
}

static hfi_record *
current_record(const hfi_changes *at, PyObject *key) {
    return hfi_records_find(&at->names->records, key);
}

/* The record that will hold after this commit. */
static hfi_record *
record_after(const hfi_changes *at, PyObject *key) {
    hfi_record *pending = hfi_records_find(&at->names->pending, key);
    if (pending)
        return pending->state == HFI_REMOVED ? NULL : pending;
    return current_record(at, key);
}

/* Begin the commit, but not in a trial: a second commit of this process would drop the
 * prepared one. */
static int
begin_commit(hfi_changes *at) {
    if (at->commit)
        return 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hf_commit_begin(at->names->attachment->session, &at->commit, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        hfi_raise(at->state, status, &error);
    return status == HF_OK ? 0 : -1;
}

static uint32_t
entry_flags(PyObject *key, const hfi_entry_sink *sink, uint32_t codec) {
    if (hfi_key_kind(key) == 'g')
        return HFI_ENTRY_GROUP;
    int cheap = sink->buffer_count || sink->payload_size < 32768;
    return codec == HF_CODEC_BUFFER && cheap ? HFI_ENTRY_MAPPED : 0;
}

static hf_status
put_value(hf_commit *commit, const hf_value *value, hf_error *reterr) {
    hf_status status;
    if (!value->buffer_count && value->payload_size < DETACH_SIZE)
        return hf_commit_put(commit, value, reterr);
    Py_BEGIN_ALLOW_THREADS
    status = hf_commit_put(commit, value, reterr);
    Py_END_ALLOW_THREADS
    return status;
}

/* Put the sink's encoding under `key`, with `meta` instead of its own, unless it is None.
 * Returns a new record, borrowed from pending. */
static hfi_record *
put_entry(hfi_changes *at, PyObject *key, hfi_entry_sink *sink, uint32_t codec,
          PyObject *meta) {
    Py_ssize_t size = 0;
    const char *text = hfi_key_bytes(key, &size);
    if (!text || begin_commit(at) < 0)
        return NULL;
    int has_own = meta == Py_None;
    hf_value value = {.struct_size = sizeof value,
                      .key = text,
                      .key_size = (size_t)size,
                      .codec = codec,
                      .flags = entry_flags(key, sink, codec),
                      .meta = has_own ? sink->meta : PyBytes_AS_STRING(meta),
                      .meta_size =
                          has_own ? sink->meta_size : (size_t)PyBytes_GET_SIZE(meta),
                      .payload = sink->payload_size ? sink->payload : NULL,
                      .payload_size = sink->payload_size,
                      .buffers = sink->buffers,
                      .buffer_count = sink->buffer_count,
                      .ret_digests = hfi_entry_sink_take_digests(sink)};
    hf_error error;
    hfi_error_init(&error);
    hf_status status = put_value(at->commit, &value, &error);
    if (status != HF_OK)
        return hfi_raise(at->state, status, &error);
    hfi_record *record = hfi_records_put(&at->names->pending, key);
    if (!record || hfi_record_take(record, at->names->attachment, sink, codec) < 0)
        return NULL;
    if (codec != HF_CODEC_PICKLE) /* no other codec's meta has classes */
        return record;
    return hfi_record_set_classes_consume(record, hfi_sink_classes(sink, codec)) < 0
               ? NULL
               : record;
}

/* A pickle is described for programs without Python only here, if it is put: what is said
 * follows from the pickle, so nobody compares it. */
static hfi_record *
put_record(hfi_changes *at, PyObject *key, hfi_entry_sink *sink, uint32_t codec,
           PyObject *value) {
    if (at->is_trial)
        return hfi_records_put(&at->names->pending, key);
    PyObject *meta = codec == HF_CODEC_PICKLE ? hfi_pickle_described(sink, value)
                                              : Py_NewRef(Py_None);
    hfi_record *record = meta ? put_entry(at, key, sink, codec, meta) : NULL;
    Py_XDECREF(meta);
    return record;
}

int
hfi_changes_put(hfi_changes *at, PyObject *key, hfi_entry_sink *sink, uint32_t codec,
                PyObject *value, PyObject *group, hfi_record **ret_record) {
    hfi_record *record = current_record(at, key);
    int same = record ? hfi_stored_matches(at->state, at->names, key, record, sink,
                                           codec, &at->decoded_again)
                      : 0;
    if (same < 0)
        return -1;
    if (!same) {
        record = put_record(at, key, sink, codec, value);
        if (!record || hfi_record_set_group(record, group) < 0)
            return -1;
    }
    if (ret_record)
        *ret_record = record;
    return !same;
}

static int
remove_stored(hfi_changes *at, PyObject *key) {
    Py_ssize_t size = 0;
    const char *text = hfi_key_bytes(key, &size);
    if (!text || begin_commit(at) < 0)
        return -1;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hf_commit_remove(at->commit, text, (size_t)size, &error);
    Py_END_ALLOW_THREADS
    if (status == HF_OK || status == HF_NOT_FOUND)
        return 0;
    hfi_raise(at->state, status, &error);
    return -1;
}

static int
remove_key(hfi_changes *at, PyObject *key) {
    if (!at->is_trial && remove_stored(at, key) < 0)
        return -1;
    hfi_record *record = hfi_records_put(&at->names->pending, key);
    if (!record)
        return -1;
    record->state = HFI_REMOVED;
    return 0;
}

int
hfi_changes_drop(hfi_changes *at, PyObject *key) {
    return current_record(at, key) ? remove_key(at, key) : 0;
}

/* ---- what leaves ---------------------------------------------------------------- */

static int
forget_unserializable(hfi_changes *at, PyObject *namespace) {
    PyObject *names = PyDict_Keys(at->names->reasons);
    for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names); i++) {
        PyObject *name = PyList_GET_ITEM(names, i);
        if (PyDict_Contains(namespace, name) == 0 &&
            hfi_names_forget_unserializable(at->names, name) < 0)
            Py_CLEAR(names);
    }
    Py_XDECREF(names);
    return names ? 0 : -1;
}

/* Whether the notebook has this name; -1 with an exception. */
static int
is_notebooks(PyObject *key, const hfi_scan_request *wanted) {
    int given_back =
        wanted->given_back ? PySequence_Contains(wanted->given_back, key) : 0;
    if (given_back)
        return given_back < 0 ? -1 : 0;
    return PyDict_Contains(wanted->namespace, key);
}

/* -1, or 0 with the user's deletions in `removed`. */
static int
remove_deleted(hfi_changes *at, const hfi_scan_request *wanted) {
    hfi_record *record;
    for (size_t position = 0;
         (record = hfi_records_next(&at->names->records, &position));) {
        PyObject *key = record->key;
        if (hfi_key_kind(key) != 'n' || record->state != HFI_BOUND ||
            is_notebooks(key, wanted) != 0)
            continue;
        if (remove_key(at, key) < 0 || PyList_Append(at->removed, key) < 0)
            return -1;
    }
    return forget_unserializable(at, wanted->namespace);
}

/* Mark the groups and classes to which the remaining records refer, and in turn theirs.
 * */
static int
mark_record(hfi_changes *at, PyObject *live, PyObject *key, hfi_record *record) {
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
        hfi_record *group = record_after(at, group_key);
        if (group && mark_record(at, live, group_key, group) < 0)
            return -1;
    }
    PyObject *classes = hfi_record_classes(record);
    for (Py_ssize_t i = 0; classes && i < PyTuple_GET_SIZE(classes); i++) {
        PyObject *class_key = hfi_key_of_class(PyTuple_GET_ITEM(classes, i));
        hfi_record *class_record = class_key ? record_after(at, class_key) : NULL;
        int failed = !class_key || (class_record &&
                                    mark_record(at, live, class_key, class_record) < 0);
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
remove_unreferred(hfi_changes *at) {
    const hfi_names *names = at->names;
    if (!has_swept_kinds(&names->records) && !has_swept_kinds(&names->pending))
        return 0;
    PyObject *keys = PyList_New(0), *live = PySet_New(NULL);
    int failed = !keys || !live || add_keys(&names->records, keys) < 0 ||
                 add_keys(&names->pending, keys) < 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        int kind = hfi_key_kind(key);
        hfi_record *record = record_after(at, key);
        if (record && (kind == 'n' || kind == 'x'))
            failed = mark_record(at, live, key, record) < 0;
    }
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        int kind = hfi_key_kind(key);
        if ((kind == 'g' || kind == 'c') && record_after(at, key) &&
            PySet_Contains(live, key) == 0)
            failed = remove_key(at, key) < 0;
    }
    Py_XDECREF(keys);
    Py_XDECREF(live);
    return failed ? -1 : 0;
}

int
hfi_changes_sweep(hfi_changes *at, const hfi_scan_request *wanted) {
    return remove_deleted(at, wanted) < 0 || remove_unreferred(at) < 0 ? -1 : 0;
}

/* ---- the end -------------------------------------------------------------------- */

PyObject *
hfi_changes_prepare(hfi_changes *at, hf_commit_stats *ret_stats) {
    if (!at->commit) {
        hfi_names_drop_pending(at->names);
        Py_RETURN_NONE;
    }
    hf_prepared prepared;
    hf_error error = HF_ERROR_INIT;
    hf_commit *commit = at->commit;
    hf_status status = hf_commit_get_stats(commit, ret_stats, &error);
    if (status != HF_OK)
        return hfi_raise(at->state, status, &error);
    at->commit = NULL; /* consumed, whatever comes */
    Py_BEGIN_ALLOW_THREADS
    status = hf_commit_prepare_consume(commit, &prepared, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(at->state, status, &error);
    return PyBytes_FromStringAndSize((const char *)&prepared, sizeof prepared);
}
