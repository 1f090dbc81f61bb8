/* table_meta.c - what an entry's meta says of a table.
 *
 * A table is a pickle. Its meta says of each column where its memory is, for programs
 * without Python. The table's library says what its columns are (Codec.table): arrays of
 * one column, or of several, as pandas keeps them, or what else a column is made of.
 * Where the arrays are in the entry is found as for those of a group (array_place.c).
 */
#include "table_meta.h"

#include <string.h>

#include "imported.h"
#include "table_nodes.h"

/* The rest of an entry's meta is small. */
#define TABLE_MOST (HF_META_SIZE_MAX - (64u << 10))

/* Whether it may be a table of a library that is known, quickly. */
static int
may_be_table(PyObject *value) {
    const char *name = strrchr(Py_TYPE(value)->tp_name, '.');
    name = name ? name + 1 : Py_TYPE(value)->tp_name;
    return strcmp(name, "DataFrame") == 0 || strcmp(name, "Table") == 0 ||
           strcmp(name, "RecordBatch") == 0;
}

static void
put_str(msgpack_packer *to, PyObject *text) {
    Py_ssize_t size = 0;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &size);
    if (!bytes)
        PyErr_Clear();
    msgpack_pack_str(to, (size_t)size);
    msgpack_pack_str_body(to, bytes ? bytes : "", (size_t)size);
}

/* A list of ints. -1 with an exception. */
static int
put_integers(msgpack_packer *to, PyObject *list) {
    msgpack_pack_array(to, (size_t)PyList_GET_SIZE(list));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        msgpack_pack_int64(to, PyLong_AsLongLong(PyList_GET_ITEM(list, i)));
    return PyErr_Occurred() ? -1 : 0;
}

static void
put_place(msgpack_packer *to, const hfi_array_place *place) {
    if (place->is_buffer)
        msgpack_pack_uint32(to, place->buffer);
    else
        msgpack_pack_nil(to);
    msgpack_pack_uint64(to, place->offset);
}

/* An array of one column, or of several, the columns first. */
static int
put_array(msgpack_packer *to, PyObject *columns, const hfi_array_place *place,
          const hfi_array_place *valid) {
    const hfi_array_view *view = &place->view;
    int last = view->dimensions - 1;
    msgpack_pack_array(to, valid ? 8 : 6);
    if (put_integers(to, columns) < 0)
        return -1;
    put_str(to, place->type.plain ? place->type.plain : place->type.text);
    put_place(to, place);
    msgpack_pack_int64(to, view->strides[last]);
    msgpack_pack_int64(to, last ? view->strides[0] : 0);
    if (valid)
        put_place(to, valid);
    return 0;
}

/* A part that the library described: columns, an array or None, the bits that say
 * which elements are there or None, and an object that names the columns' type. */
static int
put_part(msgpack_packer *to, hfi_places *places, PyObject *part) {
    PyObject *columns, *array, *bits, *words;
    if (!PyArg_ParseTuple(part, "O!OOO", &PyList_Type, &columns, &array, &bits, &words))
        return -1;
    hfi_array_place place, valid;
    int found = hfi_array_place_init(&place, places, array) &&
                place.view.dimensions >= 1 && place.view.dimensions <= 2;
    int has_valid = bits != Py_None;
    found &= hfi_array_place_init(&valid, places, bits) || !has_valid;
    int failed;
    if (found) {
        failed = put_array(to, columns, &place, has_valid ? &valid : NULL) < 0;
    } else {
        msgpack_pack_array(to, 2);
        PyObject *text = PyObject_Str(words);
        failed = put_integers(to, columns) < 0 || !text;
        if (text)
            put_str(to, text);
        Py_XDECREF(text);
    }
    hfi_array_place_fini(&place);
    hfi_array_place_fini(&valid);
    return failed ? -1 : 0;
}

static int
put_table(msgpack_packer *to, hfi_places *places, PyObject *table, int with_nodes) {
    PyObject *rows, *names, *parts, *nodes = NULL;
    if (!PyArg_ParseTuple(table, "OO!O!|O!", &rows, &PyList_Type, &names, &PyList_Type,
                          &parts, &PyList_Type, &nodes))
        return -1;
    int has_nodes = nodes && PyList_GET_SIZE(nodes);
    msgpack_pack_array(to, has_nodes ? 4 : 3);
    msgpack_pack_int64(to, PyLong_AsLongLong(rows));
    msgpack_pack_array(to, (size_t)PyList_GET_SIZE(names));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); i++)
        put_str(to, PyList_GET_ITEM(names, i));
    msgpack_pack_array(to, (size_t)PyList_GET_SIZE(parts));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); i++)
        if (put_part(to, places, PyList_GET_ITEM(parts, i)) < 0)
            return -1;
    if (has_nodes && !with_nodes)
        msgpack_pack_nil(to);
    else if (has_nodes && hfi_table_nodes_put(to, places, nodes) < 0)
        return -1;
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *
hfi_table_meta(hfi_places *places, PyObject *value) {
    if (!may_be_table(value))
        Py_RETURN_NONE;
    PyObject *codecs = hfi_imported("holdfast.codecs");
    PyObject *table =
        codecs ? PyObject_CallMethod(codecs, "table_of", "O", value) : NULL;
    Py_XDECREF(codecs);
    if (!table || table == Py_None)
        return table;
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    PyObject *result = NULL;
    int done = put_table(&packer, places, table, 1) == 0;
    if (done && buffer.size > TABLE_MOST) { /* those of NumPy may still be mapped */
        buffer.size = 0;
        done = put_table(&packer, places, table, 0) == 0;
    }
    if (done)
        result = buffer.size <= TABLE_MOST
                     ? PyBytes_FromStringAndSize(buffer.data, (Py_ssize_t)buffer.size)
                     : Py_NewRef(Py_None);
    else if (!PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear(); /* it isn't described as it should be, but it is carried */
        result = Py_NewRef(Py_None);
    }
    msgpack_sbuffer_destroy(&buffer);
    Py_DECREF(table);
    return result;
}
