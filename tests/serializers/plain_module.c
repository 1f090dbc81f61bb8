/* plain_module.c - the plain codec for pytest: dumps(value) -> bytes, loads(bytes).
 *
 * A sink and a source in memory, nothing more, so that the codec is tested by itself:
 * without the store, and without the extension that carries it to users. conftest.py
 * compiles it for the interpreter that runs the tests. A declined value raises
 * TypeError with the codec's words, bytes that lie raise ValueError; SystemError tells
 * that the codec left an exception set.
 */
#include "python/plain.h"

#include <stdlib.h>

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
plain_dumps(PyObject *module, PyObject *value) {
    memory_sink memory = {.sink = {.write = memory_write, .set_meta = memory_set_meta}};
    hf_error error = HF_ERROR_INIT;
    hf_status status;

    (void)module;
    memory.payload = PyBytes_FromStringAndSize(NULL, 0);
    status = hfi_codec_plain.encode(&hfi_codec_plain, value, &memory.sink, &error);
    Py_XDECREF(memory.meta);
    if (status) {
        Py_XDECREF(memory.payload);
        return raise(status, &error);
    }
    return memory.payload;
}

/* The payload is copied into a block of its exact size, so that a sanitizer sees a read
 * past its end. */
static PyObject *
plain_loads(PyObject *module, PyObject *payload) {
    const unsigned char format = 1;
    hf_error error = HF_ERROR_INIT;
    hf_source source = {.meta = &format, .meta_size = 1};
    void *value = NULL;
    hf_status status;
    char *copy;

    (void)module;
    source.payload_size = (size_t)PyBytes_GET_SIZE(payload);
    copy = malloc(source.payload_size ? source.payload_size : 1);
    if (!copy)
        return PyErr_NoMemory();
    memcpy(copy, PyBytes_AS_STRING(payload), source.payload_size);
    source.payload = copy;
    status = hfi_codec_plain.decode(&hfi_codec_plain, &source, &value, &error);
    free(copy);
    if (status)
        return raise(status, &error);
    return PyErr_Occurred() ? raise(HF_OK, &error) : value;
}

static PyObject *
plain_describe(PyObject *module, PyObject *payload) {
    hf_source source = {.payload = PyBytes_AS_STRING(payload),
                        .payload_size = (size_t)PyBytes_GET_SIZE(payload)};
    char text[128];

    (void)module;
    hf_codec_describe(HF_CODEC_PLAIN, &source, text, sizeof text);
    return PyUnicode_FromString(text);
}

static PyObject *
plain_accepts(PyObject *module, PyObject *value) {
    (void)module;
    return PyBool_FromLong(hfi_codec_plain.accepts(&hfi_codec_plain, value));
}

static PyMethodDef methods[] = {
    {"dumps", plain_dumps, METH_O, NULL},
    {"loads", plain_loads, METH_O, NULL},
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
