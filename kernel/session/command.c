/* command.c - what a cell's command means in the mode that the session is in.
 *
 * There are three modes. By default cells run. In multi-cell mode they are marked and
 * run together at the end; in write mode they are recorded into a script. One table
 * says which command is allowed in which mode, whether it may have other text in its
 * cell, and how to leave a mode; handlers only see what is allowed.
 *
 * A call either happens or it doesn't. Handlers write what they decide into an outcome;
 * what they have to append at once (marked cells, the script) has a mark to which it is
 * cut back. Only after every allocation succeeded is the outcome made true, by apply(),
 * which can't fail.
 *
 * The sentences that go to stdout, and `print`ed headings in multi-cell mode, are an
 * interface: notebooks written for the published Score-P kernel have them as expected
 * outputs. What goes to stderr is ours.
 *
 * Nothing here touches a socket, a process or the clock; files only at %%end_writefile.
 * No locks: one thread at a time.
 */
#include "command.h"

#include "cellhead.h"
#include "multicell.h"
#include "text.h"
#include "wordlist.h"
#include "writefile.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum mode { MODE_DEFAULT, MODE_MULTICELL, MODE_WRITEFILE };

enum {
    IN_DEFAULT = 1 << MODE_DEFAULT,
    IN_MULTICELL = 1 << MODE_MULTICELL,
    IN_WRITEFILE = 1 << MODE_WRITEFILE,
    ANYWHERE = IN_DEFAULT | IN_MULTICELL | IN_WRITEFILE,
    NAME_SIZE = 64,
};

/* What is copied and put back as a whole. */
struct state {
    enum mode mode;
    bool launch_vampir;
    bool script_multicell; /* write mode: multi-cell mode is on inside it */
    char marshaller[NAME_SIZE];
    bool in_memory; /* the marshaller's mode: memory, else disk */
};

struct hfi_commands {
    char *python;
    struct state state;
    hfi_wordlist arguments;        /* of the Score-P bindings */
    hfi_wordlist script_arguments; /* the same, of the script being recorded */
    hfi_multicell multicell;
    hfi_writefile writefile;
};

/* One call of hfi_commands_feed. */
struct outcome {
    hfi_commands *commands;
    hfi_span cell;     /* whole */
    hfi_cellhead head; /* its command */
    const char *cwd;
    const char *search_path;

    struct state state; /* the next one */
    hfi_verdict_kind kind;
    bool isolated;
    bool multicell;
    bool replaces_arguments; /* `arguments` becomes that of the mode */
    hfi_wordlist arguments;
    hfi_wordlist environment;
    hfi_text code, out, err, note;
    char *script_base; /* of the recording that begins */
};

struct command {
    const char *name;
    void (*handle)(struct outcome *outcome);
    int modes;
    bool takes_argument; /* on its own line */
    bool takes_body;     /* in the lines below */
};

static void
add_line(hfi_text *text, const char *name, const char *sentence) {
    hfi_text_add(text, name);
    hfi_text_add(text, sentence);
    hfi_text_add(text, "\n");
}

/* running cells */

/* Move the head over further %%execute_with_scorep and %%isolated lines. */
static void
skip_run_commands(struct outcome *outcome) {
    hfi_cellhead next;

    for (;;) {
        hfi_cellhead_parse(outcome->head.body, &next);
        if (hfi_span_equal(next.name, "%%execute_with_scorep"))
            outcome->isolated = false;
        else if (!hfi_span_equal(next.name, "%%isolated"))
            return;
        outcome->head = next;
    }
}

static void
mark_cell(struct outcome *outcome, hfi_span cell) {
    hfi_multicell *multicell = &outcome->commands->multicell;

    hfi_text_add_format(&outcome->out,
                        "Cell marked for multicell mode. It will be executed at "
                        "position %zu\n",
                        multicell->count);
    hfi_multicell_add(multicell, cell);
}

static void
record_cell(struct outcome *outcome, hfi_span cell, bool instrumented) {
    instrumented = instrumented || outcome->state.script_multicell;
    if (hfi_writefile_add_cell(&outcome->commands->writefile, cell, instrumented,
                               &outcome->err))
        hfi_text_add_format(&outcome->out,
                            "Python commands %s instrumentation recorded.\n",
                            instrumented ? "with" : "without");
}

static void
run_in_fresh_process(struct outcome *outcome) {
    hfi_span body = outcome->head.body;
    hfi_span above = {outcome->cell.start, (size_t)(body.start - outcome->cell.start)};
    hfi_cellhead next;

    if (!hfi_cellhead_has_code(body)) {
        hfi_text_add_span(&outcome->err, outcome->head.name);
        hfi_text_add(&outcome->err, ": there is no code below it.\n");
        return;
    }
    hfi_cellhead_parse(body, &next);
    hfi_cellhead_blank(&outcome->code, above, hfi_span_begins(next.name, "%%"));
    hfi_text_add_span(&outcome->code, body);
    outcome->kind = HFI_RUN_INSTRUMENTED;
}

static void
handle_run(struct outcome *outcome) {
    skip_run_commands(outcome);
    if (outcome->state.mode == MODE_MULTICELL)
        mark_cell(outcome, outcome->head.body);
    else if (outcome->state.mode == MODE_WRITEFILE)
        record_cell(outcome, outcome->head.body, !outcome->isolated);
    else
        run_in_fresh_process(outcome);
}

static void
handle_execute(struct outcome *outcome) {
    outcome->isolated = false;
    handle_run(outcome);
}

static void
handle_isolated(struct outcome *outcome) {
    outcome->isolated = true;
    handle_run(outcome);
}

static void
handle_plain(struct outcome *outcome) {
    if (outcome->state.mode == MODE_MULTICELL) {
        mark_cell(outcome, outcome->cell);
    } else if (outcome->state.mode == MODE_WRITEFILE) {
        record_cell(outcome, outcome->cell, false);
    } else {
        hfi_text_add_span(&outcome->code, outcome->cell);
        outcome->kind = HFI_RUN_PLAIN;
    }
}

/* settings */

static void
handle_environment(struct outcome *outcome) {
    hfi_wordlist *pairs = &outcome->environment;

    hfi_wordlist_read_environment(pairs, outcome->head.body, "%%scorep_env",
                                  &outcome->err);
    if (!pairs->count && !hfi_text_failed(&outcome->err) && !outcome->err.length)
        add_line(&outcome->err, "%%scorep_env", ": no line NAME=value below it.");
    for (size_t i = 0; i + 1 < pairs->count; i += 2) {
        hfi_span name = hfi_span_of(pairs->words[i]);
        hfi_span value = hfi_span_of(pairs->words[i + 1]);

        if (outcome->state.mode == MODE_WRITEFILE)
            hfi_writefile_add_environment(&outcome->commands->writefile, name, value);
        else
            hfi_text_add_format(&outcome->out, "env: %s=%s\n", pairs->words[i],
                                pairs->words[i + 1]);
    }
    if (outcome->state.mode != MODE_WRITEFILE)
        return;
    if (pairs->count)
        hfi_text_add(&outcome->out, "Score-P environment recorded.\n");
    hfi_wordlist_fini(pairs);
}

static void
handle_arguments(struct outcome *outcome) {
    hfi_wordlist *list = &outcome->arguments;

    if (!hfi_wordlist_split(list, outcome->head.argument) ||
        !hfi_wordlist_split(list, outcome->head.body)) {
        add_line(&outcome->err, "%%scorep_python_binding_arguments",
                 ": a quote is not closed; nothing was changed.");
        hfi_wordlist_fini(list);
        return;
    }
    outcome->replaces_arguments = true;
    if (outcome->state.mode == MODE_WRITEFILE) {
        hfi_text_add(&outcome->out, "Score-P bindings arguments recorded.\n");
        return;
    }
    hfi_text_add(&outcome->out, "Score-P Python binding arguments set successfully: [");
    for (size_t i = 0; i < list->count; i++) {
        hfi_text_add(&outcome->out, i ? ", " : "");
        hfi_text_add_repr(&outcome->out, hfi_span_of(list->words[i]));
    }
    hfi_text_add(&outcome->out, "]\n");
}

static bool
is_marshaller(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_.-");

    return length && length < NAME_SIZE && !name[length];
}

static void
set_marshalling(struct outcome *outcome, const char *name, const char *value) {
    if (!strcmp(name, "MARSHALLER") && is_marshaller(value)) {
        memcpy(outcome->state.marshaller, value, strlen(value) + 1);
    } else if (!strcmp(name, "MODE") &&
               (!strcmp(value, "memory") || !strcmp(value, "disk"))) {
        outcome->state.in_memory = !strcmp(value, "memory");
    } else {
        hfi_text_add(&outcome->err, "%%marshalling_settings: not known, ignored: ");
        hfi_text_add_excerpt(&outcome->err, hfi_span_of(name));
        hfi_text_add(&outcome->err, "=");
        hfi_text_add_excerpt(&outcome->err, hfi_span_of(value));
        hfi_text_add(&outcome->err, "\n");
    }
}

static void
handle_marshalling(struct outcome *outcome) {
    hfi_wordlist pairs = HFI_WORDLIST_INIT;

    hfi_wordlist_read_environment(&pairs, outcome->head.body, "%%marshalling_settings",
                                  &outcome->err);
    for (size_t i = 0; i + 1 < pairs.count; i += 2)
        set_marshalling(outcome, pairs.words[i], pairs.words[i + 1]);
    if (pairs.failed)
        outcome->err.failed = true;
    hfi_wordlist_fini(&pairs);
    hfi_text_add_format(&outcome->out, "Kernel uses '%s' marshaller in '%s' mode.\n",
                        outcome->state.marshaller,
                        outcome->state.in_memory ? "memory" : "disk");
    hfi_text_add(&outcome->note,
                 "Holdfast accepts this setting so that existing notebooks run. It has "
                 "no effect: variables are handed over in shared memory.");
}

static void
handle_serializer(struct outcome *outcome) {
    add_line(&outcome->err, "%%serializer_settings",
             " is the old name of %%marshalling_settings; nothing was changed.");
}

/* multi-cell mode */

static void
handle_enable_multicell(struct outcome *outcome) {
    if (outcome->state.mode == MODE_WRITEFILE) {
        if (outcome->state.script_multicell)
            add_line(&outcome->err, "%%enable_multicellmode",
                     " was ignored: multi-cell mode is on already.");
        outcome->state.script_multicell = true;
        return;
    }
    outcome->state.mode = MODE_MULTICELL;
    hfi_text_add(&outcome->out, "Multicell mode enabled. The following cells will be "
                                "marked for instrumented execution.\n");
}

static void
handle_finalize_multicell(struct outcome *outcome) {
    const hfi_multicell *multicell = &outcome->commands->multicell;

    if (outcome->state.mode == MODE_WRITEFILE) {
        if (!outcome->state.script_multicell)
            add_line(&outcome->err, "%%finalize_multicellmode",
                     " was ignored: multi-cell mode is not on.");
        outcome->state.script_multicell = false;
        return;
    }
    outcome->state.mode = MODE_DEFAULT;
    if (!multicell->count) {
        add_line(&outcome->err, "%%finalize_multicellmode",
                 ": no cell was marked; multi-cell mode ends.");
        return;
    }
    hfi_multicell_generate(multicell, &outcome->code);
    outcome->kind = HFI_RUN_INSTRUMENTED;
    outcome->multicell = true;
}

static void
handle_abort_multicell(struct outcome *outcome) {
    outcome->state.mode = MODE_DEFAULT;
    hfi_text_add(&outcome->out, "Multicell mode aborted.\n");
}

/* write mode */

static void
handle_start_writefile(struct outcome *outcome) {
    hfi_wordlist words = HFI_WORDLIST_INIT;
    hfi_span name = hfi_span_of("jupyter_to_script");
    bool closed = hfi_wordlist_split(&words, outcome->head.argument);
    hf_error error = HF_ERROR_INIT;

    if (words.count)
        name = hfi_span_of(words.words[0]);
    if (words.failed)
        outcome->err.failed = true;
    else if (!closed || words.count > 1)
        add_line(&outcome->err, "%%start_writefile",
                 ": one file name, please; quote it if it has blanks.");
    else if (hfi_writefile_resolve(name, outcome->cwd, &outcome->script_base, &error) ==
             HF_OK)
        outcome->state.mode = MODE_WRITEFILE;
    else if (error.status == HF_E_NOMEM)
        outcome->err.failed = true;
    else
        hfi_text_add_format(&outcome->err, "%%%%start_writefile: %s\n", error.message);
    if (outcome->script_base)
        hfi_text_add_format(&outcome->out,
                            "Started converting to Python script. See files:\n"
                            "%s_run.sh\n%s.py\n",
                            outcome->script_base, outcome->script_base);
    hfi_wordlist_fini(&words);
}

static void
handle_end_writefile(struct outcome *outcome) {
    const hfi_commands *commands = outcome->commands;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_writefile_save(&commands->writefile, commands->python,
                                          &commands->script_arguments, &error);

    if (status == HF_E_NOMEM) {
        outcome->err.failed = true;
    } else if (status != HF_OK) {
        hfi_text_add_format(&outcome->err,
                            "%%%%end_writefile: %s. Nothing recorded is lost: try "
                            "again, or end with %%%%abort_writefile.\n",
                            error.message);
    } else {
        outcome->state.mode = MODE_DEFAULT;
        hfi_text_add(&outcome->out, "Finished converting to Python script.\n");
    }
}

static void
handle_abort_writefile(struct outcome *outcome) {
    outcome->state.mode = MODE_DEFAULT;
    hfi_text_add(&outcome->out, "Writefile mode aborted.\n");
}

/* Vampir */

static bool
is_in_path(const char *program, const char *search_path) {
    hfi_span rest = hfi_span_of(search_path ? search_path : "");
    bool found = false;

    while (rest.length && !found) {
        const char *colon = memchr(rest.start, ':', rest.length);
        hfi_span directory = rest;
        hfi_text path = HFI_TEXT_INIT;

        if (colon)
            directory.length = (size_t)(colon - rest.start);
        rest.start += directory.length + (colon ? 1 : 0);
        rest.length -= directory.length + (colon ? 1 : 0);
        hfi_text_add_span(&path, directory);
        hfi_text_add_format(&path, "/%s", program);
        found = directory.length && path.data && access(path.data, X_OK) == 0;
        hfi_text_fini(&path);
    }
    return found;
}

static void
handle_enable_vampir(struct outcome *outcome) {
    if (!is_in_path("vampir", outcome->search_path)) {
        add_line(&outcome->err, "%%enable_vampir_launch_on_scorep_instrumented",
                 ": there is no program vampir in PATH; it will not be launched.");
        return;
    }
    outcome->state.launch_vampir = true;
    hfi_text_add(&outcome->out, "Vampir opens the trace of each instrumented cell from "
                                "now on.\n");
}

static void
handle_disable_vampir(struct outcome *outcome) {
    outcome->state.launch_vampir = false;
    hfi_text_add(&outcome->out, "Vampir launching disabled.\n");
}

/* the table */

static const struct command command_table[] = {
    {"%%execute_with_scorep", handle_execute, ANYWHERE, false, true},
    {"%%isolated", handle_isolated, ANYWHERE, false, true},
    {"%%scorep_env", handle_environment, IN_DEFAULT | IN_WRITEFILE, false, true},
    {"%%scorep_python_binding_arguments", handle_arguments, IN_DEFAULT | IN_WRITEFILE,
     true, true},
    {"%%marshalling_settings", handle_marshalling, IN_DEFAULT, false, true},
    {"%%serializer_settings", handle_serializer, ANYWHERE, false, true},
    {"%%enable_multicellmode", handle_enable_multicell, IN_DEFAULT | IN_WRITEFILE,
     false, false},
    {"%%finalize_multicellmode", handle_finalize_multicell, IN_MULTICELL | IN_WRITEFILE,
     false, false},
    {"%%abort_multicellmode", handle_abort_multicell, IN_MULTICELL, false, false},
    {"%%start_writefile", handle_start_writefile, IN_DEFAULT, true, false},
    {"%%end_writefile", handle_end_writefile, IN_WRITEFILE, false, false},
    {"%%abort_writefile", handle_abort_writefile, IN_WRITEFILE, false, false},
    {"%%enable_vampir_launch_on_scorep_instrumented", handle_enable_vampir, ANYWHERE,
     false, false},
    {"%%disable_vampir_launch", handle_disable_vampir, ANYWHERE, false, false},
};

static const struct command *
find_command(hfi_span name) {
    for (size_t i = 0; i < sizeof command_table / sizeof *command_table; i++)
        if (hfi_span_equal(name, command_table[i].name))
            return &command_table[i];
    return NULL;
}

static void
refuse(struct outcome *outcome, const struct command *command) {
    hfi_text_add(&outcome->err, command->name);
    if (outcome->state.mode == MODE_MULTICELL)
        hfi_text_add(&outcome->err, " was ignored: multi-cell mode is on. "
                                    "%%finalize_multicellmode or "
                                    "%%abort_multicellmode ends it.\n");
    else if (outcome->state.mode == MODE_WRITEFILE)
        hfi_text_add(&outcome->err,
                     " was ignored: write mode is on. %%end_writefile or "
                     "%%abort_writefile ends it.\n");
    else if (command->modes & IN_MULTICELL)
        hfi_text_add(&outcome->err, " was ignored: multi-cell mode is not on. "
                                    "%%enable_multicellmode starts it.\n");
    else
        hfi_text_add(&outcome->err, " was ignored: write mode is not on. "
                                    "%%start_writefile starts it.\n");
}

/* Tell about text that a command's cell should not have. */
static void
mention_ignored(struct outcome *outcome, const struct command *command) {
    if (!command->takes_argument && outcome->head.argument.length) {
        hfi_text_add(&outcome->err, command->name);
        hfi_text_add(&outcome->err, " takes no argument; ignored: ");
        hfi_text_add_excerpt(&outcome->err, outcome->head.argument);
        hfi_text_add(&outcome->err, "\n");
    }
    if (!command->takes_body && hfi_cellhead_has_code(outcome->head.body))
        add_line(&outcome->err, command->name,
                 " stands alone in its cell; the other lines were ignored.");
}

static void
decide(struct outcome *outcome) {
    const struct command *command = find_command(outcome->head.name);

    if (!command) {
        handle_plain(outcome);
        return;
    }
    if (!(command->modes & 1 << outcome->state.mode)) {
        refuse(outcome, command);
        return;
    }
    mention_ignored(outcome, command);
    command->handle(outcome);
}

static bool
has_failed(const struct outcome *outcome) {
    const hfi_commands *commands = outcome->commands;

    return hfi_text_failed(&outcome->code) || hfi_text_failed(&outcome->out) ||
           hfi_text_failed(&outcome->err) || hfi_text_failed(&outcome->note) ||
           outcome->arguments.failed || outcome->environment.failed ||
           hfi_text_failed(&commands->multicell.cells) ||
           hfi_writefile_failed(&commands->writefile);
}

/* Make the outcome true; `arguments` are the verdict's. Doesn't fail. */
static void
apply(struct outcome *outcome, char **arguments, hfi_verdict *ret_verdict) {
    hfi_commands *commands = outcome->commands;

    if (outcome->replaces_arguments) {
        hfi_wordlist *list = outcome->state.mode == MODE_WRITEFILE
                                 ? &commands->script_arguments
                                 : &commands->arguments;
        hfi_wordlist_fini(list);
        *list = outcome->arguments;
        outcome->arguments = (hfi_wordlist)HFI_WORDLIST_INIT;
    }
    commands->state = outcome->state;
    if (commands->state.mode != MODE_MULTICELL)
        hfi_multicell_fini(&commands->multicell);
    if (commands->state.mode != MODE_WRITEFILE) {
        hfi_writefile_fini(&commands->writefile);
        hfi_wordlist_fini(&commands->script_arguments);
        commands->state.script_multicell = false;
    }
    if (outcome->script_base)
        commands->writefile.base = outcome->script_base;
    outcome->script_base = NULL;

    ret_verdict->kind = outcome->kind;
    ret_verdict->arguments = arguments;
    ret_verdict->isolated = outcome->isolated && arguments;
    ret_verdict->multicell = outcome->multicell;
    ret_verdict->launch_vampir =
        outcome->state.launch_vampir && arguments && !outcome->isolated;
    ret_verdict->code = hfi_text_take(&outcome->code);
    ret_verdict->out = hfi_text_take(&outcome->out);
    ret_verdict->err = hfi_text_take(&outcome->err);
    ret_verdict->note = hfi_text_take(&outcome->note);
    if (outcome->environment.count)
        ret_verdict->environment = outcome->environment.words;
    else
        hfi_wordlist_fini(&outcome->environment);
    outcome->environment = (hfi_wordlist)HFI_WORDLIST_INIT;
}

static void
outcome_fini(struct outcome *outcome) {
    hfi_text_fini(&outcome->code);
    hfi_text_fini(&outcome->out);
    hfi_text_fini(&outcome->err);
    hfi_text_fini(&outcome->note);
    hfi_wordlist_fini(&outcome->arguments);
    hfi_wordlist_fini(&outcome->environment);
    free(outcome->script_base);
}

hf_status
hfi_commands_feed(hfi_commands *commands, const char *code, const char *cwd,
                  const char *search_path, hfi_verdict *ret_verdict, hf_error *reterr) {
    hfi_writefile_mark written = hfi_writefile_tell(&commands->writefile);
    size_t marked_length = commands->multicell.cells.length;
    size_t marked_count = commands->multicell.count;
    bool awaits = commands->multicell.awaits;
    hfi_wordlist arguments = HFI_WORDLIST_INIT;
    char **words = NULL;
    struct outcome outcome = {.commands = commands,
                              .cell = hfi_span_of(code),
                              .cwd = cwd,
                              .search_path = search_path,
                              .state = commands->state};

    *ret_verdict = (hfi_verdict)HFI_VERDICT_INIT;
    hfi_cellhead_parse(outcome.cell, &outcome.head);
    decide(&outcome);
    if (!has_failed(&outcome) && outcome.kind == HFI_RUN_INSTRUMENTED) {
        hfi_wordlist_copy(&arguments, &commands->arguments);
        words = arguments.failed ? NULL : hfi_wordlist_take(&arguments);
    }
    if (has_failed(&outcome) || (outcome.kind == HFI_RUN_INSTRUMENTED && !words)) {
        hfi_wordlist_fini(&arguments);
        hfi_text_truncate(&commands->multicell.cells, marked_length);
        commands->multicell.count = marked_count;
        commands->multicell.awaits = awaits;
        hfi_writefile_rewind(&commands->writefile, written);
        outcome_fini(&outcome);
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    }
    apply(&outcome, words, ret_verdict);
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

void
hfi_verdict_fini(hfi_verdict *verdict) {
    hfi_wordlist_free(verdict->arguments);
    hfi_wordlist_free(verdict->environment);
    free(verdict->code);
    free(verdict->out);
    free(verdict->err);
    free(verdict->note);
    *verdict = (hfi_verdict)HFI_VERDICT_INIT;
}
