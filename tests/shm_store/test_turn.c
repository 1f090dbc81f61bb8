/* test_turn.c - what a process is at is known when it is dead, and an entry in
 * quarantine is known to all, until it is put anew.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/handle.h"
#include "store_fixture.h"

static hf_entry
entry_of(hf_session *session, const char *key, hf_snapshot **ret_snapshot) {
    hf_entry entry = {.struct_size = sizeof entry};
    OK(hf_snapshot_acquire(session, ret_snapshot, NULL));
    OK(hf_snapshot_find(*ret_snapshot, key, strlen(key), &entry, NULL));
    return entry;
}

static void
test_turns_nest(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_turn outer = {.struct_size = sizeof outer};
    hf_turn inner = {.struct_size = sizeof inner};
    hf_turn now = {.struct_size = sizeof now};
    hf_snapshot *snapshot;
    commit_value(session, "x", "1", 1, NULL);
    hf_entry entry = entry_of(session, "x", &snapshot);
    CHECK(!hf_session_turn_of(session, 0, &now) && now.kind == 0);
    hf_session_turn_begin(session, NULL, "a, b", 4, &outer);
    CHECK(hf_session_turn_of(session, 0, &now));
    CHECK(now.kind == HF_TURN_ENCODE && strcmp(now.label, "a, b") == 0);
    hf_session_turn_begin(session, &entry, "x", 1, &inner);
    CHECK(hf_session_turn_of(session, getpid(), &now));
    CHECK(now.kind == HF_TURN_DECODE && now.generation == entry.generation);
    hf_session_turn_end(session, &inner);
    CHECK(hf_session_turn_of(session, 0, &now) && strcmp(now.label, "a, b") == 0);
    hf_session_turn_end(session, &outer);
    CHECK(!hf_session_turn_of(session, 0, &now));
    hf_snapshot_release(snapshot);
    end_session(session);
}

/* A name may be longer than its room. */
static void
test_long_label(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    char text[HF_KEY_SIZE_MAX];
    hf_turn before = {.struct_size = sizeof before};
    hf_turn now = {.struct_size = sizeof now};
    memset(text, 'n', sizeof text);
    hf_session_turn_begin(session, NULL, text, sizeof text, &before);
    CHECK(hf_session_turn_of(session, 0, &now));
    CHECK(strlen(now.label) == HF_TURN_LABEL_SIZE - 1);
    hf_session_turn_end(session, &before);
    end_session(session);
}

/* What a child says of its parent's session is not its parent's word; what another
 * process was at is there after its death, and after its slot was cleared. */
static void
test_death(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_turn before = {.struct_size = sizeof before};
    hf_turn now = {.struct_size = sizeof now};
    hf_snapshot *snapshot;
    commit_value(session, "x", "1", 1, NULL);
    hf_entry entry = entry_of(session, "x", &snapshot);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_session *mine;
        hf_session_turn_begin(session, NULL, "wrong", 5, &before);
        OK(hf_session_open_fd(hf_session_fd(session), &mine, NULL));
        hf_session_turn_begin(mine, &entry, "x", 1, &before);
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(!hf_session_turn_of(session, 0, &now));
    uint32_t reaped = 0;
    OK(hf_session_reap(session, 0, &reaped, NULL));
    CHECK(reaped == 1);
    CHECK(hf_session_turn_of(session, pid, &now) && strcmp(now.label, "x") == 0);
    CHECK(now.kind == HF_TURN_DECODE && now.generation == entry.generation);
    hf_session_turn_forget(session, pid);
    CHECK(!hf_session_turn_of(session, pid, &now));
    hf_snapshot_release(snapshot);
    end_session(session);
}

static void
quarantine(hf_session *session, const hf_entry *entry) {
    hf_turn before = {.struct_size = sizeof before};
    hf_turn now = {.struct_size = sizeof now};
    hf_session_turn_begin(session, entry, "x", 1, &before);
    CHECK(hf_session_turn_of(session, 0, &now));
    OK(hf_session_quarantine(session, &now, HF_CAUSE_DIED | 11, NULL));
    OK(hf_session_quarantine(session, &now, HF_CAUSE_DIED | 11, NULL));
    hf_session_turn_end(session, &before);
}

static void
test_quarantine(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD), *other;
    hf_snapshot *old, *new;
    commit_value(session, "x", "1", 1, NULL);
    commit_value(session, "y", "1", 1, NULL);
    hf_entry x = entry_of(session, "x", &old), y = entry_of(session, "y", &new);
    OK(hf_session_open_fd(hf_session_fd(session), &other, NULL));
    quarantine(session, &x);
    CHECK(hf_session_quarantined(other, &x) == (HF_CAUSE_DIED | 11));
    CHECK(hf_session_quarantined(other, &y) == 0);
    hf_snapshot_release(new);
    /* Put anew, it is another entry; the old one is what it was. */
    commit_value(session, "x", "2", 1, NULL);
    hf_entry anew = entry_of(session, "x", &new);
    CHECK(hf_session_quarantined(session, &anew) == 0);
    CHECK(hf_session_quarantined(session, &x) != 0);
    hf_session_readmit(other, &x);
    CHECK(hf_session_quarantined(session, &x) == 0);
    hf_snapshot_release(old);
    hf_snapshot_release(new);
    hf_session_close(other);
    end_session(session);
}

static void
test_full(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_turn turn = {.struct_size = sizeof turn,
                    .kind = HF_TURN_DECODE,
                    .key_hash = 1,
                    .generation = 1};
    hf_error error = HF_ERROR_INIT;
    for (; turn.key_hash <= HFI_QUARANTINE_MAX; turn.key_hash++)
        OK(hf_session_quarantine(session, &turn, HF_CAUSE_HUNG, NULL));
    CHECK(hf_session_quarantine(session, &turn, HF_CAUSE_HUNG, &error) == HF_E_LIMIT);
    CHECK(error.message[0]);
    turn.kind = HF_TURN_ENCODE;
    CHECK(hf_session_quarantine(session, &turn, HF_CAUSE_HUNG, &error) == HF_NOT_FOUND);
    end_session(session);
}

/* What a caller gives that was compiled against another header. */
static void
test_struct_size(void) {
    struct {
        hf_turn turn;
        char later[16];
    } newer = {.turn = {.struct_size = sizeof newer}, .later = "unknown"};
    hf_turn unset = {0};
    hf_error error = HF_ERROR_INIT;
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_session_turn_begin(session, NULL, "x", 1, &newer.turn);
    CHECK(newer.turn.struct_size == sizeof newer && newer.later[0] == '\0');
    CHECK(hf_session_turn_of(session, 0, &unset) == 0 && unset.kind == 0);
    CHECK(hf_session_turn_of(session, 0, &newer.turn) == 1);
    CHECK_TEXT(newer.turn.label, "x");
    CHECK(hf_session_quarantine(session, &unset, HF_CAUSE_HUNG, &error) ==
          HF_E_INVALID);
    hf_session_turn_end(session, &unset);
    CHECK(hf_session_turn_of(session, 0, &newer.turn) == 1);
    end_session(session);
}

int
main(void) {
    test_turns_nest();
    test_long_label();
    test_death();
    test_quarantine();
    test_full();
    test_struct_size();
    return 0;
}
