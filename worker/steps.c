/* steps.c - a line of the history in the worker, the same in every language.
 *
 * The frontend keeps the steps, goes back to one, and writes what the user sees. The
 * worker has bound the step's variables before this request comes ("checkout"). What is
 * left is to show the text, and before that to write or read a file: the store does both
 * without knowing what the values mean. What was read is prepared, published by the
 * frontend, and bound like a step.
 */
#include "steps.h"

#include <stdlib.h>

#include "holdfast/save.h"
#include "running.h"

static hf_status
put_loaded_value(void *context, const hf_value *value, hf_error *reterr) {
    return hf_commit_put(context, value, reterr);
}

/* Prepare a commit of what is in the file. */
static hf_status
load_file(hf_worker *worker, const char *path, hfi_saved *saved, hf_error *reterr) {
    hf_commit *commit;
    hf_status status = hf_commit_begin(worker->session, &commit, reterr);
    if (status != HF_OK)
        return status;
    status =
        hf_save_read(path, worker->session, put_loaded_value, commit, NULL, reterr);
    if (status != HF_OK) {
        hf_commit_abort(commit);
        return status;
    }
    return hfi_saving_prepare_consume(worker, commit, saved, reterr);
}

static hf_status
use_file(hf_worker *worker, const hfi_map_history *history, hfi_saved *saved,
         hf_error *reterr) {
    bool is_load = hfi_part_is(history->kind, "load");
    if (history->file.size == 0 || !(is_load || hfi_part_is(history->kind, "save")))
        return HF_OK;
    if (worker->session == NULL || worker->held == NULL)
        return hf_error_set(reterr, HF_E_INVALID, "no variables are saved");
    char *path = strndup(history->file.data, history->file.size);
    if (path == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a path");
    hf_status status =
        is_load ? load_file(worker, path, saved, reterr)
                : hf_save_write(worker->held, path, NULL, NULL, NULL, reterr);
    free(path);
    return status;
}

hf_status
hfi_steps_run(hf_worker *worker, hf_error *reterr) {
    const hfi_map_history *history = worker->asked.frame.to_worker_request.history;
    hf_error why = HF_ERROR_INIT;
    hfi_saved saved = {.prepared = {NULL, 0}};
    hf_status status = hfi_running_prepare(worker, reterr);
    if (status != HF_OK)
        return status;
    status = hfi_saving_catch_up(worker, &why); /* the step that was published */
    if (status == HF_OK)
        status = use_file(worker, history, &saved, &why);
    if (status == HF_OK)
        status =
            hf_worker_write(worker, 0, history->text.data, history->text.size, reterr);
    else
        status = hf_worker_fail(worker, "HistoryError", why.message, NULL, reterr);
    if (status == HF_OK)
        status = hfi_running_end(worker, reterr);
    return status == HF_OK ? hfi_running_reply(worker, &saved, reterr) : status;
}
