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
    [HFI_HISTORY_LIMIT] = "limit",
};

const char *
hfi_history_name(hfi_history_kind kind) {
    return kind_names[kind];
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
