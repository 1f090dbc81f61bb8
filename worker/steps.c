/* steps.c - what the user sees of a line of the history.
 *
 * The frontend keeps the steps and goes back to one; the worker has bound its variables
 * before this request comes ("checkout"). What is left is to say what happened, the same
 * in every language: the numbers of the cells, the names that differ. The store compares
 * entries without knowing what they mean.
 */
#include "steps.h"

#include <stdio.h>

#include "running.h"

static void
add_names(const hfi_parts *names, hfi_textbuf *text) {
    for (size_t i = 0; i < names->count; i++) {
        hfi_textbuf_add(text, i > 0 ? ", " : "  ");
        hfi_textbuf_add_part(text, names->items[i]);
    }
}

static void
list_steps(const hfi_map_history *history, hfi_textbuf *text) {
    for (size_t i = 0; i < history->steps.count; i++) {
        const hfi_keyed_step *step = &history->steps.items[i];
        hfi_textbuf_add(text, "step ");
        hfi_textbuf_add_part(text, step->key);
        hfi_textbuf_add(text, "  cells ");
        hfi_textbuf_add_part(text, step->value.cells);
        add_names(&step->value.changed, text);
        hfi_textbuf_add(text, "\n");
    }
    if (history->steps.count == 0)
        hfi_textbuf_add(text, "there is no step yet\n");
}

static int
add_difference(void *context, const hf_entry *before, const hf_entry *after) {
    hfi_textbuf *text = context;
    const hf_entry *one = after != NULL ? after : before;
    hfi_textbuf_add(text, before == NULL  ? "new      "
                          : after == NULL ? "gone     "
                                          : "changed  ");
    hfi_textbuf_append(text, one->key, one->key_size);
    hfi_textbuf_add(text, "\n");
    return 0;
}

/* The step of this number; of a negative one that many from the end. */
static const hfi_keyed_step *
find_step(const hfi_map_history *history, int64_t number) {
    char key[32];
    const hfi_steps *steps = &history->steps;
    if (number < 0)
        return (size_t)-number <= steps->count ? &steps->items[steps->count + number]
                                               : NULL;
    snprintf(key, sizeof key, "%lld", (long long)number);
    for (size_t i = 0; i < steps->count; i++)
        if (hfi_part_is(steps->items[i].key, key))
            return &steps->items[i];
    return NULL;
}

static hf_status
compare_steps(hf_worker *worker, const hfi_map_history *history, hfi_textbuf *text,
              hf_error *reterr) {
    hf_snapshot *before = NULL, *after = NULL;
    const hfi_keyed_step *from =
        find_step(history, history->from >= 0 ? history->from : -2);
    const hfi_keyed_step *to = find_step(history, history->to >= 0 ? history->to : -1);
    if (from == NULL || to == NULL || worker->session == NULL)
        return hf_error_set(reterr, HF_NOT_FOUND, "there are no two such steps");
    hf_status status = hfi_saving_import(worker, from->value.name, &before, reterr);
    if (status == HF_OK)
        status = hfi_saving_import(worker, to->value.name, &after, reterr);
    if (status == HF_OK)
        status = hf_snapshot_diff(before, after, add_difference, text, reterr);
    if (status == HF_OK && text->size == 0)
        hfi_textbuf_add(text, "no variable differs\n");
    hf_snapshot_release(before);
    hf_snapshot_release(after);
    return status;
}

static hf_status
describe_history(hf_worker *worker, const hfi_map_history *history, hfi_textbuf *text,
                 hf_error *reterr) {
    hfi_part kind = history->kind;
    if (hfi_part_is(kind, "show")) {
        list_steps(history, text);
    } else if (hfi_part_is(kind, "diff")) {
        return compare_steps(worker, history, text, reterr);
    } else if (hfi_part_is(kind, "undo")) {
        hfi_textbuf_add(text, "undone: ");
        hfi_textbuf_add_part(text, history->undone);
        hfi_textbuf_add(text, "\n");
    } else if (hfi_part_is(kind, "checkout")) {
        hfi_textbuf_format(text, "the variables are those of step %lld\n",
                           (long long)history->target);
    } else if (hfi_part_is(kind, "limit")) {
        hfi_textbuf_format(text, "old steps may keep %lld bytes\n",
                           (long long)history->limit_bytes);
    } else {
        return hf_error_set(reterr, HF_E_INVALID, "this kernel has no command %.*s",
                            (int)kind.size, kind.data);
    }
    return HF_OK;
}

hf_status
hfi_steps_run(hf_worker *worker, hf_error *reterr) {
    hfi_textbuf text = {0};
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_running_prepare(worker, reterr);
    if (status != HF_OK)
        return status;
    status = describe_history(worker, worker->asked.frame.to_worker_request.history,
                              &text, &error);
    if (status == HF_OK)
        status =
            hf_worker_write(worker, 0, hfi_textbuf_string(&text), text.size, reterr);
    else
        status = hf_worker_fail(worker, "HistoryError", error.message, NULL, reterr);
    hfi_textbuf_fini(&text);
    if (status == HF_OK)
        status = hfi_running_end(worker, reterr);
    return status == HF_OK ? hfi_running_reply(worker, NULL, reterr) : status;
}
