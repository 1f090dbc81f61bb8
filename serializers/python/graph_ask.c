/* graph_ask.c - what the walk over live objects can't see without running code.
 *
 * Whether a type has a codec, what that codec says a value shares, whose memory an
 * array looks at: such questions import modules and call functions in Python. While one
 * runs, another thread may run as well, and replace any part of what is walked. So they
 * are asked in rounds, each when nothing is left on the walk's stack. Before a round
 * everything that the walk remembers by its address gets a reference of the walk's own:
 * what has been noted, weak references, functions, types. Nothing can then be freed
 * whose address is known, nor another object be taken for it. These references are
 * known when the accounts are closed (graph.c), so they make nothing look held.
 *
 * An object that a thread changes during a round is seen in its old state or in its new
 * one. A change between two rounds can hide that two names share an object, or that
 * somebody holds one; a cell with threads that change variables beside a save learns
 * that by `touched` (names_scan.c): nothing is passed over then.
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

/* Own references to all that is remembered. */
static void
hold_all(hfi_graph_walk *at) {
    for (; at->notes_held < at->note_count && !at->failed; at->notes_held++)
        if (at->notes[at->notes_held].object)
            hold_object(at, at->notes[at->notes_held].object);
    for (; at->weak_held < at->weak_count && !at->failed; at->weak_held++)
        hold_object(at, at->weak[at->weak_held].reference);
    for (; at->codes_held < at->graph->code_count && !at->failed; at->codes_held++)
        hold_object(at, at->graph->codes[at->codes_held].object);
    at->last_class = NULL; /* in no list: it may be gone */
}

/* The `shares` of the type's codec, new reference, or NULL. A codec that fails here is
 * none. */
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
    int collects = PyGC_Disable(); /* what runs here may have turned it on or off */
    for (size_t i = 0; i < count; i++)
        hfi_graph_walk_answered(at, &questions[i]);
    if (collects)
        PyGC_Enable();
    free(questions);
}
