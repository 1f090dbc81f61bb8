/* trace_recovery.c - the trace of processes that ended without closing their recording, or
 * left it to others.
 *
 * A process that dies leaves its log file, and removes it only when its events are in
 * the archive. One that lives may leave it, too, when it has ended its recording
 * (hf_recorder_leave): the file then names no owner, as if that were dead. So such a file
 * is work to be done, and doing it twice does no harm. The process that finds it makes an
 * ended part of it, as the dead process itself would have: event files and a part file.
 * If the dead process was to have a profile, it is made from the same events. Then
 * archive and profile are written as usual (experiment.c).
 *
 * Who finds it: other processes of the experiment, when they close; the guardian of a
 * lone process (guardian.c), which the kernel starts for a cell; readers of the trace.
 * `--recover` is for everything else.
 *
 * A part is alive while its byte of the lock file is locked, or while its process
 * exists: a program may have closed the descriptor that has the lock, and a process
 * that has executed another program must not be disturbed. A process in another
 * container can only be seen by its lock. A lone process has none, so there it is taken
 * to be alive. If a process has begun to exit, we wait for its end. Locks are released
 * a little before the process is gone: a process that waited for them would otherwise
 * find it alive, and nobody would come again.
 *
 * All of this happens with the gate closed, so only one process does it at a time.
 */
#include "parts.h"
#include "otf2_files.h"
#include "log_reader.h"
#include "profile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- its profile ---------------------------------------------------------------- */

/* The trees of a killed process are lost, but they were made of its events, which are
 * in its log file (log_file.c). So they are made again: the events are read as for a
 * trace, with a tree in place of the archive. Regions that were open are left at the
 * last event, as in the trace. One difference: events that a rewind took back are
 * missing here, while a profile that was closed in order has them. */

static int
tree_enter(void *tree, uint64_t time, uint32_t region) {
    /* Without memory the tree ignores the leave. */
    (void)!hfi_calltree_enter(tree, region, time);
    return 0;
}

static int
tree_leave(void *tree, uint64_t time, uint32_t region) {
    (void)region;
    hfi_calltree_leave(tree, time);
    return 0;
}

static int
tree_flushed(void *tree, uint64_t start, uint64_t stop) {
    hfi_calltree_add_flush(tree, stop - start);
    return 0;
}

static const hfi_backend into_tree = {.name = "calltree",
                                      .enter = tree_enter,
                                      .leave = tree_leave,
                                      .flushed = tree_flushed};

static hf_status
replay_location(const hfi_log_reader *log, size_t index, hfi_calltree_room *room,
                hfi_profile *profile, uint32_t process) {
    hfi_location_summary location = hfi_log_reader_location(log, index);
    hfi_events_written written;
    hfi_calltree *tree;
    hf_status status = hfi_calltree_create(room, &tree);
    if (status != HF_OK)
        return status;
    status = hfi_log_reader_write(log, index, &into_tree, tree, &written);
    if (status == HF_OK)
        status = hfi_profile_add_location(profile, process, location.id, location.name,
                                          hfi_log_reader_definitions(log), tree,
                                          hfi_log_reader_ticks_per_second(log));
    hfi_calltree_close(tree);
    return status;
}

/* NULL in *ret_profile: the process was to have none. HF_E_NOMEM. */
static hf_status
replay_profile(const hfi_log_reader *log, hfi_profile **ret_profile) {
    const hfi_log_head *head = hfi_log_reader_head(log);
    hfi_calltree_room room = {head->profile_depth, head->profile_paths};
    hfi_profile *profile;
    uint32_t process;
    *ret_profile = NULL;
    if (!head->profile_formats)
        return HF_OK;
    hf_status status = hfi_profile_create(&profile);
    if (status != HF_OK)
        return status;
    status =
        hfi_profile_add_process(profile, head->process_name, head->host_name, &process);
    for (size_t i = 0; i < hfi_log_reader_count_locations(log) && status == HF_OK; i++)
        status = replay_location(log, i, &room, profile, process);
    if (status == HF_OK)
        *ret_profile = profile;
    else
        hfi_profile_close(profile);
    return status;
}

/* ---- its parts ------------------------------------------------------------------ */

hf_status
hfi_log_path(const char *directory, uint32_t number, char **ret_path) {
    return asprintf(ret_path, "%s/log-%u", directory, number) < 0 ? HF_E_NOMEM : HF_OK;
}

/* The number of a part by its log file's name; HFI_PART_NONE for other names. */
static uint32_t
number_of(const char *name) {
    char *end;
    if (strncmp(name, "log-", 4) != 0 || name[4] < '0' || name[4] > '9')
        return HFI_PART_NONE;
    unsigned long number = strtoul(name + 4, &end, 10);
    return *end || number > HFI_PART_NONE ? HFI_PART_NONE : (uint32_t)number;
}

typedef struct numbers {
    uint32_t *items;
    size_t count;
} numbers;

static hf_status
find_logs(const char *directory, numbers *ret_found, hf_error *reterr) {
    hf_status status = HF_OK;
    DIR *entries = opendir(directory);
    *ret_found = (numbers){NULL, 0};
    if (!entries)
        return hf_error_set_errno(reterr, errno, "opening %s", directory);
    for (struct dirent *entry; status == HF_OK && (entry = readdir(entries));) {
        uint32_t number = number_of(entry->d_name);
        if (number == HFI_PART_NONE)
            continue;
        uint32_t *grown =
            realloc(ret_found->items, (ret_found->count + 1) * sizeof *grown);
        if (!grown) {
            status = HF_E_NOMEM;
            break;
        }
        grown[ret_found->count++] = number;
        ret_found->items = grown;
    }
    closedir(entries);
    if (status != HF_OK)
        free(ret_found->items);
    return status;
}

/* `visitor` NULL: nobody has locks. */
static bool
is_alive(const hfi_trace_part *visitor, uint32_t number, const hfi_log_reader *log) {
    if (visitor && hfi_trace_part_is_alive(visitor, number))
        return true;
    int alive = hfi_process_await_end(&hfi_log_reader_head(log)->process);
    return alive > 0 || (alive < 0 && number == 0);
}

/* -- one part ---------------------------------------------------------------------- */

static hf_status
write_locations(const hfi_log_reader *log, void *archive,
                hfi_location_summary *locations, uint64_t *ret_end, hf_error *reterr) {
    const hfi_backend *backend = &hfi_otf2_backend;
    hf_status status = HF_OK;
    *ret_end = hfi_log_reader_head(log)->begin_time;
    for (size_t i = 0; i < hfi_log_reader_count_locations(log) && status == HF_OK;
         i++) {
        hfi_events_written written;
        void *writer;
        locations[i] = hfi_log_reader_location(log, i);
        status = backend->writer_open(archive, locations[i].id, &writer, reterr);
        if (status != HF_OK)
            break;
        status = hfi_log_reader_write(log, i, backend, writer, &written);
        locations[i].events = written.events;
        if (status != HF_OK)
            hf_error_set(reterr, status, "the archive takes no more events");
        hf_status closed =
            backend->writer_close(archive, writer, status == HF_OK ? reterr : NULL);
        status = status == HF_OK ? closed : status;
        *ret_end = written.last_time > *ret_end ? written.last_time : *ret_end;
    }
    return status;
}

static hf_status
write_part(const hfi_log_reader *log, void *archive, uint64_t *ret_events,
           hf_error *reterr) {
    const hfi_log_head *head = hfi_log_reader_head(log);
    size_t count = hfi_log_reader_count_locations(log);
    hfi_location_summary *locations = calloc(count + 1, sizeof *locations);
    hfi_profile *profile = NULL;
    uint64_t end_time;
    hf_status status = locations ? HF_OK : HF_E_NOMEM;
    if (status == HF_OK)
        status = replay_profile(log, &profile);
    if (status == HF_OK)
        status = write_locations(log, archive, locations, &end_time, reterr);
    if (status != HF_OK) {
        (void)hfi_otf2_backend.close(archive, NULL, NULL, NULL);
        hfi_profile_close(profile);
        free(locations);
        return status;
    }
    uint64_t rate = hfi_log_reader_ticks_per_second(log);
    bool is_ended = head->end_time != 0;
    end_time = head->end_time > end_time ? head->end_time : end_time;
    double seconds = (double)(end_time - head->begin_time) / (double)rate;
    uint64_t ns = (uint64_t)(seconds * 1e9);
    hfi_recording_summary summary = {
        .definitions = hfi_log_reader_definitions(log),
        .locations = locations,
        .location_count = count,
        .begin_time = head->begin_time,
        .ticks_per_second = rate,
        .end_time = end_time,
        .cpu_ns = is_ended ? head->cpu_ns : ns, /* no less than it used on one thread */
        .begin_realtime = head->begin_realtime,
        .end_realtime = is_ended ? head->end_realtime : head->begin_realtime + ns,
        .has_rank = head->has_rank != 0,
        .rank = (uint32_t)head->rank,
        .process_name = head->process_name,
        .host_name = head->host_name,
        .machine = head->machine,
        .was_killed = !is_ended,
        .is_traced = true,
        .profile = profile,
        .profile_files = {head->profile_name, (unsigned)head->profile_formats}};
    status = hfi_otf2_backend.close(archive, &summary, NULL, reterr);
    hfi_profile_close(profile);
    for (size_t i = 0; i < count; i++)
        *ret_events += locations[i].events;
    free(locations);
    return status;
}

static hf_status
recover_one(const hfi_trace_part *self, uint32_t number, const hfi_log_reader *log,
            uint64_t *ret_events, hf_error *reterr) {
    hfi_trace_part part = {.directory = self->directory, .number = number, .lock = -1};
    void *archive;
    if (asprintf(&part.own, "%s/parts/%u", part.directory, number) < 0)
        return HF_E_NOMEM;
    hf_status status = HF_OK;
    hfi_trace_part_remove(part.own); /* of a process that couldn't finish it */
    if (mkdir(part.own, 0777) != 0)
        status = hf_error_set_errno(reterr, errno, "creating %s", part.own);
    if (status == HF_OK)
        status = hfi_otf2_open_dead(&part, &archive);
    if (status == HF_OK)
        status = write_part(log, archive, ret_events, reterr);
    free(part.own);
    return status;
}

/* -- all of them ------------------------------------------------------------------- */

/* Whether the process lived to write the head. A lone one, number 0, may be writing it
 * now. */
static bool
was_begun(const hfi_trace_part *self, uint32_t number, const char *path) {
    uint64_t mark = 0;
    if (number == 0 || hfi_trace_part_is_alive(self, number))
        return true;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true; /* opening it again finds the reason */
    bool is_read = pread(fd, &mark, sizeof mark, 0) >= 0;
    close(fd);
    return !is_read || mark != 0;
}

/* Add the outcome for one file. HF_NOT_FOUND: there is nothing in it, or it is gone. */
static hf_status
recover_log(const hfi_trace_part *self, uint32_t number, hfi_recovered *recovered,
            hf_error *reterr) {
    hfi_log_reader *log = NULL;
    char *path;
    bool done = false, is_ended = false;
    hf_status status = hfi_log_path(self->directory, number, &path);
    if (status != HF_OK)
        return status;
    if (!was_begun(self, number, path)) {
        (void)unlink(path);
        status = HF_NOT_FOUND;
    }
    if (status == HF_OK)
        status = hfi_log_reader_open(path, NULL, &log, reterr);
    if (status == HF_OK && !is_alive(self, number, log)) {
        status = recover_one(self, number, log, &recovered->events, reterr);
        done = status == HF_OK;
        is_ended = hfi_log_reader_head(log)->end_time != 0;
    }
    hfi_log_reader_close(log);
    free(path);
    recovered->processes += done && !is_ended;
    recovered->ended += done && is_ended;
    recovered->left += !done && status != HF_NOT_FOUND;
    return status;
}

hf_status
hfi_recover_parts(const hfi_trace_part *self, hfi_recovered *ret_recovered,
                  hf_error *reterr) {
    numbers found;
    hf_status status = find_logs(self->directory, &found, reterr);
    *ret_recovered = (hfi_recovered){0};
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < found.count; i++) {
        if (found.items[i] == self->number)
            continue;
        hf_status one = recover_log(self, found.items[i], ret_recovered,
                                    status == HF_OK ? reterr : NULL);
        status = status == HF_OK && one != HF_NOT_FOUND ? one : status;
    }
    free(found.items);
    return status;
}

static hfi_recording_state
state_of_log(const char *directory, uint32_t number) {
    hfi_log_reader *log;
    char *path;
    if (hfi_log_path(directory, number, &path) != HF_OK)
        return HFI_RECORDING_GOES_ON; /* leave it alone */
    hf_status status = hfi_log_reader_open(path, NULL, &log, NULL);
    free(path);
    if (status == HF_NOT_FOUND) /* its process has just written everything */
        return HFI_RECORDING_NONE;
    if (status != HF_OK) /* damaged: it will be reported */
        return HFI_RECORDING_LEFT;
    hfi_recording_state state = HFI_RECORDING_LEFT;
    if (is_alive(NULL, number, log))
        state = hfi_log_reader_head(log)->end_time ? HFI_RECORDING_ENDED
                                                   : HFI_RECORDING_GOES_ON;
    hfi_log_reader_close(log);
    return state;
}

static hfi_recording_state
state_of_logs(const char *directory, const numbers *found) {
    hfi_recording_state state = HFI_RECORDING_NONE;
    for (size_t i = 0; i < found->count && state != HFI_RECORDING_LEFT; i++) {
        hfi_recording_state one = state_of_log(directory, found->items[i]);
        state = one > state ? one : state;
    }
    return state;
}

static bool
has_parts(const char *directory) {
    char *path;
    if (asprintf(&path, "%s/parts", directory) < 0)
        return false;
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

/* Whether a process has ended there whose part is still needed. */
static bool
has_ended_part(const char *directory) {
    char path[4096];
    bool found = false;
    if (snprintf(path, sizeof path, "%s/parts", directory) >= (int)sizeof path)
        return true;
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        snprintf(path, sizeof path, "%.300s/part", entry->d_name);
        found = faccessat(dirfd(entries), path, F_OK, 0) == 0;
    }
    if (entries)
        closedir(entries);
    return found;
}

hfi_recording_state
hfi_recovery_look(const char *directory) {
    numbers found;
    if (find_logs(directory, &found, NULL) != HF_OK)
        return HFI_RECORDING_NONE;
    hfi_recording_state state = state_of_logs(directory, &found);
    free(found.items);
    if (state == HFI_RECORDING_NONE && has_ended_part(directory))
        state = HFI_RECORDING_LEFT; /* somebody writes it now, or couldn't finish it */
    return state;
}

/* If others have written everything and removed their parts, the visit has made an
 * empty place, which is removed. */
static hf_status
recover_visiting(const char *directory, hfi_recovered *ret_recovered,
                 hf_error *reterr) {
    hfi_trace_part visitor;
    hf_status status = hfi_trace_part_visit(directory, &visitor, reterr);
    if (status != HF_OK)
        return status;
    status = hfi_recover_parts(&visitor, ret_recovered, reterr);
    bool is_last = hfi_trace_part_is_last(&visitor) && ret_recovered->left == 0;
    bool has_more = ret_recovered->processes + ret_recovered->ended > 0;
    if (status == HF_OK && (has_more || is_last))
        status =
            hfi_experiment_write(directory, HFI_PART_NONE, NULL, NULL, NULL, reterr);
    bool is_done =
        status == HF_OK || (status == HF_NOT_FOUND && !has_ended_part(directory));
    hfi_trace_part_leave(&visitor, is_done && is_last);
    return status;
}

hf_status
hfi_recover(const char *directory, hfi_recovered *ret_recovered, hf_error *reterr) {
    numbers found;
    *ret_recovered = (hfi_recovered){0};
    hf_status status = find_logs(directory, &found, reterr);
    if (status != HF_OK)
        return status;
    hfi_recording_state state = state_of_logs(directory, &found);
    free(found.items);
    if (state == HFI_RECORDING_NONE && !has_parts(directory))
        return HF_NOT_FOUND;
    /* A lone process must not be visited: the visit would make it a part for nothing. */
    if (state == HFI_RECORDING_ENDED || state == HFI_RECORDING_GOES_ON)
        return HF_BUSY;
    return recover_visiting(directory, ret_recovered, reterr);
}
