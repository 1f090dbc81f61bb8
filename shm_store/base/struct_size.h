/* struct_size.h - structs of callers that were compiled with another version.
 *
 * Such a struct begins with `struct_size` (status.h says what callers do with it). The
 * functions take the struct's size in this version (`known`), and its size in the first
 * version that had it (`least`). The macros fill those in from the struct's type and
 * the last member that it had in that first version, which never changes again.
 *
 * HF_E_INVALID, and nothing is changed: struct_size is below `least` (the caller forgot
 * to set it) or above HFI_STRUCT_MOST. Any thread.
 */
#ifndef HFI_STRUCT_SIZE_H
#define HFI_STRUCT_SIZE_H

#include <stddef.h>

#include "holdfast/error.h"

#define HFI_STRUCT_MOST 4096

#define HFI_STRUCT_LEAST(type, last)                                                   \
    (offsetof(type, last) + sizeof(((const type *)0)->last))

/* A struct that the library reads in place: HF_HAS_MEMBER says which members it has.
 * HF_E_INVALID, also if the caller has set a member that this version doesn't know. */
#define HFI_STRUCT_CHECK(theirs, type, last, reterr)                                   \
    hfi_struct_check((theirs), sizeof(type), HFI_STRUCT_LEAST(type, last), #type,      \
                     (reterr))
HF_CHECK hf_status hfi_struct_check(const void *theirs, size_t known, size_t least,
                                    const char *type, hf_error *reterr);

/* The same, and copy it to `ret_ours`: members that the caller's struct doesn't have
 * become 0. HF_E_INVALID. */
#define HFI_STRUCT_READ(ret_ours, theirs, type, last, reterr)                          \
    hfi_struct_read((ret_ours), (theirs), sizeof(type), HFI_STRUCT_LEAST(type, last),  \
                    #type, (reterr))
HF_CHECK hf_status hfi_struct_read(void *ret_ours, const void *theirs, size_t known,
                                   size_t least, const char *type, hf_error *reterr);

/* A struct that is to be filled: check it before the work is done, write it afterwards.
 * Members that this version doesn't know become 0; struct_size stays as it is.
 * HF_E_INVALID. */
#define HFI_STRUCT_CHECK_OUTPUT(theirs, type, last, reterr)                            \
    hfi_struct_check_output((theirs), HFI_STRUCT_LEAST(type, last), #type, (reterr))
HF_CHECK hf_status hfi_struct_check_output(const void *theirs, size_t least,
                                           const char *type, hf_error *reterr);
void hfi_struct_write(void *ret_theirs, const void *ours, size_t known);

#endif
