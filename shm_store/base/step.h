/* step.h - named steps in all code that must survive a crash.
 *
 * A step does nothing, unless a test has set the hook: it may then kill the process
 * right there, or count. Production code never sets it.
 *
 * Threads: any thread runs steps; a test sets the hook before it starts threads.
 */
#ifndef HFI_STEP_H
#define HFI_STEP_H

typedef void (*hfi_step_hook_fn)(const char *name);
extern hfi_step_hook_fn hfi_step_hook;

static inline void
hfi_step(const char *name) {
    if (__builtin_expect(hfi_step_hook != 0, 0))
        hfi_step_hook(name);
}

#endif
