/* takeup.c - the session of a frontend that was killed, for the next one.
 *
 * Jupyter restarts a dead kernel with the same connection file. The commits of the dead
 * kernel are still in shared memory, so the new kernel goes on with them. The session
 * carries a digest of the file's path and key (hf_claim). Another notebook has another
 * file, and a frontend that hasn't read the file can't compute the digest.
 *
 * A session isn't taken up if its kernel ended in an orderly way: by a shutdown_request
 * (also for a restart that somebody asked for), SIGTERM, exit(), or the end of our
 * parent. Then the session is gone, or has lost its claim if its removal was
 * interrupted. A kernel that can start no worker (restart.c) leaves its session, too.
 *
 * A server may kill a kernel because somebody asked for a restart and the kernel didn't
 * answer. It says so to the next one (HOLDFAST_TAKE_UP=0, holdfast/provisioner.py),
 * which frees what was left.
 *
 * Until the next frontend starts, a process of ours waits, and frees the session in the
 * end (reaper.c). If that process dies, another one replaces it. Without it any kernel
 * that starts would free what a dead one left, even if the dead one's server is about
 * to restart it. A session in a memfd has no name, and ends with its processes.
 *
 * State that only the frontend has is written into the session's notes whenever it
 * changes: the execution count, and how many of the cells that ran were committed. The
 * steps of the history are lost, because their leases were the dead frontend's.
 * One thread.
 */
#include "session/restart.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "session/commits.h"
#include "session/timelimit.h"
#include "session/publish.h"
#include "wire/signature.h"

#define KEEP_SECONDS 600

typedef struct hfi_takeup {
    hfi_reaper reaper;  /* frees the store if we are killed */
    hfi_textbuf notice; /* message for the first cell, if the session was taken up */
    int bequeathed;     /* the session is left to a later kernel */
} hfi_takeup;

static void
fini_takeup(hf_kernel *kernel) {
    hfi_textbuf_fini(&kernel->takeup->notice);
}

const hfi_owner hfi_takeup_owner = {offsetof(hf_kernel, takeup),
                                    sizeof(struct hfi_takeup), NULL, fini_takeup};

static long long
keep_ns(void) {
    return hfi_limit_ns("HOLDFAST_KEEP_SECONDS", KEEP_SECONDS);
}

static int
may_take_up(void) {
    const char *text = getenv("HOLDFAST_TAKE_UP");
    return text == NULL || strcmp(text, "0") != 0;
}

/* The digest of the connection file's path and key. Returns 0 without memory. */
static int
make_claim(const hf_kernel *kernel, hf_claim *ret_claim) {
    const char *path = kernel->connection.path, *key = kernel->connection.key;
    char *whole = realpath(path, NULL), *text = NULL;
    const char *name = whole != NULL ? whole : path;
    size_t head = strlen(name) + 1, size = head + strlen(key);
    int good = (text = malloc(size + 1)) != NULL;
    if (good) {
        memcpy(text, name, head);
        memcpy(text + head, key, size - head + 1);
        good = hfi_digest(text, size, ret_claim->bytes, NULL) == HF_OK;
    }
    free(text);
    free(whole);
    return good;
}

void
hfi_takeup_begin(hf_kernel *kernel, const char *connection_path) {
    hf_error error = HF_ERROR_INIT;
    if (hfi_reaper_start(&kernel->takeup->reaper, connection_path, keep_ns(), &error) !=
        HF_OK)
        hfi_log("if this process is killed, its session stays until the next kernel "
                "starts: %s",
                error.message);
}

/* The reaper is dead: start another one. */
static void
replace_reaper(hf_kernel *kernel) {
    hfi_reaper *reaper = &kernel->takeup->reaper;
    hf_claim claim;
    hf_error error = HF_ERROR_INIT;
    hfi_reaper_end(reaper, 1);
    hf_status status =
        hfi_reaper_start(reaper, kernel->connection.path, keep_ns(), &error);
    if (status == HF_OK && make_claim(kernel, &claim)) {
        hfi_reaper_watch(reaper, hf_session_name(kernel->store));
        status = hf_session_keep(kernel->store, &claim, reaper->pid, &error);
    }
    if (status != HF_OK)
        hfi_log("the reaper died, and there is no other: %s", error.message);
}

void
hfi_takeup_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_WORKER_EXITED && kernel->connection.path != NULL &&
        kernel->takeup->reaper.pid != 0 &&
        event->exit->pid == kernel->takeup->reaper.pid)
        replace_reaper(kernel);
}

/* Write the message for the user that is shown below the first cell. */
static void
write_notice(hf_kernel *kernel) {
    hfi_textbuf *text = &kernel->takeup->notice;
    long long running = (long long)hf_session_noted(kernel->store, HF_NOTE_RUNNING);
    long long lost = (long long)hf_session_noted(kernel->store, HF_NOTE_UNCOMMITTED);
    hfi_textbuf_format(
        text, "holdfast: the kernel's process was killed, and has been started "
              "again. The variables are those of the last commit");
    if (lost > 0)
        hfi_textbuf_format(text, ", without what the %lld cell%s since then changed",
                           lost, lost == 1 ? "" : "s");
    if (running > 0)
        hfi_textbuf_format(text, "; cell [%lld] was running, and is undone", running);
    hfi_textbuf_format(
        text, ". Values that no codec encodes, threads and child processes are gone");
    if (hfi_history_command(kernel) != NULL)
        hfi_textbuf_format(text, ", as are the steps of %s undo",
                           hfi_history_command(kernel));
    hfi_textbuf_format(text, ". Restart the kernel to begin with nothing.\n");
}

/* Returns 1 if a session was taken up. */
static int
take_up(hf_kernel *kernel, const hf_claim *claim) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_session_take_up(claim, &kernel->store, &error);
    if (status == HF_NOT_FOUND)
        return 0;
    if (status != HF_OK) {
        hfi_log("a session was left that can't be taken up: %s", error.message);
        return 0;
    }
    if (!may_take_up()) {
        status = hf_session_destroy(kernel->store, &error);
        if (status != HF_OK)
            hfi_log("%s", error.message);
        hf_session_close(kernel->store);
        kernel->store = NULL;
        return 0;
    }
    kernel->count = (long long)hf_session_noted(kernel->store, HF_NOTE_CELL);
    if (hf_session_generation(kernel->store) == 0)
        return 1; /* it has no content */
    write_notice(kernel);
    hfi_log("took up the session %s of a kernel that was killed",
            hf_session_name(kernel->store));
    return 1;
}

hf_status
hfi_takeup_open(hf_kernel *kernel, const hf_session_options *options,
                hf_error *reterr) {
    hf_claim claim;
    hf_status status = HF_OK;
    int can = kernel->takeup->reaper.pid != 0 && kernel->connection.path != NULL;
    uint32_t collected = 0;
    can = can && make_claim(kernel, &claim);
    int taken = can && take_up(kernel, &claim);
    if (hf_session_collect(NULL, NULL, &collected, NULL) == HF_OK && collected > 0)
        hfi_log("removed %u session%s that dead kernels left", collected,
                collected == 1 ? "" : "s");
    if (!taken)
        status = hf_session_create(options, &kernel->store, reterr);
    if (status != HF_OK || !can)
        return status;
    hfi_reaper_watch(&kernel->takeup->reaper, hf_session_name(kernel->store));
    return hf_session_keep(kernel->store, &claim, kernel->takeup->reaper.pid, reterr);
}

void
hfi_takeup_note(hf_kernel *kernel) {
    int runs =
        hfi_cell_is_execution(&kernel->cell) &&
        (hfi_cell_is_in_main(&kernel->cell) || hfi_cell_is_in_worker(&kernel->cell) ||
         hfi_cell_waits_for_commit(&kernel->cell));
    hf_session_note(kernel->store, HF_NOTE_CELL, (uint64_t)kernel->count);
    hf_session_note(kernel->store, HF_NOTE_UNCOMMITTED,
                    (uint64_t)hfi_commits_missing(kernel));
    hf_session_note(kernel->store, HF_NOTE_RUNNING,
                    runs ? (uint64_t)kernel->cell.number : 0);
}

void
hfi_takeup_report(hf_kernel *kernel, hfi_part parent) {
    if (kernel->takeup->notice.size == 0)
        return;
    hfi_publish_stream(kernel, HFI_STDERR, parent,
                       hfi_textbuf_part(&kernel->takeup->notice));
    hfi_textbuf_clear(&kernel->takeup->notice);
}

int
hfi_takeup_leave(hf_kernel *kernel, hf_error *error) {
    const char *name = hf_session_name(kernel->store);
    kernel->takeup->bequeathed =
        *name != '\0' && hf_session_generation(kernel->store) > 0;
    name += *name == '/';
    const char *command = hfi_history_command(kernel);
    if (kernel->takeup->bequeathed)
        hf_error_prefix(error,
                        "the variables are kept in the session %s, for a kernel with "
                        "the same connection file, and `holdfast save %s FILE` writes "
                        "them to a file%s%s%s",
                        name, name, command != NULL ? ", which `" : "",
                        command != NULL ? command : "",
                        command != NULL ? " load FILE` reads" : "");
    return kernel->takeup->bequeathed;
}

void
hfi_takeup_renounce(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    if (kernel->store == NULL || kernel->takeup->bequeathed)
        return;
    if (hf_session_keep(kernel->store, NULL, 0, &error) != HF_OK)
        hfi_log("%s", error.message);
}

void
hfi_takeup_end(hf_kernel *kernel) {
    if (kernel->store != NULL && !kernel->takeup->bequeathed &&
        hf_session_destroy(kernel->store, NULL) != HF_OK)
        hfi_log("the session could not be removed");
    hf_session_close(kernel->store);
    kernel->store = NULL;
    hfi_reaper_end(&kernel->takeup->reaper, kernel->takeup->bequeathed);
}
