/* foreign.c - entries that programs in other languages put: bytes, and msgpack.
 *
 * These codecs only decode. Python values are encoded by Python's own codecs, which
 * keep more: identity, exact types, sets. A value that was read here and not changed
 * keeps its foreign entry at a commit (bindings/store/names_stored.c).
 *
 * A raw entry becomes bytes: its payload, then its buffers in their order, since a
 * program may use either. Its meta belongs to the program that wrote it.
 *
 * The msgpack package reads an entry of msgpack. Its rules are the known ones: arrays
 * are lists, extensions are msgpack.ExtType, times msgpack.Timestamp, and a key that
 * Python can't hash is an error.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "imported.h"
#include "python_codecs.h"
#include "python_error.h"

static int
accepts_nothing(const hf_codec *codec, void *value) {
    (void)codec, (void)value;
    return 0;
}

static hf_status
encodes_nothing(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    (void)value, (void)sink;
    return hf_error_set(reterr, HF_DECLINED, "codec %s only decodes", codec->name);
}

/* Copy all buffers, one after the other. If `to` is NULL, only return their size. */
static hf_status
copy_buffers(hf_source *source, char *to, size_t *ret_size, hf_error *reterr) {
    size_t total = 0;
    for (uint32_t i = 0; i < source->buffer_count; i++) {
        void *data, *pin;
        size_t size;
        hf_status status = source->map_buffer(source, i, &data, &size, &pin, reterr);
        if (status != HF_OK)
            return status;
        if (to)
            memcpy(to + total, data, size);
        total += size;
        Py_DECREF((PyObject *)pin);
    }
    *ret_size = total;
    return HF_OK;
}

static hf_status
raw_decode(const hf_codec *codec, hf_source *source, void **ret_value,
           hf_error *reterr) {
    size_t size;
    (void)codec;
    hf_status status = copy_buffers(source, NULL, &size, reterr);
    if (status != HF_OK)
        return status;
    PyObject *bytes =
        PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(source->payload_size + size));
    if (!bytes)
        return hfi_error_from_python(HF_E_NOMEM, reterr);
    char *to = PyBytes_AS_STRING(bytes);
    if (source->payload_size)
        memcpy(to, source->payload, source->payload_size);
    status = copy_buffers(source, to + source->payload_size, &size, reterr);
    if (status == HF_OK)
        *ret_value = bytes;
    else
        Py_DECREF(bytes);
    return status;
}

/* unpackb(payload, strict_map_key=False): any key that Python can hash. */
static PyObject *
unpack_payload(PyObject *module, const hf_source *source) {
    PyObject *function = PyObject_GetAttrString(module, "unpackb");
    PyObject *arguments = Py_BuildValue("(y#)", source->payload ? source->payload : "",
                                        (Py_ssize_t)source->payload_size);
    PyObject *options = Py_BuildValue("{s:O}", "strict_map_key", Py_False);
    PyObject *value = function && arguments && options
                          ? PyObject_Call(function, arguments, options)
                          : NULL;
    Py_XDECREF(function);
    Py_XDECREF(arguments);
    Py_XDECREF(options);
    return value;
}

static hf_status
msgpack_decode(const hf_codec *codec, hf_source *source, void **ret_value,
               hf_error *reterr) {
    (void)codec;
    if (source->buffer_count)
        return hf_error_set(reterr, HF_E_CODEC, "a value of msgpack has no buffers");
    PyObject *module = hfi_imported("msgpack");
    PyObject *value = module ? unpack_payload(module, source) : NULL;
    Py_XDECREF(module);
    if (!value)
        return hfi_error_from_python(HF_E_CODEC, reterr);
    *ret_value = value;
    return HF_OK;
}

const hf_codec hfi_codec_raw = {
    .struct_size = sizeof(hf_codec),
    .number = HF_CODEC_RAW,
    .name = "raw",
    .order = 1000,
    .accepts = accepts_nothing,
    .encode = encodes_nothing,
    .decode = raw_decode,
};

const hf_codec hfi_codec_msgpack = {
    .struct_size = sizeof(hf_codec),
    .number = HF_CODEC_MSGPACK,
    .name = "msgpack",
    .order = 1001,
    .accepts = accepts_nothing,
    .encode = encodes_nothing,
    .decode = msgpack_decode,
};
