/* directive.c - the part of directives that the frontend itself needs.
 *
 * This file, common.c, cellhead.c and history.c belong to libholdfast-kernel, which knows
 * neither Python nor the commands of the Score-P kernel. All other files of this
 * directory belong to the program holdfast-kernel, which knows both. So these four use
 * none of them.
 */
#include "commands/directive.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    [HFI_HISTORY_NONE] = "",           [HFI_HISTORY_SHOW] = "show",
    [HFI_HISTORY_UNDO] = "undo",       [HFI_HISTORY_CHECKOUT] = "checkout",
    [HFI_HISTORY_DIFF] = "diff",       [HFI_HISTORY_SAVE] = "save",
    [HFI_HISTORY_PUBLISH] = "publish", [HFI_HISTORY_LOAD] = "load",
    [HFI_HISTORY_LIMIT] = "limit",     [HFI_HISTORY_RERUN] = "rerun",
    [HFI_HISTORY_PROTECT] = "protect",
};

const char *
hfi_history_name(hfi_history_kind kind) {
    return kind_names[kind];
}

static const char *const protections[HFI_PROTECT_COUNT] = {
    [HFI_PROTECT_UNKNOWN] = "",
    [HFI_PROTECT_BUDGET] = "budget",
    [HFI_PROTECT_ALWAYS] = "always",
    [HFI_PROTECT_NEVER] = "never",
};

const char *
hfi_protection_name(hfi_protection protection) {
    return protections[protection];
}

hfi_protection
hfi_protection_of(hfi_part word) {
    int at = HFI_PROTECT_COUNT;
    while (--at > HFI_PROTECT_UNKNOWN && !hfi_part_is(word, protections[at]))
        continue;
    return (hfi_protection)at;
}

const char *
hfi_directive_run_mode(hfi_part mode) {
    static const char *const modes[] = {"auto", "in-process", "forked", "isolated"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (hfi_part_is(mode, modes[i]))
            return modes[i];
    return NULL;
}

const char *
hfi_directive_run_option(hfi_part word) {
    static const char option[] = "--run=";
    size_t size = strlen(option);
    return hfi_part_begins(word, option)
               ? hfi_directive_run_mode(hfi_part_of(word.data + size, word.size - size))
               : NULL;
}

static void
free_words(char **words) {
    for (size_t i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}

static char *
copy_characters(const char *bytes, size_t size, bool *failed) {
    char *copy = bytes ? malloc(size + 1) : NULL;

    if (copy) {
        memcpy(copy, bytes, size);
        copy[size] = '\0';
    }
    *failed = *failed || (bytes && !copy);
    return copy;
}

static char *
copy_string(const char *text, bool *failed) {
    return copy_characters(text, text ? strlen(text) : 0, failed);
}

static char **
copy_words(char *const *words, bool *failed) {
    size_t count = 0;
    char **copy;

    while (words && words[count])
        count++;
    copy = words ? calloc(count + 1, sizeof *copy) : NULL;
    *failed = *failed || (words && !copy);
    for (size_t i = 0; copy && i < count && !*failed; i++)
        copy[i] = copy_string(words[i], failed);
    return copy;
}

bool
hfi_directive_copy(const hfi_directive *from, hfi_directive *ret_directive) {
    bool failed = false;

    *ret_directive = *from;
    ret_directive->code = copy_characters(from->code, from->code_length, &failed);
    ret_directive->arguments = copy_words(from->arguments, &failed);
    ret_directive->environment = copy_words(from->environment, &failed);
    ret_directive->out = copy_string(from->out, &failed);
    ret_directive->err = copy_string(from->err, &failed);
    ret_directive->note = copy_string(from->note, &failed);
    ret_directive->file = copy_string(from->file, &failed);
    if (failed)
        hfi_directive_fini(ret_directive);
    return !failed;
}

void
hfi_directive_fini(hfi_directive *directive) {
    free_words(directive->arguments);
    free_words(directive->environment);
    free(directive->code);
    free(directive->out);
    free(directive->err);
    free(directive->note);
    free(directive->file);
    *directive = (hfi_directive)HFI_DIRECTIVE_INIT;
}
