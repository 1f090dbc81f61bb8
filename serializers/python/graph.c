/* graph.c - which names share mutable objects or memory.
 *
 * Names whose values reach a common object must be carried together, or they would come
 * back as copies: they form one group. This walk finds the groups. It follows every
 * value with the interpreter's own tp_traverse, on an explicit stack, and remembers for
 * each object from which root it was reached first; reaching it from a second root
 * joins the two (union-find). tp_traverse runs no Python code and covers every
 * container that the collector knows, so a type need not be known here.
 *
 * What is not followed, and why:
 *   - atoms (numbers, texts, dtypes, dates, code, modules, enum members, loggers):
 *     whether two names share one can't be told, or pickle carries it by reference;
 *   - the namespace and functions' globals: everything would be one group;
 *   - classes that are imported: they are carried by name. Classes of the notebook
 *     (`__module__` is "__main__") are roots of their own: instances refer to them, and
 *     thus a class doesn't join the names that hold its instances. What a class itself
 *     holds (a shared list as attribute) joins it to the names that hold that too;
 *   - frames and tracebacks: no codec carries them.
 * Arrays aren't known to the collector: their chain of bases is followed by hand, and
 * the elements of arrays of objects through tolist(). Memory that no array owns joins
 * whoever names the same block of it. Types of other libraries have
 * codecs that tell what the collector doesn't see (holdfast.codecs, `shares`): objects,
 * and addresses of memory, which join whoever names the same one.
 *
 * An object with one reference is held by the one through which it was reached, so no
 * other root can reach it and it needn't be remembered: most of a large nest.
 *
 * Pointers on the stack are borrowed. That is safe because the interpreter stays
 * attached, and everything on it is reachable from the namespace, which nobody can
 * change meanwhile. Cost: a list of a million floats 5 ms, of a million lists 22 ms.
 *
 * The same walk tells whether values are larger than a number of references, and gives
 * up there: who asks wants to know it before the price of a million is paid.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "buffer.h"
#include "pointer_map.h"

typedef enum treatment {
    UNKNOWN = 0,
    ATOM,
    LEAF,     /* has an identity, but nothing behind it that we could see */
    WALK,     /* by tp_traverse */
    FUNCTION, /* by hand, without its globals */
    CFUNCTION,
    ARRAY,
    CLASS,
    SHARING, /* WALK, and what its codec tells */
} treatment;

typedef struct walk {
    hfi_graph *graph;
    PyObject *skip;
    hfi_pointer_map seen;  /* object -> root that reached it first */
    hfi_pointer_map types; /* type -> treatment */
    PyObject *finder;      /* holdfast.codecs.finder_of_shares; NULL until needed */
    hfi_graph_origin origin;
    void *origin_context;
    PyObject *kept; /* list: what codecs gave, held while it may be on the stack */
    PyObject **stack;
    size_t depth;
    size_t room;
    size_t roots_room;
    size_t left; /* references that may still be followed */
    uint32_t root;
    enum { GOES_ON, NO_MEMORY, TOO_LARGE } failed;
} walk;

uint32_t
hfi_graph_group(hfi_graph *graph, uint32_t index) {
    hfi_graph_root *roots = graph->roots;
    while (roots[index].parent != index) {
        roots[index].parent = roots[roots[index].parent].parent;
        index = roots[index].parent;
    }
    return index;
}

static void
join(hfi_graph *graph, uint32_t one, uint32_t other) {
    one = hfi_graph_group(graph, one);
    other = hfi_graph_group(graph, other);
    /* The lower index stands for the group, so that groups come in the names' order. */
    if (one < other)
        graph->roots[other].parent = one;
    else
        graph->roots[one].parent = other;
}

/* ---- what to do with an object, by its type ----------------------------------------
 */

static int
named(const PyTypeObject *type, const char *name) {
    for (; type; type = type->tp_base)
        if (strcmp(type->tp_name, name) == 0)
            return 1;
    return 0;
}

static treatment
treatment_of_type(PyTypeObject *type) {
    static const char *const atoms[] = {"numpy.dtype",
                                        "numpy.generic",
                                        "datetime.date",
                                        "datetime.time",
                                        "datetime.timedelta",
                                        "datetime.tzinfo",
                                        "decimal.Decimal",
                                        "frame",
                                        "traceback",
                                        "code",
                                        "weakref.ReferenceType",
                                        "weakref",
                                        "range",
                                        "Logger",
                                        "re.Pattern",
                                        "builtin_function_or_method_descriptor",
                                        "getset_descriptor",
                                        "member_descriptor",
                                        "method_descriptor",
                                        "wrapper_descriptor",
                                        "classmethod_descriptor"};
    if (PyType_IsSubtype(type, &PyType_Type))
        return CLASS;
    if (type == &PyFunction_Type)
        return FUNCTION;
    if (type == &PyCFunction_Type)
        return CFUNCTION;
    if (PyType_IsSubtype(type, &PyModule_Type) || type == Py_TYPE(Py_Ellipsis) ||
        type == Py_TYPE(Py_NotImplemented) || type == &PyComplex_Type)
        return ATOM;
    if (named(Py_TYPE(type), "EnumType") || named(Py_TYPE(type), "numpy._DTypeMeta"))
        return ATOM;
    for (size_t i = 0; i < sizeof atoms / sizeof *atoms; i++)
        if (named(type, atoms[i]))
            return ATOM;
    if (named(type, "numpy.ndarray"))
        return ARRAY;
    return PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC) && type->tp_traverse ? WALK
                                                                            : LEAF;
}

/* The `shares` of the type's codec, new reference, or NULL. A codec that fails here is
 * none. */
static PyObject *
shares_of(walk *at, PyTypeObject *type) {
    if (!at->finder) {
        PyObject *module = PyImport_ImportModule("holdfast.codecs");
        at->finder = module ? PyObject_GetAttrString(module, "finder_of_shares") : NULL;
        Py_XDECREF(module);
    }
    PyObject *shares =
        at->finder ? PyObject_CallOneArg(at->finder, (PyObject *)type) : NULL;
    if (!shares)
        PyErr_Clear();
    if (shares == Py_None)
        Py_CLEAR(shares);
    return shares;
}

/* The interpreter's own types, by a name without a module, have no codec to ask. */
static treatment
treatment_with_codec(walk *at, PyTypeObject *type) {
    treatment how = treatment_of_type(type);
    int has_module = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ||
                     strchr(type->tp_name, '.') != NULL;
    if ((how != WALK && how != LEAF) || !has_module)
        return how;
    PyObject *shares = shares_of(at, type);
    Py_XDECREF(shares);
    return shares ? SHARING : how;
}

int
hfi_graph_is_atom(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (object == Py_None || type == &PyFloat_Type || type == &PyLong_Type ||
        type == &PyBool_Type || type == &PyComplex_Type)
        return 1;
    if (type == &PyUnicode_Type)
        return PyUnicode_GET_LENGTH(object) < HFI_BUFFER_BYTES_MIN;
    if (type == &PyBytes_Type)
        return PyBytes_GET_SIZE(object) < HFI_BUFFER_BYTES_MIN;
    if (type == &PyTuple_Type)
        return PyTuple_GET_SIZE(object) == 0;
    return 0;
}

static treatment
treatment_of(walk *at, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyList_Type || type == &PyDict_Type)
        return WALK;
    if (hfi_graph_is_atom(object))
        return ATOM;
    int new;
    uint32_t *known = hfi_pointer_map_put(&at->types, type, &new);
    if (!known) {
        at->failed = NO_MEMORY;
        return ATOM;
    }
    if (new)
        *known = treatment_with_codec(at, type);
    return (treatment)*known;
}

/* A class whose definition travels with the notebook. */
static int
is_notebook_class(PyObject *object) {
    PyTypeObject *type = (PyTypeObject *)object;
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !type->tp_dict)
        return 0;
    PyObject *module = PyDict_GetItemString(type->tp_dict, "__module__");
    return module && PyUnicode_Check(module) &&
           PyUnicode_CompareWithASCIIString(module, "__main__") == 0;
}

/* A function that pickle carries by its module and name. */
static int
is_imported_function(PyObject *object) {
    PyFunctionObject *function = (PyFunctionObject *)object;
    if (!function->func_module || !PyUnicode_Check(function->func_module) ||
        PyUnicode_CompareWithASCIIString(function->func_module, "__main__") == 0)
        return 0;
    const char *name = PyUnicode_AsUTF8(function->func_qualname);
    if (!name)
        PyErr_Clear();
    return name && !strstr(name, "<locals>") && !strstr(name, "<lambda>");
}

/* ---- the walk
 * ------------------------------------------------------------------------ */

static int
push(walk *at, PyObject *object) {
    if (at->depth == at->room) {
        size_t room = at->room ? at->room * 2 : 1024;
        PyObject **stack = realloc(at->stack, room * sizeof *stack);
        if (!stack) {
            at->failed = NO_MEMORY;
            return -1;
        }
        at->stack = stack;
        at->room = room;
    }
    at->stack[at->depth++] = object;
    return 0;
}

static void
add_class(walk *at, PyObject *object) {
    hfi_graph *graph = at->graph;
    if (graph->count == at->roots_room) {
        size_t room = at->roots_room * 2 + 8;
        hfi_graph_root *roots = realloc(graph->roots, room * sizeof *roots);
        if (!roots) {
            at->failed = NO_MEMORY;
            return;
        }
        graph->roots = roots;
        at->roots_room = room;
    }
    uint32_t index = (uint32_t)graph->count++;
    graph->roots[index] = (hfi_graph_root){object, index, 1};
}

/* 1 where the walk ends here. */
static int
spend(walk *at, size_t references) {
    if (at->left < references && !at->failed)
        at->failed = TOO_LARGE;
    at->left -= at->left < references ? at->left : references;
    return at->failed != GOES_ON;
}

static int
visit(PyObject *object, void *context) {
    walk *at = context;
    if (!object || object == at->skip)
        return 0;
    if (spend(at, 1))
        return 1;
    treatment how = treatment_of(at, object);
    if (how == ATOM || (how == CLASS && !is_notebook_class(object)))
        return at->failed;
    if (how == CFUNCTION) {
        PyObject *self = PyCFunction_GetSelf(object);
        if (!self || PyModule_Check(self) || PyType_Check(self))
            return 0;
    }
    if (how == FUNCTION && is_imported_function(object))
        return 0;
    if (Py_REFCNT(object) == 1 && how != CLASS) {
        at->graph->visited++; /* only what is walked now holds it: nothing joins here */
        return how == LEAF ? 0 : push(at, object);
    }
    int new;
    uint32_t *root = hfi_pointer_map_put(&at->seen, object, &new);
    if (!root) {
        at->failed = NO_MEMORY;
        return 1;
    }
    if (how == CLASS) { /* a root of its own, walked later; never joined from here */
        if (new) {
            *root = (uint32_t)at->graph->count;
            add_class(at, object);
        }
        return at->failed;
    }
    if (!new) {
        if (*root != at->root)
            join(at->graph, *root, at->root);
        return 0;
    }
    at->graph->visited++;
    *root = at->root;
    return how == LEAF ? 0 : push(at, object);
}

static void
walk_function(walk *at, PyObject *function) {
    PyFunctionObject *parts = (PyFunctionObject *)function;
    visit(parts->func_closure, at);
    visit(parts->func_defaults, at);
    visit(parts->func_kwdefaults, at);
    visit(parts->func_dict, at);
    visit(parts->func_annotations, at);
}

/* The elements of an array of objects: the list's items are the array's own. */
static void
walk_elements(walk *at, PyObject *array) {
    PyObject *size = PyObject_GetAttrString(array, "size");
    size_t count = size ? PyLong_AsSize_t(size) : 0;
    Py_XDECREF(size);
    PyErr_Clear();
    if (count != (size_t)-1 && spend(at, count))
        return;
    PyObject *flat = PyObject_CallMethod(array, "ravel", "s", "K");
    PyObject *list = flat ? PyObject_CallMethod(flat, "tolist", NULL) : NULL;
    if (list && PyList_Check(list))
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && !at->failed; i++)
            if (Py_REFCNT(PyList_GET_ITEM(list, i)) > 1)
                visit(PyList_GET_ITEM(list, i), at);
    Py_XDECREF(flat);
    Py_XDECREF(list);
    PyErr_Clear();
}

/* Memory that is no object of the interpreter's: whoever names it joins. */
static void
visit_address(walk *at, void *address) {
    int new;
    if (at->origin)
        address = at->origin(at->origin_context, address);
    uint32_t *root = hfi_pointer_map_put(&at->seen, address, &new);
    if (!root)
        at->failed = NO_MEMORY;
    else if (new)
        *root = at->root;
    else if (*root != at->root)
        join(at->graph, *root, at->root);
}

/* An array's own memory may be another library's as well (torch.from_numpy). */
static void
walk_memory(walk *at, PyObject *array) {
    hfi_array_view view;
    if (hfi_array_view_get(array, &view) < 0)
        return;
    if (view.low && view.low_size)
        visit_address(at, view.low);
    hfi_array_view_fini(&view);
}

static void
walk_array(walk *at, PyObject *array) {
    PyObject *base = hfi_array_base(array);
    if (base && base != Py_None)
        visit(base, at); /* the array keeps it alive */
    if (base && !hfi_array_check(base))
        walk_memory(at, array);
    Py_XDECREF(base);
    PyErr_Clear();
    int plain = hfi_array_is_plain(array);
    if (plain < 0)
        PyErr_Clear();
    if (plain == 0)
        walk_elements(at, array);
    if (Py_TYPE(array)->tp_traverse)
        Py_TYPE(array)->tp_traverse(array, visit, at);
}

/* What the codec of the object's type says that it shares. */
static void
walk_shares(walk *at, PyObject *object) {
    PyObject *shares = shares_of(at, Py_TYPE(object));
    PyObject *given = shares ? PyObject_CallOneArg(shares, object) : NULL;
    PyObject *items = given ? PySequence_Tuple(given) : NULL;
    if (!at->kept)
        at->kept = PyList_New(0);
    if (items && (!at->kept || PyList_Append(at->kept, items) < 0))
        at->failed = NO_MEMORY;
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items) && !at->failed; i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (!PyLong_CheckExact(item))
            visit(item, at);
        else if (PyLong_AsVoidPtr(item))
            visit_address(at, PyLong_AsVoidPtr(item));
    }
    PyErr_Clear();
    Py_XDECREF(items);
    Py_XDECREF(given);
    Py_XDECREF(shares);
}

static void
walk_object(walk *at, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    switch (treatment_of(at, object)) {
    case FUNCTION:
        walk_function(at, object);
        break;
    case ARRAY:
        walk_array(at, object);
        break;
    case SHARING:
        walk_shares(at, object);
        if (type->tp_traverse)
            type->tp_traverse(object, visit, at);
        break;
    default:
        type->tp_traverse(object, visit, at);
        if (PyMemoryView_Check(object))
            visit(PyMemoryView_GET_BASE(object), at);
        break;
    }
    /* Not every type with a C traverse visits its type. */
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
        visit((PyObject *)type, at);
}

static void
walk_from(walk *at, uint32_t index) {
    at->root = index;
    if (at->graph->roots[index].is_class)
        PyType_Type.tp_traverse(at->graph->roots[index].object, visit, at);
    else
        visit(at->graph->roots[index].object, at);
    while (at->depth && !at->failed)
        walk_object(at, at->stack[--at->depth]);
}

/* 0, or -1 with MemoryError, or 1 where it met more references than it may. */
static int
walk_all(walk *at, PyObject *const *objects, size_t count) {
    hfi_graph *graph = at->graph;
    at->roots_room = count + 8;
    *graph = (hfi_graph){calloc(at->roots_room, sizeof *graph->roots), count, count, 0};
    if (!graph->roots) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < count; i++)
        graph->roots[i] = (hfi_graph_root){objects[i], i, 0};
    int collects =
        PyGC_Disable(); /* a finalizer would run Python code under the walk */
    for (uint32_t i = 0; i < graph->count && !at->failed; i++)
        walk_from(at, i);
    if (collects)
        PyGC_Enable();
    hfi_pointer_map_fini(&at->seen);
    hfi_pointer_map_fini(&at->types);
    Py_XDECREF(at->finder);
    Py_XDECREF(at->kept);
    free(at->stack);
    if (!at->failed)
        return 0;
    hfi_graph_fini(graph);
    if (at->failed == TOO_LARGE)
        return 1;
    PyErr_NoMemory();
    return -1;
}

int
hfi_graph_init(hfi_graph *ret_graph, PyObject *const *objects, size_t count,
               PyObject *skip, hfi_graph_origin origin, void *context) {
    walk at = {.graph = ret_graph,
               .skip = skip,
               .left = SIZE_MAX,
               .origin = origin,
               .origin_context = context};
    return walk_all(&at, objects, count);
}

int
hfi_graph_is_larger(PyObject *const *objects, size_t count, PyObject *skip,
                    size_t limit) {
    hfi_graph graph;
    walk at = {.graph = &graph, .skip = skip, .left = limit};
    int larger = walk_all(&at, objects, count);
    if (larger == 0)
        hfi_graph_fini(&graph);
    return larger;
}

void
hfi_graph_fini(hfi_graph *graph) {
    free(graph->roots);
    *graph = (hfi_graph){NULL, 0, 0, 0};
}
