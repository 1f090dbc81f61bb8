/* names_bind.c - Names.bind() and Names.adopt(): from the store into a namespace.
 *
 * bind() visits the entries in the order in which their names were first put. A name is
 * decoded when it is asked for or costs a mapping only; else it is remembered as
 * skipped, unless it is cheap (names_cheap.c). Values reach the namespace at the end,
 * in that same order, so that a new process's globals come in the order of the old
 * one's: a group in between decodes several names at once, and a class those that it
 * shares objects with. The code behind the values is looked for where names were asked
 * for: it may reach others. Who binds all is told of none, and saves the walk.
 *
 * adopt() asks the store for the difference of two generations, and touches nothing
 * else: the objects that didn't change stay the same objects. A changed class is
 * decoded onto the class that is there, so that old instances see it. What declined
 * objects share is applied to the objects that they have (holdfast._inplace).
 */
#include "names_bind.h"

#include "graph.h"

#include <stdlib.h>
#include <time.h>

int
hfi_keys_add(hfi_keys *keys, PyObject *key) {
    if (keys->count == keys->room) {
        size_t room = keys->room * 2 + 64;
        PyObject **items = realloc(keys->items, room * sizeof *items);
        if (!items) {
            PyErr_NoMemory();
            return -1;
        }
        keys->items = items;
        keys->room = room;
    }
    keys->items[keys->count++] = Py_NewRef(key);
    return 0;
}

void
hfi_keys_fini(hfi_keys *keys) {
    for (size_t i = 0; i < keys->count; i++)
        Py_DECREF(keys->items[i]);
    free(keys->items);
}

static int
bind_or_note(hfi_binding *at, PyObject *key, const hf_entry *entry) {
    PyObject *value = hfi_binding_key(at, key, entry);
    if (!value)
        return hfi_binding_note_absent(at, key, entry);
    Py_DECREF(value);
    return 0;
}

/* The name's place in the order, whatever decodes its value. */
static int
meet(hfi_binding *at, PyObject *key) {
    return hfi_key_kind(key) == 'n' ? hfi_keys_add(&at->order, key) : 0;
}

/* The new value of a record reaches the namespace, which holds it from then on. What it
 * replaces may run a finalizer, which may move the records. */
static int
bind_new(hfi_binding *at, PyObject *key, hfi_record *record) {
    PyObject *value = Py_NewRef(record->bound);
    record->is_new = 0;
    if (!hfi_graph_is_atom(value)) {
        record->is_held = 0;
        Py_DECREF(value);
    }
    int failed = PyDict_SetItem(at->namespace, key, value) < 0;
    Py_DECREF(value);
    return failed;
}

/* Those of the keys that are new; gives how many. */
static size_t
bind_those(hfi_binding *at, const hfi_keys *keys, int *failed) {
    size_t count = 0;
    for (size_t i = 0; i < keys->count; i++) {
        hfi_record *record = hfi_binding_record(at, keys->items[i]);
        if (!record || !record->is_new)
            continue;
        *failed |= bind_new(at, keys->items[i], record);
        count++;
    }
    return count;
}

/* What was decoded reaches the namespace; first the names that were met, then those of
 * a group whose own entries are as they were. After a failure too: the records say that
 * they are bound, and a name that isn't would count as deleted. */
static int
bind_in_order(hfi_binding *at, int failed) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    if (bind_those(at, &at->order, &failed) < at->bound.count)
        bind_those(at, &at->bound, &failed);
    if (type)
        PyErr_Restore(type, error, traceback);
    return failed ? -1 : 0;
}

/* ---- bind
 * ---------------------------------------------------------------------------------- */

/* Is an imported module's name as cheap as a mapping? Yes: binding it imports nothing.
 */
static int
is_wanted(hfi_binding *at, PyObject *key, const hf_entry *entry) {
    if (!at->wanted || (entry->flags & HFI_ENTRY_MAPPED))
        return 1;
    int wanted = PySet_Contains(at->wanted, key);
    return wanted ? wanted : hfi_binding_affords(at, entry);
}

static int
bind_entry(hfi_binding *at, const hf_entry *entry) {
    PyObject *key = hfi_key_decode(entry);
    if (!key)
        return -1;
    hfi_record *known = hfi_binding_record(at, key);
    int result = 0;
    if (meet(at, key) < 0 || (known && known->state == HFI_BOUND)) {
        Py_DECREF(key);
        return PyErr_Occurred() ? -1 : 0;
    }
    int wanted = hfi_key_kind(key) == 'n' ? is_wanted(at, key, entry) : 0;
    if (wanted > 0)
        result = bind_or_note(at, key, entry);
    else if (wanted < 0 || !hfi_binding_set_record(at, key, entry, HFI_SKIPPED))
        result = -1;
    if (!wanted && hfi_key_kind(key) == 'n')
        at->skipped++;
    Py_DECREF(key);
    return result;
}

static int
bind_visited(void *context, const hf_entry *entry) {
    return bind_entry(context, entry) < 0 ? HF_STOP : 0;
}

static int
bind_all(hfi_binding *at) {
    hfi_names *names = at->names;
    size_t count = (size_t)hf_snapshot_entry_count(names->snapshot);
    if (count > names->records.live &&
        hfi_records_reserve(&names->records, count - names->records.live) < 0)
        return -1;
    hf_status status =
        hf_snapshot_each_in_order(names->snapshot, bind_visited, at, &at->error);
    if (status != HF_OK)
        hfi_raise(at->state, status, &at->error);
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- adopt
 * -----------------------------------------------------------------------------------
 */

/* An entry that changed. What it points to stays while the snapshot is held. */
typedef struct change {
    hf_entry entry;
    PyObject *key;
} change;

typedef struct difference {
    change *changed;
    size_t count, room;
    PyObject *removed; /* list of keys */
    int failed;
} difference;

static int
add_change(difference *found, const hf_entry *entry, PyObject *key) {
    if (found->count == found->room) {
        size_t room = found->room * 2 + 64;
        change *changed = realloc(found->changed, room * sizeof *changed);
        if (!changed)
            return -1;
        found->changed = changed;
        found->room = room;
    }
    found->changed[found->count++] = (change){*entry, Py_NewRef(key)};
    return 0;
}

static int
difference_add(void *context, const hf_entry *before, const hf_entry *after) {
    difference *found = context;
    PyObject *key = hfi_key_decode(after ? after : before);
    found->failed |= !key || (after ? add_change(found, after, key)
                                    : PyList_Append(found->removed, key)) < 0;
    Py_XDECREF(key);
    return found->failed ? HF_STOP : 0;
}

static int
by_sequence(const void *one, const void *other) {
    const change *left = one, *right = other;
    return (left->entry.sequence > right->entry.sequence) -
           (left->entry.sequence < right->entry.sequence);
}

static void
difference_fini(difference *found) {
    for (size_t i = 0; i < found->count; i++)
        Py_DECREF(found->changed[i].key);
    free(found->changed);
    Py_XDECREF(found->removed);
}

static int
adopt_removed(hfi_binding *at, PyObject *keys, PyObject *removed) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        hfi_record *record = hfi_binding_record(at, key);
        if (!record)
            continue;
        int bound = record->state == HFI_BOUND && hfi_key_kind(key) == 'n';
        hfi_records_remove(&at->names->records, key);
        if (!bound)
            continue;
        if (PyDict_Contains(at->namespace, key) == 1 &&
            PyDict_DelItem(at->namespace, key) < 0)
            return -1;
        if (PyList_Append(removed, key) < 0)
            return -1;
    }
    return 0;
}

static int
adopt_one(hfi_binding *at, PyObject *key, const hf_entry *entry) {
    int kind = hfi_key_kind(key), done = PyDict_Contains(at->decoded, key);
    hfi_record *record = hfi_binding_record(at, key);
    if (done || (record && record->state == HFI_BOUND))
        return done < 0 ? -1 : 0;
    if (kind == 'n' || kind == 'c')
        return bind_or_note(at, key, entry);
    if (kind != 'g')
        return 0;
    PyObject *values = hfi_binding_group(at, key);
    int result = values ? 0 : hfi_binding_note_absent(at, key, entry);
    Py_XDECREF(values);
    return result;
}

/* Names first told as skipped, then bound: a group in between binds several at once. */
static int
adopt_changed(hfi_binding *at, const difference *found) {
    for (size_t i = 0; i < found->count; i++) {
        const change *one = &found->changed[i];
        if (meet(at, one->key) < 0 ||
            !hfi_binding_set_record(at, one->key, &one->entry, HFI_SKIPPED))
            return -1;
    }
    for (size_t i = 0; i < found->count; i++)
        if (adopt_one(at, found->changed[i].key, &found->changed[i].entry) < 0)
            return -1;
    return 0;
}

static int
adopt_difference(hfi_binding *at, PyObject *removed) {
    hfi_names *names = at->names;
    hf_snapshot *before = names->snapshot;
    names->snapshot = NULL;
    if (hfi_names_advance(at->state, names) < 0) {
        names->snapshot = before;
        return -1;
    }
    difference found = {.removed = PyList_New(0)};
    hf_status status = HF_E_NOMEM;
    if (found.removed)
        status = hf_snapshot_diff(before, names->snapshot, difference_add, &found,
                                  &at->error);
    int failed = status != HF_OK || found.failed;
    if (failed)
        hfi_raise(at->state, status < 0 ? status : HF_E_NOMEM, &at->error);
    else if (found.count)
        qsort(found.changed, found.count, sizeof *found.changed, by_sequence);
    failed = failed || adopt_removed(at, found.removed, removed) < 0 ||
             adopt_changed(at, &found) < 0;
    difference_fini(&found);
    hf_snapshot_release(before);
    return failed ? -1 : 0;
}

/* What is to be bound, for holdfast._inplace: a new dict. */
static PyObject *
values_of(hfi_binding *at) {
    PyObject *values = PyDict_New();
    for (size_t i = 0; values && i < at->bound.count; i++) {
        PyObject *key = at->bound.items[i];
        hfi_record *record = hfi_binding_record(at, key);
        if (record && record->is_new && PyDict_SetItem(values, key, record->bound) < 0)
            Py_CLEAR(values);
    }
    return values;
}

/* Another object than the decoded one is not known: the next save looks at it. */
static void
take_values(hfi_binding *at, PyObject *values) {
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(values, &i, &key, &value);) {
        hfi_record *record = hfi_binding_record(at, key);
        if (!record || !record->is_new || record->bound == value)
            continue;
        hfi_record_bind(record, value, 1);
        record->is_closed = 0;
    }
}

/* What a declined object may hold as well is not bound anew. New reference: a list of
 * the names where that can't be. */
static PyObject *
apply_in_place(hfi_binding *at) {
    PyObject *beside = at->names->beside;
    if (PySet_GET_SIZE(beside) == 0)
        return PyList_New(0);
    PyObject *module = PyImport_ImportModule("holdfast._inplace");
    PyObject *values = module ? values_of(at) : NULL;
    PyObject *apart = values
                          ? PyObject_CallMethod(module, "apply", "OOOO", at->namespace,
                                                values, at->decoded, beside)
                          : NULL;
    if (apart)
        take_values(at, values);
    Py_XDECREF(values);
    Py_XDECREF(module);
    return apart;
}

/* ---- the methods
 * ---------------------------------------------------------------------------- */

static double
now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int
binding_init(hfi_binding *at, PyObject *self, PyObject *namespace, PyObject *wanted) {
    *at = (hfi_binding){.state = hfi_state_of(Py_TYPE(self)),
                        .names = (hfi_names *)(void *)self,
                        .namespace = namespace,
                        .own = PySet_New(NULL),
                        .absent = PyDict_New(),
                        .decoded = PyDict_New(),
                        .open = PyList_New(0),
                        .classes = PyList_New(0)};
    if (wanted && wanted != Py_None && !(at->wanted = PySet_New(wanted)))
        return -1;
    return at->own && at->absent && at->decoded && at->open && at->classes ? 0 : -1;
}

static void
binding_fini(hfi_binding *at) {
    if (at->before)
        hfi_context_leave(at->before);
    Py_XDECREF(at->own);
    Py_XDECREF(at->wanted);
    Py_XDECREF(at->absent);
    Py_XDECREF(at->decoded);
    hfi_keys_fini(&at->order);
    hfi_keys_fini(&at->bound);
    Py_XDECREF(at->open);
    Py_XDECREF(at->classes);
}

/* Consumes the reference to `code`, or NULL with an exception. */
static PyObject *
report(hfi_binding *at, double start, PyObject *code) {
    if (!code)
        return NULL;
    return Py_BuildValue("{s:n,s:K,s:K,s:K,s:d,s:O,s:N}", "bound",
                         (Py_ssize_t)at->bound.count, "decoded",
                         (unsigned long long)at->decoded_count, "skipped",
                         (unsigned long long)at->skipped, "bytes_mapped",
                         (unsigned long long)at->bytes_mapped, "seconds",
                         now_seconds() - start, "absent", at->absent, "code", code);
}

static PyObject *
list_of(const hfi_keys *keys) {
    PyObject *list = PyList_New((Py_ssize_t)keys->count);
    for (size_t i = 0; list && i < keys->count; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, Py_NewRef(keys->items[i]));
    return list;
}

PyObject *
hfi_names_bind(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"namespace", "names", "budget", NULL};
    PyObject *namespace, *wanted = NULL, *result = NULL;
    long long budget = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$OL:bind", words, &PyDict_Type,
                                     &namespace, &wanted, &budget))
        return NULL;
    double start = now_seconds();
    hfi_binding at;
    hfi_names *names = (hfi_names *)(void *)self;
    if (binding_init(&at, self, namespace, wanted) == 0) {
        names->binding = &at;
        at.budget = budget;
        if ((names->records.live || hfi_names_advance(at.state, names) == 0) &&
            bind_in_order(&at, bind_all(&at) < 0) == 0 &&
            hfi_binding_take_baselines(&at) == 0)
            result =
                report(&at, start, at.wanted ? hfi_binding_code(&at) : PyDict_New());
        names->binding = NULL;
    }
    binding_fini(&at);
    return result;
}

PyObject *
hfi_names_adopt(PyObject *self, PyObject *namespace) {
    if (!PyDict_Check(namespace)) {
        PyErr_SetString(PyExc_TypeError, "a namespace is a dict");
        return NULL;
    }
    double start = now_seconds();
    hfi_binding at;
    hfi_names *names = (hfi_names *)(void *)self;
    PyObject *result = NULL, *apart = NULL, *removed = PyList_New(0);
    if (removed && binding_init(&at, self, namespace, NULL) == 0) {
        names->binding = &at;
        int entered = hfi_binding_enter(&at) == 0;
        int failed = !entered || adopt_difference(&at, removed) < 0 ||
                     !(apart = apply_in_place(&at));
        if (entered && bind_in_order(&at, failed) == 0 &&
            hfi_binding_take_baselines(&at) == 0)
            result = report(&at, start, hfi_binding_code(&at));
        PyObject *changed = result ? list_of(&at.bound) : NULL;
        if (result &&
            (!changed || PyDict_SetItemString(result, "changed", changed) < 0 ||
             PyDict_SetItemString(result, "removed", removed) < 0 ||
             PyDict_SetItemString(result, "apart", apart) < 0))
            Py_CLEAR(result);
        Py_XDECREF(changed);
        names->binding = NULL;
    }
    binding_fini(&at);
    Py_XDECREF(removed);
    Py_XDECREF(apart);
    return result;
}

PyObject *
hfi_names_extra(PyObject *self, PyObject *word) {
    if (!PyUnicode_Check(word)) {
        PyErr_SetString(PyExc_TypeError, "process state is named by a str");
        return NULL;
    }
    hfi_names *names = (hfi_names *)(void *)self;
    if (!names->records.live &&
        hfi_names_advance(hfi_state_of(Py_TYPE(self)), names) < 0)
        return NULL;
    hfi_binding at = {.state = hfi_state_of(Py_TYPE(self)), .names = names};
    PyObject *key = PyUnicode_FromFormat("%c%U", HFI_KEY_EXTRA, word);
    hf_entry entry;
    int found = key ? hfi_binding_find(&at, key, &entry) : -1;
    hfi_entry_source source;
    PyObject *value = found > 0 ? hfi_binding_decode(&at, &entry, &source) : NULL;
    if (value)
        hfi_entry_source_fini(&source);
    else if (found > 0 && hf_session_quarantined(names->attachment->session, &entry)) {
        PyErr_Clear(); /* nothing depends on it */
        found = 0;
    }
    Py_XDECREF(key);
    return found == 0 ? Py_NewRef(Py_None) : value;
}
