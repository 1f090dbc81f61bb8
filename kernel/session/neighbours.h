/* neighbours.h - whether other people use this machine. */
#ifndef HFI_NEIGHBOURS_H
#define HFI_NEIGHBOURS_H

#include <stddef.h>
#include <sys/types.h>

/* Whether one of the numbered entries of a directory is another person's than `self`.
 * 0 where there is no such directory. */
int hfi_neighbours_in(const char *directory, uid_t self);
/* Whether somebody else is logged in or has a process here, as far as can be seen. */
int hfi_neighbours_present(void);

#endif
