/* session_stock.c - what cells asked for, ready for the next one: _taken and _stock for
 * the process that has it, _provide and _provide_some for one that waits.
 *
 * See shm_store/engine/stock.c and provision.c; the worker's stock.py decides for whom.
 * Sizes are bytes, native 64-bit words, as they lie in memory that workers share.
 */
#include "store_python.h"

PyObject *
hfi_taken(PyObject *module, PyObject *session) {
    hfi_attachment *attachment =
        hfi_session_attachment(PyModule_GetState(module), session);
    if (!attachment)
        return NULL;
    size_t sizes[HF_TAKEN_MAX];
    uint64_t words[HF_TAKEN_MAX];
    size_t count = hf_session_taken(attachment->session, sizes);
    for (size_t i = 0; i < count; i++)
        words[i] = sizes[i];
    return PyBytes_FromStringAndSize((const char *)words,
                                     (Py_ssize_t)(count * sizeof *words));
}

/* The session of the arguments, and the first sizes that they name. */
static hfi_attachment *
with_sizes(PyObject *module, PyObject *args, size_t ret_sizes[HF_TAKEN_MAX],
           size_t *ret_count) {
    PyObject *session;
    Py_buffer given;
    if (!PyArg_ParseTuple(args, "Oy*", &session, &given))
        return NULL;
    size_t count = (size_t)given.len / sizeof(uint64_t);
    *ret_count = count < HF_TAKEN_MAX ? count : HF_TAKEN_MAX;
    for (size_t i = 0; i < *ret_count; i++) {
        uint64_t word;
        memcpy(&word, (const char *)given.buf + i * sizeof word, sizeof word);
        ret_sizes[i] = (size_t)word;
    }
    PyBuffer_Release(&given);
    return hfi_session_attachment(PyModule_GetState(module), session);
}

PyObject *
hfi_stock(PyObject *module, PyObject *args) {
    size_t sizes[HF_TAKEN_MAX], count;
    hfi_attachment *attachment = with_sizes(module, args, sizes, &count);
    if (!attachment)
        return NULL;
    uint64_t bytes = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS status =
        hf_session_stock(attachment->session, sizes, count, &bytes, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK) return hfi_raise(
        PyModule_GetState(module), status, &error);
    return PyLong_FromUnsignedLongLong(bytes);
}

PyObject *
hfi_provide(PyObject *module, PyObject *args) {
    size_t sizes[HF_TAKEN_MAX], count;
    hfi_attachment *attachment = with_sizes(module, args, sizes, &count);
    if (!attachment)
        return NULL;
    hf_session_provide(attachment->session, sizes, count);
    Py_RETURN_NONE;
}

PyObject *
hfi_provide_some(PyObject *module, PyObject *args) {
    PyObject *session;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "On:_provide_some", &session, &bytes))
        return NULL;
    hfi_attachment *attachment =
        hfi_session_attachment(PyModule_GetState(module), session);
    if (!attachment)
        return NULL;
    int more = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status =
        hf_session_provide_some(attachment->session, (size_t)bytes, &more, &error);
    return status == HF_OK ? PyBool_FromLong(more)
                           : hfi_raise(PyModule_GetState(module), status, &error);
}
