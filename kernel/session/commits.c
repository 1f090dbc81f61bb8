/* commits.c - commits of the main worker, and publishing for any worker.
 *
 * The main worker is asked for a commit by a cell that waits for it, or by rest.c when
 * the notebook is idle. While `id` is set the main worker works for us, and the queue
 * waits.
 *
 * A cell's commit may leave out the bytes of memory that the main worker lends while it
 * lives (carry/device_lease.py). A frame `owes` says so. The next idle commit,
 * which no cell waits for, writes these bytes, so that they are durable.
 *
 * The main worker decides where a recorded cell runs, because only it knows its
 * objects. The commit's frame asks this question, too. So it costs no round trip of its
 * own, and a cell that runs in-process saves nothing.
 *
 * Only we publish to the session (HF_SESSION_OWNER_PUBLISHES), so the current
 * generation is the one that we published last. We lease it. A foreign generation can
 * come only by damage, or from a program that goes around the library. Then we publish
 * ours again and tell the user. If a worker has prepared a commit on top of the foreign
 * generation, we refuse that commit. So no variable is lost, and none gets a foreign
 * value. Rejected: take over the foreign values. They would replace what cells have
 * changed since. Only where one comes between our publishing and our lease it is taken,
 * and the user is told (hfi_commits_hold). One thread.
 */
#include "session/commits.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/publish.h"
#include "session/request.h"
#include "session/rerun.h"
#include "session/workers.h"
#include "workers/program.h"

#define TRIES_MAX 2

struct hfi_commits {
    long long id;       /* of the commit that the main worker is making; 0: none */
    long long asked_ns; /* when it was asked for */
    /* the generation that the main worker has yet to lease; 0: none */
    int64_t settling;
    json_t *unserializable; /* name: reason, for the last commit */
    long long uncommitted;  /* plain cells since the last commit */
    int owing;        /* the main worker has data of which no commit has the bytes */
    hf_snapshot *own; /* lease of the generation that we published last or began with */
    uint64_t
        foreign; /* a reported foreign generation that can't be taken back; 0: none */
    int tries;   /* of a commit that met a foreign generation */
    int is_failing; /* the user knows that nothing can be saved at present */
};

static hf_status
init_commits(hf_kernel *kernel, hf_error *reterr) {
    kernel->commits->unserializable = json_object();
    return kernel->commits->unserializable != NULL
               ? HF_OK
               : hf_error_set(reterr, HF_E_NOMEM, "no memory");
}

static void
fini_commits(hf_kernel *kernel) {
    json_decref(kernel->commits->unserializable);
    hf_snapshot_release(kernel->commits->own);
}

const hfi_owner hfi_commits_owner = {offsetof(hf_kernel, commits),
                                     sizeof(struct hfi_commits), init_commits,
                                     fini_commits};

/* ---- asking --------------------------------------------------------------------- */

void
hfi_commits_ask(hf_kernel *kernel, long long now_ns) {
    int waits = kernel->cell.state == HFI_CELL_COMMITTING;
    int goes_back = waits && hfi_cell_goes_back(&kernel->cell);
    const hfi_directive *directive = &kernel->cell.directive;
    hfi_to_main_commit frame = {.head.row = &hfi_row_to_main_commit,
                                .durable = !waits || goes_back};
    kernel->commits->id = frame.id = ++kernel->next_id;
    kernel->commits->asked_ns = now_ns;
    if (frame.durable)
        kernel->commits->owing = 0;
    if (waits && !goes_back) { /* ask also where the cell is to run */
        const char *chosen = directive->run_mode;
        frame.code = hfi_cell_code(&kernel->cell);
        frame.cell_run = hfi_part_text(chosen != NULL ? chosen : "");
        frame.run = hfi_part_text(kernel->run_mode);
        frame.isolated = directive->isolated;
        frame.paced = kernel->cell.is_paced;
    }
    hfi_workers_send_main(kernel, &frame.head);
}

void
hfi_commits_owe(hf_kernel *kernel, hfi_worker *worker,
                const hfi_from_main_owes *frame) {
    (void)worker;
    (void)frame;
    kernel->commits->owing = 1;
}

/* ---- our own generation ---------------------------------------------------------- */

static uint64_t
own_generation(const hf_kernel *kernel) {
    return kernel->commits->own != NULL ? hf_snapshot_generation(kernel->commits->own)
                                        : hf_session_generation(kernel->store);
}

/* Log a line, and show it on stderr of the running cell or of the last one. */
static void
tell_user(hf_kernel *kernel, const char *format, ...) {
    char words[2048];
    hfi_textbuf line = {0};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    hfi_log("%s", words);
    hfi_textbuf_format(&line, "holdfast: %s\n", words);
    hfi_publish_stream(kernel, HFI_STDERR,
                       hfi_cell_is_execution(&kernel->cell)
                           ? kernel->cell.request->message.header
                           : hfi_publish_last_parent(kernel),
                       hfi_textbuf_part(&line));
    hfi_textbuf_fini(&line);
}

/* The same about generations that we haven't published: those after `own`, up to
 * `last`. */
static void
tell_foreign(hf_kernel *kernel, uint64_t own, uint64_t last, const char *outcome) {
    char more[32] = "";
    uint64_t first = last > own ? own + 1 : last; /* else the number is damaged */
    if (last > first)
        snprintf(more, sizeof more, " to %llu", (unsigned long long)last);
    tell_user(kernel,
              "another process has published generation%s %llu%s of this notebook's "
              "session%s",
              last > first ? "s" : "", (unsigned long long)first, more, outcome);
}

void
hfi_commits_hold(hf_kernel *kernel, uint64_t generation) {
    struct hfi_commits *commits = kernel->commits;
    hf_error error = HF_ERROR_INIT;
    hf_snapshot_release(commits->own);
    commits->own = NULL;
    if (hf_snapshot_acquire(kernel->store, &commits->own, &error) != HF_OK)
        hfi_log("the current generation can't be held: %s", error.message);
    else if (own_generation(kernel) != generation)
        tell_foreign(kernel, generation, own_generation(kernel),
                     " on top of the notebook's own; what it changed is taken over");
}

hf_status
hfi_commits_lease(hf_kernel *kernel, hf_snapshot **ret_snapshot, hf_error *reterr) {
    hf_generation name;
    if (kernel->commits->own == NULL)
        return hf_snapshot_acquire(kernel->store, ret_snapshot, reterr);
    hf_snapshot_export(kernel->commits->own, &name);
    return hf_snapshot_import(kernel->store, &name, ret_snapshot, reterr);
}

hf_status
hfi_commits_restore(hf_kernel *kernel, hf_snapshot *snapshot, uint64_t *ret_generation,
                    hf_error *reterr) {
    hf_commit *commit = NULL;
    uint64_t own = own_generation(kernel);
    hf_status status = hf_commit_begin(kernel->store, &commit, reterr);
    if (status != HF_OK)
        return status;
    status = hf_commit_restore(commit, snapshot, reterr);
    if (status == HF_OK)
        status = hf_commit_publish_consume(commit, ret_generation, reterr);
    else
        hf_commit_abort(commit);
    if (status != HF_OK)
        return status;
    if (*ret_generation != own + 1)
        tell_foreign(kernel, own, *ret_generation - 1,
                     ", which only its kernel may. That was taken back: the notebook's "
                     "variables are its own, and are saved as before");
    hfi_commits_hold(kernel, *ret_generation);
    return HF_OK;
}

void
hfi_commits_watch(hf_kernel *kernel) {
    struct hfi_commits *commits = kernel->commits;
    uint64_t found = hf_session_generation(kernel->store), generation;
    hf_error error = HF_ERROR_INIT;
    char outcome[1024];
    if (found == own_generation(kernel) || found == commits->foreign)
        return;
    commits->foreign = found;
    hf_status status = hfi_commits_restore(kernel, commits->own, &generation, &error);
    if (status == HF_OK || status == HF_CONFLICT) /* the next look finds another one */
        return;
    snprintf(
        outcome, sizeof outcome,
        ", or the session is damaged, and that can't be taken back (%s). Nothing of "
        "the notebook is saved any more until the kernel is restarted",
        error.message);
    tell_foreign(kernel, own_generation(kernel), found, outcome);
}

hfi_part
hfi_commits_name(const hf_kernel *kernel, hf_generation *ret_name) {
    if (kernel->commits->own == NULL)
        return hfi_part_text("");
    hf_snapshot_export(kernel->commits->own, ret_name);
    return hfi_part_of(ret_name, sizeof *ret_name);
}

void
hfi_commits_adopt(hf_kernel *kernel, const hfi_cell *cell,
                  const hfi_map_report *report) {
    hf_generation name;
    hfi_to_main_adopt frame = {.head.row = &hfi_row_to_main_adopt,
                               .generation = (int64_t)own_generation(kernel),
                               .name = hfi_commits_name(kernel, &name),
                               .execution_count = kernel->count,
                               .report = report};
    if (cell != NULL) {
        json_t *code = hfi_cell_source(cell);
        frame.execution_count = cell->number;
        frame.code = hfi_part_of(json_string_value(code), json_string_length(code));
        frame.store_history = cell->store_history;
        frame.id = cell->adoption;
    }
    if (frame.id != 0)
        frame.header = cell->request->message.header;
    hfi_workers_send_main(kernel, &frame.head);
}

int
hfi_commits_repeat(hf_kernel *kernel, hf_status status) {
    struct hfi_commits *commits = kernel->commits;
    if (status != HF_CONFLICT || ++commits->tries > TRIES_MAX) {
        commits->tries = 0;
        return 0;
    }
    hfi_commits_watch(kernel);
    if (commits->tries == TRIES_MAX) /* it started from a foreign generation */
        hfi_commits_adopt(kernel, NULL, NULL);
    hfi_commits_ask(kernel, hfi_clock_ns());
    return 1;
}

void
hfi_commits_note_failure(hf_kernel *kernel, const hf_error *error) {
    struct hfi_commits *commits = kernel->commits;
    if (commits->is_failing)
        hfi_log("commit: %s", error->message);
    else
        tell_user(
            kernel,
            "the notebook's variables could not be saved (%s). If its process dies, "
            "what cells changed since the last commit is lost. The "
            "next try is before a recorded or isolated cell, or when nobody has used "
            "the notebook for a while",
            error->message);
    commits->is_failing = 1;
}

/* ---- publishing ----------------------------------------------------------------- */

/* Publish what a worker has prepared. HF_OK also if it has prepared nothing. */
static hf_status
publish_prepared(hf_kernel *kernel, hfi_part prepared, uint64_t *ret_generation,
                 hf_error *reterr) {
    hf_prepared token;
    *ret_generation = own_generation(kernel);
    if (prepared.size == 0)
        return HF_OK;
    if (prepared.size != sizeof token)
        return hf_error_set(reterr, HF_E_PROTOCOL, "a commit token of %zu bytes",
                            prepared.size);
    memcpy(&token, prepared.data, sizeof token);
    hf_status status =
        token.base_generation != own_generation(kernel)
            ? HF_CONFLICT
            : hf_session_publish(kernel->store, &token, ret_generation, reterr);
    if (status == HF_CONFLICT)
        (void)hf_error_set(reterr, HF_CONFLICT,
                           "another process published a generation of the session "
                           "meanwhile");
    if (status == HF_OK)
        hfi_commits_hold(kernel, *ret_generation);
    return status;
}

/* Errors of the store have these names in Python. */
static int
part_begins(hfi_part text, const char *word) {
    return text.size > strlen(word) && memcmp(text.data, word, strlen(word)) == 0;
}

/* The same for a reply. Instead of a commit the reply may have the reason why the
 * worker has prepared none. */
hf_status
hfi_commits_publish(hf_kernel *kernel, const hfi_from_worker_reply *reply,
                    uint64_t *ret_generation, hf_error *reterr) {
    hfi_part trouble = reply->report != NULL ? reply->report->error : hfi_part_text("");
    if (trouble.size == 0)
        return publish_prepared(kernel, reply->prepared, ret_generation, reterr);
    hf_status status = part_begins(trouble, "NoSpaceError:")    ? HF_E_NOSPACE
                       : part_begins(trouble, "ConflictError:") ? HF_CONFLICT
                                                                : HF_E_CODEC;
    return hf_error_set(reterr, status, "%.*s", (int)trouble.size,
                        (const char *)trouble.data);
}

void
hfi_commits_fail(hf_kernel *kernel, const char *what, const hf_error *error) {
    char value[1024], room[256] = "";
    const char *drop = hfi_drop_word(kernel);
    if (error->status == HF_E_NOSPACE)
        snprintf(room, sizeof room,
                 ". To make room, %s what is not needed any more, or give /dev/shm "
                 "(and --capacity, if it is set) more; with "
                 "--run=in-process nothing is saved",
                 drop != NULL ? drop : "delete");
    snprintf(value, sizeof value, "%s: %s%s", what, error->message, room);
    hfi_ends_fail(kernel, "CommitError", value);
}

void
hfi_commits_keep_unserializable(hf_kernel *kernel, hfi_texts unserializable) {
    json_object_clear(kernel->commits->unserializable);
    for (size_t i = 0; i < unserializable.count; i++) {
        hfi_part name = unserializable.items[i].key;
        hfi_part reason = unserializable.items[i].value;
        char *key = strndup(name.data, name.size);
        json_t *value = json_stringn(reason.data, reason.size);
        if (key != NULL && value != NULL)
            (void)json_object_set_new(kernel->commits->unserializable, key, value);
        else
            json_decref(value);
        free(key);
    }
}

/* queries */

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
    kernel->commits->is_failing = 0;
    hfi_rerun_saved(kernel);
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
