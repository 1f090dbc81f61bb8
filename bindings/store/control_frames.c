/* control_frames.c - what a worker has to know of the frames that come, by their ops.
 *
 * From the table itself (kernel/workers/protocol.h), so that Python has no list of its
 * own: a frame that was missing in one had its descriptors taken for the next one's, or
 * was thought to change the notebook. A file by itself, since it alone of this module
 * knows the kernel's table.
 */
#include "module_functions.h"
#include "module_state.h"

#include "workers/protocol.h"

static const struct {
    const char *op;
    int fds, changes;
} frames[] = {
#define FRAME(way, receiver, op, changes, fds, fields, text) {#op, fds, changes},
    HFI_FRAMES_OUT(FRAME, , )
#undef FRAME
};

static PyObject *
control_protocol(PyObject *module, PyObject *ignored) {
    PyObject *found = PyDict_New();
    (void)module;
    (void)ignored;
    for (size_t i = 0; found && i < sizeof frames / sizeof *frames; i++) {
        PyObject *row =
            Py_BuildValue("(iN)", frames[i].fds, PyBool_FromLong(frames[i].changes));
        if (!row || PyDict_SetItemString(found, frames[i].op, row) != 0)
            Py_CLEAR(found);
        Py_XDECREF(row);
    }
    return found ? Py_BuildValue("(iN)", HFI_CONTROL_VERSION, found) : NULL;
}

PyMethodDef hfi_control_frames_functions[] = {
    {"_control_protocol", control_protocol, METH_NOARGS,
     "_control_protocol(): the version, and by each frame's op its number of "
     "descriptors, or -1 if one comes when something was found, and whether it may "
     "change the notebook."},
    {NULL, NULL, 0, NULL}};
