/* handle.c - a session as this process has it: whether it is usable, and the object's
 * mapping.
 *
 * The whole object is mapped once, read-only, over its whole capacity: the window. An
 * access past the object's last page would be a SIGBUS, and offsets are read from
 * shared memory, so every access by an offset passes hfi_window_at, which checks it
 * against the arena's end and the object's size. The size is looked up only when the
 * object must have grown.
 *
 * Nothing here takes a lock. This file calls none of the layers above it.
 */
#include "engine/handle.h"

#include <errno.h>
#include <string.h>

#include "platform/helpers.h"
#include "platform/object.h"
#include "platform/pages.h"

#define STEP ((size_t)4 << 20) /* compared by a thread at a time */

hf_status
hfi_session_check(const hf_session *session, hf_error *reterr) {
    if (session->inherited)
        return hf_error_set(reterr, HF_E_GONE,
                            "the session is that of a process that forked this one");
    if (!atomic_load(&session->super->gone))
        return HF_OK;
    return hf_error_set(reterr, HF_E_GONE, "the session was destroyed");
}

hf_status
hfi_session_check_writable(const hf_session *session, hf_error *reterr) {
    if (!session->readonly)
        return HF_OK;
    return hf_error_set(reterr, HF_E_ACCESS,
                        "the session was opened for reading only: open it by "
                        "hf_session_open (in Python, without readonly=True) to change "
                        "it");
}

int
hf_session_fd(hf_session *session) {
    if (!session)
        return -1;
    return hfi_session_fd(session);
}

const char *
hf_session_name(const hf_session *session) {
    if (!session)
        return "";
    return session->name;
}

uint64_t
hf_session_generation(const hf_session *session) {
    if (!session)
        return 0;
    return atomic_load_explicit(&session->super->generation, memory_order_acquire);
}

hf_status
hfi_space_error(hf_error *reterr, int err, const char *what) {
    if (err == ENOSPC || err == EFBIG || err == ENOMEM || err == EDQUOT)
        return hf_error_set_at(reterr, HF_E_NOSPACE, err, __func__, "%s", what);
    return hf_error_set_errno(reterr, err, "%s", what);
}

/* ---- the window ---- */

/* Whether the object reaches to `end`. */
static int
object_reaches(hf_session *session, uint64_t end) {
    if (end <= atomic_load_explicit(&session->file_size, memory_order_relaxed))
        return 1;
    uint64_t size = hfi_round_up(hfi_session_size(session), session->page);
    if (size)
        atomic_store_explicit(&session->file_size, size, memory_order_relaxed);
    return end <= size;
}

const void *
hfi_window_at(hf_session *session, uint64_t offset, uint64_t size) {
    uint64_t end =
        atomic_load_explicit(&session->super->arena_end, memory_order_acquire);
    if (end > session->window_size)
        end = session->window_size;
    if (offset < HFI_ARENA_OFFSET || offset > end || size > end - offset ||
        !object_reaches(session, offset + size))
        return NULL;
    return session->window + offset;
}

typedef struct comparison {
    const unsigned char *stored, *data;
    atomic_int differs;
} comparison;

static void
compare_part(void *context, size_t from, size_t to) {
    comparison *work = context;
    if (!atomic_load(&work->differs) &&
        memcmp(work->stored + from, work->data + from, to - from) != 0)
        atomic_store(&work->differs, 1);
}

/* The window's page tables are only for data that is read often. */
int
hfi_window_equals(hf_session *session, uint64_t offset, const void *data, size_t size) {
    const unsigned char *stored = session->window + offset;
    comparison work = {.stored = stored, .data = data};
    hfi_helpers_divide(size, STEP, compare_part, &work);
    if (size >= STEP)
        hfi_pages_drop((void *)(uintptr_t)stored, size);
    return !atomic_load(&work.differs);
}
