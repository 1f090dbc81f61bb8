/* python_error.c - Python exceptions as hf_error.
 *
 * A codec is called through a C table and returns a status. It must not leave an
 * exception set, since the caller goes on and asks the next codec. The message is kept:
 * "Type: text" of the exception, in UTF-8, cut to the size of an hf_error. A
 * MemoryError has its own status: it is a failure, whatever status the codec wanted to
 * return.
 */
#include "python_error.h"

hf_status
hfi_error_from_python(hf_status status, hf_error *reterr) {
    PyObject *type, *value, *traceback;
    if (PyErr_ExceptionMatches(PyExc_MemoryError))
        status = HF_E_NOMEM;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *words = text ? PyUnicode_AsUTF8(text) : NULL;
    if (!words) {
        PyErr_Clear();
        words = "";
    }
    const char *name =
        type ? ((PyTypeObject *)type)->tp_name : "an error without a type";
    hf_error_set(reterr, status, "%s: %s", name, words);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return status;
}
