/* samples.c - a type in C, and its codec for Holdfast.
 *
 * A Series is a number of floats in memory that it allocated, or that another object
 * keeps. The codec hands that memory over as a buffer, with the Series itself as the
 * pin that keeps it valid; the number of floats is the payload. When it is decoded, the
 * buffer is mapped, and the pin that comes with it is kept for as long as the Series
 * lives. Nothing else is needed: the store shares, privatizes and writes pages.
 *
 * Nothing of libholdfast is linked: a codec gets its functions with the sink and the
 * source.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <holdfast/codec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct series {
    PyObject_HEAD double *data;
    Py_ssize_t count;
    PyObject *pin; /* keeps `data`; NULL if it is our own */
} series;

static PyTypeObject series_type;

static PyObject *
series_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"count", NULL};
    Py_ssize_t count;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "n:Series", words, &count))
        return NULL;
    if (count < 1 || count > PY_SSIZE_T_MAX / 8)
        return PyErr_Format(PyExc_ValueError, "a Series of %zd samples", count);
    series *self = (series *)(void *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->count = count;
    self->data = calloc((size_t)count, sizeof *self->data);
    if (self->data == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void
series_dealloc(PyObject *object) {
    series *self = (series *)(void *)object;
    if (self->pin == NULL)
        free(self->data);
    Py_XDECREF(self->pin);
    Py_TYPE(object)->tp_free(object);
}

static Py_ssize_t
series_length(PyObject *object) {
    return ((series *)(void *)object)->count;
}

static PyObject *
series_item(PyObject *object, Py_ssize_t index) {
    series *self = (series *)(void *)object;
    if (index < 0 || index >= self->count)
        return PyErr_Format(PyExc_IndexError, "there are %zd samples", self->count);
    return PyFloat_FromDouble(self->data[index]);
}

static int
series_set_item(PyObject *object, Py_ssize_t index, PyObject *value) {
    series *self = (series *)(void *)object;
    double number = value != NULL ? PyFloat_AsDouble(value) : 0;
    if (PyErr_Occurred())
        return -1;
    if (value == NULL || index < 0 || index >= self->count) {
        PyErr_Format(PyExc_IndexError, "there are %zd samples", self->count);
        return -1;
    }
    self->data[index] = number;
    return 0;
}

static PySequenceMethods series_as_sequence = {
    .sq_length = series_length, .sq_item = series_item, .sq_ass_item = series_set_item};

static PyTypeObject series_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "samples.Series",
    .tp_basicsize = sizeof(series),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Series(count): floats, all 0.",
    .tp_new = series_new,
    .tp_dealloc = series_dealloc,
    .tp_as_sequence = &series_as_sequence,
};

/* ---- the codec ------------------------------------------------------------------- */

/* {"type": "samples.Series"} in msgpack: what a listing of the store shows. */
static const char meta[] = "\x81\xa4type\xaesamples.Series";

static hf_status
fail(hf_error *reterr, hf_status status, const char *text) {
    if (reterr != NULL) {
        reterr->status = status;
        snprintf(reterr->message, sizeof reterr->message, "%s", text);
    }
    return status;
}

static int
codec_accepts(const hf_codec *codec, void *value) {
    (void)codec;
    return Py_TYPE((PyObject *)value) == &series_type;
}

static hf_status
codec_encode(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    (void)codec;
    series *self = value;
    struct {
        uint64_t count, index, offset;
    } payload = {(uint64_t)self->count, 0, 0};
    uint32_t index = 0;
    hf_status status = sink->set_meta(sink, meta, sizeof meta - 1, reterr);
    if (status == HF_OK)
        status =
            sink->add_buffer(sink, self->data, (size_t)self->count * sizeof *self->data,
                             self, &index, &payload.offset, reterr);
    payload.index = index;
    if (status == HF_OK)
        status = sink->write(sink, &payload, sizeof payload, reterr);
    return status;
}

static hf_status
codec_decode(const hf_codec *codec, hf_source *source, void **ret_value,
             hf_error *reterr) {
    (void)codec;
    struct {
        uint64_t count, index, offset;
    } payload;
    void *data, *pin;
    size_t size = 0;
    if (source->payload_size != sizeof payload)
        return fail(reterr, HF_E_CORRUPT, "a Series whose payload lies");
    memcpy(&payload, source->payload, sizeof payload);
    if (payload.index >= source->buffer_count)
        return fail(reterr, HF_E_CORRUPT, "a Series without its buffer");
    hf_status status =
        source->map_buffer(source, (uint32_t)payload.index, &data, &size, &pin, reterr);
    if (status != HF_OK)
        return status;
    series *self = NULL;
    if (payload.offset > size || payload.offset % sizeof(double) != 0 ||
        payload.count > (size - payload.offset) / sizeof(double))
        status = fail(reterr, HF_E_CORRUPT, "a Series that is longer than its buffer");
    else if ((self = (series *)(void *)series_type.tp_alloc(&series_type, 0)) == NULL)
        status = fail(reterr, HF_E_NOMEM, "no memory for a Series");
    if (status != HF_OK) {
        Py_DECREF((PyObject *)pin);
        return status;
    }
    self->data = (double *)(void *)((char *)data + payload.offset);
    self->count = (Py_ssize_t)payload.count;
    self->pin = pin;
    *ret_value = self;
    return HF_OK;
}

static const hf_codec codec = {
    .struct_size = sizeof codec,
    .number = 4096,
    .name = "samples",
    .order = 500, /* before pickle, which is asked at 900 */
    .accepts = codec_accepts,
    .encode = codec_encode,
    .decode = codec_decode,
};

/* ---- the module ------------------------------------------------------------------ */

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "samples",
                                        .m_size = -1};

PyMODINIT_FUNC PyInit_samples(void);

PyMODINIT_FUNC
PyInit_samples(void) {
    PyObject *module =
        PyType_Ready(&series_type) < 0 ? NULL : PyModule_Create(&definition);
    PyObject *capsule = module != NULL ? PyCapsule_New((void *)(uintptr_t)&codec,
                                                       "holdfast.codec", NULL)
                                       : NULL;
    if (capsule == NULL || PyModule_AddObjectRef(module, "codec", capsule) < 0 ||
        PyModule_AddObjectRef(module, "Series", (PyObject *)&series_type) < 0)
        Py_CLEAR(module);
    Py_XDECREF(capsule);
    return module;
}
