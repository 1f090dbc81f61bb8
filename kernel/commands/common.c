/* common.c - the commands of holdfast/commands.h: a directive for each cell, in any
 * language.
 *
 * The commands of holdfast-kernel are others (command.c), which have these as well, with
 * modes and recordings. Both use cellhead.c and history.c. Nothing is remembered from one
 * cell to the next but the comment sign.
 *
 * A mistake is a UsageError, and the worker doesn't get the cell: it knows neither
 * command. Under Python it is the worker's magic that reports mistakes.
 */
#include "holdfast/commands.h"

#include <stdlib.h>
#include <string.h>

#include "commands/cellhead.h"
#include "commands/directive.h"
#include "commands/history.h"

static const struct form {
    hfi_history_kind kind;
    const char *usage;
} forms[] = {
    {HFI_HISTORY_UNDO,
     "%holdfast undo        the variables as before the last cell that changed any\n"
     "%holdfast undo --to N the variables as after In[N]\n"},
    {HFI_HISTORY_LIMIT,
     "%holdfast history     the steps that are kept; history LIMIT (such as 2G, 500M, "
     "0) bounds them\n"},
    {HFI_HISTORY_CHECKOUT, "%holdfast checkout N  the variables of step N\n"},
    {HFI_HISTORY_DIFF,
     "%holdfast diff N M    the variables that differ between two steps; diff N, or "
     "diff alone: up to now\n"},
    {HFI_HISTORY_SAVE, "%holdfast save FILE   write all variables to a file\n"},
    {HFI_HISTORY_LOAD,
     "%holdfast load FILE   replace all variables by those of a file; only of one that "
     "you trust\n"},
    {HFI_HISTORY_PUBLISH, "%holdfast publish     save now, and show how other programs "
                          "open the variables\n"},
    {HFI_HISTORY_RERUN,
     "%holdfast rerun       run the cells again whose changes a crash has lost\n"},
    {HFI_HISTORY_PROTECT,
     "%holdfast protect     how cells are protected from a crash; protect "
     "always|budget|never chooses\n"},
};

/* Add the lines about one kind; HFI_HISTORY_SHOW: about all. */
static void
add_usage(hfi_history_kind kind, hfi_textbuf *text) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (kind == HFI_HISTORY_SHOW || forms[i].kind == kind)
            hfi_textbuf_add(text, forms[i].usage);
}

/* A line of %holdfast: what the frontend is to do, or its words for the user. */
typedef struct answer {
    hfi_directive_kind kind;
    hfi_history history;
    hfi_textbuf out, err;
    hfi_textbuf code;
    hfi_textbuf file;
    const char *run_mode;
} answer;

/* ---- %holdfast ------------------------------------------------------------------- */

/* A file's path: without its quotes, and absolute. */
static void
read_path(hfi_part word, const char *cwd, hfi_textbuf *path) {
    const char *home = getenv("HOME");
    char last = word.data[word.size - 1];
    if (word.size > 1 && word.data[0] == last && (last == '"' || last == '\''))
        word = hfi_part_of(word.data + 1, word.size - 2);
    if (hfi_part_begins(word, "~/") && home != NULL) {
        hfi_textbuf_add(path, home);
        word = hfi_part_of(word.data + 1, word.size - 1);
    } else if (!hfi_part_begins(word, "/") && cwd[0] != '\0') {
        hfi_textbuf_add(path, cwd);
        hfi_textbuf_add(path, "/");
    }
    hfi_textbuf_add_part(path, word);
}

static void
read_history(const hfi_cellhead *head, const char *comment, const char *cwd,
             answer *line) {
    hfi_part rest = head->argument, word = hfi_part_next_token(&rest);
    hfi_history_kind kind = hfi_history_kind_of(word);
    line->kind = HFI_REFUSE;
    if (hfi_cellhead_has_code(head->body, comment)) {
        hfi_textbuf_add(&line->err, "a line of %holdfast must be its cell's only one");
        return;
    }
    if (word.size == 0) {
        line->kind = HFI_ANSWER;
        add_usage(HFI_HISTORY_SHOW, &line->out);
        return;
    }
    line->history = hfi_history_parse(head->argument);
    if (kind == HFI_HISTORY_SHOW || line->history.kind == HFI_HISTORY_NONE) {
        line->history.kind = HFI_HISTORY_NONE;
        hfi_textbuf_add(&line->err, "this isn't understood: %holdfast ");
        hfi_textbuf_add_excerpt(&line->err, head->argument);
        hfi_textbuf_add(&line->err, "\n");
        add_usage(kind, &line->err);
        return;
    }
    line->kind = HFI_RUN_PLAIN;
    if (kind == HFI_HISTORY_SAVE || kind == HFI_HISTORY_LOAD)
        read_path(rest, cwd, &line->file);
}

/* ---- %%isolated ------------------------------------------------------------------ */

static void
read_isolated(hfi_part cell, const hfi_cellhead *head, const char *comment,
              answer *line) {
    hfi_part rest = head->argument;
    line->kind = HFI_REFUSE;
    while (rest.size > 0) {
        hfi_part word = hfi_part_next_token(&rest);
        line->run_mode = hfi_directive_run_option(word);
        if (line->run_mode == NULL) {
            hfi_textbuf_add(&line->err,
                            "%%isolated takes no argument but "
                            "--run=auto|in-process|forked|isolated; this is "
                            "unknown: ");
            hfi_textbuf_add_excerpt(&line->err, word);
            return;
        }
    }
    if (!hfi_cellhead_has_code(head->body, comment)) {
        hfi_textbuf_add(&line->err, "%%isolated: there is no code below it");
        return;
    }
    line->kind = HFI_RUN_INSTRUMENTED;
    hfi_cellhead_cut(cell, head->body, comment, &line->code);
}

/* ---- the table ------------------------------------------------------------------- */

/* The commands are the comment sign as a text, or "". */
static const char *
comment_of(const hfi_commands *commands) {
    const char *comment = (const char *)commands;
    return comment[0] != '\0' ? comment : NULL;
}

static hf_status
create_commands(const char *program, const char *comment, hfi_commands **ret_commands,
                hf_error *reterr) {
    (void)program;
    char *copy = strdup(comment != NULL ? comment : "");
    if (copy == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    *ret_commands = (hfi_commands *)(void *)copy;
    return HF_OK;
}

static hf_status
feed_cell(hfi_commands *commands, const char *code, size_t length, const char *cwd,
          const char *search_path, hfi_directive *ret_directive, hf_error *reterr) {
    const char *comment = comment_of(commands);
    hfi_part cell = hfi_part_of(code, length);
    answer line = {.kind = HFI_RUN_PLAIN, .history = {.from = -1, .to = -1}};
    hfi_cellhead head;
    char **arguments = NULL;
    (void)search_path;
    *ret_directive = (hfi_directive)HFI_DIRECTIVE_INIT;
    hfi_cellhead_parse(cell, comment, &head);
    if (hfi_part_is(head.name, "%holdfast"))
        read_history(&head, comment, cwd, &line);
    else if (hfi_part_is(head.name, "%%isolated"))
        read_isolated(cell, &head, comment, &line);
    if (line.kind == HFI_RUN_PLAIN)
        hfi_textbuf_add_part(&line.code, cell);
    int is_isolated = line.kind == HFI_RUN_INSTRUMENTED;
    if (is_isolated)
        arguments = calloc(1, sizeof *arguments);
    int failed = line.out.failed || line.err.failed || line.code.failed ||
                 line.file.failed || (is_isolated && arguments == NULL);
    ret_directive->kind = line.kind;
    ret_directive->code_length = line.code.size;
    ret_directive->code = hfi_textbuf_take(&line.code);
    ret_directive->out = hfi_textbuf_take(&line.out);
    ret_directive->err = hfi_textbuf_take(&line.err);
    ret_directive->file = hfi_textbuf_take(&line.file);
    ret_directive->arguments = arguments;
    ret_directive->run_mode = line.run_mode;
    ret_directive->isolated = is_isolated;
    ret_directive->history = line.history;
    if (!failed)
        return HF_OK;
    hfi_directive_fini(ret_directive);
    return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
}

static void
close_commands(hfi_commands *commands) {
    free(commands);
}

const hf_kernel_commands *
hf_kernel_commands_common(void) {
    static const hf_kernel_commands common = {.create = create_commands,
                                              .feed = feed_cell,
                                              .close = close_commands,
                                              .history = "%holdfast",
                                              .has_text = true};
    return &common;
}
