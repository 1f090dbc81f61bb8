/* recorder.h - one recording: its locations, their open regions, its back end.
 *
 * It knows nothing of Python. The caller says which location an event belongs to.
 *
 * Threads: one call at a time for one recorder and all of its locations. The caller
 * serializes them (the extension by the interpreter's lock). Only `finished` is set
 * without that. Ownership: a recorder owns its locations, definitions and files.
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
    /* absolute path; it exists, and is empty unless this process joins */
    const char *directory;
    const hfi_backend *backend; /* NULL: neither trace nor profile */
    bool profiling;             /* write a call-path profile */
    hfi_calltree_room room;     /* limits of its trees */
    hfi_profile_files profile_files;
    uint64_t buffer_bytes;  /* of all locations' logs in memory */
    uint64_t reserve_bytes; /* which stay free on the file system of the directory */
    bool joins;             /* it joins the recording of other processes */
    bool has_rank;          /* this is a process of MPI */
    uint32_t rank;
    bool children; /* forked children are recorded, too */
} hf_recorder_options;

/* The owner of an entry of a location's stack. A function's owner is its frame's
 * address; that of a C function is its caller's frame plus one. A user region, a
 * notebook's cell, and the lowest region of a forked child have no frame. */
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
    hfi_owner hider; /* the location's hider, which this entry lifted; 0: none */
    uint32_t region; /* HFI_REGION_NONE: never in the trace */
    bool logged;     /* its enter was logged; if not, nothing was recorded then */
    bool untraced;   /* its enter was taken back */
    /* it belongs to the parent of a forked child, and is in no trace of the child */
    bool inherited;
} hfi_open_region;

/* What costs more or less than other calls do; the hooks count it. */
typedef struct hfi_call_kinds {
    uint64_t made;        /* generators; not events, but they take time */
    uint64_t from_c;      /* calls that C code made, without those of generators */
    uint64_t deep_from_c; /* of these, after HFI_NESTED_RUN enters in a row */
    uint64_t raised;      /* calls that an exception ended */
    uint64_t of_c;        /* calls of C functions */
    uint64_t bound;       /* of these, methods that were bound for the hook only */
} hfi_call_kinds;

/* One thread. Only the fields that events need are public. */
typedef struct hfi_location {
    hfi_event_log log;
    hfi_open_region *stack;
    size_t depth, capacity;
    hfi_owner hider; /* the frame below which nothing is recorded; 0: none */
    /* number of the thread's own entries, below those of the running greenlet; 0 if
     * none runs */
    size_t base;
    bool logging; /* recording is on, and the log's events are used */
    hf_recorder *recorder;
    const hfi_backend *backend;
    void *writer; /* of an immediate back end; NULL: closed or none */
    bool broken;  /* the back end refused an event, or the log's file has no room */
    hfi_calltree *tree; /* NULL: no profile */
    hfi_event_reader traced, profiled;
    uint64_t flushes; /* how often the log was full */
    uint64_t flush_ticks;
    uint64_t id;
    uint64_t lost;         /* events that there was no room for */
    uint64_t events;       /* in the trace; counted at the end, unless immediate */
    hfi_event_kinds kinds; /* of `events`; counted likewise */
    hfi_call_kinds calls;
    uint64_t own_ns;  /* processor time for its memory and files */
    uint64_t rewound; /* events that were taken back */
    char name[64];
    struct hfi_rewind *rewinds; /* innermost first */
    /* those that don't run now, and the thread itself */
    struct hfi_suspended *suspended;
    _Atomic bool finished; /* the thread has ended; set without a lock */
} hfi_location;

typedef struct hfi_recording_totals {
    uint64_t events;
    hfi_event_kinds kinds;
    hfi_call_kinds calls;
    double own_seconds; /* see hfi_location */
    hfi_others others;  /* in the same archive */
    uint64_t lost;
    int trouble; /* why they were lost, as errno; 0: for another reason */
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

/* Leave all open regions, and count: then hf_recorder_close() writes the trace, whenever
 * it is called, and nothing of what it writes changes. HF_DECLINED: close it now. There
 * is a profile to be written, or other processes take part. Failures: HF_E_SYSTEM,
 * HF_E_NOMEM; then close it, too. */
HF_CHECK hf_status hf_recorder_end(hf_recorder *recorder,
                                   hfi_recording_totals *ret_totals, hf_error *reterr);
/* Release a recording that has been ended, and write nothing: any process can make the
 * same trace of its log file, by hfi_recover() of parts.h. HF_DECLINED: the disk has no
 * room for the trace. Close it, which says so. */
HF_CHECK hf_status hf_recorder_leave(hf_recorder *recorder);

/* Leave all open regions, write the trace and the profile, and release everything, also
 * on failure. After a failure the log file stays, and parts.h can try again. NULL is
 * fine. HF_E_SYSTEM: a file can't be written; HF_E_NOMEM; HF_E_INVALID: the profile's
 * name is too long. */
HF_CHECK hf_status hf_recorder_close(hf_recorder *recorder,
                                     hfi_recording_totals *ret_totals,
                                     hf_error *reterr);

/* In a forked child: end the recording without touching the parent's files. */
void hf_recorder_abandon(hf_recorder *recorder);

/* Make the recording an experiment that other processes can join by themselves (spawned
 * children, ranks). HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hf_recorder_share(hf_recorder *recorder, hf_error *reterr);

/* Call these around a fork, in the parent. If children are recorded, they make a place
 * for one. */
void hf_recorder_fork_begin(hf_recorder *recorder);
void hf_recorder_fork_end(hf_recorder *recorder);

/* In a forked child: go on as a further process of the experiment. Regions keep their
 * numbers, and all locations are gone. The new location inherits what was open on
 * `from`, the location of the only thread that is left (or NULL). HF_DECLINED: children
 * aren't recorded. After that, or after a failure, the recorder can only be abandoned.
 * HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hf_recorder_continue(hf_recorder *recorder, const hfi_location *from,
                                        hfi_location **ret_location, hf_error *reterr);

/* Let the trace begin now, unless something was recorded already. A caller that opens a
 * recording in advance doesn't want the time until then in it. */
void hf_recorder_begin_now(hf_recorder *recorder);

/* Switch the writing of events. Regions that are open stay balanced. `location` gets a
 * mark in the trace. */
void hf_recorder_set_recording(hf_recorder *recorder, hfi_location *location, bool on);
bool hf_recorder_is_recording(const hf_recorder *recorder);

hfi_definitions *hf_recorder_get_definitions(hf_recorder *recorder);

/* A location for a thread. It is the recorder's, and lives until that is closed. If the
 * log's file has no room for its events, they are lost, and counted. `name` may be NULL. Locations whose threads have ended (`finished`) are written out here.
 * HF_E_NOMEM; HF_E_SYSTEM: the log's file or the back end failed; HF_E_INVALID: Score-P
 * records one thread only. */
HF_CHECK hf_status hf_recorder_add_location(hf_recorder *recorder, const char *name,
                                            hfi_location **ret_location,
                                            hf_error *reterr);

void hfi_location_enter(hfi_location *location, hfi_owner owner, uint32_t region);
/* Enter even if the location has a hider, which is lifted until this entry is left. */
void hfi_location_enter_lifting(hfi_location *location, hfi_owner owner,
                                uint32_t region);
/* The same for a frame that has no region of its own. */
void hfi_location_lift(hfi_location *location, hfi_owner owner);
/* Enter a cell, unless one is open. Leaving it also leaves everything that it has left
 * open, at a time that may lie in the past. */
void hfi_location_enter_cell(hfi_location *location, uint32_t region);
void hfi_location_leave_cell(hfi_location *location, uint64_t ticks);
/* Leave what `owner` entered last. Entries above it are left as well. The user regions
 * among them are entered again, so a region that began in a helper function outlives
 * it. Unknown owners (entered before events were on) are ignored. */
void hfi_location_leave(hfi_location *location, hfi_owner owner);
/* Leave the innermost user region with this id, wherever it is on the stack. Returns
 * false if it isn't open. */
bool hfi_location_leave_user(hfi_location *location, uint32_t region);
/* A frame that runs now. The region is needed, too, because a new frame may have got
 * the same address since. */
typedef struct hfi_live_frame {
    hfi_owner owner;
    uint32_t region;
} hfi_live_frame;

/* Leave the function entries that don't belong to one of `live`, and drop the hider if
 * it isn't one of them. `live` has the frames of the running greenlet, innermost
 * first. */
void hfi_location_keep_only(hfi_location *location, const hfi_live_frame *live,
                            size_t live_count);

/* Another greenlet of the thread runs from now on. Call both functions, one after the
 * other. Greenlet 0 is the thread itself, and what it has open stays open below. What
 * `from` has open is left, and entered again when it goes on. `doubtful`: functions of
 * `from` may have returned without an event. If suspend returns true, that is so for
 * `to`: then resume needs `live`, the frames of `to`, innermost first. Other functions
 * that it had open aren't entered again. */
bool hfi_location_suspend(hfi_location *location, uintptr_t from, uintptr_t to,
                          bool doubtful);
void hfi_location_resume(hfi_location *location, uintptr_t to,
                         const hfi_live_frame *live, size_t live_count);

/* In a forked child: what is open on the parent's location is open here, but without an
 * enter, since these visits belong to the parent. `region` is entered in their place,
 * and stays open to the end. */
void hfi_location_inherit(hfi_location *location, const hfi_location *from,
                          uint32_t region);

/* Leave everything, and write out the log. The location gets no more events. */
void hfi_location_finish(hfi_location *location);

/* Set a mark in the events, to which later events may be dropped. The name is
 * a string id. HF_E_NOMEM. rewind_end returns HF_NOT_FOUND without a begin. It returns
 * HF_DECLINED if the events since then can't be dropped: they were flushed, or other
 * regions are open than at the mark. */
HF_CHECK hf_status hfi_location_rewind_begin(hfi_location *location, uint32_t name);
HF_CHECK hf_status hfi_location_rewind_end(hfi_location *location, uint32_t name,
                                           bool drop);

/* Note in the trace that recording was switched. */
void hfi_location_mark_recording(hfi_location *location, bool on);

void hfi_location_parameter_int(hfi_location *location, uint32_t parameter,
                                int64_t value);
void hfi_location_parameter_uint(hfi_location *location, uint32_t parameter,
                                 uint64_t value);
void hfi_location_parameter_string(hfi_location *location, uint32_t parameter,
                                   uint32_t string);

#endif
