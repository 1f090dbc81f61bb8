/* rest.c - what is done when nobody uses the notebook.
 *
 * After 50 ms without work:
 * - The changes of plain cells are committed. So the death of the main worker costs
 *   little, and the next cells make a step of their own in the history. If a commit
 *   took long, the next one waits for a pause that is longer in proportion: a person
 *   who types must not wait for a copy.
 * - Then the main worker makes the fork that the next recorded cell needs.
 * - Then the fork server imports what the notebook has imported (standby.c).
 *
 * After half a minute (HOLDFAST_REST_SECONDS) the notebook rests:
 * - First the main worker commits, even if that takes so long that it was put off
 *   before. Only then is the memory of deleted values free.
 * - Free memory is given back. While cells run, free extents of the arena keep their
 *   pages, because fresh pages cost half a second a gigabyte. A notebook that is left
 *   alone doesn't need them: the main worker gets a frame to rest, and gives back its
 *   own cache and every free extent. The frontend doesn't do it itself, because it must
 *   answer at any time, and punching a gigabyte takes a tenth of a second.
 * - Then the frontend checksums what was committed since the last rest, one stretch in
 *   each turn. So damaged memory is found later, and not used.
 * - Processes that wait for a cell are ended (standby.c, rollback.c).
 * - The frontend and the main worker give back the memory that they have freed and that
 *   malloc() keeps: after a picture of 64 MiB that was half of it.
 *
 * The next request of a client ends the rest, whatever it asks for.
 *
 * Independent of this, memory that a process has freed and kept for its next allocation
 * is given back once it was unused for a second (shm_store/engine/unused.c). We do this
 * also while a cell runs, since the cell's process can't do it then. We look for such
 * memory once a second if we wake anyway, and four times a second if something runs or
 * such memory is waiting. It is given back in stretches, like the checksums.
 * One thread.
 */
#include "session/rest.h"

#include <stddef.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "session/commits.h"
#include "session/timelimit.h"
#include "session/rollback.h"
#include "session/workers.h"
#include "workers/program.h"

#define IDLE_DELAY_NS 50000000LL
#define REST_SECONDS  30
#define STRETCH_BYTES (16u << 20) /* for one turn: a millisecond or two */
#define UNUSED_MS     750
#define LOOK_NS       250000000LL /* between two looks for unused memory */

/* How far the rest of an unused notebook has come. */
typedef enum hfi_rest_state {
    HFI_REST_AWAITED,
    HFI_REST_COMMITTED, /* the last commit was made, if one was due */
    HFI_REST_CHECKSUMS, /* the main worker has given memory back */
    HFI_REST_DONE,
} hfi_rest_state;

typedef struct hfi_rest {
    hfi_rest_state state; /* starts again whenever a cell ends */
    long long idle_ns;    /* when the last cell or the last rest ended */
    long long delay_ns;   /* pause before the next commit, if the last one took long */
    uint64_t left;        /* bytes that the last rest couldn't give back */
    long long look_ns;    /* when to look for unused memory next */
    int has_unused;       /* some memory will be unused for long enough soon */
} hfi_rest;

const hfi_owner hfi_rest_owner = {offsetof(hf_kernel, rest), sizeof(struct hfi_rest),
                                  NULL, NULL};

/* ---- a moment later ------------------------------------------------------------- */

static long long
commit_deadline_ns(const hf_kernel *kernel) {
    long long delay_ns = kernel->rest->delay_ns;
    if (!hfi_commits_is_due(kernel) || delay_ns < 0)
        return -1;
    return kernel->rest->idle_ns +
           (delay_ns > IDLE_DELAY_NS ? delay_ns : IDLE_DELAY_NS);
}

static int
is_used(const hf_kernel *kernel) {
    return hfi_workers_main(kernel) == NULL || kernel->cell.request != NULL ||
           hfi_commits_pending(kernel) != 0 || kernel->queue.count > 0;
}

long long
hfi_rest_moment_deadline_ns(const hf_kernel *kernel) {
    if (is_used(kernel))
        return -1;
    if (hfi_rollback_is_wanted(kernel) || hfi_standby_awaits_import(kernel))
        return kernel->rest->idle_ns + IDLE_DELAY_NS;
    return commit_deadline_ns(kernel);
}

void
hfi_rest_moment_tick(hf_kernel *kernel, long long now_ns) {
    long long deadline = hfi_rest_moment_deadline_ns(kernel);
    if (deadline < 0 || now_ns < deadline)
        return;
    hfi_rollback_pause(kernel);
    deadline = commit_deadline_ns(kernel);
    if (deadline >= 0 && now_ns >= deadline) {
        hfi_commits_ask(kernel, now_ns);
        return; /* the rest comes when the commit is done */
    }
    if (hfi_rollback_is_wanted(kernel))
        hfi_rollback_make(kernel);
    hfi_standby_import_awaited(kernel);
}

/* ---- memory that was freed ------------------------------------------------------ */

long long
hfi_rest_unused_deadline_ns(const hf_kernel *kernel) {
    int is_near = kernel->rest->has_unused || is_used(kernel);
    return is_near ? kernel->rest->look_ns : -1;
}

void
hfi_rest_unused_tick(hf_kernel *kernel, long long now_ns) {
    uint64_t bytes = 0;
    hf_error error = HF_ERROR_INIT;
    if (now_ns < kernel->rest->look_ns)
        return;
    if (hf_session_give_back(kernel->store, UNUSED_MS, STRETCH_BYTES, &bytes,
                             &kernel->rest->has_unused, &error) != HF_OK)
        kernel->rest->has_unused = 0; /* the next commit reports it */
    /* If there is more, go on after the others were served. */
    kernel->rest->look_ns = bytes > 0 ? now_ns : now_ns + LOOK_NS;
}

/* ---- the rest ------------------------------------------------------------------- */

long long
hfi_rest_deadline_ns(const hf_kernel *kernel) {
    if (kernel->rest->state == HFI_REST_DONE || kernel->rest->idle_ns == 0 ||
        is_used(kernel))
        return -1;
    return kernel->rest->idle_ns + hfi_limit_ns("HOLDFAST_REST_SECONDS", REST_SECONDS);
}

/* A process that was exiting may have held an older generation. So look again later,
 * for as long as that frees anything. */
static void
end_or_repeat(hf_kernel *kernel, long long now_ns) {
    hf_session_info info = {.struct_size = sizeof info};
    hf_error error = HF_ERROR_INIT;
    kernel->rest->state = HFI_REST_DONE;
    if (hf_session_describe(kernel->store, &info, &error) != HF_OK)
        return;
    uint64_t left = info.retired_bytes + info.free_bytes;
    if (left > 0 && left != kernel->rest->left) {
        kernel->rest->state = HFI_REST_COMMITTED;
        kernel->rest->idle_ns = now_ns;
    }
    kernel->rest->left = left;
}

static void
checksum_stretch(hf_kernel *kernel, long long now_ns) {
    uint64_t done = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_session_scrub(kernel->store, STRETCH_BYTES, &done, &error);
    if (status != HF_OK)
        hfi_log("checksums: %s", error.message);
    if (status != HF_OK || done == 0)
        end_or_repeat(kernel, now_ns);
}

static void
trim_heap(hf_kernel *kernel) {
    if (hfi_workers_main(kernel)->control != NULL)
        hfi_control_trim(hfi_workers_main(kernel)->control);
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

void
hfi_rest_tick(hf_kernel *kernel, long long now_ns) {
    long long deadline = hfi_rest_deadline_ns(kernel);
    if (deadline < 0 || now_ns < deadline)
        return;
    if (kernel->rest->state == HFI_REST_CHECKSUMS) {
        checksum_stretch(kernel, now_ns);
        return;
    }
    if (kernel->rest->state == HFI_REST_AWAITED) {
        kernel->rest->state = HFI_REST_COMMITTED;
        if (hfi_commits_is_due(kernel)) {
            hfi_commits_ask(kernel, now_ns);
            return;
        }
    }
    hfi_workers_send_main(kernel, HFI_FRAME_BARE(to_main_rest));
    hfi_rollback_rest(kernel);
    hfi_standby_rest(kernel);
    trim_heap(kernel);
    kernel->rest->state = HFI_REST_CHECKSUMS;
}

void
hfi_rest_used(hf_kernel *kernel) {
    kernel->rest->idle_ns = hfi_clock_ns();
    kernel->rest->has_unused = 1; /* perhaps; the next look finds out */
}

/* End the rest, since a client asks for something. */
static void
end_rest(hf_kernel *kernel) {
    if (kernel->rest->state == HFI_REST_AWAITED && kernel->rest->idle_ns != 0)
        return;
    kernel->rest->state = HFI_REST_AWAITED;
    kernel->rest->left = 0;
    kernel->rest->idle_ns = hfi_clock_ns();
    hfi_standby_wake(kernel);
}

void
hfi_rest_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_REQUEST_CAME)
        end_rest(kernel);
    else if (event->kind == HFI_EVENT_CELL_OVER)
        hfi_rest_used(kernel);
}

void
hfi_rest_delay_commits(hf_kernel *kernel, long long delay_ns) {
    kernel->rest->delay_ns = delay_ns;
}
