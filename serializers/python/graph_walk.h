/* graph_walk.h - one walk over live objects: what it has seen, and what is behind each.
 * Private to graph.c and graph_walk.c. */
#ifndef HFI_GRAPH_WALK_H
#define HFI_GRAPH_WALK_H

#include "graph.h"
#include "pointer_map.h"

#define HFI_NO_NOTE UINT32_MAX

/* An object that more than one may refer to, or an address. */
typedef struct hfi_graph_note {
    PyObject *object; /* NULL: of no interest at the end */
    Py_ssize_t count; /* references that were seen */
    uint32_t root;    /* that reached it first */
} hfi_graph_note;

/* A weak reference that a root reaches. */
typedef struct hfi_weak_edge {
    PyObject *reference;
    uint32_t root;
} hfi_weak_edge;

typedef struct hfi_graph_walk {
    hfi_graph *graph;
    const hfi_graph_input *input;
    hfi_pointer_map seen;  /* object -> its note, or HFI_NO_NOTE */
    hfi_pointer_map types; /* type -> treatment, and whether it is opaque */
    hfi_pointer_map edges; /* class and root, in one number */
    hfi_graph_note *notes;
    size_t note_count;
    size_t note_room;
    hfi_weak_edge *weak;
    size_t weak_count;
    size_t weak_room;
    PyObject *finder; /* holdfast.codecs.finder_of_shares; NULL until needed */
    PyObject *kept;   /* list: what codecs gave, held while it may be on the stack */
    PyObject *mark;   /* of functools, in all of its caches; NULL until one is met */
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
    enum { HFI_GOES_ON, HFI_NO_MEMORY, HFI_TOO_LARGE } failed;
} hfi_graph_walk;

/* Follow everything behind a root. Sets `failed` where it ends early. */
void hfi_graph_walk_from(hfi_graph_walk *at, uint32_t index);
/* Make a class of the notebook a root, to be walked later. */
void hfi_graph_walk_add_class(hfi_graph_walk *at, PyObject *object);
/* The note of an object or address, made for the current root where there was none;
 * NULL without memory. */
hfi_graph_note *hfi_graph_walk_note(hfi_graph_walk *at, const void *key, int *ret_new);
/* Give back all that the walk took, but not its graph. */
void hfi_graph_walk_fini(hfi_graph_walk *at);

/* In graph.c. */
void hfi_graph_join(hfi_graph *graph, uint32_t one, uint32_t other);

#endif
