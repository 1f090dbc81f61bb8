/* backend.h - the destination of recorded events: a table of functions.
 *
 * The recorder calls these with the interpreter's lock held, so a back end needs no
 * lock of its own. A writer belongs to one location (one thread). Event functions
 * return 0, or another number if the event could not be stored; with an immediate back
 * end the recorder then stops that location, and counts the events that it loses. They
 * must neither raise nor print.
 *
 * Events come at the end, location by location, with the times at which they happened.
 * An immediate back end gets each event at once, on the event's thread, and takes its
 * own times. Only the leaves of regions that were open at the end may come from another
 * thread.
 */
#ifndef HOLDFAST_RECORDER_BACKEND_H
#define HOLDFAST_RECORDER_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event_log.h"
#include "holdfast/error.h"
#include "profile.h"

/* What close() needs to know about one location. */
typedef struct hfi_location_summary {
    uint64_t id;
    const char *name;
    uint64_t events; /* written */
} hfi_location_summary;

/* What close() needs to know about the whole recording. Times are ticks of the
 * recorder's clock. */
typedef struct hfi_recording_summary {
    const hfi_definitions *definitions;
    const hfi_location_summary *locations;
    size_t location_count;
    uint64_t ticks_per_second;
    uint64_t begin_time;
    uint64_t end_time;
    uint64_t begin_realtime; /* ns since 1970 at begin_time */
    uint64_t end_realtime;   /* the same at end_time */
    uint64_t cpu_ns; /* processor time of the process; wall time if it was killed */
    bool has_rank;   /* it is a process of MPI */
    uint32_t rank;
    const char *process_name;
    const char *host_name;
    const char *machine; /* that counted the ticks; NULL: the first process's */
    bool was_killed;     /* the process ended without closing its recording */
    bool is_traced;      /* its events belong to the archive */
    bool is_cut; /* they can't be written to the archive, and stay in the log file */
    const hfi_profile *profile; /* NULL: none */
    hfi_profile_files profile_files;
} hfi_recording_summary;

/* What an archive has of other processes than the one that writes it. */
typedef struct hfi_others {
    uint64_t events;
    uint64_t cpu_ns;
} hfi_others;

typedef struct hfi_backend {
    const char *name;
    bool immediate;

    /* Begin an archive in an existing, empty directory (an immediate back end makes its
     * own). A process that joins finds what other processes have made. HF_NOT_FOUND:
     * they have all ended. The definitions outlive the archive. Failures: HF_E_SYSTEM,
     * HF_E_NOMEM, HF_E_INVALID. */
    hf_status (*open)(const char *directory, const hfi_definitions *definitions,
                      bool joins, void **ret_archive, hf_error *reterr);
    /* The path for this process's log file, which the caller frees. NULL: the back end
     * uses none. Failures: HF_E_NOMEM. */
    hf_status (*log_path)(void *archive, char **ret_path);
    /* Write the definitions and the profile, remove the log file, and release the
     * archive, also after a failure. Without a summary only release it. `ret_others`,
     * unless NULL: what was written of other processes, too. */
    hf_status (*close)(void *archive, const hfi_recording_summary *summary,
                       hfi_others *ret_others, hf_error *reterr);
    /* Whether no other process takes part, or will. NULL: that isn't known. */
    bool (*is_alone)(const void *archive);
    /* Allow other processes to join from now on. NULL: nothing has to be done for that.
     * Failures: HF_E_SYSTEM, HF_E_NOMEM. */
    hf_status (*share)(void *archive, hf_error *reterr);
    /* Called around a fork, in the parent: make a place for the child. NULL: forked
     * children can't be recorded. */
    void (*fork_begin)(void *archive);
    void (*fork_end)(void *archive);
    /* In the child, after fork_begin() and abandon(): go on as a further process, and
     * release the parent's archive. Failures: as open(). */
    hf_status (*reopen)(void *archive, void **ret_archive, hf_error *reterr);

    /* In a forked child: make sure that nothing more is written to the parent's
     * files. */
    void (*abandon)(void *archive);

    hf_status (*writer_open)(void *archive, uint64_t location, void **ret_writer,
                             hf_error *reterr);
    /* Write out the buffer, and release it. */
    hf_status (*writer_close)(void *archive, void *writer, hf_error *reterr);

    int (*enter)(void *writer, uint64_t time, uint32_t region);
    int (*leave)(void *writer, uint64_t time, uint32_t region);
    /* The events below are ignored where a back end has NULL. */
    int (*parameter_int)(void *writer, uint64_t time, uint32_t parameter,
                         int64_t value);
    int (*parameter_uint)(void *writer, uint64_t time, uint32_t parameter,
                          uint64_t value);
    int (*parameter_string)(void *writer, uint64_t time, uint32_t parameter,
                            uint32_t string);
    int (*recording)(void *writer, uint64_t time, bool on);

    /* The program stood still while its full log was written out, which doesn't happen
     * with an immediate back end. */
    int (*flushed)(void *writer, uint64_t start, uint64_t stop);

    /* For a back end that keeps the marks to which events are taken back itself; `name`
     * is a string id. NULL: the log keeps them. */
    int (*rewind_begin)(void *writer, uint32_t name);
    int (*rewind_end)(void *writer, uint32_t name, bool drop);
} hfi_backend;

extern const hfi_backend hfi_otf2_backend;
/* For recordings that have a profile only. */
extern const hfi_backend hfi_profile_backend;
/* It takes all events, and does nothing with them. Only event functions are there. */
extern const hfi_backend hfi_no_backend;

/* Call the function above that takes this event. */
int hfi_backend_write(const hfi_backend *backend, void *writer,
                      const hfi_log_event *event);

/* ---- scorep_backend.c ----
 *
 * The back end that hands events to Score-P's measurement library.
 */

/* Load Score-P into this process, or find it if it was preloaded or is loaded already.
 * `table`: path of scorep_subsystems.c's library. `bundle`: path of a library that
 * depends on all of Score-P's. `subsystems`: their names, each followed by a blank.
 * Needed once before a recording with this back end. Failures: HF_E_SYSTEM,
 * HF_E_INVALID. */
HF_CHECK hf_status hfi_scorep_load(const char *table, const char *bundle,
                                   const char *subsystems, hf_error *reterr);

extern const hfi_backend hfi_scorep_backend;

#endif
