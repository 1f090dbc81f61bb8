/* python_lines.c - what is known of the code whose lines are sampled, and of its threads.
 *
 * A code object's slot holds the generation of the sampling and the place of what is
 * known of it, as python_hooks.c does for events: a slot that an earlier sampling left
 * is recognized, and nothing keeps the code alive.
 *
 * A forked child has no thread that samples, and the parent's file is mapped there:
 * before anything else runs in the child, it is let go of. holdfast.scorep.lines begins
 * anew in it, into a file of the child's own.
 */
#include "python_lines.h"

#include "interpreter_frame.h"

#include <opcode.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

hfi_lines_state hfi_lines;

static struct {
    Py_ssize_t extra_index; /* -1 before the first begin */
    PyObject *libraries;    /* tuple of str: the beginnings of libraries' file names */
    hfi_line_code **codes;
    uint32_t count, capacity;
} known = {.extra_index = -1};

static _Thread_local hfi_line_stack *mine HFI_FAST_TLS;
static pthread_key_t release_key;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

/* -- threads and forks ------------------------------------------------------------- */

static void
release_stack(void *stack) {
    hfi_line_stack_release(stack);
}

static void
forget_codes(void) {
    free(known.codes);
    known.codes = NULL;
    known.count = known.capacity = 0;
}

static void
in_child(void) {
    hfi_lines.on = false;
    hfi_lines.generation++;
    hfi_lines_forget(mine);
    forget_codes();
}

static void
watch_threads(void) {
    (void)pthread_key_create(&release_key, release_stack);
    (void)pthread_atfork(NULL, NULL, in_child);
}

static hfi_line_stack *
take_stack(void) {
    if (hfi_events.thread_met)
        hfi_events.thread_met();
    if ((mine = hfi_line_stack_acquire()))
        (void)pthread_setspecific(release_key, mine);
    return mine;
}

hfi_line_stack *
hfi_lines_stack(void) {
    return mine ? mine : take_stack();
}

void
hfi_lines_switch(uintptr_t from, uintptr_t to) {
    if (hfi_lines.on && mine)
        hfi_line_stack_switch(mine, from, to);
}

/* -- whose code -------------------------------------------------------------------- */

/* A file that is shown under its own name is no cell's, whatever the recorder takes it
 * for. */
static bool
is_cell(PyCodeObject *code) {
    PyObject *shown = hfi_region_names_shown(code->co_filename);
    return shown != code->co_filename && PyUnicode_Compare(shown, code->co_filename);
}

/* Of what magics compile, %%time alone has the lines of its text: the statement of
 * %timeit is put into a function of its own. Its time goes to the magic's line. */
static bool
is_own(PyCodeObject *code) {
    PyObject *file = code->co_filename;
    bool has_name =
        PyUnicode_GET_LENGTH(file) > 0 && PyUnicode_READ_CHAR(file, 0) != '<';
    if (is_cell(code))
        return has_name || PyUnicode_CompareWithASCIIString(file, "<timed exec>") == 0;
    if (!has_name)
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(known.libraries); i++)
        if (PyUnicode_Tailmatch(file, PyTuple_GET_ITEM(known.libraries, i), 0,
                                PY_SSIZE_T_MAX, -1) == 1)
            return false;
    return true;
}

/* The lines of the instructions, to be freed; NULL with a Python error. */
static uint32_t *
lines_of(PyCodeObject *code, size_t count) {
    uint32_t *lines = calloc(count ? count : 1, sizeof *lines);
    PyObject *ranges = PyObject_CallMethod((PyObject *)code, "co_lines", NULL);
    PyObject *range;
    while (lines && ranges && (range = PyIter_Next(ranges))) {
        Py_ssize_t begin, end;
        PyObject *line;
        if (PyArg_ParseTuple(range, "nnO", &begin, &end, &line) && line != Py_None) {
            long number = PyLong_AsLong(line);
            for (Py_ssize_t at = begin / 2; at < end / 2 && at < (Py_ssize_t)count;
                 at++)
                lines[at] = number > 0 ? (uint32_t)number : 0;
        }
        Py_DECREF(range);
    }
    Py_XDECREF(ranges);
    if (!PyErr_Occurred())
        return lines;
    free(lines);
    return NULL;
}

static bool
is_exit(int opcode) {
    switch (opcode) {
    case RETURN_VALUE:
#ifdef RETURN_CONST
    case RETURN_CONST:
#endif
    case RETURN_GENERATOR:
    case YIELD_VALUE:
    case RAISE_VARARGS:
    case RERAISE:
        return true;
    default:
        return false;
    }
}

/* Which instructions end a visit, to be freed; NULL with a Python error. */
static bool *
exits_of(PyCodeObject *code, size_t count) {
    PyObject *bytes = PyCode_GetCode(code);
    bool *exits = bytes ? calloc(count ? count : 1, sizeof *exits) : NULL;
    size_t size = bytes ? (size_t)PyBytes_GET_SIZE(bytes) : 0;
    for (size_t i = 0; exits && i < count && 2 * i < size; i++)
        exits[i] = is_exit((unsigned char)PyBytes_AS_STRING(bytes)[2 * i]);
    if (bytes && !exits)
        PyErr_NoMemory();
    Py_XDECREF(bytes);
    return exits;
}

/* The file's name as bytes; of a cell "In[5]", a tab, and the name of what was
 * compiled: a cell that runs another one has several. */
static PyObject *
file_of(PyCodeObject *code) {
    PyObject *text =
        is_cell(code)
            ? PyUnicode_FromFormat("%U\t%U", hfi_region_names_shown(code->co_filename),
                                   code->co_filename)
            : Py_NewRef(code->co_filename);
    PyObject *bytes =
        text ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace") : NULL;
    Py_XDECREF(text);
    return bytes;
}

static hfi_line_code *
make_line_code(PyCodeObject *code) {
    size_t count = (size_t)Py_SIZE(code);
    PyObject *file = file_of(code);
    PyObject *name =
        file ? PyUnicode_AsEncodedString(code->co_qualname, "utf-8", "backslashreplace")
             : NULL;
    uint32_t *lines = name ? lines_of(code, count) : NULL;
    bool *exits = lines ? exits_of(code, count) : NULL;
    hfi_line_code *made = NULL;
    if (exits) {
        hfi_line_source source = {
            .file = PyBytes_AS_STRING(file),
            .name = PyBytes_AS_STRING(name),
            .def_line = code->co_firstlineno > 0 ? (uint32_t)code->co_firstlineno : 0,
            .start = (uintptr_t)code->co_code_adaptive,
            .lines = lines,
            .exits = exits,
            .instruction_count = count,
        };
        made = hfi_lines_add_code(&source);
    }
    free(exits);
    free(lines);
    Py_XDECREF(name);
    Py_XDECREF(file);
    return made;
}

/* The place from 1; 0 without memory. */
static uint32_t
keep_line_code(hfi_line_code *code) {
    if (known.count == known.capacity) {
        uint32_t capacity = known.capacity ? 2 * known.capacity : 64;
        hfi_line_code **grown = realloc(known.codes, capacity * sizeof(*grown));
        if (!grown)
            return 0;
        known.codes = grown;
        known.capacity = capacity;
    }
    known.codes[known.count++] = code;
    return known.count;
}

static uint64_t
slot_of(PyCodeObject *code) {
    void *extra = NULL;
    (void)HFI_CODE_GET_EXTRA((PyObject *)code, known.extra_index, &extra);
    return (uint64_t)extra;
}

static uint64_t
meet_code(PyCodeObject *code) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    uint32_t generation = hfi_lines.generation;
    hfi_line_code *made = is_own(code) ? make_line_code(code) : NULL;
    uint32_t place = 0;
    /* A finalizer may have run meanwhile, which calls this code or ends the sampling. */
    if (made && generation == hfi_lines.generation)
        place = keep_line_code(made);
    uint64_t slot = (uint64_t)generation << 32 | place;
    (void)HFI_CODE_SET_EXTRA((PyObject *)code, known.extra_index, (void *)slot);
    PyErr_Restore(type, value, traceback);
    return slot;
}

hfi_line_code *
hfi_lines_find(PyCodeObject *code) {
    uint64_t slot = slot_of(code);
    if (slot >> 32 != hfi_lines.generation)
        slot = meet_code(code);
    bool is_known = slot >> 32 == hfi_lines.generation && (uint32_t)slot != 0;
    return is_known ? known.codes[(uint32_t)slot - 1] : NULL;
}

/* -- begin and end ----------------------------------------------------------------- */

/* -- frames of Python 3.11 --------------------------------------------------------- */

#if PY_VERSION_HEX < 0x030C0000

/* The frame of a generator's function only makes the generator. */
static bool
makes_generator(const _PyInterpreterFrame *frame) {
    const int any = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    return frame->owner == FRAME_OWNED_BY_THREAD && frame->f_code->co_flags & any;
}

bool
hfi_lines_enter_frame(_PyInterpreterFrame *frame, uint32_t *ret_generation) {
    hfi_line_code *code = makes_generator(frame) ? NULL : hfi_lines_find(frame->f_code);
    hfi_line_stack *stack = code ? hfi_lines_stack() : NULL;
    if (!stack || hfi_line_is_top(stack, HFI_INSTRUCTION_OF(frame), code))
        return false;
    *ret_generation = hfi_lines.generation;
    (void)hfi_line_push(stack, HFI_INSTRUCTION_OF(frame), code);
    return true;
}

void
hfi_lines_leave_frame(_PyInterpreterFrame *frame, uint32_t generation) {
    if (generation == hfi_lines.generation)
        hfi_line_leave(hfi_lines_stack(), HFI_INSTRUCTION_OF(frame));
}

#endif

hf_status
hfi_lines_start(const char *path, PyObject *libraries, hf_error *reterr) {
    if (known.extra_index < 0 && (known.extra_index = HFI_REQUEST_EXTRA(NULL)) < 0)
        return hf_error_set(reterr, HF_E_NOSPACE, "code objects have no slot left");
    pthread_once(&watch_once, watch_threads);
    hf_status status = hfi_lines_begin(path, reterr);
    if (status != HF_OK)
        return status;
    Py_XSETREF(known.libraries, Py_NewRef(libraries));
    hfi_lines.generation++;
    hfi_lines.on = true;
    return HF_OK;
}

void
hfi_lines_stop(void) {
    hfi_lines.on = false;
    hfi_lines.generation++;
    hfi_lines_end();
    forget_codes();
}
