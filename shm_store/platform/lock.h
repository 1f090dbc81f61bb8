/* lock.h - a lock between processes that outlives its holder. */
#ifndef HFI_LOCK_H
#define HFI_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* Take `*word` (0 is free) for `me` (not 0). `is_dead` is asked now and then about a
 * holder that doesn't let go; a dead one's lock is taken over, and 1 is returned: what
 * it protects must then be repaired. Returns 0 where it was free. */
int hfi_lock_acquire(_Atomic uint64_t *word, uint64_t me,
                     int (*is_dead)(void *context, uint64_t holder), void *context);
void hfi_lock_release(_Atomic uint64_t *word);

#endif
