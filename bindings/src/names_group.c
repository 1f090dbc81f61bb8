/* names_group.c - which names of a save belong together, and the order of putting.
 *
 * The walk (graph.c) says which names share objects. Names that share are one entry, a
 * dict of their values, so that the pickler keeps what they share; classes of the
 * notebook that share with names are in it too. Two passes over the members:
 *
 *   1. groups and classes, those with classes first: a name whose class was declined
 *      could not be decoded, and must be declined as well;
 *   2. the names, in the namespace's order. The store numbers keys as they are first
 *      put, and a new process binds by those numbers: so its globals come in the order
 *      of the old one's, and what shares objects with what doesn't show in it.
 *
 * A group that can't be carried as a whole is taken apart: the members that fail by
 * themselves are declined, the others go on as a smaller group. So one generator
 * doesn't keep the list that it reads from carrying on. The names of those that go on
 * are kept as `beside`: what comes back for them is applied to the objects that are
 * here (names_bind.c), so that the declined one sees it.
 */
#include "names_save.h"

#include <stdlib.h>
#include <string.h>

/* The key of a group: the one that a member was in before, else a new one. */
static PyObject *
group_key(hfi_save *at, hfi_member *const *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        hfi_record *record = hfi_save_record(at, list[i]->key);
        PyObject *group =
            record && record->state == HFI_BOUND ? hfi_record_group(record) : NULL;
        if (group && PySet_Contains(at->groups_used, group) == 0)
            return PySet_Add(at->groups_used, group) < 0 ? NULL : Py_NewRef(group);
    }
    char text[24];
    int size = snprintf(text + 2, sizeof text - 2, "%016llx",
                        (unsigned long long)at->names->group_seed++);
    text[0] = HFI_KEY_GROUP;
    text[1] = 'g';
    PyObject *key = PyUnicode_FromStringAndSize(text, size + 2);
    if (key && PySet_Add(at->groups_used, key) < 0)
        Py_CLEAR(key);
    return key;
}

static int
by_key(const void *one, const void *other) {
    hfi_member *const *left = one, *const *right = other;
    return PyUnicode_Compare((*left)->key, (*right)->key);
}

static int save_group(hfi_save *at, hfi_member **list, size_t count);

/* Do these names share objects with a declined one? */
static int
note_beside(hfi_save *at, hfi_member *const *list, size_t count, int beside) {
    PyObject *known = at->names->beside;
    for (size_t i = 0; i < count; i++)
        if (!list[i]->is_class && (beside ? PySet_Add(known, list[i]->key)
                                          : PySet_Discard(known, list[i]->key)) < 0)
            return -1;
    return 0;
}

/* Not carried as a whole: decline those that fail alone, go on with the others. */
static int
save_apart(hfi_save *at, hfi_member **list, size_t count) {
    size_t kept = 0;
    char whole[HF_ERROR_MESSAGE_SIZE];
    memcpy(whole, at->error.message, sizeof whole);
    for (size_t i = 0; i < count; i++) {
        uint32_t codec;
        if (hfi_save_own_classes(at, list, count) < 0)
            return -1;
        hf_status status = hfi_save_encode(at, list[i]->value, list[i]->key, &codec);
        if (status == HF_DECLINED ? hfi_save_decline(at, list[i], at->error.message) < 0
                                  : status != HF_OK)
            return -1;
        if (status == HF_OK)
            list[kept++] = list[i];
    }
    if (kept < count)
        return note_beside(at, list, kept, 1) < 0 ? -1 : save_group(at, list, kept);
    for (size_t i = 0; i < count; i++)
        if (hfi_save_decline(at, list[i], whole) < 0)
            return -1;
    return 0;
}

static PyObject *
values_of(hfi_member *const *list, size_t count) {
    PyObject *values = PyDict_New();
    for (size_t i = 0; values && i < count; i++)
        if (PyDict_SetItem(values, list[i]->key, list[i]->value) < 0)
            Py_CLEAR(values);
    return values;
}

/* Put the values of a group under one key, which its members then have. A name that is
 * alone waits for its turn in the order of names. */
static int
save_group(hfi_save *at, hfi_member **list, size_t count) {
    if (count < 2)
        return count && list[0]->is_class ? hfi_save_single(at, list[0]) : 0;
    qsort(list, count, sizeof *list, by_key);
    PyObject *values = values_of(list, count);
    uint32_t codec = 0;
    hf_status status = HF_E_NOMEM;
    if (values && hfi_save_own_classes(at, list, count) == 0)
        status = hfi_save_encode(at, values, values, &codec);
    Py_XDECREF(values);
    if (status == HF_DECLINED)
        return save_apart(at, list, count);
    PyObject *key = status == HF_OK ? group_key(at, list, count) : NULL;
    int changed = key ? hfi_save_put(at, key, codec, NULL, NULL) : -1;
    int failed = changed < 0;
    for (size_t i = 0; !failed && i < count; i++) {
        list[i]->group = Py_NewRef(key);
        list[i]->is_saved = changed > 0;
    }
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* Give the classes that the walk found their keys, behind the names. */
static int
add_classes(hfi_save *at, const hfi_graph *graph) {
    size_t classes = graph->count - graph->names;
    hfi_member *members =
        realloc(at->members, (at->count + classes + 1) * sizeof *members);
    if (members)
        at->members = members;
    uint32_t *walked = realloc(at->walked, (graph->count + 1) * sizeof *walked);
    if (walked)
        at->walked = walked;
    PyObject *carry =
        members && walked ? PyImport_ImportModule("holdfast._carry") : PyErr_NoMemory();
    if (!carry)
        return -1;
    for (size_t i = graph->names; i < graph->count; i++) {
        PyObject *key =
            PyObject_CallMethod(carry, "class_key", "O", graph->roots[i].object);
        if (!key) {
            Py_DECREF(carry);
            return -1;
        }
        at->walked[i] = (uint32_t)at->count;
        at->members[at->count++] =
            (hfi_member){.key = key,
                         .value = Py_NewRef(graph->roots[i].object),
                         .root = (uint32_t)i,
                         .is_class = 1};
    }
    Py_DECREF(carry);
    return 0;
}

typedef struct order {
    uint32_t group;
    uint32_t index;
    int has_class; /* of the group */
} order;

static int
by_group(const void *one, const void *other) {
    const order *left = one, *right = other;
    if (left->has_class != right->has_class)
        return right->has_class - left->has_class;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    return left->index < right->index ? -1 : 1;
}

/* Of the members that aren't alone, or are classes: which group each is in, sorted. */
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
        qsort(orders, count, sizeof *orders, by_group);
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

/* Do no two names share anything, and is there no class? The usual case. */
static int
all_alone(hfi_graph *graph) {
    int alone = graph->count == graph->names;
    for (uint32_t i = 0; alone && i < graph->count; i++)
        alone = graph->roots[i].parent == i;
    return alone;
}

static int
save_groups(hfi_save *at, hfi_graph *graph) {
    size_t count = 0;
    if (all_alone(graph))
        return 0;
    order *orders = orders_of(graph, &count);
    hfi_member **list = orders ? calloc(count + 1, sizeof *list) : NULL;
    if (orders && !list)
        PyErr_NoMemory();
    int failed = !list;
    for (size_t i = 0; !failed && i < count;) {
        size_t size = 0;
        uint32_t group = orders[i].group;
        for (; i < count && orders[i].group == group; i++)
            list[size++] = &at->members[at->walked[orders[i].index]];
        failed = note_beside(at, list, size, 0) < 0 || save_group(at, list, size) < 0;
    }
    free(orders);
    free(list);
    return failed ? -1 : 0;
}

/* Each name, and each class that is in a group; a class alone was put before. */
static int
save_names(hfi_save *at) {
    hfi_names *names = at->names;
    if (!names->records.live && hfi_records_reserve(&names->pending, at->count) < 0)
        return -1; /* the first save puts all of them */
    for (size_t i = 0; i < at->count; i++) {
        hfi_member *one = &at->members[i];
        int failed = 0;
        if (one->group)
            failed = hfi_save_member(at, one) < 0;
        else if (!one->is_class && !one->is_declined)
            failed = hfi_save_single(at, one) < 0;
        if (failed)
            return -1;
    }
    return 0;
}

/* Views of different parts of a region are views of one buffer of the store. */
static void *
region_start(void *session, void *address) {
    hf_region *region = hf_region_find(session, address);
    if (region)
        address = hf_region_address(region);
    hf_region_release(region);
    return address;
}

/* Those of the members' values that may share something; gives how many. */
static size_t
find_roots(hfi_save *at, PyObject **objects) {
    size_t count = 0;
    for (size_t i = 0; i < at->count; i++) {
        hfi_member *one = &at->members[i];
        one->root = HFI_NO_ROOT;
        if (hfi_graph_is_atom(one->value))
            continue;
        at->walked[count] = (uint32_t)i;
        one->root = (uint32_t)count;
        objects[count++] = one->value;
    }
    return count;
}

int
hfi_save_members(hfi_save *at) {
    hfi_graph graph;
    PyObject **objects = malloc((at->count + 1) * sizeof *objects);
    at->walked = malloc((at->count + 1) * sizeof *at->walked);
    if (!objects || !at->walked) {
        free(objects);
        PyErr_NoMemory();
        return -1;
    }
    hfi_graph_input input = {.objects = objects,
                             .count = find_roots(at, objects),
                             .skip = at->namespace,
                             .classes = PySequence_Fast_ITEMS(at->classes),
                             .class_count = (size_t)PyList_GET_SIZE(at->classes),
                             .others = at->others,
                             .other_count = at->other_count,
                             .other_refs = 2, /* `others` holds it, too */
                             .caller_refs = 1,
                             .origin = region_start,
                             .origin_context = at->names->attachment->session};
    int failed = hfi_graph_init(&graph, &input) < 0;
    free(objects);
    if (failed)
        return -1;
    failed = (graph.count > graph.names && add_classes(at, &graph) < 0) ||
             hfi_save_learn(at, &graph) < 0 || save_groups(at, &graph) < 0 ||
             save_names(at) < 0;
    hfi_graph_fini(&graph);
    return failed ? -1 : 0;
}
