/* outcome.h - private to the commands: the session's state, and one call's outcome.
 *
 * Handlers of commands read the outcome's input, and write their decision into the
 * rest. They may append to `commands->multicell` and `commands->writefile`, which are
 * cut back if the call fails. They must not change anything else of `commands` (see
 * command.c).
 *
 * Threads: one at a time, as the commands (command.h).
 */
#ifndef HFI_OUTCOME_H
#define HFI_OUTCOME_H

#include "commands/cellhead.h"
#include "commands/command.h"
#include "commands/dump.h"
#include "commands/multicell.h"
#include "commands/pyline.h"
#include "commands/wordlist.h"
#include "commands/writefile.h"

typedef enum hfi_mode {
    HFI_MODE_DEFAULT,
    HFI_MODE_MULTICELL,
    HFI_MODE_WRITEFILE
} hfi_mode;

enum { HFI_MARSHALLER_SIZE = 64 };

/* The part of the state that is copied, and restored as a whole if a call fails. */
typedef struct hfi_command_state {
    hfi_mode mode;
    bool launch_vampir;
    bool script_multicell; /* write mode: multi-cell mode is on inside it */
    char marshaller[HFI_MARSHALLER_SIZE];
    bool in_memory; /* the marshaller's mode is memory; else disk */
} hfi_command_state;

struct hfi_commands {
    char *python;
    hfi_command_state state;
    hfi_wordlist arguments;        /* of the Score-P bindings */
    hfi_wordlist script_arguments; /* the same, of the script being recorded */
    hfi_multicell multicell;
    hfi_writefile writefile;
    hfi_cellnames names; /* of the cells that ran */
};

/* One call of hfi_commands_feed. */
typedef struct hfi_outcome {
    hfi_commands *commands;
    hfi_part cell;     /* whole */
    hfi_cellhead head; /* its command */
    const char *cwd;
    const char *search_path;

    hfi_command_state state; /* the next one */
    hfi_directive_kind kind;
    const char *run_mode; /* NULL: not chosen */
    bool isolated;
    bool lines;      /* its lines are sampled */
    unsigned repeat; /* 0: not chosen */
    bool multicell;
    bool replaces_arguments; /* `arguments` replace those of the mode */
    hfi_wordlist arguments;
    hfi_wordlist environment;
    hfi_textbuf lifted; /* the cell with a command moved to its top */
    hfi_textbuf code, out, err, note;
    char *script_base; /* path of the recording that begins */
    hfi_history history;
} hfi_outcome;

/* Add a line for the user: the command's name and the mistake. */
void hfi_outcome_complain(hfi_outcome *outcome, const char *name, const char *sentence);

/* The same about the command's argument, which follows the words. */
void hfi_outcome_ignore(hfi_outcome *outcome, const char *words);

/* mode.c: cells, and the commands that change what happens to them */
void hfi_mode_plain(hfi_outcome *outcome);
void hfi_mode_execute(hfi_outcome *outcome);
void hfi_mode_isolated(hfi_outcome *outcome);
void hfi_mode_enable_multicell(hfi_outcome *outcome);
void hfi_mode_finalize_multicell(hfi_outcome *outcome);
void hfi_mode_abort_multicell(hfi_outcome *outcome);
void hfi_mode_start_writefile(hfi_outcome *outcome);
void hfi_mode_end_writefile(hfi_outcome *outcome);
void hfi_mode_abort_writefile(hfi_outcome *outcome);
void hfi_mode_history(hfi_outcome *outcome);
void hfi_mode_publish(hfi_outcome *outcome);

/* setting.c */
void hfi_setting_environment(hfi_outcome *outcome);
void hfi_setting_arguments(hfi_outcome *outcome);
void hfi_setting_marshalling(hfi_outcome *outcome);
void hfi_setting_serializer(hfi_outcome *outcome);
void hfi_setting_enable_vampir(hfi_outcome *outcome);
void hfi_setting_disable_vampir(hfi_outcome *outcome);

#endif
