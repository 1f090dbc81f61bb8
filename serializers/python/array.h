/* array.h - the memory of a NumPy array, without NumPy's headers. Private to the Python
 * codecs and the extension. Call with the interpreter attached.
 */
#ifndef HFI_ARRAY_H
#define HFI_ARRAY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>

#define HFI_ARRAY_DIMENSIONS_MAX 64

/* Smaller memory is carried inside the payload. A buffer of its own would cost a page
 * of the arena and one of the process's mappings. */
#define HFI_ARRAY_INLINE_MAX 16384

typedef struct hfi_array_view {
    PyObject *owner; /* end of the chain of bases: the owner of the memory */
    void *data;      /* first element */
    char *low;       /* the owner's whole memory; NULL if it isn't known */
    size_t low_size; /* bytes */
    size_t size;     /* bytes of the elements */
    size_t itemsize; /* bytes */
    int dimensions;
    int writeable;
    Py_ssize_t shape[HFI_ARRAY_DIMENSIONS_MAX];
    Py_ssize_t strides[HFI_ARRAY_DIMENSIONS_MAX]; /* bytes */
} hfi_array_view;

/* 1: exactly a numpy.ndarray; 2: of a subclass; 0: neither. Runs no Python code. */
int hfi_array_check(PyObject *object);
/* 1 if the array's elements are plain memory (no objects, no string arena), 0 if not,
 * -1 with an exception. */
int hfi_array_is_plain(PyObject *array);
/* -1 with an exception. The view borrows the array and holds the owner. An owner's own
 * `__buffer__` may run. */
int hfi_array_view_get(PyObject *array, hfi_array_view *ret_view);
void hfi_array_view_fini(hfi_array_view *view);
/* The elements of an array of objects in the order in which they lie in memory,
 * borrowed from the array; NULL among them means None. 1; 0 if the array isn't one
 * block of object references; -1 with an exception. Runs no Python code. */
int hfi_array_elements(PyObject *array, PyObject ***ret_elements, size_t *ret_count);
/* Copy bytes to all of the memory that the elements of an array span. -1 with an
 * exception if the sizes differ. */
int hfi_array_fill(PyObject *array, const void *bytes, size_t size);
/* The base of an array, new reference; Py_None without. Runs no Python code. */
PyObject *hfi_array_base(PyObject *array);
/* The owner of a memoryview's memory, borrowed; NULL without, and after `release()`: the
 * view then has a pointer to an object that may be gone. Runs no Python code. */
PyObject *hfi_array_exporter(PyObject *memoryview);
/* How many elements it has; 0 if it doesn't say. Runs no Python code. */
size_t hfi_array_size(PyObject *array);

#endif
