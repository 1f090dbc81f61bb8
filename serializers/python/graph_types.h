/* graph_types.h - how the walk over live objects treats an object, by its type. Call
 * with the interpreter attached.
 */
#ifndef HFI_GRAPH_TYPES_H
#define HFI_GRAPH_TYPES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python_codecs.h"

typedef enum hfi_treatment {
    HFI_UNKNOWN = 0,
    HFI_ATOM,
    HFI_LEAF,     /* has an identity, but nothing behind it that we could see */
    HFI_WALK,     /* by tp_traverse */
    HFI_FUNCTION, /* by hand, without the globals of an imported module */
    HFI_CFUNCTION,
    HFI_ARRAY,
    HFI_CLASS,
    HFI_MODULE, /* as HFI_ATOM if it is imported, else as HFI_WALK */
    HFI_MEMBER, /* of an enumeration: as HFI_ATOM, but of a class that is carried */
    HFI_DATED,  /* a date or time: as HFI_ATOM, but for the time zone that it has */
    HFI_WEAK,   /* a weak reference or proxy: as HFI_WALK, and joins what it leads to */
    HFI_SHARING, /* as HFI_WALK, and what its codec names */
} hfi_treatment;

/* By the type alone, without asking codecs: never HFI_SHARING. */
hfi_treatment hfi_graph_treatment(PyTypeObject *type);
/* 1 if all references that its instances hold can be seen. */
int hfi_graph_is_transparent(PyTypeObject *type);
int hfi_graph_has_weak_reference(PyObject *object);
/* 1 if one exists that isn't the library's own, to itself. */
int hfi_graph_is_weakly_held(PyObject *object);
/* 1 if nobody can change it: an atom, a text, bytes, a tuple of atoms. */
int hfi_graph_is_constant(PyObject *object);
/* The time zone of a date or time, borrowed, or NULL. */
PyObject *hfi_graph_zone_of(PyObject *object);
/* 1 for a class whose definition is carried with the notebook. */
int hfi_graph_is_notebook_class(PyObject *object);
/* The `__dict__` whose items lie in the instance itself, borrowed, or NULL. Its
 * tp_traverse visits them there, neither the dict nor, from the dict, them. */
PyObject *hfi_graph_inline_dict(PyObject *instance);
/* 1 if the items of `dict` lie in such an instance (or if there are none). */
int hfi_graph_is_inline_dict(PyObject *dict);
/* 1 for a function that pickle carries by its module and name: none of `namespace`'s,
 * nor of a module that isn't imported. */
int hfi_graph_is_imported_function(PyObject *object, const PyObject *namespace);
/* 1 for a class that isn't the notebook's, of a module that is imported. */
int hfi_graph_is_imported_class(PyObject *type);
/* 1 for a module that is imported by its name. */
int hfi_graph_is_imported_module(PyObject *module);
/* 1 for the dict of such a module. */
int hfi_graph_is_module_dict(PyObject *dict);

/* 1 if sharing or changing `object` has no effect that can be seen: None, numbers,
 * short texts ... Inline, since a walk asks it for each item of a million. */
static inline int
hfi_graph_is_atom(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyUnicode_Type)
        return PyUnicode_GET_LENGTH(object) < HFI_BUFFER_BYTES_MIN;
    if (type == &PyBytes_Type)
        return PyBytes_GET_SIZE(object) < HFI_BUFFER_BYTES_MIN;
    if (type == &PyTuple_Type)
        return PyTuple_GET_SIZE(object) == 0;
    return type == &PyLong_Type || type == &PyFloat_Type || object == Py_None ||
           type == &PyBool_Type || type == &PyComplex_Type;
}

#endif
