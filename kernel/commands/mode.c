/* mode.c - the three modes: what becomes of a cell in each, and how they begin and end.
 *
 *   default     cells run: plain ones in the main worker, marked ones in a fresh
 *               process
 *   multi-cell  every cell is marked for one program, run when the mode is finalized
 *   write       every cell is recorded into a script, written when the mode ends
 *
 * Write mode has a multi-cell mode of its own: its cells are recorded as instrumented.
 *
 * The caller has checked that the mode allows the command. Sentences for stdout are an
 * interface (see command.c). A handler only decides, and the end of the call puts the
 * decision into effect (command.c). So when a mode ends, its cells stay here until the
 * new state is applied, and are freed then.
 */
#include "commands/outcome.h"

#include "commands/quoting.h"
#include "commands/writefile.h"
#include "commands/history.h"

#include <stdlib.h>
#include <string.h>

enum { REPEAT_MAX = 100 };

static bool
take_option(hfi_outcome *outcome, hfi_part word) {
    const char *run_mode = hfi_directive_run_option(word);
    if (run_mode) {
        outcome->run_mode = run_mode;
        return true;
    }
    if (!hfi_part_is(word, "--lines"))
        return false;
    outcome->lines = true;
    return true;
}

/* Read a number from 2 to REPEAT_MAX; 0 if it isn't one. */
static unsigned
read_repeat(hfi_part number) {
    unsigned count = 0;
    for (size_t i = 0; i < number.size && count <= REPEAT_MAX; i++) {
        if (number.data[i] < '0' || number.data[i] > '9')
            return 0;
        count = 10 * count + (unsigned)(number.data[i] - '0');
    }
    return count >= 2 && count <= REPEAT_MAX ? count : 0;
}

/* Read --repeat N or --repeat=N; `rest` is what follows the word. Returns false if the
 * word is something else. With a wrong N the cell is refused. */
static bool
take_repeat(hfi_outcome *outcome, hfi_part word, hfi_part *rest) {
    size_t length = strlen("--repeat");

    if (!hfi_part_begins(word, "--repeat"))
        return false;
    hfi_part number = {word.data + length, word.size - length};
    if (!number.size)
        number = hfi_part_next_token(rest);
    else if (number.data[0] == '=')
        number = (hfi_part){number.data + 1, number.size - 1};
    else
        return false;
    outcome->repeat = read_repeat(number);
    if (outcome->repeat)
        return true;
    outcome->kind = HFI_REFUSE;
    hfi_textbuf_add_part(&outcome->err, outcome->head.name);
    hfi_textbuf_format(&outcome->err,
                       ": --repeat takes how often the cell runs, 2 to %d", REPEAT_MAX);
    if (number.size) {
        hfi_textbuf_add(&outcome->err, ", and not ");
        hfi_textbuf_add_excerpt(&outcome->err, number);
    }
    return true;
}

/* Whether the cell is recorded by itself. Only such a cell can have its lines sampled,
 * or be repeated. */
static bool
is_recorded_alone(const hfi_outcome *outcome) {
    return !outcome->isolated && outcome->state.mode == HFI_MODE_DEFAULT;
}

/* Read the cell's options: where it runs (--run=MODE), whether its lines are sampled
 * (--lines), and how often it runs (--repeat N). False: it has other words, and is
 * refused, since with a misspelt option it would run in another process than the user
 * wants. */
static bool
choose_options(hfi_outcome *outcome) {
    hfi_part rest = outcome->head.argument;

    while (rest.size) {
        hfi_part word = hfi_part_next_token(&rest);
        if (take_option(outcome, word) || take_repeat(outcome, word, &rest)) {
            if (outcome->kind == HFI_REFUSE)
                return false;
            continue;
        }
        outcome->kind = HFI_REFUSE;
        hfi_textbuf_add_part(&outcome->err, outcome->head.name);
        hfi_textbuf_add(&outcome->err,
                        " takes no argument but --run=auto|in-process|forked|isolated");
        if (is_recorded_alone(outcome))
            hfi_textbuf_add(&outcome->err, ", --repeat N (2 to 100) and --lines");
        hfi_textbuf_add(&outcome->err, "; this is unknown: ");
        hfi_textbuf_add_excerpt(&outcome->err, word);
        return false;
    }
    return true;
}

/* Returns false if the cell has an option that it can't have. */
static bool
may_have_options(hfi_outcome *outcome) {
    const char *option = outcome->lines ? "--lines" : "--repeat";
    if ((!outcome->lines && !outcome->repeat) || is_recorded_alone(outcome))
        return true;
    outcome->kind = HFI_REFUSE;
    hfi_textbuf_add_part(&outcome->err, outcome->head.name);
    if (outcome->isolated)
        hfi_textbuf_format(&outcome->err,
                           ": %s needs a recording, which "
                           "%%%%execute_with_scorep %s makes",
                           option, option);
    else
        hfi_textbuf_format(&outcome->err,
                           ": %s is for a cell that runs by itself; multi-cell or "
                           "write mode is on",
                           option);
    return false;
}

/* Move the head over further %%execute_with_scorep and %%isolated lines. Returns false
 * if one of them has an argument that is refused. */
static bool
skip_run_commands(hfi_outcome *outcome) {
    hfi_cellhead next;

    for (;;) {
        hfi_cellhead_parse(outcome->head.body, HFI_PYTHON_COMMENT, &next);
        if (hfi_part_is(next.name, "%%execute_with_scorep"))
            outcome->isolated = false;
        else if (!hfi_part_is(next.name, "%%isolated"))
            return true;
        outcome->head = next;
        if (!choose_options(outcome))
            return false;
    }
}

static void
mark_cell(hfi_outcome *outcome, hfi_part cell) {
    hfi_multicell *multicell = &outcome->commands->multicell;

    hfi_textbuf_format(&outcome->out,
                       "Cell marked for multicell mode. It will be executed at "
                       "position %zu\n",
                       multicell->count);
    hfi_multicell_add(multicell, cell);
}

static void
record_cell(hfi_outcome *outcome, hfi_part cell, bool instrumented) {
    instrumented = instrumented || outcome->state.script_multicell;
    if (hfi_scriptcell_add(&outcome->commands->writefile, cell, instrumented,
                           &outcome->err))
        hfi_textbuf_format(&outcome->out,
                           "Python commands %s instrumentation recorded.\n",
                           instrumented ? "with" : "without");
}

static void
run_in_fresh_process(hfi_outcome *outcome) {
    if (!hfi_cellhead_has_code(outcome->head.body, HFI_PYTHON_COMMENT)) {
        hfi_textbuf_add_part(&outcome->err, outcome->head.name);
        hfi_textbuf_add(&outcome->err, ": there is no code below it.\n");
        return;
    }
    hfi_cellhead_cut(outcome->cell, outcome->head.body, HFI_PYTHON_COMMENT,
                     &outcome->code);
    outcome->kind = HFI_RUN_INSTRUMENTED;
}

static void
run_marked(hfi_outcome *outcome) {
    if (!choose_options(outcome) || !skip_run_commands(outcome) ||
        !may_have_options(outcome))
        return;
    if (outcome->state.mode == HFI_MODE_MULTICELL)
        mark_cell(outcome, outcome->head.body);
    else if (outcome->state.mode == HFI_MODE_WRITEFILE)
        record_cell(outcome, outcome->head.body, !outcome->isolated);
    else
        run_in_fresh_process(outcome);
}

/* This is a plain cell. If the line stands alone, the frontend has a part in it, too. */
static void
run_history(hfi_outcome *outcome, hfi_part words) {
    hfi_mode_plain(outcome);
    if (outcome->state.mode == HFI_MODE_DEFAULT &&
        !hfi_cellhead_has_code(outcome->head.body, HFI_PYTHON_COMMENT))
        outcome->history = hfi_history_parse(words);
}

void
hfi_mode_history(hfi_outcome *outcome) {
    run_history(outcome, outcome->head.argument);
}

/* The function's call, which does what the magic does. */
void
hfi_mode_publish(hfi_outcome *outcome) {
    if (hfi_cellhead_has_code(outcome->head.argument, HFI_PYTHON_COMMENT))
        hfi_mode_plain(outcome);
    else
        run_history(outcome, hfi_part_text(hfi_history_name(HFI_HISTORY_PUBLISH)));
}

void
hfi_mode_execute(hfi_outcome *outcome) {
    outcome->isolated = false;
    run_marked(outcome);
}

void
hfi_mode_isolated(hfi_outcome *outcome) {
    outcome->isolated = true;
    run_marked(outcome);
}

void
hfi_mode_plain(hfi_outcome *outcome) {
    if (outcome->state.mode == HFI_MODE_MULTICELL) {
        mark_cell(outcome, outcome->cell);
    } else if (outcome->state.mode == HFI_MODE_WRITEFILE) {
        record_cell(outcome, outcome->cell, false);
    } else {
        hfi_textbuf_add_part(&outcome->code, outcome->cell);
        outcome->kind = HFI_RUN_PLAIN;
    }
}

/* multi-cell mode */

void
hfi_mode_enable_multicell(hfi_outcome *outcome) {
    if (outcome->state.mode == HFI_MODE_WRITEFILE) {
        if (outcome->state.script_multicell)
            hfi_outcome_complain(outcome, "%%enable_multicellmode",
                                 " was ignored: multi-cell mode is on already.");
        outcome->state.script_multicell = true;
        return;
    }
    outcome->state.mode = HFI_MODE_MULTICELL;
    hfi_textbuf_add(&outcome->out,
                    "Multicell mode enabled. The following cells will be "
                    "marked for instrumented execution.\n");
}

void
hfi_mode_finalize_multicell(hfi_outcome *outcome) {
    const hfi_multicell *multicell = &outcome->commands->multicell;

    if (outcome->state.mode == HFI_MODE_WRITEFILE) {
        if (!outcome->state.script_multicell)
            hfi_outcome_complain(outcome, "%%finalize_multicellmode",
                                 " was ignored: multi-cell mode is not on.");
        outcome->state.script_multicell = false;
        return;
    }
    outcome->state.mode = HFI_MODE_DEFAULT;
    if (!multicell->count) {
        hfi_outcome_complain(outcome, "%%finalize_multicellmode",
                             ": no cell was marked; multi-cell mode ends.");
        return;
    }
    hfi_multicell_generate(multicell, &outcome->code);
    outcome->kind = HFI_RUN_INSTRUMENTED;
    outcome->multicell = true;
}

void
hfi_mode_abort_multicell(hfi_outcome *outcome) {
    outcome->state.mode = HFI_MODE_DEFAULT;
    hfi_textbuf_add(&outcome->out, "Multicell mode aborted.\n");
}

/* write mode */

void
hfi_mode_start_writefile(hfi_outcome *outcome) {
    hfi_wordlist words = HFI_WORDLIST_INIT;
    hfi_part name = hfi_part_text("jupyter_to_script");
    bool closed = hfi_wordlist_split(&words, outcome->head.argument);
    hf_error error = HF_ERROR_INIT;

    if (words.count)
        name = hfi_part_text(words.words[0]);
    if (words.failed)
        outcome->err.failed = true;
    else if (!closed || words.count > 1)
        hfi_outcome_complain(outcome, "%%start_writefile",
                             ": one file name, please; quote it if it has blanks.");
    else if (hfi_writefile_resolve(name, outcome->cwd, &outcome->script_base, &error) ==
             HF_OK)
        outcome->state.mode = HFI_MODE_WRITEFILE;
    else if (error.status == HF_E_NOMEM)
        outcome->err.failed = true;
    else
        hfi_textbuf_format(&outcome->err, "%%%%start_writefile: %s\n", error.message);
    if (outcome->script_base)
        hfi_textbuf_format(&outcome->out,
                           "Started converting to Python script. See files:\n"
                           "%s_run.sh\n%s.py\n",
                           outcome->script_base, outcome->script_base);
    hfi_wordlist_fini(&words);
}

void
hfi_mode_end_writefile(hfi_outcome *outcome) {
    const hfi_commands *commands = outcome->commands;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_writefile_save(&commands->writefile, commands->python,
                                          &commands->script_arguments, &error);

    if (status == HF_E_NOMEM) {
        outcome->err.failed = true;
    } else if (status != HF_OK) {
        hfi_textbuf_format(&outcome->err,
                           "%%%%end_writefile: %s. Nothing recorded is lost: try "
                           "again, or end with %%%%abort_writefile.\n",
                           error.message);
    } else {
        outcome->state.mode = HFI_MODE_DEFAULT;
        hfi_textbuf_add(&outcome->out, "Finished converting to Python script.\n");
    }
}

void
hfi_mode_abort_writefile(hfi_outcome *outcome) {
    outcome->state.mode = HFI_MODE_DEFAULT;
    hfi_textbuf_add(&outcome->out, "Writefile mode aborted.\n");
}
