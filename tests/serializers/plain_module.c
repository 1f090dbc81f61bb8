/* plain_module.c - the plain codec for pytest: dumps(value) -> bytes, meta(value) ->
 * bytes, loads(bytes, meta), is_canonical(meta).
 *
 * A sink and a source in memory, nothing more, so that the codec is tested by itself:
 * without the store, and without the extension that carries it to users. conftest.py
 * compiles it for the interpreter that runs the tests. A declined value raises
 * TypeError with the codec's words, bytes that lie raise ValueError; SystemError shows
 * that the codec left an exception set.
 */
#include "python/plain.h"

#include <stdlib.h>

#include "codecs/describe.h"

typedef struct memory_sink {
    hf_sink sink;
    PyObject *payload;
    PyObject *meta;
} memory_sink;

static hf_status
memory_write(hf_sink *sink, const void *data, size_t size, hf_error *reterr) {
    memory_sink *memory = (memory_sink *)sink;

    (void)reterr;
    PyBytes_ConcatAndDel(&memory->payload,
                         PyBytes_FromStringAndSize(data, (Py_ssize_t)size));
    return HF_OK;
}

static hf_status
memory_set_meta(hf_sink *sink, const void *data, size_t size, hf_error *reterr) {
    memory_sink *memory = (memory_sink *)sink;

    (void)reterr;
    Py_XSETREF(memory->meta, PyBytes_FromStringAndSize(data, (Py_ssize_t)size));
    return HF_OK;
}

static PyObject *
raise(hf_status status, const hf_error *error) {
    if (PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "the codec left an exception set");
        return NULL;
    }
    PyErr_Format(status == HF_DECLINED    ? PyExc_TypeError
                 : status == HF_E_CORRUPT ? PyExc_ValueError
                                          : PyExc_RuntimeError,
                 "%s", error->message);
    return NULL;
}

static PyObject *
encode(PyObject *value, int wants_meta) {
    memory_sink memory = {.sink = {.struct_size = sizeof(hf_sink),
                                   .write = memory_write,
                                   .set_meta = memory_set_meta}};
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    PyObject *result;

    memory.payload = PyBytes_FromStringAndSize(NULL, 0);
    status = hfi_codec_plain.encode(&hfi_codec_plain, value, &memory.sink, &error);
    result = status ? raise(status, &error) : wants_meta ? memory.meta : memory.payload;
    Py_XINCREF(result);
    Py_XDECREF(memory.meta);
    Py_XDECREF(memory.payload);
    return result;
}

static PyObject *
plain_dumps(PyObject *module, PyObject *value) {
    (void)module;
    return encode(value, 0);
}

static PyObject *
plain_meta(PyObject *module, PyObject *value) {
    (void)module;
    return encode(value, 1);
}

/* Without a meta, one that allows references. The payload is copied into a block of its
 * exact size, so that a sanitizer sees a read past its end. */
static PyObject *
plain_loads(PyObject *module, PyObject *args) {
    const char *bytes, *meta = "\2\2";
    Py_ssize_t size, meta_size = 2;
    hf_error error = HF_ERROR_INIT;
    hf_source source = {.struct_size = sizeof source};
    void *value = NULL;
    hf_status status;
    char *copy;

    (void)module;
    if (!PyArg_ParseTuple(args, "y#|y#", &bytes, &size, &meta, &meta_size))
        return NULL;
    copy = malloc(size ? (size_t)size : 1);
    if (!copy)
        return PyErr_NoMemory();
    memcpy(copy, bytes, (size_t)size);
    source = (hf_source){.meta = meta,
                         .meta_size = (size_t)meta_size,
                         .payload = copy,
                         .payload_size = (size_t)size};
    status = hfi_codec_plain.decode(&hfi_codec_plain, &source, &value, &error);
    free(copy);
    if (status)
        return raise(status, &error);
    return PyErr_Occurred() ? raise(HF_OK, &error) : value;
}

static PyObject *
plain_describe(PyObject *module, PyObject *payload) {
    hf_source source = {.struct_size = sizeof source,
                        .payload = PyBytes_AS_STRING(payload),
                        .payload_size = (size_t)PyBytes_GET_SIZE(payload)};
    char text[128];

    (void)module;
    hfi_codec_describe(HF_CODEC_PLAIN, &source, text, sizeof text);
    return PyUnicode_FromString(text);
}

static PyObject *
plain_accepts(PyObject *module, PyObject *value) {
    (void)module;
    return PyBool_FromLong(hfi_codec_plain.accepts(&hfi_codec_plain, value));
}

static PyObject *
plain_is_canonical(PyObject *module, PyObject *meta) {
    (void)module;
    return PyBool_FromLong(hfi_plain_is_canonical(PyBytes_AS_STRING(meta),
                                                  (size_t)PyBytes_GET_SIZE(meta)));
}

static PyMethodDef methods[] = {
    {"dumps", plain_dumps, METH_O, NULL},
    {"meta", plain_meta, METH_O, NULL},
    {"loads", plain_loads, METH_VARARGS, NULL},
    {"is_canonical", plain_is_canonical, METH_O, NULL},
    {"describe", plain_describe, METH_O, NULL},
    {"accepts", plain_accepts, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "plain_module",
                                        .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit_plain_module(void);

PyMODINIT_FUNC
PyInit_plain_module(void) {
    return PyModuleDef_Init(&definition);
}
