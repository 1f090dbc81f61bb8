/* names_group.c - which members of a save belong together.
 *
 * The walk (graph.c) finds which names share objects. These are one entry, a dict of
 * their values, so that the pickler keeps what they share. Classes of the notebook that
 * share objects with names are in it, too. A class alone is a group of its own, so that
 * it is put before the names. Groups with classes come first: if a class can't be
 * encoded, a name that needs it could not be decoded, and must be unserializable, too.
 *
 * The walk also finds which values are closed, and which code is behind them
 * (names_code.c), and counts the references to the namespace that functions hold
 * (Names.strays).
 *
 * The walk's results are copied to the members and to a list of indices: once it is
 * over, nothing refers to it any more.
 */
#include "names_stages.h"

#include <stdlib.h>

#include "graph.h"
#include "names_code.h"

enum { NO_ROOT = UINT32_MAX }; /* an atom, which shares nothing */

typedef struct walk {
    hfi_scan *scan;
    hfi_graph graph;
    uint32_t *members; /* of each root, its member */
    uint32_t *roots;   /* of each member, its root */
} walk;

/* Get the keys of the classes that the walk found, behind the names. These are two
 * steps, since a key is asked of Python, and the walk only borrows the classes. */
static int
add_classes(walk *at) {
    hfi_scan *scan = at->scan;
    hfi_graph *graph = &at->graph;
    size_t first = scan->count, classes = graph->count - graph->names;
    hfi_member *members = realloc(scan->members, (first + classes) * sizeof *members);
    if (members)
        scan->members = members;
    uint32_t *walked = realloc(at->members, graph->count * sizeof *walked);
    if (walked)
        at->members = walked;
    uint32_t *roots = realloc(at->roots, (first + classes) * sizeof *roots);
    if (roots)
        at->roots = roots;
    if (!members || !walked || !roots) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = graph->names; i < graph->count; i++) {
        at->members[i] = (uint32_t)scan->count;
        at->roots[scan->count] = (uint32_t)i;
        scan->members[scan->count++] = (hfi_member){
            .key = Py_NewRef(Py_None),
            .value = Py_NewRef(graph->roots[i].object),
            .is_class = 1,
        };
    }
    for (size_t i = first; i < scan->count; i++) {
        PyObject *key = hfi_code_class_key(scan->members[i].value);
        if (!key)
            return -1;
        Py_SETREF(scan->members[i].key, key);
    }
    return 0;
}

/* The walk's results for each member. */
static int
learn_groups(walk *at) {
    hfi_graph *graph = &at->graph;
    char *open = calloc(graph->count + 1, 1);
    if (!open) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < graph->count; i++)
        open[hfi_graph_group(graph, i)] |= (char)graph->roots[i].is_open;
    for (size_t i = 0; i < at->scan->count; i++) {
        hfi_member *one = &at->scan->members[i];
        uint32_t root = at->roots[i];
        one->is_closed =
            !one->is_class && !(root != NO_ROOT && open[hfi_graph_group(graph, root)]);
        if (root != NO_ROOT)
            one->namespace_refs = graph->roots[root].namespace_refs;
    }
    free(open);
    return 0;
}

static int
list_code(walk *at, hfi_grouping *found) {
    if (!at->graph.code_count && !at->graph.number_count)
        return 0;
    PyObject *keys = PyList_New((Py_ssize_t)at->graph.count);
    for (size_t i = 0; keys && i < at->graph.count; i++)
        PyList_SET_ITEM(keys, (Py_ssize_t)i,
                        Py_NewRef(at->scan->members[at->members[i]].key));
    int failed = !keys ||
                 hfi_code_list(&at->graph, keys, found->code, found->held) < 0 ||
                 hfi_code_list_numbers(&at->graph, keys, found->numbers) < 0;
    Py_XDECREF(keys);
    return failed ? -1 : 0;
}

/* ---- the groups ----------------------------------------------------------------- */

typedef struct order {
    uint32_t group;
    uint32_t index;
    int has_class; /* of the group */
} order;

static int
by_class_and_group(const void *one, const void *other) {
    const order *left = one, *right = other;
    if (left->has_class != right->has_class)
        return right->has_class - left->has_class;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    return left->index < right->index ? -1 : 1;
}

/* List the roots that aren't alone, or are classes, with the group of each, sorted. */
static order *
orders_of(hfi_graph *graph, size_t *ret_count) {
    order *orders = calloc(graph->count + 1, sizeof *orders);
    uint32_t *sizes = calloc(graph->count + 1, sizeof *sizes);
    char *has_class = calloc(graph->count + 1, 1);
    size_t count = 0;
    if (orders && sizes && has_class) {
        for (uint32_t i = 0; i < graph->count; i++) {
            uint32_t group = hfi_graph_group(graph, i);
            sizes[group]++;
            has_class[group] |= i >= graph->names;
        }
        for (uint32_t i = 0; i < graph->count; i++) {
            uint32_t group = hfi_graph_group(graph, i);
            if (sizes[group] > 1 || has_class[group])
                orders[count++] = (order){group, i, has_class[group]};
        }
        qsort(orders, count, sizeof *orders, by_class_and_group);
    } else {
        free(orders);
        orders = NULL;
        PyErr_NoMemory();
    }
    free(sizes);
    free(has_class);
    *ret_count = count;
    return orders;
}

/* Whether no two names share anything and there is no class, the usual case. */
static int
all_alone(const hfi_graph *graph) {
    int alone = graph->count == graph->names;
    for (uint32_t i = 0; alone && i < graph->count; i++)
        alone = graph->roots[i].parent == i;
    return alone;
}

static int
list_groups(walk *at, hfi_grouping *found) {
    size_t count = 0;
    if (all_alone(&at->graph))
        return 0;
    order *orders = orders_of(&at->graph, &count);
    if (!orders)
        return -1;
    found->order = malloc((count + 1) * sizeof *found->order);
    found->groups = malloc((count + 1) * sizeof *found->groups);
    int failed = !found->order || !found->groups;
    for (size_t i = 0; !failed && i < count; i++) {
        if (!i || orders[i].group != orders[i - 1].group)
            found->groups[found->count++] = (hfi_group){.first = i};
        found->groups[found->count - 1].count++;
        found->order[i] = at->members[orders[i].index];
    }
    free(orders);
    if (failed)
        PyErr_NoMemory();
    return failed ? -1 : 0;
}

/* ---- the walk ------------------------------------------------------------------- */

/* Views of different parts of a region are views of one buffer of the store. */
static void *
region_start(void *session, void *address) {
    hf_region *region = hf_region_find(session, address);
    if (region)
        address = hf_region_address(region);
    hf_region_release(region);
    return address;
}

/* List the members' values that may share something. Returns how many. */
static size_t
find_roots(walk *at, PyObject **objects) {
    size_t count = 0;
    for (size_t i = 0; i < at->scan->count; i++) {
        PyObject *value = at->scan->members[i].value;
        at->roots[i] = NO_ROOT;
        if (hfi_graph_is_atom(value))
            continue;
        at->members[count] = (uint32_t)i;
        at->roots[i] = (uint32_t)count;
        objects[count++] = value;
    }
    return count;
}

static int
walk_init(walk *at, PyObject *namespace, hf_session *session) {
    hfi_scan *scan = at->scan;
    PyObject **objects = malloc((scan->count + 1) * sizeof *objects);
    at->members = malloc((scan->count + 1) * sizeof *at->members);
    at->roots = malloc((scan->count + 1) * sizeof *at->roots);
    if (!objects || !at->members || !at->roots) {
        free(objects);
        PyErr_NoMemory();
        return -1;
    }
    hfi_graph_input input = {.objects = objects,
                             .count = find_roots(at, objects),
                             .skip = namespace,
                             .classes = PySequence_Fast_ITEMS(scan->classes),
                             .class_count = (size_t)PyList_GET_SIZE(scan->classes),
                             .others = scan->others,
                             .other_count = scan->other_count,
                             .other_refs = 2, /* the scan holds it, too */
                             .caller_refs = 1,
                             .origin = region_start,
                             .origin_context = session};
    int failed = hfi_graph_init(&at->graph, &input) < 0;
    free(objects);
    return failed ? -1 : 0;
}

int
hfi_grouping_init(hfi_grouping *ret_grouping, hfi_scan *scan, PyObject *namespace,
                  hf_session *session) {
    walk at = {.scan = scan};
    *ret_grouping = (hfi_grouping){
        .code = PyDict_New(), .held = PyList_New(0), .numbers = PyDict_New()};
    int failed = !ret_grouping->code || !ret_grouping->held || !ret_grouping->numbers ||
                 walk_init(&at, namespace, session) < 0;
    if (!failed) {
        failed = (at.graph.count > at.graph.names && add_classes(&at) < 0) ||
                 learn_groups(&at) < 0 || list_code(&at, ret_grouping) < 0 ||
                 list_groups(&at, ret_grouping) < 0;
        hfi_graph_fini(&at.graph);
    }
    free(at.members);
    free(at.roots);
    return failed ? -1 : 0;
}

void
hfi_grouping_fini(hfi_grouping *grouping) {
    free(grouping->groups);
    free(grouping->order);
    Py_XDECREF(grouping->code);
    Py_XDECREF(grouping->held);
    Py_XDECREF(grouping->numbers);
}
