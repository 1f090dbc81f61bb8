/* test_mode.c - what becomes of cells in each mode. The sentences on stdout are those
 * that notebooks of the published Score-P kernel expect.
 */
#include "feed.h"

#include <stdlib.h>

#define ENABLED                                                                        \
    "Multicell mode enabled. The following cells will be marked for instrumented "     \
    "execution.\n"
#define UNKNOWN                                                                        \
    " takes no argument but --run=auto|in-process|forked|isolated, --repeat N (2 to "  \
    "100) and --lines; this is unknown: "
#define REPEAT ": --repeat takes how often the cell runs, 2 to 100"
#define MARKED "Cell marked for multicell mode. It will be executed at position "

static void
test_instrumented(void) {
    static const feed_row table[] = {
        {"%%execute_with_scorep\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0,
         "# %%execute_with_scorep\nx = 1", 0, false},
        {"%%scorep_python_binding_arguments\n--noinstrumenter --mpp=mpi", HFI_ANSWER,
         "Score-P Python binding arguments set successfully: ['--noinstrumenter', "
         "'--mpp=mpi']\n",
         0, 0, 0, false},
        {"%%execute_with_scorep\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0, 0,
         "--noinstrumenter --mpp=mpi", false},
        {"%%isolated\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0, "# %%isolated\nx = 1",
         "--noinstrumenter --mpp=mpi", true},
        {"%%isolated\n%%execute_with_scorep\n\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0,
         "# %%isolated\n# %%execute_with_scorep\n\nx = 1", "--noinstrumenter --mpp=mpi",
         false},
        {"%%execute_with_scorep\n%%time\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0,
         "\n%%time\nx = 1", "--noinstrumenter --mpp=mpi", false},
        {"%%execute_with_scorep\n# a\n%%time\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0,
         "\n\n%%time\nx = 1", "--noinstrumenter --mpp=mpi", false},
        {"%%time\n%%isolated\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0, "\n%%time\nx = 1",
         "--noinstrumenter --mpp=mpi", true},
        {"%%execute_with_scorep --raod=map\n%time x", HFI_REFUSE, 0,
         "%%execute_with_scorep" UNKNOWN "--raod=map", 0, 0, false},
        {"%%isolated --run=isolated\n%%execute_with_scorep fast\nx", HFI_REFUSE, 0,
         "%%execute_with_scorep" UNKNOWN "fast", 0, 0, false},
        {"%%isolated --run=forked\n%%isolated\nx", HFI_RUN_INSTRUMENTED, 0, 0,
         "# %%isolated --run=forked\n# %%isolated\nx", "--noinstrumenter --mpp=mpi",
         true},
        {"%%execute_with_scorep --run=forked --lines\nx", HFI_RUN_INSTRUMENTED, 0, 0,
         "# %%execute_with_scorep --run=forked --lines\nx",
         "--noinstrumenter --mpp=mpi --lines", false},
        {"%%isolated\n%%execute_with_scorep --lines\nx", HFI_RUN_INSTRUMENTED, 0, 0, 0,
         "--noinstrumenter --mpp=mpi --lines", false},
        {"%%execute_with_scorep\nx", HFI_RUN_INSTRUMENTED, 0, 0, 0,
         "--noinstrumenter --mpp=mpi", false},
        {"%%execute_with_scorep --lines --line\nx", HFI_REFUSE, 0,
         "%%execute_with_scorep" UNKNOWN "--line", 0, 0, false},
        {"%%isolated --lines\nx", HFI_REFUSE, 0,
         "%%isolated: --lines needs a recording, which %%execute_with_scorep --lines "
         "makes",
         0, 0, false},
        {"%%isolated --run=map\nx", HFI_REFUSE, 0,
         "%%isolated takes no argument but --run=auto|in-process|forked|isolated; this "
         "is unknown: --run=map",
         0, 0, false},
        {"%%isolated --repeat 2\nx", HFI_REFUSE, 0,
         "%%isolated: --repeat needs a recording, which %%execute_with_scorep --repeat "
         "makes",
         0, 0, false},
        {"%%execute_with_scorep", HFI_ANSWER, 0,
         "%%execute_with_scorep: there is no code below it.\n", 0, 0, false},
        {"%%isolated\n# nothing\n", HFI_ANSWER, 0,
         "%%isolated: there is no code below it.\n", 0, 0, false},
    };

    FEED_EXPECT(table, "/");
}

/* How often a cell runs is a number from 2 to 100; what isn't is named. */
static void
test_repeat(void) {
    static const feed_row table[] = {
        {"%%execute_with_scorep --repeat 1\nx", HFI_REFUSE, 0,
         "%%execute_with_scorep" REPEAT ", and not 1", 0, 0, false},
        {"%%execute_with_scorep --repeat=101\nx", HFI_REFUSE, 0,
         "%%execute_with_scorep" REPEAT ", and not 101", 0, 0, false},
        {"%%execute_with_scorep --repeat --lines\nx", HFI_REFUSE, 0,
         "%%execute_with_scorep" REPEAT ", and not --lines", 0, 0, false},
        {"%%execute_with_scorep --repeat\nx", HFI_REFUSE, 0,
         "%%execute_with_scorep" REPEAT, 0, 0, false},
        {"%%execute_with_scorep --repeat=\nx", HFI_REFUSE, 0,
         "%%execute_with_scorep" REPEAT, 0, 0, false},
        {"%%execute_with_scorep --lines --repeat 2.5\nx", HFI_REFUSE, 0,
         "%%execute_with_scorep" REPEAT ", and not 2.5", 0, 0, false},
        {"%%execute_with_scorep --repeated\nx", HFI_REFUSE, 0,
         "%%execute_with_scorep" UNKNOWN "--repeated", 0, 0, false},
    };

    FEED_EXPECT(table, "/");
}

/* HOLDFAST_RECORD records each cell, or none, whatever stands above it. */
static void
test_record_all_or_none(void) {
    static const feed_row all[] = {
        {"x = 1", HFI_RUN_INSTRUMENTED, 0, 0, "x = 1", 0, false},
        {"%%time\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0, "%%time\nx = 1", 0, false},
        {"%%execute_with_scorep\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0, 0, 0, false},
        {"%%isolated\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0, 0, 0, true},
        {"%trace --text", HFI_RUN_PLAIN, 0, 0, "%trace --text", 0, false},
        {"%holdfast undo", HFI_RUN_PLAIN, 0, 0, "%holdfast undo", 0, false},
        {"# nothing\n", HFI_RUN_PLAIN, 0, 0, "# nothing\n", 0, false},
        {"%%enable_multicellmode", HFI_ANSWER, ENABLED, 0, 0, 0, false},
        {"x = 1", HFI_ANSWER, MARKED "0\n", 0, 0, 0, false},
        {"%%finalize_multicellmode", HFI_RUN_INSTRUMENTED, 0, 0, 0, 0, false},
    };
    static const feed_row none[] = {
        {"x = 1", HFI_RUN_PLAIN, 0, 0, "x = 1", 0, false},
        {"%%execute_with_scorep --run=forked --lines --repeat 3\nx = 1", HFI_RUN_PLAIN,
         0, 0, "# %%execute_with_scorep --run=forked --lines --repeat 3\nx = 1", 0,
         false},
        {"%%time\n%%execute_with_scorep\nx = 1", HFI_RUN_PLAIN, 0, 0, "\n%%time\nx = 1",
         0, false},
        {"%%isolated\nx = 1", HFI_RUN_INSTRUMENTED, 0, 0, 0, 0, true},
        {"%%enable_multicellmode", HFI_ANSWER, ENABLED, 0, 0, 0, false},
        {"x = 1", HFI_ANSWER, MARKED "0\n", 0, 0, 0, false},
        {"%%finalize_multicellmode", HFI_RUN_PLAIN, 0, 0, 0, 0, false},
    };

    CHECK(setenv("HOLDFAST_RECORD", "all", 1) == 0);
    FEED_EXPECT(all, "/");
    CHECK(setenv("HOLDFAST_RECORD", "none", 1) == 0);
    FEED_EXPECT(none, "/");
    CHECK(unsetenv("HOLDFAST_RECORD") == 0);
}

static void
test_multicell(void) {
    static const feed_row table[] = {
        {"%%enable_multicellmode", HFI_ANSWER, ENABLED, 0, 0, 0, false},
        {"%%abort_multicellmode", HFI_ANSWER, "Multicell mode aborted.\n", 0, 0, 0,
         false},
        {"%%finalize_multicellmode", HFI_ANSWER, 0,
         "%%finalize_multicellmode was ignored: multi-cell mode is not on. "
         "%%enable_multicellmode starts it.\n",
         0, 0, false},
        {"%%enable_multicellmode", HFI_ANSWER, ENABLED, 0, 0, 0, false},
        {"%%finalize_multicellmode", HFI_ANSWER, 0,
         "%%finalize_multicellmode: no cell was marked; multi-cell mode ends.\n", 0, 0,
         false},
        {"%%enable_multicellmode", HFI_ANSWER, ENABLED, 0, 0, 0, false},
        {"a = 1", HFI_ANSWER, MARKED "0\n", 0, 0, 0, false},
        {"%%execute_with_scorep\nb = 1", HFI_ANSWER, MARKED "1\n", 0, 0, 0, false},
        {"%%isolated\nb = 1", HFI_ANSWER, MARKED "2\n", 0, 0, 0, false},
        {"%%bash\nls", HFI_ANSWER, MARKED "3\n", 0, 0, 0, false},
        {"%%execute_with_scorep --lines\nb = 1", HFI_REFUSE, 0,
         "%%execute_with_scorep: --lines is for a cell that runs by itself; multi-cell "
         "or write mode is on",
         0, 0, false},
        {"%%execute_with_scorep --repeat 5\nb = 1", HFI_REFUSE, 0,
         "%%execute_with_scorep: --repeat is for a cell that runs by itself; "
         "multi-cell or write mode is on",
         0, 0, false},
        {"%%enable_multicellmode", HFI_ANSWER, 0,
         "%%enable_multicellmode was ignored: multi-cell mode is on. "
         "%%finalize_multicellmode or %%abort_multicellmode ends it.\n",
         0, 0, false},
        {"", HFI_ANSWER, MARKED "4\n", 0, 0, 0, false},
        {"%%finalize_multicellmode", HFI_RUN_INSTRUMENTED, 0, 0, 0, 0, false},
        {"a", HFI_RUN_PLAIN, 0, 0, "a", 0, false},
        {"%%enable_multicellmode", HFI_ANSWER, ENABLED, 0, 0, 0, false},
        {"a", HFI_ANSWER, MARKED "0\n", 0, 0, 0, false},
    };

    FEED_EXPECT(table, "/");
}

/* Only what was marked since the mode began, and without the command's own line. */
static void
test_finalized_program(void) {
    static const char *const cells[] = {
        "%%enable_multicellmode", "first = 1", "%%abort_multicellmode",
        "%%enable_multicellmode", "%%execute_with_scorep\nsecond = 2"};
    hfi_commands *commands = feed_create();
    hfi_directive directive;

    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        directive = feed_cell(commands, cells[i], "/");
        hfi_directive_fini(&directive);
    }
    directive = feed_cell(commands, "%%finalize_multicellmode", "/");
    CHECK(directive.multicell && !directive.isolated);
    CHECK(strstr(directive.code, "\"second = 2\""));
    CHECK(!strstr(directive.code, "first") && !strstr(directive.code, "%%execute"));
    hfi_directive_fini(&directive);
    hfi_commands_close(commands);
}

static void
test_write_mode(void) {
    static const feed_row table[] = {
        {"%%start_writefile missing/script.py", HFI_ANSWER, 0,
         "%%start_writefile: there is no directory /nowhere/missing/\n", 0, 0, false},
        {"%%start_writefile two names", HFI_ANSWER, 0,
         "%%start_writefile: one file name, please; quote it if it has blanks.\n", 0, 0,
         false},
        {"%%start_writefile /tmp/", HFI_ANSWER, 0,
         "%%start_writefile: the script needs a file name\n", 0, 0, false},
        {"%%start_writefile '/tmp/a b.py'", HFI_ANSWER,
         "Started converting to Python script. See files:\n/tmp/a b_run.sh\n/tmp/a "
         "b.py\n",
         0, 0, 0, false},
        {"a = 1", HFI_ANSWER, "Python commands without instrumentation recorded.\n", 0,
         0, 0, false},
        {"%%isolated\na = 1", HFI_ANSWER,
         "Python commands without instrumentation recorded.\n", 0, 0, 0, false},
        {"%%execute_with_scorep\na = 1", HFI_ANSWER,
         "Python commands with instrumentation recorded.\n", 0, 0, 0, false},
        {"%env SCOREP_TOTAL_MEMORY=3g", HFI_ANSWER, 0, 0, 0, 0, false},
        {"", HFI_ANSWER, 0, 0, 0, 0, false},
        {"%%bash\nls", HFI_ANSWER, 0,
         "%%bash: a cell under this magic can't go into a Python script; it was left "
         "out.\n",
         0, 0, false},
        {"%%finalize_multicellmode", HFI_ANSWER, 0,
         "%%finalize_multicellmode was ignored: multi-cell mode is not on.\n", 0, 0,
         false},
        {"%%enable_multicellmode", HFI_ANSWER, 0, 0, 0, 0, false},
        {"%%enable_multicellmode", HFI_ANSWER, 0,
         "%%enable_multicellmode was ignored: multi-cell mode is on already.\n", 0, 0,
         false},
        {"a = 1", HFI_ANSWER, "Python commands with instrumentation recorded.\n", 0, 0,
         0, false},
        {"%%abort_multicellmode", HFI_ANSWER, 0,
         "%%abort_multicellmode was ignored: write mode is on. %%end_writefile or "
         "%%abort_writefile ends it.\n",
         0, 0, false},
        {"a = 1", HFI_ANSWER, "Python commands with instrumentation recorded.\n", 0, 0,
         0, false},
        {"%%finalize_multicellmode", HFI_ANSWER, 0, 0, 0, 0, false},
        {"a = 1", HFI_ANSWER, "Python commands without instrumentation recorded.\n", 0,
         0, 0, false},
        {"%%enable_multicellmode", HFI_ANSWER, 0, 0, 0, 0, false},
        {"%%abort_writefile", HFI_ANSWER, "Writefile mode aborted.\n", 0, 0, 0, false},
        {"%%end_writefile", HFI_ANSWER, 0,
         "%%end_writefile was ignored: write mode is not on. %%start_writefile starts "
         "it.\n",
         0, 0, false},
        {"%%start_writefile /tmp/again", HFI_ANSWER,
         "Started converting to Python script. See files:\n/tmp/again_run.sh\n"
         "/tmp/again.py\n",
         0, 0, 0, false},
        {"a = 1", HFI_ANSWER, "Python commands without instrumentation recorded.\n", 0,
         0, 0, false},
    };

    FEED_EXPECT(table, "/nowhere");
}

int
main(void) {
    test_instrumented();
    test_repeat();
    test_record_all_or_none();
    test_multicell();
    test_finalized_program();
    test_write_mode();
    return 0;
}
