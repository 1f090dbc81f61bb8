/* owners.c - what all files of a session rest on: owners of state, and events.
 *
 * Each part of the session has a struct that no other file knows. kernel.c has the list
 * of them, and of those who listen to events; this file knows neither, so that whatever
 * owns or reports something needs nothing else. A list to which listeners add themselves
 * was rejected: their order matters, and nobody would see it. One thread.
 */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

/* The pointers are of different types, so they are copied as bytes. */
static void *
get(const hf_kernel *kernel, const hfi_owner *owner) {
    void *state;
    memcpy(&state, (const char *)kernel + owner->place, sizeof state);
    return state;
}

static void
put(hf_kernel *kernel, const hfi_owner *owner, void *state) {
    memcpy((char *)kernel + owner->place, &state, sizeof state);
}

hf_status
hfi_owner_create(hf_kernel *kernel, const hfi_owner *owner, hf_error *reterr) {
    void *state = calloc(1, owner->size);
    if (state == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the kernel");
    put(kernel, owner, state);
    return owner->init != NULL ? owner->init(kernel, reterr) : HF_OK;
}

void
hfi_owner_close(hf_kernel *kernel, const hfi_owner *owner) {
    void *state = get(kernel, owner);
    if (state == NULL)
        return;
    if (owner->fini != NULL)
        owner->fini(kernel);
    free(state);
    put(kernel, owner, NULL);
}

void
hfi_tell(hf_kernel *kernel, const hfi_event *event) {
    for (hfi_listener *const *at = kernel->listeners; *at != NULL; at++)
        (*at)(kernel, event);
}
