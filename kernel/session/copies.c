/* copies.c - counts the pages that a process copies because a sleeping fork shares them.
 *
 * copies.h says how, and why both numbers are bounds. Rejected:
 * - the page map of the process (PAGEMAP_SCAN): it tells written pages, and not whether
 *   one was copied; and who asks has to be the process itself
 * - perf events of copies: most machines don't allow them
 * - its processor time in the system: ticks of 10 ms, and all system calls are in it
 *
 * The time of a copy is measured on a private mapping of a file: the first write to a
 * page that was read takes the same way through Linux as one after a fork. So nothing
 * has to be forked for it. No state but the caller's, and that time. One thread.
 */
#include "session/copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workers/program.h"

#define SAMPLES       33
#define PAGE_NS_LEAST 250
#define PAGE_NS_MOST  8000 /* measured while others had the processor */
#define PAGE_NS_USUAL 1000
#define BEFORE_FAULTS 7  /* words of /proc/PID/stat between the name and the faults */
#define BEFORE_MEMORY 13 /* and between them and the resident pages */

/* ---- what both have ---- */

static int
read_stat(const hfi_copies *copies, uint64_t *ret_faults, uint64_t *ret_resident) {
    char text[1024];
    if (hfi_procfile_read(&copies->stat, text, sizeof text) <= 0)
        return 0;
    const char *at = strrchr(text, ')'); /* the program's name may have any character */
    if (at == NULL)
        return 0;
    *ret_faults = hfi_procfile_number(hfi_procfile_skip(at + 1, BEFORE_FAULTS), &at);
    *ret_resident = hfi_procfile_number(hfi_procfile_skip(at, BEFORE_MEMORY), NULL);
    return 1;
}

/* The pages that the fork shares with nobody; UINT64_MAX if nobody says. */
static uint64_t
read_alone(const hfi_copies *copies) {
    char path[64], text[2048];
    uint64_t clean = 0, dirty = 0;
    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", (long)copies->fork);
    if (hfi_procfile_read_once(path, text, sizeof text) <= 0 ||
        !hfi_procfile_find(text, "Private_Clean:", &clean) ||
        !hfi_procfile_find(text, "Private_Dirty:", &dirty))
        return UINT64_MAX;
    return (clean + dirty) * 1024 / (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- the count ---- */

void
hfi_copies_begin(hfi_copies *copies, pid_t process, pid_t fork) {
    char path[64];
    hfi_copies_end(copies);
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process);
    if (!hfi_procfile_open(&copies->stat, path))
        return;
    copies->fork = fork;
    hfi_copies_restart(copies);
}

void
hfi_copies_end(hfi_copies *copies) {
    hfi_procfile_close(&copies->stat);
    *copies = (hfi_copies)HFI_COPIES_INIT;
}

void
hfi_copies_restart(hfi_copies *copies) {
    copies->confirm = copies->pages = 0;
    if (!read_stat(copies, &copies->faults, &copies->resident))
        hfi_copies_end(copies);
}

uint64_t
hfi_copies_count(hfi_copies *copies, uint64_t least) {
    uint64_t faults, resident;
    if (!read_stat(copies, &faults, &resident))
        return 0;
    uint64_t grown = resident > copies->resident ? resident - copies->resident : 0;
    uint64_t most = faults - copies->faults;
    most = most > grown ? most - grown : 0;
    if (most < least)
        return most;
    if (most >= copies->confirm) {
        uint64_t alone = read_alone(copies);
        copies->pages = alone < most ? alone : most;
        copies->confirm = most + most / 2;
    }
    return copies->pages;
}

/* ---- the time of one ---- */

static int
compare_times(const void *one, const void *other) {
    long long a = *(const long long *)one, b = *(const long long *)other;
    return (a > b) - (a < b);
}

/* Write to pages of a private mapping, each of which is copied then as after a fork: the
 * median, or 0 if that can't be tried. */
static long long
measure_page_ns(void) {
#ifdef __linux__
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    long long times_ns[SAMPLES], median_ns = 0;
    int fd = memfd_create("holdfast-copies", MFD_CLOEXEC);
    char *pages = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)(SAMPLES * page)) == 0)
        pages = mmap(NULL, SAMPLES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (pages == MAP_FAILED)
        return 0;
    for (size_t i = 0; i < SAMPLES; i++) {
        volatile char *at = pages + i * page;
        char byte = *at; /* now it is mapped */
        long long begin_ns = hfi_clock_ns();
        *at = (char)(byte + 1);
        times_ns[i] = hfi_clock_ns() - begin_ns;
    }
    munmap(pages, SAMPLES * page);
    qsort(times_ns, SAMPLES, sizeof *times_ns, compare_times);
    median_ns = times_ns[SAMPLES / 2];
    return median_ns;
#else
    return 0;
#endif
}

long long
hfi_copies_page_ns(void) {
    static long long page_ns;
    if (page_ns == 0) {
        page_ns = measure_page_ns();
        if (page_ns <= 0)
            page_ns = PAGE_NS_USUAL;
        page_ns = page_ns < PAGE_NS_LEAST  ? PAGE_NS_LEAST
                  : page_ns > PAGE_NS_MOST ? PAGE_NS_MOST
                                           : page_ns;
    }
    return page_ns;
}
