/* directive.h - the decision of a program's commands about a cell.
 *
 * The frontend knows no command and no language. The program that uses the library
 * passes a table of functions (hf_kernel_options.commands). The table of
 * holdfast-kernel is in command.c; that for any language in common.c. The functions read each cell that a user runs, and
 * answer with a directive, which the frontend carries out. The table also knows the
 * output of a dying worker, and how messages name commands. Without a table each cell
 * is run as it is. Every member may be NULL except the first three.
 *
 * Threads: a table's functions are called by the one thread that runs hf_kernel_run.
 */
#ifndef HFI_DIRECTIVE_H
#define HFI_DIRECTIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "holdfast/kernel.h"
#include "wire/filter.h"
#include "wire/textbuf.h"

/* What a cell does with the history, if the cell is nothing but such a command. */
typedef enum hfi_history_kind {
    HFI_HISTORY_NONE,     /* not a command of ours: a cell like others */
    HFI_HISTORY_SHOW,     /* only reads, and needs no commit */
    HFI_HISTORY_UNDO,     /* undo */
    HFI_HISTORY_CHECKOUT, /* checkout N */
    HFI_HISTORY_DIFF,     /* diff [N [M]] */
    HFI_HISTORY_SAVE,     /* save FILE */
    HFI_HISTORY_PUBLISH,  /* publish */
    HFI_HISTORY_LOAD,     /* load FILE */
    HFI_HISTORY_LIMIT,    /* history LIMIT */
    HFI_HISTORY_RERUN,    /* rerun: the frontend runs what a crash has lost */
    HFI_HISTORY_PROTECT,  /* protect [WORD]: the frontend answers */
} hfi_history_kind;

/* How cells are protected from a crash (rollback.h). */
typedef enum hfi_protection {
    HFI_PROTECT_UNKNOWN, /* not given, or no such word */
    HFI_PROTECT_BUDGET,  /* for 3 % of their time at most */
    HFI_PROTECT_ALWAYS,  /* a fork before each recorded cell */
    HFI_PROTECT_NEVER,   /* not at all */
    HFI_PROTECT_COUNT
} hfi_protection;

/* The word for it, and the other way. */
const char *hfi_protection_name(hfi_protection protection);
hfi_protection hfi_protection_of(hfi_part word);

typedef struct hfi_history {
    hfi_history_kind kind;
    long long from, to; /* generations; of an undo, `to` is a cell; -1: not given */
    unsigned long long limit_bytes;
    hfi_protection protection;
} hfi_history;

/* The kind as the control protocol names it, such as "undo". */
const char *hfi_history_name(hfi_history_kind kind);

typedef enum hfi_directive_kind {
    HFI_ANSWER,           /* nothing to run: reply "ok" */
    HFI_REFUSE,           /* nothing to run: reply with a UsageError, `err` */
    HFI_RUN_PLAIN,        /* in the main worker */
    HFI_RUN_INSTRUMENTED, /* in a fresh cell worker */
} hfi_directive_kind;

/* A program that shows what a recorded cell wrote. Static; the frontend starts it. */
typedef struct hfi_viewer {
    const char *name;    /* for people */
    const char *program; /* found in PATH; its argument is the file */
    const char *file;    /* what it opens, in the trace's directory */
} hfi_viewer;

/* The decision about one cell. Before anything runs, the frontend publishes `out` as
 * stream stdout, `err` as stream stderr and `note` as display_data (text/plain), and
 * sends `environment` to the main worker. The strings are UTF-8 if the cell was. */
typedef struct hfi_directive {
    hfi_directive_kind kind;
    /* RUN: the code, with every line at its number in the cell; else NULL */
    char *code;
    size_t code_length; /* bytes, without the final NUL; there may be other NULs */
    char **arguments; /* RUN_INSTRUMENTED: Score-P binding arguments, NULL-terminated */
    const char *run_mode; /* RUN_INSTRUMENTED: as in --run; NULL: not chosen */
    bool isolated;        /* RUN_INSTRUMENTED: a fresh process, but no recording */
    bool multicell; /* RUN_INSTRUMENTED: code was generated from the marked cells */
    const hfi_viewer *viewer; /* RUN_INSTRUMENTED: opens the trace; NULL: none does */
    unsigned repeat;          /* RUN_INSTRUMENTED: number of runs in turn; 0: one */
    char *out;                /* NULL: nothing */
    char *err;                /* NULL: nothing */
    char *note;               /* NULL: nothing */
    char **environment;       /* NULL, or name, value, name, value, ..., NULL */
    hfi_history history;      /* RUN_PLAIN: the frontend's part of the cell */
    char *file; /* of HFI_HISTORY_SAVE and LOAD, absolute; NULL: the worker reads it */
} hfi_directive;

#define HFI_DIRECTIVE_INIT                                                             \
    {                                                                                  \
        .kind = HFI_ANSWER, .history = {.from = -1, .to = -1 }                         \
    }

/* The mode of the word `--run=MODE`; NULL: it is another word. */
const char *hfi_directive_run_option(hfi_part word);
/* The same for MODE alone. */
const char *hfi_directive_run_mode(hfi_part mode);

/* Copy a directive with all that it holds. False without memory: then there is nothing to
 * be released. */
bool hfi_directive_copy(const hfi_directive *from, hfi_directive *ret_directive);
/* Free what the directive holds and make it HFI_DIRECTIVE_INIT. */
void hfi_directive_fini(hfi_directive *directive);

/* The commands of one session, which remember settings and modes. */
typedef struct hfi_commands hfi_commands;

struct hf_kernel_commands {
    /* `program` is the first word of worker_argv; `comment` is the options' own, or NULL.
     * The frontend closes the result. HF_E_NOMEM. */
    hf_status (*create)(const char *program, const char *comment,
                        hfi_commands **ret_commands, hf_error *reterr);
    /* Decide about a cell; see hfi_commands_feed in command.h. `cwd` is empty if no %
     * is in the cell, and so no line that names a file. HF_E_NOMEM. */
    hf_status (*feed)(hfi_commands *commands, const char *code, size_t length,
                      const char *cwd, const char *search_path,
                      hfi_directive *ret_directive, hf_error *reterr);
    void (*close)(hfi_commands *commands);
    /* The cell with this code is In[number] from now on. */
    void (*note)(hfi_commands *commands, const char *code, size_t length,
                 long long number);
    /* For a new worker's standard error. The frontend closes it, before the commands.
     * NULL: the worker's text is shown as it comes. */
    hfi_filter *(*filter)(hfi_commands *commands);
    const char
        *history; /* how messages name the command for undo, retry, load: one word */
    const char *where; /* the command that shows where a recorded cell's time went */
    bool has_text;     /* a line of the history has a `text`, and the worker shows it */
    /* Whether a key of the store is one of the user's variables. NULL: each is whose key
     * doesn't begin with a byte 1. */
    bool (*is_variable)(const char *key, size_t size);
    /* Words of messages. NULL: one that fits any language. */
    const char *shell;       /* what runs a cell's code in the worker: "IPython" */
    const char *drop;        /* how a cell frees a variable: "del" */
    const char *interrupted; /* the name of a cell's error after an interrupt */
};

#endif
