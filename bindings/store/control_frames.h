/* control_frames.h - frames of the control channel as Python has them.
 *
 * All functions are called with the interpreter attached; none runs Python code.
 */
#ifndef HFI_CONTROL_FRAMES_H
#define HFI_CONTROL_FRAMES_H

#include "module_state.h"

#include "workers/frame.h"

/* A frame to the frontend of Python's fields. Its small texts are valid until Python code
 * runs; large ones, and bytes, until hfi_python_frame_fini. */
typedef struct hfi_python_frame {
    hfi_any_frame frame;
    msgpack_zone *zone;
    struct hfi_borrowed *borrowed;
} hfi_python_frame;

/* The frame `op` of the table that has these fields. -1 with an exception if there is
 * none, or a field is missing or of another type. Call hfi_python_frame_fini in any
 * case. */
int hfi_python_frame_init(hfi_python_frame *frame, hfi_state *state, PyObject *op,
                          PyObject *names, PyObject *const *values);
void hfi_python_frame_fini(hfi_python_frame *frame);

/* What came, as a new object. */
PyObject *hfi_python_value(const msgpack_object *object);

/* channel_type.c: the type Channel, and what one has. */
extern PyType_Spec hfi_channel_spec;
struct hfi_channel *hfi_python_channel(PyObject *channel);

#endif
