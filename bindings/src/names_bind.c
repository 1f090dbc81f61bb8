/* names_bind.c - Names.bind() and Names.adopt(): from the store into a namespace.
 *
 * bind() visits the entries in the order in which their names were first put. A name is
 * decoded when it is asked for or costs a mapping only; else it is remembered as
 * skipped. Values reach the namespace at the end, in that same order, so that a new
 * process's globals come in the order of the old one's: a group in between decodes
 * several names at once, and a class those that it shares objects with.
 *
 * adopt() asks the store for the difference of two generations, and touches nothing
 * else: the objects that didn't change stay the same objects. A changed class is
 * decoded onto the class that is there, so that old instances see it. What declined
 * objects share is applied to the objects that they have (holdfast._inplace).
 */
#include "names_bind.h"

#include <stdlib.h>
#include <time.h>

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
    return hfi_key_kind(key) == 'n' ? PyList_Append(at->order, key) : 0;
}

/* What was decoded reaches the namespace; first the names that were met, then those of
 * a group whose own entries are as they were. After a failure too: the records say that
 * they are bound, and a name that isn't would count as deleted. */
static int
bind_in_order(hfi_binding *at, int failed) {
    PyObject *type, *error, *traceback, *key, *value;
    Py_ssize_t count = 0, position = 0;
    PyErr_Fetch(&type, &error, &traceback);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(at->order); i++) {
        key = PyList_GET_ITEM(at->order, i);
        value = PyDict_GetItemWithError(at->bound, key);
        count += value != NULL;
        failed |= value ? PyDict_SetItem(at->namespace, key, value) < 0
                        : PyErr_Occurred() != NULL;
    }
    while (count < PyDict_GET_SIZE(at->bound) &&
           PyDict_Next(at->bound, &position, &key, &value))
        failed |= PyDict_SetItem(at->namespace, key, value) < 0;
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
    return PySet_Contains(at->wanted, key);
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
bind_all(hfi_binding *at) {
    hfi_entry_list list;
    if (hfi_entry_list_read(at->state, at->names->snapshot, &list) < 0)
        return -1;
    int failed = 0;
    for (size_t i = 0; i < list.count && !failed; i++)
        failed = bind_entry(at, &list.entries[i]) < 0;
    free(list.entries);
    return failed ? -1 : 0;
}

/* ---- adopt
 * -----------------------------------------------------------------------------------
 */

typedef struct difference {
    hfi_entry_list changed;
    PyObject *removed; /* list of keys */
    int failed;
} difference;

static int
difference_add(void *context, const hf_entry *before, const hf_entry *after) {
    difference *found = context;
    if (after) {
        found->failed |= hfi_entry_list_add(&found->changed, after);
    } else {
        PyObject *key = hfi_key_decode(before);
        found->failed |= !key || PyList_Append(found->removed, key) < 0;
        Py_XDECREF(key);
    }
    return found->failed ? HF_STOP : 0;
}

static int
adopt_removed(hfi_binding *at, PyObject *keys, PyObject *removed) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        hfi_record *record = hfi_binding_record(at, key);
        if (!record)
            continue;
        int bound = record->state == HFI_BOUND && hfi_key_kind(key) == 'n';
        if (PyDict_DelItem(at->names->records, key) < 0)
            return -1;
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

/* Names first told as skipped, then bound: a group in between binds several at once. */
static int
adopt_changed(hfi_binding *at, const hfi_entry_list *list) {
    int result = 0;
    for (size_t i = 0; i < list->count && result == 0; i++) {
        PyObject *key = hfi_key_decode(&list->entries[i]);
        if (!key || meet(at, key) < 0 ||
            !hfi_binding_set_record(at, key, &list->entries[i], HFI_SKIPPED))
            result = -1;
        Py_XDECREF(key);
    }
    for (size_t i = 0; i < list->count && result == 0; i++) {
        const hf_entry *entry = &list->entries[i];
        PyObject *key = hfi_key_decode(entry);
        if (!key)
            return -1;
        int kind = hfi_key_kind(key), done = PyDict_Contains(at->decoded, key);
        hfi_record *record = hfi_binding_record(at, key);
        if (done || (record && record->state == HFI_BOUND))
            result = done < 0 ? -1 : 0;
        else if (kind == 'n' || kind == 'c')
            result = bind_or_note(at, key, entry);
        else if (kind == 'g') {
            PyObject *values = hfi_binding_group(at, key);
            result = values ? 0 : hfi_binding_note_absent(at, key, entry);
            Py_XDECREF(values);
        }
        Py_DECREF(key);
    }
    return result;
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
    difference found = {{NULL, 0, 0}, PyList_New(0), 0};
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_E_NOMEM;
    if (found.removed)
        status =
            hf_snapshot_diff(before, names->snapshot, difference_add, &found, &error);
    int failed = status != HF_OK || found.failed;
    if (failed)
        hfi_raise(at->state, status < 0 ? status : HF_E_NOMEM, &error);
    if (!failed)
        hfi_entry_list_sort(&found.changed);
    failed = failed || adopt_removed(at, found.removed, removed) < 0 ||
             adopt_changed(at, &found.changed) < 0;
    free(found.changed.entries);
    Py_XDECREF(found.removed);
    hf_snapshot_release(before);
    return failed ? -1 : 0;
}

/* What a declined object may hold as well is not bound anew. New reference: a list of
 * the names where that can't be. */
static PyObject *
apply_in_place(hfi_binding *at) {
    PyObject *beside = at->names->beside;
    if (PySet_GET_SIZE(beside) == 0)
        return PyList_New(0);
    PyObject *module = PyImport_ImportModule("holdfast._inplace");
    PyObject *apart = module
                          ? PyObject_CallMethod(module, "apply", "OOOO", at->namespace,
                                                at->bound, at->decoded, beside)
                          : NULL;
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
                        .order = PyList_New(0),
                        .bound = PyDict_New(),
                        .open = PyList_New(0),
                        .classes = PyList_New(0)};
    if (wanted && wanted != Py_None && !(at->wanted = PySet_New(wanted)))
        return -1;
    return at->own && at->absent && at->decoded && at->order && at->bound && at->open &&
                   at->classes
               ? 0
               : -1;
}

static void
binding_fini(hfi_binding *at) {
    Py_XDECREF(at->own);
    Py_XDECREF(at->wanted);
    Py_XDECREF(at->absent);
    Py_XDECREF(at->decoded);
    Py_XDECREF(at->order);
    Py_XDECREF(at->bound);
    Py_XDECREF(at->open);
    Py_XDECREF(at->classes);
}

static PyObject *
report(hfi_binding *at, double start) {
    PyObject *code = hfi_binding_code(at);
    if (!code)
        return NULL;
    return Py_BuildValue("{s:n,s:K,s:K,s:K,s:d,s:O,s:N}", "bound",
                         PyDict_GET_SIZE(at->bound), "decoded",
                         (unsigned long long)at->decoded_count, "skipped",
                         (unsigned long long)at->skipped, "bytes_mapped",
                         (unsigned long long)at->bytes_mapped, "seconds",
                         now_seconds() - start, "absent", at->absent, "code", code);
}

PyObject *
hfi_names_bind(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"namespace", "names", NULL};
    PyObject *namespace, *wanted = NULL, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$O:bind", words, &PyDict_Type,
                                     &namespace, &wanted))
        return NULL;
    double start = now_seconds();
    hfi_binding at;
    hfi_names *names = (hfi_names *)(void *)self;
    if (binding_init(&at, self, namespace, wanted) == 0) {
        PyObject *before = hfi_carry_enter(self, namespace, at.own);
        names->binding = &at;
        if (before &&
            (PyDict_GET_SIZE(names->records) ||
             hfi_names_advance(at.state, names) == 0) &&
            bind_in_order(&at, bind_all(&at) < 0) == 0 &&
            hfi_binding_take_baselines(&at) == 0)
            result = report(&at, start);
        names->binding = NULL;
        if (before)
            hfi_carry_leave(before);
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
        PyObject *before = hfi_carry_enter(self, namespace, at.own);
        names->binding = &at;
        int failed = !before || adopt_difference(&at, removed) < 0 ||
                     !(apart = apply_in_place(&at));
        if (before && bind_in_order(&at, failed) == 0 &&
            hfi_binding_take_baselines(&at) == 0)
            result = report(&at, start);
        PyObject *changed = result ? PyDict_Keys(at.bound) : NULL;
        if (result &&
            (!changed || PyDict_SetItemString(result, "changed", changed) < 0 ||
             PyDict_SetItemString(result, "removed", removed) < 0 ||
             PyDict_SetItemString(result, "apart", apart) < 0))
            Py_CLEAR(result);
        Py_XDECREF(changed);
        names->binding = NULL;
        if (before)
            hfi_carry_leave(before);
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
    if (PyDict_GET_SIZE(names->records) == 0 &&
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
    Py_XDECREF(key);
    return found == 0 ? Py_NewRef(Py_None) : value;
}
