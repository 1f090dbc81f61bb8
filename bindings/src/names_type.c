/* names_type.c - the Python type Names: which name is bound to what, here and in the
 * store.
 *
 * Names is one process's knowledge: for every key of the store a record (record.c), as
 * of one generation, whose snapshot it holds. save() compares the namespace with the
 * records and prepares a commit of what differs; somebody publishes it; published()
 * makes the prepared records the known ones. bind() fills a namespace from the store;
 * adopt() follows a generation that another process published.
 *
 * Keys: a name is its own key. "\0g" and hex digits is a group: the values of names
 * that share objects, in one encoding; each of its names is an entry of codec MEMBER
 * that says where its value is. "\0c" and an identifier is a class of the notebook, to
 * which encodings refer instead of repeating it; so instances made before and after a
 * hand-over are of one class. "\1" and a word is process state (save's `extra`).
 *
 * A name is in one of three states: bound (what the namespace has was in the store),
 * skipped (it is in the store and was not decoded here; saving keeps it unless the user
 * bound the name anew), or declined (no codec carries its value; it lives in this
 * process only, and its reason is kept). Deleting a bound name removes it from the
 * store; deleting a skipped one is no event, since the namespace never had it.
 *
 * Threads: one at a time, like the session's handles. The interpreter is detached only
 * around calls of the store.
 */
#include "names.h"

#include <string.h>
#include <sys/random.h>

#include "imported.h"
#include "meta.h"

static hfi_names *
as_names(PyObject *self) {
    return (hfi_names *)self;
}

/* ---- shared helpers -----------------------------------------------------------------
 */

PyObject *
hfi_key_decode(const hf_entry *entry) {
    return PyUnicode_DecodeUTF8(entry->key, (Py_ssize_t)entry->key_size, "replace");
}

PyObject *
hfi_member_group(const hf_entry *entry) {
    hfi_meta meta;
    size_t size = 0;
    PyObject *group = NULL;
    if (hfi_meta_init(&meta, entry->meta, entry->meta_size, NULL) == HF_OK) {
        const char *text = hfi_meta_text(&meta, "group", &size);
        if (text)
            group = PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, NULL);
        hfi_meta_fini(&meta);
    }
    if (!group && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError,
                        "a member of a group without the group's key");
    return group;
}

int
hfi_member_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *value,
                  PyObject *group) {
    const char *type = Py_TYPE(value)->tp_name;
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(group, &size);
    if (!text)
        return -1;
    hfi_meta_writer meta;
    hf_error error = HF_ERROR_INIT;
    hfi_meta_writer_init(&meta, 2);
    hfi_meta_put_text(&meta, "type", type, strlen(type));
    hfi_meta_put_text(&meta, "group", text, (size_t)size);
    hfi_entry_sink_clear(sink);
    hf_status status =
        sink->base.set_meta(&sink->base, meta.buffer.data, meta.buffer.size, &error);
    hfi_meta_writer_fini(&meta);
    if (status == HF_OK)
        return 0;
    hfi_raise(state, status, &error);
    return -1;
}

PyObject *
hfi_entry_classes(const hf_entry *entry) {
    hfi_meta meta;
    if (entry->codec != HF_CODEC_PICKLE ||
        hfi_meta_init(&meta, entry->meta, entry->meta_size, NULL) != HF_OK)
        return PyTuple_New(0);
    const msgpack_object *list = hfi_meta_find(&meta, "classes");
    uint32_t count =
        list && list->type == MSGPACK_OBJECT_ARRAY ? list->via.array.size : 0;
    PyObject *classes = PyTuple_New(count);
    for (uint32_t i = 0; classes && i < count; i++) {
        const msgpack_object *item = &list->via.array.ptr[i];
        PyObject *text =
            item->type == MSGPACK_OBJECT_STR
                ? PyUnicode_DecodeUTF8(item->via.str.ptr, item->via.str.size, "replace")
                : PyUnicode_FromString("");
        if (!text)
            Py_CLEAR(classes);
        else
            PyTuple_SET_ITEM(classes, (Py_ssize_t)i, text);
    }
    hfi_meta_fini(&meta);
    return classes;
}

PyObject *
hfi_context_enter(PyObject *names, PyObject *namespace, PyObject *own) {
    PyObject *context = hfi_imported("holdfast._context");
    PyObject *before =
        context ? PyObject_CallMethod(context, "enter", "OOO", names, namespace, own)
                : NULL;
    Py_XDECREF(context);
    return before;
}

void
hfi_context_leave(PyObject *before) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *context = hfi_imported("holdfast._context");
    PyObject *done =
        context ? PyObject_CallMethod(context, "leave", "(O)", before) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(context);
    Py_DECREF(before);
    PyErr_Restore(type, value, traceback);
}

hfi_record *
hfi_names_record_of(const hfi_names *names, PyObject *key) {
    hfi_record *record = hfi_records_find(&names->records, key);
    PyObject *group = record ? hfi_record_group(record) : NULL;
    return group ? hfi_records_find(&names->records, group) : record;
}

void
hfi_names_drop_pending(hfi_names *names) {
    hfi_records_fini(&names->pending);
    names->is_pending = 0;
}

int
hfi_names_advance(hfi_state *state, hfi_names *names) {
    hf_snapshot *snapshot = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS status =
        hf_snapshot_acquire(names->attachment->session, &snapshot, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK) {
        hfi_raise(state, status, &error);
        return -1;
    }
    hf_snapshot_release(names->snapshot);
    names->snapshot = snapshot;
    return 0;
}

/* Of these types neither the module nor the buffer codec carries anything. */
static int
is_plain_type(PyTypeObject *type) {
    return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type ||
           type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type ||
           type == Py_TYPE(Py_None) || type == &PyBool_Type;
}

/* Asks the codecs in their order. A registry walk, not hf_registry_choose: a codec that
 * accepts a value may still decline it half-way, and then the next one is asked. */
hf_status
hfi_names_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *value,
                 PyObject *subject, const hf_codec **ret_codec, hf_error *reterr) {
    hf_status status = HF_OK; /* HF_DECLINED once a codec has said why */
    int is_plain = is_plain_type(Py_TYPE(value));
    for (size_t i = 0;; i++) {
        const hf_codec *codec = hf_registry_at(state->registry, i);
        if (!codec && status == HF_OK)
            return hf_error_set(reterr, HF_DECLINED, "no codec carries this type");
        if (!codec)
            return status;
        if ((is_plain &&
             (codec->number == HF_CODEC_MODULE || codec->number == HF_CODEC_BUFFER)) ||
            (!(is_plain && codec->number == HF_CODEC_PLAIN) &&
             !codec->accepts(codec, value)))
            continue;
        hfi_entry_sink_clear(sink);
        int named = subject && sink->session && codec->number != HF_CODEC_MODULE &&
                    !hfi_codec_is_quiet(codec->number);
        hf_turn before;
        if (named)
            hfi_turn_begin(sink->session, subject, NULL, &before);
        status = codec->encode(codec, value, &sink->base, reterr);
        if (named)
            hf_session_turn_end(sink->session, &before);
        if (status == HF_OK)
            *ret_codec = codec;
        if (status != HF_DECLINED)
            return status;
    }
}

/* ---- the type
 * ------------------------------------------------------------------------ */

static PyObject *
names_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"session", NULL};
    PyObject *session;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Names", words, &session))
        return NULL;
    hfi_attachment *attachment = hfi_session_attachment(hfi_state_of(type), session);
    PyObject *self = attachment ? type->tp_alloc(type, 0) : NULL;
    if (!self)
        return NULL;
    hfi_names *names = as_names(self);
    names->attachment = hfi_attachment_acquire(attachment);
    names->reasons = PyDict_New();
    names->declined = PyDict_New();
    names->beside = PySet_New(NULL);
    if (!names->reasons || !names->declined || !names->beside ||
        hfi_names_advance(hfi_state_of(type), names) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    if (getentropy(&names->group_seed, sizeof names->group_seed) != 0)
        names->group_seed = (uint64_t)(uintptr_t)self ^ (uint64_t)getpid() << 32;
    return self;
}

static int
names_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(as_names(self)->reasons);
    Py_VISIT(as_names(self)->declined);
    Py_VISIT(as_names(self)->watched);
    Py_VISIT(as_names(self)->beside);
    return 0;
}

static int
names_clear(PyObject *self) {
    Py_CLEAR(as_names(self)->reasons);
    Py_CLEAR(as_names(self)->declined);
    Py_CLEAR(as_names(self)->watched);
    Py_CLEAR(as_names(self)->beside);
    return 0;
}

static void
names_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    names_clear(self);
    hfi_records_fini(&as_names(self)->records);
    hfi_records_fini(&as_names(self)->pending);
    hf_snapshot_release(as_names(self)->snapshot);
    hfi_attachment_release(as_names(self)->attachment);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
names_published(PyObject *self, PyObject *number) {
    hfi_names *names = as_names(self);
    hfi_state *state = hfi_state_of(Py_TYPE(self));
    unsigned long long generation = PyLong_AsUnsignedLongLong(number);
    if (generation == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    if (!names->is_pending) {
        PyErr_SetString(PyExc_ValueError, "there is no prepared commit");
        return NULL;
    }
    if (generation != hf_session_generation(names->attachment->session))
        return PyErr_Format(state->conflict_error,
                            "generation %llu is not the session's current one",
                            generation);
    if (hfi_names_advance(state, names) < 0)
        return NULL;
    int failed = hfi_records_merge(&names->records, &names->pending) < 0;
    hfi_names_drop_pending(names);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* Ready to be written: unsealed, or else with private copies. The interpreter stays
 * attached, so that no other Python thread writes to it while it is copied. */
static void
make_writable(hf_region *region) {
    if (hf_region_unseal(region, NULL) != HF_OK)
        hf_region_populate(region, 1);
}

static PyObject *
names_populate(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"names", "write", NULL};
    PyObject *wanted;
    int write = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:populate", words, &wanted,
                                     &write))
        return NULL;
    PyObject *iterator = PyObject_GetIter(wanted), *name;
    unsigned long long bytes = 0;
    while (iterator && (name = PyIter_Next(iterator))) {
        hfi_record *record = PyUnicode_CheckExact(name)
                                 ? hfi_names_record_of(as_names(self), name)
                                 : NULL;
        Py_DECREF(name);
        uint32_t count = record ? hfi_record_region_count(record) : 0;
        for (uint32_t i = 0; i < count; i++) {
            hf_region *region = record->rest->regions[i];
            if (!region || hf_region_is_own(region))
                continue;
            bytes += hf_region_size(region);
            if (write) {
                make_writable(region);
                continue;
            }
            Py_BEGIN_ALLOW_THREADS hf_region_populate(region, 0);
            Py_END_ALLOW_THREADS
        }
    }
    Py_XDECREF(iterator);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *
names_reasons(PyObject *self, void *Py_UNUSED(closure)) {
    return PyDict_Copy(as_names(self)->reasons);
}

static PyObject *
names_generation(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromUnsignedLongLong(
        hf_snapshot_generation(as_names(self)->snapshot));
}

static PyObject *
names_is_binding(PyObject *self, void *Py_UNUSED(closure)) {
    return PyBool_FromLong(as_names(self)->binding != NULL);
}

#define METHOD(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef names_methods[] = {
    {"save", METHOD(hfi_names_save), METH_VARARGS | METH_KEYWORDS,
     "save($self, namespace, *, hidden=frozenset(), extra={}, touched=None, "
     "holders=(), verify=False)\n--\n\n"
     "Prepare a commit of what differs from the store; publish nothing.\n\n"
     "Parameters\n----------\nnamespace : dict\n    The globals.\n"
     "hidden : container of str\n    Names that are not carried.\n"
     "extra : dict\n    Process state by word, kept apart from the names.\n"
     "touched : set of str or None\n    The names that code can have reached since the "
     "last save; None where that isn't known. Others are looked at only if they can "
     "change without being named.\n"
     "holders : tuple of dict\n    Whose references to the values are the shell's "
     "own.\n"
     "verify : bool\n    Look at what would be passed over, too, and compare all pages "
     "of mapped values.\n\n"
     "Returns\n-------\ndict\n    'prepared' (bytes for Session.publish, or None where "
     "nothing changed), 'saved', 'removed' (lists of names), 'declined' (name: "
     "reason), 'code' (key: functions and classes "
     "behind it), 'held' (keys with code that somebody else holds), "
     "'names_examined', 'names_encoded', 'decoded_again' (entries, to tell whether a "
     "pickle changed), "
     "'bytes_copied', 'bytes_shared', 'pages_changed', 'seconds'; of a save that "
     "verifies 'overlooked' (saved names that would have been passed over) and "
     "'pages_overlooked' (changed pages that the system didn't tell of)."},
    {"watch", hfi_names_watch, METH_O,
     "Count the references to this namespace: see strays()."},
    {"strays", hfi_names_strays, METH_NOARGS,
     "How many functions of the watched namespace somebody holds that no name of the "
     "last save leads to. The first call, before there is user code, tells what is "
     "normal."},
    {"published", names_published, METH_O,
     "The prepared commit was published as this generation."},
    {"bind", METHOD(hfi_names_bind), METH_VARARGS | METH_KEYWORDS,
     "bind($self, namespace, *, names=None, budget=0)\n--\n\n"
     "Bind what the store has: everything, or what costs only a mapping and `names`, "
     "and others that are cheap to decode, for as many bytes. "
     "Then the report's 'code' is as that of save(), but for plain data and arrays."},
    {"adopt", hfi_names_adopt, METH_O,
     "Follow a generation that another process published: bind what differs, unbind "
     "what "
     "was removed, leave the rest alone."},
    {"extra", hfi_names_extra, METH_O, "Process state by its word, or None."},
    {"listing", hfi_names_listing, METH_NOARGS, "The entries, a dict each."},
    {"populate", METHOD(names_populate), METH_VARARGS | METH_KEYWORDS,
     "populate($self, names, write=False)\n--\n\n"
     "Fill the page tables of these names' regions. Where `write`, copy them in bulk, "
     "so "
     "that writing to them in place is no page fault and the next commit takes them by "
     "reference; no other thread may touch them meanwhile. Gives their bytes."},
    {"discard", hfi_names_discard, METH_O,
     "The user deleted a name that is in the store and was never bound here: let the "
     "next save remove it. Whether there is such a name."},
    {"readmit", hfi_names_readmit, METH_O,
     "Let what a name needs be decoded again that is in quarantine. Whether it was."},
    {"_load_class", hfi_names_load_class, METH_O, "For holdfast._restore."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef names_properties[] = {
    {"_is_binding", names_is_binding, NULL, "For holdfast._context.", NULL},
    {"reasons", names_reasons, NULL, "Declined names: why each is not carried.", NULL},
    {"generation", names_generation, NULL, "The generation that is known here.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot names_slots[] = {
    {Py_tp_doc, "Names(session)\n--\n\n"
                "A process's knowledge of which name is bound to what in the store."},
    HFI_SLOT(Py_tp_new, names_new),
    HFI_SLOT(Py_tp_dealloc, names_dealloc),
    HFI_SLOT(Py_tp_traverse, names_traverse),
    HFI_SLOT(Py_tp_clear, names_clear),
    {Py_tp_methods, names_methods},
    {Py_tp_getset, names_properties},
    {0, NULL}};

PyType_Spec hfi_names_spec = {.name = "holdfast._store.Names",
                              .basicsize = sizeof(hfi_names),
                              .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                       Py_TPFLAGS_IMMUTABLETYPE,
                              .slots = names_slots};
