/* limit.h - how much memory and how many addresses this process may have. Any thread;
 * read anew on each call.
 */
#ifndef HFI_LIMIT_H
#define HFI_LIMIT_H

#include <stdint.h>

#define HFI_NO_LIMIT UINT64_MAX

/* The machine's memory, or less if a control group of this process (version 1 or 2, or
 * one above it) has a limit. */
uint64_t hfi_limit_memory_bytes(void);
/* The part of it that a process could still get now; 0: not known. */
uint64_t hfi_limit_free_bytes(void);
/* Addresses that this process may have in all (RLIMIT_AS), or HFI_NO_LIMIT. */
uint64_t hfi_limit_address_bytes(void);

/* The limits of the control groups alone, or HFI_NO_LIMIT, below `root` instead of "":
 * for tests. `ret_left`: the least that one of them may still take. */
uint64_t hfi_limit_of_groups(const char *root, uint64_t *ret_left);

#endif
