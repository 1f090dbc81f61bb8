/* argument.h - pointers that the callers of public functions leave out.
 *
 * A NULL where a pointer is needed is a mistake of the calling program. It gets an
 * error with the argument's name instead of a signal. Functions that return no status
 * then do nothing, and return 0 or NULL. Any thread.
 */
#ifndef HFI_ARGUMENT_H
#define HFI_ARGUMENT_H

#include <stddef.h>

#include "holdfast/error.h"

/* Return HF_E_INVALID if one of these is NULL, or a condition isn't true: the message
 * names the last word of its first operand. */
#define HFI_NEED(reterr, ...)                                                          \
    do {                                                                               \
        const _Bool there_[] = {__VA_ARGS__};                                          \
        for (size_t i_ = 0; i_ < sizeof there_ / sizeof *there_; i_++)                 \
            if (!there_[i_])                                                           \
                return hfi_argument_missing((reterr), __func__, #__VA_ARGS__, i_);     \
    } while (0)

/* `arguments`: their text in the source, with commas in between. */
hf_status hfi_argument_missing(hf_error *reterr, const char *function,
                               const char *arguments, size_t index);

#endif
