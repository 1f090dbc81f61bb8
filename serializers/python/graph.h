/* graph.h - which names share mutable objects or memory. Call with the interpreter
 * attached; may run any code in Python: codecs of other libraries' types, finalizers.
 */
#ifndef HFI_GRAPH_H
#define HFI_GRAPH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#include "graph_types.h"

typedef struct hfi_graph_root {
    PyObject
        *object;     /* borrowed: the namespace, or a class's own references, hold it */
    uint32_t parent; /* union-find; read through hfi_graph_group() */
    int is_class;    /* a notebook class that the walk found, not a name */
    int is_open;     /* it can change without being named: held elsewhere, or opaque */
    int is_held;     /* other code holds a part of it */
    Py_ssize_t namespace_refs; /* its functions' references to `skip` */
} hfi_graph_root;

/* A function or class of the notebook that is behind a root. */
typedef struct hfi_graph_code {
    uint32_t root;
    PyObject *object; /* owned by the graph */
} hfi_graph_code;

/* A number behind a root that may be an address of this process: id() of an object, or
 * the begin of an array. The address of `skip` is noted as well if something refers to
 * it. */
typedef struct hfi_graph_number {
    uint32_t root;
    uint64_t value;
} hfi_graph_number;

typedef struct hfi_graph {
    hfi_graph_root *roots;
    size_t count;
    size_t names;     /* roots[0 .. names-1] are the names that were given */
    uint64_t visited; /* objects looked at, for reports */
    hfi_graph_code *codes;
    size_t code_count;
    hfi_graph_number *numbers; /* the first 4096 */
    size_t number_count;
} hfi_graph;

/* The begin of the block of memory in which `address` lies; `address` itself if that
 * isn't known. */
typedef void *(*hfi_graph_origin)(void *context, void *address);

typedef struct hfi_graph_input {
    PyObject *const *objects; /* the names' values, which the caller holds */
    size_t count;
    PyObject *skip;           /* the namespace: never entered */
    PyObject *const *classes; /* of the notebook: roots, even if no value has them */
    size_t class_count;
    /* Objects with known references that aren't followed, once for each: IPython's
     * memory of results. */
    PyObject *const *others;
    size_t other_count;
    int other_refs;  /* that each of `others` stands for */
    int caller_refs; /* references to each of `objects` besides the namespace's */
    hfi_graph_origin origin; /* asked for memory, so that views of different parts of
                              * a block are joined; or NULL */
    void *origin_context;
} hfi_graph_input;

/* Walk from each of the objects and join those that reach a common mutable object.
 * Classes of the notebook become roots of their own behind the names. -1 with
 * MemoryError. */
int hfi_graph_init(hfi_graph *ret_graph, const hfi_graph_input *input);
/* 1 if the walk from the objects meets more than `limit` references, else 0; -1 with
 * MemoryError. Costs as much as the limit, at most. */
int hfi_graph_is_larger(const hfi_graph_input *input, size_t limit);
void hfi_graph_fini(hfi_graph *graph);
/* The representative root of root `index`'s group. */
uint32_t hfi_graph_group(hfi_graph *graph, uint32_t index);
#endif
