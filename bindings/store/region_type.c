/* region_type.c - the Python type Region: mapped memory of the store, as a buffer.
 *
 * A Region is the base of an array that was bound from the store. While any view of it
 * lives, the region's extents are pinned and mapped. It exports its memory writable.
 * Committed regions are mapped copy-on-write, so a write changes a private page of this
 * process and nothing that others see.
 *
 * The size never changes. Exports need no count: a Region is never resized, and its
 * memory is freed with the last reference, which every export holds.
 *
 * It is not made by users; decoding makes it.
 */
#include "attachment.h"

typedef struct region_object {
    PyObject_HEAD hfi_attachment *attachment;
    hf_region *region;
} region_object;

static region_object *
as_region(PyObject *self) {
    return (region_object *)self;
}

PyObject *
hfi_region_new_consume(hfi_state *state, hfi_attachment *attachment,
                       hf_region *region) {
    PyTypeObject *type = state->region_type;
    PyObject *self = type->tp_alloc(type, 0);
    if (!self) {
        hf_region_release(region);
        return NULL;
    }
    as_region(self)->attachment = hfi_attachment_acquire(attachment);
    as_region(self)->region = region;
    return self;
}

hf_region *
hfi_region_of(PyObject *object) {
    return as_region(object)->region;
}

static int
region_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    hf_region *region = as_region(self)->region;
    return PyBuffer_FillInfo(view, self, hf_region_address(region),
                             (Py_ssize_t)hf_region_size(region), 0, flags);
}

static Py_ssize_t
region_length(PyObject *self) {
    return (Py_ssize_t)hf_region_size(as_region(self)->region);
}

static PyObject *
region_changed_pages(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    hf_region *region = as_region(self)->region;
    uint64_t pages = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hf_region_changed_pages(region, &pages, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(hfi_state_of(Py_TYPE(self)), status, &error);
    return PyLong_FromUnsignedLongLong(pages);
}

/* With the interpreter attached: no other Python thread may write to it meanwhile. */
static PyObject *
region_unshare(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_region_unshare(as_region(self)->region, &error);
    if (status != HF_OK)
        return hfi_raise(hfi_state_of(Py_TYPE(self)), status, &error);
    Py_RETURN_NONE;
}

static void
region_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hf_region_release(as_region(self)->region);
    hfi_attachment_release(as_region(self)->attachment);
    type->tp_free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(
    changed_pages_doc,
    "changed_pages($self, /)\n"
    "--\n\n"
    "Count the pages written since the region was mapped or last committed.\n\n"
    "Returns\n"
    "-------\n"
    "int\n"
    "    Pages, of the system's page size.\n\n"
    "Raises\n"
    "------\n"
    "MemoryError\n"
    "    There is no memory for a list of the pages.");

PyDoc_STRVAR(unshare_doc,
             "unshare($self, /)\n"
             "--\n\n"
             "Copy the region into memory of this process, at the same addresses.\n\n"
             "Writing to it in place causes no copy faults then, and the next commit "
             "takes it by\n"
             "reference. No other thread may touch it meanwhile.\n\n"
             "Raises\n"
             "------\n"
             "NoSpaceError\n"
             "    There is no room for the copy.\n"
             "Error\n"
             "    A prepared commit of this process isn't published yet.");

static PyMethodDef region_methods[] = {
    {"changed_pages", region_changed_pages, METH_NOARGS, changed_pages_doc},
    {"unshare", region_unshare, METH_NOARGS, unshare_doc},
    {NULL, NULL, 0, NULL}};

static PyType_Slot region_slots[] = {
    {Py_tp_doc, "Memory of the store, mapped copy-on-write; exports a buffer."},
    HFI_SLOT(Py_tp_dealloc, region_dealloc),
    {Py_tp_methods, region_methods},
    HFI_SLOT(Py_sq_length, region_length),
    HFI_SLOT(Py_bf_getbuffer, region_getbuffer),
    {0, NULL}};

PyType_Spec hfi_region_spec = {.name = "holdfast._store.Region",
                               .basicsize = sizeof(region_object),
                               .flags = Py_TPFLAGS_DEFAULT |
                                        Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                        Py_TPFLAGS_IMMUTABLETYPE,
                               .slots = region_slots};
