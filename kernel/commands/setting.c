/* setting.c - commands that only set something.
 *
 * The next instrumented cell starts with these environment values and binding
 * arguments. In write mode they go into the shell script instead, and don't change the
 * session. If an environment line can't be read, it is named, and the others are used:
 * the user sees which one to correct, and one typing mistake doesn't spoil a long list.
 * Arguments are taken as a whole or not at all, because a lost quote changes what the
 * rest means.
 *
 * The marshaller's name is kept and reported because notebooks compare it. Nothing else
 * reads it, and the note says so. We don't check whether such a module can be imported:
 * the frontend has no Python, and the answer would change nothing.
 */
#include "commands/outcome.h"

#include <string.h>
#include <unistd.h>

#include "commands/quoting.h"

void
hfi_setting_environment(hfi_outcome *outcome) {
    hfi_wordlist *pairs = &outcome->environment;

    hfi_wordlist_read_environment(pairs, outcome->head.body, "%%scorep_env",
                                  &outcome->err);
    if (!pairs->count && !outcome->err.failed && !outcome->err.size)
        hfi_outcome_complain(outcome, "%%scorep_env", ": no line NAME=value below it.");
    for (size_t i = 0; i + 1 < pairs->count; i += 2) {
        hfi_part name = hfi_part_text(pairs->words[i]);
        hfi_part value = hfi_part_text(pairs->words[i + 1]);

        if (outcome->state.mode == HFI_MODE_WRITEFILE)
            hfi_writefile_add_environment(&outcome->commands->writefile, name, value);
        else
            hfi_textbuf_format(&outcome->out, "env: %s=%s\n", pairs->words[i],
                               pairs->words[i + 1]);
    }
    if (outcome->state.mode != HFI_MODE_WRITEFILE)
        return;
    if (pairs->count)
        hfi_textbuf_add(&outcome->out, "Score-P environment recorded.\n");
    hfi_wordlist_fini(pairs);
}

void
hfi_setting_arguments(hfi_outcome *outcome) {
    hfi_wordlist *list = &outcome->arguments;

    if (!hfi_wordlist_split(list, outcome->head.argument) ||
        !hfi_wordlist_split(list, outcome->head.body)) {
        hfi_outcome_complain(outcome, "%%scorep_python_binding_arguments",
                             ": a quote is not closed; nothing was changed.");
        hfi_wordlist_fini(list);
        return;
    }
    outcome->replaces_arguments = true;
    if (outcome->state.mode == HFI_MODE_WRITEFILE) {
        hfi_textbuf_add(&outcome->out, "Score-P bindings arguments recorded.\n");
        return;
    }
    hfi_textbuf_add(&outcome->out,
                    "Score-P Python binding arguments set successfully: [");
    for (size_t i = 0; i < list->count; i++) {
        hfi_textbuf_add(&outcome->out, i ? ", " : "");
        hfi_quote_repr(&outcome->out, hfi_part_text(list->words[i]));
    }
    hfi_textbuf_add(&outcome->out, "]\n");
}

static bool
is_marshaller(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_.-");

    return length && length < HFI_MARSHALLER_SIZE && !name[length];
}

/* Returns false if the setting isn't known. */
static bool
set_marshalling(hfi_outcome *outcome, const char *name, const char *value) {
    if (!strcmp(name, "MARSHALLER") && is_marshaller(value)) {
        memcpy(outcome->state.marshaller, value, strlen(value) + 1);
    } else if (!strcmp(name, "MODE") &&
               (!strcmp(value, "memory") || !strcmp(value, "disk"))) {
        outcome->state.in_memory = !strcmp(value, "memory");
    } else {
        return false;
    }
    return true;
}

static void
complain_marshalling(hfi_outcome *outcome, const char *name, const char *value) {
    hfi_textbuf_add(&outcome->err, "%%marshalling_settings: not known, ignored: ");
    hfi_textbuf_add_excerpt(&outcome->err, hfi_part_text(name));
    hfi_textbuf_add(&outcome->err, "=");
    hfi_textbuf_add_excerpt(&outcome->err, hfi_part_text(value));
    hfi_textbuf_add(&outcome->err, "\n");
}

void
hfi_setting_marshalling(hfi_outcome *outcome) {
    hfi_wordlist pairs = HFI_WORDLIST_INIT;
    size_t unknown = 0;

    hfi_wordlist_read_environment(&pairs, outcome->head.body, "%%marshalling_settings",
                                  &outcome->err);
    for (size_t i = 0; i + 1 < pairs.count; i += 2)
        if (!set_marshalling(outcome, pairs.words[i], pairs.words[i + 1]) &&
            ++unknown <= HFI_WORDLIST_COMPLAINTS)
            complain_marshalling(outcome, pairs.words[i], pairs.words[i + 1]);
    if (pairs.failed)
        outcome->err.failed = true;
    hfi_wordlist_fini(&pairs);
    if (unknown > HFI_WORDLIST_COMPLAINTS)
        hfi_textbuf_format(&outcome->err,
                           "%%%%marshalling_settings: %zu more are not known.\n",
                           unknown - HFI_WORDLIST_COMPLAINTS);
    /* The Score-P kernel's own line: its tests and notebooks compare it. */
    hfi_textbuf_format(&outcome->out, "Kernel uses '%s' marshaller in '%s' mode.\n",
                       outcome->state.marshaller,
                       outcome->state.in_memory ? "memory" : "disk");
    hfi_textbuf_add(&outcome->note,
                    "The setting has no effect. Holdfast accepts it so that existing "
                    "notebooks run: variables are handed over in shared memory.");
}

void
hfi_setting_serializer(hfi_outcome *outcome) {
    hfi_outcome_complain(
        outcome, "%%serializer_settings",
        " is the old name of %%marshalling_settings; nothing was changed.");
}

/* Vampir */

static bool
is_in_path(const char *program, const char *search_path) {
    hfi_part rest = hfi_part_text(search_path ? search_path : "");
    bool found = false;

    while (rest.size && !found) {
        const char *colon = memchr(rest.data, ':', rest.size);
        hfi_part directory = rest;
        hfi_textbuf path = {0};

        if (colon)
            directory.size = (size_t)(colon - rest.data);
        rest.data += directory.size + (colon ? 1 : 0);
        rest.size -= directory.size + (colon ? 1 : 0);
        hfi_textbuf_add_part(&path, directory);
        hfi_textbuf_format(&path, "/%s", program);
        found = directory.size && path.data && access(path.data, X_OK) == 0;
        hfi_textbuf_fini(&path);
    }
    return found;
}

void
hfi_setting_enable_vampir(hfi_outcome *outcome) {
    if (!is_in_path("vampir", outcome->search_path)) {
        hfi_outcome_complain(
            outcome, "%%enable_vampir_launch_on_scorep_instrumented",
            ": there is no program vampir in PATH; it will not be launched.");
        return;
    }
    outcome->state.launch_vampir = true;
    hfi_textbuf_add(&outcome->out, "Vampir opens the trace of each recorded cell from "
                                   "now on.\n");
}

void
hfi_setting_disable_vampir(hfi_outcome *outcome) {
    outcome->state.launch_vampir = false;
    hfi_textbuf_add(&outcome->out, "Vampir launching disabled.\n");
}
