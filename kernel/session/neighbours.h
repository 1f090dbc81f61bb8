/* neighbours.h - whether other people use this machine.
 *
 * Reads two directories of Linux, of processes and of logins. Threads: any; there is no
 * state.
 */
#ifndef HFI_NEIGHBOURS_H
#define HFI_NEIGHBOURS_H

#include <stddef.h>
#include <sys/types.h>

/* Whether a numbered entry of a directory belongs to a person other than `self`. 0 if
 * there is no such directory. */
int hfi_neighbours_in(const char *directory, uid_t self);
/* Whether somebody else is logged in or has a process here, as far as can be seen. */
int hfi_neighbours_present(void);

#endif
