/* isolated.c - a cell in a clean process, a fork of the fork server.
 *
 * It binds the variables of the generation that the request names, not before: a standby
 * may wait for hours, and would keep that generation's memory. Then it runs the cell, and
 * prepares a commit of what that changed. It stays until the frontend closes its channel.
 */
#include "asked.h"
#include "running.h"
#include "saving.h"
#include "shown.h"
#include "ways.h"

/* Names that the commit doesn't have, since the main worker couldn't save them. */
static void
report_absent(hf_worker *worker) {
    const hfi_map_instrument *instrument = worker->asked.instrument;
    for (size_t i = 0; instrument != NULL && i < instrument->unserializable.count;
         i++) {
        const hfi_text *one = &instrument->unserializable.items[i];
        hfi_shown_notice(worker, "%.*s isn't here: %.*s", (int)one->key.size,
                         one->key.data, (int)one->value.size, one->value.data);
    }
}

hf_status
hfi_isolated_run(hf_worker *worker, hf_error *reterr) {
    const hfi_map_instrument *instrument = worker->asked.instrument;
    hf_error why = HF_ERROR_INIT;
    hf_status status = hfi_running_prepare(worker, reterr);
    if (status != HF_OK)
        return status;
    hfi_part name = instrument != NULL ? instrument->name : hfi_part_text("");
    hf_status prepared = hfi_saving_bind(worker, HF_BIND_BEGIN, name, "", 0, &why);
    report_absent(worker);
    if (!hfi_running_run(worker, prepared, &why))
        return HF_OK;
    return hfi_running_hand_back(worker, reterr);
}
