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
 *   - atoms (numbers, texts, dtypes, dates, code, modules, enum members, loggers, the
 *     shell): whether two names share one can't be told, or pickle carries it by
 * reference;
 *   - the namespace and functions' globals: everything would be one group;
 *   - classes that are imported: they are carried by name. Classes of the notebook
 *     (`__module__` is "__main__") are roots of their own: instances refer to them, and
 *     thus a class doesn't join the names that hold its instances. What a class itself
 *     holds (a shared list as attribute) joins it to the names that hold that too;
 *   - frames and tracebacks: no codec carries them.
 * Arrays aren't known to the collector: their chain of bases is followed by hand, and
 * the elements of arrays of objects from their memory or through tolist(). Memory that
 * no array owns joins whoever names the same block of it. Types of other libraries have
 * codecs that tell what the collector doesn't see (holdfast.codecs, `shares`): objects,
 * and addresses of memory, which join whoever names the same one.
 *
 * An object with one reference is held by the one through which it was reached, so no
 * other root can reach it and it needn't be remembered: most of a large nest. Where it
 * is a short tuple or list of atoms it isn't put on the stack either: half of the time
 * for a list of a million of them.
 *
 * A weak reference joins its root to the one that reaches what it leads to. It isn't
 * followed: what only it leads to is a library's, or will be gone. So this is settled
 * when all roots were walked, and what is weakly referred to is always remembered.
 *
 * The walk also tells whether somebody else holds a part of a value, who could change
 * it without naming it: a library, a thread, a C object. tp_traverse visits each owned
 * reference once, or the collector would not work. So an object whose reference count
 * is larger than the number of times that it was visited is held from elsewhere; its
 * root is open. So is a root with an object that is opaque (graph_types.c) or weakly
 * referred to. What the caller holds himself, he says (hfi_graph_input). Visits that
 * stand for no reference of the object's own, as those by hand, are not counted: too
 * few make a root open that isn't, too many would be wrong. Classes aren't counted:
 * their instances in values that aren't walked hold them, too.
 *
 * And it collects the code behind each root, functions and classes of the notebook, and
 * counts the functions' references to the namespace: one that is missing in the sum
 * belongs to a function that somebody else holds, and may call.
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
#include "graph_types.h"
#include "pointer_map.h"

enum {
    OPAQUE = 0x100,      /* beside a treatment, for a type that isn't transparent */
    EDGE_ROOT_BITS = 17, /* addresses have 47 */
    LEAF_ITEMS = 16,     /* of a tuple or list that is looked at in passing */
    AHEAD = 8,           /* items that the processor is told of */
    NO_NOTE = UINT32_MAX,
};

/* An object that more than one may refer to, or an address. */
typedef struct note {
    PyObject *object; /* NULL: of no interest at the end */
    Py_ssize_t count; /* references that were seen */
    uint32_t root;    /* that reached it first */
} note;

/* A weak reference that a root reaches. */
typedef struct weak_edge {
    PyObject *reference;
    uint32_t root;
} weak_edge;

typedef struct walk {
    hfi_graph *graph;
    const hfi_graph_input *input;
    hfi_pointer_map seen;  /* object -> its note */
    hfi_pointer_map types; /* type -> treatment, OPAQUE */
    hfi_pointer_map edges; /* class and root, in one number */
    note *notes;
    size_t note_count;
    size_t note_room;
    weak_edge *weak;
    size_t weak_count;
    size_t weak_room;
    PyObject *finder; /* holdfast.codecs.finder_of_shares; NULL until needed */
    PyObject *kept;   /* list: what codecs gave, held while it may be on the stack */
    PyObject **stack;
    size_t depth;
    size_t room;
    size_t roots_room;
    size_t left; /* references that may still be followed */
    size_t codes_room;
    uint32_t root;
    int counting;         /* references that a visit stands for */
    PyObject *last_class; /* of `last_root`: instances come in a row */
    uint32_t last_root;
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
static hfi_treatment
treatment_with_codec(walk *at, PyTypeObject *type) {
    hfi_treatment how = hfi_graph_treatment(type);
    int has_module = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ||
                     strchr(type->tp_name, '.') != NULL;
    if ((how != HFI_WALK && how != HFI_LEAF) || !has_module)
        return how;
    PyObject *shares = shares_of(at, type);
    Py_XDECREF(shares);
    return shares ? HFI_SHARING : how;
}

/* A treatment, and OPAQUE. */
static unsigned
kind_of(walk *at, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyList_Type || type == &PyDict_Type)
        return HFI_WALK;
    if (hfi_graph_is_atom(object))
        return HFI_ATOM;
    if (type == &PyTuple_Type)
        return HFI_WALK;
    int new;
    uint32_t *known = hfi_pointer_map_put(&at->types, type, &new);
    if (!known) {
        at->failed = NO_MEMORY;
        return HFI_ATOM;
    }
    if (new) {
        hfi_treatment how = treatment_with_codec(at, type);
        int opaque = how == HFI_SHARING || !hfi_graph_is_transparent(type);
        *known = (uint32_t)how | (opaque ? OPAQUE : 0u);
    }
    return *known;
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

/* Room for one more in an array of things of `size` bytes; the array, or NULL. */
static void *
make_room(walk *at, void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    size_t larger = *room * 2 + 64;
    void *grown = realloc(array, larger * size);
    if (grown)
        *room = larger;
    else
        at->failed = NO_MEMORY;
    return grown;
}

static void
add_class(walk *at, PyObject *object) {
    hfi_graph *graph = at->graph;
    void *roots = make_room(at, graph->roots, graph->count, &at->roots_room,
                            sizeof *graph->roots);
    if (!roots)
        return;
    graph->roots = roots;
    uint32_t index = (uint32_t)graph->count++;
    graph->roots[index] =
        (hfi_graph_root){.object = object, .parent = index, .is_class = 1};
}

/* A function or class of the notebook behind the current root. */
static void
add_code(walk *at, PyObject *object) {
    hfi_graph *graph = at->graph;
    void *codes = make_room(at, graph->codes, graph->code_count, &at->codes_room,
                            sizeof *graph->codes);
    if (!codes)
        return;
    graph->codes = codes;
    graph->codes[graph->code_count++] = (hfi_graph_code){at->root, object};
}

/* The note of an object or address, NULL without memory. */
static note *
note_of(walk *at, const void *key, int *ret_new) {
    uint32_t *index = hfi_pointer_map_put(&at->seen, key, ret_new);
    if (!index) {
        at->failed = NO_MEMORY;
        return NULL;
    }
    if (!*ret_new)
        return &at->notes[*index];
    *index = (uint32_t)at->note_count;
    void *notes =
        make_room(at, at->notes, at->note_count, &at->note_room, sizeof *at->notes);
    if (!notes)
        return NULL;
    at->notes = notes;
    at->notes[at->note_count] = (note){NULL, 0, at->root};
    return &at->notes[at->note_count++];
}

/* A class is a root of its own, walked later; never joined from here. */
static int
visit_class(walk *at, PyObject *object) {
    int new = 1;
    if (object == at->last_class && at->root == at->last_root)
        return at->failed;
    if (!hfi_graph_is_notebook_class(object))
        return at->failed;
    at->last_class = object;
    at->last_root = at->root;
    if (note_of(at, object, &new) && new)
        add_class(at, object);
    new = 1;
    if (at->root < 1u << EDGE_ROOT_BITS) {
        uint64_t edge = (uint64_t)(uintptr_t)object << EDGE_ROOT_BITS | at->root;
        if (!hfi_pointer_map_put(&at->edges, (void *)(uintptr_t)edge, &new))
            at->failed = NO_MEMORY;
    }
    if (new)
        add_code(at, object);
    return at->failed;
}

/* An object that is met for the first time. */
static int
enter(walk *at, PyObject *object, unsigned kind) {
    hfi_graph_root *root = &at->graph->roots[at->root];
    at->graph->visited++;
    if (kind & OPAQUE)
        root->is_open = 1;
    if (hfi_graph_is_weakly_held(object))
        root->is_open = root->is_held = 1;
    if (kind == HFI_FUNCTION)
        add_code(at, object);
    return (kind & ~(unsigned)OPAQUE) == HFI_LEAF ? 0 : push(at, object);
}

/* 1 where the walk ends here. */
static int
spend(walk *at, size_t references) {
    if (at->left < references && !at->failed)
        at->failed = TOO_LARGE;
    at->left -= at->left < references ? at->left : references;
    return at->failed != GOES_ON;
}

/* A short tuple or list of atoms, which has no reference to anything that matters. */
static int
is_leaf(walk *at, PyObject *object) {
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object))
        return 0;
    Py_ssize_t count = Py_SIZE(object);
    if (count > LEAF_ITEMS)
        return 0;
    PyObject **items = PySequence_Fast_ITEMS(object);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!items[i] || !hfi_graph_is_atom(items[i]))
            return 0;
    spend(at, (size_t)count);
    return 1;
}

static int
visit(PyObject *object, void *context) {
    walk *at = context;
    if (!object)
        return 0;
    if (object == at->input->skip) {
        at->graph->roots[at->root].namespace_refs += at->counting;
        return 0;
    }
    if (spend(at, 1))
        return 1;
    unsigned kind = kind_of(at, object);
    if (kind == HFI_ATOM || (kind & ~(unsigned)OPAQUE) == HFI_ATOM)
        return at->failed;
    if ((kind & ~(unsigned)OPAQUE) == HFI_CLASS)
        return visit_class(at, object);
    if (kind == HFI_CFUNCTION) {
        PyObject *self = PyCFunction_GetSelf(object);
        if (!self || PyModule_Check(self) || PyType_Check(self))
            return 0;
    }
    if (kind == HFI_FUNCTION && hfi_graph_is_imported_function(object))
        return 0;
    /* Only what is walked now holds it: nothing joins here. */
    if (Py_REFCNT(object) == at->counting && !hfi_graph_has_weak_reference(object)) {
        if (!is_leaf(at, object))
            return enter(at, object, kind);
        at->graph->visited++;
        return at->failed;
    }
    int new;
    note *found = note_of(at, object, &new);
    if (!found)
        return 1;
    found->count += at->counting;
    if (new) {
        found->object = object;
        return enter(at, object, kind);
    }
    if (found->root != at->root)
        join(at->graph, found->root, at->root);
    return 0;
}

/* A visit that stands for no reference of the current object's own. */
static void
visit_uncounted(walk *at, PyObject *object) {
    int before = at->counting;
    at->counting = 0;
    visit(object, at);
    at->counting = before;
}

static void
walk_function(walk *at, PyObject *function) {
    PyFunctionObject *parts = (PyFunctionObject *)function;
    if (parts->func_globals == at->input->skip)
        at->graph->roots[at->root].namespace_refs++;
    visit(parts->func_closure, at);
    visit(parts->func_defaults, at);
    visit(parts->func_kwdefaults, at);
    visit(parts->func_dict, at);
    visit(parts->func_annotations, at);
}

/* The elements of an array of objects. Where they are no block: the list's items are
 * the array's own. */
static void
walk_elements(walk *at, PyObject *array) {
    PyObject *size = PyObject_GetAttrString(array, "size");
    size_t count = size ? PyLong_AsSize_t(size) : 0;
    Py_XDECREF(size);
    PyErr_Clear();
    if (count != (size_t)-1 && spend(at, count))
        return;
    PyObject **elements;
    int block = hfi_array_elements(array, &elements, &count);
    for (size_t i = 0; block > 0 && i < count && !at->failed; i++)
        visit_uncounted(at, elements[i]);
    if (block > 0)
        return;
    PyObject *flat = PyObject_CallMethod(array, "ravel", "s", "K");
    PyObject *list = flat ? PyObject_CallMethod(flat, "tolist", NULL) : NULL;
    if (list && PyList_Check(list))
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && !at->failed; i++)
            if (Py_REFCNT(PyList_GET_ITEM(list, i)) > 1)
                visit_uncounted(at, PyList_GET_ITEM(list, i));
    Py_XDECREF(flat);
    Py_XDECREF(list);
    PyErr_Clear();
}

static void
add_weak(walk *at, PyObject *reference) {
    void *weak =
        make_room(at, at->weak, at->weak_count, &at->weak_room, sizeof *at->weak);
    if (!weak)
        return;
    at->weak = weak;
    at->weak[at->weak_count++] = (weak_edge){reference, at->root};
}

/* What a weak reference leads to, borrowed, or NULL. */
static PyObject *
referent(PyObject *reference) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *object;
    if (PyWeakref_GetRef(reference, &object) <= 0) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(object); /* somebody else holds it: nothing runs meanwhile */
    return object;
#else
    PyObject *object = PyWeakref_GetObject(reference);
    return object == Py_None ? NULL : object;
#endif
}

/* Those that lead to what another root reaches join it. */
static void
join_weak(walk *at) {
    for (size_t i = 0; i < at->weak_count && !at->failed; i++) {
        PyObject *object = referent(at->weak[i].reference);
        if (!object || PyType_Check(object))
            continue;
        int new;
        uint32_t *index = hfi_pointer_map_put(&at->seen, object, &new);
        if (!index)
            at->failed = NO_MEMORY;
        else if (new)
            *index = NO_NOTE;
        else if (*index != NO_NOTE)
            join(at->graph, at->notes[*index].root, at->weak[i].root);
    }
}

/* Memory that is no object of the interpreter's: whoever names it joins. */
static void
visit_address(walk *at, void *address) {
    int new;
    if (at->input->origin)
        address = at->input->origin(at->input->origin_context, address);
    note *found = note_of(at, address, &new);
    if (found && !new && found->root != at->root)
        join(at->graph, found->root, at->root);
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
            visit_uncounted(at, item);
        else if (PyLong_AsVoidPtr(item))
            visit_address(at, PyLong_AsVoidPtr(item));
    }
    PyErr_Clear();
    Py_XDECREF(items);
    Py_XDECREF(given);
    Py_XDECREF(shares);
}

/* A list's or tuple's items lie side by side, but each is an object somewhere, and the
 * walk is mostly waiting for it. */
static void
walk_items(walk *at, PyObject *object) {
    PyObject **items = PySequence_Fast_ITEMS(object);
    Py_ssize_t count = Py_SIZE(object);
    for (Py_ssize_t i = 0; i < count && !at->failed; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(items[i + AHEAD]);
        visit(items[i], at);
    }
}

static void
walk_object(walk *at, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyList_Type || type == &PyTuple_Type) {
        walk_items(at, object);
        return;
    }
    switch (kind_of(at, object) & ~(unsigned)OPAQUE) {
    case HFI_FUNCTION:
        walk_function(at, object);
        break;
    case HFI_ARRAY:
        walk_array(at, object);
        break;
    case HFI_WEAK:
        add_weak(at, object);
        type->tp_traverse(object, visit, at);
        break;
    case HFI_SHARING:
        walk_shares(at, object);
        if (type->tp_traverse)
            type->tp_traverse(object, visit, at);
        break;
    default:
        type->tp_traverse(object, visit, at);
        if (PyMemoryView_Check(object))
            visit_uncounted(at, PyMemoryView_GET_BASE(object));
        break;
    }
    /* Not every type with a C traverse visits its type. */
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
        visit_uncounted(at, (PyObject *)type);
}

static void
walk_from(walk *at, uint32_t index) {
    hfi_graph_root *root = &at->graph->roots[index];
    at->root = index;
    at->counting = 1;
    if (root->is_class) {
        PyType_Type.tp_traverse(root->object, visit, at);
    } else {
        at->counting += at->input->caller_refs;
        visit(root->object, at);
        at->counting = 1;
    }
    while (at->depth && !at->failed)
        walk_object(at, at->stack[--at->depth]);
}

/* Which roots somebody else holds a part of. */
static void
close_accounts(walk *at) {
    const hfi_graph_input *input = at->input;
    for (size_t i = 0; i < input->other_count; i++) {
        int new;
        uint32_t *index = hfi_pointer_map_put(&at->seen, input->others[i], &new);
        if (!index)
            at->failed = NO_MEMORY;
        else if (new)
            *index = NO_NOTE;
        else if (*index != NO_NOTE)
            at->notes[*index].count++;
    }
    for (size_t i = 0; i < at->note_count; i++) {
        const note *one = &at->notes[i];
        if (!one->object || Py_REFCNT(one->object) == one->count ||
            hfi_graph_is_constant(one->object))
            continue;
        at->graph->roots[one->root].is_open = 1;
        at->graph->roots[one->root].is_held = 1;
    }
}

static void
walk_roots(walk *at) {
    const hfi_graph_input *input = at->input;
    for (size_t i = 0; i < input->class_count && !at->failed; i++) {
        int new;
        if (note_of(at, input->classes[i], &new) && new)
            add_class(at, input->classes[i]);
    }
    for (uint32_t i = 0; i < at->graph->count && !at->failed; i++)
        walk_from(at, i);
    if (!at->failed)
        close_accounts(at);
    join_weak(at);
}

/* 0, or -1 with MemoryError, or 1 where it met more references than it may. */
static int
walk_all(walk *at) {
    hfi_graph *graph = at->graph;
    size_t count = at->input->count;
    at->roots_room = count + 8;
    *graph = (hfi_graph){.roots = calloc(at->roots_room, sizeof *graph->roots),
                         .count = count,
                         .names = count};
    if (!graph->roots) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < count; i++)
        graph->roots[i] =
            (hfi_graph_root){.object = at->input->objects[i], .parent = i};
    int collects =
        PyGC_Disable(); /* a finalizer would run Python code under the walk */
    walk_roots(at);
    if (collects)
        PyGC_Enable();
    hfi_pointer_map_fini(&at->seen);
    hfi_pointer_map_fini(&at->types);
    hfi_pointer_map_fini(&at->edges);
    Py_XDECREF(at->finder);
    Py_XDECREF(at->kept);
    free(at->notes);
    free(at->weak);
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
hfi_graph_init(hfi_graph *ret_graph, const hfi_graph_input *input) {
    walk at = {.graph = ret_graph, .input = input, .left = SIZE_MAX};
    return walk_all(&at);
}

int
hfi_graph_is_larger(const hfi_graph_input *input, size_t limit) {
    hfi_graph graph;
    walk at = {.graph = &graph, .input = input, .left = limit};
    int larger = walk_all(&at);
    if (larger == 0)
        hfi_graph_fini(&graph);
    return larger;
}

void
hfi_graph_fini(hfi_graph *graph) {
    free(graph->roots);
    free(graph->codes);
    *graph = (hfi_graph){.roots = NULL};
}
