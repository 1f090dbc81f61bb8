/* command.c - what a cell's command means in the session's mode.
 *
 * There are three modes. By default cells run. In multi-cell mode they are marked, and
 * run together at the end. In write mode they are recorded into a script. One table
 * says which command is allowed in which mode, and whether its cell may have other
 * text. Handlers only get what is allowed.
 *
 * A call has its full effect or none. Handlers write their decision into an outcome.
 * What they have to append at once (marked cells, the script) has a mark, to which it
 * is cut back on failure. Once every allocation has succeeded, apply_outcome(), which
 * can't fail, puts the outcome into effect.
 *
 * mode.c and setting.c have the handlers.
 *
 * The sentences on stdout, and the headings that are printed in multi-cell mode, are an
 * interface: notebooks for the published Score-P kernel have them as expected outputs.
 * Lines on stderr are ours.
 *
 * Nothing here uses a socket, a process or the clock; only %%end_writefile uses files.
 * No locks: one thread at a time.
 */
#include "commands/outcome.h"

#include <stdlib.h>
#include <string.h>

#include "commands/quoting.h"

enum {
    IN_DEFAULT = 1 << HFI_MODE_DEFAULT,
    IN_MULTICELL = 1 << HFI_MODE_MULTICELL,
    IN_WRITEFILE = 1 << HFI_MODE_WRITEFILE,
    ANYWHERE = IN_DEFAULT | IN_MULTICELL | IN_WRITEFILE,
};

struct command {
    const char *name;
    void (*handle)(hfi_outcome *outcome);
    int modes;
    bool takes_argument; /* in the command's own line */
    bool takes_body;     /* in the lines below */
    bool runs_body;      /* as Python, which then also handles a NUL in it */
};

static const hfi_viewer vampir = {"Vampir", "vampir", "traces.otf2"};

static const struct command command_table[] = {
    {"%holdfast", hfi_mode_history, ANYWHERE, true, true, true},
    {"holdfast.publish()", hfi_mode_publish, ANYWHERE, true, true, true},
    {"%%execute_with_scorep", hfi_mode_execute, ANYWHERE, true, true, true},
    {"%%isolated", hfi_mode_isolated, ANYWHERE, true, true, true},
    {"%%scorep_env", hfi_setting_environment, IN_DEFAULT | IN_WRITEFILE, false, true,
     false},
    {"%%scorep_python_binding_arguments", hfi_setting_arguments,
     IN_DEFAULT | IN_WRITEFILE, true, true, false},
    {"%%marshalling_settings", hfi_setting_marshalling, IN_DEFAULT, false, true, false},
    {"%%serializer_settings", hfi_setting_serializer, ANYWHERE, false, true, false},
    {"%%enable_multicellmode", hfi_mode_enable_multicell, IN_DEFAULT | IN_WRITEFILE,
     false, false, false},
    {"%%finalize_multicellmode", hfi_mode_finalize_multicell,
     IN_MULTICELL | IN_WRITEFILE, false, false, false},
    {"%%abort_multicellmode", hfi_mode_abort_multicell, IN_MULTICELL, false, false,
     false},
    {"%%start_writefile", hfi_mode_start_writefile, IN_DEFAULT, true, false, false},
    {"%%end_writefile", hfi_mode_end_writefile, IN_WRITEFILE, false, false, false},
    {"%%abort_writefile", hfi_mode_abort_writefile, IN_WRITEFILE, false, false, false},
    {"%%enable_vampir_launch_on_scorep_instrumented", hfi_setting_enable_vampir,
     ANYWHERE, false, false, false},
    {"%%disable_vampir_launch", hfi_setting_disable_vampir, ANYWHERE, false, false,
     false},
};

/* Magics that run the lines below them, and what may stand below one (cellhead.h). */
static const char *const runners[] = {"%%time", "%%timeit", "%%capture", "%%prun",
                                      NULL};
static const char *const lifted[] = {"%%execute_with_scorep", "%%isolated", NULL};

static const struct command *
find_command(hfi_part name) {
    for (size_t i = 0; i < sizeof command_table / sizeof *command_table; i++)
        if (hfi_part_is(name, command_table[i].name))
            return &command_table[i];
    return NULL;
}

static void
refuse_command(hfi_outcome *outcome, const struct command *command) {
    hfi_textbuf_add(&outcome->err, command->name);
    if (outcome->state.mode == HFI_MODE_MULTICELL)
        hfi_textbuf_add(&outcome->err, " was ignored: multi-cell mode is on. "
                                       "%%finalize_multicellmode or "
                                       "%%abort_multicellmode ends it.\n");
    else if (outcome->state.mode == HFI_MODE_WRITEFILE)
        hfi_textbuf_add(&outcome->err,
                        " was ignored: write mode is on. %%end_writefile or "
                        "%%abort_writefile ends it.\n");
    else if (command->modes & IN_MULTICELL)
        hfi_textbuf_add(&outcome->err, " was ignored: multi-cell mode is not on. "
                                       "%%enable_multicellmode starts it.\n");
    else
        hfi_textbuf_add(&outcome->err, " was ignored: write mode is not on. "
                                       "%%start_writefile starts it.\n");
}

/* Report text in a command's cell that has no effect. */
static void
mention_ignored(hfi_outcome *outcome, const struct command *command) {
    if (!command->takes_argument && outcome->head.argument.size)
        hfi_outcome_ignore(outcome, " takes no argument; ignored: ");
    if (!command->takes_body &&
        hfi_cellhead_has_code(outcome->head.body, HFI_PYTHON_COMMENT))
        hfi_outcome_complain(
            outcome, command->name,
            " stands alone in its cell; the other lines were ignored.");
}

static void
decide_outcome(hfi_outcome *outcome) {
    const struct command *command = find_command(outcome->head.name);

    if (!command) {
        hfi_mode_plain(outcome);
        return;
    }
    if (!(command->modes & 1 << outcome->state.mode)) {
        refuse_command(outcome, command);
        return;
    }
    if (!command->runs_body && memchr(outcome->cell.data, 0, outcome->cell.size)) {
        hfi_outcome_complain(
            outcome, command->name,
            ": there is a null byte in the cell; nothing was changed.");
        return;
    }
    mention_ignored(outcome, command);
    command->handle(outcome);
}

/* With HOLDFAST_RECORD every cell is recorded, or none is, whatever command it begins
 * with. Cells that ask about recordings stay plain. */
static void
choose_recording(hfi_outcome *outcome) {
    const char *chosen = getenv("HOLDFAST_RECORD");
    bool asks = hfi_part_is(outcome->head.name, "%holdfast") ||
                hfi_part_is(outcome->head.name, "%trace") ||
                outcome->history.kind != HFI_HISTORY_NONE;

    if (!chosen)
        return;
    if (!strcmp(chosen, "all") && outcome->kind == HFI_RUN_PLAIN && !asks &&
        hfi_cellhead_has_code(outcome->cell, HFI_PYTHON_COMMENT)) {
        outcome->kind = HFI_RUN_INSTRUMENTED;
    } else if (!strcmp(chosen, "none") && outcome->kind == HFI_RUN_INSTRUMENTED &&
               !outcome->isolated) {
        outcome->kind = HFI_RUN_PLAIN;
        outcome->run_mode = NULL;
        outcome->multicell = false;
    }
}

static bool
has_failed(const hfi_outcome *outcome) {
    const hfi_commands *commands = outcome->commands;

    return outcome->lifted.failed || outcome->code.failed || outcome->out.failed ||
           outcome->err.failed || outcome->note.failed || outcome->arguments.failed ||
           outcome->environment.failed || commands->multicell.cells.failed ||
           hfi_writefile_failed(&commands->writefile);
}

/* Put the outcome into effect; `arguments` are the directive's. Doesn't fail. */
static void
apply_outcome(hfi_outcome *outcome, char **arguments, hfi_directive *ret_directive) {
    hfi_commands *commands = outcome->commands;

    if (outcome->replaces_arguments) {
        hfi_wordlist *list = outcome->state.mode == HFI_MODE_WRITEFILE
                                 ? &commands->script_arguments
                                 : &commands->arguments;
        hfi_wordlist_fini(list);
        *list = outcome->arguments;
        outcome->arguments = (hfi_wordlist)HFI_WORDLIST_INIT;
    }
    commands->state = outcome->state;
    if (commands->state.mode != HFI_MODE_MULTICELL)
        hfi_multicell_fini(&commands->multicell);
    if (commands->state.mode != HFI_MODE_WRITEFILE) {
        hfi_writefile_fini(&commands->writefile);
        hfi_wordlist_fini(&commands->script_arguments);
        commands->state.script_multicell = false;
    }
    if (outcome->script_base)
        commands->writefile.base = outcome->script_base;
    outcome->script_base = NULL;

    ret_directive->kind = outcome->kind;
    ret_directive->arguments = arguments;
    ret_directive->run_mode = outcome->run_mode;
    ret_directive->isolated = outcome->isolated && arguments;
    ret_directive->multicell = outcome->multicell;
    ret_directive->repeat = arguments ? outcome->repeat : 0;
    ret_directive->history = outcome->history;
    bool opens = outcome->state.launch_vampir && arguments && !outcome->isolated;
    ret_directive->viewer = opens ? &vampir : NULL;
    ret_directive->code_length = outcome->code.size;
    ret_directive->code = hfi_textbuf_take(&outcome->code);
    ret_directive->out = hfi_textbuf_take(&outcome->out);
    ret_directive->err = hfi_textbuf_take(&outcome->err);
    ret_directive->note = hfi_textbuf_take(&outcome->note);
    if (outcome->environment.count)
        ret_directive->environment = outcome->environment.words;
    else
        hfi_wordlist_fini(&outcome->environment);
    outcome->environment = (hfi_wordlist)HFI_WORDLIST_INIT;
}

static void
outcome_fini(hfi_outcome *outcome) {
    hfi_textbuf_fini(&outcome->lifted);
    hfi_textbuf_fini(&outcome->code);
    hfi_textbuf_fini(&outcome->out);
    hfi_textbuf_fini(&outcome->err);
    hfi_textbuf_fini(&outcome->note);
    hfi_wordlist_fini(&outcome->arguments);
    hfi_wordlist_fini(&outcome->environment);
    free(outcome->script_base);
}

hf_status
hfi_commands_feed(hfi_commands *commands, const char *code, size_t length,
                  const char *cwd, const char *search_path,
                  hfi_directive *ret_directive, hf_error *reterr) {
    hfi_writefile_mark written = hfi_writefile_get_mark(&commands->writefile);
    size_t marked_length = commands->multicell.cells.size;
    size_t marked_count = commands->multicell.count;
    bool awaits = commands->multicell.awaits;
    hfi_wordlist arguments = HFI_WORDLIST_INIT;
    char **words = NULL;
    hfi_outcome outcome = {.commands = commands,
                           .cell = {code, length},
                           .cwd = cwd,
                           .search_path = search_path,
                           .state = commands->state};

    *ret_directive = (hfi_directive)HFI_DIRECTIVE_INIT;
    if (hfi_cellhead_lift(outcome.cell, HFI_PYTHON_COMMENT, runners, lifted,
                          &outcome.lifted))
        outcome.cell = (hfi_part){outcome.lifted.data, outcome.lifted.size};
    hfi_cellhead_parse(outcome.cell, HFI_PYTHON_COMMENT, &outcome.head);
    decide_outcome(&outcome);
    choose_recording(&outcome);
    if (!has_failed(&outcome) && outcome.kind == HFI_RUN_INSTRUMENTED) {
        hfi_wordlist_copy(&arguments, &commands->arguments);
        if (outcome.lines)
            hfi_wordlist_add(&arguments, hfi_part_text("--lines"));
        words = arguments.failed ? NULL : hfi_wordlist_take(&arguments);
    }
    if (has_failed(&outcome) || (outcome.kind == HFI_RUN_INSTRUMENTED && !words)) {
        hfi_wordlist_fini(&arguments);
        hfi_textbuf_truncate(&commands->multicell.cells, marked_length);
        commands->multicell.count = marked_count;
        commands->multicell.awaits = awaits;
        hfi_writefile_rewind(&commands->writefile, written);
        outcome_fini(&outcome);
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    }
    apply_outcome(&outcome, words, ret_directive);
    outcome_fini(&outcome);
    return HF_OK;
}

hf_status
hfi_commands_create(const char *python, hfi_commands **ret_commands, hf_error *reterr) {
    hfi_commands *commands = calloc(1, sizeof *commands);

    if (commands)
        commands->python = strdup(python);
    if (!commands || !commands->python) {
        free(commands);
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    }
    memcpy(commands->state.marshaller, "dill", sizeof "dill");
    commands->state.in_memory = true;
    *ret_commands = commands;
    return HF_OK;
}

void
hfi_commands_close(hfi_commands *commands) {
    if (!commands)
        return;
    hfi_wordlist_fini(&commands->arguments);
    hfi_wordlist_fini(&commands->script_arguments);
    hfi_multicell_fini(&commands->multicell);
    hfi_writefile_fini(&commands->writefile);
    free(commands->python);
    free(commands);
}

static void
note_cellname(hfi_commands *commands, const char *code, size_t length,
              long long number) {
    hfi_cellnames_add(&commands->names, hfi_part_of(code, length), number);
}

/* Python's comment sign is known here. */
static hf_status
create_commands(const char *program, const char *comment, hfi_commands **ret_commands,
                hf_error *reterr) {
    (void)comment;
    return hfi_commands_create(program, ret_commands, reterr);
}

/* Numbered results and what `!command` leaves aren't the user's. */
static bool
is_variable(const char *key, size_t size) {
    size_t at = size > 0 && key[0] == '_' ? 1 : 0;

    if (hfi_part_is(hfi_part_of(key, size), "_exit_code"))
        return false;
    while (at > 0 && at < size && key[at] >= '0' && key[at] <= '9')
        at++;
    return at < 2 || at < size;
}

static hfi_filter *
create_filter(hfi_commands *commands) {
    return hfi_dump_create(&commands->names);
}

const hf_kernel_commands hfi_python_commands = {.create = create_commands,
                                                .feed = hfi_commands_feed,
                                                .close = hfi_commands_close,
                                                .note = note_cellname,
                                                .filter = create_filter,
                                                .history = "%holdfast",
                                                .where = "%trace",
                                                .is_variable = is_variable,
                                                .shell = "IPython",
                                                .drop = "del",
                                                .interrupted = "KeyboardInterrupt"};
