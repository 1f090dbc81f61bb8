/* names_turn.c - naming what other people's code encodes and decodes now.
 *
 * The codecs of plain data and buffers are ours, in C, and run no other code. All
 * others may: a pickle calls what it names, a module is imported, and a codec of
 * another library does as it likes. So each of those encodings and decodings is a turn
 * (engine/turn.c), with the variables' names in it for the message that somebody else
 * may have to write. A class that is decoded because an instance needs it is an entry
 * of its own, under the name of the variable that needs it.
 *
 * An entry in quarantine isn't decoded: that fails as any decoding may, with words. So
 * its name is absent here, its bytes stay in the store, and everything else goes on.
 * The user can have it tried again (readmit), bind the name anew, or delete it: no
 * process has bound it, so Names.discard() says that its absence means something.
 */
#include <string.h>

#include "imported.h"
#include "names_bind.h"

int
hfi_codec_is_quiet(uint32_t codec) {
    return codec == HF_CODEC_PLAIN || codec == HF_CODEC_BUFFER ||
           codec == HF_CODEC_MEMBER;
}

typedef struct label {
    char text[HF_TURN_LABEL_SIZE];
    size_t size;
} label;

static void
add_text(label *to, const char *text, size_t size) {
    size_t room = sizeof to->text - to->size;
    size = size < room ? size : room;
    memcpy(to->text + to->size, text, size);
    to->size += size;
}

static void
add_name(label *to, PyObject *key) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_Check(key) ? hfi_key_bytes(key, &size) : NULL;
    if (!text)
        PyErr_Clear();
    else if (hfi_key_kind(key) == 'n') {
        if (to->size)
            add_text(to, ", ", 2);
        add_text(to, text, (size_t)size);
    }
}

/* What it is where no variable is named. */
static const char *
kind_text(int kind) {
    return kind == 'x'   ? "the notebook's settings"
           : kind == 'c' ? "a class"
                         : "variables that share objects";
}

/* Of a subject: a key, or a dict with the names of a group. */
static void
make_label(PyObject *subject, label *ret_label) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    ret_label->size = 0;
    if (!PyDict_Check(subject))
        add_name(ret_label, subject);
    else
        while (PyDict_Next(subject, &position, &key, &value))
            add_name(ret_label, key);
    if (ret_label->size)
        return;
    const char *text =
        kind_text(PyUnicode_Check(subject) ? hfi_key_kind(subject) : 'g');
    add_text(ret_label, text, strlen(text));
}

void
hfi_turn_begin(hf_session *session, PyObject *subject, const hf_entry *entry,
               hf_turn *ret_before) {
    label name;
    PyObject *key = subject ? NULL : hfi_key_decode(entry);
    if (subject || key)
        make_label(subject ? subject : key, &name);
    else
        name.size = 0;
    PyErr_Clear();
    Py_XDECREF(key);
    hf_session_turn_begin(session, entry, name.text, name.size, ret_before);
}

int
hfi_turn_check(hfi_state *state, hf_session *session, const hf_entry *entry) {
    uint32_t cause = hf_session_quarantined(session, entry);
    if (!cause)
        return 0;
    PyObject *trial = hfi_imported("holdfast._trial");
    PyObject *words =
        trial ? PyObject_CallMethod(trial, "refusal", "I", (unsigned)cause) : NULL;
    if (words)
        PyErr_SetObject(state->error, words);
    Py_XDECREF(words);
    Py_XDECREF(trial);
    return -1;
}

/* ---- methods --------------------------------------------------------------------- */

PyObject *
hfi_names_discard(PyObject *self, PyObject *name) {
    hfi_names *names = (hfi_names *)(void *)self;
    hfi_record *record =
        PyUnicode_CheckExact(name) ? hfi_records_find(&names->records, name) : NULL;
    if (!record || record->state != HFI_SKIPPED || hfi_key_kind(name) != 'n')
        Py_RETURN_FALSE;
    record->state = HFI_BOUND; /* and the namespace lacks it: names_sweep.c */
    Py_RETURN_TRUE;
}

/* 1 where it was in quarantine. */
static int
readmit_entry(hf_session *session, const hf_entry *entry) {
    int was = hf_session_quarantined(session, entry) != 0;
    hf_session_readmit(session, entry);
    return was;
}

/* An entry with the classes that it refers to: 1, 0, or -1 with an exception. */
static int
readmit_with_classes(hfi_binding *at, const hf_entry *entry) {
    int was = readmit_entry(at->names->attachment->session, entry);
    PyObject *classes = hfi_entry_classes(entry);
    for (Py_ssize_t i = 0; classes && i < PyTuple_GET_SIZE(classes); i++) {
        PyObject *key = PyUnicode_FromFormat("%c%c%U", HFI_KEY_GROUP, 'c',
                                             PyTuple_GET_ITEM(classes, i));
        hf_entry found;
        int is_there = key ? hfi_binding_find(at, key, &found) : -1;
        Py_XDECREF(key);
        if (is_there < 0)
            Py_CLEAR(classes);
        else if (is_there)
            was |= readmit_entry(at->names->attachment->session, &found);
    }
    Py_XDECREF(classes);
    return classes ? was : -1;
}

PyObject *
hfi_names_readmit(PyObject *self, PyObject *name) {
    hfi_binding at = {.state = hfi_state_of(Py_TYPE(self)),
                      .names = (hfi_names *)(void *)self};
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "a name is a str");
    hf_entry entry;
    int found = hfi_binding_find(&at, name, &entry), was = 0;
    if (found > 0 && entry.codec == HF_CODEC_MEMBER) {
        PyObject *group = hfi_member_group(&entry);
        found = group ? hfi_binding_find(&at, group, &entry) : -1;
        Py_XDECREF(group);
    }
    if (found > 0)
        was = readmit_with_classes(&at, &entry);
    return found < 0 || was < 0 ? NULL : PyBool_FromLong(was);
}

/* ---- functions of the module ----------------------------------------------------- */

PyObject *
hfi_quarantine(PyObject *module, PyObject *args) {
    hfi_state *state = PyModule_GetState(module);
    PyObject *object;
    unsigned cause;
    if (!PyArg_ParseTuple(args, "OI:_quarantine", &object, &cause))
        return NULL;
    hfi_attachment *attachment = hfi_session_attachment(state, object);
    hf_error error = HF_ERROR_INIT;
    hf_turn turn;
    if (!attachment)
        return NULL;
    if (hf_session_turn_of(attachment->session, 0, &turn)) {
        hf_status status =
            hf_session_quarantine(attachment->session, &turn, cause, &error);
        if (status != HF_OK)
            return hfi_raise(state, status, &error);
    }
    Py_RETURN_NONE;
}

PyObject *
hfi_renew_turn(PyObject *module, PyObject *session) {
    hfi_attachment *attachment =
        hfi_session_attachment(PyModule_GetState(module), session);
    if (!attachment)
        return NULL;
    hf_session_turn_renew(attachment->session);
    Py_RETURN_NONE;
}
