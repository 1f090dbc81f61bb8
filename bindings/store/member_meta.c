/* member_meta.c - what an entry's meta says of a value's memory, for programs without
 * Python.
 *
 * Of an array or a tensor it says where its memory is (array_place.c), of a table where
 * its columns are (table_meta.c). A tensor's library gives its memory as an array of
 * NumPy (Codec.array). Such a value is a pickle, in an entry of its own or in that of a
 * group; the entry of a name in a group names the group as well.
 *
 * In a pickle's meta these are the last pairs, and they say nothing that the pickle
 * doesn't say. So a comparison of two encodings leaves them out (names_stored.c).
 */
#include "member_meta.h"

#include <string.h>

#include "imported.h"
#include "table_meta.h"

/* What is said of a value. */
typedef struct description {
    hfi_array_place array;
    PyObject *table; /* bytes, or None */
    int is_array;
} description;

/* Whether it may be a tensor of a library that is known, quickly. */
static int
may_be_tensor(PyObject *value) {
    static const char *const known[] = {"Tensor", "Parameter", "EagerTensor",
                                        "ResourceVariable", "ArrayImpl"};
    const char *name = strrchr(Py_TYPE(value)->tp_name, '.');
    name = name ? name + 1 : Py_TYPE(value)->tp_name;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0)
            return 1;
    return 0;
}

/* The array that has the value's memory: itself, or a tensor's. Else another object. */
static PyObject *
array_of(PyObject *value) {
    if (!may_be_tensor(value))
        return Py_NewRef(value);
    PyObject *codecs = hfi_imported("holdfast.codecs");
    PyObject *array =
        codecs ? PyObject_CallMethod(codecs, "array_of", "O", value) : NULL;
    Py_XDECREF(codecs);
    return array;
}

/* Without memory nothing is said of a table. -1 with an exception. To be finished in both
 * cases. */
static int
description_init(description *ret_said, hfi_places *places, PyObject *value) {
    *ret_said = (description){.is_array = 0};
    PyObject *array = array_of(value);
    if (!array)
        return -1;
    ret_said->is_array = hfi_array_place_init(&ret_said->array, places, array);
    Py_DECREF(array);
    ret_said->table = hfi_table_meta(places, value);
    if (!ret_said->table && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear(); /* it is carried all the same */
        ret_said->table = Py_NewRef(Py_None);
    }
    return ret_said->table ? 0 : -1;
}

static void
description_fini(description *said) {
    hfi_array_place_fini(&said->array);
    Py_XDECREF(said->table);
}

static unsigned
description_pairs(const description *said) {
    unsigned pairs = said->table != Py_None;
    if (said->is_array)
        pairs +=
            hfi_array_meta_pairs(&said->array.type) + (unsigned)said->array.is_buffer;
    return pairs;
}

static void
description_put(hfi_meta_writer *meta, const description *said) {
    const hfi_array_place *array = &said->array;
    if (said->is_array)
        hfi_array_meta_put(meta, &array->view, &array->type, array->offset);
    if (said->is_array && array->is_buffer)
        hfi_meta_put_number(meta, "buffer", array->buffer);
    if (said->table != Py_None)
        hfi_meta_put_bytes(meta, "table", PyBytes_AS_STRING(said->table),
                           (size_t)PyBytes_GET_SIZE(said->table));
}

static PyObject *
finish_as_bytes(hfi_meta_writer *meta) {
    PyObject *bytes = meta->failed
                          ? PyErr_NoMemory()
                          : PyBytes_FromStringAndSize(meta->buffer.data,
                                                      (Py_ssize_t)meta->buffer.size);
    msgpack_sbuffer_destroy(&meta->buffer);
    return bytes;
}

/* ---- names in a group ------------------------------------------------------------- */

static PyObject *
write_member(PyObject *value, PyObject *group, const description *said) {
    const char *type = Py_TYPE(value)->tp_name;
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(group, &size);
    if (!text)
        return NULL;
    hfi_meta_writer meta;
    hfi_meta_writer_init(&meta, 2 + description_pairs(said));
    hfi_meta_put_text(&meta, "type", type, strlen(type));
    hfi_meta_put_text(&meta, "group", text, (size_t)size);
    description_put(&meta, said);
    return finish_as_bytes(&meta);
}

PyObject *
hfi_member_meta(hfi_places *places, PyObject *value, PyObject *group) {
    description said;
    PyObject *meta = NULL;
    if (description_init(&said, places, value) == 0)
        meta = write_member(value, group, &said);
    description_fini(&said);
    return meta;
}

int
hfi_member_encode(hfi_state *state, hfi_entry_sink *sink, const void *meta,
                  size_t size) {
    hf_error error = HF_ERROR_INIT;
    hfi_entry_sink_clear(sink);
    hf_status status = sink->base.set_meta(&sink->base, meta, size, &error);
    if (status == HF_OK)
        return 0;
    hfi_raise(state, status, &error);
    return -1;
}

/* ---- entries of their own --------------------------------------------------------- */

/* The sink's meta with more pairs, of at most 15. */
static PyObject *
with_pairs(const hfi_entry_sink *sink, const description *said) {
    hfi_meta_writer whole;
    hfi_meta_writer_init(&whole, 0);
    whole.buffer.size = 0; /* without the map's head */
    msgpack_sbuffer_write(&whole.buffer, sink->meta, sink->meta_size);
    description_put(&whole, said);
    if (!whole.failed)
        whole.buffer.data[0] =
            (char)(whole.buffer.data[0] + (int)description_pairs(said));
    return finish_as_bytes(&whole);
}

PyObject *
hfi_pickle_described(const hfi_entry_sink *sink, PyObject *value) {
    hfi_places places;
    hfi_places_init(&places, sink, sink->payload, sink->payload_size);
    description said;
    PyObject *meta = NULL;
    if (description_init(&said, &places, value) == 0)
        meta = description_pairs(&said) && (sink->meta[0] & 0xf0) == 0x80
                   ? with_pairs(sink, &said)
                   : Py_NewRef(Py_None);
    hfi_places_fini(&places);
    description_fini(&said);
    if (meta && meta != Py_None && PyBytes_GET_SIZE(meta) > HF_META_SIZE_MAX)
        Py_SETREF(meta, Py_NewRef(Py_None)); /* it is carried all the same */
    return meta;
}
