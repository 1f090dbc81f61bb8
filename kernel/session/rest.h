/* rest.h - idle work: commits, freeing memory, checksums.
 *
 * Work that needs a pause is done when no cell has run for a moment; freeing memory and
 * making checksums wait for a longer rest.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_REST_H
#define HFI_REST_H

#include "session/session.h"

extern const hfi_owner hfi_rest_owner;
void hfi_rest_tick(hf_kernel *kernel, long long now_ns);
long long hfi_rest_deadline_ns(const hf_kernel *kernel);
/* After a moment without work the main worker commits. Then a fork is made for the next
 * recorded cell, and the fork server imports. */
void hfi_rest_moment_tick(hf_kernel *kernel, long long now_ns);
long long hfi_rest_moment_deadline_ns(const hf_kernel *kernel);
/* Give back memory that processes have freed and not used for a second. */
void hfi_rest_unused_tick(hf_kernel *kernel, long long now_ns);
long long hfi_rest_unused_deadline_ns(const hf_kernel *kernel);
/* Before the next commit the notebook has to be idle for so long. -1: the commit waits
 * for a cell that needs it, or for the rest. */
void hfi_rest_delay_commits(hf_kernel *kernel, long long delay_ns);
/* Something has just ended: count the idle time from now. */
void hfi_rest_used(hf_kernel *kernel);
/* A client's request ends the rest. */
hfi_listener hfi_rest_hear;

#endif
