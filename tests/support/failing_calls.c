/* failing_calls.c - the wrappers (failing_calls.h). */
#include "failing_calls.h"
#include "wrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

static _Atomic long blocks;

long
hft_calls_blocks(void) {
    return atomic_load(&blocks);
}

/* ---- allocations ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
char *__real_strdup(const char *text);
char *__real_realpath(const char *path, char *resolved);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
char *__wrap_realpath(const char *path, char *resolved);

static void *
count_block(void *block) {
    if (block)
        atomic_fetch_add(&blocks, 1);
    return block;
}

static int
has_no_memory(const char *name) {
    int err = hft_calls_pass(name, 1);
    if (err)
        errno = ENOMEM;
    return err != 0;
}

void *
__wrap_malloc(size_t size) {
    return has_no_memory("malloc") ? NULL : count_block(__real_malloc(size));
}

void *
__wrap_calloc(size_t count, size_t size) {
    return has_no_memory("calloc") ? NULL : count_block(__real_calloc(count, size));
}

void *
__wrap_realloc(void *block, size_t size) {
    if (has_no_memory("realloc"))
        return NULL;
    return block ? __real_realloc(block, size)
                 : count_block(__real_realloc(block, size));
}

void
__wrap_free(void *block) {
    if (block)
        atomic_fetch_sub(&blocks, 1);
    __real_free(block);
}

char *
__wrap_strdup(const char *text) {
    return has_no_memory("strdup") ? NULL : count_block(__real_strdup(text));
}

char *
__wrap_realpath(const char *path, char *resolved) {
    if ((errno = hft_calls_pass("realpath", 1)))
        return NULL;
    return count_block(__real_realpath(path, resolved));
}

/* ---- system calls ---- */

/* A function and its twin for large files, which is the same here. */
#define WRAP_BOTH(type, name, parameters, arguments, failed)                           \
    type __real_##name parameters;                                                     \
    type __wrap_##name parameters;                                                     \
    type __wrap_##name##64 parameters;                                                 \
    type __wrap_##name parameters {                                                    \
        int err = hft_calls_pass(#name, 1);                                            \
        if (err) {                                                                     \
            errno = err;                                                               \
            return failed;                                                             \
        }                                                                              \
        return __real_##name arguments;                                                \
    }                                                                                  \
    type __wrap_##name##64 parameters { return __wrap_##name arguments; }
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
WRAP_BOTH(int, mkstemp, (char *name), (name), -1)
WRAP_BOTH(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
WRAP_BOTH(off_t, ftello, (FILE *file), (file), -1)
WRAP(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size), -1)
WRAP(int, madvise, (void *at, size_t size, int advice), (at, size, advice), -1)
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
WRAP(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL)
WRAP(int, fflush, (FILE *file), (file), EOF)
WRAP(int, sched_getaffinity, (pid_t pid, size_t size, void *set), (pid, size, set), -1)
WRAP(int, pthread_create, (pthread_t *thread, const pthread_attr_t *attributes, void *(*begin)(void *), void *context), (thread, attributes, begin, context), err)
/* clang-format on */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
void *__real_mremap(void *from, size_t size, size_t wanted, int flags, ...);
void *__wrap_mremap(void *from, size_t size, size_t wanted, int flags, ...);

/* The store makes no file by open(), so there is never a mode. */
int
__wrap_open(const char *path, int flags, ...) {
    int err = hft_calls_pass("open", 1);
    if (!err)
        return __real_open(path, flags);
    errno = err;
    return -1;
}

int
__wrap_open64(const char *path, int flags, ...) {
    return __wrap_open(path, flags);
}

/* The last argument of these is one word, whatever it is. */
static uintptr_t
last_argument(va_list list) {
    return va_arg(list, uintptr_t);
}

int
__wrap_fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    uintptr_t argument = last_argument(list);
    va_end(list);
    int err = hft_calls_pass("fcntl", 1);
    if (!err)
        return __real_fcntl(fd, command, argument);
    errno = err;
    return -1;
}

int
__wrap_fcntl64(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    uintptr_t argument = last_argument(list);
    va_end(list);
    return __wrap_fcntl(fd, command, argument);
}

int
__wrap_ioctl(int fd, unsigned long request, ...) {
    va_list list;
    va_start(list, request);
    uintptr_t argument = last_argument(list);
    va_end(list);
    int err = hft_calls_pass("ioctl", 1);
    if (!err)
        return __real_ioctl(fd, request, argument);
    errno = err;
    return -1;
}

void *
__wrap_mremap(void *from, size_t size, size_t wanted, int flags, ...) {
    va_list list;
    va_start(list, flags);
    uintptr_t argument = last_argument(list);
    va_end(list);
    int err = hft_calls_pass("mremap", 1);
    if (!err)
        return __real_mremap(from, size, wanted, flags, argument);
    errno = err;
    return MAP_FAILED;
}

/* ---- streams: the flag that ferror() reads is set, too ---- */

size_t __real_fread(void *data, size_t size, size_t count, FILE *file);
size_t __wrap_fread(void *data, size_t size, size_t count, FILE *file);
size_t __real_fwrite(const void *data, size_t size, size_t count, FILE *file);
size_t __wrap_fwrite(const void *data, size_t size, size_t count, FILE *file);
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);

static void
fail_stream(FILE *file, int err) {
#ifdef __GLIBC__
    file->_flags |= 0x20; /* _IO_ERR_SEEN */
#endif
    errno = err;
}

size_t
__wrap_fread(void *data, size_t size, size_t count, FILE *file) {
    int err = hft_calls_pass("fread", 1);
    if (!err)
        return __real_fread(data, size, count, file);
    fail_stream(file, err);
    return 0;
}

size_t
__wrap_fwrite(const void *data, size_t size, size_t count, FILE *file) {
    int err = hft_calls_pass("fwrite", 1);
    if (!err)
        return __real_fwrite(data, size, count, file);
    fail_stream(file, err);
    return 0;
}

int
__wrap_fclose(FILE *file) {
    int err = hft_calls_pass("fclose", 1), result = __real_fclose(file);
    if (!err)
        return result;
    errno = err;
    return EOF;
}

/* ---- places to be killed at ---- */

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __real_close(int fd);
int __wrap_close(int fd);

int
__wrap_munmap(void *at, size_t size) {
    (void)hft_calls_pass("munmap", 0);
    return __real_munmap(at, size);
}

int
__wrap_close(int fd) {
    (void)hft_calls_pass("close", 0);
    return __real_close(fd);
}

/* ---- trying all ---- */

void
hft_calls_try(long stride, int (*try_point)(void *context, hft_fault fault, long at),
              void *context) {
    static const hft_fault faults[] = {
        {0, 0},      {ENOSPC, 0}, {ENOMEM, 0}, {EIO, 0}, {EINTR, 0},
        {EMFILE, 0}, {ENOSPC, 1}, {ENOMEM, 1}, {EIO, 1}, {EMFILE, 1},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        long at = 1 + (long)(i * 7) % stride;
        while (try_point(context, faults[i], at))
            at += stride;
    }
}

int
hft_calls_are_asked_for(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0 || strcmp(argv[i], "all") == 0)
            return 1;
    return argc == 1;
}
