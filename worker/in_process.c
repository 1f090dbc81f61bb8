/* in_process.c - cells that the main worker runs itself, plain or not.
 *
 * Before a cell that may be a risk the frontend asks for a fork that sleeps: the rollback.
 * If the main worker dies, the fork wakes. As a rule it goes on as the main worker, with
 * all variables. If the process had something at the fork that a fork lacks (threads,
 * children, or what the language names), it only prepares a commit of what the store
 * doesn't have, and ends; a new main worker binds that.
 */
#include <stdio.h>
#include <unistd.h>

#include "forking.h"
#include "running.h"
#include "ways.h"

hf_status
hfi_in_process_run(hf_worker *worker, hf_error *reterr) {
    hf_error why = HF_ERROR_INIT;
    hf_status status = hfi_running_prepare(worker, reterr);
    worker->ran = true;
    if (status != HF_OK)
        return status;
    hf_status prepared = hfi_saving_catch_up(worker, &why);
    if (!hfi_running_run(worker, prepared, &why))
        return HF_OK;
    return hfi_running_hand_back(worker, reterr);
}

/* ---- the sleeping fork ----------------------------------------------------------- */

/* The frontend publishes it while this process lives. */
static void
commit_and_leave(hf_worker *worker, int64_t id) {
    hfi_saved saved;
    hf_error error = HF_ERROR_INIT;
    hfi_saving_save(worker, &saved);
    if (hfi_self_send(worker,
                      HFI_FRAME(from_worker_reply, .id = id, .report = &saved.report,
                                .prepared = saved.prepared,
                                .unserializable = saved.unserializable),
                      &error) != HF_OK)
        hfi_self_complain("the last variables can't be saved", &error);
    while (!hfi_channel_has_ended(worker->channel) &&
           hfi_channel_fill(worker->channel, &error) == HF_OK)
        hfi_channel_wait(worker->channel, -1);
    _exit(0);
}

/* In the fork: the main worker is dead. */
static hf_status
wake_up(hf_worker *worker, const char *obstacle, hf_error *reterr) {
    hfi_incoming *incoming;
    hfi_any_frame frame;
    hf_status status = hfi_self_await(worker, "wake", false, &incoming, reterr);
    if (status == HF_E_GONE)
        _exit(0);
    if (status == HF_OK)
        status = hfi_frame_read(&incoming->received, &hfi_row_to_sleeper_wake,
                                &frame.head, reterr);
    if (status == HF_OK && worker->session != NULL)
        status = hf_session_fork_succeed(worker->session, reterr);
    if (status != HF_OK)
        return status;
    int64_t id = frame.to_sleeper_wake.id;
    hfi_incoming_free(incoming);
    if (obstacle != NULL)
        commit_and_leave(worker, id);
    hfi_fork_start_timers();
    return hfi_self_send(worker,
                         HFI_FRAME(from_worker_ready, .version = HFI_CONTROL_VERSION,
                                   .pid = worker->pid),
                         reterr);
}

hf_status
hfi_in_process_protect(hf_worker *worker, hfi_incoming *incoming, int64_t id,
                       hf_error *reterr) {
    char words[HFI_OBSTACLE_SIZE];
    hf_error error = HF_ERROR_INIT;
    double seconds = 0;
    pid_t pid = 0;
    const char *obstacle = hfi_forking_obstacle(worker, words);
    hf_status status =
        hfi_forking_make(worker, HF_FORK_SLEEPER, incoming, &pid, &seconds, &error);
    if (status == HF_OK && pid == 0) {
        if (wake_up(worker, obstacle, &error) != HF_OK) {
            hfi_self_complain("the sleeping fork can't go on", &error);
            _exit(1);
        }
        return HF_OK;
    }
    worker->is_protected = status == HF_OK && obstacle == NULL;
    hfi_from_main_protected made = {.head.row = &hfi_row_from_main_protected,
                                    .id = id,
                                    .pid = status == HF_OK ? pid : 0,
                                    .seconds = seconds};
    if (obstacle != NULL)
        made.obstacle = hfi_part_text(obstacle);
    if (status != HF_OK)
        made.error = hfi_part_text(error.message);
    return hfi_self_send(worker, &made.head, reterr);
}
