/* bulk.h - large blocks written to an object and read from it, by several threads. */
#ifndef HFI_BULK_H
#define HFI_BULK_H

#include <stddef.h>
#include <stdint.h>

/* As hfi_object_write. `is_hole`: the range may have no memory yet, or lie past the
 * object's end; else each of its pages must be there. */
int hfi_bulk_write(int fd, const void *data, size_t size, uint64_t offset, int is_hole);
/* As hfi_object_read. */
int hfi_bulk_read(int fd, void *data, size_t size, uint64_t offset);

#endif
