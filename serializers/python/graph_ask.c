/* graph_ask.c - questions of the walk over live objects that need Python code.
 *
 * Does a type have a codec? Which objects does the codec say a value shares? Whose
 * memory does an array look at? Such questions import modules and call Python
 * functions. Meanwhile another thread may run, and replace any part of the walked
 * objects. So they are asked in rounds, when nothing is left on the walk's stack.
 * Before a round the walk takes a reference to everything that it remembers by address:
 * notes, weak references, functions, types. So nothing can be freed whose address is
 * known, and no other object can get that address. These references are known when
 * references are counted (graph.c), so they make no object look held.
 *
 * An object that a thread changes during a round is seen in its old state or in its new
 * one. A change between two rounds can hide that two names share an object, or that
 * other code holds one. If a cell has threads that change variables during a save,
 * `touched` shows it (names_scan.c), and nothing is skipped then.
 */
#include "array.h"
#include "graph_types.h"
#include "graph_walk.h"
#include "imported.h"

#include <stdlib.h>

static void
hold_object(hfi_graph_walk *at, PyObject *object) {
    hfi_graph_walk_hold_consume(at, Py_NewRef(object));
}

/* Take references to all that is remembered. */
static void
hold_all(hfi_graph_walk *at) {
    for (; at->notes_held < at->note_count && !at->failed; at->notes_held++)
        if (at->notes[at->notes_held].object)
            hold_object(at, at->notes[at->notes_held].object);
    for (; at->weak_held < at->weak_count && !at->failed; at->weak_held++)
        hold_object(at, at->weak[at->weak_held].reference);
    for (; at->codes_held < at->graph->code_count && !at->failed; at->codes_held++)
        hold_object(at, at->graph->codes[at->codes_held].object);
    at->last_class = NULL; /* in no list: it may be freed already */
}

/* The `shares` of the type's codec, new reference; NULL if it has none. A codec that
 * fails here counts as none. */
static PyObject *
shares_of(hfi_graph_walk *at, PyTypeObject *type) {
    if (!at->finder) {
        PyObject *module = hfi_imported("holdfast.codecs");
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

static void
ask_type(hfi_graph_walk *at, PyTypeObject *type) {
    int new;
    uint32_t *known = hfi_pointer_map_put(&at->types, type, &new);
    if (!known || *known != HFI_UNKNOWN)
        return; /* asked by now */
    PyObject *shares = shares_of(at, type);
    unsigned how = shares ? HFI_SHARING : (unsigned)hfi_graph_treatment(type);
    *known = how | (shares || !hfi_graph_is_transparent(type) ? HFI_OPAQUE : 0u);
    Py_XDECREF(shares);
}

static PyObject *
ask_shares(hfi_graph_walk *at, PyObject *object) {
    PyObject *shares = shares_of(at, Py_TYPE(object));
    PyObject *given = shares ? PyObject_CallOneArg(shares, object) : NULL;
    PyObject *items = given ? PySequence_Tuple(given) : NULL;
    Py_XDECREF(given);
    Py_XDECREF(shares);
    return items;
}

static PyObject *
ask_memory(PyObject *array) {
    hfi_array_view view;
    if (hfi_array_view_get(array, &view) < 0)
        return NULL;
    PyObject *items = view.low && view.low_size
                          ? Py_BuildValue("(N)", PyLong_FromVoidPtr(view.low))
                          : NULL;
    hfi_array_view_fini(&view);
    return items;
}

static PyObject *
ask_elements(PyObject *array) {
    PyObject *flat = PyObject_CallMethod(array, "ravel", "s", "K");
    PyObject *list = flat ? PyObject_CallMethod(flat, "tolist", NULL) : NULL;
    PyObject *items = list ? PySequence_Tuple(list) : NULL;
    Py_XDECREF(flat);
    Py_XDECREF(list);
    return items;
}

static void
ask_question(hfi_graph_walk *at, hfi_graph_question *question) {
    PyObject *answer = NULL;
    switch (question->topic) {
    case HFI_ASK_TYPE:
        ask_type(at, Py_TYPE(question->object));
        break;
    case HFI_ASK_SHARES:
        answer = ask_shares(at, question->object);
        break;
    case HFI_ASK_MEMORY:
        answer = ask_memory(question->object);
        break;
    case HFI_ASK_ELEMENTS:
        answer = ask_elements(question->object);
        break;
    }
    PyErr_Clear();
    if (!answer)
        return;
    question->answer = answer;
    hfi_graph_walk_hold_consume(at, answer);
}

void
hfi_graph_ask(hfi_graph_walk *at) {
    hfi_graph_question *questions = at->questions;
    size_t count = at->question_count;
    at->questions = NULL;
    at->question_count = at->question_room = 0;
    hold_all(at);
    for (size_t i = 0; i < count && !at->failed; i++)
        ask_question(at, &questions[i]);
    int collects =
        PyGC_Disable(); /* the code that ran may have switched it on or off */
    for (size_t i = 0; i < count; i++)
        hfi_graph_walk_answered(at, &questions[i]);
    if (collects)
        PyGC_Enable();
    free(questions);
}
