/* test_writefile.c - both files of a recording against approved ones, their modes, and
 * what happens where they can't be written.
 */
#include "feed.h"
#include "golden.h"
#include "commands/writefile.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/test_writefile.XXXXXX";

static const char *const cells[] = {
    "%%start_writefile my_notebook.py",
    "%env SCOREP_ENABLE_TRACING=1\n%env SCOREP_EXPERIMENT_DIRECTORY=a dir\n%env WORK=x",
    "%%scorep_env\nSCOREP_TOTAL_MEMORY=64M",
    "%%scorep_python_binding_arguments\n--noinstrumenter '--x=a b'",
    "from __future__ import annotations\nimport sys\n\ntext = '''a\n  b\n%no "
    "magic\n'''\n"
    "if text:\n    %matplotlib inline\nprint(repr(text),\n      len(text))",
    "%%execute_with_scorep\nwith scorep.instrumenter.enable():\n    a = 5",
    "%%bash\necho no",
    "%%enable_multicellmode",
    "%time b = a % 3",
    "%%finalize_multicellmode",
    "print(a,\nb, sys.argv[1:])",
    "",
};

static char *
path_of(const char *name) {
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void
feed(hfi_commands *commands, const char *cell, const char *out) {
    hfi_directive directive = feed_cell(commands, cell, directory);

    CHECK_TEXT(directive.out, out);
    hfi_directive_fini(&directive);
}

static hfi_commands *
record(void) {
    hfi_commands *commands = feed_create();

    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        hfi_directive directive = feed_cell(commands, cells[i], directory);
        hfi_directive_fini(&directive);
    }
    return commands;
}

static void
test_files(const char *golden) {
    hfi_commands *commands = record();
    struct stat status;
    char *text;

    CHECK(stat(path_of("my_notebook.py"), &status) != 0 && errno == ENOENT);
    feed(commands, "%%end_writefile", "Finished converting to Python script.\n");
    text = golden_read(directory, "my_notebook.py");
    golden_expect(golden, "written_script.py.golden", text);
    free(text);
    text = golden_read(directory, "my_notebook_run.sh");
    golden_expect(golden, "written_script_run.sh.golden", text);
    free(text);
    umask(022);
    CHECK(stat(path_of("my_notebook.py"), &status) == 0);
    CHECK((status.st_mode & 0777) == 0644);
    CHECK(stat(path_of("my_notebook_run.sh"), &status) == 0);
    CHECK((status.st_mode & 0777) == 0755);
    hfi_commands_close(commands);
}

/* An abandoned recording doesn't touch what stands there. */
static void
test_abort_keeps_files(void) {
    hfi_commands *commands = record();
    char *before = golden_read(directory, "my_notebook.py"), *after;

    feed(commands, "print('more')",
         "Python commands without instrumentation recorded.\n");
    feed(commands, "%%abort_writefile", "Writefile mode aborted.\n");
    after = golden_read(directory, "my_notebook.py");
    CHECK_TEXT(after, before);
    free(before);
    free(after);
    hfi_commands_close(commands);
}

/* The directory goes away under a recording: reported, nothing lost, and a retry works.
 */
static void
test_retry(void) {
    char inner[256];
    hfi_commands *commands = feed_create();
    hfi_directive directive;

    snprintf(inner, sizeof inner, "%s", path_of("inner"));
    CHECK(mkdir(inner, 0700) == 0);
    directive = feed_cell(commands, "%%start_writefile inner/x", directory);
    CHECK(directive.out);
    hfi_directive_fini(&directive);
    CHECK(rmdir(inner) == 0);
    directive = feed_cell(commands, "%%end_writefile", directory);
    CHECK(!directive.out && strstr(directive.err, "No such file or directory"));
    CHECK(strstr(directive.err, "inner/x.py"));
    hfi_directive_fini(&directive);
    CHECK(mkdir(inner, 0700) == 0);
    feed(commands, "%%end_writefile", "Finished converting to Python script.\n");
    CHECK(unlink(path_of("inner/x.py")) == 0);
    CHECK(unlink(path_of("inner/x_run.sh")) == 0);
    CHECK(rmdir(inner) == 0);
    hfi_commands_close(commands);
}

static void
expect_base(const char *name, const char *cwd, const char *wanted) {
    char *base = NULL;
    hf_error error = HF_ERROR_INIT;

    CHECK(hfi_writefile_resolve(hfi_part_text(name), cwd, &base, &error) ==
          (wanted ? HF_OK : HF_E_INVALID));
    CHECK_TEXT(base, wanted);
    CHECK(wanted || error.message[0]);
    free(base);
}

static void
test_resolve(void) {
    expect_base("a", "/", "/a");
    expect_base("a.py", "/tmp", "/tmp/a");
    expect_base("/tmp/a.b", "/nowhere", "/tmp/a.b");
    expect_base("../a", "/tmp", "/tmp/../a");
    expect_base("", "/tmp", NULL);
    expect_base(".py", "/tmp", NULL);
    expect_base("x/", "/tmp", NULL);
    expect_base("a", "/nowhere", NULL);
    expect_base("a", "/dev/null", NULL);
    CHECK(mkdir(path_of("taken.py"), 0700) == 0);
    expect_base("taken", directory, NULL);
    CHECK(rmdir(path_of("taken.py")) == 0);
}

int
main(int argc, char **argv) {
    CHECK(argc == 2 && mkdtemp(directory));
    umask(022);
    test_files(argv[1]);
    test_abort_keeps_files();
    test_retry();
    test_resolve();
    CHECK(unlink(path_of("my_notebook.py")) == 0);
    CHECK(unlink(path_of("my_notebook_run.sh")) == 0);
    CHECK(rmdir(directory) == 0);
    return 0;
}
