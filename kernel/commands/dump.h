/* dump.h - Python's tracebacks of a dying process, with only the frames that are the
 * user's, and with cells named by their numbers. One thread.
 */
#ifndef HFI_DUMP_H
#define HFI_DUMP_H

#include <stdint.h>

#include "wire/filter.h"

#define HFI_CELLNAMES_MAX 4096

typedef struct hfi_cellname {
    uint32_t hash;
    long long number;
} hfi_cellname;

/* Zeroed is empty. */
typedef struct hfi_cellnames {
    hfi_cellname ring[HFI_CELLNAMES_MAX];
    size_t count; /* of all that were ever added */
} hfi_cellnames;

/* From now on a cell with this text is In[number]. */
void hfi_cellnames_add(hfi_cellnames *names, hfi_part text, long long number);

/* A filter that knows these cells, which are borrowed and may grow. With NULL cells are
 * shown by their files. Returns NULL without memory. */
hfi_filter *hfi_dump_create(const hfi_cellnames *names);

#endif
