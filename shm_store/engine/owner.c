/* owner.c - the owner of a session, which alone may publish it.
 *
 * Any process of the user can attach to a session. That is intended: workers and tools
 * read it, and prepare commits. But a program that keeps state beside the session, as a
 * kernel does, must know each generation. So a session can be made such that only its
 * owner publishes (HF_SESSION_OWNER_PUBLISHES). The others give it the tokens of their
 * prepared commits.
 *
 *     maker ──dies──► nobody ──take up──► another process      orphan.c
 *       └──────────────dies──► its heir                        inherit.c
 *
 * While nobody owns the session, nobody publishes: the next owner finds what the last
 * one published. The owner is compared by pid, start time, boot and pid namespace, so a
 * later process with its pid isn't taken for it. If a crash interrupts a change of
 * owners, the words are those of two processes. That counts as nobody, and the next
 * process takes the session up.
 *
 * This protects from mistakes, not from attacks: any process of the same user can write
 * to the object.
 */
#include "engine/owner.h"

#include "base/step.h"
#include "engine/slot.h"
#include "platform/process.h"

static hfi_process
recorded_owner(const hfi_superblock *super) {
    return (hfi_process){super->owner, super->owner_start_time, super->owner_boot};
}

int
hfi_owner_alive(const hfi_superblock *super) {
    hfi_process owner = recorded_owner(super);
    return hfi_process_alive(&owner);
}

void
hfi_owner_become(hf_session *session) {
    hfi_superblock *super = session->super;
    hfi_process self = hfi_process_self();
    super->owner = self.owner;
    hfi_step("owner:half-named");
    super->owner_start_time = self.start_time;
    super->owner_boot = self.boot;
    hfi_step("owner:named");
}

hf_status
hfi_owner_check(const hf_session *session, hf_error *reterr) {
    const hfi_superblock *super = session->super;
    hfi_process owner = recorded_owner(super),
                self = hfi_slot_process(session, session->slot);
    hf_status status = hfi_session_check_writable(session, reterr);
    if (status)
        return status;
    if (!(super->flags & HFI_OWNER_PUBLISHES) || hfi_process_is_same(&owner, &self))
        return HF_OK;
    if (hfi_process_alive(&owner) == 0)
        return hf_error_set(reterr, HF_E_ACCESS,
                            "process %u owned this session, and is dead: only a "
                            "process that takes the session up can publish",
                            (uint32_t)owner.owner);
    return hf_error_set(reterr, HF_E_ACCESS,
                        "only process %u, which owns this session, can publish or "
                        "destroy it: prepare a commit and hand its token to that "
                        "process, or use a session of your own",
                        (uint32_t)owner.owner);
}
