/* family.h - a set of processes with all that they start, and what they have used. */
#ifndef HFI_FAMILY_H
#define HFI_FAMILY_H

#include <sys/types.h>

#include "holdfast/monitor.h"
#include "monitor/usage.h"

/* One thread at a time. */
typedef struct hfi_family hfi_family;

/* NULL where there is no memory. The first is empty; the second has all processes of
 * the user, those that come later too, and nothing is added to it or taken out: with
 * `variable`, which is kept, those that have it in their environment, "NAME=VALUE". */
hfi_family *hfi_family_create(void);
hfi_family *hfi_family_create_of_user(uid_t uid, const char *variable);
void hfi_family_close(hfi_family *family);

/* From now on this process, and what it starts, counts; what they have used so far
 * doesn't. Nothing happens where it counts already, or is gone. */
void hfi_family_add(hfi_family *family, pid_t pid);
/* It and its descendants no longer count; what they have used does. */
void hfi_family_remove(hfi_family *family, pid_t pid);
/* It has ended and was waited for by somebody who doesn't count: what it had used in
 * the end, with its children; `io` is the text of its file in /proc, or NULL. */
void hfi_family_bury(hfi_family *family, pid_t pid, double cpu_seconds, const char *io);
/* A member reports what the children that it has waited for have used, in ns: others
 * get that from the system in hundredths of a second only. */
void hfi_family_tell(hfi_family *family, pid_t pid, double children_ns);

/* Look for descendants that are new; unless `force` only where processes were started
 * since the last look, which is 20 ms ago or more. */
void hfi_family_search(hfi_family *family, int force);
/* What all have used. */
void hfi_family_read(hfi_family *family, hf_monitor_reading *ret_reading);
/* The proportional and unique set sizes of all, in bytes; NaN where none is known. */
void hfi_family_weigh(const hfi_family *family, double *ret_pss, double *ret_uss);
/* 0 for NULL. */
int hfi_family_has(const hfi_family *family, pid_t pid);
/* What one of them had used by the last reading; all 0 where it isn't one. */
hfi_usage hfi_family_usage_of(const hfi_family *family, pid_t pid);
/* The first of them; how many were given. */
size_t hfi_family_pids(const hfi_family *family, int32_t *ret_pids, size_t size);

#endif
