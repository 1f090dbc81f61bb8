/* own_pages.c - which pages of a fork are its own, and making some so in advance.
 *
 * After a fork each page of private memory is shared until one side writes to it, and
 * the first write is a fault that copies it: 3 to 4 us each. A Python process writes
 * wherever it counts references, so a worker forked from the template takes one to two
 * thousand such faults for the shortest of cells. But it is the same pages in each of
 * them: the template doesn't move.
 *
 * _own_pages(ranges) tells which pages of some ranges of memory nobody else maps (bit
 * 56 of /proc/self/pagemap), as runs. _copy_pages(runs) lets the kernel copy those in
 * another fork of the same parent, before they are written. It changes nothing that a
 * program can see: a range that isn't mapped, or can't be written, is passed over.
 * Where the system has neither, there are no runs and nothing is copied.
 *
 * Ranges and runs are bytes, pairs of native 64-bit words: address and length.
 */
#include "store_python.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    uint64_t address, size; /* bytes */
} range;

#ifdef __linux__
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PRESENT   (UINT64_C(1) << 63)
#define OF_FILE   (UINT64_C(1) << 61)
#define EXCLUSIVE (UINT64_C(1) << 56)

enum { BATCH = 4096 }; /* words of the pagemap read at once */

typedef struct {
    range *items; /* PyMem */
    size_t count, capacity;
    uint64_t page; /* bytes */
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
look_at(int pagemap, range of, runs *found) {
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
            if ((words[i] & (PRESENT | OF_FILE | EXCLUSIVE)) == (PRESENT | EXCLUSIVE) &&
                add_page(found, (first + i) * found->page) != 0)
                return -1;
        first += count;
    }
    return 0;
}

static int
look(const Py_buffer *ranges, runs *found) {
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0)
        return 0;
    found->page = (uint64_t)sysconf(_SC_PAGESIZE);
    int err = 0;
    for (Py_ssize_t at = 0; !err && at + (Py_ssize_t)sizeof(range) <= ranges->len;
         at += (Py_ssize_t)sizeof(range)) {
        range one;
        memcpy(&one, (const char *)ranges->buf + at, sizeof one);
        err = look_at(pagemap, one, found);
    }
    close(pagemap);
    return err;
}

static uint64_t
copy(range run) {
    return madvise((void *)(uintptr_t)run.address, (size_t)run.size,
                   MADV_POPULATE_WRITE) == 0
               ? run.size
               : 0;
}
#else
typedef struct {
    range *items;
    size_t count;
} runs;

static int
look(const Py_buffer *ranges, runs *found) {
    (void)ranges, (void)found;
    return 0;
}

static uint64_t
copy(range run) {
    (void)run;
    return 0;
}
#endif

PyObject *
hfi_own_pages(PyObject *module, PyObject *ranges) {
    (void)module;
    Py_buffer view;
    runs found = {0};
    if (PyObject_GetBuffer(ranges, &view, PyBUF_SIMPLE) != 0)
        return NULL;
    PyObject *result =
        look(&view, &found) == 0
            ? PyBytes_FromStringAndSize((const char *)found.items,
                                        (Py_ssize_t)(found.count * sizeof(range)))
            : PyErr_NoMemory();
    PyMem_Free(found.items);
    PyBuffer_Release(&view);
    return result;
}

PyObject *
hfi_copy_pages(PyObject *module, PyObject *wanted) {
    (void)module;
    Py_buffer view;
    uint64_t bytes = 0;
    if (PyObject_GetBuffer(wanted, &view, PyBUF_SIMPLE) != 0)
        return NULL;
    for (Py_ssize_t at = 0; at + (Py_ssize_t)sizeof(range) <= view.len;
         at += (Py_ssize_t)sizeof(range)) {
        range one;
        memcpy(&one, (const char *)view.buf + at, sizeof one);
        bytes += copy(one);
    }
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLongLong(bytes);
}
