/* test_commits.c - what the main worker is asked to commit, and what is known of it. */
#include "owner.h"

#include "session/commits.h"

static void
test_an_idle_commit_is_durable(hf_kernel *kernel, hfi_control *peer) {
    hfi_frame said;
    hfi_map map = {0}, owes = {0};
    CHECK(!hfi_commits_is_due(kernel));
    hfi_commits_ran(kernel);
    hfi_commits_ran(kernel);
    CHECK(hfi_commits_is_due(kernel) && hfi_commits_missing(kernel) == 2);
    hfi_commits_ask(kernel, hfi_clock_ns());
    const msgpack_object *frame = owner_read(peer, &map, "commit");
    CHECK(hfi_map_flag(frame, "durable"));
    CHECK(!hfi_map_get(frame, "code")); /* no cell waits */
    CHECK(hfi_map_integer(frame, "id", 0) == hfi_commits_pending(kernel));
    CHECK(hfi_commits_pending(kernel) != 0);
    CHECK(hfi_commits_end(kernel) >= 0 && hfi_commits_pending(kernel) == 0);
    hfi_commits_have_all(kernel);
    CHECK(!hfi_commits_is_due(kernel));
    owner_say(&said, &owes, "owes", "x", 0);
    hfi_commits_owe(kernel, NULL, owes.object);
    CHECK(hfi_commits_is_due(kernel) && hfi_commits_missing(kernel) == 0);
    hfi_map_fini(&owes);
    hfi_frame_fini(&said);
    hfi_map_fini(&map);
}

static void
test_a_cell_asks_where_it_runs(hf_kernel *kernel, hfi_control *peer) {
    hfi_map map = {0};
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
    const msgpack_object *frame = owner_read(peer, &map, "commit");
    CHECK(!hfi_map_flag(frame, "durable"));
    CHECK(hfi_part_equal(hfi_map_part(frame, "code"), hfi_part_text(code)));
    CHECK(hfi_part_equal(hfi_map_part(frame, "cell_run"), hfi_part_text(run_mode)));
    CHECK(hfi_part_equal(hfi_map_part(frame, "run"), hfi_part_text("auto")));
    CHECK(hfi_commits_is_due(kernel)); /* what it owes is still owed */
    hfi_map_fini(&map);
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
    hfi_frame frame;
    hfi_map map = {0};
    hfi_frame_init(&frame, "reply", 1);
    hfi_frame_add_map(&frame, "unserializable", 1);
    hfi_frame_add_text(&frame, "lock", hfi_part_text("it is a lock"));
    CHECK(hfi_frame_finish(&frame, NULL) == HF_OK);
    CHECK(hfi_map_read(&map, frame.buffer.data + 4, frame.buffer.size - 4, NULL) ==
          HF_OK);
    hfi_commits_keep_unserializable(kernel, hfi_map_get(map.object, "unserializable"));
    json_t *reason = json_object_get(hfi_commits_unserializable(kernel), "lock");
    CHECK_TEXT(json_string_value(reason), "it is a lock");
    hfi_commits_keep_unserializable(kernel, NULL);
    CHECK(json_object_size(hfi_commits_unserializable(kernel)) == 0);
    hfi_map_fini(&map);
    hfi_frame_fini(&frame);
}

int
main(void) {
    hf_kernel kernel;
    hfi_worker worker;
    hfi_control *peer;
    owner_begin(&kernel, &worker, &peer);
    CHECK(hfi_owner_create(&kernel, &hfi_commits_owner, NULL) == HF_OK);
    test_an_idle_commit_is_durable(&kernel, peer);
    test_a_cell_asks_where_it_runs(&kernel, peer);
    test_a_main_worker_is_lost(&kernel);
    test_what_the_commit_lacks(&kernel);
    hfi_owner_close(&kernel, &hfi_commits_owner);
    owner_end(&kernel, &worker, peer);
    return 0;
}
