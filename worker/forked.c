/* forked.c - a cell in a fork of the main worker.
 *
 * The fork has all variables as they are, without the store. It runs one cell, prepares a
 * commit of what that changed, and stays until the frontend closes its channel: the
 * commit is published while it lives. It leaves without the language's `end`, which is
 * the notebook's.
 */
#include <stdio.h>
#include <unistd.h>

#include "forking.h"
#include "running.h"
#include "ways.h"

hf_status
hfi_forked_make(hf_worker *worker, hfi_incoming *incoming, int64_t id,
                hf_error *reterr) {
    char words[HFI_OBSTACLE_SIZE];
    hf_error error = HF_ERROR_INIT;
    double seconds = 0;
    pid_t pid = 0;
    const char *obstacle = hfi_forking_obstacle(worker, words);
    if (obstacle != NULL)
        return hfi_self_send(
            worker,
            HFI_FRAME(from_main_forked, .id = id, .error = hfi_part_text(obstacle)),
            reterr);
    hf_status status =
        hfi_forking_make(worker, HF_FORK_CELL, incoming, &pid, &seconds, &error);
    if (status == HF_OK && pid == 0)
        return HF_OK;
    if (status != HF_OK)
        return hfi_self_send(worker,
                             HFI_FRAME(from_main_forked, .id = id,
                                       .error = hfi_part_text(error.message)),
                             reterr);
    return hfi_self_send(worker, HFI_FRAME(from_main_forked, .id = id, .pid = pid),
                         reterr);
}

hf_status
hfi_forked_run(hf_worker *worker, hf_error *reterr) {
    hf_error why = HF_ERROR_INIT;
    hf_status prepared = HF_OK;
    if (worker->session != NULL) /* the main worker has named this process */
        prepared = hf_session_fork_succeed(worker->session, &why);
    if (prepared == HF_OK)
        prepared =
            hfi_saving_catch_up(worker, &why); /* after the cell it would undo it */
    hf_status status = hfi_running_prepare(worker, reterr);
    if (status != HF_OK || !hfi_running_run(worker, prepared, &why))
        return status;
    return hfi_running_hand_back(worker, reterr);
}
