/* region_type.h - Region: mapped memory of the store, as a Python buffer.
 *
 * With the interpreter attached.
 */
#ifndef HFI_REGION_TYPE_H
#define HFI_REGION_TYPE_H

#include "session_type.h"

/* A new object that exports the region's memory, holds a use of the attachment, and
 * releases both when it is freed. Consumes the reference to `region`, on failure too.
 * NULL with MemoryError. */
PyObject *hfi_region_new_consume(hfi_state *state, hfi_attachment *attachment,
                                 hf_region *region);
/* The region of a Region, borrowed; `object` must be one. */
hf_region *hfi_region_of(PyObject *object);

extern PyType_Spec hfi_region_spec;

#endif
