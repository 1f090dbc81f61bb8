/* table_nodes.h - columns in Arrow's form, for an entry's meta. With the interpreter
 * attached. */
#ifndef HFI_TABLE_NODES_H
#define HFI_TABLE_NODES_H

#include "array_place.h"

/* Pack the list of columns that the library described (Codec.table). -1 with an
 * exception. Runs code of the table's library. */
int hfi_table_nodes_put(msgpack_packer *to, hfi_places *places, PyObject *columns);

#endif
