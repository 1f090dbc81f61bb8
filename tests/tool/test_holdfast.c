/* test_holdfast.c - the command-line tool (its path is the argument) on a real session.
 */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "holdfast/store.h"
#include "platform/object.h"
#include "support/check.h"

#define OK(call) CHECK((call) == HF_OK)

static const char *tool;
static char output[1 << 20]; /* others' sessions, too: a few hundred bytes each */

static int
run_tool(const char *arguments) {
    char command[1024];
    snprintf(command, sizeof command, "'%s' %s 2>&1", tool, arguments);
    FILE *pipe = popen(command, "r");
    CHECK(pipe);
    size_t n = fread(output, 1, sizeof output - 1, pipe);
    output[n] = 0;
    return pclose(pipe);
}

/* An object under one of our names that is no session, and has been there for a
 * while. */
static void
test_broken(void) {
    char name[64], line[128];
    struct timespec times[2] = {{0, UTIME_OMIT}, {time(NULL) - 60, 0}};
    int fd;
    snprintf(name, sizeof name, "/holdfast-%lu-%016lx", (unsigned long)getuid(),
             (unsigned long)getpid());
    CHECK(hfi_object_create(name, &fd) == 0);
    CHECK(hfi_object_allocate(fd, 0, 1 << 20) == 0);
    CHECK(futimens(fd, times) == 0);
    hfi_object_hold(fd); /* another kernel that starts now must not collect it */
    CHECK(run_tool("ls") == 0);
    const char *at = strstr(output, name + 1);
    CHECK(at && strcspn(at, "\n") < sizeof line);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    CHECK(strstr(line, "corrupt: run gc") && strstr(line, "1.0 MiB"));
    CHECK(run_tool("ls --json") == 0);
    CHECK(strstr(output, "\"state\": \"HF_E_CORRUPT\""));
    snprintf(line, sizeof line, "info %s", name + 1);
    CHECK(run_tool(line) != 0);
    close(fd);
    CHECK(run_tool("gc") == 0 && strstr(output, name + 1));
    CHECK(run_tool("ls") == 0 && !strstr(output, name + 1));
}

static hf_session *
make_session(const char *label, const char *key) {
    hf_session *session;
    hf_commit *commit;
    hf_session_options options = {.struct_size = sizeof options, .label = label};
    hf_value value = {.struct_size = sizeof value,
                      .key = key,
                      .key_size = strlen(key),
                      .codec = 19,
                      .meta = "float\n",
                      .meta_size = 6};
    OK(hf_session_create(&options, &session, NULL));
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    value.key = "in_both_of_these";
    value.key_size = strlen(value.key);
    OK(hf_commit_put(commit, &value, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    return session;
}

/* A name says which session is meant, if one has it alone. */
static void
test_several(void) {
    hf_session *one = make_session("notes/one.ipynb", "in_one_of_these");
    hf_session *two = make_session("notes/\ntwo.ipynb", "in_the_other_one");
    CHECK(run_tool("show in_one_of_these") == 0 && strstr(output, "module float"));
    CHECK(run_tool("show in_the_other_one") == 0 && strstr(output, "module float"));
    CHECK(run_tool("show in_both_of_these") != 0);
    CHECK(strstr(output, "2 sessions have the name in_both_of_these; name one:\n"));
    CHECK(strstr(output, hf_session_name(one) + 1));
    CHECK(strstr(output, "  notes/one.ipynb\n") && strstr(output, "notes/?two"));
    CHECK(run_tool("show in_none_of_these") != 0);
    CHECK(strstr(output, "sessions has the name in_none_of_these"));
    CHECK(run_tool("info") != 0 && strstr(output, "sessions exist; name one:\n"));
    OK(hf_session_destroy(one, NULL));
    OK(hf_session_destroy(two, NULL));
    hf_session_close(one);
    hf_session_close(two);
}

static void
test_misuse(void) {
    static const char *const table[][2] = {
        {"nonsense", "unknown command: nonsense;"},
        {"ls --alle", "unknown option: --alle;"},
        {"info one two", "too few or too many words after info;"},
        {"save", "too few or too many words after save;"},
        {"show one two three", "too many words: three;"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CHECK(run_tool(table[i][0]) == 2 << 8 && strstr(output, table[i][1]));
        CHECK(strstr(output, "holdfast --help") && !strstr(output, "usage"));
    }
    CHECK(run_tool("") == 2 << 8 && strstr(output, "usage"));
}

/* A stand-in for Python that shows its arguments; then none. Where an interpreter lies beside the
 * tool, tests/bindings/test_demo.py and test_doctor.py run it. */
static void
test_modules(void) {
    char place[] = "/tmp/holdfast-demo-XXXXXX", path[64], line[256];
    CHECK(mkdtemp(place));
    snprintf(path, sizeof path, "%s/python3", place);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("#!/bin/sh\necho \"$@\"\n", file) >= 0);
    CHECK(fchmod(fileno(file), 0700) == 0 && fclose(file) == 0);
    CHECK(run_tool("ls > /dev/full") == 1 << 8);
    char *before = strdup(getenv("PATH"));
    snprintf(line, sizeof line, "%s:/usr/bin:/bin", place);
    CHECK(before && setenv("PATH", line, 1) == 0);
    CHECK(run_tool("demo --run --kernel k") == 0);
    CHECK(strcmp(output, "-P -m holdfast.demo --run --kernel k\n") == 0);
    CHECK(run_tool("doctor --json") == 0);
    CHECK(strcmp(output, "-P -m holdfast.doctor --json\n") == 0);
    CHECK(unlink(path) == 0 && setenv("PATH", place, 1) == 0);
    CHECK(run_tool("demo") == 1 << 8 &&
          strstr(output, "holdfast: python3: No such file"));
    CHECK(rmdir(place) == 0 && setenv("PATH", before, 1) == 0);
    free(before);
}

int
main(int argc, char **argv) {
    char arguments[200];
    hf_session *session;
    hf_commit *commit;
    hf_session_options options = {.struct_size = sizeof options,
                                  .label = "a \"label\""};
    CHECK(argc == 2);
    tool = argv[1];
    OK(hf_session_create(&options, &session, NULL));
    OK(hf_commit_begin(session, &commit, NULL));
    hf_value value = {.struct_size = sizeof value,
                      .key = "speed",
                      .key_size = 5,
                      .codec = 19, /* a module, by its name */
                      .meta = "float\n",
                      .meta_size = 6};
    OK(hf_commit_put(commit, &value, NULL));
    value.key = "\x01group";
    value.key_size = 6;
    OK(hf_commit_put(commit, &value, NULL));
    value.key = "_json:indent";
    value.key_size = 12;
    OK(hf_commit_put(commit, &value, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    const char *name = hf_session_name(session) + 1;
    CHECK(run_tool("ls --json") == 0);
    CHECK(strstr(output, name) && strstr(output, "a \\\"label\\\""));
    snprintf(arguments, sizeof arguments, "info %s", name);
    CHECK(run_tool(arguments) == 0);
    CHECK(strstr(output, "generation   1") && strstr(output, "processes    1"));
    snprintf(arguments, sizeof arguments, "show %s speed", name);
    CHECK(run_tool(arguments) == 0);
    CHECK(strstr(output, "module (19)") && strstr(output, "module float"));
    CHECK(!strstr(output, "float\n\n") && strchr(output, '\n'));
    snprintf(arguments, sizeof arguments, "show %s", name);
    CHECK(run_tool(arguments) == 0);
    CHECK(strstr(output, "speed") && !strstr(output, "group"));
    CHECK(!strstr(output, "_json:indent"));
    snprintf(arguments, sizeof arguments, "show --all %s", name);
    CHECK(run_tool(arguments) == 0 && strstr(output, "_json:indent"));
    CHECK(strstr(output, "group"));
    CHECK(run_tool("gc") == 0 && !strstr(output, name));
    CHECK(run_tool("info holdfast-none") != 0);
    OK(hf_session_destroy(session, NULL));
    hf_session_close(session);
    test_broken();
    test_several();
    test_misuse();
    test_modules();
    return 0;
}
