/* test_commits.c - what the main worker is asked to commit, and what is known of it. */
#include "owner.h"

#include "session/commits.h"
#include "session/rerun.h"

static void
test_an_idle_commit_is_durable(hf_kernel *kernel, hfi_control *peer) {
    hfi_received received = {0};
    hfi_to_main_commit frame;
    CHECK(!hfi_commits_is_due(kernel));
    hfi_commits_ran(kernel);
    hfi_commits_ran(kernel);
    CHECK(hfi_commits_is_due(kernel) && hfi_commits_missing(kernel) == 2);
    hfi_commits_ask(kernel, hfi_clock_ns());
    owner_read(peer, &received, &hfi_row_to_main_commit, &frame.head);
    CHECK(frame.durable);
    CHECK(!frame.code.data); /* no cell waits */
    CHECK(frame.id == hfi_commits_pending(kernel));
    CHECK(hfi_commits_pending(kernel) != 0);
    CHECK(hfi_commits_end(kernel) >= 0 && hfi_commits_pending(kernel) == 0);
    hfi_commits_have_all(kernel);
    CHECK(!hfi_commits_is_due(kernel));
    hfi_commits_owe(kernel, NULL, &(hfi_from_main_owes){.head.row = NULL});
    CHECK(hfi_commits_is_due(kernel) && hfi_commits_missing(kernel) == 0);
    hfi_received_fini(&received);
}

static void
test_a_cell_asks_where_it_runs(hf_kernel *kernel, hfi_control *peer) {
    hfi_received received = {0};
    hfi_to_main_commit frame;
    hfi_request request = {.id = 3};
    char code[] = "x = 1", run_mode[] = "isolated";
    kernel->run_mode = "auto";
    hfi_cell_move(&kernel->cell, HFI_CELL_TAKEN);
    kernel->cell.request = &request;
    kernel->cell.directive = (hfi_directive){.kind = HFI_RUN_INSTRUMENTED,
                                             .code = code,
                                             .code_length = strlen(code),
                                             .run_mode = run_mode};
    hfi_cell_move(&kernel->cell, HFI_CELL_COMMITTING);
    hfi_commits_ask(kernel, hfi_clock_ns());
    owner_read(peer, &received, &hfi_row_to_main_commit, &frame.head);
    CHECK(!frame.durable);
    CHECK(hfi_part_is(frame.code, code));
    CHECK(hfi_part_is(frame.cell_run, run_mode));
    CHECK(hfi_part_is(frame.run, "auto"));
    CHECK(hfi_commits_is_due(kernel)); /* what it owes is still owed */
    hfi_received_fini(&received);
}

static void
test_a_main_worker_is_lost(hf_kernel *kernel) {
    hfi_commits_settle(kernel, 4);
    CHECK(hfi_commits_settling(kernel) == 4 && hfi_commits_pending(kernel) != 0);
    hfi_commits_lose_main(kernel);
    CHECK(hfi_commits_settling(kernel) == 0 && hfi_commits_pending(kernel) == 0);
    CHECK(!hfi_commits_is_due(kernel));
}

static void
test_what_the_commit_lacks(hf_kernel *kernel) {
    const hfi_text lock = {hfi_part_text("lock"), hfi_part_text("it is a lock")};
    hfi_commits_keep_unserializable(kernel, (hfi_texts){&lock, 1});
    json_t *reason = json_object_get(hfi_commits_unserializable(kernel), "lock");
    CHECK_TEXT(json_string_value(reason), "it is a lock");
    hfi_commits_keep_unserializable(kernel, (hfi_texts){NULL, 0});
    CHECK(json_object_size(hfi_commits_unserializable(kernel)) == 0);
}

/* A commit of one value, prepared in a process of its own, as far as the store knows. */
static hf_prepared
prepare(hf_session *session, const char *key) {
    hf_commit *commit = NULL;
    hf_prepared token;
    hf_value value = {.struct_size = sizeof value,
                      .key = key,
                      .key_size = strlen(key),
                      .codec = 1,
                      .payload = "x",
                      .payload_size = 1};
    CHECK(hf_commit_begin(session, &commit, NULL) == HF_OK);
    CHECK(hf_commit_put(commit, &value, NULL) == HF_OK);
    CHECK(hf_commit_prepare_consume(commit, &token, NULL) == HF_OK);
    return token;
}

static hf_status
publish(hf_kernel *kernel, const hf_prepared *token, uint64_t *ret_generation) {
    hfi_from_worker_reply reply = {.prepared = hfi_part_of(token, sizeof *token)};
    return hfi_commits_publish(kernel, &reply, ret_generation, NULL);
}

/* Nobody has looked since: neither a commit upon a foreign generation is published, nor
 * is the foreign one kept for the history. */
static void
test_nothing_is_built_upon_a_foreign_generation(hf_kernel *kernel) {
    hf_session_options options = {.struct_size = sizeof options,
                                  .capacity_bytes = 64 << 20};
    hf_session *stranger = NULL, *worker = NULL;
    hf_snapshot *kept = NULL;
    uint64_t generation = 0;
    CHECK(hf_session_create(&options, &kernel->store, NULL) == HF_OK);
    CHECK(hf_session_open(hf_session_name(kernel->store), &stranger, NULL) == HF_OK);
    CHECK(hf_session_open(hf_session_name(kernel->store), &worker, NULL) == HF_OK);
    hfi_commits_hold(kernel, 0);
    hf_prepared token = prepare(worker, "mine");
    CHECK(publish(kernel, &token, &generation) == HF_OK && generation == 1);

    token = prepare(stranger, "theirs");
    CHECK(hf_session_publish(stranger, &token, &generation, NULL) == HF_OK);
    CHECK(generation == 2);
    token = prepare(worker, "mine too");
    CHECK(publish(kernel, &token, &generation) == HF_CONFLICT);
    CHECK(hf_session_generation(kernel->store) == 2);
    CHECK(hfi_commits_lease(kernel, &kept, NULL) == HF_OK);
    CHECK(hf_snapshot_generation(kept) == 1);

    hf_snapshot_release(kept);
    hf_session_close(stranger);
    hf_session_close(worker);
}

int
main(void) {
    hf_kernel kernel;
    hfi_worker worker;
    hfi_control *peer;
    owner_begin(&kernel, &worker, &peer);
    CHECK(hfi_owner_create(&kernel, &hfi_commits_owner, NULL) == HF_OK);
    CHECK(hfi_owner_create(&kernel, &hfi_rerun_owner, NULL) == HF_OK);
    test_an_idle_commit_is_durable(&kernel, peer);
    test_a_cell_asks_where_it_runs(&kernel, peer);
    test_a_main_worker_is_lost(&kernel);
    test_what_the_commit_lacks(&kernel);
    test_nothing_is_built_upon_a_foreign_generation(&kernel);
    hfi_owner_close(&kernel, &hfi_rerun_owner);
    hfi_owner_close(&kernel, &hfi_commits_owner);
    CHECK(hf_session_destroy(kernel.store, NULL) == HF_OK);
    hf_session_close(kernel.store);
    owner_end(&kernel, &worker, peer);
    return 0;
}
