/* log.c - lines for the log of whoever started the kernel.
 *
 * A Jupyter server shows its kernels' stderr, so that is where a line goes, whole and
 * with the program's name. It has no level: what is logged is what somebody who looks
 * for a reason should find. Any thread.
 */
#include "wire/log.h"

#include <stdarg.h>
#include <stdio.h>

void
hfi_log(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "holdfast-kernel: %s\n", line);
}
