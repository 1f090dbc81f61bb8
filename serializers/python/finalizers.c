/* finalizers.c - find objects with a `__del__` and weak references with a callback, and
 * disarm them.
 *
 * CPython marks an object when its finalizer is called, and never calls it again. The
 * mark is private, but PyObject_CallFinalizer() sets it. During that call, the type's
 * finalizer is replaced by one that does nothing. The GIL is held, and nothing else
 * runs meanwhile.
 *
 * The walk follows the interpreter's own tp_traverse, with borrowed pointers on its
 * stack: neither tp_traverse nor anything else here runs Python code or frees an
 * object.
 */
#include "finalizers.h"

#include <stdlib.h>

#include "pointer_map.h"

enum { OBJECTS_MAX = 1 << 20 };

typedef struct walk {
    hfi_pointer_map seen;
    PyObject **stack;
    size_t depth;
    size_t room;
    int failed;
} walk;

/* Whether the `__del__` that a class has is a function in Python. */
static int
has_own_del(PyTypeObject *type) {
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !type->tp_finalize ||
        !type->tp_mro)
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i);
        PyObject *found =
            base->tp_dict ? PyDict_GetItemString(base->tp_dict, "__del__") : NULL;
        if (found)
            return PyFunction_Check(found);
    }
    return 0;
}

static int
has_callback(PyObject *object) {
    return PyWeakref_Check(object) && ((PyWeakReference *)object)->wr_callback;
}

static int
is_entered(PyObject *object) {
    return PyObject_IS_GC(object) && Py_TYPE(object)->tp_traverse &&
           !PyType_Check(object) && !PyModule_Check(object) &&
           !PyFunction_Check(object) && !PyCode_Check(object) && !PyFrame_Check(object);
}

static int
visit_object(PyObject *object, void *context) {
    walk *at = context;
    int new;

    if (!object || !is_entered(object) || at->seen.count >= OBJECTS_MAX)
        return 0;
    if (!hfi_pointer_map_put(&at->seen, object, &new))
        at->failed = 1;
    if (!at->failed && new && at->depth == at->room) {
        size_t room = at->room ? at->room * 2 : 64;
        PyObject **stack = realloc(at->stack, room * sizeof *stack);
        at->failed = !stack;
        at->stack = stack ? stack : at->stack;
        at->room = stack ? room : at->room;
    }
    if (!at->failed && new)
        at->stack[at->depth++] = object;
    return at->failed;
}

PyObject *
hfi_finalizers_find(PyObject *value) {
    PyObject *found = PyList_New(0);
    int collecting = PyGC_Disable(); /* a list that grows must not start a collection */
    walk at = {.failed = !found};

    visit_object(value, &at);
    while (at.depth && !at.failed) {
        PyObject *object = at.stack[--at.depth];
        if (has_callback(object) ||
            (has_own_del(Py_TYPE(object)) && !PyObject_GC_IsFinalized(object)))
            at.failed = PyList_Append(found, object) < 0;
        if (!at.failed)
            Py_TYPE(object)->tp_traverse(object, visit_object, &at);
    }
    if (collecting)
        PyGC_Enable();
    free(at.stack);
    hfi_pointer_map_fini(&at.seen);
    if (!at.failed)
        return found;
    Py_XDECREF(found);
    return PyErr_NoMemory();
}

static void
do_nothing(PyObject *Py_UNUSED(object)) {}

void
hfi_finalizers_disarm(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    destructor own = type->tp_finalize;

    if (PyWeakref_Check(object))
        Py_CLEAR(((PyWeakReference *)object)->wr_callback);
    if (!own || !PyObject_IS_GC(object) ||
        !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
        return;
    type->tp_finalize = do_nothing;
    PyObject_CallFinalizer(object);
    type->tp_finalize = own;
}
