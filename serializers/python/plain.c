/* plain.c - the plain codec: Python's built-in data, without pickling.
 *
 * It carries None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict,
 * set, frozenset, range, slice, Ellipsis, NotImplemented and nests of them, by exact
 * type: an instance of a subclass is declined, and pickle takes it. Identity inside one
 * encoding is kept for containers, strings, bytes and NaNs; other numbers travel by
 * value, as in pickle. The format is written down in codecs/plain_format.h, and what
 * makes an encoding canonical: nothing in it may depend on reference counts, on caches
 * of the process, or on objects outside of the value.
 *
 * No Python code runs here in either direction: exact built-in types hash and compare
 * in C, and the cyclic collector, whose finalizers could run anything and change what
 * is being walked, is off meanwhile. That is also the largest single saving when a
 * million containers are built. The GIL is held throughout, so nobody sees the
 * collector off.
 *
 * A value is packed whole before it goes to the sink: a sink must not see the first
 * half of a value that is then declined. A large one is given to the sink, not copied:
 * what encoding needs beside the payload is the memo of what is shared.
 */
#include "plain.h"

#include "codecs/describe.h"
#include "codecs/plain_format.h"
#include "imported.h"

enum {
    SMALL_SIZE = 512,     /* payloads up to which nothing is allocated */
    HASH_DEPTH_MAX = 500, /* each level is a frame of tuple's hash on the C stack */
    CONSUME_SIZE = 65536, /* payloads from which giving the block beats copying it */
    HASH_STEPS_MAX = 16 << 20, /* against tuples of tuples that share: 2^depth steps */
};

int
hfi_plain_is_atom(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);

    return object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented ||
           type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type ||
           type == &PyComplex_Type || type == &PyUnicode_Type || type == &PyBytes_Type;
}

int
hfi_plain_is_singleton(PyObject *text) {
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);

    return length == 0 || (length == 1 && PyUnicode_READ_CHAR(text, 0) <= 0xff);
}

static int
hashable_walk(PyObject *key, int depth, long *steps) {
    if (!PyTuple_CheckExact(key))
        return 1;
    if (depth > HASH_DEPTH_MAX)
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
        PyObject *item = PyTuple_GET_ITEM(key, i);
        if (!item || ++*steps > HASH_STEPS_MAX ||
            !hashable_walk(item, depth + 1, steps))
            return 0;
    }
    return 1;
}

int
hfi_plain_hashable(PyObject *key) {
    long steps = 0;

    return hashable_walk(key, 0, &steps);
}

PyObject *
hfi_plain_namespace(void) {
    PyObject *context = hfi_imported("holdfast._context");
    PyObject *namespace =
        context ? PyObject_CallMethod(context, "current_namespace", NULL) : NULL;
    Py_XDECREF(context);
    return namespace;
}

/* A top-level bytearray belongs to the buffer codec; inside nests it is carried here.
 */
static int
plain_accepts(const hf_codec *codec, void *value) {
    PyObject *object = value;
    PyTypeObject *type = Py_TYPE(object);

    (void)codec;
    return type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type ||
           type == &PySet_Type || type == &PyFrozenSet_Type || type == &PyRange_Type ||
           type == &PySlice_Type || hfi_plain_is_atom(object);
}

int
hfi_plain_is_canonical(const void *meta, size_t size) {
    const unsigned char *bytes = meta;

    return size == HFI_PLAIN_META_SIZE && bytes[0] == HFI_PLAIN_FORMAT &&
           !(bytes[1] & HFI_PLAIN_UNORDERED);
}

int
hfi_plain_looks_back(const void *meta, size_t size) {
    const unsigned char *bytes = meta;

    return size == HFI_PLAIN_META_SIZE && bytes[1] & HFI_PLAIN_LOOKS_BACK;
}

hf_status
hfi_plain_check_meta(const unsigned char *meta, size_t size, hf_error *reterr) {
    if (size == 0)
        return hf_error_set(reterr, HF_E_CORRUPT, "plain: no meta");
    if (meta[0] != HFI_PLAIN_FORMAT)
        return hf_error_set(reterr, HF_E_VERSION, "plain: format %u is not known here",
                            meta[0]);
    if (size != HFI_PLAIN_META_SIZE || meta[1] & ~HFI_PLAIN_FLAGS)
        return hf_error_set(reterr, HF_E_CORRUPT, "plain: a wrong meta");
    return HF_OK;
}

static hf_status
plain_encode(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    unsigned char meta[HFI_PLAIN_META_SIZE] = {HFI_PLAIN_FORMAT};
    /* Atoms make nothing that the collector knows. */
    int collecting = !hfi_plain_is_atom(value) && PyGC_Disable();
    unsigned flags = 0;
    unsigned char small[SMALL_SIZE];
    hfi_packer packer;
    hf_status status;

    (void)codec;
    hfi_packer_init_in(&packer, small, sizeof small);
    status = hfi_plain_encode(value, &packer, &flags, reterr);
    meta[1] = (unsigned char)flags;
    if (collecting)
        PyGC_Enable();
    if (!status)
        status = sink->set_meta(sink, meta, sizeof meta, reterr);
    if (!status && sink->write_consume && packer.size >= CONSUME_SIZE) {
        status = sink->write_consume(sink, packer.data, packer.size, reterr);
        packer.data = NULL;
    } else if (!status) {
        status = sink->write(sink, packer.data, packer.size, reterr);
    }
    hfi_packer_fini(&packer);
    return status;
}

static hf_status
plain_decode(const hf_codec *codec, hf_source *source, void **ret_value,
             hf_error *reterr) {
    const unsigned char *meta = source->meta;
    PyObject *value = NULL;
    int collecting;
    hf_status status;

    (void)codec;
    status = hfi_plain_check_meta(meta, source->meta_size, reterr);
    if (status)
        return status;
    collecting = PyGC_Disable();
    status = hfi_plain_decode(source->payload, source->payload_size, meta[1], &value,
                              reterr);
    if (collecting)
        PyGC_Enable();
    if (!status)
        *ret_value = value;
    return status;
}

const hf_codec hfi_codec_plain = {
    .struct_size = sizeof(hf_codec),
    .number = HF_CODEC_PLAIN,
    .name = "plain",
    .order = 200,
    .accepts = plain_accepts,
    .encode = plain_encode,
    .decode = plain_decode,
    .describe = hfi_describe_plain,
};
