/* timelimit.c - time limits that the environment sets.
 *
 * They are few, and read when they are needed. People with slow disks raise them, and
 * tests lower them. One thread.
 */
#include "session/timelimit.h"

#include <stdlib.h>

#define MOST_SECONDS (30.0 * 24 * 3600)

long long
hfi_limit_ns(const char *variable, double seconds) {
    const char *text = getenv(variable);
    char *end = NULL;
    double given = text != NULL ? strtod(text, &end) : 0;
    if (end != text && *end == '\0' && given >= 0)
        seconds = given < MOST_SECONDS ? given : MOST_SECONDS;
    return (long long)(seconds * 1e9);
}

long long
hfi_limit_positive_ns(const char *variable, double seconds) {
    long long given_ns = hfi_limit_ns(variable, seconds);
    return given_ns > 0 ? given_ns : (long long)(seconds * 1e9);
}
