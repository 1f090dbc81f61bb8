/* names_save.c - Names.save(): prepare a commit of what differs from the store.
 *
 * In order: look at the namespace and pass over unchangeable objects that are still the
 * same; walk the rest for what they share (graph.c), which gives groups and the classes
 * of the notebook; encode each group, classes first, and put it where its record
 * doesn't match; remove what the user deleted and what nothing refers to any more;
 * prepare.
 *
 * A group that can't be carried as a whole is taken apart: the members that fail by
 * themselves are declined, the others go on as a smaller group. So one generator
 * doesn't keep the list that it reads from carrying on; what the two shared is then the
 * declined object's loss, and its reason says so. A name whose class was declined is
 * declined too: it could not be decoded.
 *
 * Nothing is changed in `records`: what will hold once the commit is published stands
 * in `pending`. On any failure the commit is aborted and `pending` dropped, so that the
 * next save starts from the same place.
 */
#include "names.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph.h"

typedef struct member {
    PyObject *key;   /* owned */
    PyObject *value; /* owned */
    int is_class;
} member;

typedef struct save {
    hfi_state *state;
    hfi_names *names;
    PyObject *self;
    PyObject *namespace;
    PyObject *hidden;
    PyObject *own;          /* set of the classes that are encoded by value now */
    PyObject *groups_used;  /* set of group keys of this save */
    PyObject *lost_classes; /* set of identifiers of classes that were declined */
    PyObject *saved;        /* a dict as an ordered set of names */
    PyObject *removed;
    hf_commit *commit; /* begun with the first change */
    hfi_entry_sink sink;
    member *members;
    size_t count;
} save;

static hfi_record *
record_of(save *at, PyObject *key) {
    return (hfi_record *)(void *)PyDict_GetItemWithError(at->names->records, key);
}

/* ---- writing
 * ------------------------------------------------------------------------- */

static int
begin(save *at) {
    if (at->commit)
        return 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS status =
        hf_commit_begin(at->names->attachment->session, &at->commit, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK) hfi_raise(at->state, status, &error);
    return status == HF_OK ? 0 : -1;
}

static int
remove_key(save *at, PyObject *key) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(key, &size);
    if (!text || begin(at) < 0)
        return -1;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS status =
        hf_commit_remove(at->commit, text, (size_t)size, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK && status != HF_NOT_FOUND) {
        hfi_raise(at->state, status, &error);
        return -1;
    }
    return PyDict_SetItem(at->names->pending, key, Py_None);
}

static uint32_t
flags_of(const save *at, uint32_t codec, int is_group) {
    if (is_group)
        return HFI_ENTRY_GROUP;
    int cheap = at->sink.buffer_count || at->sink.payload_size < 32768;
    return codec == HF_CODEC_BUFFER && cheap ? HFI_ENTRY_MAPPED : 0;
}

/* Put the sink's encoding under `key`. Gives a new record, borrowed from pending. */
static hfi_record *
put(save *at, PyObject *key, uint32_t codec, int is_group) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(key, &size);
    if (!text || begin(at) < 0)
        return NULL;
    hf_value value = {.key = text,
                      .key_size = (size_t)size,
                      .codec = codec,
                      .flags = flags_of(at, codec, is_group),
                      .meta = at->sink.meta,
                      .meta_size = at->sink.meta_size,
                      .payload = at->sink.payload_size ? at->sink.payload : NULL,
                      .payload_size = at->sink.payload_size,
                      .buffers = at->sink.buffers,
                      .buffer_count = at->sink.buffer_count};
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS status = hf_commit_put(at->commit, &value, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK) return hfi_raise(at->state, status,
                                                               &error);
    hfi_record *record = hfi_record_new(at->state);
    if (!record)
        return NULL;
    hf_entry written = {
        .codec = codec, .meta = value.meta, .meta_size = value.meta_size};
    record->classes = hfi_entry_classes(&written);
    int failed =
        !record->classes ||
        hfi_record_take(record, at->names->attachment, &at->sink, codec) < 0 ||
        PyDict_SetItem(at->names->pending, key, (PyObject *)record) < 0 ||
        (hfi_key_kind(key) == 'n' && PyDict_SetItem(at->saved, key, Py_None) < 0);
    Py_DECREF(record);
    return failed ? NULL : record;
}

/* Put where it differs from the record: 1 if so, 0 if not, -1 with an exception. */
static int
put_changed(save *at, PyObject *key, uint32_t codec, int is_group, PyObject *value,
            PyObject *group) {
    hfi_record *known = record_of(at, key);
    if (!known && PyErr_Occurred())
        return -1;
    int same = known ? hfi_record_matches(at->state, known, &at->sink, codec) : 0;
    if (same)
        return same < 0 ? -1 : 0;
    hfi_record *record = put(at, key, codec, is_group);
    if (!record)
        return -1;
    if (value && hfi_graph_is_atom(value))
        record->object = Py_NewRef(value);
    record->group = Py_XNewRef(group);
    return 1;
}

/* ---- encoding
 * ------------------------------------------------------------------------- */

/* Which identifier of `classes` in the sink's meta was declined? Borrowed, or NULL. */
static int
needs_lost_class(save *at, uint32_t codec) {
    if (PySet_GET_SIZE(at->lost_classes) == 0)
        return 0;
    hf_entry written = {
        .codec = codec, .meta = at->sink.meta, .meta_size = at->sink.meta_size};
    PyObject *classes = hfi_entry_classes(&written);
    int lost = classes ? 0 : -1;
    for (Py_ssize_t i = 0; classes && !lost && i < PyTuple_GET_SIZE(classes); i++)
        lost = PySet_Contains(at->lost_classes, PyTuple_GET_ITEM(classes, i));
    Py_XDECREF(classes);
    return lost;
}

/* HF_DECLINED with words; negative with an exception set. */
static hf_status
encode(save *at, PyObject *value, uint32_t *ret_codec, hf_error *reterr) {
    const hf_codec *codec = NULL;
    hf_status status = hfi_names_encode(at->state, &at->sink, value, &codec, reterr);
    if (PyErr_Occurred())
        return HF_E_CODEC;
    if (status == HF_OK) {
        int lost = needs_lost_class(at, codec->number);
        if (lost < 0)
            return HF_E_CODEC;
        if (lost)
            return hf_error_set(reterr, HF_DECLINED, "its class can't be carried");
        *ret_codec = codec->number;
    } else if (status < 0 && status != HF_E_CODEC) {
        hfi_raise(at->state, status, reterr);
    } else {
        status = HF_DECLINED; /* a codec that failed on a value doesn't carry it */
    }
    return status;
}

static int
decline(save *at, const member *one, const hf_error *error) {
    if (one->is_class) {
        PyObject *identifier = PyUnicode_Substring(one->key, 2, PY_SSIZE_T_MAX);
        int failed = !identifier || PySet_Add(at->lost_classes, identifier) < 0;
        Py_XDECREF(identifier);
        if (failed)
            return -1;
    } else {
        hfi_names *names = at->names;
        PyObject *known = PyDict_GetItemWithError(names->declined, one->key);
        PyObject *reason = NULL;
        if (known == one->value)
            reason = Py_XNewRef(PyDict_GetItemWithError(names->reasons, one->key));
        if (!reason) {
            PyObject *carry = PyImport_ImportModule("holdfast._carry");
            reason = carry ? PyObject_CallMethod(carry, "explain", "OOs", one->key,
                                                 one->value, error->message)
                           : NULL;
            Py_XDECREF(carry);
        }
        int failed = !reason || PyDict_SetItem(names->reasons, one->key, reason) < 0 ||
                     PyDict_SetItem(names->declined, one->key, one->value) < 0;
        Py_XDECREF(reason);
        if (failed)
            return -1;
    }
    /* What the store still has under this key is not the value any more. */
    return record_of(at, one->key) ? remove_key(at, one->key) : 0;
}

static int
accepted(save *at, const member *one) {
    if (one->is_class || PyDict_Contains(at->names->reasons, one->key) != 1)
        return 0;
    return PyDict_DelItem(at->names->reasons, one->key) < 0 ||
                   PyDict_DelItem(at->names->declined, one->key) < 0
               ? -1
               : 0;
}

static int
own_classes(save *at, member *const *list, size_t count) {
    if (PySet_Clear(at->own) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (list[i]->is_class && PySet_Add(at->own, list[i]->value) < 0)
            return -1;
    return 0;
}

static int
save_single(save *at, member *one) {
    uint32_t codec = 0;
    hf_error error = HF_ERROR_INIT;
    if (own_classes(at, &one, 1) < 0)
        return -1;
    hf_status status = encode(at, one->value, &codec, &error);
    if (status == HF_DECLINED)
        return decline(at, one, &error);
    if (status != HF_OK || accepted(at, one) < 0)
        return -1;
    return put_changed(at, one->key, codec, 0, one->value, NULL);
}

/* The key of a group: the one that a member was in before, else a new one. */
static PyObject *
group_key(save *at, member *const *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        hfi_record *record = record_of(at, list[i]->key);
        if (record && record->state == HFI_BOUND && record->group &&
            PySet_Contains(at->groups_used, record->group) == 0)
            return PySet_Add(at->groups_used, record->group) < 0
                       ? NULL
                       : Py_NewRef(record->group);
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
put_member(save *at, const member *one, PyObject *group) {
    if (hfi_member_encode(at->state, &at->sink, one->value, group) < 0)
        return -1;
    return put_changed(at, one->key, HF_CODEC_MEMBER, 0, NULL, group);
}

static int
by_key(const void *one, const void *other) {
    member *const *left = one, *const *right = other;
    return PyUnicode_Compare((*left)->key, (*right)->key);
}

static int save_group(save *at, member **list, size_t count);

/* Not carried as a whole: decline those that fail alone, go on with the others. */
static int
save_apart(save *at, member **list, size_t count, const hf_error *whole) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t codec;
        hf_error error = HF_ERROR_INIT;
        if (own_classes(at, list, count) < 0)
            return -1;
        hf_status status = encode(at, list[i]->value, &codec, &error);
        if (status == HF_DECLINED ? decline(at, list[i], &error) < 0 : status != HF_OK)
            return -1;
        if (status == HF_OK)
            list[kept++] = list[i];
    }
    if (kept < count)
        return save_group(at, list, kept);
    for (size_t i = 0; i < count; i++)
        if (decline(at, list[i], whole) < 0)
            return -1;
    return 0;
}

static int
save_group(save *at, member **list, size_t count) {
    if (count < 2)
        return count ? save_single(at, list[0]) : 0;
    qsort(list, count, sizeof *list, by_key);
    PyObject *values = PyDict_New();
    for (size_t i = 0; values && i < count; i++)
        if (PyDict_SetItem(values, list[i]->key, list[i]->value) < 0)
            Py_CLEAR(values);
    uint32_t codec = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_E_NOMEM;
    if (values && own_classes(at, list, count) == 0)
        status = encode(at, values, &codec, &error);
    Py_XDECREF(values);
    if (status == HF_DECLINED)
        return save_apart(at, list, count, &error);
    PyObject *key = status == HF_OK ? group_key(at, list, count) : NULL;
    int changed = key ? put_changed(at, key, codec, 1, NULL, NULL) : -1;
    int failed = changed < 0;
    for (size_t i = 0; !failed && i < count; i++) {
        failed = accepted(at, list[i]) < 0 || put_member(at, list[i], key) < 0;
        if (changed && !failed && !list[i]->is_class)
            failed = PyDict_SetItem(at->saved, list[i]->key, Py_None) < 0;
    }
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* ---- which names, which groups
 * --------------------------------------------------------- */

/* 1: a name that is carried; 0: not; -1 with an exception. */
static int
is_carried(save *at, PyObject *key) {
    Py_ssize_t size = 0;
    if (!PyUnicode_CheckExact(key) || hfi_key_kind(key) != 'n' ||
        PyUnicode_CompareWithASCIIString(key, "__builtins__") == 0)
        return 0;
    if (!PyUnicode_AsUTF8AndSize(key, &size)) {
        PyErr_Clear();
        return 0;
    }
    if (size < 1 || size > HF_KEY_SIZE_MAX)
        return 0;
    int hidden = PySequence_Contains(at->hidden, key);
    return hidden < 0 ? -1 : !hidden;
}

static int
collect(save *at) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    at->members = calloc((size_t)PyDict_Size(at->namespace) + 1, sizeof *at->members);
    PyObject *items = at->members ? PyDict_Copy(at->namespace) : PyErr_NoMemory();
    if (!items)
        return -1;
    int failed = 0;
    while (!failed && PyDict_Next(items, &position, &key, &value)) {
        int carried = is_carried(at, key);
        failed = carried < 0;
        hfi_record *record = carried > 0 ? record_of(at, key) : NULL;
        failed |= !record && PyErr_Occurred();
        if (carried > 0 && !(record && record->object == value))
            at->members[at->count++] = (member){Py_NewRef(key), Py_NewRef(value), 0};
    }
    Py_DECREF(items);
    return failed ? -1 : 0;
}

/* Give the classes that the walk found their keys, behind the names. */
static int
add_classes(save *at, const hfi_graph *graph) {
    member *members = realloc(at->members, (graph->count + 1) * sizeof *members);
    PyObject *carry =
        members ? PyImport_ImportModule("holdfast._carry") : PyErr_NoMemory();
    if (!carry)
        return -1;
    at->members = members;
    for (size_t i = graph->names; i < graph->count; i++) {
        PyObject *key =
            PyObject_CallMethod(carry, "class_key", "O", graph->roots[i].object);
        if (!key) {
            Py_DECREF(carry);
            return -1;
        }
        at->members[at->count++] = (member){key, Py_NewRef(graph->roots[i].object), 1};
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

static int
save_ordered(save *at, order *orders, member **list) {
    for (size_t i = 0; i < at->count;) {
        size_t count = 0;
        uint32_t group = orders[i].group;
        for (; i < at->count && orders[i].group == group; i++)
            list[count++] = &at->members[orders[i].index];
        if (save_group(at, list, count) < 0)
            return -1;
    }
    return 0;
}

static int
save_groups(save *at) {
    hfi_graph graph;
    PyObject **objects = calloc(at->count + 1, sizeof *objects);
    if (!objects) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < at->count; i++)
        objects[i] = at->members[i].value;
    int failed = hfi_graph_init(&graph, objects, at->count, at->namespace) < 0;
    free(objects);
    if (failed)
        return -1;
    failed = add_classes(at, &graph) < 0;
    order *orders = calloc(graph.count + 1, sizeof *orders);
    member **list = calloc(graph.count + 1, sizeof *list);
    char *has_class = calloc(graph.count + 1, 1);
    if (!orders || !list || !has_class) {
        PyErr_NoMemory();
        failed = 1;
    }
    for (uint32_t i = (uint32_t)graph.names; !failed && i < graph.count; i++)
        has_class[hfi_graph_group(&graph, i)] = 1;
    for (uint32_t i = 0; !failed && i < graph.count; i++) {
        uint32_t group = hfi_graph_group(&graph, i);
        orders[i] = (order){group, i, has_class[group]};
    }
    if (!failed) {
        qsort(orders, graph.count, sizeof *orders, by_group);
        failed = save_ordered(at, orders, list) < 0;
    }
    free(orders);
    free(list);
    free(has_class);
    hfi_graph_fini(&graph);
    return failed ? -1 : 0;
}

/* ---- what goes ----------------------------------------------------------------------
 */

/* The record that will hold after this commit; borrowed, NULL where there is none. */
static hfi_record *
record_after(save *at, PyObject *key) {
    PyObject *pending = PyDict_GetItemWithError(at->names->pending, key);
    if (pending)
        return pending == Py_None ? NULL : (hfi_record *)(void *)pending;
    return record_of(at, key);
}

static int
forget_declined(save *at) {
    PyObject *names = PyDict_Keys(at->names->reasons);
    for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names); i++) {
        PyObject *name = PyList_GET_ITEM(names, i);
        if (PyDict_Contains(at->namespace, name) == 0 &&
            (PyDict_DelItem(at->names->reasons, name) < 0 ||
             PyDict_DelItem(at->names->declined, name) < 0))
            Py_CLEAR(names);
    }
    Py_XDECREF(names);
    return names ? 0 : -1;
}

static int
remove_deleted(save *at) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(at->names->records, &position, &key, &value)) {
        hfi_record *record = (hfi_record *)(void *)value;
        if (hfi_key_kind(key) != 'n' || record->state != HFI_BOUND ||
            PyDict_Contains(at->namespace, key) != 0)
            continue;
        if (remove_key(at, key) < 0 || PyList_Append(at->removed, key) < 0)
            return -1;
    }
    return forget_declined(at);
}

/* Mark what the records that stay refer to: groups, classes, and theirs in turn. */
static int
mark(save *at, PyObject *live, PyObject *key, hfi_record *record) {
    int known = PySet_Contains(live, key);
    if (known)
        return known < 0 ? -1 : 0;
    if (PySet_Add(live, key) < 0)
        return -1;
    if (record->group) {
        hfi_record *group = record_after(at, record->group);
        if (group && mark(at, live, record->group, group) < 0)
            return -1;
    }
    for (Py_ssize_t i = 0; record->classes && i < PyTuple_GET_SIZE(record->classes);
         i++) {
        PyObject *class_key = PyUnicode_FromFormat(
            "%c%c%U", HFI_KEY_GROUP, 'c', PyTuple_GET_ITEM(record->classes, i));
        hfi_record *class_record = class_key ? record_after(at, class_key) : NULL;
        int failed =
            !class_key || (class_record && mark(at, live, class_key, class_record) < 0);
        Py_XDECREF(class_key);
        if (failed)
            return -1;
    }
    return 0;
}

static int
remove_unreferred(save *at) {
    PyObject *keys = PyDict_Keys(at->names->records), *live = PySet_New(NULL);
    PyObject *pending = PyDict_Keys(at->names->pending);
    int failed = !keys || !live || !pending ||
                 PyList_SetSlice(keys, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, pending) < 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        int kind = hfi_key_kind(key);
        hfi_record *record = record_after(at, key);
        if (record && (kind == 'n' || kind == 'x'))
            failed = mark(at, live, key, record) < 0;
    }
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        int kind = hfi_key_kind(key);
        if ((kind == 'g' || kind == 'c') && record_after(at, key) &&
            PySet_Contains(live, key) == 0)
            failed = remove_key(at, key) < 0;
    }
    Py_XDECREF(keys);
    Py_XDECREF(live);
    Py_XDECREF(pending);
    return failed ? -1 : 0;
}

static int
save_extra(save *at, PyObject *extra) {
    PyObject *word, *value;
    Py_ssize_t position = 0;
    while (extra && PyDict_Next(extra, &position, &word, &value)) {
        PyObject *key = PyUnicode_FromFormat("%c%U", HFI_KEY_EXTRA, word);
        uint32_t codec = 0;
        hf_error error = HF_ERROR_INIT;
        hf_status status = key ? encode(at, value, &codec, &error) : HF_E_NOMEM;
        if (status == HF_DECLINED)
            PyErr_Format(at->state->error, "extra '%U' can't be carried: %s", word,
                         error.message);
        int failed = status != HF_OK || put_changed(at, key, codec, 0, value, NULL) < 0;
        Py_XDECREF(key);
        if (failed)
            return -1;
    }
    return 0;
}

/* ---- the method
 * ------------------------------------------------------------------------ */

static PyObject *
prepare(save *at, hf_commit_stats *ret_stats) {
    memset(ret_stats, 0, sizeof *ret_stats);
    if (!at->commit)
        Py_RETURN_NONE;
    hf_prepared prepared;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    hf_commit_get_stats(at->commit, ret_stats);
    Py_BEGIN_ALLOW_THREADS status =
        hf_commit_prepare_consume(at->commit, &prepared, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK) return hfi_raise(at->state, status,
                                                               &error);
    at->commit = NULL;
    return PyBytes_FromStringAndSize((const char *)&prepared, sizeof prepared);
}

static PyObject *
run(save *at, PyObject *extra) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (collect(at) < 0 || save_groups(at) < 0 || save_extra(at, extra) < 0 ||
        remove_deleted(at) < 0 || remove_unreferred(at) < 0)
        return NULL;
    hf_commit_stats stats;
    PyObject *prepared = prepare(at, &stats);
    if (!prepared)
        return NULL;
    if (prepared == Py_None)
        Py_CLEAR(at->names->pending);
    PyObject *declined = PyDict_Copy(at->names->reasons);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - start.tv_sec) +
                     (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    return Py_BuildValue("{s:N,s:N,s:O,s:N,s:K,s:K,s:K,s:d}", "prepared", prepared,
                         "saved", PyDict_Keys(at->saved), "removed", at->removed,
                         "declined", declined, "bytes_copied",
                         (unsigned long long)stats.bytes_copied, "bytes_shared",
                         (unsigned long long)stats.bytes_shared, "pages_changed",
                         (unsigned long long)stats.pages_changed, "seconds", seconds);
}

static int
open_save(save *at) {
    hfi_names *names = at->names;
    uint64_t now = hf_session_generation(names->attachment->session);
    if (now != hf_snapshot_generation(names->snapshot)) {
        PyErr_Format(
            at->state->conflict_error,
            "generation %llu was published; what is known here is %llu: adopt it "
            "first",
            (unsigned long long)now,
            (unsigned long long)hf_snapshot_generation(names->snapshot));
        return -1;
    }
    Py_XSETREF(names->pending, PyDict_New());
    at->own = PySet_New(NULL);
    at->groups_used = PySet_New(NULL);
    at->lost_classes = PySet_New(NULL);
    at->saved = PyDict_New();
    at->removed = PyList_New(0);
    return names->pending && at->own && at->groups_used && at->lost_classes &&
                   at->saved && at->removed
               ? 0
               : -1;
}

static void
close_save(save *at) {
    for (size_t i = 0; i < at->count; i++) {
        Py_DECREF(at->members[i].key);
        Py_DECREF(at->members[i].value);
    }
    free(at->members);
    hfi_entry_sink_fini(&at->sink);
    hf_commit_abort(at->commit);
    Py_XDECREF(at->own);
    Py_XDECREF(at->groups_used);
    Py_XDECREF(at->lost_classes);
    Py_XDECREF(at->saved);
    Py_XDECREF(at->removed);
}

PyObject *
hfi_names_save(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"namespace", "hidden", "extra", NULL};
    PyObject *namespace, *hidden = NULL, *extra = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$OO!:save", words, &PyDict_Type,
                                     &namespace, &hidden, &PyDict_Type, &extra))
        return NULL;
    hfi_names *names = (hfi_names *)(void *)self;
    save at = {.state = hfi_state_of(Py_TYPE(self)),
               .names = names,
               .self = self,
               .namespace = namespace,
               .hidden = PyFrozenSet_New(hidden)};
    hfi_entry_sink_init(&at.sink, names->attachment->session);
    PyObject *result = NULL;
    if (at.hidden && open_save(&at) == 0) {
        PyObject *before = hfi_carry_enter(self, namespace, at.own);
        if (before) {
            result = run(&at, extra);
            hfi_carry_leave(before);
        }
    }
    close_save(&at);
    Py_XDECREF(at.hidden);
    if (!result)
        Py_CLEAR(names->pending);
    return result;
}
