/* array.c - the memory of a NumPy array, without NumPy's headers.
 *
 * NumPy is optional when Holdfast is built and when it runs. So nothing here includes
 * its headers: an array is recognised by its type's name, and its data pointer, shape
 * and strides come from `__array_struct__`, NumPy's array interface protocol, version 3
 * (a capsule with a C struct that has been stable since 2006 and, unlike the buffer
 * protocol, covers datetime64 and every structured dtype).
 *
 * The *owner* is the end of the chain of bases, memoryviews looked through. The whole
 * memory is, in this order: the bytes that an array without base spans; the buffer that
 * the owner exports; the bytes that the last array of the chain spans (the owner is
 * then a capsule or such of some C library). Views that look outside what was found
 * make it unknown (low is NULL); the caller then copies.
 */
#include "array.h"

#include <string.h>

/* numpy/arrayobject: PyArrayInterface, as its documentation gives it. */
typedef struct array_interface {
    int two;
    int nd;
    char typekind;
    int itemsize;
    int flags;
    Py_intptr_t *shape;
    Py_intptr_t *strides;
    void *data;
    PyObject *descr;
} array_interface;

int
hfi_array_check(PyObject *object) {
    int exact = 1;
    for (PyTypeObject *type = Py_TYPE(object); type; type = type->tp_base, exact = 2)
        if (type->tp_itemsize == 0 && strcmp(type->tp_name, "numpy.ndarray") == 0)
            return exact;
    return 0;
}

/* An attribute as numpy.ndarray defines it, even if a subclass replaces it. This runs
 * no code in Python. */
static PyObject *
ndarray_attribute(PyObject *array, const char *name) {
    PyTypeObject *type = Py_TYPE(array);
    while (type && strcmp(type->tp_name, "numpy.ndarray") != 0)
        type = type->tp_base;
    PyObject *found = type ? PyDict_GetItemString(type->tp_dict, name) : NULL;
    descrgetfunc get = found ? Py_TYPE(found)->tp_descr_get : NULL;
    if (get)
        return get(found, array, (PyObject *)Py_TYPE(array));
    return PyErr_Format(PyExc_AttributeError, "an array without '%s'", name);
}

PyObject *
hfi_array_base(PyObject *array) {
    return ndarray_attribute(array, "base");
}

size_t
hfi_array_size(PyObject *array) {
    PyObject *size = ndarray_attribute(array, "size");
    size_t count = size ? PyLong_AsSize_t(size) : 0;
    Py_XDECREF(size);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return count;
}

int
hfi_array_is_plain(PyObject *array) {
    int plain = -1;
    PyObject *dtype = ndarray_attribute(array, "dtype");
    PyObject *kind = dtype ? PyObject_GetAttrString(dtype, "kind") : NULL;
    PyObject *has_object = kind ? PyObject_GetAttrString(dtype, "hasobject") : NULL;
    const char *letter = has_object ? PyUnicode_AsUTF8(kind) : NULL;
    if (letter)
        plain = has_object == Py_False && letter[0] && strchr("biufcmMSUV", letter[0]);
    Py_XDECREF(dtype);
    Py_XDECREF(kind);
    Py_XDECREF(has_object);
    return plain;
}

/* The interface of an array; the capsule owns it. NULL with an exception. */
static const array_interface *
interface_get(PyObject *array, PyObject **ret_capsule) {
    PyObject *capsule = ndarray_attribute(array, "__array_struct__");
    const array_interface *interface =
        capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    if (interface && (interface->two != 2 || interface->nd < 0 ||
                      interface->nd > HFI_ARRAY_DIMENSIONS_MAX)) {
        PyErr_SetString(PyExc_ValueError, "an array interface that isn't understood");
        interface = NULL;
    }
    if (!interface) {
        Py_XDECREF(capsule);
        return NULL;
    }
    *ret_capsule = capsule;
    return interface;
}

int
hfi_array_elements(PyObject *array, PyObject ***ret_elements, size_t *ret_count) {
    enum { C_CONTIGUOUS = 1, F_CONTIGUOUS = 2 };
    PyObject *capsule;
    const array_interface *interface = interface_get(array, &capsule);
    if (!interface)
        return -1;
    int found = interface->typekind == 'O' &&
                interface->itemsize == (int)sizeof(PyObject *) &&
                (interface->flags & (C_CONTIGUOUS | F_CONTIGUOUS)) != 0;
    *ret_elements = interface->data;
    *ret_count = 1;
    for (int i = 0; i < interface->nd; i++)
        *ret_count *= (size_t)interface->shape[i];
    Py_DECREF(capsule);
    return found;
}

/* The bytes from the lowest to past the highest element. */
static void
array_span(const array_interface *interface, char **ret_low, size_t *ret_size) {
    char *low = interface->data, *high = low + interface->itemsize;
    for (int i = 0; i < interface->nd; i++) {
        if (interface->shape[i] == 0) {
            *ret_low = interface->data;
            *ret_size = 0;
            return;
        }
        Py_intptr_t reach = (interface->shape[i] - 1) * interface->strides[i];
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    *ret_low = low;
    *ret_size = (size_t)(high - low);
}

int
hfi_array_fill(PyObject *array, const void *bytes, size_t size) {
    PyObject *capsule;
    const array_interface *interface = interface_get(array, &capsule);
    if (!interface)
        return -1;
    char *low;
    size_t low_size;
    array_span(interface, &low, &low_size);
    int fits = low_size == size;
    if (fits && size)
        memcpy(low, bytes, size);
    else if (!fits)
        PyErr_SetString(PyExc_ValueError, "an array's meta doesn't fit its bytes");
    Py_DECREF(capsule);
    return fits ? 0 : -1;
}

/* NumPy's `as_strided` puts an object between the view and its array, which holds it. */
static PyObject *
behind_strides(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (strcmp(type->tp_name, "DummyArray") != 0 || !type->tp_dict)
        return NULL;
    PyObject *module = PyDict_GetItemString(type->tp_dict, "__module__");
    const char *name =
        module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    PyObject *base = name && strncmp(name, "numpy.", 6) == 0
                         ? PyObject_GetAttrString(object, "base")
                         : NULL;
    PyErr_Clear();
    return base;
}

PyObject *
hfi_array_exporter(PyObject *memoryview) {
    PyMemoryViewObject *view = (PyMemoryViewObject *)memoryview;
    if (view->flags & _Py_MEMORYVIEW_RELEASED ||
        view->mbuf->flags & _Py_MANAGED_BUFFER_RELEASED)
        return NULL;
    return PyMemoryView_GET_BASE(memoryview);
}

/* Follow the bases. Returns the owner (new reference), and the last array on the way.
 * */
static PyObject *
array_owner(PyObject *array, PyObject **ret_last) {
    PyObject *at = Py_NewRef(array);
    *ret_last = Py_NewRef(array);
    for (;;) {
        PyObject *next;
        if (hfi_array_check(at)) {
            Py_SETREF(*ret_last, Py_NewRef(at));
            next = hfi_array_base(at);
        } else if (PyMemoryView_Check(at)) {
            next = Py_XNewRef(hfi_array_exporter(at));
            if (!next)
                return at;
        } else {
            next = behind_strides(at);
            if (!next)
                return at;
        }
        if (next == Py_None) {
            Py_DECREF(next);
            return at;
        }
        Py_DECREF(at);
        if (!next) {
            Py_CLEAR(*ret_last);
            return NULL;
        }
        at = next;
    }
}

static int
whole_memory(hfi_array_view *view, PyObject *last) {
    if (!hfi_array_check(view->owner) && PyObject_CheckBuffer(view->owner)) {
        Py_buffer buffer;
        if (PyObject_GetBuffer(view->owner, &buffer, PyBUF_SIMPLE) == 0) {
            view->low = buffer.buf;
            view->low_size = (size_t)buffer.len;
            PyBuffer_Release(&buffer);
            return 0;
        }
        PyErr_Clear();
    }
    PyObject *capsule;
    const array_interface *interface = interface_get(last, &capsule);
    if (!interface)
        return -1;
    array_span(interface, &view->low, &view->low_size);
    Py_DECREF(capsule);
    return 0;
}

/* Read from the array: the interface of structured arrays doesn't have the flag. */
static int
is_writeable(PyObject *array) {
    PyObject *flags = ndarray_attribute(array, "flags");
    PyObject *answer = flags ? PyObject_GetAttrString(flags, "writeable") : NULL;
    int writeable = answer == Py_True;
    if (!answer)
        PyErr_Clear();
    Py_XDECREF(answer);
    Py_XDECREF(flags);
    return writeable;
}

int
hfi_array_view_get(PyObject *array, hfi_array_view *ret_view) {
    PyObject *capsule, *last = NULL;
    const array_interface *interface = interface_get(array, &capsule);
    if (!interface)
        return -1;
    hfi_array_view *view = ret_view;
    memset(view, 0, offsetof(hfi_array_view, shape));
    view->data = interface->data;
    view->itemsize = (size_t)interface->itemsize;
    view->size = view->itemsize;
    view->dimensions = interface->nd;
    view->writeable = is_writeable(array);
    for (int i = 0; i < interface->nd; i++) {
        view->shape[i] = interface->shape[i];
        view->strides[i] = interface->strides[i];
        view->size *= (size_t)interface->shape[i];
    }
    char *low;
    size_t low_size;
    array_span(interface, &low, &low_size);
    Py_DECREF(capsule);

    view->owner = array_owner(array, &last);
    int failed = !view->owner || whole_memory(view, last) < 0;
    Py_XDECREF(last);
    if (failed) {
        Py_CLEAR(view->owner);
        return -1;
    }
    if (low < view->low || low + low_size > view->low + view->low_size) {
        view->low = NULL;
        view->low_size = 0;
    }
    return 0;
}

void
hfi_array_view_fini(hfi_array_view *view) {
    Py_CLEAR(view->owner);
}
