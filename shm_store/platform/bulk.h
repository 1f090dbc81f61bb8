/* bulk.h - large blocks written to an object, read from it and digested, by several
 * threads.
 */
#ifndef HFI_BULK_H
#define HFI_BULK_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/store.h"

typedef struct hfi_block_write {
    const void *data;
    size_t size;
    uint64_t offset; /* in the object */
    int is_hole;     /* the range may have no memory yet, or lie past the object's end;
                      * else each of its pages must be there */
    size_t huge;     /* holes get pages of this size where they can be had, if the
                      * offset is a multiple of it; 0: small ones */
    hf_digest *ret_digest; /* the digest of the data as it was copied; or NULL */
} hfi_block_write;

/* As hfi_object_write. */
int hfi_bulk_write(int fd, const hfi_block_write *block);
/* As hfi_object_read. */
int hfi_bulk_read(int fd, void *data, size_t size, uint64_t offset);

#endif
