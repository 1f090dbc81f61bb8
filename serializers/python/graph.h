/* graph.h - which names share mutable objects or memory. Call with the interpreter
 * attached; runs no Python code but the attribute getters of NumPy arrays and the
 * codecs of other libraries' types. */
#ifndef HFI_GRAPH_H
#define HFI_GRAPH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hfi_graph_root {
    PyObject
        *object;     /* borrowed: the namespace, or a class's own references, hold it */
    uint32_t parent; /* union-find; read through hfi_graph_group() */
    int is_class;    /* a notebook class that the walk found, not a name */
} hfi_graph_root;

typedef struct hfi_graph {
    hfi_graph_root *roots;
    size_t count;
    size_t names;     /* roots[0 .. names-1] are the names that were given */
    uint64_t visited; /* objects looked at, for reports */
} hfi_graph;

/* Where the block of memory begins that `address` lies in; `address` itself where that
 * isn't known. */
typedef void *(*hfi_graph_origin)(void *context, void *address);

/* Walk from each of `objects` and join those that reach a common mutable object.
 * Classes of the notebook become roots of their own behind the names. `skip` (the
 * namespace) is never entered. `origin` (may be NULL) is asked for memory, so that
 * views of different parts of a block are joined. -1 with MemoryError. */
int hfi_graph_init(hfi_graph *ret_graph, PyObject *const *objects, size_t count,
                   PyObject *skip, hfi_graph_origin origin, void *context);
/* 1 where more than `limit` references are met on the way from `objects`, else 0; -1
 * with MemoryError. Costs as much as the limit, at most. */
int hfi_graph_is_larger(PyObject *const *objects, size_t count, PyObject *skip,
                        size_t limit);
void hfi_graph_fini(hfi_graph *graph);
/* The representative root of root `index`'s group. */
uint32_t hfi_graph_group(hfi_graph *graph, uint32_t index);
/* 1 where sharing or changing `object` can't be told: None, numbers, short texts ... */
int hfi_graph_is_atom(PyObject *object);

#endif
