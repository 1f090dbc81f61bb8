/* json_text.c - a long str as a string of JSON, for what a cell shows.
 *
 * A picture or an interactive plot is a text of megabytes in a message. The json module
 * looks at each character twice and copies them one by one. That took longer than all
 * else on the way to the client. Here eight bytes are looked at together, and the bytes
 * between two that need an escape are copied at once.
 *
 * The result is that of json.dumps(text, ensure_ascii=False), in UTF-8: only the quote,
 * the backslash and control characters are escaped. A lone surrogate has no UTF-8, and
 * raises UnicodeEncodeError, as in Python.
 */
#include "module_functions.h"

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

static void
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
    *to = '"';
}

static PyObject *
json_text(PyObject *module, PyObject *text) {
    (void)module;
    PyObject *encoded = NULL;
    const char *data;
    Py_ssize_t size;
    if (!PyUnicode_Check(text))
        return PyErr_Format(PyExc_TypeError, "a str, not %R",
                            (PyObject *)Py_TYPE(text));
    if (PyUnicode_IS_COMPACT_ASCII(text)) {
        data = PyUnicode_DATA(text);
        size = PyUnicode_GET_LENGTH(text);
    } else { /* not PyUnicode_AsUTF8, which would keep it for the text's life */
        encoded = PyUnicode_AsUTF8String(text);
        if (encoded == NULL)
            return NULL;
        data = PyBytes_AS_STRING(encoded);
        size = PyBytes_GET_SIZE(encoded);
    }
    PyObject *result = size > PY_SSIZE_T_MAX / HFI_JSON_ESCAPE_MAX - 2
                           ? PyErr_NoMemory()
                           : PyBytes_FromStringAndSize(NULL, escaped_size(data, size));
    if (result != NULL)
        write_escaped(PyBytes_AS_STRING(result), data, size);
    Py_XDECREF(encoded);
    return result;
}

PyMethodDef hfi_json_text_functions[] = {
    {"_json_text", json_text, METH_O,
     "_json_text(text): as a string of JSON, in UTF-8."},
    {NULL, NULL, 0, NULL}};
