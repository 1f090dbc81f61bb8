/* replies.c - what a worker says of the request that it has: begun, ended, replied.
 *
 * A generation is published before the reply is sent: whoever has the reply can rely on
 * the state. If a cell fails or dies before that, nothing was published.
 *
 * A word that doesn't fit the state of the request that runs (cell.h), or that comes
 * from another process, is left alone. One thread.
 */
#include "session/replies.h"

#include <string.h>

#include "session/assistant.h"
#include "session/commits.h"
#include "session/comms.h"
#include "session/crew.h"
#include "session/death.h"
#include "session/ends.h"
#include "session/handover.h"
#include "session/request.h"
#include "session/restart.h"
#include "session/rollback.h"
#include "session/subshell.h"
#include "session/timeline.h"
#include "workers/program.h"

void
hfi_replies_started(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    if (kernel->cell.state != HFI_CELL_STARTING ||
        kernel->cell.request->id != hfi_map_integer(map, "id", 0) ||
        worker != hfi_crew_at_work(kernel))
        return;
    hfi_cell_move(&kernel->cell, HFI_CELL_RUNNING);
    hfi_tell(kernel, &(hfi_event){
                         .kind = HFI_EVENT_CELL_STARTED, .worker = worker, .map = map});
}

void
hfi_replies_ended(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    if (kernel->cell.state == HFI_CELL_RUNNING &&
        kernel->cell.request->id == hfi_map_integer(map, "id", 0)) {
        hfi_cell_move(&kernel->cell, HFI_CELL_COLLECTING);
    }
    hfi_tell(kernel,
             &(hfi_event){.kind = HFI_EVENT_CELL_ENDED, .worker = worker, .map = map});
}

static void
home_replied(hf_kernel *kernel, const msgpack_object *reply) {
    hfi_request *request = kernel->cell.request;
    if (hfi_ends_report(kernel))
        return;
    if (kernel->cell.state == HFI_CELL_ANSWERING) {
        hfi_ends_reply(kernel, request, reply, hfi_map_part(reply, "metadata"));
        hfi_ends_finish(kernel, 0);
        return;
    }
    if (kernel->cell.plan == HFI_PLAN_IN_PROCESS) {
        hfi_handover_replied_in_process(kernel, reply);
        return;
    }
    hfi_textbuf metadata = {0};
    hfi_ends_outcome outcome = hfi_ends_read(reply);
    if (!hfi_timeline_replied(kernel, reply))
        return;
    hfi_request_cost(kernel, reply, "plain", &metadata);
    hfi_ends_reply(kernel, request, reply, hfi_textbuf_part(&metadata));
    hfi_textbuf_fini(&metadata);
    if (kernel->cell.verdict.travel.kind == HFI_TRAVEL_NONE)
        hfi_commits_ran(kernel);
    hfi_timeline_note(kernel);
    kernel->leaving |= outcome.exits; /* as in ipykernel */
    hfi_ends_finish(kernel, outcome.failed);
}

/* Whether the request that runs waits for this reply. */
static int
is_awaited(const hf_kernel *kernel, const hfi_worker *worker, long long id) {
    return worker == hfi_crew_at_work(kernel) && kernel->cell.request->id == id &&
           kernel->cell.state != HFI_CELL_FORKING;
}

void
hfi_replies_replied(hf_kernel *kernel, hfi_worker *worker,
                    const msgpack_object *reply) {
    long long id = hfi_map_integer(reply, "id", 0);
    hfi_rollback_outcome outcome;
    if (worker == hfi_crew_main(kernel))
        hfi_restart_answered(kernel);
    if (worker == hfi_assistant_worker(kernel)) {
        hfi_assistant_replied(kernel, reply);
    } else if (hfi_rollback_replied(kernel, worker, reply, &outcome)) {
        hfi_death_settled(kernel, outcome);
    } else if (worker == hfi_crew_main(kernel) && id == hfi_commits_pending(kernel) &&
               id != 0) {
        hfi_handover_committed(kernel, reply);
    } else if (is_awaited(kernel, worker, id)) {
        if (hfi_cell_is_in_main(&kernel->cell))
            home_replied(kernel, reply);
        else
            hfi_handover_replied(kernel, reply);
    } else if ((worker != hfi_crew_main(kernel) ||
                !hfi_subshell_replied(kernel, reply)) &&
               !hfi_comms_replied(kernel, id)) {
        hfi_log("a reply that nobody waits for");
    }
}
