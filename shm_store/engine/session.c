/* session.c - creating, attaching to, leaving and removing a session's object.
 *
 * An object is created exclusively under a random name, mode 0600; its magic is written
 * last, so a half-made one is never taken for a session. Attaching checks the file's
 * owner (another user could have planted a name) and then magic, version and page size.
 *
 * Each process has two mappings: the control area (superblock, slots, extent table),
 * shared and writable, and a read-only window over the whole capacity. Addresses are
 * cheap. Pages beyond the file's end are never touched, because each offset is checked
 * against the arena's end first. A growing window would move, and all pointers into it
 * would become invalid. If the addresses of a process are limited (ulimit -v), the
 * capacity is a third of them: one third is for the window, one for regions on all of
 * it, one for the program.
 *
 * The control area's addresses cover the largest extent table; its memory is allocated
 * in chunks, so an idle session takes about a quarter of a megabyte.
 *
 * A process that creates or attaches holds a shared lock on the object. The kernel
 * drops it with the last descriptor. It matters only for objects that can't be read: it
 * distinguishes a session that is being made from one whose maker died (roster.c).
 *
 * hfi_session_peek is for lists, and for each start of a kernel. It maps nothing and
 * reads a copy: an object that is cut off meanwhile would be a SIGBUS.
 *
 * /dev/shm is small in containers (64 MiB by default). There, and if it can't be used
 * at all, the object is a memfd. It has no name, so others attach by descriptor.
 */
#include "engine/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/step.h"
#include "base/struct_size.h"
#include "engine/attach.h"
#include "engine/commit.h"
#include "engine/extent.h"
#include "engine/idle.h"
#include "engine/inherit.h"
#include "engine/owner.h"
#include "engine/prepared.h"
#include "engine/region.h"
#include "engine/reservation.h"
#include "engine/slot.h"
#include "engine/tree.h"
#include "engine/wait.h"
#include "platform/limit.h"
#include "platform/object.h"
#include "tuning/tuning.h"

#define SMALL_SHM     (1ull << 30) /* a /dev/shm below this and RAM/8 is no place */
#define ADDRESS_SHARE 3 /* the capacity's part of a process's addresses: 1 / this */

/* If addresses are limited, that is the reason. */
static hf_status
map_error(hf_error *reterr, int err, const char *what, uint64_t size) {
    uint64_t most = hfi_limit_address_bytes();
    if (err != ENOMEM || most == HFI_NO_LIMIT)
        return hf_error_set_errno(reterr, err, "can't map %s", what);
    return hf_error_set_at(reterr, HF_E_SYSTEM, err, __func__,
                           "can't map %s: it needs %llu MiB of addresses, and this "
                           "process may have %llu in all (RLIMIT_AS, ulimit -v)",
                           what, (unsigned long long)(size >> 20),
                           (unsigned long long)(most >> 20));
}

static hf_status
map_object(hf_session *session, hf_error *reterr) {
    void *control;
    int err = hfi_object_map(hfi_session_fd(session), 0, HFI_ARENA_OFFSET,
                             HFI_MAP_SHARED, NULL, &control);
    if (err)
        return map_error(reterr, err, "the session", HFI_ARENA_OFFSET);
    session->super = control;
    session->slots = (hfi_slot *)((char *)control + HFI_SLOTS_OFFSET);
    session->extents = (hfi_extent *)((char *)control + HFI_TABLE_OFFSET);
    return HF_OK;
}

static hf_status
map_window(hf_session *session, hf_error *reterr) {
    void *window;
    session->window_size = (size_t)(HFI_ARENA_OFFSET + session->super->capacity);
    int err = hfi_object_map(hfi_session_fd(session), 0, session->window_size,
                             HFI_MAP_READ, NULL, &window);
    if (err)
        return map_error(reterr, err, "the arena", session->window_size);
    session->window = window;
    return HF_OK;
}

/* A handle with the state of each layer, in one piece. */
typedef struct whole {
    hf_session session;
    hfi_pins pins;
    hfi_aside aside;
    hfi_blocks blocks;
    hfi_regions regions;
    hfi_prefill prefill;
    hfi_snapshots snapshots;
    hfi_scrub scrub;
    hfi_prepared_state prepared;
    hfi_committer committer;
    hfi_heir heir;
} whole;

static hf_session *
join_layers(whole *all) {
    hf_session *session = &all->session;
    session->pins = &all->pins;
    session->aside = &all->aside;
    session->blocks = &all->blocks;
    session->regions = &all->regions;
    session->prefill = &all->prefill;
    session->snapshots = &all->snapshots;
    session->scrub = &all->scrub;
    session->prepared = &all->prepared;
    session->committer = &all->committer;
    session->heir = &all->heir;
    session->recover = hfi_recovery_run;
    session->make_room = hfi_cache_flush;
    return session;
}

static hf_session *
session_new(int fd) {
    whole *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    hf_session *session = join_layers(all);
    atomic_init(&session->fd, fd);
    if (hfi_identity_of(fd, &session->object)) {
        free(all);
        return NULL;
    }
    session->slot = session->heir->slot = HFI_NONE;
    session->pagemap = -1;
    session->page = (size_t)sysconf(_SC_PAGESIZE);
    hfi_blocks_init(session->blocks);
    pthread_mutex_init(&session->mutex, NULL);
    pthread_mutex_init(&session->writer_mutex, NULL);
    hfi_inherit_watch(session);
    return session;
}

static void
session_free(hf_session *session) {
    if (!session)
        return;
    hfi_inherit_forget(session);
    if (session->is_copy)
        free(session->super);
    else
        hfi_object_unmap(session->super, HFI_ARENA_OFFSET);
    if (session->window)
        hfi_object_unmap((void *)session->window, session->window_size);
    pthread_mutex_destroy(&session->mutex);
    pthread_mutex_destroy(&session->writer_mutex);
    hfi_pins_fini(session->pins);
    hfi_committer_fini(session->committer);
    hfi_session_pagemap_close(session);
    hfi_session_fd_close(session);
    free(session); /* the whole of it */
}

/* ---- creating ---- */

static int
random_name(char *name, size_t size) {
    unsigned char bytes[8];
    if (getentropy(bytes, sizeof bytes) != 0)
        return errno;
    int n = snprintf(name, size, "/holdfast-%lu-", (unsigned long)getuid());
    for (size_t i = 0; i < sizeof bytes; i++)
        n += snprintf(name + n, size - (size_t)n, "%02x", bytes[i]);
    return 0;
}

static int
make_object(uint64_t wanted, int want_memfd, int *ret_fd, char *ret_name) {
    uint64_t total, left, ram = hfi_limit_memory_bytes();
    hfi_object_space(&total, &left);
    uint64_t small = ram / 8 < SMALL_SHM ? ram / 8 : SMALL_SHM;
    if (total && (total < wanted || (!wanted && total < small)))
        want_memfd = 1;
    uint64_t control = HFI_TABLE_OFFSET + HFI_EXTENT_CHUNK * sizeof(hfi_extent);
    int fd, err = random_name(ret_name, HF_SESSION_NAME_SIZE);
    if (err)
        return err;
    if (!want_memfd && hfi_object_create(ret_name, &fd) == 0) {
        hfi_object_hold(fd);
        hfi_step("create:object-made");
        if (hfi_object_allocate(fd, 0, control) == 0) {
            *ret_fd = fd;
            return 0;
        }
        close(fd);
        hfi_object_unlink(ret_name);
    }
    if ((err = hfi_object_create_anonymous(ret_name + 1, &fd)))
        return err;
    if ((err = hfi_object_allocate(fd, 0, control))) {
        close(fd);
        return err;
    }
    ret_name[0] = 0;
    *ret_fd = fd;
    return 0;
}

static uint64_t
choose_capacity(uint64_t wanted, int is_memfd, size_t page) {
    uint64_t total, left, memory = hfi_limit_memory_bytes();
    uint64_t addresses = hfi_limit_address_bytes();
    hfi_object_space(&total, &left);
    if (is_memfd || !total || total > memory)
        total = memory;
    if (!wanted)
        wanted = total;
    if (addresses != HFI_NO_LIMIT && wanted > addresses / ADDRESS_SHARE)
        wanted = addresses / ADDRESS_SHARE;
    if (wanted < page)
        wanted = page;
    return hfi_round_up(wanted, page);
}

static hf_status
format_superblock(hf_session *session, const hf_session_options *options,
                  hf_error *reterr) {
    hfi_superblock *super = session->super;
    super->version = HFI_LAYOUT_VERSION;
    super->page_size = (uint32_t)session->page;
    super->capacity = choose_capacity(options ? options->capacity_bytes : 0,
                                      session->name[0] == 0, session->page);
    super->created_unix_ns = hfi_process_unix_ns();
    hfi_owner_become(session);
    if (options->flags & HF_SESSION_OWNER_PUBLISHES)
        super->flags = HFI_OWNER_PUBLISHES;
    for (unsigned i = 0; i < HFI_BIN_COUNT; i++)
        super->bins[i] = HFI_NONE;
    super->unused = super->retired = super->last = HFI_NONE;
    super->huge_page = hfi_pages_huge(hfi_session_fd(session), HFI_ARENA_OFFSET);
    atomic_store(&super->arena_end, HFI_ARENA_OFFSET);
    hfi_root_privatize(&super->roots[0]);
    snprintf(super->name, sizeof super->name, "%s", session->name);
    if (options->label)
        snprintf(super->label, sizeof super->label, "%s", options->label);
    return hfi_extent_add_records(session, reterr);
}

/* The options in this version's form. All defaults if the caller passes none. */
static hf_status
read_options(const hf_session_options *theirs, hf_session_options *ret_options,
             hf_error *reterr) {
    *ret_options = (hf_session_options){.struct_size = sizeof *ret_options};
    if (!theirs)
        return HF_OK;
    hf_status status =
        HFI_STRUCT_READ(ret_options, theirs, hf_session_options, flags, reterr);
    if (status)
        return status;
    if (ret_options->capacity_bytes > 1ull << 46)
        return hf_error_set(reterr, HF_E_INVALID,
                            "the capacity of a session is out of range");
    if (ret_options->flags & ~(unsigned)(HF_SESSION_MEMFD | HF_SESSION_OWNER_PUBLISHES))
        return hf_error_set(reterr, HF_E_INVALID, "flags of a session are not known");
    return HF_OK;
}

hf_status
hf_session_create(const hf_session_options *options, hf_session **ret_session,
                  hf_error *reterr) {
    HFI_NEED(reterr, ret_session);
    hf_session_options chosen;
    hf_status status = read_options(options, &chosen, reterr);
    if (status)
        return status;
    char name[HF_SESSION_NAME_SIZE];
    int fd, err = make_object(chosen.capacity_bytes, chosen.flags & HF_SESSION_MEMFD,
                              &fd, name);
    if (err)
        return hfi_space_error(reterr, err, "can't create a shared-memory object");
    hf_session *session = session_new(fd);
    if (!session) {
        close(fd);
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
        goto out;
    }
    memcpy(session->name, name, sizeof session->name);
    hfi_step("create:allocated");
    if ((status = map_object(session, reterr)))
        goto out;
    if ((status = format_superblock(session, &chosen, reterr)))
        goto out;
    if ((status = map_window(session, reterr)))
        goto out;
    if ((status = hfi_slot_claim(session, reterr)))
        goto out;
    hfi_step("create:formatted");
    atomic_store(&session->super->magic, HFI_MAGIC);
    *ret_session = session;
    return HF_OK;
out:
    if (name[0])
        hfi_object_unlink(name);
    session_free(session);
    return status;
}

/* ---- attaching ---- */

static hf_status
check_object(int fd, hf_error *reterr) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return hf_error_set_errno(reterr, errno,
                                  "can't read the attributes of the session's object");
    if (st.st_uid != geteuid())
        return hf_error_set(reterr, HF_E_ACCESS, "the session belongs to user %lu",
                            (unsigned long)st.st_uid);
    if (st.st_mode & 077)
        return hf_error_set(reterr, HF_E_ACCESS,
                            "others may open the session (mode %o)",
                            (unsigned)st.st_mode & 0777);
    if (st.st_size < (off_t)(HFI_TABLE_OFFSET + HFI_EXTENT_CHUNK * sizeof(hfi_extent)))
        return hf_error_set(reterr, HF_E_CORRUPT, "too short for a session");
    return HF_OK;
}

static hf_status
check_superblock(const hf_session *session, hf_error *reterr) {
    const hfi_superblock *super = session->super;
    if (atomic_load(&super->gone))
        return hf_error_set(reterr, HF_E_GONE, "the session was destroyed");
    if (atomic_load(&super->magic) != HFI_MAGIC)
        return hf_error_set(reterr, HF_E_CORRUPT, "not a session");
    if (super->version != HFI_LAYOUT_VERSION)
        return hf_error_set(reterr, HF_E_VERSION, "layout version %u, expected %u",
                            super->version, HFI_LAYOUT_VERSION);
    if (super->page_size != session->page)
        return hf_error_set(reterr, HF_E_VERSION, "pages of %u bytes",
                            super->page_size);
    if (super->capacity == 0 || super->capacity > 1ull << 46)
        return hf_error_set(reterr, HF_E_CORRUPT, "capacity is out of range");
    if (HFI_TABLE_OFFSET + hfi_extent_count(session) * sizeof(hfi_extent) >
        hfi_object_size(atomic_load(&session->fd)))
        return hf_error_set(reterr, HF_E_CORRUPT, "the extent table is cut off");
    return HF_OK;
}

/* Read `size` bytes of the control area to memory of this process. */
static hf_status
copy_control(hf_session *session, size_t size, hf_error *reterr) {
    char *bytes = realloc(session->super, size);
    if (!bytes)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    session->super = (hfi_superblock *)(void *)bytes;
    session->slots = (hfi_slot *)(void *)(bytes + HFI_SLOTS_OFFSET);
    session->extents = (hfi_extent *)(void *)(bytes + HFI_TABLE_OFFSET);
    int err = hfi_object_read(atomic_load(&session->fd), bytes, size, 0);
    if (err)
        return hf_error_set_errno(reterr, err, "can't read the session");
    return HF_OK;
}

/* Look at an object that may be damaged, or be cut off at this moment. Nothing of it is
 * mapped, so no read is a SIGBUS. A root that is being written is read again. */
static hf_status
copy_object(hf_session *session, hf_error *reterr) {
    hf_status status = HF_OK;
    session->is_copy = 1;
    for (int attempt = 0; attempt < 3; attempt++) {
        hfi_root root;
        status = copy_control(session, HFI_TABLE_OFFSET, reterr);
        if (status || (status = check_superblock(session, reterr)))
            return status;
        size_t records = hfi_extent_count(session);
        status = copy_control(session, HFI_TABLE_OFFSET + records * sizeof(hfi_extent),
                              reterr);
        if (status || (status = check_superblock(session, reterr)))
            return status;
        if (hfi_extent_count(session) <= records &&
            hfi_root_read(session, &root, NULL) == HF_OK)
            break;
        atomic_store(&session->super->extent_count, (uint32_t)records);
    }
    return HF_OK;
}

static hf_status
map_all(hf_session *session, hf_error *reterr) {
    hf_status status = map_object(session, reterr);
    if (!status)
        status = check_superblock(session, reterr);
    return status ? status : map_window(session, reterr);
}

/* Takes ownership of `fd`, on failure too. */
static hf_status
attach_consume(int fd, int peek, hf_session **ret_session, hf_error *reterr) {
    hf_status status = check_object(fd, reterr);
    hf_session *session = status ? NULL : session_new(fd);
    if (!session) {
        close(fd);
        return status ? status : hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    }
    if ((status = (peek ? copy_object : map_all)(session, reterr)))
        goto out;
    memcpy(session->name, session->super->name, sizeof session->name);
    session->name[sizeof session->name - 1] = 0;
    if (!peek) {
        hfi_object_hold(fd);
        if ((status = hfi_slot_claim(session, reterr)))
            goto out;
    }
    *ret_session = session;
    return HF_OK;
out:
    session_free(session);
    return status;
}

static hf_status
open_name(const char *name, int peek, hf_session **ret_session, hf_error *reterr) {
    char path[HF_SESSION_NAME_SIZE + 1];
    if (!name || !*name || strlen(name) >= HF_SESSION_NAME_SIZE)
        return hf_error_set(reterr, HF_NOT_FOUND, "no session has such a name");
    snprintf(path, sizeof path, "%s%s", name[0] == '/' ? "" : "/", name);
    int fd, err = hfi_object_open(path, &fd);
    if (err == ENOENT || err == EINVAL)
        return hf_error_set(reterr, HF_NOT_FOUND, "no session %s", name);
    if (err == EACCES || err == EPERM)
        return hf_error_set_at(reterr, HF_E_ACCESS, err, __func__, "session %s", name);
    if (err)
        return hf_error_set_errno(reterr, err, "can't open session %s", name);
    hf_status status = attach_consume(fd, peek, ret_session, reterr);
    if (!status && strcmp((*ret_session)->name, path) != 0) {
        peek ? session_free(*ret_session) : hf_session_close(*ret_session);
        status = hf_error_set(reterr, HF_E_CORRUPT, "it has another one's name");
    }
    if (status)
        hf_error_prefix(reterr, "session %s", name);
    return status;
}

hf_status
hf_session_open(const char *name, hf_session **ret_session, hf_error *reterr) {
    HFI_NEED(reterr, name, ret_session);
    return open_name(name, 0, ret_session, reterr);
}

static void
restrict_to_reading(hf_session *session) {
    session->readonly = 1;
    atomic_store(&session->slots[session->slot].readonly, 1);
}

hf_status
hf_session_open_readonly(const char *name, hf_session **ret_session, hf_error *reterr) {
    HFI_NEED(reterr, name, ret_session);
    hf_status status = open_name(name, 0, ret_session, reterr);
    if (!status)
        restrict_to_reading(*ret_session);
    return status;
}

hf_status
hfi_session_peek(const char *name, hf_session **ret_session, hf_error *reterr) {
    return open_name(name, 1, ret_session, reterr);
}

void
hfi_session_unpeek(hf_session *session) {
    session_free(session);
}

hf_status
hf_session_open_fd(int fd, hf_session **ret_session, hf_error *reterr) {
    HFI_NEED(reterr, ret_session);
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (copy < 0)
        return hf_error_set_errno(reterr, errno, "can't duplicate descriptor %d", fd);
    return attach_consume(copy, 0, ret_session, reterr);
}

hf_status
hf_session_open_fd_readonly(int fd, hf_session **ret_session, hf_error *reterr) {
    HFI_NEED(reterr, ret_session);
    hf_status status = hf_session_open_fd(fd, ret_session, reterr);
    if (!status)
        restrict_to_reading(*ret_session);
    return status;
}

/* ---- leaving and removing ---- */

void
hf_session_close(hf_session *session) {
    if (!session)
        return;
    hf_error ignored;
    hfi_prepared_settle(session, 1);
    hfi_session_prefill_end(session);
    hfi_cache_flush(session);
    if (!hfi_lock(session, &ignored)) {
        hfi_slot_clear(session, session->slot);
        hfi_extent_reclaim(session);
        hfi_unlock(session);
    }
    session_free(session);
}

void
hfi_session_means(hf_session *session, uint64_t *ret_huge_size, int *ret_way) {
    *ret_huge_size = session->super->huge_page;
    *ret_way = (int)hfi_pages_best_way();
}

hf_status
hf_session_reap(hf_session *session, int trim, uint32_t *ret_processes,
                hf_error *reterr) {
    HFI_NEED(reterr, session);
    hf_status status = hfi_session_check_writable(session, reterr);
    if (status)
        return status;
    if (trim)
        hfi_cache_flush(session);
    if ((status = hfi_lock(session, reterr)))
        return status;
    hfi_step("reap:begin");
    uint32_t processes = hfi_slot_reap(session);
    hfi_extent_reclaim(session);
    hfi_step("reap:reclaimed");
    if (trim)
        hfi_extent_trim(session);
    hfi_unlock(session);
    if (ret_processes)
        *ret_processes = processes;
    return HF_OK;
}

hf_status
hf_session_destroy(hf_session *session, hf_error *reterr) {
    HFI_NEED(reterr, session);
    hf_status status = hfi_session_check_writable(session, reterr);
    if (!status && hfi_owner_alive(session->super) != 0)
        status = hfi_owner_check(session, reterr);
    if (status)
        return status;
    hfi_wait_announce_end(session);
    hfi_step("destroy:announced");
    atomic_store(&session->super->gone, 1);
    atomic_store(&session->super->magic, 0);
    hfi_step("destroy:marked");
    if (!session->name[0])
        return HF_OK;
    int err = hfi_object_unlink(session->name);
    if (err && err != ENOENT)
        return hf_error_set_errno(reterr, err, "can't remove %s", session->name);
    return HF_OK;
}
