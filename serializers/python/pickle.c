/* pickle.c - the codec of everything that pickle and cloudpickle can carry.
 *
 * The pickler itself is holdfast.carry.pickling: a subclass of cloudpickle's, hence of the C
 * pickler, with rules of its own for arrays, functions and classes of the notebook (its
 * docstring gives them). This file is the bridge: it hands that module a callable that
 * adds out-of-band memory to the sink, and lays the result out.
 *
 * Payload:   u32 magic, u32 part count, per part u64 buffer index, offset and size,
 * then the pickle; the magic says whether reading that runs code of the user's own
 * (holdfast.carry.trial). A part is one out-of-band buffer in the order of the pickle;
 * several may lie in one buffer of the entry (views, columns of one block), which is
 * why a list of buffers alone would not do. Meta: "type", and "classes": the
 * identifiers of notebook classes that are referred to, so that nobody needs to
 * unpickle to know what keeps them alive.
 *
 * Numbers are of the machine's byte order: the arena never leaves it, and the
 * marshaller's stream says its order in its head.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "base/unpacker.h"
#include "imported.h"
#include "meta.h"
#include "python_codecs.h"
#include "python_error.h"

enum {
    PICKLE_MAGIC = 0x314b4850, /* "PHK1" */
    HOOKED_MAGIC = 0x324b4850, /* "PHK2": reading it runs code of the user's own */
    LENT_MAGIC = 0x334b4850, /* "PHK3": reading it copies what another process lends */
};

enum { OWN_PAIRS = 2 }; /* of the meta, before what it says of a table */

typedef struct part {
    uint64_t index;
    uint64_t offset;
    uint64_t size;
} part;

typedef struct head {
    uint32_t magic;
    uint32_t part_count;
} head;

static const char sink_capsule[] = "holdfast.sink";

/* add_buffer(object) -> (index, offset, size): memory that must be contiguous. */
static PyObject *
add_buffer(PyObject *capsule, PyObject *object) {
    hf_sink *sink = PyCapsule_GetPointer(capsule, sink_capsule);
    PyObject *view = sink ? PyMemoryView_FromObject(object) : NULL;
    if (!view)
        return NULL;
    Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
    PyObject *result = NULL;
    uint32_t index = 0;
    uint64_t offset = 0;
    hf_error error = HF_ERROR_INIT;
    if (!PyBuffer_IsContiguous(buffer, 'A'))
        PyErr_SetString(PyExc_BufferError, "memory that is not contiguous");
    else if (sink->add_buffer(sink, buffer->buf, (size_t)buffer->len, view, &index,
                              &offset, &error) != HF_OK)
        PyErr_SetString(PyExc_MemoryError, error.message);
    else
        result = Py_BuildValue("IKn", index, (unsigned long long)offset, buffer->len);
    Py_DECREF(view);
    return result;
}

static PyMethodDef add_buffer_method = {"add_buffer", add_buffer, METH_O, NULL};

static int
pickle_accepts(const hf_codec *codec, void *value) {
    (void)codec;
    (void)value;
    return 1;
}

static hf_status
set_meta(PyObject *value, PyObject *classes, hf_sink *sink, hf_error *reterr) {
    const char *type = Py_TYPE(value)->tp_name;
    hf_status status = HF_OK;
    hfi_meta_writer meta;
    hfi_meta_writer_init(&meta, OWN_PAIRS);
    hfi_meta_put_text(&meta, "type", type, strlen(type));
    hfi_meta_put_key(&meta, "classes");
    msgpack_pack_array(&meta.packer, (size_t)PyTuple_GET_SIZE(classes));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++) {
        Py_ssize_t size = 0;
        const char *text = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(classes, i), &size);
        if (!text)
            status = hfi_error_from_python(HF_DECLINED, reterr);
        msgpack_pack_str(&meta.packer, (size_t)size);
        msgpack_pack_str_body(&meta.packer, text, (size_t)size);
    }
    hf_status given = hfi_meta_writer_finish(&meta, sink, reterr);
    return status ? status : given;
}

static hf_status
write_pickle_parts(PyObject *parts, uint32_t magic, hf_sink *sink, hf_error *reterr) {
    Py_ssize_t count = PyList_GET_SIZE(parts);
    head start = {magic, (uint32_t)count};
    hf_status status = sink->write(sink, &start, sizeof start, reterr);
    for (Py_ssize_t i = 0; i < count && status == HF_OK; i++) {
        unsigned long long index, offset, size;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(parts, i), "KKK", &index, &offset, &size))
            return hfi_error_from_python(HF_E_CODEC, reterr);
        part entry = {index, offset, size};
        status = sink->write(sink, &entry, sizeof entry, reterr);
    }
    return status;
}

static hf_status
pickle_encode(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    (void)codec;
    PyObject *carry = hfi_imported("holdfast.carry.pickling");
    PyObject *capsule = carry ? PyCapsule_New(sink, sink_capsule, NULL) : NULL;
    PyObject *adder = capsule ? PyCFunction_New(&add_buffer_method, capsule) : NULL;
    PyObject *result =
        adder ? PyObject_CallMethod(carry, "write", "OO", value, adder) : NULL;
    PyObject *bytes, *parts, *classes;
    hf_status status;
    Py_buffer buffer;
    int is_hooked, is_lent;
    if (!result ||
        !PyArg_ParseTuple(result, "OO!O!pp", &bytes, &PyList_Type, &parts,
                          &PyTuple_Type, &classes, &is_hooked, &is_lent) ||
        PyObject_GetBuffer(bytes, &buffer, PyBUF_SIMPLE) < 0) {
        status = hfi_error_from_python(HF_DECLINED, reterr);
    } else {
        uint32_t magic = is_hooked ? HOOKED_MAGIC : is_lent ? LENT_MAGIC : PICKLE_MAGIC;
        status = write_pickle_parts(parts, magic, sink, reterr);
        if (status == HF_OK)
            status = sink->write(sink, buffer.buf, (size_t)buffer.len, reterr);
        if (status == HF_OK)
            status = set_meta(value, classes, sink, reterr);
        PyBuffer_Release(&buffer);
    }
    Py_XDECREF(result);
    Py_XDECREF(adder);
    Py_XDECREF(capsule);
    Py_XDECREF(carry);
    return status;
}

/* One out-of-band buffer: a slice of the mapped memory. */
static PyObject *
part_open(hf_source *source, const part *entry, hf_error *reterr) {
    void *data, *pin;
    size_t size = 0;
    if (entry->index >= source->buffer_count)
        return PyErr_Format(PyExc_ValueError,
                            "a part refers to a buffer that isn't there");
    if (source->map_buffer(source, (uint32_t)entry->index, &data, &size, &pin,
                           reterr) != HF_OK)
        return PyErr_Format(PyExc_OSError, "a buffer can't be mapped: %s",
                            reterr ? reterr->message : "");
    PyObject *whole = NULL, *result = NULL;
    if (entry->offset > size || entry->size > size - entry->offset)
        PyErr_SetString(PyExc_ValueError, "a part reaches out of its buffer");
    else if (entry->offset == 0 && entry->size == size)
        result = Py_NewRef((PyObject *)pin);
    else if ((whole = PyMemoryView_FromObject(pin)))
        result = PySequence_GetSlice(whole, (Py_ssize_t)entry->offset,
                                     (Py_ssize_t)(entry->offset + entry->size));
    Py_XDECREF(whole);
    Py_DECREF((PyObject *)pin);
    return result;
}

int
hfi_pickle_payload_has_effects(const void *payload, size_t size) {
    head start;
    if (size < sizeof start)
        return 0;
    memcpy(&start, payload, sizeof start);
    return start.magic != PICKLE_MAGIC;
}

static hf_status
pickle_decode(const hf_codec *codec, hf_source *source, void **ret_value,
              hf_error *reterr) {
    (void)codec;
    head start;
    if (source->payload_size < sizeof start)
        return hf_error_set(reterr, HF_E_CORRUPT, "a pickle without its head");
    memcpy(&start, source->payload, sizeof start);
    size_t room = source->payload_size - sizeof start;
    int is_hooked = start.magic == HOOKED_MAGIC;
    if ((start.magic != PICKLE_MAGIC && start.magic != LENT_MAGIC && !is_hooked) ||
        start.part_count > room / sizeof(part))
        return hf_error_set(reterr, HF_E_CORRUPT, "a pickle whose head lies");
    const char *at = (const char *)source->payload + sizeof start;
    PyObject *parts = PyList_New(0);
    for (uint32_t i = 0; parts && i < start.part_count; i++, at += sizeof(part)) {
        part entry;
        memcpy(&entry, at, sizeof entry);
        PyObject *buffer = part_open(source, &entry, reterr);
        if (!buffer || PyList_Append(parts, buffer) < 0)
            Py_CLEAR(parts);
        Py_XDECREF(buffer);
    }
    room -= start.part_count * sizeof(part);
    PyObject *bytes = parts ? PyMemoryView_FromMemory((char *)(uintptr_t)at,
                                                      (Py_ssize_t)room, PyBUF_READ)
                            : NULL;
    PyObject *carry = bytes ? hfi_imported("holdfast.carry.pickling") : NULL;
    PyObject *value =
        carry ? PyObject_CallMethod(carry, "decode", "OOi", bytes, parts, is_hooked)
              : NULL;
    hf_status status = HF_OK;
    if (value)
        *ret_value = value;
    else
        status = hfi_error_from_python(HF_E_CODEC, reterr);
    Py_XDECREF(carry);
    Py_XDECREF(bytes);
    Py_XDECREF(parts);
    return status;
}

/* How many bytes the first pairs of a map have, behind its head: those that every
 * pickle's meta has. 0 if it is none. */
static size_t
own_pairs(const unsigned char *meta, size_t size) {
    hfi_unpacker at;
    hfi_item map;
    hfi_unpacker_init(&at, meta, size);
    if (hfi_unpacker_next(&at, &map) != HF_OK || map.kind != HFI_ITEM_MAP ||
        map.size < OWN_PAIRS || at.at != meta + 1)
        return 0;
    for (int i = 0; i < 2 * OWN_PAIRS; i++)
        if (hfi_unpacker_skip(&at, 2) != HF_OK)
            return 0;
    return (size_t)(at.at - meta) - 1;
}

int
hfi_pickle_meta_same(const void *one, size_t one_size, const void *other,
                     size_t other_size) {
    size_t mine = own_pairs(one, one_size), others = own_pairs(other, other_size);
    return mine && mine == others &&
           memcmp((const char *)one + 1, (const char *)other + 1, mine) == 0;
}

int
hfi_pickle_payload_same(const void *one, size_t one_size, const void *other,
                        size_t other_size) {
    head mine, others;
    if (one_size < sizeof mine || other_size < sizeof others)
        return 0;
    memcpy(&mine, one, sizeof mine);
    memcpy(&others, other, sizeof others);
    size_t before = sizeof mine + mine.part_count * sizeof(part);
    if (mine.magic != others.magic || mine.part_count != others.part_count ||
        before > one_size || before > other_size || memcmp(one, other, before) != 0)
        return 0;
    return hfi_pickle_same((const char *)one + before, one_size - before,
                           (const char *)other + before, other_size - before);
}

const hf_codec hfi_codec_pickle = {
    .struct_size = sizeof(hf_codec),
    .number = HF_CODEC_PICKLE,
    .name = "pickle",
    .order = 900,
    .accepts = pickle_accepts,
    .encode = pickle_encode,
    .decode = pickle_decode,
};
