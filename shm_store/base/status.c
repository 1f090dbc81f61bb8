/* status.c - the names of the statuses and the words of an error.
 *
 * An hf_error is written once, by the function that first saw the error. Functions
 * above it may prepend what they were doing. They never replace it. Nothing here
 * allocates, so that a lack of memory can be reported, too. Messages are cut at the end
 * of the buffer: the beginning of a message names the thing, which matters more than
 * its end.
 *
 * strerror_r exists in two forms (XSI and GNU). The thread-safe way that is the same
 * everywhere is to format into a local buffer and to accept either form.
 */
#include "holdfast/error.h"
#include "holdfast/version.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

unsigned
hf_version(void) {
    return HF_VERSION_NUMBER;
}

const char *
hf_status_name(hf_status status) {
    switch (status) {
#define NAME(x)                                                                        \
    case x:                                                                            \
        return #x
        NAME(HF_OK);
        NAME(HF_NOT_FOUND);
        NAME(HF_BUSY);
        NAME(HF_CONFLICT);
        NAME(HF_DECLINED);
        NAME(HF_STOP);
        NAME(HF_AGAIN);
        NAME(HF_PENDING);
        NAME(HF_INTERRUPTED);
        NAME(HF_E_SYSTEM);
        NAME(HF_E_NOMEM);
        NAME(HF_E_NOSPACE);
        NAME(HF_E_CORRUPT);
        NAME(HF_E_VERSION);
        NAME(HF_E_ACCESS);
        NAME(HF_E_INVALID);
        NAME(HF_E_LIMIT);
        NAME(HF_E_GONE);
        NAME(HF_E_PROTOCOL);
        NAME(HF_E_CODEC);
#undef NAME
    }
    return "HF_E_UNKNOWN";
}

static const char *
errno_text(int err, char *buffer, size_t size) {
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    return strerror_r(err, buffer, size);
#else
    if (strerror_r(err, buffer, size) != 0)
        snprintf(buffer, size, "errno %d", err);
    return buffer;
#endif
}

hf_status
hf_error_set_at(hf_error *error, hf_status status, int sys_errno, const char *function,
                const char *format, ...) {
    if (!error)
        return status;
    error->status = status;
    error->sys_errno = sys_errno;
    error->function = function;
    va_list args;
    va_start(args, format);
    int n =
        vsnprintf(error->message, sizeof error->message, format ? format : "", args);
    va_end(args);
    if (n < 0)
        error->message[0] = 0;
    if (sys_errno && n >= 0 && (size_t)n < sizeof error->message) {
        char text[128];
        snprintf(error->message + n, sizeof error->message - (size_t)n, ": %s",
                 errno_text(sys_errno, text, sizeof text));
    }
    return status;
}

void
hf_error_prefix(hf_error *error, const char *format, ...) {
    if (!error)
        return;
    char old[HF_ERROR_MESSAGE_SIZE];
    memcpy(old, error->message, sizeof old);
    va_list args;
    va_start(args, format);
    int n =
        vsnprintf(error->message, sizeof error->message, format ? format : "", args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n, left = sizeof error->message - 1;
    if (used > left)
        used = left;
    left -= used;
    if (left > 2) { /* the tail is cut where it doesn't fit */
        size_t length = strlen(old) < left - 2 ? strlen(old) : left - 2;
        memcpy(error->message + used, ": ", 2);
        memcpy(error->message + used + 2, old, length);
        error->message[used + 2 + length] = 0;
    }
}
