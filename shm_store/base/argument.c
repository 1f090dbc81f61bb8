/* argument.c - the name of a missing argument, taken from the source text.
 *
 * So a check is one line at the beginning of a function, and each name is written once.
 * An assertion was rejected. Programs in other languages call the library through
 * bindings that can't check, and a notebook's kernel must not end because one passes
 * NULL.
 */
#include "base/argument.h"

#include <string.h>

hf_status
hfi_argument_missing(hf_error *reterr, const char *function, const char *arguments,
                     size_t index) {
    for (; index > 0; index--)
        arguments = strchr(arguments, ',') + 1;
    const char *name = arguments, *at = arguments;
    for (; *at == ' '; at++)
        name = at + 1;
    for (; *at && !strchr(", ", *at); at++)
        if (strchr(".>*", *at))
            name = at + 1;
    return hf_error_set_at(reterr, HF_E_INVALID, 0, function, "%s: %.*s is NULL",
                           function, (int)(at - name), name);
}
