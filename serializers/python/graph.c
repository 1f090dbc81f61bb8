/* graph.c - which names share mutable objects or memory.
 *
 * Names whose values reach a common object must be carried together, or they would come
 * back as copies: they form one group. This walk finds the groups. It follows every
 * value with the interpreter's own tp_traverse, on an explicit stack, and remembers for
 * each object from which root it was reached first; reaching it from a second root
 * joins the two (union-find). tp_traverse runs no Python code and covers every
 * container that the collector knows, so a type need not be known here.
 *
 * Objects that are not followed, and why:
 *   - atoms (numbers, texts, dtypes, dates, code, modules, enum members, loggers, the
 *     shell): whether two names share one is unknown, or pickle carries it by
 *     reference;
 *   - the namespace and functions' globals: everything would be one group;
 *   - classes that are imported: they are carried by name. Classes of the notebook
 *     (`__module__` is "__main__") are roots of their own: instances refer to them, and
 *     thus a class doesn't join the names that hold its instances. An object that a
 *     class itself holds (a shared list as attribute) joins the class to the names that
 *     hold the object too;
 *   - frames and tracebacks: no codec carries them;
 *   - the mark in the keys of functools.lru_cache, which all caches share.
 * Arrays aren't known to the collector: their chain of bases is followed by hand, and
 * the elements of arrays of objects from their memory or through tolist(). Memory that
 * no array owns joins all names that lead to the same block of it. Types of other
 * libraries have codecs that name the parts that the collector doesn't see
 * (holdfast.codecs, `shares`): objects, and addresses of memory, which join all that
 * name the same one.
 *
 * An object with one reference is held by the object through which it was reached. No
 * other root can reach it, so it needn't be remembered. Most objects of a large nest
 * are such. A short tuple or list of atoms isn't put on the stack either: half of the
 * time for a list of a million of them.
 *
 * A weak reference joins its root to the root that reaches its target. It isn't
 * followed: a target without another reference belongs to a library, or is about to be
 * freed. So this is done after all roots were walked, and targets of weak references
 * are always remembered.
 *
 * The walk also finds whether other code holds a part of a value and could change it
 * without naming it: a library, a thread, a C object. tp_traverse visits each owned
 * reference once, or the collector would not work. So if an object's reference count is
 * larger than the number of its visits, other code holds it, and its root is open. A
 * root is also open if an object of it is opaque (graph_types.c) or weakly referred to.
 * The caller names its own references (hfi_graph_input). Visits that don't stand for an
 * object's own reference, such as those by hand, aren't counted: too few counts make a
 * root open that isn't, too many would be an error. Classes aren't counted: instances
 * in values that aren't walked hold them, too.
 *
 * It also collects the code behind each root: functions and classes of the notebook. It
 * counts the functions' references to the namespace. If one is missing in the sum, it
 * belongs to a function that other code holds, and may call.
 *
 * Pointers on the stack are borrowed. That is safe because no Python code runs while
 * there are any. Questions that need such code are asked in between (graph_ask.c).
 * Cost: a list of a million floats 5 ms, of a million lists 22 ms.
 *
 * The same walk finds whether values have more than a number of references. It stops
 * there: the caller wants to know that before it pays for a million.
 */
#include "graph_walk.h"

#include <stdlib.h>

/* The target of a weak reference, borrowed, or NULL. */
static PyObject *
weakref_target(PyObject *reference) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *object;
    if (PyWeakref_GetRef(reference, &object) <= 0) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(object); /* other code holds it: nothing runs meanwhile */
    return object;
#else
    PyObject *object = PyWeakref_GetObject(reference);
    return object == Py_None ? NULL : object;
#endif
}

/* Join the roots whose weak references lead to a target that another root reaches. */
static void
join_weak(hfi_graph_walk *at) {
    for (size_t i = 0; i < at->weak_count && !at->failed; i++) {
        PyObject *object = weakref_target(at->weak[i].reference);
        if (!object || PyType_Check(object))
            continue;
        int new;
        uint32_t *index = hfi_pointer_map_put(&at->seen, object, &new);
        if (!index)
            at->failed = HFI_NO_MEMORY;
        else if (new)
            *index = HFI_NO_NOTE;
        else if (*index != HFI_NO_NOTE)
            hfi_graph_join(at->graph, at->notes[*index].root, at->weak[i].root);
    }
}

/* Find the roots of which other code holds a part. */
static void
close_accounts(hfi_graph_walk *at) {
    const hfi_graph_input *input = at->input;
    for (size_t i = 0; i < input->other_count; i++) {
        int new;
        uint32_t *index = hfi_pointer_map_put(&at->seen, input->others[i], &new);
        if (!index)
            at->failed = HFI_NO_MEMORY;
        else if (new)
            *index = HFI_NO_NOTE;
        else if (*index != HFI_NO_NOTE)
            at->notes[*index].count += input->other_refs;
    }
    for (size_t i = 0; i < at->held_count; i++) {
        int new;
        uint32_t *index = hfi_pointer_map_put(&at->seen, at->held[i], &new);
        if (!index)
            at->failed = HFI_NO_MEMORY;
        else if (new)
            *index = HFI_NO_NOTE;
        else if (*index != HFI_NO_NOTE)
            at->notes[*index].count++;
    }
    for (size_t i = 0; i < at->note_count; i++) {
        const hfi_graph_note *one = &at->notes[i];
        if (!one->object || Py_REFCNT(one->object) == one->count ||
            hfi_graph_is_constant(one->object))
            continue;
        at->graph->roots[one->root].is_open = 1;
        at->graph->roots[one->root].is_held = 1;
    }
}

static void
walk_roots(hfi_graph_walk *at) {
    const hfi_graph_input *input = at->input;
    for (size_t i = 0; i < input->class_count && !at->failed; i++) {
        int new;
        if (hfi_graph_walk_note(at, input->classes[i], &new) && new)
            hfi_graph_walk_add_class(at, input->classes[i]);
    }
    uint32_t next = 0;
    do {
        int collects = PyGC_Disable(); /* a finalizer would be code in Python */
        while (next < at->graph->count && !at->failed)
            hfi_graph_walk_from(at, next++);
        if (collects)
            PyGC_Enable();
        if (at->question_count && !at->failed)
            hfi_graph_ask(at);
    } while (!at->failed && (next < at->graph->count || at->question_count));
    if (!at->failed)
        close_accounts(at);
    join_weak(at);
}

/* The graph's objects live as long as it does; names belong to their caller. */
static void
own_objects(hfi_graph *graph) {
    for (size_t i = graph->names; i < graph->count; i++)
        Py_INCREF(graph->roots[i].object);
    for (size_t i = 0; i < graph->code_count; i++)
        Py_INCREF(graph->codes[i].object);
}

/* 0; -1 with MemoryError; 1 if it met more references than it may follow. */
static int
walk_all(hfi_graph_walk *at) {
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
    walk_roots(at);
    if (at->failed)
        graph->code_count = graph->count = graph->names = 0; /* nothing is owned */
    own_objects(graph);
    hfi_graph_walk_fini(at);
    if (!at->failed)
        return 0;
    hfi_graph_fini(graph);
    if (at->failed == HFI_TOO_LARGE)
        return 1;
    PyErr_NoMemory();
    return -1;
}

int
hfi_graph_init(hfi_graph *ret_graph, const hfi_graph_input *input) {
    hfi_graph_walk at = {.graph = ret_graph, .input = input, .left = SIZE_MAX};
    return walk_all(&at);
}

int
hfi_graph_is_larger(const hfi_graph_input *input, size_t limit) {
    hfi_graph graph;
    hfi_graph_walk at = {.graph = &graph, .input = input, .left = limit};
    int larger = walk_all(&at);
    if (larger == 0)
        hfi_graph_fini(&graph);
    return larger;
}

void
hfi_graph_fini(hfi_graph *graph) {
    for (size_t i = graph->names; i < graph->count; i++)
        Py_DECREF(graph->roots[i].object);
    for (size_t i = 0; i < graph->code_count; i++)
        Py_DECREF(graph->codes[i].object);
    free(graph->roots);
    free(graph->codes);
    free(graph->numbers);
    *graph = (hfi_graph){.roots = NULL};
}
