/* roster.c - looking at sessions from outside: describe, reap, list, collect.
 *
 * A session is alive while its owner or any attached process is. Collecting removes
 * only what is surely dead: an owner in another pid namespace counts as alive. Listing
 * reads each object for a moment without taking a slot, so that `holdfast ls` changes
 * nothing.
 *
 * An object under one of our names may not be a session: its maker died before it wrote
 * the magic, or the object was damaged. Nothing in it can be trusted then. Only things
 * outside of it count: its name, its owner, its age, and the lock that each of our
 * processes holds on an object that it has open (session.c). An object of another
 * layout version is left alone, since its processes may live.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/struct_size.h"
#include "engine/extent.h"
#include "engine/owner.h"
#include "engine/session.h"
#include "engine/slot.h"
#include "engine/tree.h"
#include "platform/object.h"

#define BROKEN_AGE_S 5 /* a younger object may be in the making */

/* Counters are read without the lock. Each is correct, but their sum may be off by a
 * change. */
static void
fill_info(hf_session *session, hf_session_info *info) {
    const hfi_superblock *super = session->super;
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    memcpy(info->name, session->name, sizeof info->name);
    memcpy(info->label, super->label, sizeof info->label);
    info->label[sizeof info->label - 1] = 0;
    info->owner_pid = (uint32_t)super->owner;
    info->owner_alive = hfi_owner_alive(super);
    info->owner_publishes = (super->flags & HFI_OWNER_PUBLISHES) != 0;
    info->is_orphan = info->owner_alive == 0 && hfi_orphan_has_reaper(super);
    info->created_unix_ns = super->created_unix_ns;
    hfi_root root;
    if (hfi_root_read(session, &root, NULL) == HF_OK) {
        info->generation = root.generation;
        info->entry_count = root.entry_count;
    }
    info->capacity_bytes = super->capacity;
    uint64_t control =
        HFI_TABLE_OFFSET + hfi_extent_count(session) * sizeof(hfi_extent);
    uint64_t arena = 0;
    for (int i = HFI_FREE; i < HFI_STATE_COUNT; i++)
        arena += super->bytes[i];
    info->allocated_bytes = control + arena - super->hole_bytes;
    info->committed_bytes = super->bytes[HFI_COMMITTED];
    info->reserved_bytes = super->bytes[HFI_RESERVED] + super->bytes[HFI_PREPARED];
    info->retired_bytes = super->bytes[HFI_RETIRED];
    info->free_bytes = super->bytes[HFI_FREE] - super->hole_bytes;
    for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++)
        info->process_count += hfi_slot_alive(session, i) != 0;
    for (uint32_t i = 0, n = hfi_extent_count(session); i < n; i++) {
        enum hfi_extent_state state = hfi_extent_state(&session->extents[i]);
        info->extent_count += state != HFI_UNUSED && state != HFI_FREE;
        uint64_t gone =
            state == HFI_RESERVED ? hfi_extent_emptied(&session->extents[i]) : 0;
        info->reserved_bytes -= gone;
        info->allocated_bytes -= gone;
    }
}

hf_status
hf_session_describe(hf_session *session, hf_session_info *ret_info, hf_error *reterr) {
    HFI_NEED(reterr, session, ret_info);
    hf_session_info info;
    hf_status status =
        HFI_STRUCT_CHECK_OUTPUT(ret_info, hf_session_info, is_orphan, reterr);
    if (!status)
        status = hfi_lock(session, reterr);
    if (status)
        return status;
    fill_info(session, &info);
    hfi_unlock(session);
    hfi_struct_write(ret_info, &info, sizeof info);
    return HF_OK;
}

/* ---- all sessions of this user ---- */

typedef struct roster {
    hf_session_visit visit;
    void *context;
    uint32_t count;
} roster;

/* Describe an object that can't be attached. 0 if it isn't ours, or so young that a
 * process may still be making it. */
static int
describe_broken(const char *name, hf_status state, int *ret_fd, hf_session_info *info) {
    struct stat st;
    char path[HF_SESSION_NAME_SIZE + 1];
    size_t length = strlen(name), digits = 0;
    if (state != HF_E_CORRUPT && state != HF_E_VERSION && state != HF_E_GONE)
        return 0;
    while (digits < length && isxdigit((unsigned char)name[length - 1 - digits]))
        digits++;
    snprintf(path, sizeof path, "/%s", name);
    if (digits != 16 || length + 1 >= HF_SESSION_NAME_SIZE ||
        hfi_object_open(path, ret_fd))
        return 0;
    if (fstat(*ret_fd, &st) != 0 || st.st_uid != geteuid() ||
        (state == HF_E_CORRUPT && time(NULL) - st.st_mtime < BROKEN_AGE_S)) {
        close(*ret_fd);
        return 0;
    }
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    memcpy(info->name, path, strlen(path) + 1);
    info->owner_alive = -1;
    info->state = state;
    info->allocated_bytes = (uint64_t)st.st_blocks * 512;
    return 1;
}

static int
list_one(void *context, const char *name) {
    roster *r = context;
    hf_session *session;
    hf_session_info info;
    int fd;
    hf_status status = hfi_session_peek(name, &session, NULL);
    if (status) {
        if (!describe_broken(name, status, &fd, &info))
            return 0;
        close(fd);
    } else {
        fill_info(session, &info);
        hfi_session_unpeek(session);
    }
    r->count++;
    return r->visit(r->context, &info);
}

static void
report_removed(roster *r, const hf_session_info *info) {
    if (r->visit)
        r->visit(r->context, info);
    r->count++;
}

static void
collect_broken(roster *r, const char *name, hf_status state) {
    hf_session_info info;
    int fd;
    if (!describe_broken(name, state, &fd, &info))
        return;
    if (state != HF_E_VERSION && (state == HF_E_GONE || hfi_object_is_held(fd) != 1) &&
        hfi_object_unlink(info.name) == 0)
        report_removed(r, &info);
    close(fd);
}

/* Readers may wait for a change: they are woken. */
static int
remove_under_readers(const char *name) {
    hf_session *session;
    if (hf_session_open(name, &session, NULL))
        return 0;
    hf_status status = hf_session_destroy(session, NULL);
    hf_session_close(session);
    return status == HF_OK;
}

static int
has_keeper(const hf_session *session) {
    for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++)
        if (hfi_slot_keeps(session, i))
            return 1;
    return 0;
}

/* As hf_session_destroy, for a session that is only looked at. */
static int
remove_object(const hf_session *session, const hf_session_info *info) {
    static const uint32_t gone = 1;
    static const uint64_t magic = 0;
    if (info->process_count)
        return remove_under_readers(session->name);
    int fd = atomic_load(&session->fd);
    return hfi_object_write(fd, &gone, sizeof gone, offsetof(hfi_superblock, gone)) ==
               0 &&
           hfi_object_write(fd, &magic, sizeof magic,
                            offsetof(hfi_superblock, magic)) == 0 &&
           hfi_object_unlink(session->name) == 0;
}

static int
collect_one(void *context, const char *name) {
    roster *r = context;
    hf_session *session;
    hf_session_info info;
    hf_status status = hfi_session_peek(name, &session, NULL);
    if (status) {
        collect_broken(r, name, status);
        return 0;
    }
    fill_info(session, &info);
    if (info.owner_alive == 0 && !has_keeper(session) && !info.is_orphan &&
        (hfi_orphan_is_kept(session->super)
             ? hf_session_free_orphan(name, NULL) == HF_OK
             : remove_object(session, &info)))
        report_removed(r, &info);
    hfi_session_unpeek(session);
    return 0;
}

static hf_status
each_name(int (*one)(void *, const char *), roster *r, hf_error *reterr) {
    char prefix[40];
    snprintf(prefix, sizeof prefix, "holdfast-%lu-", (unsigned long)getuid());
    int err = hfi_object_each(prefix, one, r);
    if (err)
        return hf_error_set_errno(reterr, err, "can't list shared memory");
    return HF_OK;
}

hf_status
hf_session_list(hf_session_visit visit, void *context, hf_error *reterr) {
    HFI_NEED(reterr, visit);
    roster r = {visit, context, 0};
    return each_name(list_one, &r, reterr);
}

hf_status
hf_session_collect(hf_session_visit visit, void *context, uint32_t *ret_count,
                   hf_error *reterr) {
    roster r = {visit, context, 0};
    hf_status status = each_name(collect_one, &r, reterr);
    if (!status && ret_count)
        *ret_count = r.count;
    return status;
}
