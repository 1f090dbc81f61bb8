/* test_argument.c - every public function with NULL for each pointer that it needs.
 *
 * tests/test_exports.py checks that none is missing here.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/argument.h"
#include "holdfast/array.h"
#include "holdfast/save.h"
#include "../support/needs.h"
#include "store_fixture.h"

static hf_session *session;
static hf_snapshot *snapshot;
static hf_region *region;
static hf_entry entry = {.struct_size = sizeof entry};

static int
visit_session(void *context, const hf_session_info *info) {
    (void)context, (void)info;
    return 0;
}

static int
visit_entry(void *context, const hf_entry *one) {
    (void)context, (void)one;
    return 0;
}

static int
visit_pair(void *context, const hf_entry *before, const hf_entry *after) {
    (void)context, (void)before, (void)after;
    return 0;
}

static hf_status
visit_value(void *context, const hf_value *value, hf_error *reterr) {
    (void)context, (void)value, (void)reterr;
    return HF_OK;
}

static void
try_sessions(void) {
    hf_session *other;
    hf_session_info info = {.struct_size = sizeof info};
    hf_claim claim = {{1}};
    uint64_t number;
    NEEDS("ret_session", hf_session_create(NULL, NULL, &error));
    NEEDS("name", hf_session_open(NULL, &other, &error));
    NEEDS("ret_session", hf_session_open("x", NULL, &error));
    NEEDS("name", hf_session_open_readonly(NULL, &other, &error));
    NEEDS("ret_session", hf_session_open_readonly("x", NULL, &error));
    NEEDS("ret_session", hf_session_open_fd_readonly(0, NULL, &error));
    NEEDS("ret_session", hf_session_open_fd(0, NULL, &error));
    NEEDS("session", hf_session_wait(NULL, 0, 0, &error));
    NEEDS("session", hf_session_destroy(NULL, &error));
    NEEDS("session", hf_session_describe(NULL, &info, &error));
    NEEDS("ret_info", hf_session_describe(session, NULL, &error));
    NEEDS("session", hf_session_reap(NULL, 0, NULL, &error));
    NEEDS("session", hf_session_give_back(NULL, 0, 0, NULL, NULL, &error));
    NEEDS("session", hf_session_verify(NULL, &error));
    NEEDS("session", hf_session_scrub(NULL, 1, NULL, &error));
    NEEDS("visit", hf_session_list(NULL, NULL, &error));
    NEEDS("session", hf_session_keep(NULL, &claim, 0, &error));
    NEEDS("claim", hf_session_take_up(NULL, &other, &error));
    NEEDS("ret_session", hf_session_take_up(&claim, NULL, &error));
    NEEDS("name", hf_session_free_orphan(NULL, &error));
    NEEDS("session", hf_session_yielded_bytes(NULL, &number, &error));
    NEEDS("ret_bytes", hf_session_yielded_bytes(session, NULL, &error));
    NEEDS("session", hf_session_privatize(NULL, 0, &error));
    NEEDS("session", hf_session_fork_begin(NULL, &error));
    NEEDS("session", hf_session_fork_child(NULL, &error));
    NEEDS("session", hf_session_fork_succeed(NULL, &error));
    hf_session_fork_parent(NULL, 1);
    CHECK(!hf_session_is_cut(NULL) && !hf_session_is_orphan(NULL) &&
          hf_session_fd(NULL) == -1);
    CHECK(*hf_session_name(NULL) == '\0' && hf_session_generation(NULL) == 0);
    hf_session_note(NULL, 0, 1);
    CHECK(hf_session_noted(NULL, 0) == 0 && hf_session_verify_pages(NULL, 1) == 0);
    OK(hf_session_collect(NULL, NULL, NULL, &error));
    OK(hf_session_list(visit_session, NULL, NULL));
    hf_session_close(NULL);
}

static void
try_snapshots(void) {
    hf_snapshot *other;
    hf_generation name;
    hf_snapshot_export(snapshot, &name);
    NEEDS("session", hf_snapshot_acquire(NULL, &other, &error));
    NEEDS("ret_snapshot", hf_snapshot_acquire(session, NULL, &error));
    NEEDS("snapshot", hf_snapshot_hold(NULL, &error));
    NEEDS("session", hf_snapshot_import(NULL, &name, &other, &error));
    NEEDS("generation", hf_snapshot_import(session, NULL, &other, &error));
    NEEDS("ret_snapshot", hf_snapshot_import(session, &name, NULL, &error));
    NEEDS("snapshot", hf_snapshot_find(NULL, "x", 1, &entry, &error));
    NEEDS("key", hf_snapshot_find(snapshot, NULL, 1, &entry, &error));
    NEEDS("ret_entry", hf_snapshot_find(snapshot, "x", 1, NULL, &error));
    NEEDS("snapshot", hf_snapshot_each(NULL, visit_entry, NULL, &error));
    NEEDS("visit", hf_snapshot_each(snapshot, NULL, NULL, &error));
    NEEDS("snapshot", hf_snapshot_each_in_order(NULL, visit_entry, NULL, &error));
    NEEDS("visit", hf_snapshot_each_in_order(snapshot, NULL, NULL, &error));
    NEEDS("after", hf_snapshot_diff(snapshot, NULL, visit_pair, NULL, &error));
    NEEDS("visit", hf_snapshot_diff(NULL, snapshot, NULL, NULL, &error));
    NEEDS("snapshot", hf_save_write(NULL, "/", NULL, NULL, NULL, &error));
    NEEDS("path", hf_save_write(snapshot, NULL, NULL, NULL, NULL, &error));
    NEEDS("path", hf_save_read(NULL, NULL, visit_value, NULL, NULL, &error));
    NEEDS("visit", hf_save_read("/", NULL, NULL, NULL, NULL, &error));
    hf_snapshot_yield(NULL);
    hf_snapshot_export(NULL, &name);
    hf_snapshot_export(snapshot, NULL);
    hf_snapshot_release(NULL);
    CHECK(hf_snapshot_generation(NULL) == 0 && hf_snapshot_entry_count(NULL) == 0);
    CHECK(!hf_snapshot_holds(NULL, &entry, 0, "x", 1));
    CHECK(!hf_snapshot_holds(snapshot, NULL, 0, "x", 1));
    CHECK(!hf_snapshot_holds(snapshot, &entry, 0, NULL, 1));
}

static int
visit_column(void *context, const char *name, size_t size, const hf_array *head) {
    (void)context, (void)name, (void)size, (void)head;
    return 0;
}

static void
try_arrays(void) {
    hf_array array = {.struct_size = sizeof array, .kind = 'b', .byte_order = '|'};
    hf_commit *commit;
    array.itemsize = 1;
    NEEDS("snapshot", hf_array_of(NULL, "x", 1, &array, &error));
    NEEDS("key", hf_array_of(snapshot, NULL, 1, &array, &error));
    NEEDS("ret_array", hf_array_of(snapshot, "x", 1, NULL, &error));
    NEEDS("snapshot", hf_array_of_column(NULL, "x", 1, "y", 1, &array, &error));
    NEEDS("key", hf_array_of_column(snapshot, NULL, 1, "y", 1, &array, &error));
    NEEDS("column", hf_array_of_column(snapshot, "x", 1, NULL, 1, &array, &error));
    NEEDS("ret_array", hf_array_of_column(snapshot, "x", 1, "y", 1, NULL, &error));
    NEEDS("snapshot", hf_table_each(NULL, "x", 1, visit_column, NULL, &error));
    NEEDS("key", hf_table_each(snapshot, NULL, 1, visit_column, NULL, &error));
    NEEDS("visit", hf_table_each(snapshot, "x", 1, NULL, NULL, &error));
    struct ArrowSchema schema;
    struct ArrowArray exported;
    NEEDS("snapshot", hf_table_export(NULL, "x", 1, &schema, &exported, &error));
    NEEDS("key", hf_table_export(snapshot, NULL, 1, &schema, &exported, &error));
    NEEDS("ret_schema", hf_table_export(snapshot, "x", 1, NULL, &exported, &error));
    NEEDS("ret_array", hf_table_export(snapshot, "x", 1, &schema, NULL, &error));
    OK(hf_commit_begin(session, &commit, NULL));
    NEEDS("commit", hf_array_put(NULL, "x", 1, &array, &error));
    NEEDS("key", hf_array_put(commit, NULL, 1, &array, &error));
    NEEDS("array", hf_array_put(commit, "x", 1, NULL, &error));
    hf_commit_abort(commit);
    hf_array_release(NULL);
}

static void
try_regions(void) {
    hf_region *other;
    hf_entry none = {.struct_size = sizeof none};
    uint64_t pages;
    NEEDS("session", hf_region_reserve(NULL, 1, 0, &other, NULL, &error));
    NEEDS("ret_region", hf_region_reserve(session, 1, 0, NULL, NULL, &error));
    NEEDS("snapshot", hf_region_map(NULL, &entry, 0, &other, &error));
    NEEDS("entry", hf_region_map(snapshot, NULL, 0, &other, &error));
    NEEDS("entry", hf_region_map(snapshot, &none, 0, &other, &error));
    NEEDS("ret_region", hf_region_map(snapshot, &entry, 0, NULL, &error));
    NEEDS("region", hf_region_changed_pages(NULL, &pages, &error));
    NEEDS("ret_pages", hf_region_changed_pages(region, NULL, &error));
    NEEDS("region", hf_region_unshare(NULL, &error));
    NEEDS("region", hf_region_reshare(NULL, &error));
    CHECK(!hf_region_find(NULL, &pages) && !hf_region_find(session, NULL));
    CHECK(!hf_region_acquire(NULL) && !hf_region_address(NULL));
    CHECK(hf_region_size(NULL) == 0 && !hf_region_is_own(NULL));
    CHECK(!hf_region_is_committed(NULL));
    hf_region_populate(NULL, 1);
    hf_region_release(NULL);
}

static void
try_turns(void) {
    hf_turn turn = {.struct_size = sizeof turn};
    NEEDS("session", hf_session_quarantine(NULL, &turn, 1, &error));
    NEEDS("turn", hf_session_quarantine(session, NULL, 1, &error));
    CHECK(!hf_session_quarantined(NULL, &entry));
    CHECK(!hf_session_quarantined(session, NULL));
    hf_session_readmit(NULL, &entry);
    hf_session_readmit(session, NULL);
    hf_session_turn_begin(NULL, NULL, "x", 1, &turn);
    hf_session_turn_begin(session, NULL, "x", 1, NULL);
    hf_session_turn_begin(session, NULL, NULL, 1, &turn);
    hf_session_turn_begin(session, NULL, NULL, 0, &turn);
    hf_session_turn_end(NULL, &turn);
    hf_session_turn_end(session, NULL);
    hf_session_turn_end(session, &turn);
    hf_session_turn_renew(NULL);
    hf_session_turn_forget(NULL, 1);
    CHECK(!hf_session_turn_of(NULL, 0, &turn) && !hf_session_turn_of(session, 0, NULL));
}

/* One after the other: what fails aborts. */
static hf_commit *
begin(void) {
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    return commit;
}

static void
try_commits(void) {
    hf_commit *commit = begin();
    hf_commit_stats stats = {.struct_size = sizeof stats};
    hf_prepared token;
    NEEDS("session", hf_commit_begin(NULL, &commit, &error));
    NEEDS("ret_commit", hf_commit_begin(session, NULL, &error));
    NEEDS("commit", hf_commit_remove(NULL, "x", 1, &error));
    NEEDS("key", hf_commit_remove(commit, NULL, 1, &error));
    NEEDS("commit", hf_commit_get_stats(NULL, &stats, &error));
    NEEDS("ret_stats", hf_commit_get_stats(commit, NULL, &error));
    NEEDS("commit", hf_commit_restore(NULL, snapshot, &error));
    NEEDS("snapshot", hf_commit_restore(commit, NULL, &error));
    NEEDS("commit", hf_commit_prepare_consume(NULL, &token, &error));
    NEEDS("commit", hf_commit_publish_consume(NULL, NULL, &error));
    NEEDS("session", hf_session_publish(NULL, &token, NULL, &error));
    NEEDS("prepared", hf_session_publish(session, NULL, NULL, &error));
    NEEDS("ret_prepared", hf_commit_prepare_consume(commit, NULL, &error));
    hf_commit_abort(begin()); /* so it was consumed */
    hf_commit_abort(NULL);
}

static void
try_values(void) {
    hf_buffer buffer = {.struct_size = sizeof buffer, .size = 1};
    const hf_value good = {.struct_size = sizeof good, .key = "x", .key_size = 1};
    hf_value value = good;
    hf_commit *commit = begin();
    NEEDS("commit", hf_commit_put(NULL, &value, &error));
    NEEDS("value", hf_commit_put(commit, NULL, &error));
    value.key = NULL;
    NEEDS("key", hf_commit_put(commit, &value, &error));
    value = good;
    value.meta_size = 1;
    NEEDS("meta", hf_commit_put(commit, &value, &error));
    value.meta = "x";
    value.meta_size = HF_META_SIZE_MAX + 1;
    CHECK(hf_commit_put(commit, &value, &error) == HF_E_INVALID);
    value = good;
    value.payload_size = 1;
    NEEDS("payload", hf_commit_put(commit, &value, &error));
    value = good;
    value.buffer_count = 1;
    NEEDS("buffers", hf_commit_put(commit, &value, &error));
    value.buffers = &buffer;
    CHECK(hf_commit_put(commit, &value, &error) == HF_E_INVALID);
    CHECK(strcmp(error.message, "putting x: data is NULL in buffer 0") == 0);
    hf_commit_abort(commit);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
static void
try_words(void) {
    static const char *const nothing;
    hf_digest digest = {{0, 0}};
    hf_digest_add(NULL, "x", 1);
    hf_digest_add(&digest, NULL, 1);
    CHECK(digest.words[0] == 0 && digest.words[1] == 0);
    CHECK(hf_error_set_at(NULL, HF_BUSY, 0, NULL, "x") == HF_BUSY);
    hf_error_prefix(NULL, "x");
    hf_error one = HF_ERROR_INIT;
    CHECK(hf_error_set_at(&one, HF_BUSY, 0, NULL, nothing) == HF_BUSY);
    CHECK(one.message[0] == '\0');
    hf_error_prefix(&one, nothing);
}
#pragma GCC diagnostic pop

static hf_status
need(const char *first, const hf_value *second) {
    HFI_NEED(&error, first && *first, second->key);
    return HF_OK;
}

static void
test_names(void) {
    hf_value value = {.struct_size = sizeof value};
    CHECK(need("", &value) == HF_E_INVALID);
    CHECK(strcmp(error.message, "need: first is NULL") == 0);
    CHECK(need("x", &value) == HF_E_INVALID);
    CHECK(strcmp(error.message, "need: key is NULL") == 0);
    CHECK(strcmp(error.function, "need") == 0);
    value.key = "";
    OK(need("x", &value));
}

int
main(void) {
    test_names();
    session = new_session(0, 0);
    OK(hf_region_reserve(session, 5000, 1, &region, NULL, NULL));
    commit_value(session, "x", "value", 6, region);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_snapshot_find(snapshot, "x", 1, &entry, NULL));
    try_sessions();
    try_snapshots();
    try_arrays();
    try_regions();
    try_turns();
    try_commits();
    try_values();
    try_words();
    hf_region_release(region);
    hf_snapshot_release(snapshot);
    CHECK(hf_session_generation(session) == 1);
    end_session(session);
    return 0;
}
