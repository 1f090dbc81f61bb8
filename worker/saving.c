/* saving.c - a worker's variables and the store.
 *
 * A worker holds the generation that its variables are of (`held`): the one that it bound
 * or saved last. A language puts all of its variables each time, and what is the same in
 * that generation is left out here. So a language needs no marks of its own, and a commit
 * without changes is none. The comparison reads the values, which costs less than to
 * write them.
 *
 * A worker prepares commits, and the frontend publishes them. Then the worker gets the
 * name of the generation, since another one may be current by then.
 */
#include "saving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/struct_size.h"
#include "shown.h"

/* ---- saving ---------------------------------------------------------------------- */

static void
forget_stays(hfi_saving *saving) {
    for (size_t i = 0; i < saving->stay_count; i++) {
        free((void *)(uintptr_t)saving->stays[i].key.data);
        free((void *)(uintptr_t)saving->stays[i].value.data);
    }
    free(saving->stays);
    saving->stays = NULL;
    saving->stay_count = 0;
}

static hf_status
check_saving(const hf_worker *worker, const char *what, hf_error *reterr) {
    hf_status status = hfi_self_check_thread(worker, what, reterr);
    if (status == HF_OK && !worker->saving.is_open)
        status =
            hf_error_set(reterr, HF_E_INVALID,
                         "%s was called while the library didn't ask to save", what);
    return status;
}

hf_status
hf_worker_commit(hf_worker *worker, hf_commit **ret_commit, hf_error *reterr) {
    HFI_NEED(reterr, worker, ret_commit);
    hf_status status = check_saving(worker, "hf_worker_commit", reterr);
    if (status == HF_OK && worker->saving.commit == NULL)
        status = hf_commit_begin(worker->session, &worker->saving.commit, reterr);
    if (status == HF_OK)
        *ret_commit = worker->saving.commit;
    return status;
}

static bool
is_same_bytes(const void *one, size_t one_size, const void *other, size_t other_size) {
    return one_size == other_size &&
           (one_size == 0 || memcmp(one, other, one_size) == 0);
}

/* Whether the held generation has just this value. */
static hf_status
is_stored(hf_worker *worker, const hf_value *value, bool *ret_is, hf_error *reterr) {
    hf_entry entry = {.struct_size = sizeof entry};
    *ret_is = false;
    if (worker->held == NULL)
        return HF_OK;
    hf_status status =
        hf_snapshot_find(worker->held, value->key, value->key_size, &entry, reterr);
    if (status != HF_OK)
        return status == HF_NOT_FOUND ? HF_OK : status;
    bool is =
        entry.codec == value->codec && entry.flags == value->flags &&
        entry.buffer_count == value->buffer_count &&
        is_same_bytes(entry.meta, entry.meta_size, value->meta, value->meta_size) &&
        is_same_bytes(entry.payload, entry.payload_size, value->payload,
                      value->payload_size);
    for (uint32_t i = 0; is && i < value->buffer_count; i++) {
        const hf_buffer *buffer = &value->buffers[i];
        is = buffer->region == NULL &&
             hf_snapshot_holds(worker->held, &entry, i, buffer->data, buffer->size);
    }
    *ret_is = is;
    return HF_OK;
}

hf_status
hf_worker_put(hf_worker *worker, const hf_value *value, hf_error *reterr) {
    HFI_NEED(reterr, worker, value);
    bool is_the_same = false;
    hf_commit *commit;
    hf_status status = check_saving(worker, "hf_worker_put", reterr);
    if (status == HF_OK)
        status = HFI_STRUCT_CHECK(value, hf_value, ret_digests, reterr);
    if (status == HF_OK)
        status = is_stored(worker, value, &is_the_same, reterr);
    if (status != HF_OK || is_the_same)
        return status;
    status = hf_worker_commit(worker, &commit, reterr);
    return status == HF_OK ? hf_commit_put(commit, value, reterr) : status;
}

hf_status
hf_worker_remove(hf_worker *worker, const char *key, size_t key_size,
                 hf_error *reterr) {
    HFI_NEED(reterr, worker, key);
    hf_commit *commit;
    hf_entry entry = {.struct_size = sizeof entry};
    hf_status status = check_saving(worker, "hf_worker_remove", reterr);
    if (status == HF_OK)
        status = worker->held != NULL
                     ? hf_snapshot_find(worker->held, key, key_size, &entry, reterr)
                     : HF_NOT_FOUND;
    if (status != HF_OK)
        return status == HF_NOT_FOUND ? HF_OK : status;
    status = hf_worker_commit(worker, &commit, reterr);
    if (status == HF_OK)
        status = hf_commit_remove(commit, key, key_size, reterr);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

hf_status
hf_worker_stays(hf_worker *worker, const char *name, const char *reason,
                hf_error *reterr) {
    HFI_NEED(reterr, worker, name, reason);
    hf_status status = check_saving(worker, "hf_worker_stays", reterr);
    if (status != HF_OK)
        return status;
    hfi_saving *saving = &worker->saving;
    hfi_text *grown =
        realloc(saving->stays, (saving->stay_count + 1) * sizeof *saving->stays);
    if (grown != NULL)
        saving->stays = grown;
    char *key = grown != NULL ? strdup(name) : NULL;
    char *value = key != NULL ? strdup(reason) : NULL;
    if (value == NULL) {
        free(key);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a name");
    }
    saving->stays[saving->stay_count++] =
        (hfi_text){hfi_part_text(key), hfi_part_text(value)};
    return HF_OK;
}

hf_status
hfi_saving_prepare_consume(hf_worker *worker, hf_commit *commit, hfi_saved *saved,
                           hf_error *reterr) {
    hf_prepared *token = &worker->saving.token;
    hf_status status = hf_commit_prepare_consume(commit, token, reterr);
    if (status == HF_OK)
        saved->prepared = hfi_part_of(token, sizeof *token);
    return status;
}

/* Prepare the commit, if it has anything. */
static hf_status
prepare_commit(hf_worker *worker, hfi_saved *saved) {
    hfi_saving *saving = &worker->saving;
    hf_commit_stats stats = {.struct_size = sizeof stats};
    hf_commit *commit = saving->commit;
    saving->commit = NULL;
    if (commit == NULL)
        return HF_OK;
    hf_status status = hf_commit_get_stats(commit, &stats, &saved->error);
    if (status != HF_OK || stats.entries_put + stats.entries_removed == 0) {
        hf_commit_abort(commit);
        return status;
    }
    saved->report.bytes_copied = (int64_t)stats.bytes_copied;
    saved->report.bytes_shared = (int64_t)stats.bytes_shared;
    saved->report.names_saved = stats.entries_put;
    return hfi_saving_prepare_consume(worker, commit, saved, &saved->error);
}

/* As the frontend knows the kinds of failures. */
static void
name_failure(hfi_saved *saved, hf_status status) {
    const char *kind = status == HF_E_NOSPACE  ? "NoSpaceError"
                       : status == HF_CONFLICT ? "ConflictError"
                                               : hf_status_name(status);
    const char *words = saved->error.message[0] != '\0' ? saved->error.message
                                                        : "the language gave no reason";
    snprintf(saved->words, sizeof saved->words, "%s: %s", kind, words);
    saved->report.error = hfi_part_text(saved->words);
}

void
hfi_saving_save(hf_worker *worker, hfi_saved *ret_saved) {
    static const hfi_text none[1] = {{{"", 0}, {"", 0}}};
    hfi_saving *saving = &worker->saving;
    const hf_worker_language *language = &worker->language;
    hf_status status = HF_OK;
    *ret_saved = (hfi_saved){.unserializable = {none, 0}};
    forget_stays(saving);
    if (worker->session == NULL || language->save == NULL)
        return;
    status = hfi_saving_catch_up(worker, &ret_saved->error);
    if (status != HF_OK) {
        name_failure(ret_saved, status);
        return;
    }
    saving->is_open = true;
    status = language->save(language->context, worker, &ret_saved->error);
    saving->is_open = false;
    if (status == HF_OK)
        status = prepare_commit(worker, ret_saved);
    if (status != HF_OK) {
        hf_commit_abort(saving->commit);
        saving->commit = NULL;
        name_failure(ret_saved, status);
    }
    if (saving->stay_count > 0)
        ret_saved->unserializable = (hfi_texts){saving->stays, saving->stay_count};
}

void
hfi_saving_report_stays(hf_worker *worker) {
    for (size_t i = 0; i < worker->saving.stay_count; i++)
        hfi_shown_notice(worker, "%.200s ends with the cell: %.400s",
                         worker->saving.stays[i].key.data,
                         worker->saving.stays[i].value.data);
}

/* ---- generations ----------------------------------------------------------------- */

hf_status
hfi_saving_import(hf_worker *worker, hfi_part name, hf_snapshot **ret_snapshot,
                  hf_error *reterr) {
    hf_generation generation;
    if (name.size == 0)
        return hf_snapshot_acquire(worker->session, ret_snapshot, reterr);
    if (name.size != sizeof generation)
        return hf_error_set(reterr, HF_E_PROTOCOL, "a generation's name of %zu bytes",
                            name.size);
    memcpy(&generation, name.data, sizeof generation);
    return hf_snapshot_import(worker->session, &generation, ret_snapshot, reterr);
}

static void
hold_snapshot(hf_worker *worker, hf_snapshot *snapshot) {
    hf_snapshot_release(worker->held);
    worker->held = snapshot;
}

hf_status
hfi_saving_published(hf_worker *worker, uint64_t generation, hfi_part name,
                     hf_error *reterr) {
    const hf_worker_language *language = &worker->language;
    hf_snapshot *snapshot;
    if (worker->session == NULL)
        return HF_OK;
    hf_status status = hfi_saving_import(worker, name, &snapshot, reterr);
    if (status != HF_OK)
        return status;
    hold_snapshot(worker, snapshot);
    if (language->published != NULL)
        language->published(language->context, worker, generation);
    status = hf_session_privatize(worker->session, 0, reterr);
    worker->owes_privacy = status != HF_OK;
    return status;
}

hf_status
hfi_saving_bind(hf_worker *worker, hf_worker_occasion occasion, hfi_part name,
                const char *code, int64_t number, hf_error *reterr) {
    const hf_worker_language *language = &worker->language;
    hf_snapshot *now;
    if (worker->session == NULL)
        return HF_OK;
    worker->owes_binding = true;
    hf_status status = hfi_saving_import(worker, name, &now, reterr);
    if (status != HF_OK)
        return status;
    const hf_worker_binding binding = {.struct_size = sizeof binding,
                                       .occasion = occasion,
                                       .before = worker->held,
                                       .now = now,
                                       .code = code,
                                       .number = number};
    bool is_new = worker->held == NULL ||
                  hf_snapshot_generation(worker->held) != hf_snapshot_generation(now);
    if (is_new && hf_snapshot_generation(now) > 0 && language->bind != NULL)
        status = language->bind(language->context, worker, &binding, reterr);
    worker->owes_binding = status != HF_OK;
    if (status == HF_OK)
        hold_snapshot(worker, now);
    else
        hf_snapshot_release(now);
    return status;
}

hf_status
hfi_saving_catch_up(hf_worker *worker, hf_error *reterr) {
    hf_status status = HF_OK;
    if (worker->owes_binding)
        status =
            hfi_saving_bind(worker, HF_BIND_ADOPT, hfi_part_text(""), "", 0, reterr);
    if (status == HF_OK && worker->owes_privacy) {
        status = hf_session_privatize(worker->session, 0, reterr);
        worker->owes_privacy = status != HF_OK;
    }
    return status;
}

void
hfi_saving_fini(hf_worker *worker) {
    forget_stays(&worker->saving);
    hold_snapshot(worker, NULL);
}
