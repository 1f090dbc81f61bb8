/* test_variables.c - variables that the library keeps: set, gone, saved, bound, completed.
 *
 * Two workers, both of this process, share a store.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "saving.h"
#include "support/check.h"
#include "support/failing_calls.h"
#include "variables.h"

static hf_session *session;

static void
init_worker(hf_worker *worker) {
    *worker = (hf_worker){
        .language = {.save = hfi_variables_save, .bind = hfi_variables_bind},
        .pid = getpid(),
        .thread = pthread_self(),
        .session = session};
}

static hf_status
set(hf_worker *worker, const char *name, const char *text) {
    return hf_worker_variable_set(worker, name, strlen(name), text,
                                  text != NULL ? strlen(text) : 0, NULL);
}

/* "": it is empty; NULL: there is none. */
static const char *
get(hf_worker *worker, const char *name) {
    static char text[32];
    const void *data;
    size_t size;
    hf_status status =
        hf_worker_variable_get(worker, name, strlen(name), &data, &size, NULL);
    CHECK(status == HF_OK || status == HF_NOT_FOUND);
    if (status == HF_NOT_FOUND)
        return NULL;
    snprintf(text, sizeof text, "%.*s", (int)size, (const char *)data);
    return text;
}

/* How many entries the commit puts. */
static int64_t
save(hf_worker *worker) {
    hfi_saved saved;
    hf_prepared token;
    hf_generation name;
    hf_snapshot *snapshot;
    hfi_saving_save(worker, &saved);
    CHECK(saved.report.error.size == 0);
    if (saved.prepared.size == 0)
        return -1;
    memcpy(&token, saved.prepared.data, sizeof token);
    CHECK(hf_session_publish(session, &token, NULL, NULL) == HF_OK);
    CHECK(hf_snapshot_acquire(session, &snapshot, NULL) == HF_OK);
    hf_snapshot_export(snapshot, &name);
    hf_snapshot_release(snapshot);
    CHECK(hfi_saving_published(worker, 1, hfi_part_of(&name, sizeof name), NULL) ==
          HF_OK);
    return saved.report.names_saved;
}

static void
bind_current(hf_worker *worker) {
    CHECK(hfi_saving_bind(worker, HF_BIND_ADOPT, hfi_part_text(""), "", 0, NULL) ==
          HF_OK);
}

static void
test_table(void) {
    hf_worker worker;
    char name[8];
    init_worker(&worker);
    CHECK(get(&worker, "a") == NULL);
    CHECK(set(&worker, "a", NULL) == HF_OK && worker.variables.count == 0);
    for (int i = 0; i < 1000; i++) { /* in an order that isn't theirs */
        snprintf(name, sizeof name, "n%d", i * 7 % 1000);
        CHECK(set(&worker, name, name) == HF_OK);
    }
    CHECK(worker.variables.count == 1000);
    CHECK_TEXT(get(&worker, "n10"), "n10");
    CHECK_TEXT(get(&worker, "n100"), "n100");
    CHECK(get(&worker, "n1000") == NULL && get(&worker, "n") == NULL);
    CHECK(set(&worker, "n10", "other") == HF_OK && set(&worker, "n100", "") == HF_OK);
    CHECK_TEXT(get(&worker, "n10"), "other");
    CHECK_TEXT(get(&worker, "n100"), "");
    CHECK(set(&worker, "n10", NULL) == HF_OK && get(&worker, "n10") == NULL);
    CHECK(set(&worker, "n10", "again") == HF_OK && worker.variables.count == 1000);
    hfi_variables_clear(&worker.variables);
}

/* Without memory a variable is as it was, and no block is lost. */
static void
test_no_memory(void) {
    const hft_fault fault = {.err = ENOMEM};
    long before = hft_calls_blocks();
    for (long at = 1, failed = 1; failed > 0; at++) {
        hf_worker worker;
        init_worker(&worker);
        CHECK(set(&worker, "b", "old") == HF_OK);
        hft_calls_arm(at, fault);
        hf_status added = set(&worker, "a", "new"), changed = set(&worker, "b", "new");
        hft_calls_disarm();
        failed = hft_calls_seen->failed;
        CHECK((added == HF_E_NOMEM) + (changed == HF_E_NOMEM) == failed);
        CHECK((get(&worker, "a") != NULL) == (added == HF_OK));
        CHECK_TEXT(get(&worker, "b"), changed == HF_OK ? "new" : "old");
        hfi_variables_clear(&worker.variables);
        CHECK(hft_calls_blocks() == before);
        CHECK(at < 10);
    }
}

static void
test_store(void) {
    hf_worker one, two;
    init_worker(&one);
    init_worker(&two);
    CHECK(set(&one, "a", "first") == HF_OK && set(&one, "b", "second") == HF_OK);
    CHECK(set(&one, "empty", "") == HF_OK);
    CHECK(save(&one) == 3 && save(&one) == -1);
    bind_current(&two);
    CHECK_TEXT(get(&two, "a"), "first");
    CHECK_TEXT(get(&two, "empty"), "");
    CHECK(set(&two, "a", "changed") == HF_OK && set(&two, "b", NULL) == HF_OK);
    CHECK(save(&two) == 1 && save(&two) == -1);
    CHECK(set(&one, "c", "not saved") == HF_OK);
    bind_current(&one);
    CHECK_TEXT(get(&one, "a"), "changed");
    CHECK(get(&one, "b") == NULL && get(&one, "c") == NULL);
    hfi_variables_clear(&one.variables);
    hfi_variables_clear(&two.variables);
    hfi_saving_fini(&one);
    hfi_saving_fini(&two);
}

/* A name that is gone stays only as long as the store has it. */
static void
test_gone(void) {
    hf_worker worker;
    init_worker(&worker);
    bind_current(&worker);
    CHECK(set(&worker, "c", "third") == HF_OK && set(&worker, "d", "fourth") == HF_OK);
    CHECK(set(&worker, "never", "saved") == HF_OK);
    CHECK(set(&worker, "never", NULL) == HF_OK);
    CHECK(save(&worker) == 2 && worker.variables.count == 4);
    CHECK(set(&worker, "c", NULL) == HF_OK);
    CHECK(save(&worker) == 0 && worker.variables.count == 4);
    CHECK(save(&worker) == -1 && worker.variables.count == 3);
    CHECK_TEXT(get(&worker, "d"), "fourth");
    CHECK(get(&worker, "c") == NULL);
    CHECK(set(&worker, "c", "again") == HF_OK && save(&worker) == 1);
    hfi_variables_clear(&worker.variables);
    hfi_saving_fini(&worker);
}

/* Without memory the variables are those before, until it is tried again. */
static void
test_no_memory_to_bind(void) {
    const hft_fault fault = {.err = ENOMEM};
    for (long at = 1, failed = 1; failed > 0; at++) {
        hf_worker worker;
        init_worker(&worker);
        CHECK(set(&worker, "old", "here") == HF_OK);
        hft_calls_arm(at, fault);
        hf_status status =
            hfi_saving_bind(&worker, HF_BIND_ADOPT, hfi_part_text(""), "", 0, NULL);
        hft_calls_disarm();
        failed = hft_calls_seen->failed;
        CHECK((status == HF_OK) == (failed == 0));
        CHECK((get(&worker, "old") != NULL) == (status != HF_OK));
        CHECK((get(&worker, "d") != NULL) == (status == HF_OK));
        CHECK(hfi_saving_catch_up(&worker, NULL) == HF_OK);
        CHECK(get(&worker, "old") == NULL);
        CHECK_TEXT(get(&worker, "d"), "fourth");
        hfi_variables_clear(&worker.variables);
        hfi_saving_fini(&worker);
        CHECK(at < 100);
    }
}

static void *
set_elsewhere(void *worker) {
    const void *data;
    size_t size;
    CHECK(set(worker, "a", "b") == HF_E_INVALID);
    CHECK(hf_worker_variable_get(worker, "a", 1, &data, &size, NULL) == HF_E_INVALID);
    return NULL;
}

static void
test_misuse(void) {
    static char long_name[HF_KEY_SIZE_MAX + 1];
    hf_worker worker;
    pthread_t thread;
    init_worker(&worker);
    memset(long_name, 'x', sizeof long_name);
    CHECK(set(&worker, "", "a") == HF_E_LIMIT);
    CHECK(hf_worker_variable_set(&worker, long_name, sizeof long_name, "a", 1, NULL) ==
          HF_E_LIMIT);
    CHECK(hf_worker_variable_set(&worker, long_name, HF_KEY_SIZE_MAX, "a", 1, NULL) ==
          HF_OK);
    CHECK(pthread_create(&thread, NULL, set_elsewhere, &worker) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    worker.language.save = NULL; /* it has a `bind` only */
    CHECK(set(&worker, "a", "b") == HF_E_INVALID);
    hfi_variables_clear(&worker.variables);
}

int
main(void) {
    const hf_session_options options = {.struct_size = sizeof options,
                                        .capacity_bytes = 1 << 20,
                                        .flags = HF_SESSION_MEMFD};
    CHECK(hf_session_create(&options, &session, NULL) == HF_OK);
    test_table();
    test_no_memory();
    test_store();
    test_gone();
    test_no_memory_to_bind();
    test_misuse();
    hf_session_close(session);
    return 0;
}
