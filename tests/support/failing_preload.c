/* failing_preload.c - failing_calls.h for a Python interpreter: a library for LD_PRELOAD.
 *
 * Two kinds of calls can fail, one kind at a time:
 *
 *   calls    the system calls of the whole process, be they the extension's, the store's
 *            in it, or the interpreter's; and the allocations of the C library by the
 *            extension. Those by the interpreter itself, some of which it can't survive,
 *            pass.
 *   objects  the allocations by which Python gets memory for objects and for its own
 *            data, wherever they come from. They fail once.
 *
 * Blocks are counted that the extension gets, until somebody frees them. A call is the extension's if it
 * returns into the file `_store.*.so`.
 *
 * tests/support/failing_python.py loads it, and calls what is exported here by ctypes.
 */
#include "failing_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HFT_OTHERS_ENDED = 77 };

/* ---- whose call it is ---- */

static uintptr_t extension_begin, extension_end;
static int fails_objects; /* or calls */

static int
note_extension(struct dl_phdr_info *info, size_t size, void *context) {
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size, (void)context;
    if (!name || strncmp(name, "/_store.", 8) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            extension_begin = extension_begin ? extension_begin : begin;
            extension_end = begin + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

static int
is_extension(const void *caller) {
    return (uintptr_t)caller - extension_begin < extension_end - extension_begin;
}
#define IS_EXTENSION is_extension(__builtin_return_address(0))

static int
pass(const char *name, int may_fail) {
    return fails_objects ? 0 : hft_calls_pass(name, may_fail);
}

/* ---- allocations of the C library ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

/* The extension's blocks, by address: each stands in one of some places that follow the
 * one where its address leads. A block for which they are all taken isn't counted. */
enum { PLACES = 1 << 16, NEARBY = 16 };
static _Atomic uintptr_t places[PLACES];
static _Atomic long blocks;

static int
replace_block(void *block, uintptr_t from, uintptr_t to) {
    size_t place = ((uintptr_t)block >> 4) * 0x9e3779b1u;
    for (size_t i = 0; i < NEARBY; i++) {
        uintptr_t there = from;
        if (atomic_compare_exchange_strong(&places[(place + i) % PLACES], &there, to))
            return 1;
    }
    return 0;
}

static void *
count_block(void *block) {
    if (block && replace_block(block, 0, (uintptr_t)block))
        atomic_fetch_add(&blocks, 1);
    return block;
}

/* Whoever frees it; 1 if it was the extension's. */
static int
forget_block(void *block) {
    int known = block && replace_block(block, (uintptr_t)block, 0);
    if (known)
        atomic_fetch_sub(&blocks, 1);
    return known;
}

static int
has_no_memory(const char *name) {
    if (!pass(name, 1))
        return 0;
    errno = ENOMEM;
    return 1;
}

void *
malloc(size_t size) {
    if (!IS_EXTENSION)
        return __libc_malloc(size);
    return has_no_memory("malloc") ? NULL : count_block(__libc_malloc(size));
}

void *
calloc(size_t count, size_t size) {
    if (!IS_EXTENSION)
        return __libc_calloc(count, size);
    return has_no_memory("calloc") ? NULL : count_block(__libc_calloc(count, size));
}

void *
realloc(void *block, size_t size) {
    if (IS_EXTENSION && has_no_memory("realloc"))
        return NULL;
    int known = forget_block(block);
    void *moved = __libc_realloc(block, size);
    return known || (IS_EXTENSION && !block) ? count_block(moved) : moved;
}

void
free(void *block) {
    forget_block(block);
    __libc_free(block);
}

int
posix_memalign(void **ret_block, size_t alignment, size_t size) {
    if (IS_EXTENSION && has_no_memory("posix_memalign"))
        return ENOMEM;
    void *block = __libc_memalign(alignment, size);
    if (!block)
        return ENOMEM;
    *ret_block = IS_EXTENSION ? count_block(block) : block;
    return 0;
}

char *
strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy;
    if (!IS_EXTENSION)
        copy = __libc_malloc(size);
    else
        copy = has_no_memory("strdup") ? NULL : count_block(__libc_malloc(size));
    return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- system calls ---- */

#define NEXT(name)                                                                     \
    static __typeof__(name) *next;                                                     \
    if (!next)                                                                         \
    *(void **)&next = dlsym(RTLD_NEXT, #name)

#define WRAP(type, name, parameters, arguments, failed)                                \
    type name parameters {                                                             \
        NEXT(name);                                                                    \
        int err = pass(#name, 1);                                                      \
        if (err) {                                                                     \
            errno = err;                                                               \
            return failed;                                                             \
        }                                                                              \
        return next arguments;                                                         \
    }
/* A function and its twin for large files, which is the same here. */
#define WRAP_BOTH(type, name, parameters, arguments, failed)                           \
    WRAP(type, name, parameters, arguments, failed)                                    \
    type hft_##name##_large parameters __asm__(#name "64");                            \
    type hft_##name##_large parameters { return name arguments; }

/* clang-format off */
WRAP_BOTH(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset), (at, size, protection, flags, fd, offset), MAP_FAILED)
WRAP_BOTH(ssize_t, pread, (int fd, void *data, size_t size, off_t offset), (fd, data, size, offset), -1)
WRAP_BOTH(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t offset), (fd, parts, count, offset), -1)
WRAP_BOTH(int, posix_fallocate, (int fd, off_t offset, off_t size), (fd, offset, size), err)
WRAP_BOTH(int, fallocate, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size), -1)
WRAP_BOTH(int, ftruncate, (int fd, off_t size), (fd, size), -1)
WRAP_BOTH(int, fstat, (int fd, struct stat *st), (fd, st), -1)
WRAP_BOTH(int, stat, (const char *path, struct stat *st), (path, st), -1)
WRAP_BOTH(int, statvfs, (const char *path, struct statvfs *fs), (path, fs), -1)
WRAP_BOTH(off_t, lseek, (int fd, off_t offset, int whence), (fd, offset, whence), -1)
WRAP_BOTH(int, mkstemp, (char *name), (name), -1)
WRAP_BOTH(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
WRAP_BOTH(off_t, ftello, (FILE *file), (file), -1)
WRAP(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size), -1)
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), -1)
WRAP(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags), -1)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1)
WRAP(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags), -1)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1)
WRAP(int, poll, (struct pollfd *fds, nfds_t count, int timeout_ms), (fds, count, timeout_ms), -1)
WRAP(int, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds), -1)
WRAP(int, pipe2, (int fds[2], int flags), (fds, flags), -1)
WRAP(int, dup2, (int fd, int other), (fd, other), -1)
WRAP(int, madvise, (void *at, size_t size, int advice), (at, size, advice), -1)
WRAP(int, mprotect, (void *at, size_t size, int protection), (at, size, protection), -1)
WRAP(int, shm_open, (const char *name, int flags, mode_t mode), (name, flags, mode), -1)
WRAP(int, shm_unlink, (const char *name), (name), -1)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
WRAP(int, flock, (int fd, int how), (fd, how), -1)
WRAP(int, fsync, (int fd), (fd), -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), -1)
WRAP(int, unlink, (const char *path), (path), -1)
WRAP(int, getentropy, (void *data, size_t size), (data, size), -1)
WRAP(DIR *, opendir, (const char *path), (path), NULL)
WRAP(ssize_t, readlink, (const char *path, char *text, size_t size), (path, text, size), -1)
WRAP(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL)
WRAP(int, fflush, (FILE *file), (file), EOF)
WRAP(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *set), (pid, size, set), -1)
WRAP(int, pthread_create, (pthread_t *thread, const pthread_attr_t *attributes, void *(*begin)(void *), void *context), (thread, attributes, begin, context), err)
WRAP(pid_t, fork, (void), (), -1)
/* clang-format on */

/* The last argument of these is one word, whatever it is, or none. */
#define LAST(after)                                                                    \
    va_list list;                                                                      \
    va_start(list, after);                                                             \
    uintptr_t last = va_arg(list, uintptr_t);                                          \
    va_end(list)
#define WRAP_LAST(type, name, parameters, after, arguments, failed)                    \
    type name parameters {                                                             \
        LAST(after);                                                                   \
        NEXT(name);                                                                    \
        int err = pass(#name, 1);                                                      \
        if (err) {                                                                     \
            errno = err;                                                               \
            return failed;                                                             \
        }                                                                              \
        return next arguments;                                                         \
    }

int open64(const char *path, int flags, ...);
int fcntl64(int fd, int command, ...);

/* clang-format off */
WRAP_LAST(int, open, (const char *path, int flags, ...), flags, (path, flags, last), -1)
WRAP_LAST(int, open64, (const char *path, int flags, ...), flags, (path, flags, last), -1)
WRAP_LAST(int, fcntl, (int fd, int command, ...), command, (fd, command, last), -1)
WRAP_LAST(int, fcntl64, (int fd, int command, ...), command, (fd, command, last), -1)
WRAP_LAST(int, ioctl, (int fd, unsigned long request, ...), request, (fd, request, last), -1)
WRAP_LAST(void *, mremap, (void *from, size_t size, size_t wanted, int flags, ...), flags, (from, size, wanted, flags, last), MAP_FAILED)
WRAP_LAST(int, clone, (int (*begin)(void *), void *stack, int flags, void *context, ...), context, (begin, stack, flags, context, last), -1)
/* clang-format on */

/* It fails by a signal, and in no other way. */
pid_t
waitpid(pid_t pid, int *status, int options) {
    NEXT(waitpid);
    int err = pass("waitpid", 1);
    if (err != EINTR)
        return next(pid, status, options);
    errno = err;
    return -1;
}

/* ---- streams: the flag that ferror() reads is set, too ---- */

static void
fail_stream(FILE *file, int err) {
#ifdef __GLIBC__
    file->_flags |= 0x20; /* _IO_ERR_SEEN */
#endif
    errno = err;
}

size_t
fread(void *data, size_t size, size_t count, FILE *file) {
    NEXT(fread);
    int err = pass("fread", 1);
    if (!err)
        return next(data, size, count, file);
    fail_stream(file, err);
    return 0;
}

size_t
fwrite(const void *data, size_t size, size_t count, FILE *file) {
    NEXT(fwrite);
    int err = pass("fwrite", 1);
    if (!err)
        return next(data, size, count, file);
    fail_stream(file, err);
    return 0;
}

int
fclose(FILE *file) {
    NEXT(fclose);
    int err = pass("fclose", 1), result = next(file);
    if (!err)
        return result;
    errno = err;
    return EOF;
}

/* ---- places to be killed at ---- */

int
munmap(void *at, size_t size) {
    NEXT(munmap);
    (void)pass("munmap", 0);
    return next(at, size);
}

int
close(int fd) {
    NEXT(close);
    (void)pass("close", 0);
    return next(fd);
}

/* ---- Python's allocations ---- */

/* PyMemAllocatorEx and PyMemAllocatorDomain of CPython's stable documentation. */
typedef struct python_allocator {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *block, size_t size);
    void (*free)(void *context, void *block);
} python_allocator;
enum { PYTHON_MEMORY = 1, PYTHON_OBJECTS = 2 };

static python_allocator originals[3];

static int
has_no_object(void) {
    return fails_objects && hft_calls_pass("an object", 1);
}

static void *
object_malloc(void *context, size_t size) {
    python_allocator *at = context;
    return has_no_object() ? NULL : at->malloc(at->context, size);
}

static void *
object_calloc(void *context, size_t count, size_t size) {
    python_allocator *at = context;
    return has_no_object() ? NULL : at->calloc(at->context, count, size);
}

static void *
object_realloc(void *context, void *block, size_t size) {
    python_allocator *at = context;
    return has_no_object() ? NULL : at->realloc(at->context, block, size);
}

static void
object_free(void *context, void *block) {
    python_allocator *at = context;
    at->free(at->context, block);
}

/* ---- defects of others ---- */

/* CPython 3.11 releases an iterator over a dict's items, for which it has no memory, in a
 * way that ends the process; NumPy puts values into a dict that it hasn't got. Such an
 * end, in code that the extension hasn't called itself, has a status of its own; any
 * other one stays what it is. */
static void
on_segv(int number) {
    void *frames[24]; /* this one, the kernel's, where it was, and its callers */
    int depth = backtrace(frames, 24), is_ours = depth < 5;
    for (int i = 2; i < depth && i < 5; i++)
        is_ours |= is_extension(frames[i]);
    if (!is_ours)
        _exit(HFT_OTHERS_ENDED);
    backtrace_symbols_fd(frames, depth, 2);
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- what a test calls ---- */

void hft_preload_begin(hft_calls *seen);
void hft_preload_arm(long at, int err, int ever, int objects);
void hft_preload_disarm(void);
long hft_preload_blocks(void);

/* Once, when the extension is loaded; `seen` is shared with the forks. */
void
hft_preload_begin(hft_calls *seen) {
    void (*get)(int, python_allocator *), (*set)(int, python_allocator *);
    *(void **)&get = dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
    *(void **)&set = dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
    void *frames[1];
    backtrace(frames, 1); /* loads what it needs */
    signal(SIGSEGV, on_segv);
    hft_calls_seen = seen;
    dl_iterate_phdr(note_extension, NULL);
    for (int domain = PYTHON_MEMORY; domain <= PYTHON_OBJECTS; domain++) {
        python_allocator own = {&originals[domain], object_malloc, object_calloc,
                                object_realloc, object_free};
        get(domain, &originals[domain]);
        set(domain, &own);
    }
}

void
hft_preload_arm(long at, int err, int ever, int objects) {
    fails_objects = objects;
    hft_calls_arm(at, (hft_fault){err, ever});
}

void
hft_preload_disarm(void) {
    hft_calls_disarm();
}

long
hft_preload_blocks(void) {
    return atomic_load(&blocks);
}
