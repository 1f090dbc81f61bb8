/* lock.h - a lock between processes that outlives its holder.
 *
 * It is one word in shared memory, with the holder's identity. Threads: any, of any
 * process that maps the word.
 */
#ifndef HFI_LOCK_H
#define HFI_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* How long to wait for a holder if it is unknown whether it lives. */
extern int hfi_lock_patience_ms;

/* Take `*word` (0 is free) for `me` (not 0). `is_dead` is asked now and then about a
 * holder that doesn't let go: 1 dead, 0 alive, -1 unknown. Returns 0 if the lock was
 * free; 1 if it was taken over from a dead holder: the data that it protects must then
 * be repaired; -1 without the lock, if it was unknown for hfi_lock_patience_ms. A
 * holder that lives is waited for as long as it takes. */
int hfi_lock_acquire(_Atomic uint64_t *word, uint64_t me,
                     int (*is_dead)(void *context, uint64_t holder), void *context);
void hfi_lock_release(_Atomic uint64_t *word);

#endif
