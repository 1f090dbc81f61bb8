/* failing_calls.h - system calls and allocations that fail or kill at a chosen one.
 *
 * A test program is linked with failing_calls.c and with --wrap for each function in
 * it, so that every call of the store, and none of the C library's own, passes here.
 * For a Python interpreter there is a library to be preloaded, failing_preload.c. The
 * calls are counted from hft_calls_arm() on. What fails doesn't happen, except close()
 * and fclose(), which end what they are given in any case. Calls whose failure nobody
 * could answer (free, munmap, close) are places to be killed at, and don't fail.
 *
 * Allocations are counted, too: what a program has allocated and not freed.
 * Any thread; armed by one.
 */
#ifndef HFT_FAILING_CALLS_H
#define HFT_FAILING_CALLS_H

typedef struct hft_fault {
    int err;  /* errno of the failing call; 0: the process is killed there */
    int ever; /* all calls from there on fail, or only the one */
} hft_fault;

/* What is known of the calls since they were armed: in shared memory, so that it
 * outlives a process that is killed. */
typedef struct hft_calls {
    _Atomic long counted;
    _Atomic long failed;
    char name[32]; /* of the first that failed */
} hft_calls;

extern hft_calls *hft_calls_seen;

/* From now on the `at`-th call fails, 1 being the next one. 0: none does; they are only
 * counted. */
void hft_calls_arm(long at, hft_fault fault);
void hft_calls_disarm(void);
/* Go on after hft_calls_disarm(), with the count as it was. */
void hft_calls_resume(void);
/* Each wrapper asks: the errno with which this call fails, or 0. A call that can't fail
 * (`may_fail` is 0) is a place to be killed at only. */
int hft_calls_pass(const char *name, int may_fail);
/* Blocks that were allocated and not freed. */
long hft_calls_blocks(void);

/* Try each way in which calls fail or kill at one of `stride` calls, others for each
 * way; `try_point` returns 0 behind the last call. */
void hft_calls_try(long stride,
                   int (*try_point)(void *context, hft_fault fault, long at),
                   void *context);
/* Whether a scenario is wanted by a program's arguments: its name or "all"; without
 * arguments each is. */
int hft_calls_are_asked_for(const char *name, int argc, char **argv);

#endif
