/* json_text.c - JSON with long texts in it, for what a cell shows.
 *
 * A picture or an interactive plot is a text of megabytes in a message. The json module
 * looks at each character twice and copies them one by one. That took longer than all
 * else on the way to the client. Here eight bytes are looked at together, and the bytes
 * between two that need an escape are copied at once, to their place in the message.
 *
 * The result is that of json.dumps(text, ensure_ascii=False), in UTF-8: only the quote,
 * the backslash and control characters are escaped. A lone surrogate has no UTF-8, and
 * raises UnicodeEncodeError, as in Python.
 */
#include "module_functions.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Nonzero if one of eight bytes is zero. */
static uint64_t
with_zero(uint64_t word) {
    return (word - EACH(1)) & ~word & EACH(0x80);
}

/* The first byte that needs an escape, or the end. */
static const char *
find_special(const char *at, const char *end) {
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        if (((word - EACH(0x20)) & ~word & EACH(0x80)) | with_zero(word ^ EACH('"')) |
            with_zero(word ^ EACH('\\')))
            break;
    }
    while (at < end && !hfi_json_must_escape((unsigned char)*at))
        at++;
    return at;
}

static Py_ssize_t
escaped_size(const char *data, Py_ssize_t size) {
    const char *end = data + size;
    char ignored[HFI_JSON_ESCAPE_MAX];
    Py_ssize_t total = size + 2;
    for (const char *at = find_special(data, end); at < end;
         at = find_special(at + 1, end))
        total += (Py_ssize_t)hfi_json_escape((unsigned char)*at, ignored) - 1;
    return total;
}

/* Returns the place behind it. */
static char *
write_escaped(char *to, const char *data, Py_ssize_t size) {
    const char *end = data + size;
    *to++ = '"';
    for (const char *at = data;;) {
        const char *next = find_special(at, end);
        memcpy(to, at, (size_t)(next - at));
        to += next - at;
        if (next == end)
            break;
        to += hfi_json_escape((unsigned char)*next, to);
        at = next + 1;
    }
    *to++ = '"';
    return to;
}

/* The text itself if it is ASCII, else its UTF-8. Not PyUnicode_AsUTF8, which would keep
 * that for the text's life. */
static PyObject *
encode_text(PyObject *text) {
    if (!PyUnicode_Check(text))
        return PyErr_Format(PyExc_TypeError, "a str, not %R",
                            (PyObject *)Py_TYPE(text));
    if (PyUnicode_GET_LENGTH(text) > PY_SSIZE_T_MAX / 2 / HFI_JSON_ESCAPE_MAX)
        return PyErr_NoMemory();
    return PyUnicode_IS_COMPACT_ASCII(text) ? Py_NewRef(text)
                                            : PyUnicode_AsUTF8String(text);
}

static const char *
encoded_data(PyObject *encoded, Py_ssize_t *ret_size) {
    bool is_text = PyUnicode_Check(encoded);
    *ret_size = is_text ? PyUnicode_GET_LENGTH(encoded) : PyBytes_GET_SIZE(encoded);
    return is_text ? PyUnicode_DATA(encoded) : PyBytes_AS_STRING(encoded);
}

/* The texts in a new tuple, and how many bytes they and the parts have as JSON; NULL with
 * an exception. */
static PyObject *
encode_texts(PyObject *parts, PyObject *texts, Py_ssize_t *ret_total) {
    Py_ssize_t count = PyList_GET_SIZE(texts), size;
    PyObject *encoded = PyTuple_New(count);
    *ret_total = 0;
    for (Py_ssize_t i = 0; encoded && i <= count; i++)
        *ret_total += PyBytes_GET_SIZE(PyList_GET_ITEM(parts, i));
    for (Py_ssize_t i = 0; encoded && i < count; i++) {
        PyObject *text = encode_text(PyList_GET_ITEM(texts, i));
        if (!text) {
            Py_CLEAR(encoded);
            break;
        }
        PyTuple_SET_ITEM(encoded, i, text);
        const char *data = encoded_data(text, &size);
        *ret_total += escaped_size(data, size);
    }
    return encoded;
}

static PyObject *
json_join(PyObject *module, PyObject *args) {
    PyObject *parts, *texts;
    Py_ssize_t total, size;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!:_json_join", &PyList_Type, &parts, &PyList_Type,
                          &texts))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(texts);
    bool fits = PyList_GET_SIZE(parts) == count + 1;
    for (Py_ssize_t i = 0; fits && i <= count; i++)
        fits = PyBytes_Check(PyList_GET_ITEM(parts, i));
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "bytes before and after each text");
    PyObject *encoded = encode_texts(parts, texts, &total);
    PyObject *result = encoded ? PyBytes_FromStringAndSize(NULL, total) : NULL;
    char *to = result ? PyBytes_AS_STRING(result) : NULL;
    for (Py_ssize_t i = 0; to && i <= count; i++) {
        PyObject *part = PyList_GET_ITEM(parts, i);
        memcpy(to, PyBytes_AS_STRING(part), (size_t)PyBytes_GET_SIZE(part));
        to += PyBytes_GET_SIZE(part);
        if (i == count)
            break;
        const char *data = encoded_data(PyTuple_GET_ITEM(encoded, i), &size);
        to = write_escaped(to, data, size);
    }
    Py_XDECREF(encoded);
    return result;
}

PyMethodDef hfi_json_text_functions[] = {
    {"_json_join", json_join, METH_VARARGS,
     "_json_join(parts, texts): the parts, which are bytes, with each text between two "
     "of them as a string of JSON in UTF-8."},
    {NULL, NULL, 0, NULL}};
