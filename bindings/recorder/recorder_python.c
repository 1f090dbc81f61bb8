/* recorder_python.c - what the module's functions share.
 *
 * The module's state, which lives as long as the module; and the exceptions for the
 * recorder's statuses: MemoryError, OSError where the system said no, RuntimeError for
 * all others. Both need the interpreter's lock.
 */
#include "recorder_python.h"

recorder_state *
hfi_recorder_state(PyObject *module) {
    return PyModule_GetState(module);
}

PyObject *
hfi_recorder_raise(hf_status status, const hf_error *error) {
    if (status == HF_E_NOMEM)
        return PyErr_NoMemory();
    if (status == HF_BUSY) {
        PyErr_SetString(PyExc_RuntimeError, "a recording is already open");
        return NULL;
    }
    if (status == HF_E_SYSTEM) {
        PyErr_SetString(PyExc_OSError, error->message);
        return NULL;
    }
    PyErr_Format(PyExc_RuntimeError, "%s: %s", hf_status_name(status), error->message);
    return NULL;
}
