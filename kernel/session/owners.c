/* owners.c - what all files of a session use: owners of state, events, and the log.
 *
 * Each part of the session has a struct that no other file knows. kernel.c has the list
 * of these owners, and the list of listeners. This file knows neither, so that a file
 * that owns state or reports events needs nothing else. Rejected: a list to which
 * listeners add themselves. Their order matters, and nobody would see it. One thread.
 *
 * Lines of the log have no level: only what helps to find the reason of a problem is
 * logged. The program may take the lines (hf_kernel_options). Otherwise they go to
 * stderr, whole and with the program's name; a Jupyter server shows them there. There
 * is one kernel in a process, so the target of the log belongs to the process: code
 * that has no kernel at hand can log, too.
 */
#include "session/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The pointers are of different types, so they are copied as bytes. */
static void *
get_state(const hf_kernel *kernel, const hfi_owner *owner) {
    void *state;
    memcpy(&state, (const char *)kernel + owner->place, sizeof state);
    return state;
}

static void
put_state(hf_kernel *kernel, const hfi_owner *owner, void *state) {
    memcpy((char *)kernel + owner->place, &state, sizeof state);
}

hf_status
hfi_owner_create(hf_kernel *kernel, const hfi_owner *owner, hf_error *reterr) {
    void *state = calloc(1, owner->size);
    if (state == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the kernel");
    put_state(kernel, owner, state);
    return owner->init != NULL ? owner->init(kernel, reterr) : HF_OK;
}

void
hfi_owner_close(hf_kernel *kernel, const hfi_owner *owner) {
    void *state = get_state(kernel, owner);
    if (state == NULL)
        return;
    if (owner->fini != NULL)
        owner->fini(kernel);
    free(state);
    put_state(kernel, owner, NULL);
}

void
hfi_emit(hf_kernel *kernel, const hfi_event *event) {
    for (hfi_listener *const *at = kernel->listeners; *at != NULL; at++)
        (*at)(kernel, event);
}

/* ---- the log --------------------------------------------------------------------- */

static hf_kernel_log sink; /* NULL: stderr */
static void *sink_context;

void
hfi_log_to(hf_kernel_log log, void *context) {
    sink = log;
    sink_context = context;
}

static const char *
program_name(void) {
#ifdef __GLIBC__
    return program_invocation_short_name;
#else
    return "holdfast";
#endif
}

void
hfi_log(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (sink != NULL)
        sink(sink_context, line);
    else
        fprintf(stderr, "%s: %s\n", program_name(), line);
}
