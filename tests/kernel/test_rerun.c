/* test_rerun.c - which cells are lost with the main worker, in which order they run again,
 * and how much of their code is kept.
 */
#include "owner.h"

#include <stdlib.h>

#include "session/request.h"
#include "session/rerun.h"

/* A plain cell, as it is when it ends. */
static void
cell_ends(hf_kernel *kernel, long long number, const char *code, int reruns,
          const char *error) {
    hfi_request *request = calloc(1, sizeof *request);
    CHECK(request != NULL);
    request->message.type = "execute_request";
    request->message.body = json_pack("{s:s}", "code", code);
    request->reruns = reruns;
    kernel->cell = (hfi_cell){.state = HFI_CELL_COLLECTING,
                              .plan = HFI_PLAN_PLAIN,
                              .request = request,
                              .directive = HFI_DIRECTIVE_INIT,
                              .number = number,
                              .store_history = 1};
    kernel->cell.directive.code = strdup(code);
    kernel->cell.directive.code_length = strlen(code);
    CHECK(!hfi_rerun_ended(kernel, error) || reruns);
    hfi_rerun_hear(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_FINISHED});
}

static void
cell_is_over(hf_kernel *kernel) {
    hfi_directive_fini(&kernel->cell.directive);
    json_decref(kernel->cell.request->message.body);
    free(kernel->cell.request);
    kernel->cell = (hfi_cell){.state = HFI_CELL_IDLE};
}

static void
run_cell(hf_kernel *kernel, long long number, const char *code) {
    cell_ends(kernel, number, code, 0, "");
    cell_is_over(kernel);
}

static void
expect_lost(hf_kernel *kernel, long long mark, const char *expected) {
    hfi_textbuf names = {0};
    hfi_rerun_lose(kernel, mark, &names);
    CHECK_TEXT(hfi_textbuf_string(&names), expected);
    hfi_textbuf_fini(&names);
}

/* The next lost cell runs, as one of the request In[99]. */
static void
expect_next(hf_kernel *kernel, long long number, const char *code) {
    CHECK(hfi_rerun_is_left(kernel));
    hfi_request request = {.reruns = 1};
    request.message.type = "execute_request";
    request.message.body = json_pack("{s:s,s:b}", "code", "", "store_history", 0);
    kernel->cell =
        (hfi_cell){.state = HFI_CELL_TAKEN, .request = &request, .number = 99};
    CHECK(hfi_rerun_goes_on(kernel));
    hf_status status = hfi_rerun_begin(kernel, NULL);
    CHECK(kernel->cell.number == number && kernel->cell.store_history);
    CHECK(status == (code != NULL ? HF_OK : HF_NOT_FOUND));
    if (code != NULL) {
        json_t *content = json_loadb(request.message.content.data,
                                     request.message.content.size, 0, NULL);
        CHECK_TEXT(json_string_value(hfi_cell_source(&kernel->cell)), code);
        CHECK_TEXT(json_string_value(json_object_get(content, "code")), code);
        CHECK_TEXT(kernel->cell.directive.code, code);
        json_decref(content);
    }
    hfi_directive_fini(&kernel->cell.directive);
    json_decref(request.message.body);
    kernel->cell = (hfi_cell){.state = HFI_CELL_IDLE};
}

static void
test_what_is_lost(hf_kernel *kernel) {
    run_cell(kernel, 1, "a");
    hfi_rerun_saved(kernel);
    expect_lost(kernel, 0, "");
    CHECK(!hfi_rerun_is_left(kernel));
    run_cell(kernel, 2, "b");
    run_cell(kernel, 3, "c");
    long long mark = hfi_rerun_mark(kernel); /* a fork has both */
    run_cell(kernel, 4, "d");
    run_cell(kernel, 6, "e");
    run_cell(kernel, 7, "f");
    expect_lost(kernel, mark, "In[4], In[6] to In[7]");
    expect_lost(kernel, mark, ""); /* nothing is new */
    expect_next(kernel, 4, "d");
    run_cell(kernel, 8, "f"); /* by hand */
    expect_next(kernel, 6, "e");
    CHECK(!hfi_rerun_is_left(kernel));
    expect_lost(kernel, 0, "In[2] to In[3], In[8]");
}

/* What is left of a rerun joins what is lost then; else a later crash counts. */
static void
test_two_crashes(hf_kernel *kernel) {
    run_cell(kernel, 11, "g");
    expect_lost(kernel, 0, "In[11]");
    run_cell(kernel, 12, "h");
    run_cell(kernel, 13, "i");
    run_cell(kernel, 14, "j");
    expect_lost(kernel, 0, "In[12] to In[14]");
    expect_next(kernel, 12, "h");
    cell_ends(kernel, 12, "h", 1, ""); /* it has run again */
    cell_is_over(kernel);
    expect_next(kernel, 13, "i"); /* it dies */
    expect_lost(kernel, 0, "In[12], In[14]");
    expect_next(kernel, 12, "h");
    expect_next(kernel, 14, "j");
    CHECK(!hfi_rerun_is_left(kernel));
    run_cell(kernel, 15, "k");
    expect_lost(kernel, 0, "In[15]");
    expect_next(kernel, 15, "k");
}

/* A lost cell may fail as the first time, and only so. */
static void
test_how_it_ended(hf_kernel *kernel) {
    cell_ends(kernel, 31, "a", 0, "KeyError");
    cell_is_over(kernel);
    run_cell(kernel, 32, "b");
    expect_lost(kernel, 0, "In[31] to In[32]");
    expect_next(kernel, 31, "a");
    hfi_request request = {.reruns = 1};
    kernel->cell.request = &request;
    CHECK(hfi_rerun_ended(kernel, "KeyError"));
    CHECK(!hfi_rerun_ended(kernel, "TypeError"));
    CHECK(!hfi_rerun_ended(kernel, ""));
    kernel->cell.request = NULL;
    expect_next(kernel, 32, "b");
}

/* Of a repeated cell the last run's outcome counts. */
static void
test_how_a_repeated_cell_ended(hf_kernel *kernel) {
    static const char *const runs[] = {"", "", "KeyError"};
    for (int i = 0; i < 3; i++) {
        cell_ends(kernel, 41, "a", 0, runs[i]);
        cell_is_over(kernel);
    }
    expect_lost(kernel, 0, "In[41]");
    expect_next(kernel, 41, "a");
    hfi_request request = {.reruns = 1};
    kernel->cell.request = &request;
    CHECK(hfi_rerun_ended(kernel, "KeyError") && !hfi_rerun_ended(kernel, ""));
    kernel->cell.request = NULL;
}

/* None is "", which is the outcome of cells that end well. */
static void
test_each_error_has_a_name(void) {
    static const char *const contents[][2] = {
        {"{\"status\":\"error\",\"ename\":\"KeyError\"}", "KeyError"},
        {"{\"status\":\"error\",\"ename\":\"\"}", "?"},
        {"{\"status\":\"error\"}", "?"},
        {"{\"status\":\"ok\",\"ename\":\"KeyError\"}", ""}};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        const hfi_from_worker_reply reply = {.content = hfi_part_text(contents[i][0])};
        CHECK_TEXT(hfi_ends_read(&reply).error, contents[i][1]);
    }
}

/* 16 MiB in all. A cell that is beyond has its number. */
static void
test_the_code_is_bounded(hf_kernel *kernel) {
    enum { LENGTH = 5 << 20 };
    char *code = malloc(LENGTH + 1);
    CHECK(code != NULL);
    memset(code, 'x', LENGTH);
    code[LENGTH] = '\0';
    run_cell(kernel, 21, code); /* as it was sent, and as it runs */
    run_cell(kernel, 22, code);
    run_cell(kernel, 23, "short");
    expect_lost(kernel, 0, "In[21] to In[23]");
    expect_next(kernel, 21, code);
    expect_next(kernel, 22, NULL);
    expect_next(kernel, 23, "short");
    run_cell(kernel, 24, code); /* there is room again */
    expect_lost(kernel, 0, "In[24]");
    expect_next(kernel, 24, code);
    free(code);
}

int
main(void) {
    hf_kernel kernel = {.listeners = owner_listeners};
    CHECK(hfi_owner_create(&kernel, &hfi_rerun_owner, NULL) == HF_OK);
    test_what_is_lost(&kernel);
    test_two_crashes(&kernel);
    test_the_code_is_bounded(&kernel);
    test_how_it_ended(&kernel);
    test_how_a_repeated_cell_ended(&kernel);
    test_each_error_has_a_name();
    hfi_owner_close(&kernel, &hfi_rerun_owner);
    return 0;
}
