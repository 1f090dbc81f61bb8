/* tuning.h - preparing memory in a process that waits for a cell.
 *
 * For the workers of this source tree (bindings/store/preparation.c), which know what
 * the last cells took and have time between cells. It isn't a part of the library's
 * interface: what is worth preparing, and how, changes with the engine. engine/block.c,
 * engine/preallocate.c, engine/prefill.c, engine/aside.c, engine/unshare.c,
 * engine/wait.c and engine/session.c implement it.
 */
#ifndef HFI_TUNING_H
#define HFI_TUNING_H

#include "holdfast/store.h"

/* Whether there is a region of HFI_LARGE bytes or more. If not, the functions below
 * aren't worth their time. Any thread. */
#define HFI_LARGE ((size_t)1 << 20)
int hfi_session_has_large_regions(hf_session *session);
/* Remove page tables that were set aside when regions became private (aside.c), of up
 * to `size` bytes: for a process that waits. Returns whether there are more. Any
 * thread. */
int hfi_session_drop_aside(hf_session *session, size_t size);
/* Take the blocks that are kept for later out of this process's page tables, before its
 * memory is looked at. The next one of their size gets them back, at an eighth of the
 * cost of fresh memory. Returns the bytes of preallocated ones, which stay. Any
 * thread. */
uint64_t hfi_session_leave_cache(hf_session *session);
/* From now on a commit leaves out pages that were written with the bytes that they
 * already had. They stay private, and each commit compares them again: for a process
 * that makes one commit and leaves. For the thread that commits. */
void hfi_session_compare_pages(hf_session *session);
/* As hf_region_unshare, but HF_NOT_FOUND (without a message) if there are only fresh
 * pages: they cost ten times the copy, so it is faster to copy a few written pages one
 * by one. */
HF_CHECK hf_status hfi_region_unshare_recycled(hf_region *region, hf_error *reterr);
/* Sizes in bytes of the blocks that regions of this process have taken and that were new
 * to it: the first HFI_TAKEN_MAX of a MiB or more since the last call. Returns their
 * number. Any thread. */
#define HFI_TAKEN_MAX 64
size_t hfi_session_taken(hf_session *session, size_t ret_sizes[HFI_TAKEN_MAX]);
/* Prepare blocks of these sizes, with memory and page tables, for regions that are
 * reserved later. No process gives memory up for it: if memory is short, there are
 * fewer blocks. `ret_bytes`: how much it is. Any thread. HF_E_SYSTEM, HF_E_LIMIT,
 * HF_E_GONE. Locks. */
HF_CHECK hf_status hfi_session_preallocate(hf_session *session, const size_t *sizes,
                                           size_t count, uint64_t *ret_bytes,
                                           hf_error *reterr);
/* Get memory for free space of the arena, enough for blocks of these sizes at once: for
 * a process that waits. hfi_session_prefill begins. hfi_session_prefill_some allocates
 * up to `bytes` of what is missing, and `ret_more` is 1 while there may be more to do.
 * hfi_session_prefill_end makes it free space, which any process may take. It is at
 * most a 32nd of the memory that this process may have and a 16th of its free part. No
 * process gives memory up for it. One thread at a time. HF_E_SYSTEM, HF_E_LIMIT,
 * HF_E_GONE. Locks. */
void hfi_session_prefill(hf_session *session, const size_t *sizes, size_t count);
HF_CHECK hf_status hfi_session_prefill_some(hf_session *session, size_t bytes,
                                            int *ret_more, hf_error *reterr);
void hfi_session_prefill_end(hf_session *session);
/* What the machine offers, found by trying, for reports: the size of huge pages in the
 * session's memory (0: there are none), and how written pages are found: 1 by
 * PAGEMAP_SCAN, 2 by a word of /proc/self/pagemap for each, 3 by comparing their bytes.
 * Any thread. */
void hfi_session_means(hf_session *session, uint64_t *ret_huge_size, int *ret_way);

/* ---- waiting, for a language whose threads end a wait ---- */

/* hf_session_wait until a time of the monotonic clock, which hfi_session_wait_deadline
 * gives, and HF_AGAIN (without a message) if hfi_session_wake woke it. */
HF_CHECK hf_status hfi_session_wait_once(hf_session *session, uint64_t generation,
                                         int64_t deadline_ns, hf_error *reterr);
int64_t hfi_session_wait_deadline(int64_t timeout_ms);
/* Wake all waits of all processes; those of hf_session_wait sleep again. Any thread. */
void hfi_session_wake(hf_session *session);

#endif
