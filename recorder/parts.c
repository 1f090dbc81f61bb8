/* parts.c - which processes take part in an experiment, and which are still alive.
 *
 *   EXPERIMENT/parts/lock     a byte for each part, locked as long as its process lives
 *   EXPERIMENT/parts/NUMBER/  its events, and what they mean once it has ended
 *
 * A number is given by mkdir(), which succeeds for one process only. Locks belong to an
 * open file description, so they end with the process, however it ends. A process can
 * take one for a child before it forks, so the child has it from its first moment, and
 * a parent that ends at once still knows of the child.
 *
 * One more byte, the gate, is locked by a process that joins or finishes. So nobody
 * joins what is being removed. The lock file is removed last, so a process that comes
 * meanwhile waits for the gate. `done` is made first, so that nobody uses what is left
 * if the removal is interrupted.
 *
 * Invariants: each part has opened the lock file itself; the directory `parts` exists
 * as long as a part lives.
 *
 * Rejected: locks that belong to a process (a child would have none until it runs);
 * process ids in a file (the system reuses them, and they differ between containers).
 */
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GATE ((off_t)1 << 40)

static hf_status
lock_byte(int file, off_t byte, short type, hf_error *reterr) {
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    while (fcntl(file, F_OFD_SETLKW, &lock) != 0)
        if (errno != EINTR)
            return hf_error_set_errno(reterr, errno, "locking the experiment");
    return HF_OK;
}

/* Whether the file that we have open still has this name. */
static bool
is_current(int file, const char *path) {
    struct stat ours, named;
    return fstat(file, &ours) == 0 && stat(path, &named) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

/* Write a path below `directory`; "" if it is too long. */
static void
path_in(const char *directory, const char *name, char path[static PATH_MAX]) {
    if (snprintf(path, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX)
        path[0] = '\0';
}

static bool
is_done(const char *parts) {
    char done[PATH_MAX];
    path_in(parts, "done", done);
    return access(done, F_OK) == 0;
}

/* Remove the parts while the gate is closed. A process that comes between the last two
 * steps has a lock file of its own in the directory, which therefore stays. */
static void
remove_parts(const char *parts) {
    char path[PATH_MAX];
    path_in(parts, "done", path);
    int made = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (made >= 0)
        close(made);
    DIR *entries = opendir(parts);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *name = entry->d_name;
        bool is_last = strcmp(name, "lock") == 0 || strcmp(name, "done") == 0;
        if (is_last || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        path_in(parts, name, path);
        hfi_trace_part_remove(path);
    }
    if (entries)
        closedir(entries);
    path_in(parts, "done", path);
    (void)unlink(path);
    path_in(parts, "lock", path);
    (void)unlink(path);
    (void)rmdir(parts);
}

/* Open the lock file, and close its gate behind us. */
static hf_status
pass_gate(const char *parts, bool begin, int *ret_lock, hf_error *reterr) {
    char *path = NULL;
    if (asprintf(&path, "%s/lock", parts) < 0)
        return HF_E_NOMEM;
    hf_status status = HF_OK;
    for (;;) {
        if (begin && mkdir(parts, 0777) != 0 && errno != EEXIST) {
            status = hf_error_set_errno(reterr, errno, "creating %s", parts);
            break;
        }
        int lock = open(path, O_RDWR | O_CLOEXEC | (begin ? O_CREAT : 0), 0666);
        if (lock < 0 && errno == ENOENT && begin)
            continue; /* it was removed meanwhile */
        if (lock < 0) {
            status = errno == ENOENT
                         ? HF_NOT_FOUND
                         : hf_error_set_errno(reterr, errno, "opening %s", path);
            break;
        }
        status = lock_byte(lock, GATE, F_WRLCK, reterr);
        if (status == HF_OK && is_current(lock, path)) {
            if (!is_done(parts)) {
                *ret_lock = lock;
                break;
            }
            remove_parts(parts); /* of a process that couldn't finish removing them */
        }
        close(lock);
        if (status != HF_OK)
            break;
    }
    free(path);
    return status;
}

static hf_status
take_part_number(hfi_trace_part *part, const char *parts, uint32_t number,
                 hf_error *reterr) {
    for (;; number++) {
        if (asprintf(&part->own, "%s/%u", parts, number) < 0) {
            part->own = NULL;
            return HF_E_NOMEM;
        }
        if (mkdir(part->own, 0777) == 0)
            break;
        if (errno != EEXIST)
            return hf_error_set_errno(reterr, errno, "creating %s", part->own);
        free(part->own);
    }
    part->number = number;
    return lock_byte(part->lock, (off_t)number, F_WRLCK, reterr);
}

/* Whether our descriptor is still the lock file's. A program may have closed it, and
 * given its number to a file of its own. */
static bool
has_lock_file(const hfi_trace_part *part) {
    struct stat now;
    return part->lock >= 0 && fstat(part->lock, &now) == 0 &&
           (uint64_t)now.st_ino == part->lock_inode;
}

/* Closing the descriptor releases all locks, unless a child has them. */
static void
part_fini(hfi_trace_part *part) {
    if (has_lock_file(part))
        close(part->lock);
    free(part->own);
    free(part->directory);
    *part = (hfi_trace_part){.lock = -1};
}

/* Open the lock file of an experiment, and close its gate behind us. */
static hf_status
enter_gate(const char *directory, bool begin, hfi_trace_part *part, char **ret_parts,
           hf_error *reterr) {
    struct stat now;
    *ret_parts = NULL;
    part->directory = realpath(directory, NULL);
    if (!part->directory)
        return hf_error_set_errno(reterr, errno, "opening %s", directory);
    if (asprintf(ret_parts, "%s/parts", part->directory) < 0) {
        *ret_parts = NULL;
        return HF_E_NOMEM;
    }
    hf_status status = pass_gate(*ret_parts, begin, &part->lock, reterr);
    if (status == HF_OK && fstat(part->lock, &now) == 0)
        part->lock_inode = now.st_ino;
    return status;
}

hf_status
hfi_trace_part_visit(const char *directory, hfi_trace_part *ret_part,
                     hf_error *reterr) {
    hfi_trace_part part = {.lock = -1, .number = HFI_PART_NONE};
    char *parts;
    hf_status status = enter_gate(directory, true, &part, &parts, reterr);
    free(parts);
    if (status == HF_OK)
        *ret_part = part;
    else
        part_fini(&part);
    return status;
}

hf_status
hfi_trace_part_join(const char *directory, bool begin, uint32_t number,
                    hfi_trace_part *ret_part, hf_error *reterr) {
    hfi_trace_part part = {.lock = -1};
    char *parts;
    hf_status status = enter_gate(directory, begin, &part, &parts, reterr);
    if (status == HF_OK)
        status = take_part_number(&part, parts, number, reterr);
    if (status == HF_OK)
        status = lock_byte(part.lock, GATE, F_UNLCK, reterr);
    free(parts);
    if (status != HF_OK) {
        part_fini(&part);
        return status;
    }
    *ret_part = part;
    return HF_OK;
}

static hf_status
open_lock_file(hfi_trace_part *part, hf_error *reterr) {
    char *path = NULL;
    if (asprintf(&path, "%s/parts/lock", part->directory) < 0)
        return HF_E_NOMEM;
    part->lock = open(path, O_RDWR | O_CLOEXEC);
    hf_status status =
        part->lock < 0 ? hf_error_set_errno(reterr, errno, "opening %s", path) : HF_OK;
    free(path);
    return status;
}

hf_status
hfi_trace_part_finish(hfi_trace_part *part, hf_error *reterr) {
    hf_status status = HF_OK;
    if (!has_lock_file(part))
        status = open_lock_file(part, reterr);
    if (status != HF_OK)
        return status;
    return lock_byte(part->lock, GATE, F_WRLCK, reterr);
}

static bool
is_locked(const hfi_trace_part *part, off_t from, off_t length) {
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = length};
    return fcntl(part->lock, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool
hfi_trace_part_is_last(const hfi_trace_part *part) {
    return !is_locked(part, 0, GATE);
}

bool
hfi_trace_part_is_alive(const hfi_trace_part *part, uint32_t number) {
    return is_locked(part, (off_t)number, 1);
}

static int
remove_one(const char *path, const struct stat *unused, int type, struct FTW *place) {
    (void)unused, (void)type, (void)place;
    (void)remove(path);
    return 0;
}

void
hfi_trace_part_remove(const char *path) {
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void
hfi_trace_part_leave(hfi_trace_part *part, bool remove) {
    char *parts = NULL;
    if (remove && asprintf(&parts, "%s/parts", part->directory) > 0)
        remove_parts(parts);
    free(parts);
    part_fini(part);
}
