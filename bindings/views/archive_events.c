/* archive_events.c - the events of one location, handed on as calls that nest.
 *
 * Locations are read one after another. Merging the threads by time would take half of
 * the library's time, and no caller needs it.
 *
 * The calls that are passed on nest in any case, even if the archive's events don't. A
 * leave ends all calls that were entered after its own. A leave without an enter is
 * ignored. Calls that are open at the end are left at the last event. An event with an
 * undefined number is ignored. So receivers need no checks of their own. A window cuts
 * calls at its borders: those that are open at its begin are entered there.
 *
 * Rejected: the global reader (see above); keeping the events, since no memory is large
 * enough for a hundred million of them, and each receiver here processes them as they
 * come.
 */
#include "archive_private.h"

#include <stdbool.h>
#include <stdlib.h>

/* A location while it is read. `stack` has the open calls, the outermost first. The
 * first `handed` of them were passed on. */
typedef struct passage {
    const hfi_archive *archive;
    const hfi_archive_sink *sink;
    uint32_t *stack;
    size_t depth, capacity, handed;
    uint64_t last; /* the time of the latest event */
    bool failed;   /* no memory */
} passage;

static void
tell_open(passage *self, uint64_t time) {
    while (self->handed < self->depth)
        self->sink->enter(self->sink->context, time, self->stack[self->handed++]);
}

static void
leave_last(passage *self, uint64_t time) {
    self->depth--;
    if (self->handed > self->depth) {
        self->handed--;
        self->sink->leave(self->sink->context, time);
    }
}

/* The time to be passed on, which never steps back. False: it is after the window. */
static bool
advance_time(passage *self, uint64_t *time) {
    if (*time < self->last)
        *time = self->last;
    self->last = *time;
    if (*time >= self->sink->from)
        tell_open(self,
                  self->sink->from); /* the calls that were entered before the window */
    return *time <= self->sink->to;
}

static OTF2_CallbackCode
pass_enter(OTF2_LocationRef location, OTF2_TimeStamp time, uint64_t position,
           void *context, OTF2_AttributeList *attributes, OTF2_RegionRef region) {
    (void)location, (void)position, (void)attributes;
    passage *self = context;
    if (!advance_time(self, &time))
        return OTF2_CALLBACK_INTERRUPT;
    uint32_t known = hfi_number_mapped(&self->archive->regions, region);
    if (known == HFI_NUMBER_UNKNOWN)
        return OTF2_CALLBACK_SUCCESS;
    if (self->depth == self->capacity) {
        size_t capacity = self->capacity ? self->capacity * 2 : 256;
        uint32_t *grown = realloc(self->stack, capacity * sizeof *grown);
        if (!grown) {
            self->failed = true;
            return OTF2_CALLBACK_INTERRUPT;
        }
        self->stack = grown;
        self->capacity = capacity;
    }
    self->stack[self->depth++] = known;
    if (time >= self->sink->from)
        tell_open(self, time);
    return OTF2_CALLBACK_SUCCESS;
}

static OTF2_CallbackCode
pass_leave(OTF2_LocationRef location, OTF2_TimeStamp time, uint64_t position,
           void *context, OTF2_AttributeList *attributes, OTF2_RegionRef region) {
    (void)location, (void)position, (void)attributes;
    passage *self = context;
    if (!advance_time(self, &time))
        return OTF2_CALLBACK_INTERRUPT;
    uint32_t known = hfi_number_mapped(&self->archive->regions, region);
    size_t at = self->depth;
    while (at > 0 && self->stack[at - 1] != known)
        at--;
    while (at > 0 && self->depth >= at)
        leave_last(self, time);
    return OTF2_CALLBACK_SUCCESS;
}

static OTF2_CallbackCode
pass_flush(OTF2_LocationRef location, OTF2_TimeStamp time, uint64_t position,
           void *context, OTF2_AttributeList *attributes, OTF2_TimeStamp stop) {
    (void)location, (void)position, (void)attributes;
    passage *self = context;
    uint64_t begin = time;
    if (!advance_time(self, &begin))
        return OTF2_CALLBACK_INTERRUPT;
    bool is_within = advance_time(self, &stop);
    if (is_within && begin >= self->sink->from && self->sink->flush)
        self->sink->flush(self->sink->context, begin, stop);
    return is_within ? OTF2_CALLBACK_SUCCESS : OTF2_CALLBACK_INTERRUPT;
}

static OTF2_ErrorCode
read_events(passage *self, OTF2_EvtReader *events, uint64_t *ret_events) {
    OTF2_EvtReaderCallbacks *callbacks = OTF2_EvtReaderCallbacks_New();
    if (!callbacks)
        return OTF2_ERROR_MEM_ALLOC_FAILED;
    OTF2_EvtReaderCallbacks_SetEnterCallback(callbacks, pass_enter);
    OTF2_EvtReaderCallbacks_SetLeaveCallback(callbacks, pass_leave);
    OTF2_EvtReaderCallbacks_SetBufferFlushCallback(callbacks, pass_flush);
    OTF2_ErrorCode bad = OTF2_EvtReader_SetCallbacks(events, callbacks, self);
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    if (!bad)
        bad = OTF2_Reader_ReadAllLocalEvents(self->archive->reader, events, ret_events);
    return bad == OTF2_ERROR_INTERRUPTED_BY_CALLBACK ? OTF2_SUCCESS : bad;
}

hf_status
hfi_archive_read(hfi_archive *archive, size_t location, const hfi_archive_sink *sink,
                 uint64_t *ret_events, hf_error *reterr) {
    passage self = {.archive = archive, .sink = sink};
    uint64_t id = archive->locations[location].id, count = 0;
    hf_status status = HF_OK;
    hfi_archive_begin_reading();
    OTF2_EvtReader *events = OTF2_Reader_GetEvtReader(archive->reader, id);
    OTF2_ErrorCode bad =
        events ? read_events(&self, events, &count) : OTF2_ERROR_INVALID;
    if (events)
        OTF2_Reader_CloseEvtReader(archive->reader, events);
    hfi_archive_end_reading();
    if (self.failed)
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    else if (bad && archive->locations[location].events)
        status = hfi_archive_fail(reterr, "reading its events");
    uint64_t end = self.last < sink->to ? self.last : sink->to;
    while (self.depth)
        leave_last(&self, end);
    free(self.stack);
    *ret_events = count;
    return status;
}
