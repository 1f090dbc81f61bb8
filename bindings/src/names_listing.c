/* names_listing.c - the entries of a generation, in the order of their names.
 *
 * The store's directory is a hash trie, so what comes out of it is in no order. Each
 * entry says when its key was first put; sorted by that, names come as they came in the
 * process that put them. Names.listing() gives the same list to people, with what can
 * be told of an entry without decoding it.
 */
#include "names_bind.h"

#include <stdlib.h>

int
hfi_entry_list_add(void *context, const hf_entry *entry) {
    hfi_entry_list *list = context;
    if (list->count == list->room) {
        size_t room = list->room * 2 + 64;
        hf_entry *entries = realloc(list->entries, room * sizeof *entries);
        if (!entries)
            return HF_STOP;
        list->entries = entries;
        list->room = room;
    }
    list->entries[list->count++] = *entry;
    return 0;
}

static int
by_sequence(const void *one, const void *other) {
    const hf_entry *left = one, *right = other;
    return (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

void
hfi_entry_list_sort(hfi_entry_list *list) {
    if (list->count)
        qsort(list->entries, list->count, sizeof *list->entries, by_sequence);
}

int
hfi_entry_list_read(hfi_state *state, hf_snapshot *snapshot, hfi_entry_list *ret_list) {
    *ret_list = (hfi_entry_list){NULL, 0, 0};
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_snapshot_each(snapshot, hfi_entry_list_add, ret_list, &error);
    if (status != HF_OK) {
        free(ret_list->entries);
        hfi_raise(state, status, &error);
        return -1;
    }
    hfi_entry_list_sort(ret_list);
    return 0;
}

static PyObject *
listing_item(hfi_state *state, const hf_entry *entry, PyObject *key) {
    const hf_codec *codec = hf_registry_find(state->registry, entry->codec);
    PyObject *type = NULL;
    PyObject *where =
        entry->codec == HF_CODEC_MEMBER ? hfi_member_group(entry) : Py_NewRef(Py_None);
    PyObject *carry = where ? PyImport_ImportModule("holdfast._carry") : NULL;
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
        "{s:O,s:s,s:K,s:K,s:N,s:N}", "name", key, "codec",
        codec ? codec->name : (entry->codec == HF_CODEC_MEMBER ? "member" : "unknown"),
        "bytes", (unsigned long long)(entry->buffer_bytes + entry->payload_size),
        "generation", (unsigned long long)entry->generation, "type", type, "where",
        where);
}

PyObject *
hfi_names_listing(PyObject *self, PyObject *ignored) {
    (void)ignored;
    hfi_names *names = (hfi_names *)(void *)self;
    hfi_state *state = hfi_state_of(Py_TYPE(self));
    hfi_entry_list list;
    if (hfi_entry_list_read(state, names->snapshot, &list) < 0)
        return NULL;
    PyObject *result = PyList_New(0);
    for (size_t i = 0; result && i < list.count; i++) {
        PyObject *key = hfi_key_decode(&list.entries[i]);
        PyObject *item = key ? listing_item(state, &list.entries[i], key) : NULL;
        if (!item || PyList_Append(result, item) < 0)
            Py_CLEAR(result);
        Py_XDECREF(key);
        Py_XDECREF(item);
    }
    free(list.entries);
    return result;
}
