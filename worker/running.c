/* running.c - the steps of a cell that are the same in each way of running it: "started",
 * its code, "ended" and the reply.
 *
 * A language may return any status, or reply and return another one: the first word
 * counts. A failure of which the language has said nothing gets the status's name and the
 * error's message.
 *
 * A cell may fork by itself. What comes to this place in such a child ends there: the
 * rest is its parent's.
 */
#include "running.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "asked.h"

hf_status
hfi_running_prepare(hf_worker *worker, hf_error *reterr) {
    hfi_map_moment now;
    worker->interrupts = 0;
    hfi_life_move(&worker->life, HFI_LIFE_PREPARING);
    hfi_self_moment(&now);
    return hfi_self_send(
        worker,
        HFI_FRAME(from_worker_started, .id = worker->asked.public.id, .begin = &now),
        reterr);
}

/* How the cell failed, unless the language has said it. */
static void
note_outcome(hf_worker *worker, hf_status status, const hf_error *why) {
    hf_error error = HF_ERROR_INIT;
    const char *name = hf_status_name(status), *words = why->message;
    if (status == HF_OK)
        return;
    if (status == HF_INTERRUPTED)
        name = "Interrupted", words = "";
    else if (why->message[0] == '\0')
        words = "the language gave no message";
    if (hf_worker_fail(worker, name, words, NULL, &error) != HF_OK)
        hfi_self_complain("an error can't be shown", &error);
}

bool
hfi_running_run(hf_worker *worker, hf_status prepared, const hf_error *why_not) {
    const hf_worker_language *language = &worker->language;
    hf_error error = HF_ERROR_INIT;
    hf_status status = prepared;
    if (status == HF_OK && hf_worker_is_interrupted(worker))
        status = HF_INTERRUPTED;
    if (status != HF_OK) {
        note_outcome(worker, status, why_not);
        return true;
    }
    hfi_life_move(&worker->life, HFI_LIFE_RUNNING);
    status =
        language->execute(language->context, worker, &worker->asked.public, &error);
    if (getpid() != worker->pid) {
        fflush(NULL);
        _exit(0);
    }
    if (!hfi_asked_is_answered(worker, &status) && status == HF_PENDING)
        return false;
    note_outcome(worker, status, &error);
    return true;
}

hf_status
hfi_running_end(hf_worker *worker, hf_error *reterr) {
    hfi_map_moment now;
    hf_status outcome;
    const hf_error unknown = HF_ERROR_INIT;
    if (hfi_life_get(&worker->life) == HFI_LIFE_RUNNING &&
        hfi_asked_is_answered(worker, &outcome))
        note_outcome(worker, outcome, &unknown);
    fflush(NULL); /* what was printed is the cell's */
    hfi_life_move(&worker->life, HFI_LIFE_HANDING_BACK);
    worker->interrupts = 0;
    hfi_self_moment(&now);
    return hfi_self_send(
        worker,
        HFI_FRAME(from_worker_ended, .id = worker->asked.public.id, .end = &now),
        reterr);
}

hf_status
hfi_running_reply(hf_worker *worker, const hfi_saved *saved, hf_error *reterr) {
    char *content = hfi_asked_outcome(worker);
    hf_status status = HF_OK;
    if (content == NULL) {
        status = hf_error_set(reterr, HF_E_NOMEM, "no memory for a reply");
    } else {
        hfi_from_worker_reply reply = {.head.row = &hfi_row_from_worker_reply,
                                       .id = worker->asked.public.id,
                                       .content = hfi_part_text(content),
                                       .metadata = hfi_part_text("{}")};
        if (saved != NULL) {
            reply.prepared = saved->prepared;
            reply.report = &saved->report;
        }
        status = hfi_self_send(worker, &reply.head, reterr);
    }
    free(content);
    hfi_asked_close(worker);
    hfi_life_move(&worker->life, HFI_LIFE_IDLE);
    return status;
}

hf_status
hfi_running_hand_back(hf_worker *worker, hf_error *reterr) {
    hfi_saved saved;
    bool saves = worker->way != HFI_WAY_IN_PROCESS;
    hf_status status = hfi_running_end(worker, reterr);
    if (status != HF_OK)
        return status;
    if (saves) {
        hfi_saving_save(worker, &saved);
        hfi_saving_report_stays(worker);
    }
    return hfi_running_reply(worker, saves ? &saved : NULL, reterr);
}
