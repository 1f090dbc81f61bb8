/* modules.c - a look at all modules that touches none.
 *
 * A large notebook has imported thousands. In a fork each object whose references are
 * counted is a page that the kernel copies: a loop in Python over `sys.modules` took 4
 * to 6 ms of a cell there. Here references are borrowed, so pages are read only, and no
 * code of a module's own runs, which may be one that is loaded when it is asked.
 *
 * Likewise the environment, as C code finds it: os.environ may not show all of it.
 */
#include "module_functions.h"

/* The dict of an entry of sys.modules, borrowed; NULL if it is no module. */
static PyObject *
dict_of(PyObject *module) {
    return PyModule_Check(module) ? PyModule_GetDict(module) : NULL;
}

/* Another number where a module came, went, or was replaced. */
static PyObject *
modules_digest(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    PyObject *modules = PyImport_GetModuleDict(), *key, *value;
    Py_ssize_t position = 0;
    uint64_t digest = 0xcbf29ce484222325u;
    while (modules && PyDict_Next(modules, &position, &key, &value)) {
        digest = (digest ^ (uint64_t)(uintptr_t)key) * 0x100000001b3u;
        digest = (digest ^ (uint64_t)(uintptr_t)value) * 0x100000001b3u;
    }
    return PyLong_FromUnsignedLongLong(digest);
}

/* [(name, value), ...]: the modules that have this attribute. */
static PyObject *
modules_with(PyObject *Py_UNUSED(module), PyObject *attribute) {
    PyObject *modules = PyImport_GetModuleDict(), *key, *one;
    Py_ssize_t position = 0;
    if (!PyUnicode_CheckExact(attribute))
        return PyErr_Format(PyExc_TypeError, "an attribute's name is a str");
    PyObject *found = PyList_New(0);
    while (found && modules && PyDict_Next(modules, &position, &key, &one)) {
        PyObject *dict = dict_of(one);
        PyObject *value = dict ? PyDict_GetItemWithError(dict, attribute) : NULL;
        PyObject *pair = value ? PyTuple_Pack(2, key, value) : NULL;
        if (PyErr_Occurred() || (pair && PyList_Append(found, pair) < 0))
            Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    return found;
}

static PyObject *
environment(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    extern char **environ;
    PyObject *list = PyList_New(0);
    for (char **entry = environ; list && entry && *entry; entry++) {
        PyObject *text = PyBytes_FromString(*entry);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

PyMethodDef hfi_modules_functions[] = {
    {"_environment", environment, METH_NOARGS,
     "The entries of the environment as C code finds them."},
    {"_modules_digest", modules_digest, METH_NOARGS,
     "A number that changes where a module comes, goes or is replaced."},
    {"_modules_with", modules_with, METH_O,
     "_modules_with(attribute): the modules that have it: (name, value) each."},
    {NULL, NULL, 0, NULL}};
