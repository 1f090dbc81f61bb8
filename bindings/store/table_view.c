/* table_view.c - a table of the store by Arrow's interfaces, without its library.
 *
 * hf_table_export maps the columns. Each consumer gets structs of its own, which hold
 * the same memory. That memory holds a use of the attachment, so it outlives the session
 * object, and a consumer may release its structs on any thread.
 */
#include "table_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array_view.h"
#include "arrays/arrow_format.h"
#include "arrays/arrow_nodes.h"
#include "arrow_stream.h"
#include "names.h"
#include "names_type.h"

typedef struct table_object {
    PyObject_HEAD struct ArrowSchema schema;
    struct ArrowArray array;
} table_object;

static table_object *
as_table(PyObject *self) {
    return (table_object *)self;
}

/* ---- capsules ---------------------------------------------------------------------- */

static void
free_schema(PyObject *capsule) {
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");
    hfi_arrow_schema_release(schema);
    free(schema);
}

static void
free_array(PyObject *capsule) {
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    hfi_arrow_array_release(array);
    free(array);
}

static PyObject *
new_schema(const struct ArrowSchema *from) {
    struct ArrowSchema *schema = calloc(1, sizeof *schema);
    PyObject *capsule = NULL;
    if (!schema || hfi_arrow_schema_copy(from, schema) < 0)
        PyErr_NoMemory();
    else
        capsule = PyCapsule_New(schema, "arrow_schema", free_schema);
    if (!capsule) {
        hfi_arrow_schema_release(schema);
        free(schema);
    }
    return capsule;
}

static PyObject *
new_array(const struct ArrowArray *from) {
    struct ArrowArray *array = calloc(1, sizeof *array);
    PyObject *capsule = NULL;
    if (!array || hfi_arrow_array_copy(from, array) < 0)
        PyErr_NoMemory();
    else
        capsule = PyCapsule_New(array, "arrow_array", free_array);
    if (!capsule) {
        hfi_arrow_array_release(array);
        free(array);
    }
    return capsule;
}

/* ---- a stream of one array --------------------------------------------------------- */

typedef struct parts {
    struct ArrowSchema schema;
    struct ArrowArray array; /* released when it was given out */
} parts;

static int
stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *ret_schema) {
    parts *from = stream->private_data;
    *ret_schema = (struct ArrowSchema){.release = NULL};
    if (hfi_arrow_schema_copy(&from->schema, ret_schema) == 0)
        return 0;
    hfi_arrow_schema_release(ret_schema);
    return ENOMEM;
}

static int
stream_next(struct ArrowArrayStream *stream, struct ArrowArray *ret_array) {
    parts *from = stream->private_data;
    *ret_array = from->array; /* moved; without it this is the stream's end */
    from->array = (struct ArrowArray){.release = NULL};
    return 0;
}

static const char *
stream_error(struct ArrowArrayStream *stream) {
    (void)stream;
    return "no memory";
}

static void
stream_release(struct ArrowArrayStream *stream) {
    parts *from = stream->private_data;
    hfi_arrow_schema_release(&from->schema);
    hfi_arrow_array_release(&from->array);
    free(from);
    stream->release = NULL;
}

static void
free_stream(PyObject *capsule) {
    struct ArrowArrayStream *stream =
        PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (stream->release)
        stream->release(stream);
    free(stream);
}

/* Consumers pass a schema that they would like; a producer needn't heed it. */
static int
parse_request(PyObject *args, PyObject *kwargs) {
    static char *names[] = {"requested_schema", NULL};
    PyObject *request = Py_None;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &request) ? 0 : -1;
}

static PyObject *
table_stream(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (parse_request(args, kwargs) < 0)
        return NULL;
    struct ArrowArrayStream *stream = calloc(1, sizeof *stream);
    parts *own = calloc(1, sizeof *own);
    PyObject *capsule = NULL;
    if (!stream || !own ||
        hfi_arrow_schema_copy(&as_table(self)->schema, &own->schema) < 0 ||
        hfi_arrow_array_copy(&as_table(self)->array, &own->array) < 0) {
        PyErr_NoMemory();
    } else {
        *stream = (struct ArrowArrayStream){stream_schema, stream_next, stream_error,
                                            stream_release, own};
        capsule = PyCapsule_New(stream, "arrow_array_stream", free_stream);
    }
    if (!capsule) {
        if (own) {
            hfi_arrow_schema_release(&own->schema);
            hfi_arrow_array_release(&own->array);
        }
        free(own);
        free(stream);
    }
    return capsule;
}

static PyObject *
table_schema(PyObject *self, PyObject *Py_UNUSED(none)) {
    return new_schema(&as_table(self)->schema);
}

static PyObject *
table_array(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (parse_request(args, kwargs) < 0)
        return NULL;
    PyObject *schema = new_schema(&as_table(self)->schema);
    PyObject *array = schema ? new_array(&as_table(self)->array) : NULL;
    PyObject *both = array ? PyTuple_Pack(2, schema, array) : NULL;
    Py_XDECREF(schema);
    Py_XDECREF(array);
    return both;
}

/* ---- columns ------------------------------------------------------------------------ */

static PyObject *
table_column_names(PyObject *self, void *Py_UNUSED(closure)) {
    const struct ArrowSchema *schema = &as_table(self)->schema;
    PyObject *names = PyList_New((Py_ssize_t)schema->n_children);
    for (int64_t i = 0; names && i < schema->n_children; i++) {
        PyObject *name = PyUnicode_FromString(schema->children[i]->name);
        if (!name)
            Py_CLEAR(names);
        else
            PyList_SET_ITEM(names, (Py_ssize_t)i, name);
    }
    return names;
}

static PyObject *
table_num_rows(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromLongLong(as_table(self)->array.length);
}

/* Numbers, and none of them is missing. */
static int
describe_column(const struct ArrowSchema *schema, const struct ArrowArray *array,
                hf_array *ret_array) {
    const char *format = schema->format;
    *ret_array = (hf_array){
        .struct_size = sizeof *ret_array, .dimensions = 1, .shape = {array->length}};
    if (strlen(format) != 1 || format[0] == 'b' || array->dictionary ||
        hfi_arrow_format_head(format, 1, ret_array) < 0)
        return 0;
    const unsigned char *valid = array->buffers[0];
    for (int64_t i = array->offset; valid && i < array->offset + array->length; i++)
        if (!(valid[i / 8] >> (i % 8) & 1))
            return 0;
    ret_array->data = (char *)(uintptr_t)array->buffers[1] +
                      (uint64_t)array->offset * ret_array->itemsize;
    return 1;
}

static PyObject *
table_column(PyObject *self, PyObject *name) {
    table_object *table = as_table(self);
    const char *text = PyUnicode_AsUTF8(name);
    int64_t at = 0;
    if (!text)
        return NULL;
    while (at < table->schema.n_children &&
           strcmp(table->schema.children[at]->name, text) != 0)
        at++;
    if (at == table->schema.n_children) {
        PyErr_SetObject(PyExc_KeyError, name);
        return NULL;
    }
    hf_array array;
    const struct ArrowSchema *schema = table->schema.children[at];
    if (!describe_column(schema, table->array.children[at], &array))
        return PyErr_Format(PyExc_BufferError,
                            "column %s is no memoryview: of Arrow's type %s, or with "
                            "missing values; __arrow_c_stream__ has it",
                            text, schema->format);
    struct ArrowArray owner = {.release = NULL};
    if (hfi_arrow_array_copy(table->array.children[at], &owner) < 0) {
        hfi_arrow_array_release(&owner);
        return PyErr_NoMemory();
    }
    return hfi_array_view_new_consume(hfi_state_of(Py_TYPE(self)), &array, &owner);
}

/* ---- the object --------------------------------------------------------------------- */

static void
table_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hfi_arrow_schema_release(&as_table(self)->schema);
    hfi_arrow_array_release(&as_table(self)->array);
    type->tp_free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(column_doc, "column($self, name, /)\n"
                         "--\n\n"
                         "Look at a column of numbers.\n\n"
                         "Parameters\n"
                         "----------\n"
                         "name : str\n"
                         "    The column's name.\n\n"
                         "Returns\n"
                         "-------\n"
                         "memoryview\n"
                         "    Read-only, of one dimension.\n\n"
                         "Raises\n"
                         "------\n"
                         "KeyError\n"
                         "    There is no such column.\n"
                         "BufferError\n"
                         "    It isn't of numbers, or some are missing.");

PyDoc_STRVAR(schema_doc,
             "__arrow_c_schema__($self, /)\n"
             "--\n\n"
             "Export the types of the columns, as Arrow's PyCapsule interface "
             "says.");
PyDoc_STRVAR(array_doc, "__arrow_c_array__($self, /, requested_schema=None)\n"
                        "--\n\n"
                        "Export the columns as one struct, as Arrow's PyCapsule "
                        "interface says.");
PyDoc_STRVAR(stream_doc, "__arrow_c_stream__($self, /, requested_schema=None)\n"
                         "--\n\n"
                         "Export the columns as a stream of one struct, as Arrow's "
                         "PyCapsule interface says.");

static PyMethodDef table_methods[] = {
    {"column", table_column, METH_O, column_doc},
    {"__arrow_c_schema__", table_schema, METH_NOARGS, schema_doc},
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))table_array,
     METH_VARARGS | METH_KEYWORDS, array_doc},
    {"__arrow_c_stream__", (PyCFunction)(void (*)(void))table_stream,
     METH_VARARGS | METH_KEYWORDS, stream_doc},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef table_members[] = {
    {"column_names", table_column_names, NULL, "The names of the columns, in order.",
     NULL},
    {"num_rows", table_num_rows, NULL, "How many rows it has.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot table_slots[] = {
    {Py_tp_doc,
     "A table of the store, mapped, for whatever reads Arrow: DuckDB, Polars, "
     "pyarrow."},
    {Py_tp_methods, table_methods},
    {Py_tp_getset, table_members},
    HFI_SLOT(Py_tp_dealloc, table_dealloc),
    {0, NULL}};

PyType_Spec hfi_table_object_spec = {.name = "holdfast._store.Table",
                                     .basicsize = sizeof(table_object),
                                     .flags = Py_TPFLAGS_DEFAULT |
                                              Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                              Py_TPFLAGS_IMMUTABLETYPE,
                                     .slots = table_slots};

/* ---- Names.table ------------------------------------------------------------------- */

static void
release_attachment(void *attachment) {
    hfi_attachment_release(attachment);
}

static int
stop_visit(void *context, const char *name, size_t size, const hf_array *head) {
    (void)context, (void)name, (void)size, (void)head;
    return HF_STOP;
}

PyObject *
hfi_names_table(PyObject *self, PyObject *name) {
    hfi_names *names = hfi_names_of(self);
    hfi_state *state = hfi_state_of(Py_TYPE(self));
    Py_ssize_t size;
    const char *key = PyUnicode_AsUTF8AndSize(name, &size);
    if (!key)
        return NULL;
    PyObject *object = state->table_type->tp_alloc(state->table_type, 0);
    if (!object)
        return NULL;
    table_object *table = as_table(object);
    hf_error error = HF_ERROR_INIT;
    hf_status status = names->snapshot
                           ? hf_table_export(names->snapshot, key, (size_t)size,
                                             &table->schema, &table->array, &error)
                           : HF_NOT_FOUND;
    if (status == HF_OK) {
        hfi_arrow_memory_finally(table->array.private_data, release_attachment,
                                 hfi_attachment_acquire(names->attachment));
        return object;
    }
    Py_DECREF(object);
    if (status < 0)
        return hfi_raise(state, status, &error);
    if (status == HF_DECLINED && hf_table_each(names->snapshot, key, (size_t)size,
                                               stop_visit, NULL, NULL) == HF_OK)
        return PyErr_Format(PyExc_BufferError, "%s", error.message);
    Py_RETURN_NONE;
}
