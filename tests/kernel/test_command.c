/* test_command.c - every command in every mode: allowed or refused, and the new mode.
 *
 * The table below is written by hand, not read off the code: a D, M or W says in which
 * modes (default, multi-cell, write) a command is carried out, and `next` in which mode
 * it leaves the session that it found in each.
 */
#include "feed.h"

#include <stdlib.h>
#include <unistd.h>

struct row {
    const char *cell;
    const char *allowed;
    const char *next; /* after D, M and W */
};

static const struct row rows[] = {
    {"x = 1", "DMW", "DMW"},
    {"", "DMW", "DMW"},
    {"%%time\nx = 1", "DMW", "DMW"},
    {"%holdfast undo", "DMW", "DMW"},
    {"%%execute_with_scorep\nx = 1", "DMW", "DMW"},
    {"%%isolated\nx = 1", "DMW", "DMW"},
    {"%%scorep_env\nA=1", "DW", "DMW"},
    {"%%scorep_python_binding_arguments\n--thread", "DW", "DMW"},
    {"%%marshalling_settings\nMODE=disk", "D", "DMW"},
    {"%%enable_multicellmode", "DW", "MMW"},
    {"%%finalize_multicellmode", "M", "DDW"},
    {"%%abort_multicellmode", "M", "DDW"},
    {"%%start_writefile", "D", "WMW"},
    {"%%end_writefile", "W", "DMD"},
    {"%%abort_writefile", "W", "DMD"},
    {"%%disable_vampir_launch", "DMW", "DMW"},
};

static char directory[] = "/tmp/test_command.XXXXXX";

static void
enter(hfi_commands *commands, char mode) {
    if (mode != 'D') {
        hfi_directive directive = feed_cell(
            commands, mode == 'M' ? "%%enable_multicellmode" : "%%start_writefile",
            directory);
        CHECK(directive.out && !directive.err);
        hfi_directive_fini(&directive);
    }
    if (mode == 'M') {
        hfi_directive directive = feed_cell(commands, "marked = 1", directory);
        hfi_directive_fini(&directive);
    }
}

/* The mode as a stranger sees it: by what a plain cell does. */
static char
mode_of(hfi_commands *commands) {
    hfi_directive directive = feed_cell(commands, "probe = 1", directory);
    char mode = '?';

    if (directive.kind == HFI_RUN_PLAIN)
        mode = 'D';
    else if (directive.out && strstr(directive.out, "marked for multicell"))
        mode = 'M';
    else if (directive.out && strstr(directive.out, "recorded"))
        mode = 'W';
    hfi_directive_fini(&directive);
    return mode;
}

static void
test_every_command_in_every_mode(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t m = 0; m < 3; m++) {
            char mode = "DMW"[m], next;
            hfi_commands *commands = feed_create();
            hfi_directive directive;
            bool allowed;

            enter(commands, mode);
            directive = feed_cell(commands, rows[i].cell, directory);
            allowed = !directive.err;
            next = mode_of(commands);
            if (allowed != !!strchr(rows[i].allowed, mode) || next != rows[i].next[m]) {
                fprintf(stderr, "%s in mode %c: err %s, next %c\n", rows[i].cell, mode,
                        directive.err ? directive.err : "none", next);
                CHECK(!"the table");
            }
            if (!allowed) {
                CHECK(directive.kind == HFI_ANSWER && !directive.out);
                CHECK(strchr(directive.err, '\n') ==
                      directive.err + strlen(directive.err) - 1);
            }
            hfi_directive_fini(&directive);
            hfi_commands_close(commands);
        }
    }
}

static void
test_only_the_first_line_counts(void) {
    static const feed_row table[] = {
        {"%%execute_with_scorepX\ny", HFI_RUN_PLAIN, 0, 0, "%%execute_with_scorepX\ny",
         0, false},
        {"x = 1\n%%enable_multicellmode", HFI_RUN_PLAIN, 0, 0,
         "x = 1\n%%enable_multicellmode", 0, false},
        {"%enable_multicellmode", HFI_RUN_PLAIN, 0, 0, "%enable_multicellmode", 0,
         false},
        {"\n \t\n# heading\r\n  %%execute_with_scorep \t\r\nx = 1\r\n",
         HFI_RUN_INSTRUMENTED, 0, 0,
         "#\n#\n# heading\n# %%execute_with_scorep\nx = 1\r\n", 0, false},
        {"%%serializer_settings\nMODE=disk", HFI_ANSWER, 0,
         "%%serializer_settings is the old name of %%marshalling_settings; nothing was "
         "changed.\n",
         0, 0, false},
        {"# only\n\n", HFI_RUN_PLAIN, 0, 0, "# only\n\n", 0, false},
        {"%%enable_multicellmode \r\n# fine\n\n", HFI_ANSWER,
         "Multicell mode enabled. The following cells will be marked for instrumented "
         "execution.\n",
         0, 0, 0, false},
        {"%%abort_multicellmode now\nx = 1", HFI_ANSWER, "Multicell mode aborted.\n",
         "%%abort_multicellmode takes no argument; ignored: now\n"
         "%%abort_multicellmode stands alone in its cell; the other lines were "
         "ignored.\n",
         0, 0, false},
    };

    FEED_EXPECT(table, directory);
}

/* Megabytes, bytes that are no text, and everything unbalanced: an answer, in time that
 * grows with the size only (a quadratic scan of 1 MiB would take minutes). */
static void
test_hostile_cells(void) {
    enum { SIZE = 1 << 20 };
    static const char *const heads[] = {"%%execute_with_scorep\n",
                                        "%%scorep_env\n",
                                        "%%scorep_python_binding_arguments\n",
                                        "%%marshalling_settings\n",
                                        "%%isolated ",
                                        "#"};
    static const char *const fillers[] = {"\xff\xfe", "'",    "f'{",      "(\n",
                                          "\\\n",     "%x\n", "A=\x01\n", "\"\"\"\n"};
    char *cell = malloc(SIZE);

    CHECK(cell);
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
        for (size_t f = 0; f < sizeof fillers / sizeof *fillers; f++) {
            for (size_t m = 0; m < 3; m++) {
                hfi_commands *commands = feed_create();
                size_t at = strlen(heads[h]), step = strlen(fillers[f]);
                size_t size = f && m ? 1 << 16 : SIZE;
                hfi_directive directive;

                memcpy(cell, heads[h], at);
                for (; at + step < size; at += step)
                    memcpy(cell + at, fillers[f], step);
                cell[at] = '\0';
                enter(commands, "DMW"[m]);
                directive = feed_cell(commands, cell, directory);
                hfi_directive_fini(&directive);
                hfi_commands_close(commands);
            }
        }
    }
    free(cell);
}

/* Code keeps a null byte, for Python to refuse; what only sets something is refused. */
static void
test_null_bytes(void) {
    static const struct {
        char mode;
        hfi_directive_kind kind;
        const char *cell, *code, *out, *err;
        size_t length, code_length;
    } table[] = {
#define BYTES(text) .cell = text, .length = sizeof text - 1
#define CODE(text)  .code = text, .code_length = sizeof text - 1
        {'D', HFI_RUN_PLAIN, BYTES("1\0002"), CODE("1\0002")},
        {'D', HFI_RUN_PLAIN, BYTES("%%time\0\n1"), CODE("%%time\0\n1")},
        {'D', HFI_RUN_INSTRUMENTED, BYTES("%%execute_with_scorep\n1\0002"),
         CODE("# %%execute_with_scorep\n1\0002")},
        {'D', HFI_RUN_INSTRUMENTED, BYTES("%%isolated\n\0"), CODE("# %%isolated\n\0")},
        {'D', HFI_ANSWER, BYTES("%%scorep_env\nA=1\nB=b\0c"),
         .err = "%%scorep_env: there is a null byte in the cell; nothing was "
                "changed.\n"},
        {'D', HFI_ANSWER, BYTES("%%start_writefile a\0b"),
         .err = "%%start_writefile: there is a null byte in the cell; nothing was "
                "changed.\n"},
        {'M', HFI_ANSWER, BYTES("1\0002"),
         .out = "Cell marked for multicell mode. It will be executed at position 1\n"},
        {'W', HFI_ANSWER, BYTES("1\0002"),
         .err = "A cell with a null byte can't go into a Python script; it was left "
                "out.\n"},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        hfi_commands *commands = feed_create();
        enter(commands, table[i].mode);
        hfi_directive directive =
            feed_bytes(commands, table[i].cell, table[i].length, directory);
        CHECK(directive.kind == table[i].kind);
        CHECK(directive.code_length == table[i].code_length);
        CHECK(!table[i].code ||
              memcmp(directive.code, table[i].code, table[i].code_length) == 0);
        CHECK_TEXT(directive.out, table[i].out);
        CHECK_TEXT(directive.err, table[i].err);
        CHECK(directive.environment == NULL);
        hfi_directive_fini(&directive);
        if (table[i].mode == 'M') {
            directive = feed_cell(commands, "%%finalize_multicellmode", directory);
            CHECK(strstr(directive.code, "\"1\\x002\""));
            CHECK(strlen(directive.code) == directive.code_length);
            hfi_directive_fini(&directive);
        }
        hfi_commands_close(commands);
    }
}

static void
test_close_accepts_null(void) {
    hfi_directive directive = HFI_DIRECTIVE_INIT;

    hfi_commands_close(NULL);
    hfi_directive_fini(&directive);
}

static void
remove_scripts(void) {
    char path[128];

    snprintf(path, sizeof path, "%s/jupyter_to_script.py", directory);
    CHECK(unlink(path) == 0);
    snprintf(path, sizeof path, "%s/jupyter_to_script_run.sh", directory);
    CHECK(unlink(path) == 0);
    CHECK(rmdir(directory) == 0);
}

int
main(void) {
    CHECK(mkdtemp(directory));
    test_every_command_in_every_mode();
    test_only_the_first_line_counts();
    test_hostile_cells();
    test_null_bytes();
    test_close_accepts_null();
    remove_scripts();
    return 0;
}
