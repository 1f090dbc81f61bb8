/* live_frames.c - the frames that run on this thread.
 *
 * The stack of a location knows a function by the address of the interpreter's own
 * frame, which exists without a frame object. Here, where events have been off for a
 * while, frame objects are made for all that run, since only they can be followed
 * outwards by public functions; the address of what is behind each is the one thing
 * that is read from the interpreter's private structure.
 *
 * Rejected: owners that are frame objects: to make one takes longer than all the rest
 * of an event.
 */
#include "interpreter_frame.h"
#include "python_hooks.h"

#include <stdlib.h>

static hfi_live_frame
describe(PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    hfi_code found = hfi_code_find(code);
    Py_DECREF(code);
    bool has_region = found.kind == HFI_CODE_RECORDED || found.kind == HFI_CODE_CELL;
    return (hfi_live_frame){(hfi_owner)frame->f_frame,
                            has_region ? found.region : HFI_REGION_NONE};
}

size_t
hfi_live_frames(hfi_live_frame **ret_frames) {
    hfi_live_frame *live = NULL;
    size_t count = 0;
    size_t capacity = 0;
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        if (count == capacity) {
            capacity = capacity ? capacity * 2 : 128;
            hfi_live_frame *grown = realloc(live, capacity * sizeof *grown);
            if (!grown) {
                Py_DECREF(frame);
                break;
            }
            live = grown;
        }
        live[count++] = describe(frame);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    *ret_frames = live;
    return count;
}
