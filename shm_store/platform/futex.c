/* futex.c - the system calls of futex.h, which the C library doesn't offer.
 *
 * The system names a word by its file and the place there, so the processes' addresses
 * don't matter, and a mapping that can't be written to is enough to sleep. It compares
 * the word and puts the sleeper on its list in one step: a wake-up that follows a change
 * of the word is never missed. The deadline is absolute. So a sleep that is begun anew
 * after a signal isn't longer.
 */
#include "futex.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <time.h>

#include "fault.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

int
hfi_futex_wait(const _Atomic uint32_t *word, uint32_t value, int64_t deadline_ns) {
    struct timespec until = {(time_t)(deadline_ns / 1000000000),
                             (long)(deadline_ns % 1000000000)};
    int err = hfi_fault("futex");
    if (err)
        return err;
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value,
                deadline_ns < 0 ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY) == 0)
        return 0;
    return errno == EAGAIN ? 0 : errno;
}

void
hfi_futex_wake(const _Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
#else
int
hfi_futex_wait(const _Atomic uint32_t *word, uint32_t value, int64_t deadline_ns) {
    (void)word, (void)value, (void)deadline_ns;
    return ENOTSUP;
}

void
hfi_futex_wake(const _Atomic uint32_t *word) {
    (void)word;
}
#endif
