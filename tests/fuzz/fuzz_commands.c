/* fuzz_commands.c - whatever a cell says, the commands answer or hand on.
 *
 * An input is a notebook: the first byte is not used, the rest is cut into cells at
 * each 0xfe and fed to one session. Checked beyond "doesn't crash": a directive is
 * whole, a plain cell goes on byte for byte, and a generated program has no null byte,
 * however many were in its cells.
 *
 * Cells that name %%end_writefile are skipped: it writes files, and where to is what
 * the input says. test_writefile.c has it.
 */
#include <stdlib.h>
#include <string.h>

#include "../support/check.h"
#include "commands/command.h"
#include "driver.h"

enum { CELLS_MAX = 32 };

static const char *const notebooks[] = {
    "%%execute_with_scorep\nx = 1\n\xfe%%isolated\n%%time\ny = 2\n",
    "# a heading\n%%scorep_env\nA=1\n# c\nB = 'x y'\n\xfe"
    "%%scorep_python_binding_arguments --keep-files\n'a b' \"c\\\"d\" e\\ f # g\n\xfe"
    "%%execute_with_scorep\n1",
    "%%enable_multicellmode\n\xfex = '''a\n  b'''\n\xfe%%execute_with_scorep\nawait f()"
    "\n\xfe%%finalize_multicellmode",
    "%%enable_multicellmode\n\xfe\\ \"\n\xfe%%abort_multicellmode\n\xfe%%isolated\nz",
    "%%start_writefile 'a b'\n\xfe%env SCOREP_A=1\n%env B=c d\nif x:\n    %time f(x)\n"
    "\xfe%%enable_multicellmode\xfe"
    "from __future__ import (annotations,\n  division)\n"
    "s = f'{a!r:{w}}' \\\n  + r\"\\\"\nv = !ls\n\xfe%%bash\nls\n\xfe%%abort_writefile",
    "%%marshalling_settings\nMARSHALLER=dill\nMODE=disk\n\xfe%%serializer_"
    "settings\n\xfe"
    "%%enable_vampir_launch_on_scorep_instrumented\n\xfe%%disable_vampir_launch",
    "%holdfast undo\xfe# back\n%holdfast checkout 12\xfe%holdfast history 2G\xfe"
    "%holdfast diff 1 2\xfe%holdfast save a b",
};

const uint32_t fuzz_weight = 1;

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    const char *notebook = notebooks[number % (sizeof notebooks / sizeof *notebooks)];
    size_t size = strlen(notebook);

    ret_input[0] = 0;
    memcpy(ret_input + 1, notebook, size);
    return 1 + size;
}

static bool
contains(const char *cell, size_t size, const char *word) {
    for (size_t at = 0; at + strlen(word) <= size; at++)
        if (memcmp(cell + at, word, strlen(word)) == 0)
            return true;
    return false;
}

static void
try_cell(hfi_commands *commands, const char *cell, size_t size) {
    hfi_directive directive;

    if (contains(cell, size, "end_writefile"))
        return;
    CHECK(hfi_commands_feed(commands, cell, size, "/tmp", NULL, &directive, NULL) ==
          HF_OK);
    CHECK((directive.code != NULL) ==
          (directive.kind == HFI_RUN_PLAIN || directive.kind == HFI_RUN_INSTRUMENTED));
    CHECK((directive.arguments != NULL) == (directive.kind == HFI_RUN_INSTRUMENTED));
    CHECK(directive.code || directive.code_length == 0);
    CHECK(!directive.code || directive.code[directive.code_length] == '\0');
    if (directive.kind == HFI_RUN_PLAIN)
        CHECK(directive.code_length == size && memcmp(directive.code, cell, size) == 0);
    if (directive.multicell)
        CHECK(strlen(directive.code) == directive.code_length);
    for (char **word = directive.environment; word && *word; word += 2)
        CHECK(word[0][0] && word[1]);
    hfi_directive_fini(&directive);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hfi_commands *commands;
    size_t begin = 1, cells = 0;

    CHECK(hfi_commands_create("python3", &commands, NULL) == HF_OK);
    for (size_t at = 1; at <= size && cells < CELLS_MAX; at++)
        if (at == size || data[at] == 0xfe) {
            char *cell = malloc(at - begin + 1); /* a read past the end is seen */
            CHECK(cell);
            memcpy(cell, data + begin, at - begin);
            cell[at - begin] = '\0'; /* as jansson's strings have it */
            try_cell(commands, cell, at - begin);
            free(cell);
            begin = at + 1;
            cells++;
        }
    try_cell(commands, "%%finalize_multicellmode", strlen("%%finalize_multicellmode"));
    hfi_commands_close(commands);
    return 0;
}
