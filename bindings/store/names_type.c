/* names_type.c - the Python type Names: which name is bound to what, here and in the
 * store.
 *
 * save() prepares a commit of what differs. A process publishes it, and published()
 * makes the prepared records the known ones. bind() fills a namespace from the store.
 * adopt() follows a generation that another process published. names.c describes the
 * states of a name. The larger methods have files of their own.
 *
 * *Strays* are functions to which no name leads. Every function holds one reference to
 * its globals. So their number is the namespace's reference count, less its count
 * before any user code ran, less the references of all functions that saves found
 * (names_group.c).
 *
 * Threads: one at a time, like the session's handles. The interpreter is detached only
 * around calls of the store.
 */
#include "names_type.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "array_view.h"
#include "table_view.h"
#include "codec_call.h"
#include "names.h"
#include "names_format.h"

/* ---- the object ----------------------------------------------------------------- */

static PyObject *
names_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"session", "generation", NULL};
    PyObject *session;
    const char *name = NULL;
    Py_ssize_t size = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|z#:Names", words, &session, &name,
                                     &size))
        return NULL;
    hfi_attachment *attachment = hfi_session_attachment(hfi_state_of(type), session);
    PyObject *self = attachment ? type->tp_alloc(type, 0) : NULL;
    if (!self)
        return NULL;
    hfi_names *names = hfi_names_of(self);
    names->attachment = hfi_attachment_acquire(attachment);
    names->reasons = PyDict_New();
    names->unserializable = PyDict_New();
    names->beside = PySet_New(NULL);
    names->is_named = size > 0;
    if (!names->reasons || !names->unserializable || !names->beside ||
        !(names->snapshot = hfi_names_named(hfi_state_of(type), names, name, size))) {
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
    Py_VISIT(hfi_names_of(self)->reasons);
    Py_VISIT(hfi_names_of(self)->unserializable);
    Py_VISIT(hfi_names_of(self)->watched);
    Py_VISIT(hfi_names_of(self)->beside);
    return 0;
}

static int
names_clear(PyObject *self) {
    Py_CLEAR(hfi_names_of(self)->reasons);
    Py_CLEAR(hfi_names_of(self)->unserializable);
    Py_CLEAR(hfi_names_of(self)->watched);
    Py_CLEAR(hfi_names_of(self)->beside);
    return 0;
}

static void
names_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    names_clear(self);
    hfi_records_fini(&hfi_names_of(self)->records);
    hfi_records_fini(&hfi_names_of(self)->pending);
    hf_snapshot_release(hfi_names_of(self)->snapshot);
    hfi_attachment_release(hfi_names_of(self)->attachment);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The prepared commit was published: its records hold now. -1 with an exception; then
 * the next save tries it again. */
static int
take_prepared(hfi_state *state, hfi_names *names, uint64_t generation, const char *name,
              Py_ssize_t size) {
    if (hfi_names_begin(names) < 0)
        return -1;
    names->published = generation;
    names->published_size = size;
    if (size)
        memcpy(&names->published_name, name, sizeof names->published_name);
    int failed = hfi_names_take_published(state, names) < 0;
    hfi_names_end(names);
    if (failed || !names->published)
        return failed ? -1 : 0;
    names->published = 0;
    PyErr_Format(state->conflict_error,
                 "generation %llu is not the session's current one",
                 (unsigned long long)generation);
    return -1;
}

static PyObject *
names_published(PyObject *self, PyObject *args) {
    hfi_names *names = hfi_names_of(self);
    unsigned long long generation;
    const char *name = NULL;
    Py_ssize_t size = 0;
    if (!PyArg_ParseTuple(args, "K|z#:published", &generation, &name, &size))
        return NULL;
    if (!names->is_pending) {
        PyErr_SetString(PyExc_ValueError, "there is no prepared commit");
        return NULL;
    }
    if (size && size != (Py_ssize_t)sizeof(hf_generation)) {
        PyErr_SetString(PyExc_ValueError, "these bytes name no generation");
        return NULL;
    }
    hfi_state *state = hfi_state_of(Py_TYPE(self));
    return take_prepared(state, names, generation, name, size) < 0 ? NULL
                                                                   : Py_NewRef(Py_None);
}

/* ---- methods -------------------------------------------------------------------- */

/* Prepare a region to be written: unshare it, or else make private copies. The
 * interpreter stays attached, so that no other Python thread writes to it during the
 * copy. */
static void
make_writable(hf_region *region) {
    if (hf_region_unshare(region, NULL) != HF_OK)
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
                                 ? hfi_names_record_of(hfi_names_of(self), name)
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
            Py_BEGIN_ALLOW_THREADS
            hf_region_populate(region, 0);
            Py_END_ALLOW_THREADS
        }
    }
    Py_XDECREF(iterator);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *
names_discard(PyObject *self, PyObject *name) {
    hfi_names *names = hfi_names_of(self);
    hfi_record *record =
        PyUnicode_CheckExact(name) ? hfi_records_find(&names->records, name) : NULL;
    if (!record || record->state != HFI_SKIPPED || hfi_key_kind(name) != 'n')
        Py_RETURN_FALSE;
    record->state = HFI_BOUND; /* and the namespace lacks it: names_commit.c */
    Py_RETURN_TRUE;
}

/* 1 if it was in quarantine. */
static int
readmit_entry(hf_session *session, const hf_entry *entry) {
    int was = hf_session_quarantined(session, entry) != 0;
    hf_session_readmit(session, entry);
    return was;
}

/* An entry with the classes that it refers to: 1, 0, or -1 with an exception. */
static int
readmit_with_classes(hfi_state *state, const hfi_names *names, const hf_entry *entry) {
    int was = readmit_entry(names->attachment->session, entry);
    PyObject *classes = hfi_entry_classes(entry);
    for (Py_ssize_t i = 0; classes && i < PyTuple_GET_SIZE(classes); i++) {
        PyObject *key = hfi_key_of_class(PyTuple_GET_ITEM(classes, i));
        hf_entry found = {.struct_size = sizeof found};
        int is_there = key ? hfi_names_find(state, names, key, &found) : -1;
        Py_XDECREF(key);
        if (is_there < 0)
            Py_CLEAR(classes);
        else if (is_there)
            was |= readmit_entry(names->attachment->session, &found);
    }
    Py_XDECREF(classes);
    return classes ? was : -1;
}

static PyObject *
names_readmit(PyObject *self, PyObject *name) {
    hfi_state *state = hfi_state_of(Py_TYPE(self));
    const hfi_names *names = hfi_names_of(self);
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "a name is a str");
    hf_entry entry = {.struct_size = sizeof entry};
    int found = hfi_names_find(state, names, name, &entry), was = 0;
    if (found > 0 && entry.codec == HF_CODEC_MEMBER) {
        PyObject *group = hfi_member_group(&entry);
        found = group ? hfi_names_find(state, names, group, &entry) : -1;
        Py_XDECREF(group);
    }
    if (found > 0)
        was = readmit_with_classes(state, names, &entry);
    return found < 0 || was < 0 ? NULL : PyBool_FromLong(was);
}

static PyObject *
names_extra(PyObject *self, PyObject *word) {
    if (!PyUnicode_Check(word)) {
        PyErr_SetString(PyExc_TypeError, "process state is named by a str");
        return NULL;
    }
    hfi_state *state = hfi_state_of(Py_TYPE(self));
    hfi_names *names = hfi_names_of(self);
    if (!names->is_busy && hfi_names_begin_with_current(state, names) < 0)
        return NULL;
    PyObject *key = hfi_key_of_extra(word);
    hf_entry entry = {.struct_size = sizeof entry};
    int found = key ? hfi_names_find(state, names, key, &entry) : -1;
    hfi_entry_source source;
    PyObject *value = found > 0 ? hfi_decode(state, names->attachment, names->snapshot,
                                             &entry, NULL, &source)
                                : NULL;
    if (value)
        hfi_entry_source_fini(&source);
    else if (found > 0 && hf_session_quarantined(names->attachment->session, &entry)) {
        PyErr_Clear(); /* nothing depends on it */
        found = 0;
    }
    Py_XDECREF(key);
    return found == 0 ? Py_NewRef(Py_None) : value;
}

static PyObject *
names_watch(PyObject *self, PyObject *namespace) {
    if (!PyDict_CheckExact(namespace))
        return PyErr_Format(PyExc_TypeError, "a namespace is a dict");
    hfi_names *names = hfi_names_of(self);
    Py_XSETREF(names->watched, Py_NewRef(namespace));
    names->watched_base = -1;
    Py_RETURN_NONE;
}

/* It has no argument: the number of references that a call holds to an argument depends
 * on its form. */
static PyObject *
names_strays(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    hfi_names *names = hfi_names_of(self);
    if (!names->watched) {
        PyErr_SetString(PyExc_ValueError, "no namespace is watched");
        return NULL;
    }
    Py_ssize_t found = names->unserializable_refs;
    hfi_record *record;
    for (size_t position = 0; (record = hfi_records_next(&names->pending, &position));)
        found += record->rest ? record->rest->namespace_refs : 0;
    for (size_t position = 0; (record = hfi_records_next(&names->records, &position));)
        if (record->rest && !hfi_records_find(&names->pending, record->key))
            found += record->rest->namespace_refs;
    Py_ssize_t others = Py_REFCNT(names->watched) - found;
    if (names->watched_base < 0)
        names->watched_base = others;
    return PyLong_FromSsize_t(others - names->watched_base);
}

static PyObject *
names_reasons(PyObject *self, void *Py_UNUSED(closure)) {
    return PyDict_Copy(hfi_names_of(self)->reasons);
}

static PyObject *
names_generation(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromUnsignedLongLong(
        hf_snapshot_generation(hfi_names_of(self)->snapshot));
}

static PyObject *
names_is_binding(PyObject *self, void *Py_UNUSED(closure)) {
    return PyBool_FromLong(hfi_names_of(self)->decoding != NULL);
}

PyDoc_STRVAR(
    names_save_doc,
    "save($self, namespace, *, hidden=(), extra={}, touched=None, holders=(), "
    "verify=False, stand_ins={}, given_back=(), trial=False)\n"
    "--\n\n"
    "Prepare a commit of what differs from the store. Nothing is published.\n\n"
    "Parameters\n"
    "----------\n"
    "namespace : dict\n"
    "    The globals.\n"
    "hidden : container of str\n"
    "    Names that are not stored.\n"
    "extra : dict\n"
    "    Process state by word, kept apart from the names.\n"
    "touched : set of str, optional\n"
    "    The names that code can have reached since the last save; None if that isn't "
    "known.\n"
    "    Others are looked at only if they can change without being named.\n"
    "holders : tuple of dict\n"
    "    Dicts whose references to the values are the shell's own.\n"
    "verify : bool\n"
    "    Whether what would be passed over is looked at, too, and all pages of mapped "
    "values\n"
    "    are compared.\n"
    "stand_ins : dict of int to object\n"
    "    By the id of a list or dict, what is saved in its place. The caller keeps\n"
    "    these objects; they decode to what the name is to have.\n"
    "given_back : container of str\n"
    "    Hidden names that the notebook had and that aren't its own any more: they\n"
    "    leave the store, if they are there.\n"
    "trial : bool\n"
    "    Only find out what would be saved. What was prepared before stays that.\n\n"
    "Returns\n"
    "-------\n"
    "dict\n"
    "    'prepared' (bytes for `Session.publish`, or None if nothing changed), 'saved' "
    "and\n"
    "    'removed' (lists of names), 'classes' (those of the notebook that were "
    "saved), "
    "'unserializable' (reasons by name), 'code' "
    "(functions "
    "and\n"
    "    classes behind each key), 'held' (keys with code that has other references), "
    "'numbers' (those behind each\n"
    "    key that may be addresses),\n"
    "    'names_examined', 'names_encoded', 'decoded_again' (entries that were decoded "
    "to see\n"
    "    whether a pickle changed), 'bytes_copied', 'bytes_shared', 'pages_changed' "
    "and\n"
    "    'seconds'; of a save that verifies also 'overlooked' (saved names that would "
    "have been\n"
    "    passed over) and 'pages_overlooked' (changed pages that the system didn't "
    "report).\n\n"
    "Raises\n"
    "------\n"
    "ConflictError\n"
    "    Another process published a generation; `adopt` it first.\n"
    "NoSpaceError\n"
    "    The arena is full.");

PyDoc_STRVAR(names_watch_doc, "watch($self, namespace, /)\n"
                              "--\n\n"
                              "Count the references to a namespace, for `strays`.\n\n"
                              "Parameters\n"
                              "----------\n"
                              "namespace : dict\n"
                              "    The globals.");

PyDoc_STRVAR(names_strays_doc, "strays($self, /)\n"
                               "--\n\n"
                               "Count the functions of the watched namespace that no "
                               "name of the last save leads to.\n\n"
                               "Something else holds them. The first call comes before "
                               "there is user code: what it finds is\n"
                               "normal, and isn't counted.\n\n"
                               "Returns\n"
                               "-------\n"
                               "int\n"
                               "    How many there are more than at the first call.\n\n"
                               "Raises\n"
                               "------\n"
                               "ValueError\n"
                               "    No namespace is watched.");

PyDoc_STRVAR(names_published_doc, "published($self, generation, name=None, /)\n"
                                  "--\n\n"
                                  "Note that the prepared commit was published.\n\n"
                                  "Parameters\n"
                                  "----------\n"
                                  "generation : int\n"
                                  "    What `Session.publish` returned.\n"
                                  "name : bytes, optional\n"
                                  "    The name (`hf_generation`) under which the "
                                  "publisher leases it; without one it has\n"
                                  "    to be the current generation.\n\n"
                                  "Raises\n"
                                  "------\n"
                                  "ValueError\n"
                                  "    There is no prepared commit.\n"
                                  "ConflictError\n"
                                  "    It isn't the session's current generation, or "
                                  "the named one.");

PyDoc_STRVAR(
    names_bind_doc,
    "bind($self, namespace, *, names=None, budget=0)\n"
    "--\n\n"
    "Bind what the store has in a namespace.\n\n"
    "Parameters\n"
    "----------\n"
    "namespace : dict\n"
    "    The globals.\n"
    "names : iterable of str, optional\n"
    "    Bind only these names, and at first those that cost no more than a mapping. "
    "If it is\n"
    "    left out: all.\n"
    "budget : int\n"
    "    Bytes up to which others that are cheap to decode are bound, too. Below 0: "
    "only `names`.\n\n"
    "Returns\n"
    "-------\n"
    "dict\n"
    "    'bound', 'decoded' and 'skipped' (counts), 'bytes_mapped', "
    "'seconds', 'absent' (reasons\n"
    "    by name) and 'code' as of `save`, without plain data and arrays; it is empty\n"
    "    if `names` isn't given.\n\n"
    "Raises\n"
    "------\n"
    "CorruptError\n"
    "    The generation is damaged.");

PyDoc_STRVAR(names_adopt_doc,
             "adopt($self, namespace, name=None, /)\n"
             "--\n\n"
             "Follow a generation that another process published.\n\n"
             "What differs is bound, what was removed is unbound, and "
             "the rest stays as it is.\n\n"
             "Parameters\n"
             "----------\n"
             "namespace : dict\n"
             "    The globals.\n"
             "name : bytes, optional\n"
             "    The name (`hf_generation`) under which its publisher leases "
             "it; without one it is\n"
             "    the current generation.\n\n"
             "Returns\n"
             "-------\n"
             "dict\n"
             "    As `bind` returns it, with 'changed' and 'removed' "
             "(lists of names) and 'apart' (names\n"
             "    whose objects could not be changed in place: other "
             "references keep the old ones).\n\n"
             "Raises\n"
             "------\n"
             "CorruptError\n"
             "    The generation is damaged.");

PyDoc_STRVAR(names_extra_doc, "extra($self, word, /)\n"
                              "--\n\n"
                              "Return process state.\n\n"
                              "Parameters\n"
                              "----------\n"
                              "word : str\n"
                              "    The key under which it was saved.\n\n"
                              "Returns\n"
                              "-------\n"
                              "object\n"
                              "    The value, or None if there is none.");

PyDoc_STRVAR(names_listing_doc,
             "listing($self, /)\n"
             "--\n\n"
             "List the entries of the generation that is known here.\n\n"
             "Returns\n"
             "-------\n"
             "list of dict\n"
             "    For each `name`, `codec`, `bytes`, `generation` (of the content), "
             "`sequence` (in which\n"
             "    the names were first saved), `type`, `where` (the group that has its "
             "value, or None)\n"
             "    and `in_arena` (whether this process's value lies in the arena).");

PyDoc_STRVAR(names_view_doc,
             "view($self, name, /)\n"
             "--\n\n"
             "Look at an array of the known generation without NumPy.\n\n"
             "Nothing is copied if it has 16 KiB or more.\n\n"
             "Parameters\n"
             "----------\n"
             "name : str\n"
             "    The name.\n\n"
             "Returns\n"
             "-------\n"
             "memoryview or None\n"
             "    Read-only, with format, shape and strides. None if there is no "
             "numeric array or array of\n"
             "    texts under this name.\n\n"
             "Raises\n"
             "------\n"
             "CorruptError\n"
             "    The array's description is damaged.");

PyDoc_STRVAR(names_table_doc,
             "table($self, name, /)\n"
             "--\n\n"
             "Look at a table of the known generation without its library.\n\n"
             "Parameters\n"
             "----------\n"
             "name : str\n"
             "    The name.\n\n"
             "Returns\n"
             "-------\n"
             "Table or None\n"
             "    None if there is no table under this name, or one that isn't "
             "described.\n\n"
             "Raises\n"
             "------\n"
             "BufferError\n"
             "    A column can't be exported: the message has its name.\n"
             "CorruptError\n"
             "    The table's description is damaged.");

PyDoc_STRVAR(names_keys_doc,
             "keys($self, /)\n"
             "--\n\n"
             "List the keys of the generation that is known here.\n\n"
             "Returns\n"
             "-------\n"
             "list of str\n"
             "    In the order in which they were first saved. Those that begin with "
             "character 0 or 1\n"
             "    are groups, classes and process state.");

PyDoc_STRVAR(names_populate_doc, "populate($self, names, write=False)\n"
                                 "--\n\n"
                                 "Fill the page tables of mapped values.\n\n"
                                 "Parameters\n"
                                 "----------\n"
                                 "names : iterable of str\n"
                                 "    Their names.\n"
                                 "write : bool\n"
                                 "    Whether they are copied in bulk, so that writing "
                                 "to them in place causes no page fault\n"
                                 "    and the next commit takes them by reference. No "
                                 "other thread may touch them meanwhile.\n\n"
                                 "Returns\n"
                                 "-------\n"
                                 "int\n"
                                 "    The bytes of their regions.");

PyDoc_STRVAR(
    names_discard_doc,
    "discard($self, name, /)\n"
    "--\n\n"
    "Note that the user deleted a name that is stored and was never bound here.\n\n"
    "The next save removes it.\n\n"
    "Parameters\n"
    "----------\n"
    "name : str\n"
    "    The name.\n\n"
    "Returns\n"
    "-------\n"
    "bool\n"
    "    Whether there is such a name.");

PyDoc_STRVAR(
    names_readmit_doc,
    "readmit($self, name, /)\n"
    "--\n\n"
    "Take what a name needs out of quarantine, so that it is decoded again.\n\n"
    "Parameters\n"
    "----------\n"
    "name : str\n"
    "    The name.\n\n"
    "Returns\n"
    "-------\n"
    "bool\n"
    "    Whether anything was in quarantine.");

static PyMethodDef names_methods[] = {
    {"save", HFI_METHOD(hfi_names_save), METH_VARARGS | METH_KEYWORDS, names_save_doc},
    {"watch", names_watch, METH_O, names_watch_doc},
    {"strays", names_strays, METH_NOARGS, names_strays_doc},
    {"published", names_published, METH_VARARGS, names_published_doc},
    {"bind", HFI_METHOD(hfi_names_bind), METH_VARARGS | METH_KEYWORDS, names_bind_doc},
    {"adopt", hfi_names_adopt, METH_VARARGS, names_adopt_doc},
    {"extra", names_extra, METH_O, names_extra_doc},
    {"listing", hfi_names_listing, METH_NOARGS, names_listing_doc},
    {"keys", hfi_names_keys, METH_NOARGS, names_keys_doc},
    {"populate", HFI_METHOD(names_populate), METH_VARARGS | METH_KEYWORDS,
     names_populate_doc},
    {"discard", names_discard, METH_O, names_discard_doc},
    {"view", hfi_names_view, METH_O, names_view_doc},
    {"table", hfi_names_table, METH_O, names_table_doc},
    {"readmit", names_readmit, METH_O, names_readmit_doc},
    {"_load_class", hfi_names_load_class, METH_O, "For holdfast.carry.restoring."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef names_properties[] = {
    {"_is_binding", names_is_binding, NULL, "For holdfast.carry.context.", NULL},
    {"reasons", names_reasons, NULL, "Unserializable names: why each is not carried.",
     NULL},
    {"generation", names_generation, NULL, "The generation that is known here.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot names_slots[] = {
    {Py_tp_doc,
     "Names(session, generation=None)\n--\n\n"
     "A process's knowledge of which name is bound to what in the store.\n\n"
     "Parameters\n----------\n"
     "session : Session\n    The session.\n"
     "generation : bytes, optional\n"
     "    The name (`hf_generation`) of the generation that the first `bind` "
     "is to find,\n"
     "    which another process leases; else it is the current one."},
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
