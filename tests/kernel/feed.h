/* feed.h - give cells to the commands and compare what comes back. */
#ifndef HFT_FEED_H
#define HFT_FEED_H

#include "../support/check.h"
#include "commands/command.h"

/* One cell and its whole directive; an absent field must be absent. */
typedef struct feed_row {
    const char *cell;
    hfi_directive_kind kind;
    const char *out;
    const char *err;
    const char *code;      /* NULL: not looked at */
    const char *arguments; /* joined by a blank; NULL: none */
    bool isolated;
} feed_row;

static inline hfi_commands *
feed_create(void) {
    hfi_commands *commands = NULL;
    hf_error error = HF_ERROR_INIT;

    CHECK(hfi_commands_create("/opt/py/bin/python3", &commands, &error) == HF_OK);
    return commands;
}

/* `length` counts NULs within the cell. */
static inline hfi_directive
feed_bytes(hfi_commands *commands, const char *cell, size_t length, const char *cwd) {
    hfi_directive directive;
    hf_error error = HF_ERROR_INIT;

    CHECK(hfi_commands_feed(commands, cell, length, cwd, NULL, &directive, &error) ==
          HF_OK);
    CHECK((directive.code != NULL) ==
          (directive.kind == HFI_RUN_PLAIN || directive.kind == HFI_RUN_INSTRUMENTED));
    CHECK((directive.arguments != NULL) == (directive.kind == HFI_RUN_INSTRUMENTED));
    CHECK(directive.code_length >= (directive.code ? strlen(directive.code) : 0));
    return directive;
}

static inline hfi_directive
feed_cell(hfi_commands *commands, const char *cell, const char *cwd) {
    return feed_bytes(commands, cell, strlen(cell), cwd);
}

static inline void
feed_expect(hfi_commands *commands, const feed_row *row, const char *cwd) {
    hfi_directive directive = feed_cell(commands, row->cell, cwd);
    char joined[256] = "";

    for (char **word = directive.arguments; word && *word; word++) {
        strcat(joined, *joined ? " " : "");
        strcat(joined, *word);
    }
    CHECK(directive.kind == row->kind);
    CHECK_TEXT(directive.out, row->out);
    CHECK_TEXT(directive.err, row->err);
    if (row->code)
        CHECK_TEXT(directive.code, row->code);
    CHECK_TEXT(joined, row->arguments ? row->arguments : "");
    CHECK(directive.isolated == row->isolated);
    hfi_directive_fini(&directive);
}

/* The rows one after the other in one session. */
static inline void
feed_expect_all(const feed_row *rows, size_t count, const char *cwd) {
    hfi_commands *commands = feed_create();

    for (size_t i = 0; i < count; i++)
        feed_expect(commands, &rows[i], cwd);
    hfi_commands_close(commands);
}

#define FEED_EXPECT(rows, cwd)                                                         \
    feed_expect_all((rows), sizeof(rows) / sizeof *(rows), (cwd))

#endif
