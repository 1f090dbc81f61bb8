/* argument.c - the name of an argument that is missing, from the source's own words.
 *
 * So a check is one line at the beginning of a function, and no name stands there
 * twice. An assertion was rejected: the library is called from programs in other
 * languages, through bindings that can't check, and a notebook's kernel must not end for
 * somebody's NULL.
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
