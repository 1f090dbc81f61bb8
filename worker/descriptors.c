/* descriptors.c - the descriptors of a fork. They are arranged in the table that the fork
 * gets, before its process goes on: that may close a file and execute it. On Linux this is
 * the table of the helper that makes the fork (fork.c), which shares the process's memory
 * and has this table of its own.
 *
 * Places of files are noted in the process itself, since it may move on while the fork is
 * made. A file is opened again by the link that /proc has, so it needn't have a name.
 */
#include "descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int
is_kept(const hfi_descriptors *at, int fd) {
    for (size_t i = 0; i < at->move_count; i++)
        if (at->moves[i].to == fd)
            return 1;
    for (size_t i = 0; i < at->kept_count; i++)
        if (at->kept[i] == fd)
            return 1;
    return 0;
}

/* Put another descriptor in the place of this one. */
static int
replace_descriptor(int fd, int other) {
    int flags = fcntl(fd, F_GETFD);
    if (dup2(other, fd) < 0)
        return -1;
    if (flags >= 0)
        fcntl(fd, F_SETFD, flags);
    return 0;
}

#ifdef __linux__
#define OPEN_DESCRIPTORS "/proc/self/fd" /* without the link in /dev, too */
#else
#define OPEN_DESCRIPTORS "/dev/fd"
#endif

/* What is done with a descriptor; -1 ends the loop. */
typedef int descriptor_step(void *context, const hfi_descriptors *at, int fd);

/* Do it for each open descriptor above 2 that isn't kept. */
static int
for_each_other(const hfi_descriptors *at, descriptor_step *step, void *context) {
    DIR *list = opendir(OPEN_DESCRIPTORS);
    struct dirent *entry;
    int failed = !list;
    while (!failed && (entry = readdir(list)) != NULL) {
        int fd = *entry->d_name == '.' ? -1 : atoi(entry->d_name);
        if (fd > 2 && fd != dirfd(list) && !is_kept(at, fd))
            failed = step(context, at, fd) < 0;
    }
    int err = errno;
    if (list)
        closedir(list);
    errno = err;
    return failed ? -1 : 0;
}

/* ---- moving and closing ---- */

int
hfi_descriptors_move(const hfi_descriptors *at) {
    for (size_t i = 0; i < at->move_count; i++)
        if (dup2(at->moves[i].from, at->moves[i].to) < 0 ||
            (at->moves[i].to > 2 && fcntl(at->moves[i].to, F_SETFD, FD_CLOEXEC) != 0))
            return -1;
    return 0;
}

void
hfi_descriptors_close_moved(const hfi_descriptors *at) {
    for (size_t i = 0; i < at->move_count; i++)
        if (!is_kept(at, at->moves[i].from))
            close(at->moves[i].from);
}

static int
close_other(void *context, const hfi_descriptors *at, int fd) {
    (void)context, (void)at;
    close(fd);
    return 0;
}

int
hfi_descriptors_close_others(const hfi_descriptors *at) {
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0)
        return -1;
    if (null > 0)
        close(null);
    return for_each_other(at, close_other, NULL);
}

/* ---- a sleeping fork's ---- */

#ifdef __linux__
#define PLACES_STEP 32 /* the list grows by so many */

/* To open a file again by its link in /proc: it needn't have a name any more. */
static int
opening_flags(int fd) {
    return fcntl(fd, F_GETFL) & ~(O_NOFOLLOW | O_TMPFILE);
}

/* The same file by a description of the fork's own; -1. */
static int
open_anew(int fd, int flags) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

/* Note a file or directory, in the list that is the context. */
static int
add_place(void *context, const hfi_descriptors *at, int fd) {
    hfi_descriptors *noted = context;
    struct stat st;
    (void)at;
    if (fstat(fd, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return 0;
    if (noted->place_count % PLACES_STEP == 0) {
        size_t room = noted->place_count + PLACES_STEP;
        hfi_file_place *places = realloc(noted->places, room * sizeof *noted->places);
        if (!places) {
            errno = ENOMEM;
            return -1;
        }
        noted->places = places;
    }
    noted->places[noted->place_count++] =
        (hfi_file_place){fd, opening_flags(fd), lseek(fd, 0, SEEK_CUR)};
    return 0;
}

int
hfi_descriptors_note_places(hfi_descriptors *at) {
    return for_each_other(at, add_place, at);
}

static int
has_place(const hfi_descriptors *at, int fd) {
    for (size_t i = 0; i < at->place_count; i++)
        if (at->places[i].fd == fd)
            return 1;
    return 0;
}

/* -1 if it is held still, whatever it is. */
static int
give_up_descriptor(void *context, const hfi_descriptors *at, int fd) {
    const int nothing = *(const int *)context;
    struct stat st;
    if (fd == nothing)
        return 0;
    if (fstat(fd, &st) != 0)
        return errno == EBADF ? 0 : -1;
    if (S_ISCHR(st.st_mode) && !isatty(fd))
        return 0;
    int path = has_place(at, fd) ? open_anew(fd, O_PATH) : -1;
    int failed = replace_descriptor(fd, path >= 0 ? path : nothing);
    int err = errno;
    if (path >= 0)
        close(path);
    errno = err;
    return failed;
}

int
hfi_descriptors_give_up(const hfi_descriptors *at) {
    int nothing = open("/dev/null", O_PATH | O_CLOEXEC);
    if (nothing < 0)
        return -1;
    int failed = for_each_other(at, give_up_descriptor, &nothing);
    int err = errno;
    close(nothing);
    errno = err;
    return failed;
}

void
hfi_descriptors_open_files(const hfi_descriptors *at) {
    for (size_t i = 0; i < at->place_count; i++) {
        const hfi_file_place *place = &at->places[i];
        if (place->flags & O_PATH)
            continue;
        int fd = open_anew(place->fd, place->flags);
        if (fd < 0)
            continue;
        lseek(fd, place->offset, SEEK_SET);
        (void)replace_descriptor(place->fd, fd);
        close(fd);
    }
}
#else /* a sleeping fork shares all descriptors there */
int
hfi_descriptors_note_places(hfi_descriptors *at) {
    (void)at;
    return 0;
}

int
hfi_descriptors_give_up(const hfi_descriptors *at) {
    (void)at;
    return 0;
}

void
hfi_descriptors_open_files(const hfi_descriptors *at) {
    (void)at;
}
#endif
