/* struct_size.c - structs of callers that were compiled with another version.
 *
 * The rule is that of Linux's openat2 and clone3. The members that a shorter struct
 * doesn't have are zero. A longer struct is accepted if the members that we don't know
 * are zero. So either side can be the newer one, and no setting of a caller is ignored
 * silently.
 */
#include "base/struct_size.h"

#include <string.h>

#include "holdfast/version.h"

static size_t
their_size(const void *theirs) {
    return *(const size_t *)theirs;
}

hf_status
hfi_struct_check_output(const void *theirs, size_t least, const char *type,
                        hf_error *reterr) {
    size_t size = their_size(theirs);
    if (size >= least && size <= HFI_STRUCT_MOST)
        return HF_OK;
    return hf_error_set(reterr, HF_E_INVALID,
                        "struct_size of %s is %zu: set it to sizeof(%s)", type, size,
                        type);
}

hf_status
hfi_struct_check(const void *theirs, size_t known, size_t least, const char *type,
                 hf_error *reterr) {
    hf_status status = hfi_struct_check_output(theirs, least, type, reterr);
    if (status)
        return status;
    const char *bytes = theirs;
    for (size_t i = known; i < their_size(theirs); i++)
        if (bytes[i])
            return hf_error_set(
                reterr, HF_E_INVALID,
                "%s sets a member that version " HF_VERSION " doesn't know", type);
    return HF_OK;
}

hf_status
hfi_struct_read(void *ret_ours, const void *theirs, size_t known, size_t least,
                const char *type, hf_error *reterr) {
    hf_status status = hfi_struct_check(theirs, known, least, type, reterr);
    if (status)
        return status;
    size_t size = their_size(theirs) < known ? their_size(theirs) : known;
    memcpy(ret_ours, theirs, size);
    memset((char *)ret_ours + size, 0, known - size);
    return HF_OK;
}

void
hfi_struct_write(void *ret_theirs, const void *ours, size_t known) {
    size_t size = their_size(ret_theirs), shared = size < known ? size : known;
    memcpy((char *)ret_theirs + sizeof size, (const char *)ours + sizeof size,
           shared - sizeof size);
    memset((char *)ret_theirs + shared, 0, size - shared);
}
