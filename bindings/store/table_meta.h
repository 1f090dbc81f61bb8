/* table_meta.h - what an entry's meta says of a table. With the interpreter attached. */
#ifndef HFI_TABLE_META_H
#define HFI_TABLE_META_H

#include "array_place.h"

/* What the meta of a value says if it is a table (shm_store/arrays/): bytes. None if it
 * isn't one, or can't be described. New reference; NULL with an exception. Runs code of
 * the table's library. */
PyObject *hfi_table_meta(hfi_places *places, PyObject *value);

#endif
