/* memory_type.c - the Python type Memory: the whole memory at which an array looks.
 *
 * Views of one array must come back as views of one memory. So a view's own bytes are
 * never carried. Instead the memory at the end of its chain of bases is carried once,
 * and each view's place in it. A Memory names that range: it exports the bytes from
 * `address` on, and holds the object at the end of the chain, which owns them.
 *
 * The range decides whether two arrays share. The caller keeps one Memory for each
 * range. serializers/python/array.c finds it, or a codec that knows it (_memory_at).
 */
#include "attachment.h"

#include "array.h"
#include "module_functions.h"

typedef struct memory_object {
    PyObject_HEAD PyObject *owner;
    void *address;
    Py_ssize_t size;
} memory_object;

static memory_object *
as_memory(PyObject *self) {
    return (memory_object *)self;
}

PyObject *
hfi_memory_new(hfi_state *state, PyObject *owner, void *address, Py_ssize_t size) {
    PyObject *memory = state->memory_type->tp_alloc(state->memory_type, 0);
    if (!memory)
        return NULL;
    as_memory(memory)->owner = Py_NewRef(owner);
    as_memory(memory)->address = address;
    as_memory(memory)->size = size;
    return memory;
}

static PyObject *
memory_at(PyObject *module, PyObject *args) {
    unsigned long long address;
    Py_ssize_t size;
    PyObject *owner;
    if (!PyArg_ParseTuple(args, "KnO:_memory_at", &address, &size, &owner))
        return NULL;
    if (size < 0 || (!address && size)) {
        PyErr_SetString(PyExc_ValueError, "no memory is there");
        return NULL;
    }
    return hfi_memory_new(PyModule_GetState(module), owner, (void *)(uintptr_t)address,
                          size);
}

/* (owner, Memory or None, offset): None if no contiguous memory could be found. */
static PyObject *
memory_of_array(PyObject *module, PyObject *array) {
    hfi_state *state = PyModule_GetState(module);
    hfi_array_view view;
    if (hfi_array_view_get(array, &view) < 0)
        return NULL;
    PyObject *memory = Py_None;
    if (view.low) {
        memory = hfi_memory_new(state, view.owner, view.low, (Py_ssize_t)view.low_size);
        if (!memory) {
            hfi_array_view_fini(&view);
            return NULL;
        }
    } else {
        Py_INCREF(memory);
    }
    Py_ssize_t offset =
        view.low ? (Py_ssize_t)((char *)view.data - (char *)view.low) : 0;
    PyObject *result = Py_BuildValue("(ONn)", view.owner, memory, offset);
    hfi_array_view_fini(&view);
    return result;
}

static PyObject *
address_of(PyObject *module, PyObject *buffer) {
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_FULL_RO) < 0)
        return NULL;
    PyObject *address = PyLong_FromVoidPtr(view.buf);
    PyBuffer_Release(&view);
    return address;
}

static int
memory_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    return PyBuffer_FillInfo(view, self, as_memory(self)->address,
                             as_memory(self)->size, 0, flags);
}

static int
memory_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(as_memory(self)->owner);
    return 0;
}

static void
memory_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(as_memory(self)->owner);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, "The whole memory that an array looks at; exports a buffer."},
    HFI_SLOT(Py_tp_dealloc, memory_dealloc),
    HFI_SLOT(Py_tp_traverse, memory_traverse),
    HFI_SLOT(Py_bf_getbuffer, memory_getbuffer),
    {0, NULL}};

PyType_Spec hfi_memory_spec = {.name = "holdfast._store.Memory",
                               .basicsize = sizeof(memory_object),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                        Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                        Py_TPFLAGS_IMMUTABLETYPE,
                               .slots = memory_slots};

PyMethodDef hfi_memory_functions[] = {
    {"_array_memory", memory_of_array, METH_O,
     "(owner, Memory or None, offset): an array's whole memory, and where it starts in "
     "it."},
    {"_address_of", address_of, METH_O,
     "_address_of(object): where the memory begins that its buffer shows."},
    {"_memory_at", memory_at, METH_VARARGS,
     "_memory_at(address, size, owner): `size` bytes at `address` as a Memory, which "
     "keeps `owner`."},
    {NULL, NULL, 0, NULL}};
