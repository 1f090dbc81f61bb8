/* descriptor.c - the session's descriptors, which any code may close.
 *
 * To the process a descriptor is only a number, and user code closes numbers that
 * aren't its own: by os.closerange() in a recipe for daemons, or by a bug. The next
 * file that is opened gets the number, and the store would write to that file. So
 * before each use that writes or maps, the descriptor's device and inode are compared
 * with what they were. That costs a tenth of a microsecond for each system call. If the
 * descriptor isn't ours any more, it is left alone, and the object is opened again: by
 * its name, or by a descriptor in /proc that this or another process of the session
 * has. The latter is needed for a memfd, which has no name, and for a destroyed
 * session. If that fails, the system call fails with EBADF, and the session's memory is
 * undamaged.
 *
 * Between the comparison and the use another thread may still close and open. No lock
 * of ours can prevent that.
 *
 * The descriptor of /proc/self/pagemap is checked in the same way: numbers read from
 * another file would mean that nothing was written.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/handle.h"
#include "platform/object.h"
#include "platform/pages.h"

/* 1 or 0; negative if fstat() of an open descriptor fails. */
static int
look_at(int fd, const hfi_identity *identity, struct stat *ret_stat) {
    if (fd < 0)
        return 0;
    for (int attempt = 0; fstat(fd, ret_stat) != 0; attempt++)
        if (errno == EBADF || attempt == 2)
            return errno == EBADF ? 0 : -1;
    return (uint64_t)ret_stat->st_dev == identity->device &&
           (uint64_t)ret_stat->st_ino == identity->inode;
}

static int
is_same(int fd, const hfi_identity *identity) {
    struct stat st;
    return look_at(fd, identity, &st);
}

int
hfi_identity_of(int fd, hfi_identity *ret_identity) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    *ret_identity = (hfi_identity){(uint64_t)st.st_dev, (uint64_t)st.st_ino};
    return 0;
}

/* ---- the object ---- */

/* Open it through a descriptor in /proc, of this process or of one that we may look at.
 * */
static int
open_of_process(const hf_session *session, uint64_t pid) {
    char path[320];
    int found = -1;
    struct dirent *item;
    struct stat st;
    snprintf(path, sizeof path, "/proc/%llu/fd", (unsigned long long)pid);
    DIR *directory = opendir(path);
    while (directory && found < 0 && (item = readdir(directory))) {
        snprintf(path, sizeof path, "/proc/%llu/fd/%s", (unsigned long long)pid,
                 item->d_name);
        if (stat(path, &st) != 0 || (uint64_t)st.st_dev != session->object.device ||
            (uint64_t)st.st_ino != session->object.inode)
            continue;
        found = open(path, O_RDWR | O_CLOEXEC);
        if (found >= 0 && is_same(found, &session->object) != 1) {
            close(found);
            found = -1;
        }
    }
    if (directory)
        closedir(directory);
    return found;
}

static int
reopen_object(const hf_session *session) {
    int fd = -1;
    if (session->name[0] && hfi_object_open(session->name, &fd) == 0) {
        if (is_same(fd, &session->object) == 1)
            return fd;
        close(fd); /* another object of the same name */
    }
    fd = open_of_process(session, (uint64_t)getpid());
    if (fd < 0)
        fd = open_of_process(session, (uint32_t)session->super->owner);
    for (uint32_t i = 0; i < HFI_SLOT_COUNT && fd < 0; i++) {
        uint64_t owner = atomic_load(&session->slots[i].owner);
        if (owner && (uint32_t)owner != (uint32_t)session->super->owner)
            fd = open_of_process(session, (uint32_t)owner);
    }
    return fd;
}

int
hfi_session_fd(hf_session *session) {
    int fd = atomic_load(&session->fd), same = is_same(fd, &session->object);
    if (same)
        return same > 0 ? fd : -1;
    int again = reopen_object(session);
    if (again < 0)
        return -1;
    hfi_object_hold(again); /* the lock ended with the last descriptor */
    if (atomic_compare_exchange_strong(&session->fd, &fd, again))
        return again;
    close(again); /* another thread was first */
    return fd;
}

uint64_t
hfi_session_size(hf_session *session) {
    struct stat st;
    if (look_at(atomic_load(&session->fd), &session->object, &st) == 1)
        return (uint64_t)st.st_size;
    return hfi_object_size(hfi_session_fd(session));
}

void
hfi_session_fd_close(hf_session *session) {
    int fd = atomic_exchange(&session->fd, -1);
    if (is_same(fd, &session->object))
        close(fd);
}

/* ---- the page map ---- */

int
hfi_session_pagemap(hf_session *session) {
    if (session->inherited)
        return -1; /* it shows the memory of the process that opened it */
    pthread_mutex_lock(&session->mutex);
    int same = is_same(session->pagemap, &session->pagemap_file);
    if (!same) {
        session->pagemap = hfi_pages_open();
        if (session->pagemap >= 0 &&
            hfi_identity_of(session->pagemap, &session->pagemap_file) != 0) {
            close(session->pagemap);
            session->pagemap = -1;
        }
    }
    int fd = same < 0 ? -1 : session->pagemap;
    pthread_mutex_unlock(&session->mutex);
    return fd;
}

void
hfi_session_pagemap_close(hf_session *session) {
    if (is_same(session->pagemap, &session->pagemap_file))
        close(session->pagemap);
    session->pagemap = -1;
}
