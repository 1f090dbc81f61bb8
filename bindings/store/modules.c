/* modules.c - looking at all modules without touching them.
 *
 * A large notebook has imported thousands. In a fork, each change of a reference count
 * makes the kernel copy a page: a loop in Python over `sys.modules` took 4 to 6 ms of a
 * cell there. Here references are borrowed, so pages are only read. No code of a module
 * runs either: a lazy module would be loaded when it is asked.
 *
 * The environment is here, too, as C code finds it: os.environ may not show all of it.
 */
#include "module_functions.h"

/* The dict of an entry of sys.modules, borrowed; NULL if it is no module. */
static PyObject *
dict_of(PyObject *module) {
    return PyModule_Check(module) ? PyModule_GetDict(module) : NULL;
}

/* The dict of a class, borrowed. */
static PyObject *
dict_of_class(PyTypeObject *type) {
#if PY_VERSION_HEX < 0x030C0000
    return type->tp_dict;
#else
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict); /* the interpreter keeps it as long as the class */
    return dict;
#endif
}

/* A number that changes if a module was added, removed or replaced. */
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

/* Whether a mark is of this object: its weak reference, or its address as a number. */
static int
is_mark_of(PyObject *mark, PyObject *one) {
    if (mark && PyWeakref_CheckRef(mark))
        return ((PyWeakReference *)mark)->wr_object == one;
    return mark && PyLong_Check(mark) && PyLong_AsVoidPtr(mark) == one;
}

/* The names of the modules for which a dict has no mark, or that of another object; and
 * its names that no module has any more. */
static PyObject *
modules_changed(PyObject *Py_UNUSED(module), PyObject *marks) {
    PyObject *modules = PyImport_GetModuleDict(), *name, *one;
    if (!PyDict_CheckExact(marks) || !modules)
        return PyErr_Format(PyExc_TypeError, "the marks are a dict");
    PyObject *other = PyList_New(0), *gone = PyList_New(0);
    int failed = !other || !gone;
    for (Py_ssize_t at = 0; !failed && PyDict_Next(modules, &at, &name, &one);)
        failed = PyUnicode_CheckExact(name) &&
                 !is_mark_of(PyDict_GetItemWithError(marks, name), one) &&
                 (PyErr_Occurred() || PyList_Append(other, name) < 0);
    for (Py_ssize_t at = 0; !failed && PyDict_Next(marks, &at, &name, &one);)
        failed = !PyDict_GetItemWithError(modules, name) &&
                 (PyErr_Occurred() || PyList_Append(gone, name) < 0);
    PyObject *found = failed ? NULL : PyTuple_Pack(2, other, gone);
    Py_XDECREF(other);
    Py_XDECREF(gone);
    return found;
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

static int
fold_object(PyObject *object, void *digest) {
    uint64_t *folded = digest;
    *folded = (*folded ^ (uint64_t)(uintptr_t)object) * 0x100000001b3u;
    return 0;
}

/* A number for a dict's content. Python 3.11 gives it a new number with each change,
 * which no dict had before. Later versions have none, or don't promise it. */
static void
fold_dict(PyObject *dict, uint64_t *digest) {
#if PY_VERSION_HEX < 0x030C0000
    *digest = (*digest ^ ((PyDictObject *)dict)->ma_version_tag) * 0x100000001b3u;
#else
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &key, &value)) {
        fold_object(key, digest);
        fold_object(value, digest);
    }
#endif
}

/* A number that changes if one of these objects refers to another object than before.
 * For a module and a class that is their dict's content. An object that was freed
 * meanwhile may have had the address of a new one, so the caller keeps alive what has
 * to count (memo.py). */
static PyObject *
contents_digest(PyObject *Py_UNUSED(module), PyObject *objects) {
    uint64_t digest = 0xcbf29ce484222325u;
    if (!PyTuple_CheckExact(objects))
        return PyErr_Format(PyExc_TypeError, "the objects are a tuple");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); i++) {
        PyObject *one = PyTuple_GET_ITEM(objects, i);
        if (PyModule_Check(one))
            one = PyModule_GetDict(one);
        else if (PyType_Check(one))
            one = dict_of_class((PyTypeObject *)one);
        fold_object(one, &digest);
        if (one && PyDict_CheckExact(one))
            fold_dict(one, &digest);
        else if (one && Py_TYPE(one)->tp_traverse)
            Py_TYPE(one)->tp_traverse(one, fold_object, &digest);
    }
    return PyLong_FromUnsignedLongLong(digest);
}

static PyObject *
list_environment(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
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
    {"_contents_digest", contents_digest, METH_O,
     "_contents_digest(objects): a number that changes if one of them holds another "
     "object."},
    {"_environment", list_environment, METH_NOARGS,
     "The entries of the environment as C code finds them."},
    {"_modules_changed", modules_changed, METH_O,
     "_modules_changed(marks): the names of modules of which a dict has no mark, or "
     "another object's (a weak reference, or an address); its names without a module."},
    {"_modules_digest", modules_digest, METH_NOARGS,
     "A number that changes if a module is added, removed or replaced."},
    {"_modules_with", modules_with, METH_O,
     "_modules_with(attribute): the modules that have it: (name, value) each."},
    {NULL, NULL, 0, NULL}};
