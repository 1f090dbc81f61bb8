/* test_struct_size.c - callers of other versions: their structs are smaller or larger.
 *
 * `first` and `second` are one struct in two versions. A caller of the version after
 * ours is played by a struct of ours with members behind it.
 */
#include <stdint.h>

#include "base/struct_size.h"
#include "holdfast/save.h"
#include "store_fixture.h"

typedef struct first {
    size_t struct_size;
    uint32_t a; /* the end of the struct is padding here */
} first;

typedef struct second {
    size_t struct_size;
    uint32_t a;
    uint32_t b;
    uint64_t c;
} second;

typedef struct third {
    second base;
    uint64_t d;
} third;

static void
test_read(void) {
    hf_error error = HF_ERROR_INIT;
    second ours;
    first old = {.struct_size = offsetof(first, a) + sizeof old.a, .a = 1};
    OK(HFI_STRUCT_READ(&ours, &old, second, a, NULL));
    CHECK(ours.a == 1 && ours.b == 0 && ours.c == 0);

    second same = {sizeof same, 1, 2, 3};
    OK(HFI_STRUCT_READ(&ours, &same, second, a, NULL));
    CHECK(memcmp(&ours, &same, sizeof ours) == 0);

    third later = {.base = {sizeof later, 4, 5, 6}};
    OK(HFI_STRUCT_READ(&ours, &later, second, a, NULL));
    CHECK(ours.a == 4 && ours.b == 5 && ours.c == 6);
    later.d = 1ull << 63;
    CHECK(HFI_STRUCT_READ(&ours, &later, second, a, &error) == HF_E_INVALID);
    CHECK(strstr(error.message, "second sets a member"));
    CHECK(HFI_STRUCT_CHECK(&later, second, a, NULL) == HF_E_INVALID);
    OK(HFI_STRUCT_CHECK(&old, second, a, NULL));

    for (size_t wrong = 0; wrong < HFI_STRUCT_LEAST(second, a); wrong++) {
        same.struct_size = wrong;
        CHECK(HFI_STRUCT_READ(&ours, &same, second, a, &error) == HF_E_INVALID);
        CHECK(strstr(error.message, "sizeof(second)"));
    }
    same.struct_size = SIZE_MAX; /* memory that nobody initialized */
    CHECK(HFI_STRUCT_READ(&ours, &same, second, a, NULL) == HF_E_INVALID);
}

static void
test_write(void) {
    const second ours = {sizeof ours, 1, 2, 3};
    struct {
        first output;
        uint64_t behind;
    } old = {{.struct_size = sizeof(first), .a = 9}, 7};
    OK(HFI_STRUCT_CHECK_OUTPUT(&old.output, second, a, NULL));
    hfi_struct_write(&old.output, &ours, sizeof ours);
    CHECK(old.output.a == 1 && old.behind == 7);
    CHECK(old.output.struct_size == sizeof(first));

    third later;
    memset(&later, 0xff, sizeof later);
    CHECK(HFI_STRUCT_CHECK_OUTPUT(&later.base, second, a, NULL) == HF_E_INVALID);
    later.base.struct_size = sizeof later;
    OK(HFI_STRUCT_CHECK_OUTPUT(&later.base, second, a, NULL));
    hfi_struct_write(&later, &ours, sizeof ours);
    CHECK(later.base.a == 1 && later.base.c == 3 && later.d == 0);
    CHECK(later.base.struct_size == sizeof later);
    CHECK(HF_HAS_MEMBER(&later.base, c) && HF_HAS_MEMBER(&ours, c));
    second small = {.struct_size = sizeof(first)};
    CHECK(HF_HAS_MEMBER(&small, a) && !HF_HAS_MEMBER(&small, c));
}

/* ---- through the library ---- */

static void
test_options(void) {
    struct {
        hf_session_options base;
        uint64_t unknown;
    } later = {.base = {.struct_size = sizeof later, .flags = HF_SESSION_MEMFD}};
    hf_session *session;
    OK(hf_session_create(&later.base, &session, NULL));
    end_session(session);
    later.unknown = 1;
    CHECK(hf_session_create(&later.base, &session, NULL) == HF_E_INVALID);
    later.base =
        (hf_session_options){.struct_size = sizeof later.base, .flags = 1u << 9};
    CHECK(hf_session_create(&later.base, &session, NULL) == HF_E_INVALID);
}

typedef struct later_buffer {
    hf_buffer base;
    uint64_t unknown;
} later_buffer;

/* An array of buffers whose elements are larger than ours. */
static void
test_value(hf_session *session) {
    struct {
        hf_value base;
        uint64_t unknown;
    } later = {.base = {.struct_size = sizeof later, .key = "v", .key_size = 1}};
    later_buffer buffers[] = {
        {.base = {.struct_size = sizeof *buffers, .data = "one", .size = 3}},
        {.base = {.struct_size = sizeof *buffers, .data = "three", .size = 5}}};
    later.base.buffers = &buffers[0].base;
    later.base.buffer_count = 2;
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    later.unknown = 1;
    CHECK(hf_commit_put(commit, &later.base, NULL) == HF_E_INVALID);
    later.unknown = 0; /* a struct that was refused has changed nothing */
    OK(hf_commit_put(commit, &later.base, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));

    OK(hf_commit_begin(session, &commit, NULL));
    buffers[1].base.struct_size = sizeof(hf_buffer);
    CHECK(hf_commit_put(commit, &later.base, NULL) == HF_E_INVALID);
    hf_commit_abort(commit);
    OK(hf_commit_begin(session, &commit, NULL));
    buffers[0].base.struct_size = 0;
    CHECK(hf_commit_put(commit, &later.base, NULL) == HF_E_INVALID);
    hf_commit_abort(commit);
}

static void
test_outputs(hf_session *session) {
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_snapshot_find(snapshot, "v", 1, &entry, NULL));
    CHECK(entry.struct_size == sizeof entry && entry.buffer_count == 2);
    CHECK(hf_snapshot_holds(snapshot, &entry, 1, "three", 5));
    entry.struct_size = 0;
    CHECK(hf_snapshot_find(snapshot, "v", 1, &entry, NULL) == HF_E_INVALID);
    hf_save_info saved = {0};
    CHECK(hf_save_write(snapshot, "/nowhere/at/all", NULL, NULL, &saved, NULL) ==
          HF_E_INVALID);
    hf_snapshot_release(snapshot);
    hf_session_info info = {.struct_size = offsetof(hf_session_info, is_orphan)};
    CHECK(hf_session_describe(session, &info, NULL) == HF_E_INVALID);

    struct {
        hf_commit_stats base;
        uint64_t unknown;
    } stats = {.base = {.struct_size = sizeof stats}, .unknown = 5};
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, "w", "1", 1, NULL, NULL));
    OK(hf_commit_get_stats(commit, &stats.base, NULL));
    CHECK(stats.base.entries_put == 1 && stats.unknown == 0);
    hf_commit_abort(commit);
}

static int
visit_info(void *context, const hf_session_info *info) {
    *(int *)context += info->struct_size == sizeof *info;
    return 0;
}

int
main(void) {
    CHECK(hf_version() == HF_VERSION_NUMBER);
    CHECK(HF_VERSION_NUMBER >= HF_VERSION_ENCODE(0, 1, 0));
    test_read();
    test_write();
    test_options();
    hf_session *session = new_session(0, 0);
    int listed = 0;
    test_value(session);
    test_outputs(session);
    OK(hf_session_list(visit_info, &listed, NULL));
    CHECK(listed > 0);
    end_session(session);
    return 0;
}
