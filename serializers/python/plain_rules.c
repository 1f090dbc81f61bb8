/* plain_rules.c - rules that hold for both directions of the plain codec.
 *
 * Which objects are atoms? Which of them exist once in CPython? Which keys may be
 * hashed? What does the meta of an encoding say? The encoder must decline every value
 * that the decoder would refuse, so both ask here.
 */
#include "plain.h"

#include "imported.h"

enum {
    HASH_DEPTH_MAX = 500, /* each level is a frame of tuple's hash on the C stack */
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
    PyObject *context = hfi_imported("holdfast.carry.context");
    PyObject *namespace =
        context ? PyObject_CallMethod(context, "current_namespace", NULL) : NULL;
    Py_XDECREF(context);
    return namespace;
}

int
hfi_plain_looks_back(const void *meta, size_t size) {
    const unsigned char *bytes = meta;

    return size == HFI_PLAIN_META_SIZE && bytes[1] & HFI_PLAIN_LOOKS_BACK;
}

int
hfi_plain_is_canonical(const void *meta, size_t size) {
    const unsigned char *bytes = meta;

    return size == HFI_PLAIN_META_SIZE && bytes[0] == HFI_PLAIN_FORMAT &&
           !(bytes[1] & HFI_PLAIN_UNORDERED);
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
