/* plain_floor.c - the least that the C API lets an encoding of these values cost.
 *
 * No types, no identity, no checks, exact sizes known: {str: int} and [(int, str)] with
 * ASCII texts are written as (u32 length, text, i64) records, and read by the shortest
 * calls that the C API has. What bench/plain_codec.py shows beside it is the price of a
 * format. Built by that program; no part of Holdfast.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

static char *
put(char *at, PyObject *text, PyObject *number) {
    uint32_t size = (uint32_t)PyUnicode_GET_LENGTH(text);
    int64_t value = PyLong_AsLongLong(number);

    memcpy(at, &size, 4);
    memcpy(at + 4, PyUnicode_DATA(text), size);
    memcpy(at + 4 + size, &value, 8);
    return at + 12 + size;
}

/* dumps(value, room): `room` bytes are enough. */
static PyObject *
floor_dumps(PyObject *module, PyObject *args) {
    PyObject *value, *key, *item, *bytes;
    Py_ssize_t room, position = 0;
    char *at;

    (void)module;
    if (!PyArg_ParseTuple(args, "On", &value, &room) ||
        !(bytes = PyBytes_FromStringAndSize(NULL, room)))
        return NULL;
    at = PyBytes_AS_STRING(bytes);
    if (PyDict_CheckExact(value)) {
        while (PyDict_Next(value, &position, &key, &item))
            at = put(at, key, item);
    } else {
        for (; position < PyList_GET_SIZE(value); position++) {
            item = PyList_GET_ITEM(value, position);
            at = put(at, PyTuple_GET_ITEM(item, 1), PyTuple_GET_ITEM(item, 0));
        }
    }
    _PyBytes_Resize(&bytes, at - PyBytes_AS_STRING(bytes));
    return bytes;
}

static const char *
take(const char *at, PyObject **ret_text, PyObject **ret_number) {
    uint32_t size;
    int64_t value;

    memcpy(&size, at, 4);
    memcpy(&value, at + 4 + size, 8);
    *ret_text = PyUnicode_New(size, 127);
    memcpy(PyUnicode_DATA(*ret_text), at + 4, size);
    *ret_number = PyLong_FromLong((long)value);
    return at + 12 + size;
}

/* loads(bytes, count): a list of `count` tuples; a dict where count is negative. */
static PyObject *
floor_loads(PyObject *module, PyObject *args) {
    const char *at;
    Py_ssize_t size, count;
    PyObject *result, *text, *number;
    int collecting = PyGC_Disable();

    (void)module;
    if (!PyArg_ParseTuple(args, "y#n", &at, &size, &count))
        return NULL;
    result = count < 0 ? PyDict_New() : PyList_New(count);
    for (Py_ssize_t i = 0; i < (count < 0 ? -count : count); i++) {
        at = take(at, &text, &number);
        if (count < 0) {
            PyDict_SetItem(result, text, number);
            Py_DECREF(text);
            Py_DECREF(number);
        } else {
            PyObject *pair = PyTuple_New(2);
            PyTuple_SET_ITEM(pair, 0, number);
            PyTuple_SET_ITEM(pair, 1, text);
            PyList_SET_ITEM(result, i, pair);
        }
    }
    if (collecting)
        PyGC_Enable();
    return result;
}

static PyMethodDef methods[] = {{"dumps", floor_dumps, METH_VARARGS, NULL},
                                {"loads", floor_loads, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "plain_floor",
                                        .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit_plain_floor(void);

PyMODINIT_FUNC
PyInit_plain_floor(void) {
    return PyModule_Create(&definition);
}
