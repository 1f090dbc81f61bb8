/* save_file.c - saving a session's variables to a file, and loading a file into a
 * commit.
 *
 * The content of a file replaces all names, groups and classes. Process state stays:
 * the environment and the directory of an ended process are of no use, so keys that
 * begin with byte 1 are skipped. One of them is read: "\1program" says which
 * interpreter wrote the encodings. Functions are stored as byte code, which another
 * version can't run. So such a file is refused as a whole.
 *
 * The commit is only prepared: the frontend publishes it when the cell has ended. The
 * interpreter is detached, except between two entries, where an interrupt ends the
 * work.
 */
#include "module_functions.h"
#include "attachment.h"

#include <string.h>

#include <holdfast/save.h>

static const char program_key[] = "\1program";

typedef struct work {
    PyThreadState *thread; /* while detached */
    hf_snapshot *snapshot; /* the current generation */
    hf_commit *commit;
    int failed;
} work;

/* Whether a signal's handler raised something. */
static hf_status
look_up(void *context, hf_error *reterr) {
    work *at = context;
    (void)reterr;
    PyEval_RestoreThread(at->thread);
    int raised = PyErr_CheckSignals() < 0;
    at->thread = PyEval_SaveThread();
    return raised ? HF_STOP : HF_OK;
}

/* ---- load ---- */

static int
is_state(const char *key) {
    return key[0] == '\1';
}

static hf_status
check_program(const work *at, const hf_value *value, hf_error *reterr) {
    hf_entry own = {.struct_size = sizeof own};
    hf_status status = hf_snapshot_find(at->snapshot, program_key,
                                        sizeof program_key - 1, &own, reterr);
    if (status != HF_OK)
        return status == HF_NOT_FOUND ? HF_OK : status;
    if (own.payload_size == value->payload_size &&
        memcmp(own.payload, value->payload, own.payload_size) == 0)
        return HF_OK;
    return hf_error_set(reterr, HF_E_VERSION,
                        "another version of the interpreter saved the file");
}

static hf_status
put_saved(void *context, const hf_value *value, hf_error *reterr) {
    work *at = context;
    hf_status status = HF_OK;
    if (!is_state(value->key))
        status = hf_commit_put(at->commit, value, reterr);
    else if (value->key_size == sizeof program_key - 1 &&
             memcmp(value->key, program_key, value->key_size) == 0)
        status = check_program(at, value, reterr);
    return status == HF_OK ? look_up(at, reterr) : status;
}

static int
remove_listed(void *context, const hf_entry *entry) {
    work *at = context;
    if (is_state(entry->key))
        return 0;
    at->failed =
        hf_commit_remove(at->commit, entry->key, entry->key_size, NULL) != HF_OK;
    return at->failed ? HF_STOP : 0;
}

static hf_status
prepare_load(work *at, hf_session *session, const char *path, hf_save_info *ret_info,
             hf_prepared *ret_prepared, hf_error *reterr) {
    hf_status status = hf_snapshot_acquire(session, &at->snapshot, reterr);
    if (status == HF_OK)
        status = hf_commit_begin(session, &at->commit, reterr);
    if (status == HF_OK)
        status = hf_snapshot_each(at->snapshot, remove_listed, at, reterr);
    if (status == HF_OK && at->failed)
        status = hf_error_set(reterr, HF_E_CORRUPT, "a name can't be removed");
    if (status == HF_OK)
        status = hf_save_read(path, session, put_saved, at, ret_info, reterr);
    if (status == HF_OK)
        status = hf_commit_prepare_consume(at->commit, ret_prepared, reterr);
    else
        hf_commit_abort(at->commit);
    hf_snapshot_release(at->snapshot);
    return status;
}

static PyObject *
info_of(const hf_save_info *info) {
    return Py_BuildValue("{s:L,s:K,s:K,s:K}", "created_unix_ns",
                         (long long)info->created_unix_ns, "entries",
                         (unsigned long long)info->entry_count, "data_bytes",
                         (unsigned long long)info->data_bytes, "file_bytes",
                         (unsigned long long)info->file_bytes);
}

/* Session and path; NULL with an exception. `ret_path` is NULL or a new reference. */
static hfi_attachment *
take_arguments(hfi_state *state, PyObject *args, const char *format,
               PyObject **ret_path) {
    PyObject *session;
    *ret_path = NULL;
    if (!PyArg_ParseTuple(args, format, &session, PyUnicode_FSConverter, ret_path))
        return NULL;
    return hfi_session_attachment(state, session);
}

static PyObject *
load_file(PyObject *module, PyObject *args) {
    hfi_state *state = PyModule_GetState(module);
    PyObject *path, *result = NULL;
    hfi_attachment *attachment = take_arguments(state, args, "OO&:_load_file", &path);
    if (attachment) {
        work at = {0};
        hf_save_info info = {.struct_size = sizeof info};
        hf_prepared prepared;
        hf_error error = HF_ERROR_INIT;
        at.thread = PyEval_SaveThread();
        hf_status status =
            prepare_load(&at, attachment->session, PyBytes_AS_STRING(path), &info,
                         &prepared, &error);
        PyEval_RestoreThread(at.thread);
        if (status == HF_OK)
            result = Py_BuildValue("(y#N)", (const char *)&prepared,
                                   (Py_ssize_t)sizeof prepared, info_of(&info));
        else
            hfi_raise(state, status, &error);
    }
    Py_XDECREF(path);
    return result;
}

/* ---- save ---- */

static PyObject *
save_file(PyObject *module, PyObject *args) {
    hfi_state *state = PyModule_GetState(module);
    PyObject *path, *result = NULL;
    hfi_attachment *attachment = take_arguments(state, args, "OO&:_save_file", &path);
    if (attachment) {
        work at = {0};
        hf_save_info info = {.struct_size = sizeof info};
        hf_error error = HF_ERROR_INIT;
        at.thread = PyEval_SaveThread();
        hf_status status =
            hf_snapshot_acquire(attachment->session, &at.snapshot, &error);
        if (status == HF_OK)
            status = hf_save_write(at.snapshot, PyBytes_AS_STRING(path), look_up, &at,
                                   &info, &error);
        hf_snapshot_release(at.snapshot);
        PyEval_RestoreThread(at.thread);
        result = status == HF_OK ? info_of(&info) : hfi_raise(state, status, &error);
    }
    Py_XDECREF(path);
    return result;
}

PyMethodDef hfi_save_file_functions[] = {
    {"_save_file", save_file, METH_VARARGS,
     "_save_file(session, path): the current generation to a file; what it took, as a "
     "dict."},
    {"_load_file", load_file, METH_VARARGS,
     "_load_file(session, path): prepare a commit in which a file's names replace all; "
     "its token, and what the file says of itself."},
    {NULL, NULL, 0, NULL}};
