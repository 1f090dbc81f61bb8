/* names_format.c - keys of entries, and the groups and classes in their meta.
 *
 * The meta is a map of msgpack (meta.h). A member's has "group", the key of its group.
 * A pickle's has "classes", the identifiers of the notebook's classes to which it
 * refers. No other codec's encodings refer to classes. Meta is read from shared memory:
 * if it isn't as expected, it counts as no group or no class, and nothing beyond it is
 * read.
 */
#include "names_format.h"

#include <stdio.h>
#include <string.h>

#include "meta.h"

PyObject *
hfi_key_decode(const hf_entry *entry) {
    return PyUnicode_DecodeUTF8(entry->key, (Py_ssize_t)entry->key_size, "replace");
}

PyObject *
hfi_key_of_class(PyObject *identifier) {
    return PyUnicode_FromFormat("%c%c%U", HFI_KEY_GROUP, 'c', identifier);
}

PyObject *
hfi_key_of_extra(PyObject *word) {
    return PyUnicode_FromFormat("%c%U", HFI_KEY_EXTRA, word);
}

PyObject *
hfi_key_of_group(uint64_t number) {
    char text[24] = {HFI_KEY_GROUP, 'g'};
    int size =
        snprintf(text + 2, sizeof text - 2, "%016llx", (unsigned long long)number);
    return PyUnicode_FromStringAndSize(text, size + 2);
}

int
hfi_member_find_group(const hf_entry *entry, PyObject **ret_group) {
    hfi_meta meta;
    size_t size = 0;
    *ret_group = NULL;
    if (hfi_meta_init(&meta, entry->meta, entry->meta_size, NULL) == HF_OK) {
        const char *text = hfi_meta_text(&meta, "group", &size);
        if (text)
            *ret_group = PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "replace");
        hfi_meta_fini(&meta);
    }
    return *ret_group ? 1 : PyErr_Occurred() ? -1 : 0;
}

PyObject *
hfi_member_group(const hf_entry *entry) {
    PyObject *group;
    if (hfi_member_find_group(entry, &group) == 0)
        PyErr_SetString(PyExc_ValueError,
                        "a member of a group without the group's key");
    return group;
}

/* The list of texts that a pickle's meta has. */
static PyObject *
classes_in(const void *data, size_t size) {
    hfi_meta meta;
    if (hfi_meta_init(&meta, data, size, NULL) != HF_OK)
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
hfi_entry_classes(const hf_entry *entry) {
    return entry->codec == HF_CODEC_PICKLE ? classes_in(entry->meta, entry->meta_size)
                                           : PyTuple_New(0);
}

PyObject *
hfi_sink_classes(const hfi_entry_sink *sink, uint32_t codec) {
    return codec == HF_CODEC_PICKLE ? classes_in(sink->meta, sink->meta_size)
                                    : PyTuple_New(0);
}
