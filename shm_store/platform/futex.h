/* futex.h - sleeping on a word of shared memory until another process changes it.
 *
 * The processes may map the word at different addresses; the sleeper's mapping may be
 * read-only. Nothing of a sleep is kept in shared memory, so a kill leaves nothing
 * behind. Threads: any. Linux only; elsewhere each call returns ENOTSUP.
 */
#ifndef HFI_FUTEX_H
#define HFI_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleep while `*word` is `value`, until `deadline_ns` of the monotonic clock (negative:
 * without limit). 0: it was woken, or the word is another one already; ETIMEDOUT; EINTR
 * after a signal's handler; or another errno. */
int hfi_futex_wait(const _Atomic uint32_t *word, uint32_t value, int64_t deadline_ns);
/* Wake all that sleep on the word. Costs a system call. */
void hfi_futex_wake(const _Atomic uint32_t *word);

#endif
