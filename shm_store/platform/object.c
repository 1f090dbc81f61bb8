/* object.c - the operating system's shared memory.
 *
 * All memory is allocated before it is touched: a write to a hole of a full tmpfs is a
 * SIGBUS in the middle of user code, while posix_fallocate returns ENOSPC to a caller
 * that can handle it. On tmpfs, fallocate works in one piece. A signal interrupts it
 * with EINTR, and its work is undone: a profiler's timer could keep it from ever
 * ending. So large ranges are allocated in steps, and each step is retried.
 *
 * A memfd works in the same way without a name, and without the size limit of /dev/shm
 * (in containers often 64 MiB). If there is none (macOS), a named object is used, and
 * unlinked at once.
 *
 * Every call passes hfi_fault(), so that tests can make it fail.
 */
#include "object.h"

#include "fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ALLOCATE_STEP (64ull << 20)
#define SHM_DIRECTORY "/dev/shm"
#define PARTS_MAX     64                /* written in one call */
#define HUGE          ((size_t)2 << 20) /* of most processors */

hfi_fault_hook_fn hfi_fault_hook;

/* A descriptor of our own that is 0, 1 or 2 gets another number: a program that was
 * started without one of the three would print into the session. Takes `fd`; -1 with
 * errno. */
static int
above_standard(int fd) {
    if (fd > STDERR_FILENO || fd < 0)
        return fd;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int err = errno;
    close(fd);
    errno = err;
    return copy;
}

int
hfi_object_create(const char *name, int *ret_fd) {
    int err = hfi_fault("shm_open");
    if (err)
        return err;
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    fd = above_standard(fd);
    if (fd < 0 || fchmod(fd, 0600) != 0) { /* of which a umask may have taken some */
        err = errno;
        if (fd >= 0)
            close(fd);
        shm_unlink(name);
        return err;
    }
    *ret_fd = fd;
    return 0;
}

int
hfi_object_create_anonymous(const char *label, int *ret_fd) {
    int err = hfi_fault("memfd_create");
    if (err)
        return err;
#ifdef MFD_CLOEXEC
    int fd = above_standard(memfd_create(label, MFD_CLOEXEC));
    if (fd < 0)
        return errno;
    if (fchmod(fd, 0600) != 0) {
        err = errno;
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return 0;
#else
    err = hfi_object_create(label, ret_fd);
    if (!err)
        shm_unlink(label);
    return err;
#endif
}

int
hfi_object_open(const char *name, int *ret_fd) {
    int err = hfi_fault("shm_open");
    if (err)
        return err;
    int fd = above_standard(shm_open(name, O_RDWR | O_CLOEXEC, 0));
    if (fd < 0)
        return errno;
    *ret_fd = fd;
    return 0;
}

int
hfi_object_unlink(const char *name) {
    int err = hfi_fault("shm_unlink");
    if (err)
        return err;
    return shm_unlink(name) == 0 ? 0 : errno;
}

void
hfi_object_space(uint64_t *ret_total, uint64_t *ret_free) {
    struct statvfs fs;
    *ret_total = *ret_free = 0; /* 0: not known, or without a limit */
    if (statvfs(SHM_DIRECTORY, &fs) != 0)
        return;
    *ret_total = (uint64_t)fs.f_blocks * fs.f_frsize;
    *ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
}

int
hfi_object_each(const char *prefix, int (*visit)(void *context, const char *name),
                void *context) {
    DIR *directory = opendir(SHM_DIRECTORY);
    if (!directory)
        return errno == ENOENT ? 0 : errno;
    struct dirent *item;
    size_t length = strlen(prefix);
    while ((item = readdir(directory)))
        if (strncmp(item->d_name, prefix, length) == 0 && visit(context, item->d_name))
            break;
    closedir(directory);
    return 0;
}

/* flock belongs to the open file, so it outlives a duplicate, ends with the last one
 * whatever killed its process, and is seen across pid namespaces. */
void
hfi_object_hold(int fd) {
    while (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EINTR)
        ;
}

int
hfi_object_is_held(int fd) {
    int result;
    do
        result = flock(fd, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno == EWOULDBLOCK ? 1 : -1;
}

/* A write past the limit of file sizes would kill the process by SIGXFSZ. */
static int
past_limit(uint64_t end) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           end > limit.rlim_cur;
}

static int
allocate_step(int fd, uint64_t offset, uint64_t size) {
#ifdef __APPLE__
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    if ((uint64_t)st.st_size >= offset + size)
        return 0;
    return ftruncate(fd, (off_t)(offset + size)) == 0 ? 0 : errno;
#else
    return posix_fallocate(fd, (off_t)offset, (off_t)size);
#endif
}

int
hfi_object_allocate(int fd, uint64_t offset, uint64_t size) {
    if (past_limit(offset + size))
        return EFBIG;
    for (uint64_t done = 0; done < size;) {
        uint64_t step = size - done < ALLOCATE_STEP ? size - done : ALLOCATE_STEP;
        int err = hfi_fault("posix_fallocate");
        if (!err)
            err = allocate_step(fd, offset + done, step);
        if (err == EINTR)
            continue;
        if (err)
            return err;
        done += step;
    }
    return 0;
}

int
hfi_object_punch(int fd, uint64_t offset, uint64_t size) {
    int err = hfi_fault("punch");
    if (err)
        return err;
#ifdef FALLOC_FL_PUNCH_HOLE
    while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                     (off_t)size) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
#else
    (void)fd, (void)offset, (void)size;
    return ENOTSUP;
#endif
}

uint64_t
hfi_object_size(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

int
hfi_object_truncate(int fd, uint64_t size) {
    int err = hfi_fault("ftruncate");
    if (err)
        return err;
    while (ftruncate(fd, (off_t)size) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

int
hfi_object_write(int fd, const void *data, size_t size, uint64_t offset) {
    struct iovec part = {(void *)(uintptr_t)data, size};
    return hfi_object_write_parts(fd, &part, 1, offset);
}

int
hfi_object_write_parts(int fd, const struct iovec *parts, size_t count,
                       uint64_t offset) {
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += parts[i].iov_len;
    if (past_limit(offset + size))
        return EFBIG;
    size_t done = 0; /* of the first part */
    while (count) {
        struct iovec some[PARTS_MAX];
        int n = count < PARTS_MAX ? (int)count : PARTS_MAX;
        memcpy(some, parts, (size_t)n * sizeof *some);
        some[0].iov_base = (char *)some[0].iov_base + done;
        some[0].iov_len -= done;
        int err = hfi_fault("pwrite");
        if (err)
            return err;
        ssize_t written = pwritev(fd, some, n, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno;
        if (written == 0 && size)
            return EIO;
        offset += (uint64_t)written;
        size -= (uint64_t)written;
        for (done += (size_t)written; count && done >= parts->iov_len; count--)
            done -= parts++->iov_len;
    }
    return 0;
}

int
hfi_object_read(int fd, void *data, size_t size, uint64_t offset) {
    char *p = data;
    while (size) {
        int err = hfi_fault("pread");
        if (err)
            return err;
        ssize_t n = pread(fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        p += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* The place of the last large mapping. The next one is tried directly below it, which
 * is mostly free. Then one call is enough, instead of the three that find a place. It
 * is only a hint, which any thread may read and write. */
static _Atomic uintptr_t last_place;

static int
has_place(const void *address, uint64_t offset) {
    return (uintptr_t)address % HUGE == offset % HUGE;
}

/* The highest place below the last one that fits; NULL before there is one. */
static void *
place_below(uint64_t offset, size_t size) {
    uintptr_t last = atomic_load_explicit(&last_place, memory_order_relaxed);
    if (size < HUGE || last <= size + HUGE)
        return NULL;
    uintptr_t start = last - size;
    return (void *)(start - (size_t)(start - offset) % HUGE);
}

static void
note_place(const void *address, size_t size) {
    if (size >= HUGE)
        atomic_store_explicit(&last_place, (uintptr_t)address, memory_order_relaxed);
}

/* Addresses at which a large mapping can have huge pages: with the same place in a huge
 * page as in the object. NULL if the system is to choose. */
static void *
find_place(uint64_t offset, size_t size) {
    if (size < HUGE)
        return NULL;
    char *start =
        mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t before = (size_t)(offset - (uintptr_t)start) % HUGE;
    if (before > 0)
        munmap(start, before);
    munmap(start + before + size, HUGE - before);
    return start + before;
}

int
hfi_object_map(int fd, uint64_t offset, size_t size, int how, void *at,
               void **ret_address) {
    int err = hfi_fault("mmap");
    if (err)
        return err;
    int protection = how == HFI_MAP_READ ? PROT_READ : PROT_READ | PROT_WRITE;
    int flags = how == HFI_MAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    void *below = at ? NULL : place_below(offset, size);
    if (below) {
        void *there = mmap(below, size, protection, flags, fd, (off_t)offset);
        if (there != MAP_FAILED && has_place(there, offset)) {
            note_place(there, size);
            *ret_address = there;
            return 0;
        }
        if (there != MAP_FAILED)
            munmap(there, size);
    }
    void *place = at ? at : find_place(offset, size);
    if (place)
        flags |= MAP_FIXED;
    void *address = mmap(place, size, protection, flags, fd, (off_t)offset);
    if (address == MAP_FAILED) {
        err = errno;
        if (place != at)
            munmap(place, size);
        return err;
    }
    if (!at)
        note_place(address, size);
    *ret_address = address;
    return 0;
}

int
hfi_object_map_nothing(size_t size, void **ret_address) {
    int err = hfi_fault("mmap");
    if (err)
        return err;
    void *address = find_place(0, size);
    if (!address)
        address = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        return errno;
    *ret_address = address;
    return 0;
}

int
hfi_object_move(int fd, uint64_t offset, void *from, size_t size, void *to) {
#ifdef MREMAP_FIXED
    if (hfi_fault("mremap") == 0 &&
        mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
        return 0;
#endif
    void *there;
    int err = hfi_object_map(fd, offset, size, HFI_MAP_SHARED, to, &there);
    if (!err)
        hfi_object_unmap(from, size);
    return err;
}

int
hfi_object_set_aside(uint64_t offset, void *from, size_t size, void **ret_aside) {
#ifdef MREMAP_DONTUNMAP
    int err = hfi_fault("mremap");
    if (err)
        return err;
    /* Whole page tables are moved if both addresses have the same place in one. */
    void *place = find_place(offset, size);
    if (!place)
        return ENOMEM;
    void *aside = mremap(from, size, size,
                         MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, place);
    if (aside == MAP_FAILED) {
        err = errno;
        munmap(place, size);
        return err;
    }
    *ret_aside = aside;
    return 0;
#else
    (void)offset, (void)from, (void)size, (void)ret_aside;
    return ENOTSUP;
#endif
}

void
hfi_object_unmap(void *address, size_t size) {
    uintptr_t place = (uintptr_t)address;
    if (!address)
        return;
    munmap(address, size);
    if (size >= HUGE) /* otherwise the places would move down more and more */
        atomic_compare_exchange_strong(&last_place, &place, place + size);
}
