/* python_error.c - Python exceptions as hf_error.
 *
 * A codec is called through a C table and answers with a status; an exception must not
 * stay set behind it, since the caller goes on and asks the next codec. The words are
 * kept: "Type: text" of the exception, in UTF-8, cut to what an hf_error holds. A
 * MemoryError has a status of its own: it is a failure, whatever the codec meant to
 * answer.
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
