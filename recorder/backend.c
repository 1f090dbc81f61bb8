/* backend.c - pass one event to the back end's function for it; a back end that ignores
 * all of them.
 *
 * Used for both kinds of back end: an immediate one gets events when they happen; for
 * the other the events are read from a log file when the trace is made.
 */
#include "backend.h"

static int
ignore_call(void *writer, uint64_t time, uint32_t region) {
    (void)writer, (void)time, (void)region;
    return 0;
}

const hfi_backend hfi_no_backend = {
    .name = "none", .enter = ignore_call, .leave = ignore_call};

int
hfi_backend_write(const hfi_backend *backend, void *writer,
                  const hfi_log_event *event) {
    switch (event->kind) {
    case HFI_EVENT_ENTER:
        return backend->enter(writer, event->time, event->subject);
    case HFI_EVENT_LEAVE:
        return backend->leave(writer, event->time, event->subject);
    case HFI_EVENT_RECORDING_ON:
    case HFI_EVENT_RECORDING_OFF:
        return backend->recording == NULL
                   ? 0
                   : backend->recording(writer, event->time,
                                        event->kind == HFI_EVENT_RECORDING_ON);
    case HFI_EVENT_PARAMETER_INT:
        return backend->parameter_int == NULL
                   ? 0
                   : backend->parameter_int(writer, event->time, event->subject,
                                            (int64_t)event->value);
    case HFI_EVENT_PARAMETER_UINT:
        return backend->parameter_uint == NULL
                   ? 0
                   : backend->parameter_uint(writer, event->time, event->subject,
                                             event->value);
    case HFI_EVENT_PARAMETER_STRING:
        return backend->parameter_string == NULL
                   ? 0
                   : backend->parameter_string(writer, event->time, event->subject,
                                               (uint32_t)event->value);
    case HFI_EVENT_FLUSHED:
        return backend->flushed == NULL
                   ? 0
                   : backend->flushed(writer, event->time,
                                      event->value < event->time ? event->time
                                                                 : event->value);
    default:
        return 0;
    }
}
