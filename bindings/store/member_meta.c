/* member_meta.c - what the entry of a name in a group says of its value.
 *
 * It names the group's entry, whose pickle has the values. That of an array also says
 * where its memory is (array_place.c), and that of a table where its columns are
 * (table_meta.c).
 */
#include "member_meta.h"

#include <string.h>

#include "table_meta.h"

static PyObject *
write_meta(PyObject *value, PyObject *group, const hfi_array_place *found,
           PyObject *table) {
    const char *type = Py_TYPE(value)->tp_name;
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(group, &size);
    if (!text)
        return NULL;
    unsigned more =
        found ? hfi_array_meta_pairs(&found->type) + (unsigned)found->is_buffer : 0;
    hfi_meta_writer meta;
    hfi_meta_writer_init(&meta, 2 + more + (table != Py_None));
    hfi_meta_put_text(&meta, "type", type, strlen(type));
    hfi_meta_put_text(&meta, "group", text, (size_t)size);
    if (found)
        hfi_array_meta_put(&meta, &found->view, &found->type, found->offset);
    if (found && found->is_buffer)
        hfi_meta_put_number(&meta, "buffer", found->buffer);
    if (table != Py_None)
        hfi_meta_put_bytes(&meta, "table", PyBytes_AS_STRING(table),
                           (size_t)PyBytes_GET_SIZE(table));
    PyObject *bytes =
        meta.failed
            ? PyErr_NoMemory()
            : PyBytes_FromStringAndSize(meta.buffer.data, (Py_ssize_t)meta.buffer.size);
    msgpack_sbuffer_destroy(&meta.buffer);
    return bytes;
}

PyObject *
hfi_member_meta(hfi_places *places, PyObject *value, PyObject *group) {
    hfi_array_place found;
    int is_array = hfi_array_place_init(&found, places, value);
    PyObject *table = hfi_table_meta(places, value);
    PyObject *meta =
        table ? write_meta(value, group, is_array ? &found : NULL, table) : NULL;
    Py_XDECREF(table);
    hfi_array_place_fini(&found);
    return meta;
}

int
hfi_member_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *meta) {
    hf_error error = HF_ERROR_INIT;
    hfi_entry_sink_clear(sink);
    hf_status status = sink->base.set_meta(&sink->base, PyBytes_AS_STRING(meta),
                                           (size_t)PyBytes_GET_SIZE(meta), &error);
    if (status == HF_OK)
        return 0;
    hfi_raise(state, status, &error);
    return -1;
}
