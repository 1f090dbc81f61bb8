/* own_pages.c - finding the pages that a fork copies, and copying them in advance in
 * another fork.
 *
 * After a fork each page of private memory is shared until one side writes to it. The
 * first write is a fault that copies the page: 3 to 4 us. A Python process writes
 * wherever it counts references. So a worker forked from the fork server takes one to
 * two thousand such faults for the shortest of cells. But the pages are the same in
 * each worker: the fork server doesn't change.
 *
 * For mapped files a fork has no page tables at all. The code of a library faults again
 * in each process that runs it, once for 16 pages, although the pages are in memory.
 *
 * _own_pages(ranges) returns which pages of some ranges of memory no other process maps
 * (bit 56 of /proc/self/pagemap), as runs. _file_pages(ranges) returns which pages of
 * files are in this process's page tables. _copy_pages(runs) makes the kernel fill
 * these in another fork of the same parent, before they are needed: writable pages are
 * copied, for the others page tables are filled. A program can't see a difference, and
 * ranges that aren't mapped are skipped. If the system has neither, there are no runs
 * and nothing is copied.
 *
 * Ranges and runs are bytes, pairs of native 64-bit words: address and length.
 */
#include "module_functions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    uint64_t address, size; /* bytes */
} range;

#ifdef __linux__
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define PRESENT   (UINT64_C(1) << 63)
#define OF_FILE   (UINT64_C(1) << 61)
#define EXCLUSIVE (UINT64_C(1) << 56)

enum { BATCH = 4096 }; /* words of the pagemap read at once */

typedef struct {
    range *items; /* PyMem */
    size_t count, capacity;
    uint64_t page;         /* bytes */
    uint64_t mask, wanted; /* bits of a page's word that matter, and what they are */
} runs;

/* -1 without memory. */
static int
add_page(runs *found, uint64_t address) {
    range *last = found->count ? &found->items[found->count - 1] : NULL;
    if (last && last->address + last->size == address) {
        last->size += found->page;
        return 0;
    }
    if (found->count == found->capacity) {
        size_t capacity = found->capacity ? 2 * found->capacity : 256;
        range *items = PyMem_Realloc(found->items, capacity * sizeof *items);
        if (!items)
            return -1;
        found->items = items;
        found->capacity = capacity;
    }
    found->items[found->count++] = (range){address, found->page};
    return 0;
}

static int
look_at_range(int pagemap, range of, runs *found) {
    uint64_t words[BATCH];
    uint64_t first = of.address / found->page, end = first + of.size / found->page;
    while (first < end) {
        size_t wanted = end - first < BATCH ? (size_t)(end - first) : BATCH;
        ssize_t got = pread(pagemap, words, wanted * sizeof *words,
                            (off_t)(first * sizeof *words));
        if (got < (ssize_t)sizeof *words)
            return 0;
        size_t count = (size_t)got / sizeof *words;
        for (size_t i = 0; i < count; i++)
            if ((words[i] & found->mask) == found->wanted &&
                add_page(found, (first + i) * found->page) != 0)
                return -1;
        first += count;
    }
    return 0;
}

static int
look_at_ranges(const Py_buffer *ranges, runs *found) {
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0)
        return 0;
    found->page = (uint64_t)sysconf(_SC_PAGESIZE);
    int err = 0;
    for (Py_ssize_t at = 0; !err && at + (Py_ssize_t)sizeof(range) <= ranges->len;
         at += (Py_ssize_t)sizeof(range)) {
        range one;
        memcpy(&one, (const char *)ranges->buf + at, sizeof one);
        err = look_at_range(pagemap, one, found);
    }
    close(pagemap);
    return err;
}

/* The first call fails for memory that can't be written, such as code. The second one
 * works there. */
static uint64_t
copy_run(range run) {
    void *start = (void *)(uintptr_t)run.address;
    return madvise(start, (size_t)run.size, MADV_POPULATE_WRITE) == 0 ||
                   madvise(start, (size_t)run.size, MADV_POPULATE_READ) == 0
               ? run.size
               : 0;
}
#else
enum { PRESENT, OF_FILE, EXCLUSIVE }; /* of a pagemap; there is none */

typedef struct {
    range *items;
    size_t count;
    uint64_t mask, wanted;
} runs;

static int
look_at_ranges(const Py_buffer *ranges, runs *found) {
    (void)ranges, (void)found;
    return 0;
}

static uint64_t
copy_run(range run) {
    (void)run;
    return 0;
}
#endif

static PyObject *
pages_with(PyObject *ranges, uint64_t mask, uint64_t wanted) {
    Py_buffer view;
    runs found = {.mask = mask, .wanted = wanted};
    if (PyObject_GetBuffer(ranges, &view, PyBUF_SIMPLE) != 0)
        return NULL;
    PyObject *result =
        look_at_ranges(&view, &found) == 0
            ? PyBytes_FromStringAndSize((const char *)found.items,
                                        (Py_ssize_t)(found.count * sizeof(range)))
            : PyErr_NoMemory();
    PyMem_Free(found.items);
    PyBuffer_Release(&view);
    return result;
}

static PyObject *
own_pages(PyObject *module, PyObject *ranges) {
    (void)module;
    return pages_with(ranges, PRESENT | OF_FILE | EXCLUSIVE, PRESENT | EXCLUSIVE);
}

static PyObject *
file_pages(PyObject *module, PyObject *ranges) {
    (void)module;
    return pages_with(ranges, PRESENT | OF_FILE, PRESENT | OF_FILE);
}

static PyObject *
copy_pages(PyObject *module, PyObject *wanted) {
    (void)module;
    Py_buffer view;
    uint64_t bytes = 0;
    if (PyObject_GetBuffer(wanted, &view, PyBUF_SIMPLE) != 0)
        return NULL;
    for (Py_ssize_t at = 0; at + (Py_ssize_t)sizeof(range) <= view.len;
         at += (Py_ssize_t)sizeof(range)) {
        range one;
        memcpy(&one, (const char *)view.buf + at, sizeof one);
        bytes += copy_run(one);
    }
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLongLong(bytes);
}

PyMethodDef hfi_own_pages_functions[] = {
    {"_own_pages", own_pages, METH_O,
     "_own_pages(ranges): the pages there that no other process maps, as runs."},
    {"_file_pages", file_pages, METH_O,
     "_file_pages(ranges): the pages of files there that this process has met, as "
     "runs."},
    {"_copy_pages", copy_pages, METH_O,
     "_copy_pages(runs): let a fork have them in advance; how many bytes it has."},
    {NULL, NULL, 0, NULL}};
