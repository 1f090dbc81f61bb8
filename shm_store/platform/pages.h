/* pages.h - pages of mappings: which are private copies; page tables filled in bulk.
 *
 * Threads: any; the memory's owner decides who may write meanwhile.
 */
#ifndef HFI_PAGES_H
#define HFI_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* ---- pages.c: which pages of a private mapping are copies of this process ---- */

enum hfi_pages_way { HFI_PAGES_SCAN = 1, HFI_PAGES_PAGEMAP = 2, HFI_PAGES_COMPARE = 3 };

typedef struct hfi_run {
    size_t first; /* pages, from the start of the range */
    size_t count;
} hfi_run;

typedef struct hfi_page_runs {
    hfi_run *items; /* malloc'ed, in order, never touching each other */
    size_t count, capacity;
    size_t pages;
} hfi_page_runs;

void hfi_page_runs_fini(hfi_page_runs *runs);
/* Append, joining with the run before. 0 or ENOMEM. */
int hfi_page_runs_add(hfi_page_runs *runs, size_t first, size_t count);

/* The way that this machine supports: found by trying, once. */
enum hfi_pages_way hfi_pages_best_way(void);
/* A descriptor for hfi_pages_changed, of this process only (not of its forks), or -1 if
 * there is none. Opening it takes longer than a small scan. */
int hfi_pages_open(void);
/* Append the private pages of [address, address + size), numbered from `base`.
 * `original` holds the same bytes as they were, for HFI_PAGES_COMPARE. 0 or an
 * errno. */
int hfi_pages_changed(enum hfi_pages_way way, int fd, const void *address, size_t size,
                      size_t page, const void *original, size_t base,
                      hfi_page_runs *runs);
/* Whether each page of a range is in the page tables; 0 if the kernel can't scan. */
int hfi_pages_all_present(int fd, const void *address, size_t size);
/* The size of the huge pages that hfi_pages_allocate gets for the object, or 0. Tried
 * at `offset`, where the object must end. */
size_t hfi_pages_huge(int fd, uint64_t offset);
/* Give memory to the holes of a shared mapping: in pages of `huge` bytes if possible,
 * and as long as they take no longer than small pages would. 0, or an errno if there is
 * no memory; then some holes may have got theirs. */
int hfi_pages_allocate(void *address, size_t size, size_t huge);
/* The extra time that huge pages may take over small ones, for a range of this size. */
typedef struct hfi_huge_budget {
    _Atomic int64_t left_ns; /* below 0: none are tried */
    int64_t most_ns;
    _Atomic int64_t page_ns; /* the least time of a small one */
} hfi_huge_budget;

hfi_huge_budget hfi_pages_budget(size_t size);
/* Make huge pages for a stretch of such a mapping, a multiple of `huge`. 1 if it has
 * them now. If not, it may have got a first small page. All stretches of a range share
 * one budget, in all threads. */
int hfi_pages_make_huge(void *address, size_t size, size_t huge,
                        hfi_huge_budget *budget);
/* The clock of these timings, in ns; tests set their own. */
extern uint64_t (*hfi_pages_clock)(void);

/* ---- populate.c: page tables filled in bulk ---- */

/* Fault pages in: for reading without copies, or for writing. Best effort; other
 * threads may use the memory meanwhile. */
void hfi_pages_populate(void *address, size_t size, int write);
/* Take a shared mapping out of the page tables. Other threads may use it meanwhile;
 * nothing that they wrote is lost, since it is in the object. */
void hfi_pages_drop(void *address, size_t size);

#endif
