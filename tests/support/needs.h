/* needs.h - checks that a call with NULL for an argument says so.
 *
 *     NEEDS("path", hf_save_read(NULL, session, ..., &error));
 */
#ifndef HFT_NEEDS_H
#define HFT_NEEDS_H

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "holdfast/error.h"
#include "holdfast/status.h"

/* What the calls get as `reterr`. */
static hf_error error;

/* The status, and a message with the names of the function and the argument. */
static inline void
check_needs(hf_status status, const char *call, const char *argument) {
    char wanted[120];
    snprintf(wanted, sizeof wanted, "%.*s: %s is NULL", (int)strcspn(call, "("), call,
             argument);
    if (status != HF_E_INVALID || strcmp(error.message, wanted) != 0) {
        fprintf(stderr, "%s: %s: %s\n", call, hf_status_name(status), error.message);
        CHECK(!"HF_E_INVALID with the argument's name");
    }
    memset(&error, 0, sizeof error);
}
#define NEEDS(argument, call) check_needs(call, #call, argument)

#endif
