/* graph_walk.h - one walk over live objects: the objects seen, and the objects behind
 * each. Private to graph.c, graph_walk.c and graph_ask.c.
 */
#ifndef HFI_GRAPH_WALK_H
#define HFI_GRAPH_WALK_H

#include "graph.h"
#include "pointer_map.h"

#define HFI_NO_NOTE UINT32_MAX

enum { HFI_OPAQUE = 0x100 }; /* beside a treatment: a type that isn't transparent */

/* Questions about an object that only code in Python can answer. */
typedef enum hfi_graph_topic {
    HFI_ASK_TYPE,     /* has its type a codec? */
    HFI_ASK_SHARES,   /* which objects does it share, by its codec? */
    HFI_ASK_MEMORY,   /* whose memory does an array look at? */
    HFI_ASK_ELEMENTS, /* of an array of objects that is no block */
} hfi_graph_topic;

typedef struct hfi_graph_question {
    PyObject *object; /* owned, until it is answered */
    PyObject *answer; /* in `held`: a tuple of objects and addresses; or NULL */
    uint32_t root;    /* that reached the object */
    int counting;     /* references that the visit stands for */
    hfi_graph_topic topic;
} hfi_graph_question;

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
    hfi_graph_question *questions; /* not asked yet */
    size_t question_count;
    size_t question_room;
    PyObject **held; /* own references, until the walk is over */
    size_t held_count;
    size_t held_room;
    size_t notes_held; /* how many of the notes, weak edges and codes are in `held` */
    size_t weak_held;
    size_t codes_held;
    PyObject *mark; /* of functools, in all of its caches; NULL until one is met */
    PyObject **stack;
    size_t depth;
    size_t room;
    size_t roots_room;
    size_t left; /* references that may still be followed */
    size_t codes_room;
    size_t numbers_room;
    uint32_t root;
    int counting;         /* references that a visit stands for */
    PyObject *last_class; /* of `last_root`: instances come in a row */
    uint32_t last_root;
    enum { HFI_GOES_ON, HFI_NO_MEMORY, HFI_TOO_LARGE } failed;
} hfi_graph_walk;

/* Follow everything behind a root. Sets `failed` if it ends early. */
void hfi_graph_walk_from(hfi_graph_walk *at, uint32_t index);
/* Make a class of the notebook a root, to be walked later. */
void hfi_graph_walk_add_class(hfi_graph_walk *at, PyObject *object);
/* The note of an object or address, made for the current root if there was none; NULL
 * without memory. */
hfi_graph_note *hfi_graph_walk_note(hfi_graph_walk *at, const void *key, int *ret_new);
/* Give up a question's reference; if nothing failed, follow its answer. */
void hfi_graph_walk_answered(hfi_graph_walk *at, hfi_graph_question *question);
/* Keep an object alive until the walk is over. */
void hfi_graph_walk_hold_consume(hfi_graph_walk *at, PyObject *object);
/* Free everything that the walk took, except its graph. May run finalizers. */
void hfi_graph_walk_fini(hfi_graph_walk *at);

/* In graph_ask.c: ask all questions, which may run any code, then follow the answers.
 * The stack must be empty; what is remembered is held from then on. */
void hfi_graph_ask(hfi_graph_walk *at);

/* In graph.c. */
void hfi_graph_join(hfi_graph *graph, uint32_t one, uint32_t other);

#endif
