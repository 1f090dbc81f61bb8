/* test_outcome.c - a call of the commands happens whole or not at all.
 *
 * Each allocation of the last cell of a session fails in turn. After the failure the
 * same cell is given again, with memory; its directive must be what a session without
 * failures gets, and so must that of the cells behind it. The linker puts the
 * allocation functions below in the place of the library's (--wrap), so this test is
 * built where the linker can do that.
 */
#include "feed.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static long allocations_left = -1; /* negative: no bound */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *string);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *string);

static bool
refuses(void) {
    if (allocations_left == 0) {
        errno = ENOMEM;
        return true;
    }
    allocations_left -= allocations_left > 0;
    return false;
}

void *
__wrap_malloc(size_t size) {
    return refuses() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size) {
    return refuses() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *memory, size_t size) {
    return refuses() ? NULL : __real_realloc(memory, size);
}

char *
__wrap_strdup(const char *string) {
    return refuses() ? NULL : __real_strdup(string);
}

struct session {
    const char *before[4];
    const char *cell;
    const char *after[3];
};

static const struct session sessions[] = {
    {{NULL}, "x = 1", {"x = 2"}},
    {{"%%scorep_python_binding_arguments\n--a --b"},
     "# c\n%%execute_with_scorep oops\nx = 1",
     {"%%execute_with_scorep\nx"}},
    {{"%%scorep_python_binding_arguments\n--old"},
     "%%scorep_python_binding_arguments\n--a '--b c'",
     {"%%execute_with_scorep\nx"}},
    {{NULL}, "%%scorep_env\nA=1\nB=2\nbad", {"x"}},
    {{NULL},
     "%%marshalling_settings\nMARSHALLER=joblib\nMODE=disk\nX=1",
     {"%%marshalling_settings"}},
    {{"%%enable_multicellmode", "a = 1"},
     "b = 2\nawait c",
     {"d = 3", "%%finalize_multicellmode"}},
    {{"%%enable_multicellmode", "a = 1", "await b"},
     "%%finalize_multicellmode\nx",
     {"%%enable_multicellmode", "x"}},
    {{"%%enable_multicellmode", "a = 1"},
     "%%abort_multicellmode",
     {"%%enable_multicellmode", "x"}},
    {{NULL}, "%%start_writefile 'a b'", {"x = 1", "%%end_writefile"}},
    {{"%%start_writefile", "x = 1"},
     "from __future__ import annotations\n%env SCOREP_A=1\n%env B=2\nif x:\n    %y\n",
     {"x", "%%end_writefile"}},
    {{"%%start_writefile"}, "%%bash\nls", {"x", "%%end_writefile"}},
    {{"%%start_writefile", "%%scorep_python_binding_arguments\n--a", "x"},
     "%%scorep_env\nA=1",
     {"%%end_writefile"}},
    {{"%%start_writefile", "%%scorep_python_binding_arguments\n--a", "x"},
     "%%end_writefile",
     {"x", "%%end_writefile"}},
};

static char directory[] = "/tmp/test_outcome.XXXXXX";

static void
remove_scripts(void) {
    static const char *const names[] = {"a b", "jupyter_to_script"};
    char path[128];

    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s.py", directory, names[i]);
        unlink(path);
        snprintf(path, sizeof path, "%s/%s_run.sh", directory, names[i]);
        unlink(path);
    }
}

static void
add(char *text, size_t size, const char *more) {
    CHECK(strlen(text) + (more ? strlen(more) : 1) + 2 < size);
    strcat(strcat(text, more ? more : "-"), "\n");
}

static void
add_file(char *text, size_t size, const char *name) {
    char path[128], content[4096] = "";
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "r");
    if (file) {
        CHECK(fread(content, 1, sizeof content - 1, file) < sizeof content - 1);
        fclose(file);
    }
    add(text, size, content);
}

/* Everything that a cell brought, as one text. */
static void
describe(hfi_commands *commands, const char *cell, char *text, size_t size) {
    hfi_directive directive = feed_cell(commands, cell, directory);
    char numbers[64];

    snprintf(numbers, sizeof numbers, "%d %d %d", (int)directive.kind,
             directive.isolated, directive.multicell);
    add(text, size, numbers);
    add(text, size, directive.code);
    add(text, size, directive.out);
    add(text, size, directive.err);
    add(text, size, directive.note);
    for (char **word = directive.arguments; word && *word; word++)
        add(text, size, *word);
    for (char **word = directive.environment; word && *word; word++)
        add(text, size, *word);
    hfi_directive_fini(&directive);
}

/* The session with `bound` allocations for its middle cell; all that came from that
 * cell on goes into `text`. True: the bound was enough. */
static bool
play(const struct session *session, long bound, char *text, size_t size) {
    hfi_commands *commands = feed_create();
    bool enough = true;

    text[0] = '\0';
    remove_scripts();
    for (size_t i = 0; i < 4 && session->before[i]; i++) {
        hfi_directive directive = feed_cell(commands, session->before[i], directory);
        hfi_directive_fini(&directive);
    }
    if (bound >= 0) {
        hf_error error = HF_ERROR_INIT;
        hfi_directive directive;
        hf_status status;

        allocations_left = bound;
        status = hfi_commands_feed(commands, session->cell, strlen(session->cell),
                                   directory, NULL, &directive, &error);
        allocations_left = -1;
        enough = status == HF_OK;
        CHECK(enough || status == HF_E_NOMEM);
        CHECK(enough || (!directive.code && !directive.out && !directive.arguments));
        CHECK(enough || error.status == HF_E_NOMEM);
        hfi_directive_fini(&directive);
    }
    if (bound < 0 || !enough) {
        describe(commands, session->cell, text, size);
        for (size_t i = 0; i < 3 && session->after[i]; i++)
            describe(commands, session->after[i], text, size);
        add_file(text, size, "jupyter_to_script.py");
        add_file(text, size, "jupyter_to_script_run.sh");
        add_file(text, size, "a b.py");
    }
    hfi_commands_close(commands);
    return enough;
}

static void
test_each_allocation(const struct session *session) {
    enum { SIZE = 1 << 15 };
    char *wanted = malloc(SIZE), *got = malloc(SIZE);
    long bound = 0;

    CHECK(wanted && got);
    play(session, -1, wanted, SIZE);
    while (!play(session, bound, got, SIZE)) {
        CHECK_TEXT(got, wanted);
        CHECK(++bound < 1000);
    }
    CHECK(bound > 0); /* at least one allocation was made to fail */
    free(wanted);
    free(got);
}

static void
test_create(void) {
    hfi_commands *commands = NULL;
    hf_error error = HF_ERROR_INIT;

    for (allocations_left = 0; allocations_left < 2;) {
        long bound = allocations_left;

        CHECK(hfi_commands_create("python3", &commands, &error) == HF_E_NOMEM);
        CHECK(!commands && error.status == HF_E_NOMEM);
        allocations_left = bound + 1;
    }
    allocations_left = -1;
}

int
main(void) {
    CHECK(mkdtemp(directory));
    for (size_t i = 0; i < sizeof sessions / sizeof *sessions; i++)
        test_each_allocation(&sessions[i]);
    test_create();
    remove_scripts();
    CHECK(rmdir(directory) == 0);
    return 0;
}
