/* test_argument.c - the public functions of libholdfast-worker with NULL for each pointer
 * that they need, and languages that can't be used.
 *
 * tests/test_exports.py checks that no function is missing here.
 */
#include "../support/needs.h"
#include "holdfast/worker.h"

/* Nothing of it is looked at before all pointers are known to be there. */
static max_align_t memory[1024];

static void
test_calls(void) {
    hf_worker *worker = (hf_worker *)(void *)memory;
    hf_worker_request request = {.struct_size = sizeof request};
    hf_commit *commit;
    char *text;
    const void *data;
    size_t size;
    int fds[2];
    NEEDS("worker", hf_worker_write(NULL, 0, "a", 1, &error));
    NEEDS("text", hf_worker_write(worker, 0, NULL, 1, &error));
    NEEDS("worker", hf_worker_show(NULL, 1, NULL, 0, &error));
    NEEDS("items", hf_worker_show(worker, 1, NULL, 1, &error));
    NEEDS("worker", hf_worker_fail(NULL, "a", "b", NULL, &error));
    NEEDS("name", hf_worker_fail(worker, NULL, "b", NULL, &error));
    NEEDS("value", hf_worker_fail(worker, "a", NULL, NULL, &error));
    NEEDS("worker", hf_worker_message(NULL, "a", "{}", NULL, &error));
    NEEDS("type", hf_worker_message(worker, NULL, "{}", NULL, &error));
    NEEDS("content", hf_worker_message(worker, "a", NULL, NULL, &error));
    NEEDS("worker", hf_worker_input(NULL, "", 0, &text, &error));
    NEEDS("prompt", hf_worker_input(worker, NULL, 0, &text, &error));
    NEEDS("ret_text", hf_worker_input(worker, "", 0, NULL, &error));
    NEEDS("worker", hf_worker_reply(NULL, 1, HF_OK, NULL, &error));
    NEEDS("worker", hf_worker_complete(NULL, &request, NULL, 0, 0, 0, &error));
    NEEDS("request", hf_worker_complete(worker, NULL, NULL, 0, 0, 0, &error));
    NEEDS("matches", hf_worker_complete(worker, &request, NULL, 1, 0, 0, &error));
    NEEDS("worker", hf_worker_inspect(NULL, &request, "", &error));
    NEEDS("request", hf_worker_inspect(worker, NULL, "", &error));
    NEEDS("text", hf_worker_inspect(worker, &request, NULL, &error));
    NEEDS("worker", hf_worker_put(NULL, NULL, &error));
    NEEDS("value", hf_worker_put(worker, NULL, &error));
    NEEDS("worker", hf_worker_remove(NULL, "a", 1, &error));
    NEEDS("key", hf_worker_remove(worker, NULL, 1, &error));
    NEEDS("worker", hf_worker_stays(NULL, "a", "b", &error));
    NEEDS("name", hf_worker_stays(worker, NULL, "b", &error));
    NEEDS("reason", hf_worker_stays(worker, "a", NULL, &error));
    NEEDS("worker", hf_worker_commit(NULL, &commit, &error));
    NEEDS("ret_commit", hf_worker_commit(worker, NULL, &error));
    NEEDS("worker", hf_worker_variable_set(NULL, "a", 1, "b", 1, &error));
    NEEDS("name", hf_worker_variable_set(worker, NULL, 1, "b", 1, &error));
    NEEDS("worker", hf_worker_variable_get(NULL, "a", 1, &data, &size, &error));
    NEEDS("name", hf_worker_variable_get(worker, NULL, 1, &data, &size, &error));
    NEEDS("ret_data", hf_worker_variable_get(worker, "a", 1, NULL, &size, &error));
    NEEDS("ret_size", hf_worker_variable_get(worker, "a", 1, &data, NULL, &error));
    NEEDS("worker", hf_worker_dispatch(NULL, &error));
    hf_worker_fds(NULL, fds);
    hf_worker_fds(worker, NULL);
    hf_worker_interrupt(NULL);
    CHECK(hf_worker_is_interrupted(NULL) == 0);
    CHECK(hf_worker_get_phase(NULL) == HF_PHASE_IDLE);
    CHECK(hf_worker_session(NULL) == NULL);
}

static hf_status
run_nothing(void *context, hf_worker *worker, const hf_worker_request *request,
            hf_error *reterr) {
    (void)context, (void)worker, (void)request, (void)reterr;
    return HF_OK;
}

static void
test_languages(void) {
    char *argv[] = {(char *)"worker", (char *)"--control-fd", (char *)"four", NULL};
    hf_worker_language language = {.struct_size = sizeof language};
    CHECK(hf_worker_main(NULL, 3, argv) == 2);
    CHECK(hf_worker_main(&language, 3, argv) == 2); /* nothing runs a cell */
    language.execute = run_nothing;
    CHECK(hf_worker_main(&language, 3, argv) == 2); /* no descriptor */
    CHECK(hf_worker_main(&language, 0, NULL) == 2);
    language.struct_size = 0;
    CHECK(hf_worker_main(&language, 3, argv) == 2);
    language.struct_size = sizeof language + 4096;
    CHECK(hf_worker_main(&language, 3, argv) == 2);
}

int
main(void) {
    test_calls();
    test_languages();
    return 0;
}
