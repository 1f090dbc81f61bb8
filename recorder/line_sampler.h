/* line_sampler.h - samples of the lines at which the threads of this process are, taken
 * by a thread of its own.
 *
 * Each thread keeps a stack of the user's own functions that run on it, by
 * hfi_line_push() and hfi_line_pop(). The sampler's thread reads these stacks at a
 * fixed average rate. It reads from the process's memory at which instruction each
 * function is. It takes no lock of the program and stops no thread. An entry's serial
 * number shows whether all values that were read belong to one visit.
 *
 * The counts lie in a mapped file, so they survive a crash. There is one sampler in a
 * process. The caller must serialize hfi_lines_begin(), hfi_lines_end(),
 * hfi_lines_forget() and hfi_lines_add_code().
 */
#ifndef HOLDFAST_RECORDER_LINE_SAMPLER_H
#define HOLDFAST_RECORDER_LINE_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/error.h"

enum {
    HFI_LINES_INTERVAL_NS = 1000000, /* on average */
    HFI_LINES_DEPTH = 1 << 16,       /* deeper calls aren't put on a stack */
    HFI_LINES_VERSION = 1
};

/* -- the file: native byte order, read by holdfast/scorep/line_counts.py ------------------ */

#define HFI_LINES_MAGIC "HFLINES"

typedef struct hfi_lines_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t pid;
    uint64_t interval_ns;
    uint64_t used_bytes; /* with the header; bytes after it aren't complete */
    uint64_t rounds;     /* looks at all threads */
    uint64_t samples;    /* of threads that ran a function of the user's own */
    uint64_t sampled_ns; /* the total time that they stand for */
    uint64_t missed;     /* always 0 */
    uint64_t cut; /* looks that didn't read the outermost functions of a deep stack */
    uint64_t dropped;      /* functions for which there was no room */
    uint64_t processor_ns; /* time of the sampler's own thread */
} hfi_lines_header;

/* A code object. Its lines follow, then its file's name and its own name, up to a
 * multiple of 8 bytes. `inclusive` counts a recursion once. */
typedef struct hfi_line_record {
    uint32_t record_bytes;
    uint32_t first_line; /* number of the first line */
    uint32_t line_count;
    uint32_t def_line;
    uint32_t file_bytes;
    uint32_t name_bytes;
    uint64_t calls; /* all entries; counted, not sampled */
    uint64_t samples, inclusive_samples;
    uint64_t own_ns, inclusive_ns;
    /* samples in visits that were too short to find a line */
    uint64_t unplaced, unplaced_ns;
    uint64_t stamp;
} hfi_line_record;

typedef struct hfi_line_count {
    uint64_t samples, inclusive_samples;
    uint64_t own_ns, inclusive_ns; /* own: not in another function of the user's */
    uint64_t stamp;
    uint64_t has_code;
} hfi_line_count;

_Static_assert(sizeof(hfi_lines_header) == 96, "read in Python");
_Static_assert(sizeof(hfi_line_record) == 88, "read in Python");
_Static_assert(sizeof(hfi_line_count) == 48, "read in Python");

/* -- stacks ------------------------------------------------------------------------ */

typedef struct hfi_line_code {
    hfi_line_record *record; /* NULL: no room */
    hfi_line_count *counts;
    uintptr_t start; /* address of its first instruction */
    size_t bytes;
    /* index in `counts`, or UINT32_MAX, for each instruction of 2 bytes */
    uint32_t *line_of;
    uint32_t only_line; /* index, if it has just one; else UINT32_MAX */
} hfi_line_code;

typedef struct hfi_line_entry {
    _Atomic(uint64_t) serial; /* number of the visit; 0: the entry is being written */
    /* where the frame keeps the address of its instruction */
    _Atomic(const void *) instruction;
    _Atomic(hfi_line_code *) code;
} hfi_line_entry;

typedef struct hfi_line_stack {
    hfi_line_entry *entries; /* HFI_LINES_DEPTH */
    _Atomic(uint32_t) depth;
    _Atomic(bool) is_free;
    /* Only the thread itself uses these: */
    uint64_t serial; /* of the last push */
    uint32_t base;   /* entries of the thread itself, below those of a greenlet */
    struct hfi_line_waiting *waiting; /* greenlets that don't run now */
    struct hfi_line_stack *next;
} hfi_line_stack;

/* Put a function on the stack. Returns the depth to which hfi_line_pop() goes back. */
static inline uint32_t
hfi_line_resume(hfi_line_stack *stack, const void *instruction, hfi_line_code *code) {
    uint32_t depth = atomic_load_explicit(&stack->depth, memory_order_relaxed);
    if (depth >= HFI_LINES_DEPTH)
        return depth;
    hfi_line_entry *entry = &stack->entries[depth];
    atomic_store_explicit(&entry->serial, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&entry->instruction, instruction, memory_order_relaxed);
    atomic_store_explicit(&entry->code, code, memory_order_relaxed);
    atomic_store_explicit(&entry->serial, ++stack->serial, memory_order_release);
    atomic_store_explicit(&stack->depth, depth + 1, memory_order_release);
    return depth;
}

/* The thread enters a function. `instruction` is readable until hfi_line_leave(). */
static inline uint32_t
hfi_line_push(hfi_line_stack *stack, const void *instruction, hfi_line_code *code) {
    if (code->record)
        code->record->calls++;
    return hfi_line_resume(stack, instruction, code);
}

/* Whether this visit is the last that was entered and not left. */
static inline bool
hfi_line_is_top(const hfi_line_stack *stack, const void *instruction,
                const hfi_line_code *code) {
    uint32_t depth = atomic_load_explicit(&stack->depth, memory_order_relaxed);
    const hfi_line_entry *top = depth > 0 ? &stack->entries[depth - 1] : NULL;
    return top &&
           atomic_load_explicit(&top->instruction, memory_order_relaxed) ==
               instruction &&
           atomic_load_explicit(&top->code, memory_order_relaxed) == code;
}

static inline void
hfi_line_pop(hfi_line_stack *stack, uint32_t depth) {
    atomic_store_explicit(&stack->depth, depth, memory_order_release);
    atomic_thread_fence(memory_order_release); /* before the frame's memory changes */
}

/* Leave the function that was entered with this `instruction`, and all above it. A
 * function that was entered before the sampling began isn't found. */
static inline void
hfi_line_leave(hfi_line_stack *stack, const void *instruction) {
    uint32_t depth = atomic_load_explicit(&stack->depth, memory_order_relaxed);
    while (depth > 0 && atomic_load_explicit(&stack->entries[depth - 1].instruction,
                                             memory_order_relaxed) != instruction)
        depth--;
    if (depth > 0)
        hfi_line_pop(stack, depth - 1);
}

/* Another greenlet of the thread runs from now on; 0: the thread itself. See
 * hfi_location_suspend(). */
void hfi_line_stack_switch(hfi_line_stack *stack, uintptr_t from, uintptr_t to);

/* -- the sampler ------------------------------------------------------------------- */

/* Begin to sample into a new file. HF_BUSY: it samples already. HF_E_SYSTEM: the file
 * can't be made, or the system doesn't let the process read its memory. HF_E_NOMEM. */
hf_status hfi_lines_begin(const char *path, hf_error *reterr);

/* End it, and free all codes. Nothing happens if it doesn't sample. */
void hfi_lines_end(void);

/* In a forked child, which has no sampler: stop using the parent's file. `mine`: the
 * stack of the only thread that is left, or NULL. */
void hfi_lines_forget(hfi_line_stack *mine);

bool hfi_lines_are_sampled(void);

/* What hfi_lines_add_code() needs to know about a code object. `lines[i]`: the line of
 * instruction i; 0: it has none. `exits[i]`: whether it ends or suspends a visit; NULL:
 * not known. */
typedef struct hfi_line_source {
    const char *file;
    const char *name;
    uint32_t def_line;
    uintptr_t start;
    const uint32_t *lines;
    const bool *exits;
    size_t instruction_count;
} hfi_line_source;

/* The result lives until hfi_lines_end() or hfi_lines_forget(). NULL without memory, or
 * while nothing is sampled. */
hfi_line_code *hfi_lines_add_code(const hfi_line_source *source);

/* An empty stack for the calling thread; NULL without memory. Any thread may call it.
 * The stack is never freed: another thread gets it after its release. */
hfi_line_stack *hfi_line_stack_acquire(void);
void hfi_line_stack_release(hfi_line_stack *stack);

#endif
