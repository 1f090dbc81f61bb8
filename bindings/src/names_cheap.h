/* names_cheap.h - which values are so cheap to decode that a cell has them unasked. */
#ifndef HFI_NAMES_CHEAP_H
#define HFI_NAMES_CHEAP_H

#include "names.h"

/* 1 if a name with this entry is to be bound although no code asks for it; what it
 * costs, in bytes, is taken off `budget`. 0 if not; -1 with an exception. With the
 * interpreter attached; runs no code of Python. */
int hfi_names_affords(hfi_state *state, const hfi_names *names, const hf_entry *entry,
                      int64_t *budget);

#endif
