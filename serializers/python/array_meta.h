/* array_meta.h - what an entry's meta says of a NumPy array, so that any program can read
 * it. With the interpreter attached.
 */
#ifndef HFI_ARRAY_META_H
#define HFI_ARRAY_META_H

#include "array.h"
#include "meta.h"

/* The element type of an array, in words. Owned; NULL where it isn't needed. */
typedef struct hfi_array_type {
    PyObject *text;  /* str: NumPy's type string, if that says everything */
    PyObject *plain; /* str: the type string, if `text` is another */
    PyObject *descr; /* bytes: the dtype's pickle, if `text` doesn't say everything */
} hfi_array_type;

/* -1 with an exception. With `descr`, pickling a dtype runs code of Python. */
int hfi_array_type_init(hfi_array_type *ret_type, PyObject *array, int descr);
void hfi_array_type_fini(hfi_array_type *type);

/* Put dtype, shape, strides and offset. How many pairs that is: */
unsigned hfi_array_meta_pairs(const hfi_array_type *type);
void hfi_array_meta_put(hfi_meta_writer *meta, const hfi_array_view *view,
                        const hfi_array_type *type, uint64_t offset);

#endif
