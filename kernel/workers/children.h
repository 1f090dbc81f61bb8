/* children.h - processes whose parent this process is, and how they ended.
 *
 * Threads: any, but one thread should do all the waiting.
 */
#ifndef HFI_CHILDREN_H
#define HFI_CHILDREN_H

#include <sys/types.h>

#define HFI_EXIT_IO_SIZE   512
#define HFI_EXIT_NAME_SIZE 32

/* How a process ended, and what it had used by then. */
typedef struct hfi_exit {
    pid_t pid;
    int status;                    /* raw wait status */
    int is_workers;                /* a worker, also one that was given up before */
    double cpu_seconds;            /* with those of its children that it waited for */
    char io[HFI_EXIT_IO_SIZE];     /* of its file io in /proc; "": unknown */
    char name[HFI_EXIT_NAME_SIZE]; /* of its file comm, with a newline; likewise */
} hfi_exit;

/* Become the parent of every descendant whose own parent has ended. Does nothing if the
 * system can't do that: then no orphan comes to this process. */
void hfi_children_adopt(void);
/* Undo that, and wait for all children that have ended. */
void hfi_children_end(void);

/* Whether this child has ended and was not waited for yet. Until it is waited for, its
 * pid and the number of its process group aren't reused. 0 also if it is no child of
 * this process. */
int hfi_child_has_ended(pid_t pid);
/* Whether it is known, by one system call, that none has ended that wasn't waited for. */
int hfi_children_all_live(void);
/* The pid of any child that has ended; 0: none. Always 0 if the system gives this
 * process no orphans: then somebody else waits for each child. */
pid_t hfi_children_ended(void);
/* Wait for a child that has ended, and report how. 0: it lives, or is no child of this
 * process. */
int hfi_child_wait(pid_t pid, hfi_exit *ret_exit);
/* Wait for a child that was killed, `timeout_ms` at most. */
void hfi_child_end(pid_t pid, int timeout_ms);

#endif
