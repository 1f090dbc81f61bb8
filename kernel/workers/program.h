/* program.h - starting programs, and words for how they ended.
 *
 * Threads: any. On Linux a spawned program dies with the thread that spawned it.
 */
#ifndef HFI_PROGRAM_H
#define HFI_PROGRAM_H

#include <stddef.h>
#include <sys/types.h>

#include "holdfast/error.h"

/* Start a program in a session of its own, with stdin from /dev/null. The given
 * descriptors stay open under their numbers; all others should be close-on-exec. On
 * Linux the program is killed when the calling thread ends. The caller waits for it.
 * HF_E_SYSTEM. */
HF_CHECK hf_status hfi_program_spawn(char *const *argv, const int *keep,
                                     size_t keep_count, pid_t *ret_pid,
                                     hf_error *reterr);
/* Start a program from PATH that lives on independently, in a session of its own.
 * HF_E_SYSTEM with the reason if it can't be started. */
HF_CHECK hf_status hfi_program_detach(char *const *argv, hf_error *reterr);
/* Wait up to `timeout_ms`, then kill the program's process group and wait for the
 * program. Returns the raw wait status; -1 if other code has waited for it already. */
int hfi_program_end(pid_t pid, int timeout_ms);
/* The same, but the rest of the process group lives on. */
int hfi_program_lose(pid_t pid, int timeout_ms);

/* Both ends close-on-exec; a pipe's read end is non-blocking. HF_E_SYSTEM. */
HF_CHECK hf_status hfi_program_pair(int ret_fds[2], hf_error *reterr);
HF_CHECK hf_status hfi_program_pipe(int ret_fds[2], hf_error *reterr);

/* The name of a signal, such as "SIGSEGV"; NULL if it has no common name. */
const char *hfi_signal_name(int number);
/* "was ended by signal 11 (SIGSEGV)" or "left with exit status 3", from a raw wait
 * status; `known` 0: "ended, nobody could say how". */
void hfi_program_exit_reason(int known, int status, char *ret_text, size_t size);

/* The time of CLOCK_MONOTONIC. */
long long hfi_clock_ns(void);

#endif
