/* test_common.c - the commands of holdfast/commands.h, as a program of any language gets
 * them.
 */
#include <stdlib.h>

#include "../support/check.h"
#include "commands/directive.h"
#include "holdfast/commands.h"

typedef struct row {
    const char *comment, *cell;
    hfi_directive_kind kind;
    const char *code; /* NULL: none */
    const char *run_mode;
    hfi_history_kind history;
    const char *file;
    const char *error; /* how the sentence for the user begins */
} row;

static const row rows[] = {
    {"#", "x = 1", HFI_RUN_PLAIN, "x = 1", NULL, HFI_HISTORY_NONE, NULL, NULL},
    {"#", "", HFI_RUN_PLAIN, "", NULL, HFI_HISTORY_NONE, NULL, NULL},
    {"#", "%%time\nx", HFI_RUN_PLAIN, "%%time\nx", NULL, HFI_HISTORY_NONE, NULL, NULL},
    {"#", "x\n%%isolated", HFI_RUN_PLAIN, "x\n%%isolated", NULL, HFI_HISTORY_NONE, NULL,
     NULL},
    {"#", "%%isolated\nx", HFI_RUN_INSTRUMENTED, "# %%isolated\nx", NULL,
     HFI_HISTORY_NONE, NULL, NULL},
    {"--", "-- head\n\n%%isolated --run=forked\nx", HFI_RUN_INSTRUMENTED,
     "-- head\n--\n-- %%isolated --run=forked\nx", "forked", HFI_HISTORY_NONE, NULL,
     NULL},
    {NULL, "%%isolated\nx", HFI_RUN_INSTRUMENTED, "\nx", NULL, HFI_HISTORY_NONE, NULL,
     NULL},
    {"--", "# no comment here\n%%isolated\nx", HFI_RUN_PLAIN,
     "# no comment here\n%%isolated\nx", NULL, HFI_HISTORY_NONE, NULL, NULL},
    {"#", "%%isolated --run=nowhere\nx", HFI_REFUSE, NULL, NULL, HFI_HISTORY_NONE, NULL,
     "%%isolated takes no argument but --run="},
    {"#", "%%isolated\n# only this\n", HFI_REFUSE, NULL, NULL, HFI_HISTORY_NONE, NULL,
     "%%isolated: there is no code"},
    {"#", "%%isolated", HFI_REFUSE, NULL, NULL, HFI_HISTORY_NONE, NULL,
     "%%isolated: there is no code"},
    {"#", "%holdfast", HFI_ANSWER, NULL, NULL, HFI_HISTORY_NONE, NULL, NULL},
    {"#", "# back\n %holdfast  undo \n# and\n", HFI_RUN_PLAIN,
     "# back\n %holdfast  undo \n# and\n", NULL, HFI_HISTORY_UNDO, NULL, NULL},
    {"#", "%holdfast checkout 3", HFI_RUN_PLAIN, "%holdfast checkout 3", NULL,
     HFI_HISTORY_CHECKOUT, NULL, NULL},
    {"#", "%holdfast history", HFI_RUN_PLAIN, "%holdfast history", NULL,
     HFI_HISTORY_SHOW, NULL, NULL},
    {"#", "%holdfast history 2G", HFI_RUN_PLAIN, "%holdfast history 2G", NULL,
     HFI_HISTORY_LIMIT, NULL, NULL},
    {"#", "%holdfast publish", HFI_RUN_PLAIN, "%holdfast publish", NULL,
     HFI_HISTORY_PUBLISH, NULL, NULL},
    {"#", "%holdfast rerun", HFI_RUN_PLAIN, "%holdfast rerun", NULL, HFI_HISTORY_RERUN,
     NULL, NULL},
    {"#", "%holdfast protect always", HFI_RUN_PLAIN, "%holdfast protect always", NULL,
     HFI_HISTORY_PROTECT, NULL, NULL},
    {"#", "%holdfast protect sometimes", HFI_REFUSE, NULL, NULL, HFI_HISTORY_NONE, NULL,
     "this isn't understood: %holdfast protect sometimes\n%holdfast protect"},
    {"#", "%holdfast save a b.hf", HFI_RUN_PLAIN, "%holdfast save a b.hf", NULL,
     HFI_HISTORY_SAVE, "/here/a b.hf", NULL},
    {"#", "%holdfast load '/a b'", HFI_RUN_PLAIN, "%holdfast load '/a b'", NULL,
     HFI_HISTORY_LOAD, "/a b", NULL},
    {"#", "%holdfast load ~/x", HFI_RUN_PLAIN, "%holdfast load ~/x", NULL,
     HFI_HISTORY_LOAD, "/there/ada/x", NULL},
    {"#", "%holdfast undo\nx = 1", HFI_REFUSE, NULL, NULL, HFI_HISTORY_NONE, NULL,
     "a line of %holdfast must be"},
    {"#", "%holdfast checkout", HFI_REFUSE, NULL, NULL, HFI_HISTORY_NONE, NULL,
     "this isn't understood: %holdfast checkout\n%holdfast checkout N"},
    {"#", "%holdfast save", HFI_REFUSE, NULL, NULL, HFI_HISTORY_NONE, NULL,
     "this isn't understood: %holdfast save\n%holdfast save FILE"},
    {"#", "%holdfast history much", HFI_REFUSE, NULL, NULL, HFI_HISTORY_NONE, NULL,
     "this isn't understood: %holdfast history much\n%holdfast history"},
    {"#", "%holdfast frobnicate", HFI_REFUSE, NULL, NULL, HFI_HISTORY_NONE, NULL,
     "this isn't understood: %holdfast frobnicate\n%holdfast undo"},
};

static void
expect(const hf_kernel_commands *table, const row *wanted) {
    hfi_commands *commands = NULL;
    hfi_directive directive;
    CHECK(table->create("worker", wanted->comment, &commands, NULL) == HF_OK);
    CHECK(table->feed(commands, wanted->cell, strlen(wanted->cell), "/here", NULL,
                      &directive, NULL) == HF_OK);
    CHECK(directive.kind == wanted->kind);
    CHECK_TEXT(directive.code, wanted->code);
    CHECK_TEXT(directive.run_mode, wanted->run_mode);
    CHECK_TEXT(directive.file, wanted->file);
    CHECK(directive.history.kind == wanted->history);
    CHECK(directive.isolated == (wanted->kind == HFI_RUN_INSTRUMENTED));
    CHECK((directive.arguments != NULL) == directive.isolated);
    CHECK((directive.out != NULL) == (wanted->kind == HFI_ANSWER));
    CHECK(directive.out == NULL || (strstr(directive.out, "%holdfast undo --to N") &&
                                    strstr(directive.out, "\n%holdfast publish ")));
    CHECK((directive.err != NULL) == (wanted->error != NULL));
    CHECK(wanted->error == NULL ||
          strncmp(directive.err, wanted->error, strlen(wanted->error)) == 0);
    hfi_directive_fini(&directive);
    table->close(commands);
}

int
main(void) {
    CHECK(setenv("HOME", "/there/ada", 1) == 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(hf_kernel_commands_common(), &rows[i]);
    return 0;
}
