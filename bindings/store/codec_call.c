/* codec_call.c - calling the codecs: which codec is called, the turns, and entries in
 * quarantine.
 *
 * For a value the codecs are asked in their order. A codec that accepts it may still
 * decline half-way. Then the next one is asked. For an entry its number names the
 * codec. A process that doesn't know a number asks holdfast.codecs once to load the
 * entry points of all packages, since a number doesn't name its package. For a value
 * the module of its type does.
 *
 * The codecs of plain data and buffers are our own, in C, and run no other code. All
 * others may: a pickle calls the functions that it names, a module is imported, a codec
 * of another library runs any code. So each of those encodings and decodings is a turn
 * (engine/turn.c). It has the variables' names, for the message that another process
 * may have to write. A class that is decoded because an instance needs it is an entry
 * of its own. Its turn has the name of the variable that needs it.
 *
 * An entry in quarantine isn't decoded: that fails with a message, as any decoding may.
 * So its name is absent here, its bytes stay in the store, and all else goes on.
 *
 * Codecs of other extension modules are tables of C functions (holdfast/codec.h) in a
 * capsule named "holdfast.codec". Capsules are kept for as long as the registry, since
 * the tables are in their modules' memory. To register a table again is no error: a
 * package may register at import and by its entry point.
 */
#include "codec_call.h"

#include <string.h>

#include "imported.h"
#include "module_functions.h"
#include "names_format.h"
#include "plain.h"
#include "python_error.h"

/* ---- turns ---------------------------------------------------------------------- */

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

/* The text if no variable is named. */
static const char *
kind_text(int kind) {
    return kind == 'x'   ? "the notebook's settings"
           : kind == 'c' ? "a class"
                         : "variables that share objects";
}

/* The names of a subject, which is a key, or a dict with the names of a group. */
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

/* The turn of encoding `subject`, or of decoding `entry` for it (NULL: for the name in
 * its key). */
static void
begin_turn(hf_session *session, PyObject *subject, const hf_entry *entry,
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

/* 0 if `entry` may be decoded, -1 with an exception if it is in quarantine. */
static int
check_quarantine(hfi_state *state, hf_session *session, const hf_entry *entry) {
    uint32_t cause = hf_session_quarantined(session, entry);
    if (!cause)
        return 0;
    PyObject *trial = hfi_imported("holdfast.carry.trial");
    PyObject *words =
        trial ? PyObject_CallMethod(trial, "refusal", "I", (unsigned)cause) : NULL;
    if (words)
        PyErr_SetObject(state->error, words);
    Py_XDECREF(words);
    Py_XDECREF(trial);
    return -1;
}

/* ---- choosing and calling ------------------------------------------------------- */

/* Whether encoding and decoding by this codec runs no code but ours. */
static int
codec_is_quiet(uint32_t codec) {
    return codec == HF_CODEC_PLAIN || codec == HF_CODEC_BUFFER ||
           codec == HF_CODEC_MEMBER;
}

int
hfi_codec_asks_context(const hf_entry *entry) {
    if (entry->codec == HF_CODEC_PLAIN)
        return hfi_plain_looks_back(entry->meta, entry->meta_size);
    return entry->codec != HF_CODEC_BUFFER && entry->codec != HF_CODEC_MODULE;
}

/* Types of which neither the module codec nor the buffer codec carries anything. */
static int
is_plain_type(PyTypeObject *type) {
    return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type ||
           type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type ||
           type == Py_TYPE(Py_None) || type == &PyBool_Type;
}

/* Asks the codecs in their order. One that accepts a value may still decline it
 * half-way, and then the next one is asked. */
hf_status
hfi_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *value, PyObject *subject,
           const hf_codec **ret_codec, hf_error *reterr) {
    hf_status status = HF_OK; /* HF_DECLINED once a codec has said why */
    int is_plain = is_plain_type(Py_TYPE(value));
    for (size_t i = 0;; i++) {
        const hf_codec *codec = hfi_registry_at(state->registry, i);
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
                    !codec_is_quiet(codec->number);
        hf_turn before = {.struct_size = sizeof before};
        if (named)
            begin_turn(sink->session, subject, NULL, &before);
        status = codec->encode(codec, value, &sink->base, reterr);
        if (named)
            hf_session_turn_end(sink->session, &before);
        if (status == HF_OK)
            *ret_codec = codec;
        if (status != HF_DECLINED)
            return status;
    }
}

const hf_codec *
hfi_codec_find(hfi_state *state, uint32_t number) {
    const hf_codec *codec = hfi_registry_find(state->registry, number);
    if (codec || number < HF_CODEC_FIRST_FREE)
        return codec;
    PyObject *codecs = PyImport_ImportModule("holdfast.codecs");
    PyObject *done = codecs ? PyObject_CallMethod(codecs, "load_all", NULL) : NULL;
    if (!done)
        PyErr_Clear(); /* the caller says that the codec isn't known */
    Py_XDECREF(done);
    Py_XDECREF(codecs);
    return hfi_registry_find(state->registry, number);
}

PyObject *
hfi_decode(hfi_state *state, hfi_attachment *attachment, hf_snapshot *snapshot,
           const hf_entry *entry, PyObject *subject, hfi_entry_source *ret_source) {
    ret_source->bytes_mapped = 0;
    const hf_codec *codec = hfi_codec_find(state, entry->codec);
    if (!codec)
        return PyErr_Format(state->error, "codec %u is not known here", entry->codec);
    hf_session *session = attachment->session;
    int named = !codec_is_quiet(entry->codec);
    if (named && check_quarantine(state, session, entry) < 0)
        return NULL;
    if (hfi_entry_source_init(ret_source, state, attachment, snapshot, entry) < 0)
        return NULL;
    void *value = NULL;
    hf_error error;
    hf_turn before = {.struct_size = sizeof before};
    if (named)
        begin_turn(session, subject, entry, &before);
    hfi_error_init(&error);
    hf_status status = codec->decode(codec, &ret_source->base, &value, &error);
    if (named)
        hf_session_turn_end(session, &before);
    if (status == HF_OK)
        return value;
    hfi_entry_source_fini(ret_source);
    return hfi_raise(state, status, &error);
}

/* ---- functions of the module ---------------------------------------------------- */

static const char capsule_name[] = "holdfast.codec";

static PyObject *
register_codec(PyObject *module, PyObject *capsule) {
    hfi_state *state = PyModule_GetState(module);
    if (!PyCapsule_IsValid(capsule, capsule_name)) {
        PyErr_Format(PyExc_TypeError, "a C codec comes in a capsule named \"%s\"",
                     capsule_name);
        return NULL;
    }
    const hf_codec *codec = PyCapsule_GetPointer(capsule, capsule_name);
    if (HF_HAS_MEMBER(codec, number) &&
        hfi_registry_find(state->registry, codec->number) == codec)
        Py_RETURN_NONE;
    if (HF_HAS_MEMBER(codec, name) && codec->number < HF_CODEC_FIRST_FREE)
        return PyErr_Format(PyExc_ValueError,
                            "codec %s: number %u is below %d, which are Holdfast's own",
                            codec->name ? codec->name : "?", codec->number,
                            HF_CODEC_FIRST_FREE);
    hf_error error = HF_ERROR_INIT;
    if (PyList_Append(state->plugins, capsule) < 0)
        return NULL;
    hf_status status = hfi_registry_add(state->registry, codec, &error);
    if (status == HF_OK)
        Py_RETURN_NONE;
    Py_ssize_t count = PyList_GET_SIZE(state->plugins);
    if (PyList_SetSlice(state->plugins, count - 1, count, NULL) < 0)
        return NULL;
    return hfi_raise(state, status, &error);
}

static PyObject *
quarantine_object(PyObject *module, PyObject *args) {
    hfi_state *state = PyModule_GetState(module);
    PyObject *object;
    unsigned cause;
    if (!PyArg_ParseTuple(args, "OI:_quarantine", &object, &cause))
        return NULL;
    hfi_attachment *attachment = hfi_session_attachment(state, object);
    hf_error error = HF_ERROR_INIT;
    hf_turn turn = {.struct_size = sizeof turn};
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

static PyObject *
renew_turn(PyObject *module, PyObject *session) {
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    if (!attachment)
        return NULL;
    hf_session_turn_renew(attachment->session);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(register_codec_doc,
             "register_codec($module, capsule, /)\n"
             "--\n\n"
             "Add a codec in C.\n\n"
             "Parameters\n"
             "----------\n"
             "capsule : capsule\n"
             "    A `const hf_codec *`, in a capsule named \"holdfast.codec\"; see "
             "holdfast/codec.h.\n\n"
             "Raises\n"
             "------\n"
             "TypeError\n"
             "    It isn't such a capsule.\n"
             "ValueError\n"
             "    The codec's number is one of Holdfast's own.\n"
             "Error\n"
             "    Another codec has the number.");

PyMethodDef hfi_codec_functions[] = {
    {"register_codec", register_codec, METH_O, register_codec_doc},
    {"_quarantine", quarantine_object, METH_VARARGS,
     "_quarantine(session, cause): put the entry that this process decodes now in "
     "quarantine."},
    {"_renew_turn", renew_turn, METH_O,
     "_renew_turn(session): start the clock of the value that is encoded or decoded "
     "now anew."},
    {NULL, NULL, 0, NULL}};
