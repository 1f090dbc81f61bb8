/* names_bind.c - Names.bind() and Names.adopt(): from the store into a namespace.
 *
 * bind() visits the entries in the order in which their names were first put. It
 * decodes a name (names_decode.c) if the name is asked for, costs only a mapping, or is
 * cheap (below). Otherwise it notes the name as skipped. Values reach the namespace at
 * the end, in the same order, so a new process's globals have the order of the old
 * one's. Some are decoded earlier: a group decodes several names at once, and a class
 * those with which it shares objects. The code behind the values is looked for only if
 * names were asked for, since it may reach others. A bind of everything saves that
 * walk.
 *
 * adopt() asks the store for the difference of two generations, and touches nothing
 * else: objects that didn't change stay the same. A changed class is decoded into the
 * existing class, so that old instances see the change. Changes of objects that
 * unserializable values share are applied in place (holdfast.carry.in_place).
 */
#include "names_type.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph.h"
#include "meta.h"
#include "names_code.h"
#include "names_decode.h"
#include "names_format.h"
#include "python_codecs.h"

/* ---- what is cheap to decode ---------------------------------------------------- */

/* Names in a cell's code are bound in any case, and so are values that cost only a
 * mapping. The cell may also reach others without naming them: by reflection, or by a
 * library that looks into __main__. So plain data, functions and classes are bound,
 * too, in the order of the names, until a budget is spent. A byte of a pickle counts as
 * eight: reading it runs an interpreter of its own, and calls Python.
 *
 * Two kinds are left out. Values that run code of the notebook when they are decoded,
 * and instances of its classes, whose __hash__ may be called: only the cell may cause
 * that. And memory of a GPU that the main worker lends: its encoding is small, but
 * decoding copies all of the memory. */

enum { PICKLE_FACTOR = 8, ENTRY_MAX = 4096 };

/* Whether the value is a function or a class, by the type in its meta. */
static int
is_code(const hf_entry *entry) {
    static const char *const types[] = {"function", "type", "ABCMeta", "EnumType"};
    hfi_meta meta;
    hf_error error = HF_ERROR_INIT;
    if (hfi_meta_init(&meta, entry->meta, entry->meta_size, &error) != HF_OK)
        return 0;
    size_t size = 0;
    const char *text = hfi_meta_text(&meta, "type", &size);
    int found = 0;
    for (size_t i = 0; text && !found && i < sizeof types / sizeof *types; i++)
        found = size == strlen(types[i]) && memcmp(text, types[i], size) == 0;
    hfi_meta_fini(&meta);
    return found;
}

static int
has_classes(const hf_entry *entry) {
    PyObject *classes = hfi_entry_classes(entry);
    int found = !classes || PyTuple_GET_SIZE(classes) > 0;
    Py_XDECREF(classes);
    PyErr_Clear();
    return found;
}

/* The cost of binding it; 0 for one that isn't cheap. */
static int64_t
cost_of(const hf_entry *entry) {
    int64_t size = (int64_t)(entry->payload_size + entry->meta_size);
    if (size > ENTRY_MAX || entry->buffer_count)
        return 0;
    if (entry->codec == HF_CODEC_PLAIN)
        return size;
    if (entry->codec != HF_CODEC_PICKLE ||
        hfi_pickle_payload_has_effects(entry->payload, entry->payload_size))
        return 0;
    return is_code(entry) || !has_classes(entry) ? size * PICKLE_FACTOR : 0;
}

/* 1 if a name with this entry is bound although no code asks for it. Its cost, in
 * bytes, is taken off `budget`. 0 if not; -1 with an exception. Runs no Python code. */
static int
affords_entry(hfi_state *state, const hfi_names *names, const hf_entry *entry,
              int64_t *budget) {
    hf_entry group = {.struct_size = sizeof group};
    if (*budget <= 0)
        return 0;
    if (entry->codec == HF_CODEC_MEMBER) {
        PyObject *key;
        int found = hfi_member_find_group(entry, &key);
        if (found > 0)
            found = hfi_names_find(state, names, key, &group);
        Py_XDECREF(key);
        if (found <= 0)
            return found;
        entry = &group;
    }
    int64_t cost = cost_of(entry);
    if (cost == 0 || cost > *budget)
        return 0;
    *budget -= cost;
    return 1;
}

/* ---- bind ------------------------------------------------------------------------ */

typedef struct binding {
    hfi_decoding in;  /* what is decoded for it */
    PyObject *wanted; /* set of names, or NULL for all */
    int64_t budget;   /* bytes, for names that nobody asked for */
    hfi_keys order;   /* the names that were met, in the store's order */
    uint64_t skipped;
    hf_snapshot *before; /* of an adoption: the generation that was known, or NULL */
    const char
        *name; /* the generation that is adopted; without a size: the current one */
    Py_ssize_t name_size;
    hf_error error; /* the error of the call that failed last */
} binding;

static hfi_record *
bound_record(binding *at, PyObject *key) {
    return hfi_records_find(&at->in.names->records, key);
}

/* Note the name's place in the order, before anything decodes its value. */
static int
order_name(binding *at, PyObject *key) {
    return hfi_key_kind(key) == 'n' ? hfi_keys_add(&at->order, key) : 0;
}

/* Put the new value of a record into the namespace, which holds it from then on. The
 * replaced object may run a finalizer, which may move the records. Without memory for
 * the name it counts as skipped: a bound name that isn't there would count as deleted.
 * */
static int
bind_new(binding *at, PyObject *key, hfi_record *record) {
    PyObject *value = Py_NewRef(record->bound);
    record->is_new = 0;
    if (!hfi_graph_is_atom(value)) {
        record->is_held = 0;
        Py_DECREF(value);
    }
    int failed = PyDict_SetItem(at->in.namespace, key, value) < 0;
    if (failed && (record = bound_record(at, key))) {
        record->state = HFI_SKIPPED;
        hfi_record_bind(record, NULL, 0);
    }
    Py_DECREF(value);
    return failed;
}

/* Find the new ones of the keys. Returns how many. */
static size_t
bind_those(binding *at, const hfi_keys *keys, int *failed) {
    size_t count = 0;
    for (size_t i = 0; i < keys->count; i++) {
        hfi_record *record = bound_record(at, keys->items[i]);
        if (!record || !record->is_new)
            continue;
        *failed |= bind_new(at, keys->items[i], record);
        count++;
    }
    return count;
}

/* Put the decoded values into the namespace: first the names that were met, then those
 * of a group whose own entries are unchanged. This is also done after a failure: the
 * records say that they are bound, and a missing name would count as deleted. */
static int
bind_in_order(binding *at, int failed) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    if (bind_those(at, &at->order, &failed) < at->in.bound.count)
        bind_those(at, &at->in.bound, &failed);
    if (type)
        PyErr_Restore(type, error, traceback);
    return failed ? -1 : 0;
}

/* ---- bind ------------------------------------------------------------------------ */

/* Is an imported module's name as cheap as a mapping? Yes:
 * binding it imports nothing. */
static int
is_wanted(binding *at, PyObject *key, const hf_entry *entry) {
    if (!at->wanted || ((entry->flags & HFI_ENTRY_MAPPED) && at->budget >= 0))
        return 1;
    int wanted = PySet_Contains(at->wanted, key);
    return wanted ? wanted
                  : affords_entry(at->in.state, at->in.names, entry, &at->budget);
}

static int
bind_entry(binding *at, const hf_entry *entry) {
    PyObject *key = hfi_key_decode(entry);
    if (!key)
        return -1;
    hfi_record *known = bound_record(at, key);
    int result = 0;
    if (order_name(at, key) < 0 || (known && known->state == HFI_BOUND)) {
        Py_DECREF(key);
        return PyErr_Occurred() ? -1 : 0;
    }
    int wanted = hfi_key_kind(key) == 'n' ? is_wanted(at, key, entry) : 0;
    if (wanted > 0)
        result = hfi_decoding_take(&at->in, key, entry);
    else if (wanted < 0 || !hfi_decoding_set_record(&at->in, key, entry, HFI_SKIPPED))
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
bind_all(binding *at) {
    hfi_names *names = at->in.names;
    size_t count = (size_t)hf_snapshot_entry_count(names->snapshot);
    if (count > names->records.live &&
        hfi_records_reserve(&names->records, count - names->records.live) < 0)
        return -1;
    hf_status status =
        hf_snapshot_each_in_order(names->snapshot, bind_visited, at, &at->error);
    if (status != HF_OK)
        hfi_raise(at->in.state, status, &at->error);
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- adopt ----------------------------------------------------------------------- */

/* A changed entry. Its target stays while the snapshot is held. */
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
by_change_sequence(const void *one, const void *other) {
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
adopt_removed(binding *at, PyObject *keys, PyObject *removed) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        hfi_record *record = bound_record(at, key);
        if (!record)
            continue;
        int bound = record->state == HFI_BOUND && hfi_key_kind(key) == 'n';
        hfi_records_remove(&at->in.names->records, key);
        if (!bound)
            continue;
        if (PyDict_Contains(at->in.namespace, key) == 1 &&
            PyDict_DelItem(at->in.namespace, key) < 0)
            return -1;
        if (PyList_Append(removed, key) < 0)
            return -1;
    }
    return 0;
}

static int
adopt_one(binding *at, PyObject *key, const hf_entry *entry) {
    int kind = hfi_key_kind(key), done = PyDict_Contains(at->in.decoded, key);
    hfi_record *record = bound_record(at, key);
    if (done || (record && record->state == HFI_BOUND))
        return done < 0 ? -1 : 0;
    if (kind == 'n' || kind == 'c')
        return hfi_decoding_take(&at->in, key, entry);
    return kind == 'g' ? hfi_decoding_take_group(&at->in, key, entry) : 0;
}

/* Names first listed as skipped, then bound: a group in between binds several at
 * once. */
static int
adopt_changed(binding *at, const difference *found) {
    for (size_t i = 0; i < found->count; i++) {
        const change *one = &found->changed[i];
        if (order_name(at, one->key) < 0 ||
            !hfi_decoding_set_record(&at->in, one->key, &one->entry, HFI_SKIPPED))
            return -1;
    }
    for (size_t i = 0; i < found->count; i++)
        if (adopt_one(at, found->changed[i].key, &found->changed[i].entry) < 0)
            return -1;
    return 0;
}

static int
adopt_difference(binding *at, PyObject *removed) {
    hfi_names *names = at->in.names;
    hf_snapshot *next = hfi_names_named(at->in.state, names, at->name, at->name_size);
    if (!next)
        return -1;
    at->before = names->snapshot;
    names->snapshot = next;
    difference found = {.removed = PyList_New(0)};
    hf_status status = HF_E_NOMEM;
    if (found.removed)
        status = hf_snapshot_diff(at->before, names->snapshot, difference_add, &found,
                                  &at->error);
    int failed = status != HF_OK || found.failed;
    if (failed)
        hfi_raise(at->in.state, status < 0 ? status : HF_E_NOMEM, &at->error);
    else if (found.count)
        qsort(found.changed, found.count, sizeof *found.changed, by_change_sequence);
    failed = failed || adopt_removed(at, found.removed, removed) < 0 ||
             adopt_changed(at, &found) < 0;
    difference_fini(&found);
    return failed ? -1 : 0;
}

/* The values to bind, for holdfast.carry.in_place: a new dict. */
static PyObject *
bound_values(binding *at) {
    PyObject *values = PyDict_New();
    for (size_t i = 0; values && i < at->in.bound.count; i++) {
        PyObject *key = at->in.bound.items[i];
        hfi_record *record = bound_record(at, key);
        if (record && record->is_new && PyDict_SetItem(values, key, record->bound) < 0)
            Py_CLEAR(values);
    }
    return values;
}

/* If it isn't the decoded object, nothing is known of it: the next save looks at it. */
static void
take_values(binding *at, PyObject *values) {
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(values, &i, &key, &value);) {
        hfi_record *record = bound_record(at, key);
        if (!record || !record->is_new || record->bound == value)
            continue;
        record->is_closed = 0;
        hfi_record_bind(record, value, 1);
    }
}

/* Change values in place that an unserializable object may hold, too, instead of
 * binding them anew. New reference: a list of the names for which that isn't possible.
 * */
static PyObject *
apply_in_place(binding *at) {
    PyObject *beside = at->in.names->beside;
    if (PySet_GET_SIZE(beside) == 0)
        return PyList_New(0);
    PyObject *module = PyImport_ImportModule("holdfast.carry.in_place");
    PyObject *values = module ? bound_values(at) : NULL;
    PyObject *apart =
        values ? PyObject_CallMethod(module, "apply", "OOOO", at->in.namespace, values,
                                     at->in.decoded, beside)
               : NULL;
    if (apart)
        take_values(at, values);
    Py_XDECREF(values);
    Py_XDECREF(module);
    return apart;
}

/* Bind only the names that are asked for, which an earlier bind has met. 0 if an entry
 * isn't found by the name to which its key was decoded. */
static int
bind_wanted(binding *at) {
    difference found = {.count = 0};
    PyObject *keys = PyObject_GetIter(at->wanted), *key;
    int there = keys ? 1 : -1;
    while (there > 0 && (key = PyIter_Next(keys))) {
        hf_entry entry = {.struct_size = sizeof entry};
        there = PyUnicode_Check(key)
                    ? hfi_names_find(at->in.state, at->in.names, key, &entry)
                    : 1;
        if (there > 0 && entry.key && add_change(&found, &entry, key) < 0)
            there = -1;
        Py_DECREF(key);
    }
    Py_XDECREF(keys);
    if (PyErr_Occurred())
        there = -1;
    if (found.count)
        qsort(found.changed, found.count, sizeof *found.changed, by_change_sequence);
    for (size_t i = 0; there > 0 && i < found.count; i++)
        if (bind_entry(at, &found.changed[i].entry) < 0)
            there = -1;
    difference_fini(&found);
    return there;
}

/* ---- the methods ----------------------------------------------------------------- */

static double
now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Fini it also after a failure. */
static int
binding_init(binding *at, PyObject *self, PyObject *namespace, PyObject *wanted) {
    *at = (binding){.wanted = NULL};
    if (hfi_decoding_init(&at->in, hfi_state_of(Py_TYPE(self)), hfi_names_of(self),
                          namespace) < 0)
        return -1;
    if (wanted && wanted != Py_None && !(at->wanted = PySet_New(wanted)))
        return -1;
    return 0;
}

static void
binding_fini(binding *at) {
    hfi_decoding_fini(&at->in);
    Py_XDECREF(at->wanted);
    hfi_keys_fini(&at->order);
}

/* Find the code behind the names, if there may be any. New reference. A record only
 * knows which object it was: a finalizer may have deleted the name by now. */
static PyObject *
code_of(binding *at) {
    PyObject *open = at->in.open, *values = PyList_New(0), *code = NULL;
    int failed = !values;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(open); i++) {
        PyObject *value =
            PyDict_GetItemWithError(at->in.namespace, PyList_GET_ITEM(open, i));
        failed = PyErr_Occurred() || PyList_Append(values, value ? value : Py_None) < 0;
    }
    if (!failed)
        code = hfi_code_behind(open, values, at->in.classes, at->in.namespace);
    Py_XDECREF(values);
    return code;
}

/* Consumes the reference to `code`, or NULL with an exception. */
static PyObject *
report_binding(binding *at, double start, PyObject *code) {
    if (!code)
        return NULL;
    return Py_BuildValue("{s:n,s:K,s:K,s:K,s:d,s:O,s:N}", "bound",
                         (Py_ssize_t)at->in.bound.count, "decoded",
                         (unsigned long long)at->in.entry_count, "skipped",
                         (unsigned long long)at->skipped, "bytes_mapped",
                         (unsigned long long)at->in.bytes_mapped, "seconds",
                         now_seconds() - start, "absent", at->in.absent, "code", code);
}

static PyObject *
list_keys(const hfi_keys *keys) {
    PyObject *list = PyList_New((Py_ssize_t)keys->count);
    for (size_t i = 0; list && i < keys->count; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, Py_NewRef(keys->items[i]));
    return list;
}

static int
bind_what(binding *at) {
    int done = at->in.asked && at->budget <= 0 ? bind_wanted(at) : 0;
    return done == 0 ? bind_all(at) : done;
}

static PyObject *
bind_names(PyObject *self, PyObject *namespace, PyObject *wanted, int64_t budget) {
    double start = now_seconds();
    PyObject *result = NULL;
    binding at;
    if (binding_init(&at, self, namespace, wanted) == 0) {
        hfi_names *names = at.in.names;
        at.budget = budget;
        at.in.asked = names->records.live > 0 ? at.wanted : NULL;
        if (hfi_names_begin_with_current(at.in.state, names) == 0 &&
            bind_in_order(&at, bind_what(&at) < 0) == 0 &&
            hfi_decoding_take_baselines(&at.in) == 0)
            result =
                report_binding(&at, start, at.wanted ? code_of(&at) : PyDict_New());
    }
    binding_fini(&at);
    return result;
}

PyObject *
hfi_names_bind(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"namespace", "names", "budget", NULL};
    PyObject *namespace, *wanted = NULL;
    long long budget = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$OL:bind", words, &PyDict_Type,
                                     &namespace, &wanted, &budget) ||
        hfi_names_begin(hfi_names_of(self)) < 0)
        return NULL;
    PyObject *result = bind_names(self, namespace, wanted, budget);
    hfi_names_end(hfi_names_of(self));
    return result;
}

/* Put the changed values into the namespace, even if some could not be decoded. */
static PyObject *
adopt_and_report(binding *at, PyObject *removed) {
    double start = now_seconds();
    if (hfi_decoding_enter(&at->in) < 0)
        return NULL;
    PyObject *apart = adopt_difference(at, removed) == 0 ? apply_in_place(at) : NULL;
    PyObject *result = NULL;
    if (bind_in_order(at, !apart) == 0 && hfi_decoding_take_baselines(&at->in) == 0)
        result = report_binding(at, start, code_of(at));
    PyObject *changed = result ? list_keys(&at->in.bound) : NULL;
    if (result && (!changed || PyDict_SetItemString(result, "changed", changed) < 0 ||
                   PyDict_SetItemString(result, "removed", removed) < 0 ||
                   PyDict_SetItemString(result, "apart", apart) < 0))
        Py_CLEAR(result);
    Py_XDECREF(changed);
    Py_XDECREF(apart);
    return result;
}

/* After a failure the generation counts as not adopted: the next try meets the same
 * difference, and until then nothing is saved. */
static void
adopt_end(binding *at, int is_done) {
    hfi_names *names = at->in.names;
    if (!at->before)
        return;
    hf_snapshot *other = is_done ? at->before : names->snapshot;
    names->snapshot = is_done ? names->snapshot : at->before;
    hf_snapshot_release(other);
}

PyObject *
hfi_names_adopt(PyObject *self, PyObject *args) {
    PyObject *namespace;
    const char *name = NULL;
    Py_ssize_t size = 0;
    if (!PyArg_ParseTuple(args, "O!|z#:adopt", &PyDict_Type, &namespace, &name,
                          &size) ||
        hfi_names_begin(hfi_names_of(self)) < 0)
        return NULL;
    PyObject *result = NULL, *removed = PyList_New(0);
    binding at;
    int is_ready = binding_init(&at, self, namespace, NULL) == 0 && removed;
    at.name = name;
    at.name_size = size;
    if (is_ready && hfi_names_take_published(at.in.state, at.in.names) == 0)
        result = adopt_and_report(&at, removed);
    adopt_end(&at, result != NULL);
    binding_fini(&at);
    Py_XDECREF(removed);
    hfi_names_end(hfi_names_of(self));
    return result;
}
