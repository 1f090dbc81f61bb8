/* populate.h - page tables filled in bulk. */
#ifndef HFI_POPULATE_H
#define HFI_POPULATE_H

#include <stddef.h>

/* Fault pages in: for reading without copies, or for writing. Best effort; other
 * threads may use the memory meanwhile. */
void hfi_pages_populate(void *address, size_t size, int write);
/* Take a shared mapping out of the page tables. Other threads may use it meanwhile, and
 * find all that they wrote: the object has it. */
void hfi_pages_drop(void *address, size_t size);

#endif
