/* stream_codec.c - encodings outside the store, for the marshaller.
 *
 * _encode(value) returns (codec number, meta, payload, [buffers]), with the buffers by
 * reference. holdfast.marshal writes them into a stream. _decode takes the same, with
 * any writable objects that export memory as buffers. The codecs and the sink are the
 * same as for the store, but no regions are looked for, since a stream has none.
 */
#include "base/argument.h"
#include "codec_call.h"
#include "module_functions.h"

static PyObject *
stream_encode(PyObject *module, PyObject *value) {
    hfi_state *state = PyModule_GetState(module);
    hfi_entry_sink sink;
    const hf_codec *codec = NULL;
    hf_error error = HF_ERROR_INIT;
    hfi_entry_sink_init(&sink, NULL);
    hf_status status = hfi_encode(state, &sink, value, NULL, &codec, &error);
    PyObject *result = NULL, *buffers = NULL;
    if (status != HF_OK)
        hfi_raise(state, status, &error);
    else
        buffers = PyList_New(0);
    for (uint32_t i = 0; buffers && i < sink.buffer_count; i++) {
        PyObject *owner = sink.pins[i] ? sink.pins[i] : Py_None;
        PyObject *item = Py_BuildValue(
            "(NO)",
            PyMemoryView_FromMemory((char *)(uintptr_t)sink.buffers[i].data,
                                    (Py_ssize_t)sink.buffers[i].size, PyBUF_READ),
            owner);
        if (!item || PyList_Append(buffers, item) < 0)
            Py_CLEAR(buffers);
        Py_XDECREF(item);
    }
    if (buffers)
        result =
            Py_BuildValue("(Iy#y#N)", codec->number, sink.meta ? sink.meta : "",
                          (Py_ssize_t)sink.meta_size, sink.payload ? sink.payload : "",
                          (Py_ssize_t)sink.payload_size, buffers);
    hfi_entry_sink_fini(&sink);
    return result;
}

typedef struct stream_source {
    hf_source base;
    PyObject *buffers; /* a list */
} stream_source;

static hf_status
stream_map(hf_source *base, uint32_t index, void **ret_data, size_t *ret_size,
           void **ret_pin, hf_error *reterr) {
    HFI_NEED(reterr, base, ret_data, ret_size, ret_pin);
    stream_source *source = (stream_source *)(void *)base;
    PyObject *buffer = PyList_GetItem(source->buffers, (Py_ssize_t)index);
    Py_buffer view;
    if (!buffer || PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return hf_error_set(reterr, HF_E_CORRUPT, "the stream has no buffer %u", index);
    }
    *ret_data = view.buf;
    *ret_size = (size_t)view.len;
    *ret_pin = Py_NewRef(buffer);
    PyBuffer_Release(&view);
    return HF_OK;
}

static PyObject *
stream_decode(PyObject *module, PyObject *args) {
    hfi_state *state = PyModule_GetState(module);
    unsigned number;
    Py_buffer meta, payload;
    PyObject *buffers, *result = NULL;
    if (!PyArg_ParseTuple(args, "Iy*y*O!:_decode", &number, &meta, &payload,
                          &PyList_Type, &buffers))
        return NULL;
    const hf_codec *codec = hfi_codec_find(state, number);
    stream_source source = {{sizeof(hf_source), meta.buf, (size_t)meta.len, payload.buf,
                             (size_t)payload.len, (uint32_t)PyList_GET_SIZE(buffers),
                             stream_map},
                            buffers};
    void *value = NULL;
    hf_error error = HF_ERROR_INIT;
    if (!codec) {
        PyErr_Format(state->corrupt_error, "codec %u is not known here", number);
    } else {
        hf_status status = codec->decode(codec, &source.base, &value, &error);
        result = status == HF_OK ? value : hfi_raise(state, status, &error);
    }
    PyBuffer_Release(&meta);
    PyBuffer_Release(&payload);
    return result;
}

PyMethodDef hfi_stream_functions[] = {
    {"_encode", stream_encode, METH_O, "For holdfast.marshal."},
    {"_decode", stream_decode, METH_VARARGS, "For holdfast.marshal."},
    {NULL, NULL, 0, NULL}};
