/* graph_types.c - what the walk over live objects does with an object, by its type.
 *
 * There are two questions. How is an object followed (hfi_graph_treatment)? And is it
 * transparent: does its tp_traverse show every reference that it holds, and can its
 * content be reached only by such references? Only for transparent objects it can be
 * known that no other code holds what is in them. Transparent are the built-in
 * containers, NumPy's and pandas' own types, and classes written in Python over such
 * types. All other types written in C may share memory without the interpreter's
 * knowledge (tensors, Arrow's buffers, files), and are opaque. An unknown type in a
 * list of transparent types only costs a second look. In a list of opaque ones it would
 * cause an error.
 */
#include "graph_types.h"

#include <datetime.h>
#include <string.h>

static int
has_base_named(const PyTypeObject *type, const char *name) {
    for (; type; type = type->tp_base)
        if (strcmp(type->tp_name, name) == 0)
            return 1;
    return 0;
}

/* The tp_dealloc of each class that a class statement makes. */
static destructor
python_dealloc(void) {
    static destructor known;
    if (!known) {
        PyObject *probe =
            PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "probe");
        if (probe)
            known = ((PyTypeObject *)probe)->tp_dealloc;
        PyErr_Clear();
        Py_XDECREF(probe);
    }
    return known;
}

static int
begins_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Whether the type says that it belongs to a package. Its metaclass isn't asked. */
static int
is_of_package(const PyTypeObject *type, const char *package) {
    const char *text = type->tp_name;
    if (PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_HEAPTYPE)) {
        PyObject *module =
            type->tp_dict ? PyDict_GetItemString(type->tp_dict, "__module__") : NULL;
        text = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
        if (!text)
            PyErr_Clear();
    }
    size_t length = strlen(package);
    return text && begins_with(text, package) &&
           (text[length] == '\0' || text[length] == '.');
}

/* A class statement made the type, so its objects may hold others. Exceptions: classes
 * of pandas, and pytz' time zones, which are one object for each name. */
static int
may_hold_others(PyTypeObject *type) {
    return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
           type->tp_dealloc == python_dealloc() && !is_of_package(type, "pandas") &&
           !is_of_package(type, "pytz");
}

/* Numbers, dates and zones, which are compared by their values. */
static int
is_value(const PyTypeObject *type) {
    static const char *const values[] = {"numpy.dtype",        "numpy.generic",
                                         "datetime.timedelta", "datetime.date",
                                         "datetime.tzinfo",    "decimal.Decimal"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (has_base_named(type, values[i]))
            return 1;
    return 0;
}

static int
has_zone(const PyTypeObject *type) {
    return has_base_named(type, "datetime.datetime") ||
           has_base_named(type, "datetime.time");
}

hfi_treatment
hfi_graph_treatment(PyTypeObject *type) {
    static const char *const atoms[] = {"frame",
                                        "traceback",
                                        "code",
                                        "range",
                                        "Logger",
                                        "InteractiveShell",
                                        "re.Pattern",
                                        "builtin_function_or_method_descriptor",
                                        "getset_descriptor",
                                        "member_descriptor",
                                        "method_descriptor",
                                        "wrapper_descriptor",
                                        "classmethod_descriptor"};
    if (PyType_IsSubtype(type, &PyType_Type))
        return HFI_CLASS;
    if (type == &PyFunction_Type)
        return HFI_FUNCTION;
    if (type == &PyCFunction_Type)
        return HFI_CFUNCTION;
    if (PyType_IsSubtype(type, &_PyWeakref_RefType) || type == &_PyWeakref_ProxyType ||
        type == &_PyWeakref_CallableProxyType)
        return HFI_WEAK;
    if (PyType_IsSubtype(type, &PyModule_Type))
        return HFI_MODULE;
    if (type == Py_TYPE(Py_Ellipsis) || type == Py_TYPE(Py_NotImplemented) ||
        type == &PyComplex_Type)
        return HFI_ATOM;
    if (has_base_named(Py_TYPE(type), "EnumType"))
        return HFI_MEMBER;
    if (has_base_named(Py_TYPE(type), "numpy._DTypeMeta"))
        return HFI_ATOM;
    if (has_base_named(
            type,
            "numpy.void")) /* a row looks into its array (libraries/numpy/arrays.py) */
        return HFI_LEAF;
    for (size_t i = 0; i < sizeof atoms / sizeof *atoms; i++)
        if (has_base_named(type, atoms[i]))
            return HFI_ATOM;
    if (!may_hold_others(type) && (has_zone(type) || is_value(type)))
        return has_zone(type) ? HFI_DATED : HFI_ATOM;
    if (has_base_named(type, "numpy.ndarray"))
        return HFI_ARRAY;
    return PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC) && type->tp_traverse ? HFI_WALK
                                                                            : HFI_LEAF;
}

/* ---- transparency --------------------------------------------------------------- */

static const char *const transparent_types[] = {"object",
                                                "list",
                                                "dict",
                                                "tuple",
                                                "set",
                                                "frozenset",
                                                "str",
                                                "bytes",
                                                "bytearray",
                                                "int",
                                                "float",
                                                "complex",
                                                "slice",
                                                "cell",
                                                "function",
                                                "method",
                                                "property",
                                                "classmethod",
                                                "staticmethod",
                                                "mappingproxy",
                                                "memoryview",
                                                "managedbuffer",
                                                "builtin_function_or_method",
                                                "BaseException",
                                                "types.SimpleNamespace",
                                                "weakref.ReferenceType",
                                                "weakref.ProxyType",
                                                "weakref.CallableProxyType",
                                                "array.array",
                                                "collections.deque",
                                                "collections.OrderedDict",
                                                "collections.defaultdict",
                                                "functools.partial",
                                                "functools._lru_cache_wrapper",
                                                "functools._lru_list_elem",
                                                "holdfast._store.Region",
                                                "holdfast._store.Memory"};

int
hfi_graph_is_transparent(PyTypeObject *type) {
    while (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
           type->tp_dealloc == python_dealloc() && type->tp_base)
        type = type->tp_base;
    const char *name = type->tp_name;
    if (PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException) ||
        begins_with(name, "numpy.") || begins_with(name, "pandas."))
        return 1;
    size_t count = sizeof transparent_types / sizeof *transparent_types;
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, transparent_types[i]) == 0)
            return 1;
    return 0;
}

PyObject *
hfi_graph_zone_of(PyObject *object) {
    (void)PyDateTimeAPI; /* from the header; nothing here calls it */
    PyObject *zone = has_base_named(Py_TYPE(object), "datetime.time")
                         ? PyDateTime_TIME_GET_TZINFO(object)
                         : PyDateTime_DATE_GET_TZINFO(object);
    return zone == Py_None ? NULL : zone;
}

int
hfi_graph_has_weak_reference(PyObject *object) {
    Py_ssize_t offset = Py_TYPE(object)->tp_weaklistoffset;
    if (offset == 0)
        return 0;
    PyObject *first;
    memcpy(&first, (const char *)object + offset, sizeof first);
    return first != NULL;
}

int
hfi_graph_is_weakly_held(PyObject *object) {
    /* pandas' own: blocks, indexes and frames know each other by weak references. */
    return hfi_graph_has_weak_reference(object) &&
           !is_of_package(Py_TYPE(object), "pandas");
}

/* ---- instances whose attributes lie in them (Python 3.13) ------------------------ */

#ifdef Py_TPFLAGS_INLINE_VALUES
/* Before the instance, by the object's header and that of the collector. NULL if no
 * dict was asked for. */
static PyObject *
managed_dict(PyObject *instance) {
    PyObject *dict;
    memcpy(&dict, (const char *)instance - 3 * sizeof dict, sizeof dict);
    return dict;
}

PyObject *
hfi_graph_inline_dict(PyObject *instance) {
    PyTypeObject *type = Py_TYPE(instance);
    if (!PyType_HasFeature(type, Py_TPFLAGS_INLINE_VALUES))
        return NULL;
    PyObject *dict = managed_dict(instance);
    const void *values = (const char *)instance + type->tp_basicsize;
    return dict && ((PyDictObject *)dict)->ma_values == values ? dict : NULL;
}

static int
find_any(PyObject *object, void *unused) {
    (void)object, (void)unused;
    return 1;
}

/* A split table may also be the dict's own, as that of an instance of a list's subclass
 * is: then tp_traverse shows what it holds. */
int
hfi_graph_is_inline_dict(PyObject *dict) {
    return PyDict_CheckExact(dict) && ((PyDictObject *)dict)->ma_values != NULL &&
           !PyDict_Type.tp_traverse(dict, find_any, NULL);
}
#else
PyObject *
hfi_graph_inline_dict(PyObject *instance) {
    (void)instance;
    return NULL;
}

int
hfi_graph_is_inline_dict(PyObject *dict) {
    (void)dict;
    return 0;
}
#endif

/* ---- objects --------------------------------------------------------------------- */

int
hfi_graph_is_constant(PyObject *object) {
    if (PyUnicode_Check(object) || PyBytes_Check(object) || hfi_graph_is_atom(object))
        return 1;
    if (!PyTuple_CheckExact(object))
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++)
        if (!hfi_graph_is_atom(PyTuple_GET_ITEM(object, i)))
            return 0;
    return 1;
}

int
hfi_graph_is_notebook_class(PyObject *object) {
    PyTypeObject *type = (PyTypeObject *)object;
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !type->tp_dict)
        return 0;
    /* `c_int * 3` and `POINTER(c_int)` are made by the expression itself, and belong to
     * ctypes. */
    const char *metaclass = Py_TYPE(type)->tp_name;
    if (strcmp(metaclass, "_ctypes.PyCArrayType") == 0 ||
        strcmp(metaclass, "_ctypes.PyCPointerType") == 0)
        return 0;
    PyObject *module = PyDict_GetItemString(type->tp_dict, "__module__");
    return module && PyUnicode_Check(module) &&
           PyUnicode_CompareWithASCIIString(module, "__main__") == 0;
}

/* The module of this name, or NULL without an exception. */
static PyObject *
imported_module(PyObject *name) {
    PyObject *module = name && PyUnicode_Check(name) ? PyImport_GetModule(name) : NULL;
    PyErr_Clear();
    return module;
}

int
hfi_graph_is_imported_module(PyObject *module) {
    PyObject *name = PyDict_GetItemString(PyModule_GetDict(module), "__name__");
    PyObject *found = imported_module(name);
    Py_XDECREF(found);
    return found == module;
}

int
hfi_graph_is_module_dict(PyObject *dict) {
    PyObject *module = imported_module(PyDict_GetItemString(dict, "__name__"));
    int is_its = module && PyModule_Check(module) && PyModule_GetDict(module) == dict;
    Py_XDECREF(module);
    return is_its;
}

int
hfi_graph_is_imported_class(PyObject *object) {
    PyTypeObject *type = (PyTypeObject *)object;
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !type->tp_dict)
        return 1;
    PyObject *name = PyDict_GetItemString(type->tp_dict, "__module__");
    if (!name || !PyUnicode_Check(name))
        return 1; /* C's code made it */
    PyObject *module = imported_module(name);
    Py_XDECREF(module);
    return module != NULL;
}

int
hfi_graph_is_imported_function(PyObject *object, const PyObject *namespace) {
    PyFunctionObject *function = (PyFunctionObject *)object;
    if (function->func_globals == namespace) /* functools.wraps() gave it a module */
        return 0;
    if (!function->func_module || !PyUnicode_Check(function->func_module) ||
        PyUnicode_CompareWithASCIIString(function->func_module, "__main__") == 0)
        return 0;
    PyObject *module = imported_module(function->func_module);
    Py_XDECREF(module);
    if (!module)
        return 0;
    const char *name = PyUnicode_AsUTF8(function->func_qualname);
    if (!name)
        PyErr_Clear();
    return name && !strstr(name, "<locals>") && !strstr(name, "<lambda>");
}
