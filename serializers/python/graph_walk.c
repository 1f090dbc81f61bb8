/* graph_walk.c - the walk from one root over everything behind it.
 *
 * Each reference is visited. Its target is noted, counted, joined to the root that
 * reached it before, or put on the stack to be walked later. How an object is walked
 * depends on its type (graph_types.c), which is looked up once.
 *
 * A visit by tp_traverse stands for a reference that the object holds, and counts. A
 * visit by hand (`visit_uncounted`) counts only if the object is known to hold that
 * reference. All is in one file because a visit is the inner loop of a save: for a list
 * of a million it runs a million times.
 *
 * Nothing here runs Python code, since the pointers on the stack are borrowed: while
 * such code runs, a thread of the user's could free their targets. Facts that only such
 * code knows become questions, which are asked when the stack is empty (graph_ask.c).
 */
#include "graph_walk.h"

#include <stdlib.h>
#include <string.h>

#include "addresses.h"
#include "array.h"
#include "graph_types.h"
#include "plain_write.h"

enum {
    EDGE_ROOT_BITS = 17, /* addresses have 47 */
    LEAF_ITEMS =
        16,    /* so many items of a tuple or list are looked at without the stack */
    AHEAD = 8, /* items that are prefetched */
    NUMBERS_MAX = 4096, /* that are kept */
};

/* By the type alone. HFI_UNKNOWN if its codec is to be asked. The interpreter's own
 * types, whose names have no module, have no codec. */
static unsigned
kind_of_new(PyTypeObject *type) {
    hfi_treatment how = hfi_graph_treatment(type);
    int has_module = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ||
                     strchr(type->tp_name, '.') != NULL;
    if ((how == HFI_WALK || how == HFI_LEAF) && has_module)
        return HFI_UNKNOWN;
    return (unsigned)how | (hfi_graph_is_transparent(type) ? 0u : HFI_OPAQUE);
}

/* The last plain object() that is visited. */
static int
find_plain_object(PyObject *object, void *ret_found) {
    if (Py_IS_TYPE(object, &PyBaseObject_Type))
        *(PyObject **)ret_found = object;
    return 0;
}

/* Each lru_cache holds the same object, which separates arguments in its keys. It would
 * join all of them in one group, which other code holds, too. */
static void
find_mark(hfi_graph_walk *at, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (strcmp(type->tp_name, "functools._lru_cache_wrapper") == 0 && type->tp_traverse)
        type->tp_traverse(object, find_plain_object, &at->mark);
}

/* Room for one more in an array of things of `size` bytes; the array, or NULL. */
static void *
make_item_room(hfi_graph_walk *at, void *array, size_t count, size_t *room,
               size_t size) {
    if (count < *room)
        return array;
    size_t larger = *room * 2 + 64;
    void *grown = realloc(array, larger * size);
    if (grown)
        *room = larger;
    else
        at->failed = HFI_NO_MEMORY;
    return grown;
}

static void
add_number(hfi_graph_walk *at, uint64_t value) {
    hfi_graph *graph = at->graph;
    if (graph->number_count == NUMBERS_MAX)
        return;
    void *numbers = make_item_room(at, graph->numbers, graph->number_count,
                                   &at->numbers_room, sizeof *graph->numbers);
    if (!numbers)
        return;
    graph->numbers = numbers;
    graph->numbers[graph->number_count++] = (hfi_graph_number){at->root, value};
}

/* A number that may be an address: code that compares objects by id() has such, and
 * code that writes to memory by ctypes. */
static void
note_number(hfi_graph_walk *at, PyObject *object) {
    int overflow = 0;
    int64_t value;
    if (!hfi_int_is_short(object, &value))
        value = PyLong_AsLongLongAndOverflow(object, &overflow);
    else if (value < hfi_low_heap)
        return;
    if (!overflow && hfi_may_be_address(value))
        add_number(at, (uint64_t)value);
}

static inline int
is_atom(hfi_graph_walk *at, PyObject *object) {
    if (PyLong_CheckExact(object))
        note_number(at, object);
    return hfi_graph_is_atom(object);
}

/* A treatment, with HFI_OPAQUE if it is opaque. HFI_UNKNOWN: the codec isn't asked yet.
 * */
static unsigned
object_kind(hfi_graph_walk *at, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyList_Type || type == &PyDict_Type)
        return HFI_WALK;
    if (is_atom(at, object))
        return HFI_ATOM;
    if (type == &PyTuple_Type)
        return HFI_WALK;
    if (object == at->mark)
        return HFI_ATOM;
    int new;
    uint32_t *known = hfi_pointer_map_put(&at->types, type, &new);
    if (!known) {
        at->failed = HFI_NO_MEMORY;
        return HFI_ATOM;
    }
    if (new) {
        *known = kind_of_new(type);
        find_mark(at, object);
        if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
            hfi_graph_walk_hold_consume(at, Py_NewRef(type)); /* its address is a key */
    }
    return *known;
}

static int
push_object(hfi_graph_walk *at, PyObject *object) {
    if (at->depth == at->room) {
        size_t room = at->room ? at->room * 2 : 1024;
        PyObject **stack = realloc(at->stack, room * sizeof *stack);
        if (!stack) {
            at->failed = HFI_NO_MEMORY;
            return -1;
        }
        at->stack = stack;
        at->room = room;
    }
    at->stack[at->depth++] = object;
    return 0;
}

void
hfi_graph_walk_add_class(hfi_graph_walk *at, PyObject *object) {
    hfi_graph *graph = at->graph;
    void *roots = make_item_room(at, graph->roots, graph->count, &at->roots_room,
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
add_root_code(hfi_graph_walk *at, PyObject *object) {
    hfi_graph *graph = at->graph;
    void *codes = make_item_room(at, graph->codes, graph->code_count, &at->codes_room,
                                 sizeof *graph->codes);
    if (!codes)
        return;
    graph->codes = codes;
    graph->codes[graph->code_count++] = (hfi_graph_code){at->root, object};
}

hfi_graph_note *
hfi_graph_walk_note(hfi_graph_walk *at, const void *key, int *ret_new) {
    uint32_t *index = hfi_pointer_map_put(&at->seen, key, ret_new);
    if (!index) {
        at->failed = HFI_NO_MEMORY;
        return NULL;
    }
    if (!*ret_new)
        return &at->notes[*index];
    *index = (uint32_t)at->note_count;
    void *notes = make_item_room(at, at->notes, at->note_count, &at->note_room,
                                 sizeof *at->notes);
    if (!notes)
        return NULL;
    at->notes = notes;
    at->notes[at->note_count] = (hfi_graph_note){NULL, 0, at->root};
    return &at->notes[at->note_count++];
}

static int visit_noted(hfi_graph_walk *at, PyObject *object, unsigned kind);

/* A class of the notebook is a root of its own, which is walked later, and never joined
 * from here. A class of a module that the notebook made, and that isn't imported, is
 * treated as any object. */
static int
visit_class(hfi_graph_walk *at, PyObject *object) {
    int new = 1;
    if (object == at->last_class && at->root == at->last_root)
        return at->failed;
    at->last_class = object;
    at->last_root = at->root;
    if (!hfi_graph_is_notebook_class(object))
        return hfi_graph_is_imported_class(object) ? (int)at->failed
                                                   : visit_noted(at, object, HFI_CLASS);
    if (hfi_graph_walk_note(at, object, &new) && new)
        hfi_graph_walk_add_class(at, object);
    new = 1;
    if (at->root < 1u << EDGE_ROOT_BITS) {
        uint64_t edge = (uint64_t)(uintptr_t)object << EDGE_ROOT_BITS | at->root;
        if (!hfi_pointer_map_put(&at->edges, (void *)(uintptr_t)edge, &new))
            at->failed = HFI_NO_MEMORY;
    }
    if (new)
        add_root_code(at, object);
    return at->failed;
}

void
hfi_graph_walk_hold_consume(hfi_graph_walk *at, PyObject *object) {
    void *held = make_item_room(at, at->held, at->held_count, &at->held_room,
                                sizeof(PyObject *));
    if (held) {
        at->held = held;
        at->held[at->held_count++] = object;
    } else {
        Py_DECREF(object); /* the walk has failed, and looks at nothing more */
    }
}

/* Ask about an object when the stack is empty. */
static int
add_question(hfi_graph_walk *at, PyObject *object, hfi_graph_topic topic) {
    void *questions = make_item_room(at, at->questions, at->question_count,
                                     &at->question_room, sizeof *at->questions);
    if (!questions)
        return at->failed;
    at->questions = questions;
    at->questions[at->question_count++] =
        (hfi_graph_question){.object = Py_NewRef(object),
                             .root = at->root,
                             .counting = at->counting,
                             .topic = topic};
    return at->failed;
}

/* An object that is met for the first time. */
static int
enter_object(hfi_graph_walk *at, PyObject *object, unsigned kind) {
    hfi_graph_root *root = &at->graph->roots[at->root];
    at->graph->visited++;
    if (kind & HFI_OPAQUE)
        root->is_open = 1;
    if (hfi_graph_is_weakly_held(object))
        root->is_open = root->is_held = 1;
    if (kind == HFI_FUNCTION)
        add_root_code(at, object);
    return (kind & ~(unsigned)HFI_OPAQUE) == HFI_LEAF ? 0 : push_object(at, object);
}

/* 1 if the walk ends here. */
static int
spend_references(hfi_graph_walk *at, size_t references) {
    if (at->left < references && !at->failed)
        at->failed = HFI_TOO_LARGE;
    at->left -= at->left < references ? at->left : references;
    return at->failed != HFI_GOES_ON;
}

/* A short tuple or list of atoms: none of its references matters. */
static int
is_leaf(hfi_graph_walk *at, PyObject *object) {
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object))
        return 0;
    Py_ssize_t count = Py_SIZE(object);
    if (count > LEAF_ITEMS)
        return 0;
    PyObject **items = PySequence_Fast_ITEMS(object);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!items[i] || !is_atom(at, items[i]))
            return 0;
    spend_references(at, (size_t)count);
    return 1;
}

/* The time zone of a date or time. The difference of two dates depends on whether they
 * have the same zone object, or two equal ones. The date that is visited may have
 * several owners, so the visit doesn't count. */
static int
visit_zone(hfi_graph_walk *at, PyObject *object) {
    PyObject *zone = hfi_graph_zone_of(object);
    unsigned kind = zone ? object_kind(at, zone) : HFI_ATOM;
    if ((kind & ~(unsigned)HFI_OPAQUE) == HFI_ATOM)
        return at->failed;
    int before = at->counting;
    at->counting = 0;
    int status = kind == HFI_UNKNOWN ? add_question(at, zone, HFI_ASK_TYPE)
                                     : visit_noted(at, zone, kind);
    at->counting = before;
    return status;
}

static int
visit_kind(hfi_graph_walk *at, PyObject *object, unsigned kind) {
    if (kind == HFI_UNKNOWN)
        return add_question(at, object, HFI_ASK_TYPE);
    if (kind == HFI_ATOM || (kind & ~(unsigned)HFI_OPAQUE) == HFI_ATOM)
        return at->failed;
    if ((kind & ~(unsigned)HFI_OPAQUE) == HFI_CLASS)
        return visit_class(at, object);
    if ((kind & ~(unsigned)HFI_OPAQUE) == HFI_MEMBER)
        return visit_class(at, (PyObject *)Py_TYPE(object));
    if ((kind & ~(unsigned)HFI_OPAQUE) == HFI_DATED)
        return visit_zone(at, object);
    if ((kind & ~(unsigned)HFI_OPAQUE) == HFI_MODULE &&
        hfi_graph_is_imported_module(object))
        return at->failed;
    if (kind == HFI_CFUNCTION) {
        PyObject *self = PyCFunction_GetSelf(object);
        if (!self || PyModule_Check(self) || PyType_Check(self))
            return 0;
    }
    if (kind == HFI_FUNCTION && hfi_graph_is_imported_function(object, at->input->skip))
        return 0;
    /* Only the object that is walked now holds it, so nothing is joined. */
    if (Py_REFCNT(object) == at->counting && !hfi_graph_has_weak_reference(object)) {
        if (!is_leaf(at, object))
            return enter_object(at, object, kind);
        at->graph->visited++;
        return at->failed;
    }
    return visit_noted(at, object, kind);
}

/* An object to which others may refer, too: all roots that do are joined. */
static int
visit_noted(hfi_graph_walk *at, PyObject *object, unsigned kind) {
    int new;
    hfi_graph_note *found = hfi_graph_walk_note(at, object, &new);
    if (!found)
        return 1;
    found->count += at->counting;
    if (new) {
        found->object = object;
        return enter_object(at, object, kind);
    }
    if (found->root != at->root)
        hfi_graph_join(at->graph, found->root, at->root);
    return 0;
}

static int
visit_reference(PyObject *object, void *context) {
    hfi_graph_walk *at = context;
    if (!object)
        return 0;
    if (object == at->input->skip) { /* all variables can be changed through it */
        at->graph->roots[at->root].namespace_refs += at->counting;
        add_number(at, (uint64_t)(uintptr_t)object);
        return at->failed;
    }
    return spend_references(at, 1) ? 1
                                   : visit_kind(at, object, object_kind(at, object));
}

/* A visit that stands for no reference of the current object's own. */
static void
visit_uncounted(hfi_graph_walk *at, PyObject *object) {
    int before = at->counting;
    at->counting = 0;
    visit_reference(object, at);
    at->counting = before;
}

static void
walk_function(hfi_graph_walk *at, PyObject *function) {
    PyFunctionObject *parts = (PyFunctionObject *)function;
    if (parts->func_globals == at->input->skip)
        at->graph->roots[at->root].namespace_refs++;
    else if (!hfi_graph_is_module_dict(parts->func_globals))
        visit_reference(parts->func_globals, at);
    visit_reference(parts->func_closure, at);
    visit_reference(parts->func_defaults, at);
    visit_reference(parts->func_kwdefaults, at);
    visit_reference(parts->func_dict, at);
    visit_reference(parts->func_annotations, at);
}

/* The elements of an array of objects. If they are no block, NumPy is asked. */
static void
walk_elements(hfi_graph_walk *at, PyObject *array) {
    size_t count = hfi_array_size(array);
    PyObject **elements;
    if (spend_references(at, count))
        return;
    int block = hfi_array_elements(array, &elements, &count);
    for (size_t i = 0; block > 0 && i < count && !at->failed; i++)
        visit_uncounted(at, elements[i]);
    if (block <= 0)
        add_question(at, array, HFI_ASK_ELEMENTS);
    PyErr_Clear();
}

static void
add_weak(hfi_graph_walk *at, PyObject *reference) {
    void *weak =
        make_item_room(at, at->weak, at->weak_count, &at->weak_room, sizeof *at->weak);
    if (!weak)
        return;
    at->weak = weak;
    at->weak[at->weak_count++] = (hfi_weak_edge){reference, at->root};
}

/* Memory that isn't an object of the interpreter. All roots that name it are joined. */
static void
visit_address(hfi_graph_walk *at, void *address) {
    int new;
    if (at->input->origin)
        address = at->input->origin(at->input->origin_context, address);
    hfi_graph_note *found = hfi_graph_walk_note(at, address, &new);
    if (found && !new && found->root != at->root)
        hfi_graph_join(at->graph, found->root, at->root);
}

static void
walk_array(hfi_graph_walk *at, PyObject *array) {
    PyObject *base = hfi_array_base(array);
    if (base && base != Py_None)
        visit_reference(base, at); /* the array keeps it alive */
    /* The array's own memory may belong to another library (torch.from_numpy). */
    if (base && !hfi_array_check(base))
        add_question(at, array, HFI_ASK_MEMORY);
    Py_XDECREF(base);
    PyErr_Clear();
    int plain = hfi_array_is_plain(array);
    if (plain < 0)
        PyErr_Clear();
    if (plain == 0)
        walk_elements(at, array);
    if (Py_TYPE(array)->tp_traverse)
        Py_TYPE(array)->tp_traverse(array, visit_reference, at);
}

/* The items of a list or tuple lie side by side, but each refers to an object anywhere
 * in memory, and the walk mostly waits for these. */
static void
walk_items(hfi_graph_walk *at, PyObject *object) {
    PyObject **items = PySequence_Fast_ITEMS(object);
    Py_ssize_t count = Py_SIZE(object);
    for (Py_ssize_t i = 0; i < count && !at->failed; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(items[i + AHEAD]);
        visit_reference(items[i], at);
    }
}

/* Attributes that lie in the instance are visited there, and counted. So if other code
 * knows a dict of them, too, that is followed without counting. By itself it shows
 * nothing. */
static void
walk_inline_dict(hfi_graph_walk *at, PyObject *object) {
    PyObject *dict = hfi_graph_inline_dict(object);
    if (dict && Py_REFCNT(dict) > 1)
        visit_reference(dict, at);
    if (!hfi_graph_is_inline_dict(object))
        return;
    PyObject *value;
    for (Py_ssize_t i = 0; PyDict_Next(object, &i, NULL, &value) && !at->failed;)
        visit_uncounted(at, value);
}

static void
walk_object(hfi_graph_walk *at, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyList_Type || type == &PyTuple_Type) {
        walk_items(at, object);
        return;
    }
    switch (object_kind(at, object) & ~(unsigned)HFI_OPAQUE) {
    case HFI_FUNCTION:
        walk_function(at, object);
        break;
    case HFI_ARRAY:
        walk_array(at, object);
        break;
    case HFI_WEAK:
        add_weak(at, object);
        type->tp_traverse(object, visit_reference, at);
        break;
    case HFI_SHARING:
        add_question(at, object, HFI_ASK_SHARES);
        if (type->tp_traverse)
            type->tp_traverse(object, visit_reference, at);
        break;
    default:
        type->tp_traverse(object, visit_reference, at);
        if (PyMemoryView_Check(object))
            visit_uncounted(at, hfi_array_exporter(object));
        break;
    }
    walk_inline_dict(at, object);
    /* Not every type with a C traverse visits its type. */
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
        visit_uncounted(at, (PyObject *)type);
}

static void
drain_stack(hfi_graph_walk *at) {
    while (at->depth && !at->failed)
        walk_object(at, at->stack[--at->depth]);
}

void
hfi_graph_walk_from(hfi_graph_walk *at, uint32_t index) {
    hfi_graph_root *root = &at->graph->roots[index];
    at->root = index;
    at->counting = 1;
    if (root->is_class) {
        PyType_Type.tp_traverse(root->object, visit_reference, at);
    } else {
        at->counting += at->input->caller_refs;
        visit_reference(root->object, at);
        at->counting = 1;
    }
    drain_stack(at);
}

/* Give up the question's own reference first: most of these objects have only one more,
 * and need no note. Objects that nothing else holds any more are kept. */
static PyObject *
take_object(hfi_graph_walk *at, hfi_graph_question *question) {
    PyObject *object = question->object;
    question->object = NULL;
    if (question->topic == HFI_ASK_TYPE && Py_REFCNT(object) > 1)
        Py_DECREF(object);
    else
        hfi_graph_walk_hold_consume(at, object);
    return object;
}

static void
take_answer(hfi_graph_walk *at, const hfi_graph_question *question) {
    PyObject *items = question->answer;
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items) && !at->failed; i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (question->topic == HFI_ASK_ELEMENTS || !PyLong_CheckExact(item))
            visit_uncounted(at, item);
        else if (PyLong_AsVoidPtr(item))
            visit_address(at, PyLong_AsVoidPtr(item));
    }
    PyErr_Clear(); /* a number that is no address */
}

void
hfi_graph_walk_answered(hfi_graph_walk *at, hfi_graph_question *question) {
    PyObject *object = take_object(at, question);
    if (at->failed)
        return;
    at->root = question->root;
    at->counting = question->counting;
    if (question->topic == HFI_ASK_TYPE)
        visit_kind(at, object, object_kind(at, object));
    at->counting = 1;
    take_answer(at, question);
    drain_stack(at);
}

void
hfi_graph_walk_fini(hfi_graph_walk *at) {
    hfi_pointer_map_fini(&at->seen);
    hfi_pointer_map_fini(&at->types);
    hfi_pointer_map_fini(&at->edges);
    Py_XDECREF(at->finder);
    free(at->notes);
    free(at->weak);
    free(at->stack);
    for (size_t i = 0; i < at->question_count; i++)
        Py_DECREF(at->questions[i].object);
    free(at->questions);
    /* At the end: an object that nothing else holds any more may run a finalizer. */
    for (size_t i = 0; i < at->held_count; i++)
        Py_DECREF(at->held[i]);
    free(at->held);
}
