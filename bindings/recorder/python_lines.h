/* python_lines.h - the interpreter's part of sampling lines (recorder/line_sampler.h).
 *
 * Each call of a function of the user's own goes on its thread's stack while it runs:
 * code of cells, and of files that aren't libraries'. python_lines_hook.c notices
 * calls, in a way that depends on the version; python_lines.c decides which code is the
 * user's own. The interpreter's lock protects all of this.
 */
#ifndef HOLDFAST_RECORDER_PYTHON_LINES_H
#define HOLDFAST_RECORDER_PYTHON_LINES_H

#include "python_hooks.h"

#include "recorder/line_sampler.h"

struct _PyInterpreterFrame;

/* Where a frame keeps the address of its instruction. */
#if PY_VERSION_HEX >= 0x030D0000
#define HFI_INSTRUCTION_OF(frame) (&(frame)->instr_ptr)
#else
#define HFI_INSTRUCTION_OF(frame) (&(frame)->prev_instr)
#endif

typedef struct hfi_lines_state {
    bool on;
    uint32_t generation; /* of the sampling, from 1 */
} hfi_lines_state;

extern hfi_lines_state hfi_lines;

/* The record of a code object; NULL: it isn't the user's own. May run Python code when
 * it meets the code first, and keeps the error indicator. */
hfi_line_code *hfi_lines_find(PyCodeObject *code);

/* This thread's stack; NULL without memory. */
hfi_line_stack *hfi_lines_stack(void);

/* Python 3.11: put a call of the user's own function on this thread's stack. False if it
 * is none, or if another hook has put it there. `ret_generation` is for the way back. */
bool hfi_lines_enter_frame(struct _PyInterpreterFrame *frame, uint32_t *ret_generation);
void hfi_lines_leave_frame(struct _PyInterpreterFrame *frame, uint32_t generation);

/* Another greenlet of this thread runs from now on; see hfi_location_suspend(). */
void hfi_lines_switch(uintptr_t from, uintptr_t to);

/* python_greenlets.c: be told of this thread's switches between greenlets, if the library
 * has been imported. Keeps the error indicator. */
void hfi_greenlets_watch(void);

/* Begin to sample into a new file, and end it. `libraries` is a tuple of str: code whose
 * file name begins with one of them is left out. The hook is to be installed and
 * removed as well. Statuses as hfi_lines_begin(), and HF_E_NOSPACE. */
hf_status hfi_lines_start(const char *path, PyObject *libraries, hf_error *reterr);
void hfi_lines_stop(void);

/* python_lines_hook.c: have calls noticed from now on, or no longer. 0, or -1 with a
 * Python error. */
extern const hfi_hook hfi_lines_hook;

#endif
