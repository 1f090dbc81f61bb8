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
 * A value is packed completely before it goes to the sink: a sink must not get the
 * first half of a value that is then declined. A large block is given to the sink, and
 * not copied. So encoding needs memory only for the payload, and for the memo of shared
 * objects.
 */
#include "plain.h"

#include "codecs/describe.h"
#include "codecs/plain_format.h"

enum {
    SMALL_SIZE = 512, /* smaller payloads need no allocation */
    CONSUME_SIZE =
        65536, /* from this size on it is faster to give the block than to copy it */
};

/* A top-level bytearray belongs to the buffer codec; inside nests it is carried
 * here. */
static int
plain_accepts(const hf_codec *codec, void *value) {
    PyObject *object = value;
    PyTypeObject *type = Py_TYPE(object);

    (void)codec;
    return type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type ||
           type == &PySet_Type || type == &PyFrozenSet_Type || type == &PyRange_Type ||
           type == &PySlice_Type || hfi_plain_is_atom(object);
}

static hf_status
plain_encode(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    unsigned char meta[HFI_PLAIN_META_SIZE] = {HFI_PLAIN_FORMAT};
    /* Atoms make no object that the collector knows. */
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
