/* addresses.h - which numbers may be addresses.
 *
 * A number that the notebook stores may be the address of an object (`id`). These
 * functions decide which numbers may be one.
 *
 * Threads: any, after hfi_addresses_init.
 */
#ifndef HFI_ADDRESSES_H
#define HFI_ADDRESSES_H

#include <stdint.h>

/* The begin of C's heap, if the heap lies among ordinary numbers; else INT64_MAX.
 * Numbers below it are no addresses. */
extern int64_t hfi_low_heap;
/* Find the heap. Call it once in a process, before the others. */
void hfi_addresses_init(void);
/* Whether a number is in the range of programs, heaps and mappings. Any thread. */
int hfi_may_be_address(int64_t value);

#endif
