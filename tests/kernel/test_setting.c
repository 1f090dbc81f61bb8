/* test_setting.c - commands that set something, and what survives where. */
#include "feed.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void
test_arguments(void) {
    static const feed_row table[] = {
        {"%%scorep_python_binding_arguments\n--noinstrumenter", HFI_ANSWER,
         "Score-P Python binding arguments set successfully: ['--noinstrumenter']\n", 0,
         0, 0, false},
        {"%%scorep_python_binding_arguments\n--a 'b c'\n# no\n--d=\"it's\" '\"' \\'\"",
         HFI_ANSWER, 0,
         "%%scorep_python_binding_arguments: a quote is not closed; nothing was "
         "changed.\n",
         0, 0, false},
        {"%%execute_with_scorep\nx", HFI_RUN_INSTRUMENTED, 0, 0, 0, "--noinstrumenter",
         false},
        {"%%scorep_python_binding_arguments --same-line\r\n--a 'b c'\r\n", HFI_ANSWER,
         "Score-P Python binding arguments set successfully: ['--same-line', '--a', 'b "
         "c']\n",
         0, 0, 0, false},
        {"%%execute_with_scorep\nx", HFI_RUN_INSTRUMENTED, 0, 0, 0,
         "--same-line --a b c", false},
        {"%%scorep_python_binding_arguments", HFI_ANSWER,
         "Score-P Python binding arguments set successfully: []\n", 0, 0, 0, false},
        {"%%execute_with_scorep\nx", HFI_RUN_INSTRUMENTED, 0, 0, 0, 0, false},
    };

    FEED_EXPECT(table, "/");
}

/* In write mode they belong to the script. */
static void
test_arguments_in_write_mode(void) {
    static const feed_row table[] = {
        {"%%scorep_python_binding_arguments\n--own", HFI_ANSWER,
         "Score-P Python binding arguments set successfully: ['--own']\n", 0, 0, 0,
         false},
        {"%%start_writefile", HFI_ANSWER,
         "Started converting to Python script. See "
         "files:\n/tmp/jupyter_to_script_run.sh"
         "\n/tmp/jupyter_to_script.py\n",
         0, 0, 0, false},
        {"%%scorep_python_binding_arguments\n--script", HFI_ANSWER,
         "Score-P bindings arguments recorded.\n", 0, 0, 0, false},
        {"%%scorep_env\nSCOREP_X=1", HFI_ANSWER, "Score-P environment recorded.\n", 0,
         0, 0, false},
        {"%%abort_writefile", HFI_ANSWER, "Writefile mode aborted.\n", 0, 0, 0, false},
        {"%%execute_with_scorep\nx", HFI_RUN_INSTRUMENTED, 0, 0, 0, "--own", false},
    };

    FEED_EXPECT(table, "/tmp");
}

static void
test_environment(void) {
    hfi_commands *commands = feed_create();
    hfi_directive directive = feed_cell(
        commands,
        "%%scorep_env\n# comment\nSCOREP_A=1\r\n B = a=b 'c' \n\nC=\nbad one\n"
        "9X=1\n=\n",
        "/");

    CHECK_TEXT(directive.out, "env: SCOREP_A=1\nenv: B=a=b 'c'\nenv: C=\n");
    CHECK_TEXT(directive.err, "%%scorep_env: not NAME=value, ignored: bad one\n"
                              "%%scorep_env: not NAME=value, ignored: 9X=1\n"
                              "%%scorep_env: not NAME=value, ignored: =\n");
    CHECK_TEXT(directive.environment[0], "SCOREP_A");
    CHECK_TEXT(directive.environment[1], "1");
    CHECK_TEXT(directive.environment[2], "B");
    CHECK_TEXT(directive.environment[3], "a=b 'c'");
    CHECK_TEXT(directive.environment[4], "C");
    CHECK_TEXT(directive.environment[5], "");
    CHECK(!directive.environment[6]);
    hfi_directive_fini(&directive);
    directive = feed_cell(commands, "%%scorep_env", "/");
    CHECK_TEXT(directive.err, "%%scorep_env: no line NAME=value below it.\n");
    CHECK(!directive.environment && !directive.out);
    hfi_directive_fini(&directive);
    hfi_commands_close(commands);
}

/* The Score-P kernel's line, word for word; a note says that it has no effect. */
#define MARSHALLER(name, mode) "Kernel uses '" name "' marshaller in '" mode "' mode.\n"

static void
test_marshalling(void) {
    static const feed_row table[] = {
        {"%%marshalling_settings", HFI_ANSWER, MARSHALLER("dill", "memory"), 0, 0, 0,
         false},
        {"%%marshalling_settings\nMARSHALLER=cloudpickle\nMODE=disk", HFI_ANSWER,
         MARSHALLER("cloudpickle", "disk"), 0, 0, 0, false},
        {"%%marshalling_settings\nMODE=carrier-pigeon\nMARSHALLER=a'b\nCOLOUR=red",
         HFI_ANSWER, MARSHALLER("cloudpickle", "disk"),
         "%%marshalling_settings: not known, ignored: MODE=carrier-pigeon\n"
         "%%marshalling_settings: not known, ignored: MARSHALLER=a'b\n"
         "%%marshalling_settings: not known, ignored: COLOUR=red\n",
         0, 0, false},
        {"%%marshalling_settings\nMODE=memory", HFI_ANSWER,
         MARSHALLER("cloudpickle", "memory"), 0, 0, 0, false},
    };
    hfi_commands *commands = feed_create();
    hfi_directive directive = feed_cell(commands, "%%marshalling_settings", "/");

    CHECK(directive.note && strstr(directive.note, "no effect"));
    hfi_directive_fini(&directive);
    hfi_commands_close(commands);
    FEED_EXPECT(table, "/");
}

static hfi_directive
feed_with_path(hfi_commands *commands, const char *cell, const char *search_path) {
    hfi_directive directive;
    hf_error error = HF_ERROR_INIT;

    CHECK(hfi_commands_feed(commands, cell, strlen(cell), "/", search_path, &directive,
                            &error) == HF_OK);
    return directive;
}

static bool
launches(hfi_commands *commands, const char *cell) {
    hfi_directive directive = feed_with_path(commands, cell, NULL);
    bool launch = directive.viewer != NULL;

    CHECK(directive.kind == HFI_RUN_INSTRUMENTED);
    hfi_directive_fini(&directive);
    return launch;
}

static void
test_vampir(void) {
    static const char enable[] = "%%enable_vampir_launch_on_scorep_instrumented";
    char directory[] = "/tmp/test_setting.XXXXXX", path[64], search_path[128];
    hfi_commands *commands = feed_create();
    hfi_directive directive;
    FILE *file;

    CHECK(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/vampir", directory);
    snprintf(search_path, sizeof search_path, ":/nowhere::%s", directory);
    directive = feed_with_path(commands, enable, search_path);
    CHECK(directive.err && strstr(directive.err, "PATH") && !directive.out);
    hfi_directive_fini(&directive);
    CHECK(!launches(commands, "%%execute_with_scorep\nx"));

    file = fopen(path, "w");
    CHECK(file && fclose(file) == 0 && chmod(path, 0700) == 0);
    directive = feed_with_path(commands, enable, search_path);
    CHECK(directive.out && !directive.err);
    hfi_directive_fini(&directive);
    CHECK(launches(commands, "%%execute_with_scorep\nx"));
    CHECK(launches(commands, "%%execute_with_scorep\nx"));
    CHECK(!launches(commands, "%%isolated\nx"));
    directive = feed_with_path(commands, "%%disable_vampir_launch", search_path);
    CHECK_TEXT(directive.out, "Vampir launching disabled.\n");
    hfi_directive_fini(&directive);
    CHECK(!launches(commands, "%%execute_with_scorep\nx"));
    hfi_commands_close(commands);
    CHECK(unlink(path) == 0 && rmdir(directory) == 0);
}

int
main(void) {
    test_arguments();
    test_arguments_in_write_mode();
    test_environment();
    test_marshalling();
    test_vampir();
    return 0;
}
