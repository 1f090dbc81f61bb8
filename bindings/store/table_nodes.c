/* table_nodes.c - columns in Arrow's form, for an entry's meta.
 *
 * shm_store/arrays/table_node.h says what a node is. A column of Arrow is looked at by the
 * Arrow C stream interface, which exports pointers without a copy: an array for each
 * chunk, and each has a node. One of pandas is described by its library, as arrays of
 * NumPy. Their memory is found in the encoding as that of arrays is (array_place.c).
 *
 * A column that has no such form, or whose memory isn't in the entry, gets a text that
 * says why instead of a node.
 */
#include "table_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/arrow_format.h"
#include "arrow_stream.h"

#define NODE_ITEMS 9

typedef struct writer {
    msgpack_packer packer;
    msgpack_sbuffer buffer;
    hfi_places *places;
    char why[120]; /* set on failure */
} writer;

static void
put_node_text(msgpack_packer *to, const char *text) {
    msgpack_pack_str(to, strlen(text));
    msgpack_pack_str_body(to, text, strlen(text));
}

static int
fail_node(writer *to, const char *why) {
    snprintf(to->why, sizeof to->why, "%s", why);
    return -1;
}

/* Bytes that lie in the entry, or NULL. -1: they don't. */
static int
put_byte_place(writer *to, const void *bytes, uint64_t size) {
    hfi_bytes_place place = {.is_buffer = 0};
    if (bytes && size && hfi_places_find(to->places, bytes, size, &place) != 1)
        return fail_node(to, "its memory isn't saved in Arrow's form");
    if (place.is_buffer)
        msgpack_pack_uint32(&to->packer, place.buffer);
    else
        msgpack_pack_nil(&to->packer);
    msgpack_pack_uint64(&to->packer, place.offset);
    msgpack_pack_uint64(&to->packer, bytes ? size : 0);
    return 0;
}

/* All of a node before the places. `name` may be NULL. */
static void
put_head(writer *to, const char *format, const char *name, int64_t flags,
         int64_t length, int64_t offset, int missing) {
    msgpack_pack_array(&to->packer, NODE_ITEMS);
    put_node_text(&to->packer, format);
    if (name)
        put_node_text(&to->packer, name);
    else
        msgpack_pack_nil(&to->packer);
    msgpack_pack_int64(&to->packer, flags);
    msgpack_pack_int64(&to->packer, length);
    msgpack_pack_int64(&to->packer, offset);
    msgpack_pack_int(&to->packer, missing);
}

/* ---- columns of Arrow ------------------------------------------------------------- */

/* Whether the metadata of a field (int32: pairs; each text with an int32 before it) says
 * that it is of an extension type. */
static int
is_extension(const char *metadata) {
    static const char key[] = "ARROW:extension:name";
    int32_t pairs = 0, size;
    if (metadata)
        memcpy(&pairs, metadata, sizeof pairs), metadata += sizeof pairs;
    for (int32_t i = 0; i < 2 * pairs; i++) {
        memcpy(&size, metadata, sizeof size);
        metadata += sizeof size;
        if (i % 2 == 0 && size == sizeof key - 1 &&
            memcmp(metadata, key, sizeof key - 1) == 0)
            return 1;
        metadata += size;
    }
    return 0;
}

static int
put_buffers(writer *to, const hfi_arrow_format *format,
            const struct ArrowArray *array) {
    uint64_t count = (uint64_t)(array->length + array->offset);
    uint32_t last = format->buffers;
    if (format->kind == HFI_ARROW_VIEWS)
        last = (uint32_t)array->n_buffers - 1;
    msgpack_pack_array(&to->packer, 3 * (size_t)last);
    for (uint32_t i = 0; i < last; i++) {
        const void *bytes = i == 0 && array->null_count == 0 ? NULL : array->buffers[i];
        uint64_t size = 0;
        if (!array->length)
            bytes = NULL;
        else if (i < 2)
            (void)hfi_arrow_buffer_size(format, i, count, &size);
        else if (format->kind == HFI_ARROW_TEXT)
            size = (uint64_t)hfi_arrow_offset(array->buffers[1], format->width, count);
        else
            size = (uint64_t)((const int64_t *)array->buffers[last])[i - 2];
        if (put_byte_place(to, bytes, size) < 0)
            return -1;
    }
    return 0;
}

/* `array`: NULL if there are no elements. */
static int
put_array(writer *to, const struct ArrowSchema *schema, const struct ArrowArray *array,
          const char *name) {
    static const void *const none[3];
    hfi_arrow_format format;
    if (is_extension(schema->metadata))
        return fail_node(to, "it is of an extension type of Arrow");
    if (hfi_arrow_format_read(schema->format, strlen(schema->format), &format) < 0) {
        snprintf(to->why, sizeof to->why, "of Arrow's type %s", schema->format);
        return -1;
    }
    struct ArrowArray empty = {.n_buffers =
                                   format.buffers + (format.kind == HFI_ARROW_VIEWS),
                               .buffers = (const void **)(uintptr_t)none};
    const struct ArrowArray *from = array ? array : &empty;
    put_head(to, schema->format, name, schema->flags & 7, from->length, from->offset,
             0);
    if (put_buffers(to, &format, from) < 0)
        return -1;
    msgpack_pack_array(&to->packer, (size_t)schema->n_children);
    for (int64_t i = 0; i < schema->n_children; i++) {
        const char *label = schema->children[i]->name;
        if (put_array(to, schema->children[i], array ? array->children[i] : NULL,
                      label ? label : "") < 0)
            return -1;
    }
    if (schema->dictionary)
        return put_array(to, schema->dictionary, array ? array->dictionary : NULL,
                         NULL);
    msgpack_pack_nil(&to->packer);
    return 0;
}

/* What a stream gives: a column or a table, in chunks. */
typedef struct chunks {
    PyObject *capsule;
    struct ArrowSchema schema;
    struct ArrowArray *arrays; /* those that have elements */
    size_t count, room;
} chunks;

static int
add_chunk(chunks *to, const struct ArrowArray *array) {
    if (to->count == to->room) {
        size_t room = to->room * 2 + 1;
        struct ArrowArray *arrays = realloc(to->arrays, room * sizeof *arrays);
        if (!arrays)
            return -1;
        to->arrays = arrays;
        to->room = room;
    }
    to->arrays[to->count++] = *array;
    return 0;
}

/* Take all arrays of what the object exports. To be finished in both cases. */
static int
chunks_init(chunks *ret_chunks, writer *to, PyObject *what) {
    *ret_chunks = (chunks){.schema = {.release = NULL}};
    ret_chunks->capsule = PyObject_CallMethod(what, "__arrow_c_stream__", NULL);
    struct ArrowArrayStream *stream =
        ret_chunks->capsule
            ? PyCapsule_GetPointer(ret_chunks->capsule, "arrow_array_stream")
            : NULL;
    if (!stream || stream->get_schema(stream, &ret_chunks->schema) != 0)
        return fail_node(to, "its library can't export it");
    for (;;) {
        struct ArrowArray next = {.release = NULL};
        if (stream->get_next(stream, &next) != 0)
            return fail_node(to, "its library can't export it");
        if (!next.release)
            return 0;
        if (next.length && add_chunk(ret_chunks, &next) == 0)
            continue;
        int is_empty = next.length == 0;
        next.release(&next);
        if (!is_empty)
            return fail_node(to, "no memory to describe it");
    }
}

static void
chunks_fini(chunks *of) {
    for (size_t i = 0; i < of->count; i++)
        of->arrays[i].release(&of->arrays[i]);
    free(of->arrays);
    if (of->schema.release)
        of->schema.release(&of->schema);
    Py_XDECREF(of->capsule);
}

/* A node of all chunks, or of the child of each. `child`: -1 for the chunks themselves. */
static int
put_chunks(writer *to, const chunks *of, int64_t child, const char *name) {
    const struct ArrowSchema *schema =
        child < 0 ? &of->schema : of->schema.children[child];
    if (of->count == 0)
        return put_array(to, schema, NULL, name);
    if (of->count > 1)
        msgpack_pack_array(&to->packer, of->count);
    for (size_t i = 0; i < of->count; i++) {
        const struct ArrowArray *array = &of->arrays[i];
        if (child >= 0 && array->offset)
            return fail_node(to, "its library can't export it");
        if (put_array(to, schema, child < 0 ? array : array->children[child], name) < 0)
            return -1;
    }
    return 0;
}

/* ---- columns of pandas ------------------------------------------------------------ */

static int
put_elements(writer *to, PyObject *value, Py_ssize_t *ret_length) {
    hfi_array_place place;
    int found = hfi_array_place_init(&place, to->places, value);
    const hfi_array_view *view = &place.view;
    if (found && view->dimensions == 1 &&
        (view->shape[0] <= 1 || view->strides[0] == (Py_ssize_t)view->itemsize)) {
        if (place.is_buffer)
            msgpack_pack_uint32(&to->packer, place.buffer);
        else
            msgpack_pack_nil(&to->packer);
        msgpack_pack_uint64(&to->packer, place.offset);
        msgpack_pack_uint64(&to->packer, view->shape[0] * view->itemsize);
        *ret_length = view->shape[0];
    } else {
        found = 0;
    }
    hfi_array_place_fini(&place);
    return found ? 0 : fail_node(to, "its memory isn't saved in Arrow's form");
}

static int put_what(writer *to, PyObject *what, const char *name);

/* (format, flags, missing, [array or None, ...], dictionary or None) */
static int
put_described(writer *to, PyObject *what, const char *name) {
    const char *format;
    int flags, missing;
    PyObject *arrays, *dictionary;
    Py_ssize_t length = 0, other = 0;
    if (!PyArg_ParseTuple(what, "siiO!O", &format, &flags, &missing, &PyList_Type,
                          &arrays, &dictionary) ||
        PyList_GET_SIZE(arrays) == 0)
        return fail_node(to, "its library described it wrongly");
    PyObject *last = PyList_GET_ITEM(arrays, PyList_GET_SIZE(arrays) - 1);
    length = PyObject_Size(last);
    put_head(to, format, name, flags, length, 0, missing);
    msgpack_pack_array(&to->packer, 3 * (size_t)PyList_GET_SIZE(arrays));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arrays); i++) {
        PyObject *one = PyList_GET_ITEM(arrays, i);
        int failed = one == Py_None || length == 0 ? put_byte_place(to, NULL, 0)
                                                   : put_elements(to, one, &other);
        if (failed < 0 || (one != Py_None && length && other != length))
            return fail_node(to, "its memory isn't saved in Arrow's form");
    }
    msgpack_pack_array(&to->packer, 0);
    if (dictionary != Py_None)
        return put_what(to, dictionary, NULL);
    msgpack_pack_nil(&to->packer);
    return 0;
}

/* ---- the list --------------------------------------------------------------------- */

/* A text that says why not, a description, or what exports one column. */
static int
put_what(writer *to, PyObject *what, const char *name) {
    if (PyTuple_Check(what))
        return put_described(to, what, name);
    if (PyUnicode_Check(what)) {
        const char *text = PyUnicode_AsUTF8(what);
        return fail_node(to, text ? text : "its type");
    }
    chunks all;
    int failed = chunks_init(&all, to, what) < 0 || put_chunks(to, &all, -1, name) < 0;
    chunks_fini(&all);
    return failed ? -1 : 0;
}

static void
writer_clear(writer *to) {
    to->buffer.size = 0;
    to->why[0] = '\0';
}

/* The node that was written, or why there is none. */
static void
put_result(msgpack_packer *to, writer *node, int64_t column, int failed) {
    msgpack_pack_int64(to, column);
    if (failed) {
        /* A text that was cut may end inside of a character. */
        for (char *at = node->why; *at; at++)
            if (strlen(node->why) == sizeof node->why - 1 && (*at & 0x80))
                *at = '?';
        put_node_text(to, node->why);
    } else {
        to->callback(to->data, node->buffer.data, node->buffer.size);
    }
}

/* Columns of a table that exports them as structs, in this order. */
static void
put_struct(msgpack_packer *to, writer *node, PyObject *columns, PyObject *table) {
    chunks all;
    int has = chunks_init(&all, node, table) == 0;
    char why[sizeof node->why];
    memcpy(why, node->why, sizeof why);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(columns); i++) {
        int64_t column = PyLong_AsLongLong(PyList_GET_ITEM(columns, i));
        int is_there = has && i < all.schema.n_children;
        writer_clear(node);
        memcpy(node->why, why, sizeof why);
        put_result(to, node, column,
                   !is_there || put_chunks(node, &all, (int64_t)i, NULL) < 0);
    }
    chunks_fini(&all);
}

/* (columns, what, name or None): a list of columns of a whole table, or one column. */
static int
put_item(msgpack_packer *to, writer *node, PyObject *item) {
    PyObject *columns, *what;
    const char *name;
    if (!PyArg_ParseTuple(item, "OOz", &columns, &what, &name))
        return -1;
    writer_clear(node);
    if (PyList_Check(columns))
        put_struct(to, node, columns, what);
    else
        put_result(to, node, PyLong_AsLongLong(columns),
                   put_what(node, what, name) < 0);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError))
        return -1;
    PyErr_Clear(); /* a library that can't export it */
    return 0;
}

int
hfi_table_nodes_put(msgpack_packer *to, hfi_places *places, PyObject *columns) {
    writer node = {.places = places};
    size_t count = 0;
    int failed = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(columns); i++) {
        PyObject *item = PyList_GET_ITEM(columns, i);
        PyObject *first = PyTuple_Check(item) && PyTuple_GET_SIZE(item)
                              ? PyTuple_GET_ITEM(item, 0)
                              : Py_None;
        count += PyList_Check(first) ? (size_t)PyList_GET_SIZE(first) : 1;
    }
    msgpack_pack_array(to, 2 * count);
    msgpack_sbuffer_init(&node.buffer);
    msgpack_packer_init(&node.packer, &node.buffer, msgpack_sbuffer_write);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(columns) && !failed; i++)
        failed = put_item(to, &node, PyList_GET_ITEM(columns, i)) < 0;
    msgpack_sbuffer_destroy(&node.buffer);
    return failed ? -1 : 0;
}
