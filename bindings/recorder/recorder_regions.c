/* recorder_regions.c - holdfast._recorder: what a program says about itself, as
 * events.
 *
 * User regions and parameters are looked up in two dicts from name to id, which live as
 * long as the recording, so that a region in a loop costs one dict look-up and the
 * event. A region that the filter leaves out is known by HFI_REGION_NONE and records
 * nothing. Texts are encoded with backslashes for what UTF-8 can't hold: a name is for
 * reading, and a program must not fail by its regions.
 */
#include "recorder_python.h"

#include "recorder/filter.h"
#include "python_events.h"
#include "region_names.h"

/* -- user regions ------------------------------------------------------------------ */

static const char *
utf8_text(PyObject *value, PyObject **ret_bytes) {
    *ret_bytes = PyUnicode_AsEncodedString(value, "utf-8", "backslashreplace");
    return *ret_bytes ? PyBytes_AS_STRING(*ret_bytes) : NULL;
}

/* The id of a name in one of the dicts: 1 found, 0 not, -1 with an error. */
static int
id_find(PyObject *ids, PyObject *key, uint32_t *ret_id) {
    PyObject *known = PyDict_GetItemWithError(ids, key);
    if (!known)
        return PyErr_Occurred() ? -1 : 0;
    *ret_id = (uint32_t)PyLong_AsUnsignedLong(known);
    return 1;
}

static int
id_keep(PyObject *ids, PyObject *key, uint32_t id) {
    PyObject *value = PyLong_FromUnsignedLong(id);
    int result = value ? PyDict_SetItem(ids, key, value) : -1;
    Py_XDECREF(value);
    return result;
}

static int
region_find(recorder_state *state, PyObject *name, PyObject *file, unsigned int line,
            uint32_t *ret_region) {
    int found = id_find(state->regions, name, ret_region);
    if (found)
        return found > 0 ? 0 : -1;
    PyObject *name_bytes = NULL, *file_bytes = NULL;
    const char *name_text = utf8_text(name, &name_bytes);
    const char *file_text =
        file == Py_None ? "" : utf8_text(hfi_region_names_shown(file), &file_bytes);
    int result = -1;
    if (name_text && file_text && hfi_filter_excludes(file_text, name_text)) {
        *ret_region = HFI_REGION_NONE;
        result = id_keep(state->regions, name, *ret_region);
    } else if (name_text && file_text) {
        if (hfi_definitions_add_region(
                hf_recorder_get_definitions(hfi_events_get_recorder()), name_text,
                file_text, line, HFI_REGION_USER, ret_region) == HF_OK)
            result = id_keep(state->regions, name, *ret_region);
        else
            PyErr_NoMemory();
    }
    Py_XDECREF(name_bytes);
    Py_XDECREF(file_bytes);
    return result;
}

PyDoc_STRVAR(region_begin_doc,
             "region_begin(name, file=None, line=0, /)\n--\n\n"
             "Enter a user region. The first use of a name fixes its file and line.");

static PyObject *
region_begin(PyObject *module, PyObject *arguments) {
    PyObject *name, *file = Py_None;
    unsigned int line = 0;
    if (!PyArg_ParseTuple(arguments, "U|OI:region_begin", &name, &file, &line))
        return NULL;
    if (file != Py_None && !PyUnicode_Check(file)) {
        PyErr_SetString(PyExc_TypeError, "file must be a str or None");
        return NULL;
    }
    hfi_location *location = hfi_events_get_location();
    if (!location)
        Py_RETURN_NONE;
    uint32_t region;
    if (region_find(hfi_recorder_state(module), name, file, line, &region) < 0)
        return NULL;
    if (region != HFI_REGION_NONE)
        hfi_location_enter(location, HFI_OWNER_USER, region);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(region_end_doc,
             "region_end(name, /)\n--\n\n"
             "Leave the user region of this name that was entered last on this thread. "
             "False when\nnone is open, else True.");

static PyObject *
region_end(PyObject *module, PyObject *name) {
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "name must be a str");
        return NULL;
    }
    hfi_location *location = hfi_events_get_location();
    if (!location)
        Py_RETURN_TRUE;
    uint32_t region;
    int found = id_find(hfi_recorder_state(module)->regions, name, &region);
    if (found < 0)
        return NULL;
    bool is_left_out = found && region == HFI_REGION_NONE;
    return PyBool_FromLong(is_left_out ||
                           (found && hfi_location_leave_user(location, region)));
}

/* -- rewinding --------------------------------------------------------------------- */

static int
string_find(PyObject *text, uint32_t *ret_id) {
    PyObject *bytes;
    const char *chars = utf8_text(text, &bytes);
    if (!chars)
        return -1;
    hf_status status = hfi_definitions_add_string(
        hf_recorder_get_definitions(hfi_events_get_recorder()), chars, ret_id);
    Py_DECREF(bytes);
    if (status != HF_OK)
        PyErr_NoMemory();
    return status == HF_OK ? 0 : -1;
}

PyDoc_STRVAR(rewind_begin_doc,
             "rewind_begin(name, /)\n--\n\nMark a point of this thread's trace.");

static PyObject *
rewind_begin(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *name;
    if (!PyArg_ParseTuple(arguments, "U:rewind_begin", &name))
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t id;
    if (!location)
        Py_RETURN_NONE;
    if (string_find(name, &id) < 0)
        return NULL;
    if (hfi_location_rewind_begin(location, id) != HF_OK)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    rewind_end_doc,
    "rewind_end(name, drop, /)\n--\n\n"
    "Forget the mark; with drop, drop the events since it. False when there is no "
    "such mark\nor the events can't be dropped any more, else True.");

static PyObject *
rewind_end(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *name;
    int drop;
    if (!PyArg_ParseTuple(arguments, "Up:rewind_end", &name, &drop))
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t id;
    if (!location)
        Py_RETURN_TRUE;
    if (string_find(name, &id) < 0)
        return NULL;
    return PyBool_FromLong(hfi_location_rewind_end(location, id, drop != 0) == HF_OK);
}

/* -- parameters -------------------------------------------------------------------- */

static int
parameter_find(recorder_state *state, PyObject *name, hfi_parameter_kind kind,
               uint32_t *ret_parameter) {
    PyObject *key = Py_BuildValue("(Oi)", name, (int)kind);
    if (!key)
        return -1;
    int result = id_find(state->parameters, key, ret_parameter);
    if (result == 0) {
        PyObject *bytes;
        const char *text = utf8_text(name, &bytes);
        hf_status status = HF_E_NOMEM;
        if (text)
            status = hfi_definitions_add_parameter(
                hf_recorder_get_definitions(hfi_events_get_recorder()), text, kind,
                ret_parameter);
        Py_XDECREF(bytes);
        if (text && status != HF_OK)
            PyErr_NoMemory();
        result = status == HF_OK ? id_keep(state->parameters, key, *ret_parameter) : -1;
    }
    Py_DECREF(key);
    return result < 0 ? -1 : 0;
}

PyDoc_STRVAR(parameter_int_doc, "parameter_int(name, value, /)\n--\n\n"
                                "Record a signed value of 64 bits for this thread.");

static PyObject *
parameter_int(PyObject *module, PyObject *arguments) {
    PyObject *name;
    long long value;
    if (!PyArg_ParseTuple(arguments, "UL:parameter_int", &name, &value))
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t parameter;
    if (!location)
        Py_RETURN_NONE;
    if (parameter_find(hfi_recorder_state(module), name, HFI_PARAMETER_INT,
                       &parameter) < 0)
        return NULL;
    hfi_location_parameter_int(location, parameter, value);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(parameter_uint_doc,
             "parameter_uint(name, value, /)\n--\n\n"
             "Record an unsigned value of 64 bits for this thread.");

static PyObject *
parameter_uint(PyObject *module, PyObject *arguments) {
    PyObject *name, *number;
    if (!PyArg_ParseTuple(arguments, "UO!:parameter_uint", &name, &PyLong_Type,
                          &number))
        return NULL;
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t parameter;
    if (!location)
        Py_RETURN_NONE;
    if (parameter_find(hfi_recorder_state(module), name, HFI_PARAMETER_UINT,
                       &parameter) < 0)
        return NULL;
    hfi_location_parameter_uint(location, parameter, value);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(parameter_string_doc, "parameter_string(name, value, /)\n--\n\n"
                                   "Record a text for this thread.");

static PyObject *
parameter_string(PyObject *module, PyObject *arguments) {
    PyObject *name, *text;
    if (!PyArg_ParseTuple(arguments, "UU:parameter_string", &name, &text))
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t parameter, string;
    if (!location)
        Py_RETURN_NONE;
    if (parameter_find(hfi_recorder_state(module), name, HFI_PARAMETER_STRING,
                       &parameter) < 0 ||
        string_find(text, &string) < 0)
        return NULL;
    hfi_location_parameter_string(location, parameter, string);
    Py_RETURN_NONE;
}

PyMethodDef hfi_recorder_region_methods[] = {
    {"region_begin", region_begin, METH_VARARGS, region_begin_doc},
    {"region_end", region_end, METH_O, region_end_doc},
    {"rewind_begin", rewind_begin, METH_VARARGS, rewind_begin_doc},
    {"rewind_end", rewind_end, METH_VARARGS, rewind_end_doc},
    {"parameter_int", parameter_int, METH_VARARGS, parameter_int_doc},
    {"parameter_uint", parameter_uint, METH_VARARGS, parameter_uint_doc},
    {"parameter_string", parameter_string, METH_VARARGS, parameter_string_doc},
    {NULL, NULL, 0, NULL}};
