/* names_listing.c - the entries of a generation, in the order of their names.
 *
 * This is the order in which names were put in the process that put them.
 * Names.listing() returns the list for people, with what is known of an entry without
 * decoding it. For this process's own names it says where the values live. _entries()
 * lists any generation that another process holds.
 */
#include "names_type.h"

#include <string.h>

#include "module_functions.h"
#include "names.h"
#include "names_format.h"

static PyObject *
listing_item(hfi_state *state, const hf_entry *entry, PyObject *key) {
    const hf_codec *codec = hfi_registry_find(state->registry, entry->codec);
    PyObject *type = NULL, *where = NULL;
    int found =
        entry->codec == HF_CODEC_MEMBER ? hfi_member_find_group(entry, &where) : 0;
    if (found == 0)
        where = Py_NewRef(Py_None);
    PyObject *carry = where ? PyImport_ImportModule("holdfast.carry.pickling") : NULL;
    if (carry)
        type = PyObject_CallMethod(
            carry, "type_of", "Iy#y#", entry->codec, entry->meta,
            (Py_ssize_t)entry->meta_size, entry->payload ? entry->payload : "",
            (Py_ssize_t)(entry->payload_size < 16 ? entry->payload_size : 16));
    Py_XDECREF(carry);
    if (!type) {
        Py_XDECREF(where);
        return NULL;
    }
    return Py_BuildValue(
        "{s:O,s:s,s:K,s:K,s:K,s:N,s:N}", "name", key, "codec",
        codec ? codec->name : (entry->codec == HF_CODEC_MEMBER ? "member" : "unknown"),
        "bytes", (unsigned long long)entry->buffer_bytes + entry->payload_size,
        "generation", (unsigned long long)entry->generation, "sequence",
        (unsigned long long)entry->sequence, "type", type, "where", where);
}

typedef struct listing {
    hfi_state *state;
    PyObject *items;
    void *context;
    PyObject *(*make)(hfi_state *state, void *context, const hf_entry *entry,
                      PyObject *key);
} listing;

static int
add_item(void *context, const hf_entry *entry) {
    listing *at = context;
    PyObject *key = hfi_key_decode(entry);
    PyObject *item = key ? at->make(at->state, at->context, entry, key) : NULL;
    int failed = !item || PyList_Append(at->items, item) < 0;
    Py_XDECREF(key);
    Py_XDECREF(item);
    return failed ? HF_STOP : 0;
}

/* List the entries of a snapshot: what `make` returns for each. */
static PyObject *
list_snapshot(hfi_state *state, hf_snapshot *snapshot, listing *at) {
    hf_error error = HF_ERROR_INIT;
    at->state = state;
    at->items = PyList_New(0);
    if (!at->items)
        return NULL;
    hf_status status = hf_snapshot_each_in_order(snapshot, add_item, at, &error);
    if (status != HF_OK)
        hfi_raise(state, status, &error);
    if (PyErr_Occurred())
        Py_CLEAR(at->items);
    return at->items;
}

/* Whether the value of a name lies in the arena: all of its buffers do. A name in a
 * group has the group's buffers. */
static int
lives_in_arena(const hfi_names *names, PyObject *key) {
    const hfi_record *record = hfi_names_record_of(names, key);
    if (!record || record->state != HFI_BOUND || !hfi_record_region_count(record))
        return 0;
    for (uint32_t i = 0; i < hfi_record_region_count(record); i++)
        if (!record->rest->regions[i])
            return 0;
    return 1;
}

static PyObject *
key_item(hfi_state *state, void *context, const hf_entry *entry, PyObject *key) {
    (void)state, (void)context, (void)entry;
    return Py_NewRef(key);
}

static PyObject *
own_item(hfi_state *state, void *context, const hf_entry *entry, PyObject *key) {
    const hfi_names *names = context;
    PyObject *item = listing_item(state, entry, key);
    if (item && PyDict_SetItemString(item, "in_arena",
                                     lives_in_arena(names, key) ? Py_True : Py_False))
        Py_CLEAR(item);
    return item;
}

/* Add the encoding, if it is small and plain. */
static PyObject *
kept_item(hfi_state *state, void *context, const hf_entry *entry, PyObject *key) {
    const Py_ssize_t *most = context;
    PyObject *item = listing_item(state, entry, key);
    if (!item || entry->codec != HF_CODEC_PLAIN || entry->buffer_count ||
        entry->payload_size > (size_t)*most)
        return item;
    PyObject *content = Py_BuildValue(
        "(Iy#y#)", entry->codec, entry->meta, (Py_ssize_t)entry->meta_size,
        entry->payload ? entry->payload : "", (Py_ssize_t)entry->payload_size);
    if (!content || PyDict_SetItemString(item, "content", content) < 0)
        Py_CLEAR(item);
    Py_XDECREF(content);
    return item;
}

PyObject *
hfi_names_listing(PyObject *self, PyObject *ignored) {
    (void)ignored;
    hfi_names *names = hfi_names_of(self);
    listing at = {.context = names, .make = own_item};
    return list_snapshot(hfi_state_of(Py_TYPE(self)), names->snapshot, &at);
}

PyObject *
hfi_names_keys(PyObject *self, PyObject *ignored) {
    (void)ignored;
    listing at = {.make = key_item};
    return list_snapshot(hfi_state_of(Py_TYPE(self)), hfi_names_of(self)->snapshot,
                         &at);
}

static PyObject *
list_entries(PyObject *module, PyObject *args) {
    hfi_state *state = PyModule_GetState(module);
    PyObject *session, *result = NULL;
    Py_buffer name;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "Oy*n:_entries", &session, &name, &most))
        return NULL;
    hfi_attachment *attachment = hfi_session_attachment(state, session);
    listing at = {.context = &most, .make = kept_item};
    hf_generation generation;
    hf_snapshot *snapshot = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_E_INVALID;
    if (attachment && name.len == sizeof generation) {
        memcpy(&generation, name.buf, sizeof generation);
        status =
            hf_snapshot_import(attachment->session, &generation, &snapshot, &error);
    }
    if (status == HF_OK)
        result = list_snapshot(state, snapshot, &at);
    else if (attachment)
        hfi_raise(state, status, &error);
    hf_snapshot_release(snapshot);
    PyBuffer_Release(&name);
    return result;
}

PyMethodDef hfi_listing_functions[] = {
    {"_entries", list_entries, METH_VARARGS,
     "_entries(session, generation, most): the entries of a generation that another "
     "process holds and has named, a dict each; those of plain values of up to `most` "
     "bytes with their 'content', for _decode."},
    {NULL, NULL, 0, NULL}};
