/* recorder.h - one recording: its locations, their open regions, its back end.
 *
 * Knows nothing of Python. The caller says which location an event belongs to.
 *
 * Threads: one call at a time for one recorder and all of its locations; the caller
 * serializes them (the extension: by the interpreter's lock). `finished` alone is set
 * without. Ownership: a recorder owns its locations, definitions and files.
 */
#ifndef HOLDFAST_RECORDER_RECORDER_H
#define HOLDFAST_RECORDER_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend.h"
#include "calltree.h"
#include "event_log.h"

typedef struct hf_recorder hf_recorder;

typedef struct hf_recorder_options {
    const char *directory;      /* absolute, exists; empty, unless this process joins */
    const hfi_backend *backend; /* NULL: neither trace nor profile */
    bool profiling;             /* write a call-path profile */
    hfi_calltree_room room;     /* of its trees */
    hfi_profile_files profile_files;
    uint64_t buffer_bytes; /* of all locations' logs in memory */
    bool joins;            /* the recording of other processes */
    bool has_rank;         /* this is a process of MPI */
    uint32_t rank;
    bool children; /* forked ones are recorded, too */
} hf_recorder_options;

/* The owner of an entry of a location's stack: a frame's address for a function, that
 * plus one for a C function called from it; a user region and a notebook's cell have no
 * frame, and neither has the one region below all that a forked child does. */
typedef uintptr_t hfi_owner;
#define HFI_OWNER_USER ((hfi_owner)0)
#define HFI_OWNER_CELL ((hfi_owner)2)
#define HFI_OWNER_FORK ((hfi_owner)4)

static inline bool
hfi_owner_is_frame(hfi_owner owner) {
    return owner > HFI_OWNER_FORK;
}

typedef struct hfi_open_region {
    hfi_owner owner;
    hfi_owner hider; /* of the location, which this entry lifted; 0: none */
    uint32_t region; /* HFI_REGION_NONE: never in the trace */
    bool logged;     /* its enter was; else nothing was recorded then */
    bool untraced;   /* its enter was taken back */
    bool inherited;  /* of a forked child's parent: it is in no trace of the child */
} hfi_open_region;

/* One thread. Only the fields that the events need are here for all to see. */
typedef struct hfi_location {
    hfi_event_log log;
    hfi_open_region *stack;
    size_t depth, capacity;
    hfi_owner hider; /* the frame below which nothing is recorded; 0: none */
    size_t base;  /* entries of the thread itself, below those of a greenlet; 0 in it */
    bool logging; /* recording is on, and the log goes somewhere */
    hf_recorder *recorder;
    const hfi_backend *backend;
    void *writer;       /* of an immediate back end; NULL: closed, or none */
    bool broken;        /* it refused an event, or the log's file has no room */
    hfi_calltree *tree; /* NULL: no profile */
    hfi_event_reader traced, profiled;
    uint64_t flushes; /* of the log, when it was full */
    uint64_t flush_ticks;
    uint64_t id;
    uint64_t lost;    /* events that there was no room for */
    uint64_t events;  /* in the trace; counted at the end, unless immediate */
    uint64_t nested;  /* of these, as hfi_events_written counts them; likewise */
    uint64_t steps;   /* likewise */
    uint64_t made;    /* generators: not events, but not free */
    uint64_t from_c;  /* calls, of generators not, that C code made */
    uint64_t rewound; /* events that were taken back */
    char name[64];
    struct hfi_rewind *rewinds;      /* innermost first */
    struct hfi_suspended *suspended; /* greenlets that don't run now, and the thread */
    _Atomic bool finished;           /* the thread has ended; set without any lock */
} hfi_location;

typedef struct hfi_recording_totals {
    uint64_t events;
    uint64_t nested; /* of them: of deep calls (hfi_events_written) */
    uint64_t steps;  /* of them: of generators */
    uint64_t made;   /* see hfi_location */
    uint64_t from_c; /* likewise */
    uint64_t others; /* events of other processes, in the same archive */
    uint64_t lost;
    uint64_t rewound;
    uint64_t flushes;
    double flush_seconds;
    uint64_t collapsed; /* calls without a path of their own in the profile */
    size_t locations;
    size_t regions;
} hfi_recording_totals;

/* Begin a recording. The options are copied. The caller closes the result. HF_E_SYSTEM:
 * a file can't be made; HF_E_INVALID: the back end refuses the options; HF_E_NOMEM. */
HF_CHECK hf_status hf_recorder_create(const hf_recorder_options *options,
                                      hf_recorder **ret_recorder, hf_error *reterr);

/* Leave what is open, write the trace and the profile, release everything, also on
 * failure; then the log file stays, and parts.h can try again. NULL is fine.
 * HF_E_SYSTEM: a file can't be written; HF_E_NOMEM; HF_E_INVALID: the profile's name is
 * too long. */
HF_CHECK hf_status hf_recorder_close(hf_recorder *recorder,
                                     hfi_recording_totals *ret_totals,
                                     hf_error *reterr);

/* In a forked child: give the recording up without touching the parent's files. */
void hf_recorder_abandon(hf_recorder *recorder);

/* Make the recording an experiment that other processes can join by their own means
 * (spawned children, ranks). HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hf_recorder_share(hf_recorder *recorder, hf_error *reterr);

/* Around a fork, in the parent: if children are recorded, make a place for one. */
void hf_recorder_fork_begin(hf_recorder *recorder);
void hf_recorder_fork_end(hf_recorder *recorder);

/* In a forked child: go on as a further process of the experiment. Regions keep their
 * numbers; all locations are gone, and the new one inherits what was open on `from`, that
 * of the thread that is left (or NULL). HF_DECLINED: children aren't recorded; then, and
 * after a failure, the recorder can only be abandoned. HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hf_recorder_continue(hf_recorder *recorder, const hfi_location *from,
                                        hfi_location **ret_location, hf_error *reterr);

/* The trace begins now, if nothing has been recorded so far: whoever opens it in advance
 * doesn't want the time until then to be a part of it. */
void hf_recorder_begin_now(hf_recorder *recorder);

/* Switch the writing of events; regions that are open stay balanced. `location` gets
 * the mark in the trace. */
void hf_recorder_set_recording(hf_recorder *recorder, hfi_location *location, bool on);
bool hf_recorder_is_recording(const hf_recorder *recorder);

hfi_definitions *hf_recorder_get_definitions(hf_recorder *recorder);

/* A location for a thread. It is the recorder's, and lives until that is closed. `name`
 * may be NULL. Locations whose threads have ended (`finished`) are written out here.
 * HF_E_NOMEM; HF_E_SYSTEM: the log's file or the back end failed; HF_E_INVALID: Score-P
 * records one thread only. */
HF_CHECK hf_status hf_recorder_add_location(hf_recorder *recorder, const char *name,
                                            hfi_location **ret_location,
                                            hf_error *reterr);

void hfi_location_enter(hfi_location *location, hfi_owner owner, uint32_t region);
/* Enter although the location has a hider: it is lifted until this entry is left. */
void hfi_location_enter_lifting(hfi_location *location, hfi_owner owner,
                                uint32_t region);
/* The same for a frame that has no region of its own. */
void hfi_location_lift(hfi_location *location, hfi_owner owner);
/* Enter a cell, unless one is open. It is left with all that it has left open, at a
 * time that may have passed. */
void hfi_location_enter_cell(hfi_location *location, uint32_t region);
void hfi_location_leave_cell(hfi_location *location, uint64_t ticks);
/* Leave what `owner` entered last. Entries above it are left as well; the user regions
 * among them are entered again, so a region begun in a helper function outlives it.
 * Unknown owners (entered before events were on) are ignored. */
void hfi_location_leave(hfi_location *location, hfi_owner owner);
/* Leave the innermost user region with this id, wherever it is on the stack; false when
 * it isn't open. */
bool hfi_location_leave_user(hfi_location *location, uint32_t region);
/* A frame that runs now. An address alone would not do: it may have been given to a new
 * frame since. */
typedef struct hfi_live_frame {
    hfi_owner owner;
    uint32_t region;
} hfi_live_frame;

/* Leave the function entries that don't belong to one of `live` (innermost first), and
 * forget the hider if it isn't one of them. `live` is of the greenlet that runs. */
void hfi_location_keep_only(hfi_location *location, const hfi_live_frame *live,
                            size_t live_count);

/* Another greenlet of the thread runs from now on. 0 stands for the thread itself, what
 * it has open stays open below. What `from` has open is left, and entered again when it
 * goes on. `doubtful`: functions of `from` may have returned without an event. True if
 * that is so of `to`; then `live` is needed, its frames, innermost first: what else it
 * had open isn't entered again. Both are called, one after the other. */
bool hfi_location_suspend(hfi_location *location, uintptr_t from, uintptr_t to,
                          bool doubtful);
void hfi_location_resume(hfi_location *location, uintptr_t to,
                         const hfi_live_frame *live, size_t live_count);

/* In a forked child: what is open on the parent's location is open here without an
 * enter, since these are visits of the parent's. `region` is entered in their place; it
 * stays open to the end. */
void hfi_location_inherit(hfi_location *location, const hfi_location *from,
                          uint32_t region);

/* Leave everything, and write out the log; the location gets no more events. */
void hfi_location_finish(hfi_location *location);

/* A mark of the trace that later events may be dropped back to. The name is a string
 * id. HF_E_NOMEM. rewind_end returns HF_NOT_FOUND without a begin, and HF_DECLINED if
 * the events since then can't be dropped (flushed, or other regions are open than at
 * the begin). */
HF_CHECK hf_status hfi_location_rewind_begin(hfi_location *location, uint32_t name);
HF_CHECK hf_status hfi_location_rewind_end(hfi_location *location, uint32_t name,
                                           bool drop);

/* Note in the trace that recording is switched. */
void hfi_location_mark_recording(hfi_location *location, bool on);

void hfi_location_parameter_int(hfi_location *location, uint32_t parameter,
                                int64_t value);
void hfi_location_parameter_uint(hfi_location *location, uint32_t parameter,
                                 uint64_t value);
void hfi_location_parameter_string(hfi_location *location, uint32_t parameter,
                                   uint32_t string);

#endif
