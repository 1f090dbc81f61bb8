/* fault.h - system calls that fail on demand.
 *
 * A test sets the hook; it gets the call's name and returns the errno to fail with, or
 * 0. Production code never sets it: one load and one branch a system call.
 *
 * Threads: any thread asks; a test sets the hook before it starts threads.
 */
#ifndef HFI_FAULT_H
#define HFI_FAULT_H

typedef int (*hfi_fault_hook_fn)(const char *call);
extern hfi_fault_hook_fn hfi_fault_hook;

static inline int
hfi_fault(const char *call) {
    return __builtin_expect(hfi_fault_hook != 0, 0) ? hfi_fault_hook(call) : 0;
}

#endif
