/* profile_replay.c - the profile of a process that left its log file only.
 *
 * The trees of a process that was killed are gone with it, but its events are in its
 * log file (log_file.c), and they are what the trees were made of. So they are made
 * again: the events are read as for a trace, and a tree takes the place of the archive.
 * What was open is left at the last event, as in the trace. Nothing is said of what was
 * taken back by a rewind: a profile that was closed would have it.
 */
#include "profile_replay.h"

static int
tree_enter(void *tree, uint64_t time, uint32_t region) {
    /* Without memory the tree knows what to do with the leave. */
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

static int
ignore_int(void *tree, uint64_t time, uint32_t parameter, int64_t value) {
    (void)tree, (void)time, (void)parameter, (void)value;
    return 0;
}

static int
ignore_uint(void *tree, uint64_t time, uint32_t parameter, uint64_t value) {
    (void)tree, (void)time, (void)parameter, (void)value;
    return 0;
}

static int
ignore_string(void *tree, uint64_t time, uint32_t parameter, uint32_t string) {
    (void)tree, (void)time, (void)parameter, (void)string;
    return 0;
}

static int
ignore_recording(void *tree, uint64_t time, bool on) {
    (void)tree, (void)time, (void)on;
    return 0;
}

static const hfi_backend into_tree = {.name = "calltree",
                                      .enter = tree_enter,
                                      .leave = tree_leave,
                                      .flushed = tree_flushed,
                                      .parameter_int = ignore_int,
                                      .parameter_uint = ignore_uint,
                                      .parameter_string = ignore_string,
                                      .recording = ignore_recording};

static hf_status
replay_location(const hfi_log_reader *log, size_t index, hfi_calltree_room *room,
                hfi_profile *profile, uint32_t process) {
    hfi_location_summary location = hfi_log_reader_location(log, index);
    uint64_t events, last_time;
    hfi_calltree *tree;
    hf_status status = hfi_calltree_create(room, &tree);
    if (status != HF_OK)
        return status;
    status = hfi_log_reader_write(log, index, &into_tree, tree, &events, &last_time);
    if (status == HF_OK)
        status = hfi_profile_add_location(profile, process, location.id, location.name,
                                          hfi_log_reader_definitions(log), tree,
                                          hfi_log_reader_ticks_per_second(log));
    hfi_calltree_close(tree);
    return status;
}

hf_status
hfi_profile_replay(const hfi_log_reader *log, hfi_profile **ret_profile) {
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
