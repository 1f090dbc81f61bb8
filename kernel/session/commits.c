/* commits.c - the main worker's commits, and what is published of any worker's.
 *
 * A commit is asked for by the cell that waits for it, or by nobody when the notebook
 * is idle (rest.c). While `commit_id` is set the main worker works for us, and the
 * queue waits.
 *
 * A cell's commit may leave out the bytes of memory that the main worker lends while it
 * lives (codecs/device_lease.py). It says so then ("owes"), and the next idle commit,
 * which no cell waits for, is the durable one that writes them.
 *
 * The main worker decides where an instrumented cell runs, since only it knows its
 * objects: it is asked with the commit. So the question costs no turn of its own, and a
 * cell that runs in-process saves nothing. One thread.
 */
#include "session/commits.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/workers.h"
#include "session/request.h"
#include "workers/program.h"

struct hfi_commits {
    long long id;       /* of the one that the main worker makes; 0: none */
    long long asked_ns; /* when it was asked for */
    int64_t settling;   /* generation that the main worker has yet to hold; 0: none */
    json_t *unserializable; /* name: reason, of the last commit */
    long long uncommitted;  /* plain cells since */
    int owing;              /* the main worker holds what no commit has the bytes of */
};

static hf_status
init(hf_kernel *kernel, hf_error *reterr) {
    kernel->commits->unserializable = json_object();
    return kernel->commits->unserializable != NULL
               ? HF_OK
               : hf_error_set(reterr, HF_E_NOMEM, "no memory");
}

static void
fini(hf_kernel *kernel) {
    json_decref(kernel->commits->unserializable);
}

const hfi_owner hfi_commits_owner = {offsetof(hf_kernel, commits),
                                     sizeof(struct hfi_commits), init, fini};

/* ---- asking --------------------------------------------------------------------- */

/* Where is the cell to run? Four keys. */
static void
ask_where(hf_kernel *kernel, hfi_frame *frame) {
    const char *chosen = kernel->cell.directive.run_mode;
    hfi_frame_add_text(frame, "code", hfi_cell_code(&kernel->cell));
    hfi_frame_add_text(frame, "cell_run", hfi_part_text(chosen != NULL ? chosen : ""));
    hfi_frame_add_text(frame, "run", hfi_part_text(kernel->run_mode));
    hfi_frame_add_flag(frame, "isolated", kernel->cell.directive.isolated);
}

void
hfi_commits_ask(hf_kernel *kernel, long long now_ns) {
    hfi_frame frame;
    int waits = kernel->cell.state == HFI_CELL_COMMITTING;
    int goes_back = waits && hfi_cell_goes_back(&kernel->cell);
    int asks = waits && !goes_back;
    int durable = !waits || goes_back;
    kernel->commits->id = ++kernel->next_id;
    kernel->commits->asked_ns = now_ns;
    hfi_frame_init(&frame, "commit", asks ? 6 : 2);
    hfi_frame_add_integer(&frame, "id", kernel->commits->id);
    hfi_frame_add_flag(&frame, "durable", durable);
    if (durable)
        kernel->commits->owing = 0;
    if (asks)
        ask_where(kernel, &frame);
    hfi_workers_send_main(kernel, &frame);
}

void
hfi_commits_owe(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    (void)worker;
    (void)map;
    kernel->commits->owing = 1;
}

/* ---- publishing ----------------------------------------------------------------- */

/* Publish what a worker prepared; HF_OK too where it had nothing to publish. */
static hf_status
publish_prepared(hf_kernel *kernel, hfi_part prepared, uint64_t *ret_generation,
                 hf_error *reterr) {
    hf_prepared token;
    *ret_generation = hf_session_generation(kernel->store);
    if (prepared.size == 0)
        return HF_OK;
    if (prepared.size != sizeof token)
        return hf_error_set(reterr, HF_E_PROTOCOL, "a commit token of %zu bytes",
                            prepared.size);
    memcpy(&token, prepared.data, sizeof token);
    hf_status status =
        hf_session_publish(kernel->store, &token, ret_generation, reterr);
    if (status == HF_CONFLICT)
        (void)hf_error_set(reterr, HF_CONFLICT, "another commit came between");
    return status;
}

/* The same for a reply, in which the worker may say instead why it has prepared
 * nothing. */
hf_status
hfi_commits_publish(hf_kernel *kernel, const msgpack_object *reply,
                    uint64_t *ret_generation, hf_error *reterr) {
    static const char full[] = "NoSpaceError:"; /* HF_E_NOSPACE, as Python calls it */
    hfi_part trouble = hfi_map_part(hfi_map_get(reply, "report"), "error");
    if (trouble.size == 0)
        return publish_prepared(kernel, hfi_map_part(reply, "prepared"), ret_generation,
                                reterr);
    int is_full =
        trouble.size > strlen(full) && memcmp(trouble.data, full, strlen(full)) == 0;
    return hf_error_set(reterr, is_full ? HF_E_NOSPACE : HF_E_CODEC, "%.*s",
                        (int)trouble.size, (const char *)trouble.data);
}

void
hfi_commits_fail(hf_kernel *kernel, const char *what, const hf_error *error) {
    char value[1024];
    snprintf(value, sizeof value, "%s: %s%s", what, error->message,
             error->status == HF_E_NOSPACE
                 ? ". To make room, del what is not needed any more, or give /dev/shm "
                   "(and --capacity, if it is set) more; with "
                   "--run=in-process nothing is saved"
                 : "");
    hfi_ends_fail(kernel, "CommitError", value);
}

void
hfi_commits_keep_unserializable(hf_kernel *kernel,
                                const msgpack_object *unserializable) {
    json_object_clear(kernel->commits->unserializable);
    if (unserializable == NULL || unserializable->type != MSGPACK_OBJECT_MAP)
        return;
    for (uint32_t i = 0; i < unserializable->via.map.size; i++) {
        hfi_part name = hfi_object_part(&unserializable->via.map.ptr[i].key);
        hfi_part reason = hfi_object_part(&unserializable->via.map.ptr[i].val);
        char *key = strndup(name.data, name.size);
        json_t *value = json_stringn(reason.data, reason.size);
        if (key != NULL && value != NULL)
            (void)json_object_set_new(kernel->commits->unserializable, key, value);
        else
            json_decref(value);
        free(key);
    }
}

/* ---- what is known of it --------------------------------------------------------- */

long long
hfi_commits_pending(const hf_kernel *kernel) {
    return kernel->commits->id;
}

long long
hfi_commits_end(hf_kernel *kernel) {
    kernel->commits->id = 0;
    return hfi_clock_ns() - kernel->commits->asked_ns;
}

int64_t
hfi_commits_settling(const hf_kernel *kernel) {
    return kernel->commits->settling;
}

void
hfi_commits_settle(hf_kernel *kernel, int64_t generation) {
    kernel->commits->settling = generation;
}

json_t *
hfi_commits_unserializable(const hf_kernel *kernel) {
    return kernel->commits->unserializable;
}

void
hfi_commits_ran(hf_kernel *kernel) {
    kernel->commits->uncommitted++;
}

void
hfi_commits_have_all(hf_kernel *kernel) {
    kernel->commits->uncommitted = 0;
}

long long
hfi_commits_missing(const hf_kernel *kernel) {
    return kernel->commits->uncommitted;
}

int
hfi_commits_is_due(const hf_kernel *kernel) {
    return kernel->commits->uncommitted > 0 || kernel->commits->owing;
}

void
hfi_commits_lose_main(hf_kernel *kernel) {
    kernel->commits->id = 0;
    kernel->commits->settling = 0;
    kernel->commits->owing = 0;
}
