/* turn.c - the value that a process encodes or decodes now, and values that have ended
 * a process.
 *
 * Encoding and decoding run code that isn't ours: constructors that a pickle names,
 * `__setstate__`, `__reduce_ex__`, codecs of other libraries. Such code may exit, crash
 * or hang, and end the process. So before each such value a process writes into a
 * record of its slot which value it is. Another process reads that after the death, and
 * puts the entry in quarantine, so that the next process doesn't die of it, too.
 *
 * A turn is written by its process alone, without a lock. The time is written last and
 * cleared first. A turn names its process itself, since the slot may be cleared, or
 * claimed by another process, before it is read. While the process lives, a reader may
 * see half of a newer turn. Then it gets a wrong name, for a process that doesn't hang.
 * A dead process writes nothing.
 *
 * An entry is named by the hash of its key and by its generation. So a new value under
 * the same key is another entry, and not in quarantine. The table lives as long as the
 * session, and every process has it mapped, so no message is needed.
 */
#include <string.h>
#include <time.h>

#include "base/argument.h"
#include "base/struct_size.h"
#include "engine/tree.h"

_Static_assert(HF_TURN_LABEL_SIZE == HFI_TURN_LABEL, "one label");

static hfi_turn *
turns_of(const hf_session *session) {
    return (hfi_turn *)((char *)session->super + HFI_TURNS_OFFSET);
}

/* This process's own turn. NULL in a forked child, which has its parent's handle. */
static hfi_turn *
own_turn(const hf_session *session) {
    if (session->inherited || session->slot >= HFI_SLOT_COUNT)
        return NULL;
    return &turns_of(session)[session->slot];
}

static int64_t
now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Read a turn's record; 0 if there is no turn. */
static int
read_turn(const hfi_turn *turn, hf_turn *ret_turn) {
    *ret_turn = (hf_turn){.struct_size = sizeof *ret_turn};
    ret_turn->since_ns = atomic_load(&turn->since_ns);
    if (!ret_turn->since_ns)
        return 0;
    ret_turn->kind = atomic_load(&turn->kind);
    ret_turn->key_hash = turn->key_hash;
    ret_turn->generation = turn->generation;
    ret_turn->mib = turn->mib;
    memcpy(ret_turn->label, turn->label, HF_TURN_LABEL_SIZE - 1);
    return ret_turn->kind == HF_TURN_ENCODE || ret_turn->kind == HF_TURN_DECODE;
}

static void
write_turn(hf_session *session, hfi_turn *turn, const hf_turn *what) {
    uint64_t owner = session->lock_word >> 32; /* the pid of the slot's process */
    atomic_store(&turn->since_ns, 0);
    atomic_store(&turn->owner, owner);
    atomic_store(&turn->kind, what->kind);
    turn->key_hash = what->key_hash;
    turn->generation = what->generation;
    turn->mib = what->mib;
    memcpy(turn->label, what->label, HF_TURN_LABEL_SIZE);
    atomic_store(&turn->since_ns, what->since_ns);
}

void
hf_session_turn_begin(hf_session *session, const hf_entry *entry, const char *label,
                      size_t label_size, hf_turn *ret_before) {
    if (!session || !ret_before || (!label && label_size))
        return;
    hf_turn now = {.kind = entry ? HF_TURN_DECODE : HF_TURN_ENCODE};
    hf_turn before = {.struct_size = sizeof before};
    hfi_turn *turn = own_turn(session);
    if (HFI_STRUCT_CHECK_OUTPUT(ret_before, hf_turn, label, NULL) != HF_OK)
        return;
    if (turn && atomic_load(&turn->owner) == session->lock_word >> 32)
        (void)read_turn(turn, &before);
    hfi_struct_write(ret_before, &before, sizeof before);
    if (!turn)
        return;
    now.since_ns = now_ns();
    if (entry) {
        now.key_hash = hfi_key_hash(entry->key, entry->key_size);
        now.generation = entry->generation;
        now.mib = (uint32_t)(entry->payload_size >> 20);
    }
    size_t most = sizeof now.label - 1;
    if (label_size)
        memcpy(now.label, label, label_size < most ? label_size : most);
    write_turn(session, turn, &now);
}

void
hf_session_turn_end(hf_session *session, const hf_turn *before) {
    if (!session || !before)
        return;
    hf_turn known;
    hfi_turn *turn = own_turn(session);
    if (!turn || HFI_STRUCT_READ(&known, before, hf_turn, label, NULL) != HF_OK)
        return;
    if (known.kind)
        write_turn(session, turn, &known);
    else
        atomic_store(&turn->since_ns, 0);
}

void
hf_session_turn_renew(hf_session *session) {
    if (!session)
        return;
    hfi_turn *turn = own_turn(session);
    if (turn && atomic_load(&turn->since_ns))
        atomic_store(&turn->since_ns, now_ns());
}

int
hf_session_turn_of(hf_session *session, int64_t pid, hf_turn *ret_turn) {
    if (!session || !ret_turn)
        return 0;
    hf_turn found = {.struct_size = sizeof found};
    int is_there = 0;
    if (HFI_STRUCT_CHECK_OUTPUT(ret_turn, hf_turn, label, NULL) != HF_OK)
        return 0;
    if (!pid)
        pid = (int64_t)(session->lock_word >> 32);
    for (uint32_t i = 0; i < HFI_SLOT_COUNT && !is_there; i++) {
        const hfi_turn *turn = &turns_of(session)[i];
        is_there =
            atomic_load(&turn->owner) == (uint64_t)pid && read_turn(turn, &found);
    }
    if (!is_there)
        found = (hf_turn){.struct_size = sizeof found};
    hfi_struct_write(ret_turn, &found, sizeof found);
    return is_there;
}

void
hf_session_turn_forget(hf_session *session, int64_t pid) {
    if (!session)
        return;
    for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++) {
        hfi_turn *turn = &turns_of(session)[i];
        uint64_t owner = (uint64_t)pid;
        atomic_compare_exchange_strong(&turn->owner, &owner, 0);
    }
}

/* ---- the quarantine ---- */

static hfi_quarantine_area *
quarantine_of(const hf_session *session) {
    return (hfi_quarantine_area *)((char *)session->super + HFI_QUARANTINE_OFFSET);
}

static uint32_t
quarantine_count(hfi_quarantine_area *quarantine) {
    uint32_t count = atomic_load_explicit(&quarantine->count, memory_order_acquire);
    return count < HFI_QUARANTINE_MAX ? count : HFI_QUARANTINE_MAX;
}

static hfi_quarantined *
find_quarantined(hf_session *session, uint64_t key_hash, uint64_t generation) {
    hfi_quarantine_area *quarantine = quarantine_of(session);
    for (uint32_t i = 0, n = quarantine_count(quarantine); i < n; i++) {
        hfi_quarantined *record = &quarantine->records[i];
        if (atomic_load(&record->key_hash) == key_hash &&
            atomic_load(&record->generation) == generation)
            return record;
    }
    return NULL;
}

static uint64_t
hash_of_entry(const hf_entry *entry) {
    return hfi_key_hash(entry->key, entry->key_size);
}

hf_status
hf_session_quarantine(hf_session *session, const hf_turn *turn, uint32_t cause,
                      hf_error *reterr) {
    HFI_NEED(reterr, session, turn);
    hfi_quarantine_area *quarantine = quarantine_of(session);
    hf_turn known;
    hf_status status = HFI_STRUCT_READ(&known, turn, hf_turn, label, reterr);
    if (!status)
        status = hfi_session_check_writable(session, reterr);
    if (status != HF_OK)
        return status;
    turn = &known;
    if (turn->kind != HF_TURN_DECODE || !turn->generation || !turn->key_hash)
        return hf_error_set(reterr, HF_NOT_FOUND, "no entry is decoded");
    if (find_quarantined(session, turn->key_hash, turn->generation))
        return HF_OK;
    for (uint32_t i = 0; i < HFI_QUARANTINE_MAX; i++) {
        hfi_quarantined *record = &quarantine->records[i];
        uint64_t nobody = 0;
        if (!atomic_compare_exchange_strong(&record->key_hash, &nobody, turn->key_hash))
            continue;
        record->cause = cause;
        atomic_store(&record->generation, turn->generation);
        uint32_t count = atomic_load(&quarantine->count);
        while (count <= i &&
               !atomic_compare_exchange_weak(&quarantine->count, &count, i + 1))
            ;
        return HF_OK;
    }
    return hf_error_set(reterr, HF_E_LIMIT, "%u values are in quarantine already",
                        HFI_QUARANTINE_MAX);
}

uint32_t
hf_session_quarantined(hf_session *session, const hf_entry *entry) {
    if (!session || !entry || !entry->key)
        return 0;
    if (!quarantine_count(quarantine_of(session)))
        return 0;
    const hfi_quarantined *record =
        find_quarantined(session, hash_of_entry(entry), entry->generation);
    return record ? (uint32_t)record->cause : 0;
}

void
hf_session_readmit(hf_session *session, const hf_entry *entry) {
    if (!session || session->readonly || !entry || !entry->key)
        return;
    hfi_quarantined *record;
    while (
        (record = find_quarantined(session, hash_of_entry(entry), entry->generation))) {
        atomic_store(&record->generation, 0);
        atomic_store(&record->key_hash, 0);
    }
}
