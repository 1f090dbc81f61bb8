/* road.c - the home road: an instrumented cell that the home itself runs.
 *
 * Under the built-in recorder a cell needs no process of its own. Where it names
 * objects that only the home has, or where decoding what it reaches would cost more
 * than a process of its own is worth, the home runs it with events on: every object is
 * simply there, and nothing is saved, bound or decoded.
 *
 * The home decides, since only it knows its objects. It is asked with the commit: the
 * cell's code goes along, with the road that the user has chosen, and the answer is
 * either a commit or "home" with the reason, of which the client is told. So the
 * question costs no turn of its own, and a cell that stays at home saves nothing. Where
 * only saving showed what can't be carried, the answer is both.
 *
 * What is at risk is what is at risk in a plain cell: a cell that kills the home takes
 * with it what plain cells changed since the last commit. To commit before such a cell
 * was rejected: it would cost what this road is there to save; an idle home has
 * committed already.
 *
 * The road doesn't lead here for %%isolated, which asks for a fresh process. One
 * thread.
 */
#include "session/session.h"

#include <string.h>

#include "workers/program.h"

void
hfi_road_ask(hf_kernel *kernel, hfi_frame *frame) {
    const char *chosen = kernel->execution.verdict.road;
    hfi_frame_add_text(frame, "code", hfi_request_code(kernel, kernel->running));
    hfi_frame_add_text(frame, "cell_road", hfi_part_text(chosen != NULL ? chosen : ""));
    hfi_frame_add_text(frame, "road", hfi_part_text(kernel->road));
    hfi_frame_add_flag(frame, "isolated", kernel->execution.verdict.isolated);
}

int
hfi_road_is_home(hf_kernel *kernel, const msgpack_object *reply) {
    hfi_part road = hfi_map_part(reply, "road");
    hfi_part reason = hfi_map_part(reply, "road_reason");
    hfi_textbuf_clear(&kernel->execution.road_reason);
    hfi_textbuf_append(&kernel->execution.road_reason, reason.data, reason.size);
    return road.size == strlen("home") && memcmp(road.data, "home", road.size) == 0;
}

void
hfi_road_start(hf_kernel *kernel) {
    kernel->phase = HFI_PHASE_HOME;
    kernel->execution.at_home = 1;
    hfi_rollback_make(kernel);
    kernel->execution.sent_ns = hfi_clock_ns();
    hfi_request_send(kernel, kernel->home, kernel->running);
}

void
hfi_road_replied(hf_kernel *kernel, const msgpack_object *reply) {
    hfi_textbuf metadata = {0};
    int failed = hfi_execute_is_error(hfi_map_part(reply, "content"));
    kernel->execution.replied_ns = hfi_clock_ns();
    hfi_trace_show(kernel, hfi_map_part(reply, "trace"));
    hfi_trace_open(kernel, hfi_map_part(reply, "trace"));
    hfi_summary_show(kernel, reply);
    hfi_request_cost(kernel, reply, "home", &metadata);
    hfi_runs_note(kernel, reply, failed ? "error" : "ok", &metadata);
    hfi_execute_send_reply(kernel, kernel->running, reply, hfi_textbuf_part(&metadata));
    hfi_textbuf_fini(&metadata);
    kernel->uncommitted++;
    hfi_timeline_note(kernel);
    hfi_execute_finish(kernel, failed);
}
