/* test_scriptcell.c - single cells as part of a script: rows of cell, instrumented or
 * not, what goes into the script, and whether there was code.
 */
#include "../support/check.h"
#include "commands/writefile.h"

#define FRAME "\n# Cell 1, not instrumented\nwith scorep.instrumenter.disable():\n"
#define PLAIN "\n# Cell 1\n"

struct row {
    const char *cell;
    bool instrumented;
    bool code;
    const char *script;
};

static const struct row rows[] = {
    {"", false, false, NULL},
    {"x = 1", false, true, FRAME "    x = 1\n"},
    {"x = 1\n\n\ny", true, true, PLAIN "x = 1\n\n\ny\n"},
    {"if x:\n\ty\nelse: z", false, true, FRAME "    if x:\n    \ty\n    else: z\n"},
    /* strings, brackets and continued lines stay as they are */
    {"x = '''a\n  b\n%c\n'''\ny = (1,\n2)\nz = \\\n3", false, true,
     FRAME "    x = '''a\n  b\n%c\n'''\n    y = (1,\n2)\n    z = \\\n3\n"},
    /* what IPython forgives: a cell that is indented as a whole */
    {"  x = 1\n  if x:\n      y\nz", true, true, PLAIN "x = 1\nif x:\n    y\nz\n"},
    {"  x = '''\n  a'''", true, true, PLAIN "x = '''\n  a'''\n"},
    /* magics */
    {"%matplotlib inline", false, false, "\n    # %matplotlib inline\n"},
    {"# only a comment", false, false, "\n    # only a comment\n"},
    {"if x:\n    %m\nx?\n!ls \\\n  'a", true, true,
     PLAIN "if x:\n    pass  # %m\n# x?\n# !ls \\\n  # 'a\n"},
    {"y = !ls 'a\nz", true, true, PLAIN "# y = !ls 'a\nz\n"},
    {"%time x = f(1)\n%prun g()\n%prun -s time h()\n%timeit z", true, true,
     PLAIN "x = f(1)\ng()\n# %prun -s time h()\n# %timeit z\n"},
    {"%%time\n%%capture out\nx = 1", false, true, FRAME "    x = 1\n"},
    {"%env A=it's \"b\"\n%env B c d\n%env C\n%env", false, true,
     FRAME "    os.environ[\"A\"] = \"it's \\\"b\\\"\"\n"
           "    os.environ[\"B\"] = \"c d\"\n    # %env C\n    # %env\n"},
    {"%env SCOREP_A=1", false, false, "\n    # %env SCOREP_A=1\n"},
    {"%%bash\nls\n\n", true, false, "\n# Left out:\n# %%bash\n# ls\n#\n"},
    {"x = 1\r\ny = '''\r\n'''\r\n", true, true, PLAIN "x = 1\ny = '''\n'''\n"},
};

static void
test_rows(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_writefile writefile = HFI_WRITEFILE_INIT;
        hfi_textbuf err = {0};
        bool code = hfi_scriptcell_add(&writefile, hfi_part_text(rows[i].cell),
                                       rows[i].instrumented, &err);

        CHECK(!hfi_writefile_failed(&writefile));
        if (writefile.script.size || rows[i].script)
            CHECK_TEXT(writefile.script.data, rows[i].script);
        CHECK(code == rows[i].code);
        CHECK(writefile.count == code);
        CHECK(!err.data || strstr(rows[i].cell, "%%bash"));
        hfi_textbuf_fini(&err);
        hfi_writefile_fini(&writefile);
    }
}

static void
test_what_leaves_the_script(void) {
    hfi_writefile writefile = HFI_WRITEFILE_INIT;
    hfi_textbuf err = {0};
    hfi_part cell = hfi_part_text("from __future__ import (annotations,\n  division)\n"
                                  "%env SCOREP_A=$x 'y'\n%env SCOREP_B=1\nx = 1");

    CHECK(hfi_scriptcell_add(&writefile, cell, true, &err));
    CHECK_TEXT(writefile.future.data,
               "from __future__ import (annotations,\n  division)\n");
    CHECK_TEXT(writefile.environment.data,
               "export SCOREP_A='$x '\\''y'\\'''\nexport SCOREP_B=1\n");
    CHECK_TEXT(writefile.script.data,
               PLAIN "# from __future__: see the top\n# %env SCOREP_A=$x 'y'\n"
                     "# %env SCOREP_B=1\nx = 1\n");
    CHECK(!err.data);
    hfi_writefile_fini(&writefile);
}

int
main(void) {
    test_rows();
    test_what_leaves_the_script();
    return 0;
}
