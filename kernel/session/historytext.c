/* historytext.c - what a line of %holdfast shows, in words for any language.
 *
 * The frontend keeps the steps, and knows which names each has changed. So it can write
 * the text, and a worker only prints it after it has done its part: bound the variables,
 * or written or read a file. Names are shown and values aren't, because a value's bytes
 * are the language's. Python shows them, and has a text of its own
 * (holdfast/commands/history.py).
 */
#include "session/historytext.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAMES_MOST = 8 };

/* "a, b and 3 more" */
static void
add_names(hfi_textbuf *text, hfi_parts names) {
    for (size_t i = 0; i < names.count && i < NAMES_MOST; i++) {
        hfi_textbuf_add(text, i > 0 ? ", " : "");
        hfi_textbuf_add_excerpt(text, names.items[i]);
    }
    if (names.count > NAMES_MOST)
        hfi_textbuf_format(text, " and %zu more", names.count - NAMES_MOST);
}

/* A line for each name with a reason: "NAME WORDS: REASON." */
static void
add_reasons(hfi_textbuf *text, const char *words, hfi_texts reasons) {
    for (size_t i = 0; i < reasons.count && i < NAMES_MOST; i++) {
        hfi_textbuf_add_excerpt(text, reasons.items[i].key);
        hfi_textbuf_format(text, " %s: ", words);
        hfi_textbuf_add_part(text, reasons.items[i].value);
        hfi_textbuf_add(text, ".\n");
    }
    if (reasons.count > NAMES_MOST)
        hfi_textbuf_format(text, "So it is with %zu more.\n",
                           reasons.count - NAMES_MOST);
}

/* ---- ways back ------------------------------------------------------------------- */

static void
add_way_back(const hfi_map_history *history, const char *command, hfi_textbuf *text) {
    const hfi_keyed_step *steps = history->steps.items;
    size_t count = history->steps.count;
    if (history->undone.size > 0)
        hfi_textbuf_format(
            text, "Undone: %s %.*s. The",
            memchr(history->undone.data, ',', history->undone.size) ? "cells" : "cell",
            (int)history->undone.size, history->undone.data);
    else
        hfi_textbuf_add(text, "The");
    hfi_textbuf_format(text, " variables are those of step %lld.\n",
                       (long long)history->target);
    if (count > 0 && steps[count - 1].value.changed.count > 0) {
        hfi_textbuf_add(text, "Changed: ");
        add_names(text, steps[count - 1].value.changed);
        hfi_textbuf_add(text, ".\n");
    }
    add_reasons(text, "isn't in that step", history->unserializable);
    if (count > 1)
        hfi_textbuf_format(text, "%s checkout %.*s takes it back.\n", command,
                           (int)steps[count - 2].key.size, steps[count - 2].key.data);
}

/* ---- what differs ---------------------------------------------------------------- */

/* Two steps that are compared, and their differences. A name that none of the steps
 * after `low`, up to `high`, says it has changed is left out: its entry differs only
 * because it is stored together with others. */
typedef struct comparison {
    const hfi_keyed_step *steps;
    size_t low, high; /* places in `steps` */
    hfi_textbuf names;
} comparison;

static bool
has_name(hfi_parts names, hfi_part name) {
    for (size_t i = 0; i < names.count; i++)
        if (hfi_part_equal(names.items[i], name))
            return true;
    return false;
}

/* Whether a step in between has changed this name, or doesn't know what it has changed.
 */
static bool
may_have_changed(const comparison *compared, hfi_part name) {
    for (size_t i = compared->low + 1; i <= compared->high; i++) {
        hfi_parts changed = compared->steps[i].value.changed;
        if (changed.items == NULL || has_name(changed, name))
            return true;
    }
    return compared->low == compared->high;
}

static int
note_difference(void *context, const hf_entry *before, const hf_entry *after) {
    comparison *compared = context;
    const hf_entry *entry = after != NULL ? after : before;
    hfi_part name = hfi_part_of(entry->key, entry->key_size);
    const char *sign = before == NULL ? "+" : after == NULL ? "-" : "~";
    if (hfi_part_begins(name, "\1") || !may_have_changed(compared, name))
        return 0;
    hfi_textbuf_format(&compared->names, "%s  ", sign);
    hfi_textbuf_add_excerpt(&compared->names, name);
    hfi_textbuf_add(&compared->names, "\n");
    return 0;
}

/* The place of the step of a generation; `otherwise` if it is -1. */
static size_t
place_of(hfi_steps steps, int64_t generation, size_t otherwise) {
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)generation);
    for (size_t i = 0; i < steps.count; i++)
        if (hfi_part_is(steps.items[i].key, key))
            return i;
    return otherwise;
}

void
hfi_historytext_write_diff(const hfi_map_history *history,
                           hf_snapshot *const *snapshots, hfi_textbuf *text) {
    const hfi_steps steps = history->steps;
    hf_error error = HF_ERROR_INIT;
    if (steps.count == 0) {
        hfi_textbuf_add(text, "No step is kept yet.\n");
        return;
    }
    /* by default the newest and the one before; step 0 is the beginning, without variables */
    int is_first = history->from < 0 && steps.count == 1;
    size_t to = place_of(steps, history->to, steps.count - 1);
    size_t from = place_of(steps, history->from, is_first ? to : steps.count - 2);
    hfi_part since = is_first ? hfi_part_text("0") : steps.items[from].key;
    comparison compared = {
        steps.items, from < to ? from : to, from < to ? to : from, {0}};
    if (hf_snapshot_diff(is_first ? NULL : snapshots[from], snapshots[to],
                         note_difference, &compared, &error) != HF_OK)
        hfi_textbuf_format(text, "The steps can't be compared: %s.\n", error.message);
    else
        hfi_textbuf_format(text, "From step %.*s to step %.*s:%s\n", (int)since.size,
                           since.data, (int)steps.items[to].key.size,
                           steps.items[to].key.data,
                           compared.names.size > 0 ? "" : " no variable differs.");
    hfi_textbuf_add_part(text, hfi_textbuf_part(&compared.names));
    hfi_textbuf_fini(&compared.names);
}

/* ---- the list -------------------------------------------------------------------- */

static void
add_size(hfi_textbuf *text, int64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        size /= 1024;
    hfi_textbuf_format(text, "%.3g %s", size, units[unit]);
}

static void
add_step(const hfi_keyed_step *step, hfi_textbuf *text) {
    char clock[16] = "";
    struct tm local;
    time_t seconds = (time_t)(step->value.unix_ns / 1000000000);
    if (localtime_r(&seconds, &local) != NULL)
        (void)strftime(clock, sizeof clock, "%H:%M:%S", &local);
    hfi_textbuf_format(text, "%4.*s  %8s  %-8.*s  ", (int)step->key.size,
                       step->key.data, clock, (int)step->value.cells.size,
                       step->value.cells.data);
    if (step->value.origin != 0)
        hfi_textbuf_format(text, "the variables of step %lld",
                           (long long)step->value.origin);
    else
        add_names(text, step->value.changed);
    hfi_textbuf_add(text, "\n");
}

static void
add_list(const hfi_map_history *history, hfi_textbuf *text) {
    if (history->steps.count == 0)
        hfi_textbuf_add(text, "No step is kept yet.\n");
    else
        hfi_textbuf_add(text, "step      time  cells     changed\n");
    for (size_t i = 0; i < history->steps.count; i++)
        add_step(&history->steps.items[i], text);
    if (history->pending.size > 0)
        hfi_textbuf_format(
            text, "Not committed yet: what cell%s %.*s may have changed.\n",
            memchr(history->pending.data, ',', history->pending.size) ? "s" : "",
            (int)history->pending.size, history->pending.data);
    add_size(text, history->kept_bytes);
    hfi_textbuf_add(text, " kept for it, of at most ");
    add_size(text, history->limit_bytes);
    if (history->dropped > 0)
        hfi_textbuf_format(text, "; %lld older dropped", (long long)history->dropped);
    hfi_textbuf_add(text, ".\n");
}

/* ---- other programs -------------------------------------------------------------- */

static void
add_published(hf_session *session, hfi_textbuf *text) {
    const char *name = hf_session_name(session);
    hfi_textbuf_format(text, "Saved: generation %llu of the session %s\n",
                       (unsigned long long)hf_session_generation(session),
                       name[0] != '\0' ? name : "(which has no name)");
    if (name[0] != '\0')
        hfi_textbuf_format(
            text, "C:  hf_session_open_readonly(\"%s\", &session, &error)\n", name);
    else
        hfi_textbuf_format(text,
                           "C:  hf_session_open_fd(open(\"/proc/%ld/fd/%d\", O_RDWR), "
                           "&session, &error)\n",
                           (long)getpid(), hf_session_fd(session));
}

void
hfi_historytext_write(const hfi_map_history *history, const char *command,
                      hf_session *session, hfi_texts lacks, hfi_textbuf *text) {
    if (hfi_part_is(history->kind, "undo") || hfi_part_is(history->kind, "checkout")) {
        add_way_back(history, command, text);
    } else if (hfi_part_is(history->kind, "save")) {
        hfi_textbuf_format(text, "The variables are saved to %.*s.\n",
                           (int)history->file.size, history->file.data);
        add_reasons(text, "isn't in it", lacks);
    } else if (hfi_part_is(history->kind, "load")) {
        hfi_textbuf_format(text,
                           "The variables are those of %.*s.\n%s undo takes it back.\n",
                           (int)history->file.size, history->file.data, command);
    } else if (hfi_part_is(history->kind, "publish")) {
        add_published(session, text);
        add_reasons(text, "isn't in it", lacks);
    } else {
        add_list(history, text);
    }
}
