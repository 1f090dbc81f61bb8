/* object_array.c - the elements of NumPy's arrays of objects, for the pickler.
 *
 * Without this file a column of a million texts needs a list, an opcode and a memo
 * entry for each, and the same for reading. Here the plain codec writes the atoms
 * (texts, numbers, None, ...) directly from the array's memory to one block, which goes
 * out of band, and reads them directly into it. Elements that aren't atoms may be
 * shared with the rest of the pickle, or hold the array. The pickler gets these, in a
 * list of the different objects, and the block has their places. Atoms that the array
 * shares with the rest of the pickle are equal afterwards, not the same.
 *
 * No Python code runs while the elements are read or written. The objects that are
 * dropped from the array are the Nones with which NumPy made it.
 */
#include "attachment.h"
#include "module_functions.h"

#include <stdlib.h>

#include "array.h"
#include "plain.h"

static const char block_capsule[] = "holdfast.block";

static void
block_free(PyObject *capsule) {
    free(PyCapsule_GetPointer(capsule, block_capsule));
}

/* A Memory that owns the packer's block. */
static PyObject *
memory_consume(hfi_state *state, hfi_packer *packer) {
    PyObject *capsule = PyCapsule_New(packer->data, block_capsule, block_free);
    if (!capsule)
        return NULL;
    PyObject *memory =
        hfi_memory_new(state, capsule, packer->data, (Py_ssize_t)packer->size);
    packer->data = NULL;
    Py_DECREF(capsule);
    return memory;
}

static PyObject *
pack_elements(PyObject *module, PyObject *array) {
    hfi_state *state = PyModule_GetState(module);
    PyObject **elements;
    size_t count;
    PyObject *outside = PyList_New(0), *result = NULL;
    if (!outside)
        return NULL;
    /* From here to the end of the encoding nothing runs that could resize the array. */
    int collecting = PyGC_Disable();
    int found = hfi_array_elements(array, &elements, &count);
    if (found < 1) {
        if (collecting)
            PyGC_Enable();
        Py_DECREF(outside);
        return found < 0 ? NULL : Py_NewRef(Py_None);
    }
    unsigned char meta[HFI_PLAIN_META_SIZE];
    hfi_packer packer;
    hf_error error = HF_ERROR_INIT;
    hfi_packer_init(&packer);
    hf_status status =
        hfi_plain_encode_elements(elements, count, outside, &packer, meta, &error);
    if (collecting)
        PyGC_Enable();
    if (status == HF_DECLINED)
        result = Py_NewRef(Py_None);
    else if (status != HF_OK)
        hfi_raise(state, status, &error);
    else
        result = Py_BuildValue("(y#NO)", meta, (Py_ssize_t)sizeof meta,
                               memory_consume(state, &packer), outside);
    hfi_packer_fini(&packer);
    Py_DECREF(outside);
    return result;
}

static PyObject *
fill_elements(PyObject *module, PyObject *args) {
    hfi_state *state = PyModule_GetState(module);
    PyObject *array, *outside, **elements;
    Py_buffer meta, payload;
    size_t count;
    if (!PyArg_ParseTuple(args, "Oy*y*O!:_fill_elements", &array, &meta, &payload,
                          &PyList_Type, &outside))
        return NULL;
    int found = hfi_array_elements(array, &elements, &count);
    hf_status status = HF_OK;
    hf_error error = HF_ERROR_INIT;
    if (found > 0) {
        hf_source source = {.struct_size = sizeof source,
                            .meta = meta.buf,
                            .meta_size = (size_t)meta.len,
                            .payload = payload.buf,
                            .payload_size = (size_t)payload.len};
        status = hfi_plain_decode_elements(&source, outside, elements, count, &error);
        if (status != HF_OK)
            hfi_raise(state, status, &error);
    } else if (found == 0) {
        PyErr_SetString(PyExc_ValueError, "not one block of objects");
    }
    PyBuffer_Release(&meta);
    PyBuffer_Release(&payload);
    return found > 0 && status == HF_OK ? Py_NewRef(Py_None) : NULL;
}

PyMethodDef hfi_object_array_functions[] = {
    {"_pack_elements", pack_elements, METH_O,
     "(meta, Memory, outside) of an array of objects: its elements, and a list of "
     "those "
     "that\nthe Memory only refers to; None if it isn't one block."},
    {"_fill_elements", fill_elements, METH_VARARGS,
     "_fill_elements(array, meta, payload, outside): put them into an array again."},
    {NULL, NULL, 0, NULL}};
