/* addresses.h - which numbers may be addresses. */
#ifndef HFI_ADDRESSES_H
#define HFI_ADDRESSES_H

#include <stdint.h>

/* Where C's heap begins, if that is where ordinary numbers are, too; else INT64_MAX.
 * Numbers below are no addresses. */
extern int64_t hfi_low_heap;
/* Find it out: once in a process, before the others. */
void hfi_addresses_init(void);
/* Whether a number lies where programs, heaps and mappings do. Any thread. */
int hfi_may_be_address(int64_t value);

#endif
