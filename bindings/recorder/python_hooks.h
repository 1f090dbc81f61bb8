/* python_hooks.h - the parts that the interpreter's hooks share: threads, code objects,
 * returns.
 *
 * A hook is one way of learning of calls and returns; a recording uses one of them.
 * python_events.c installs it. All functions need the interpreter's lock.
 */
#ifndef HOLDFAST_RECORDER_PYTHON_HOOKS_H
#define HOLDFAST_RECORDER_PYTHON_HOOKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "recorder/recorder.h"
#include "region_names.h"

#if PY_VERSION_HEX >= 0x030C0000
#define HFI_CODE_GET_EXTRA PyUnstable_Code_GetExtra
#define HFI_CODE_SET_EXTRA PyUnstable_Code_SetExtra
#define HFI_REQUEST_EXTRA  PyUnstable_Eval_RequestCodeExtraIndex
#else
#define HFI_CODE_GET_EXTRA _PyCode_GetExtra
#define HFI_CODE_SET_EXTRA _PyCode_SetExtra
#define HFI_REQUEST_EXTRA  _PyEval_RequestCodeExtraIndex
#endif

#if defined(__linux__)
#define HFI_FAST_TLS __attribute__((tls_model("initial-exec")))
#else
#define HFI_FAST_TLS
#endif

/* Install and remove: 0, or -1 with a Python error. `join`, which may be NULL: this
 * thread, whose events were off, gets them again. */
typedef struct hfi_hook {
    int (*install)(void);
    int (*remove)(void);
    void (*join)(void);
} hfi_hook;

#if PY_VERSION_HEX < 0x030C0000
extern const hfi_hook hfi_frame_hook; /* each frame's evaluation */

/* For another hook of frames: whether the C stack is nearly used up, the RecursionError
 * that a call gets then, and what has all calls evaluated by hooks where 3.11 passes
 * some by: of methods that are there (0, or -1 with a Python error), and of one that is
 * being called. */
bool hfi_frames_stack_is_short(void);
void hfi_frames_refuse(void);
int hfi_frames_keep_calls(void);
void hfi_frames_keep_call(PyObject *function);
/* To be called when that other hook was put into the chain, or taken out. -1 with a
 * Python error. */
int hfi_frames_find_direct_call(void);
#else
extern const hfi_hook hfi_monitor_hook; /* sys.monitoring */
#endif
extern const hfi_hook hfi_profile_hook; /* C functions as well */

/* The process's recording. */
typedef struct hfi_events_state {
    hf_recorder *recorder;    /* NULL: none is open */
    uint64_t epoch;           /* changes with every open, enable and close */
    uint32_t generation;      /* of the recording */
    bool enabled;             /* the hook is installed */
    bool on_before, on_since; /* for threads up to that number, and for later ones: */
    uint64_t last_before;     /* of a thread state */
    uint32_t switches;        /* of all threads; from 1 */
    bool differ;              /* threads do, since then */
    bool forgets; /* a forked child doesn't go on with it, whatever was asked for */
    void (*thread_met)(void); /* a hook: after its location was looked for, or NULL */
    uint64_t disabled_at;     /* ticks: the last time */
    Py_ssize_t extra_index;   /* of the code objects' slot; -1 before the first open */
} hfi_events_state;

extern hfi_events_state hfi_events;

/* This thread's part. If the epoch differs, call hfi_thread_refresh first. */
typedef struct hfi_thread {
    uint64_t epoch;
    uint32_t generation;
    hfi_location *location; /* NULL: its events are off, or it isn't the program's */
    hfi_location *own;      /* likewise, though its events may be off */
    uint32_t switches;      /* when it was switched by itself; 0: never */
    bool on;                /* since then */
} hfi_thread;

extern _Thread_local hfi_thread hfi_here HFI_FAST_TLS;

/* Whether the calls of this thread are recorded. */
bool hfi_thread_is_on(void);

/* Find or make the location, and leave the functions that returned while events were
 * off. `entering` is the frame that is just being entered, with its code; 0, NULL:
 * none. */
void hfi_thread_refresh(hfi_owner entering, PyCodeObject *code);

/* The location for events that the program itself records: functions that have returned
 * while events were off are left first. NULL if no recording is open, or without
 * memory. */
hfi_location *hfi_thread_own_location(void);

/* Another greenlet of this thread runs; see hfi_location_suspend(), whose answer is
 * returned. */
bool hfi_thread_switch(uintptr_t from, uintptr_t to, bool doubtful);

/* The recording, which no thread finds any more; NULL if there was none. */
hf_recorder *hfi_events_detach(void);
/* In a forked child, whose parent's threads may have held them. */
void hfi_events_renew_locks(void);

static inline hfi_location *
hfi_thread_location(hfi_owner entering, PyCodeObject *code) {
    if (hfi_here.epoch != hfi_events.epoch)
        hfi_thread_refresh(entering, code);
    return hfi_here.location;
}

/* -- a recording's knowledge of a code object
 * ----------------------------------------- */

typedef enum hfi_code_kind {
    HFI_CODE_UNKNOWN,   /* not met in this recording */
    HFI_CODE_RECORDED,  /* has a region */
    HFI_CODE_CELL,      /* likewise, and is recorded wherever it is called from */
    HFI_CODE_STATEMENT, /* of a cell, whose region is open: what it calls is recorded */
    HFI_CODE_LEFT_OUT,  /* by itself */
    HFI_CODE_HIDDEN,    /* with all that it calls */
    HFI_CODE_NO_CELL    /* met below something hidden only: no region yet */
} hfi_code_kind;

typedef struct hfi_code {
    uint32_t kind;
    uint32_t region;
} hfi_code;

#define HFI_SLOT_REGION_BITS 29

#if PY_VERSION_HEX < 0x030C0000
/* The struct that _PyCode_GetExtra() reads. Calling that function takes a tenth of an
 * event's time, and the interpreter declares the struct in a .c file only, so it is
 * declared again here; hfi_code_slots_are_known() checks it. */
typedef struct hfi_code_extras {
    Py_ssize_t count;
    uint64_t slots[];
} hfi_code_extras;

static inline uint64_t
hfi_code_slot(const PyCodeObject *code) {
    const hfi_code_extras *extras = code->co_extra;
    return extras && extras->count > hfi_events.extra_index
               ? extras->slots[hfi_events.extra_index]
               : 0;
}
#else
static inline uint64_t
hfi_code_slot(PyCodeObject *code) {
    void *extra = NULL;
    (void)HFI_CODE_GET_EXTRA((PyObject *)code, hfi_events.extra_index, &extra);
    return (uint64_t)extra;
}
#endif

/* Whether a slot is found where it is looked for. Without memory: false. */
bool hfi_code_slots_are_known(void);

/* Slot: generation, kind, region. */
static inline bool
hfi_slot_is_left_out(uint64_t slot) {
    uint64_t kind = (uint64_t)hfi_events.generation << (32 - HFI_SLOT_REGION_BITS);
    return slot >> HFI_SLOT_REGION_BITS == (kind | HFI_CODE_LEFT_OUT);
}

static inline hfi_code
hfi_code_of_slot(uint64_t slot) {
    if (slot >> 32 != hfi_events.generation)
        return (hfi_code){HFI_CODE_UNKNOWN, 0};
    uint32_t low = (uint32_t)slot;
    return (hfi_code){low >> HFI_SLOT_REGION_BITS,
                      low & ((1u << HFI_SLOT_REGION_BITS) - 1)};
}

static inline hfi_code
hfi_code_find(PyCodeObject *code) {
    return hfi_code_of_slot(hfi_code_slot(code));
}

/* Decide the kind of `code`, and remember it. Below a hidden function only a cell gets
 * a region. `globals` NULL: those of the innermost frame. Keeps the error indicator. */
hfi_code hfi_code_meet(PyCodeObject *code, PyObject *globals, bool below_hidden);

/* Whether the slot of a code object doesn't yet tell its kind in this place. */
static inline bool
hfi_code_is_unmet(hfi_code found, bool below_hidden) {
    return found.kind == HFI_CODE_UNKNOWN ||
           (found.kind == HFI_CODE_NO_CELL && !below_hidden);
}

static inline hfi_code
hfi_code_get(PyCodeObject *code, PyObject *globals, bool below_hidden) {
    hfi_code found = hfi_code_find(code);
    if (hfi_code_is_unmet(found, below_hidden))
        found = hfi_code_meet(code, globals, below_hidden);
    return found;
}

/* -- enter and leave --------------------------------------------------------------- */

/* Whether its calls are on the stack. */
static inline bool
hfi_code_is_entered(uint32_t kind) {
    return kind == HFI_CODE_RECORDED || kind == HFI_CODE_CELL ||
           kind == HFI_CODE_STATEMENT;
}

/* True if a leave is to follow. */
static inline bool
hfi_function_enter(hfi_location *location, hfi_owner owner, hfi_code code) {
    if (code.kind == HFI_CODE_RECORDED && !location->hider) {
        hfi_location_enter(location, owner, code.region);
        return true;
    }
    if (code.kind == HFI_CODE_CELL) {
        hfi_location_enter_lifting(location, owner, code.region);
        return true;
    }
    if (code.kind == HFI_CODE_STATEMENT) {
        hfi_location_lift(location, owner);
        return true;
    }
    if (code.kind == HFI_CODE_HIDDEN && !location->hider) {
        location->hider = owner;
        return true;
    }
    return false;
}

/* C code called this owner's function. A statement of a cell and what is hidden have no
 * events, so they don't count. */
static inline void
hfi_count_from_c(hfi_location *location, hfi_owner owner) {
    size_t depth = location->depth;
    if (!depth || location->stack[depth - 1].owner != owner ||
        !location->stack[depth - 1].logged)
        return;
    location->calls.from_c++;
    location->calls.deep_from_c +=
        hfi_event_log_has_entered(&location->log, HFI_NESTED_RUN);
}

/* The leave of an owner that may not have been entered. */
void hfi_function_leave(hfi_location *location, hfi_owner owner, PyCodeObject *code);

/* -- frames ------------------------------------------------------------------------ */

/* The innermost frame of a thread, by which the stack knows who entered: no frame
 * object is made for it. */
static inline hfi_owner
hfi_frame_current(const PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x030D0000
    return (hfi_owner)thread->current_frame;
#else
    return (hfi_owner)thread->cframe->current_frame;
#endif
}

/* python_threads.c: threads that start from now on call hfi_profile_join. */
int hfi_threads_watch(void);
int hfi_threads_unwatch(void);

/* Switch the profile hook on for this thread; `entering`: a function is being
 * entered. */
void hfi_profile_join(bool entering);

#endif
