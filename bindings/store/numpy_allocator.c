/* numpy_allocator.c - new arrays are allocated in the arena (NEP 49), in every thread.
 *
 * NumPy lets a handler of four functions allocate array data. The current handler is in
 * a context variable. PyDataMem_SetHandler sets it in contexts that are copied from the
 * caller's, and nowhere else: a new thread, a pool or an empty context uses the
 * variable's default (asyncio.to_thread copies the context, contextvars.Context()
 * doesn't). That default is one capsule, PyDataMem_DefaultHandler. Its pointer is set
 * here. So code that never chose a handler gets ours, and a handler that a user did
 * choose stays.
 *
 * Arrays keep the capsule, not the functions behind it. So ours must also free blocks
 * that NumPy's own functions allocated. A block that isn't the arena's (see
 * arena_allocator.c) goes to NumPy's functions, with the size that was passed, which
 * their cache of small blocks needs. For the same reason the pointer is never set back:
 * after disable() there may be arrays in the arena. New blocks come from NumPy then.
 *
 * NumPy's headers are not used: the package is built without NumPy and runs with 1.22
 * and later. The capsule is found in the C API table that NumPy exports, by its index.
 * The index is part of NumPy's binary interface, which only grows. The feature version
 * in the same table is checked first. Building against the headers would make a wheel
 * depend on NumPy without a benefit.
 *
 * Rejected: to enable it in each thread's start, by wrapping threading.Thread (pools of
 * libraries don't pass through, and it shows in the user's tracebacks); and to write
 * into NumPy's own struct of functions, which may be constant.
 *
 * Threads: enable() runs with the interpreter attached; the functions on any thread.
 * For blocks below a kilobyte NumPy calls them attached, as its own functions need it,
 * and they are passed on so.
 */
#include "arena_allocator.h"
#include "module_functions.h"

#include <string.h>

/* As NEP 49 gives them; the layout is marked by `version`. */
typedef struct allocator {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *block, size_t size);
    void (*free)(void *context, void *block, size_t size);
} allocator;

typedef struct handler {
    char name[127];
    uint8_t version;
    allocator allocator;
} handler;

enum {
    API_FEATURE_VERSION = 211,
    API_DEFAULT_HANDLER = 306,
    FEATURE_1_22 = 0x0f,
};

static const char capsule_name[] = "mem_handler";

/* NumPy's own functions, once they are known. They belong to the process, as NumPy
 * does. */
static allocator own;

static void *
numpy_malloc(void *context, size_t size) {
    (void)context;
    void *block = hfi_arena_allocate(size, 0);
    return block ? block : own.malloc(own.context, size);
}

static void *
numpy_calloc(void *context, size_t count, size_t size) {
    (void)context;
    size_t bytes;
    void *block = __builtin_mul_overflow(count, size, &bytes)
                      ? NULL
                      : hfi_arena_allocate(bytes, 1);
    return block ? block : own.calloc(own.context, count, size);
}

static void
numpy_free(void *context, void *block, size_t size) {
    (void)context;
    if (!hfi_arena_free(block))
        own.free(own.context, block, size);
}

/* Blocks stay with their allocator: the size of malloc's blocks isn't known, so they
 * can't be copied to ours. */
static void *
numpy_realloc(void *context, void *block, size_t size) {
    (void)context;
    size_t old = hfi_arena_size(block);
    if (!old)
        return own.realloc(own.context, block, size);
    void *moved = numpy_malloc(NULL, size);
    if (!moved)
        return NULL;
    memcpy(moved, block, old < size ? old : size);
    hfi_arena_free(block);
    return moved;
}

static handler arena_handler = {
    .name = "holdfast_arena",
    .version = 1,
    .allocator = {NULL, numpy_malloc, numpy_calloc, numpy_realloc, numpy_free},
};

/* NumPy's table of functions; NULL with an exception. */
static void **
numpy_api(void) {
    static const char *const modules[] = {"numpy._core._multiarray_umath",
                                          "numpy.core._multiarray_umath"};
    for (size_t i = 0; i < 2; i++) {
        PyObject *module = PyImport_ImportModule(modules[i]);
        if (!module) {
            if (!PyErr_ExceptionMatches(PyExc_ImportError))
                return NULL;
            PyErr_Clear();
            continue;
        }
        PyObject *capsule = PyObject_GetAttrString(module, "_ARRAY_API");
        void **api = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
        Py_XDECREF(capsule);
        Py_DECREF(module);
        return api;
    }
    PyErr_SetString(PyExc_ImportError, "NumPy is not there");
    return NULL;
}

/* Put our functions behind NumPy's default handler; once. -1 with an exception. */
static int
take_default_handler(void) {
    void **api = numpy_api();
    if (!api)
        return -1;
    unsigned (*feature_version)(void);
    memcpy(&feature_version, &api[API_FEATURE_VERSION], sizeof feature_version);
    if (feature_version() < FEATURE_1_22) {
        PyErr_SetString(PyExc_ImportError,
                        "NumPy 1.22 or later is needed for arrays in shared memory");
        return -1;
    }
    PyObject *capsule = *(PyObject **)api[API_DEFAULT_HANDLER];
    handler *before = PyCapsule_GetPointer(capsule, capsule_name);
    if (!before || before == &arena_handler)
        return before ? 0 : -1;
    if (before->version != 1) {
        PyErr_Format(PyExc_ImportError, "NumPy's allocators are of version %d",
                     before->version);
        return -1;
    }
    own = before->allocator;
    return PyCapsule_SetPointer(capsule, &arena_handler);
}

static PyObject *
numpy_allocator_enable(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"session", "threshold", NULL};
    PyObject *session;
    Py_ssize_t threshold = HFI_ARENA_THRESHOLD;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|n:enable_numpy_allocator", words,
                                     &session, &threshold))
        return NULL;
    hfi_attachment *attachment = hfi_arena_attachment(module, session, threshold);
    if (!attachment || take_default_handler() < 0)
        return NULL;
    if (hfi_arena_begin(attachment, (size_t)threshold) < 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *
numpy_allocator_disable(PyObject *module, PyObject *ignored) {
    (void)module;
    (void)ignored;
    hfi_arena_end();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(enable_numpy_allocator_doc,
             "enable_numpy_allocator(session, threshold=65536)\n"
             "--\n\n"
             "Let NumPy allocate new arrays in a session's arena, on every thread.\n\n"
             "A commit publishes such arrays without copying them. Code that chose "
             "another handler keeps it.\n"
             "This replaces NumPy's default handler; see NEP 49.\n\n"
             "Parameters\n"
             "----------\n"
             "session : Session\n"
             "    The session.\n"
             "threshold : int\n"
             "    Arrays of fewer bytes are allocated as before.\n\n"
             "Raises\n"
             "------\n"
             "ImportError\n"
             "    NumPy can't be imported, or is older than 1.22.");

PyDoc_STRVAR(disable_numpy_allocator_doc,
             "disable_numpy_allocator()\n"
             "--\n\n"
             "Let arrays and libraries allocate elsewhere again.\n\n"
             "It ends `enable_library_allocator` and `enable_arrow_pool`, too. Blocks "
             "that are in the arena stay\n"
             "there.");

PyMethodDef hfi_numpy_allocator_functions[] = {
    {"enable_numpy_allocator", HFI_METHOD(numpy_allocator_enable),
     METH_VARARGS | METH_KEYWORDS, enable_numpy_allocator_doc},
    {"disable_numpy_allocator", numpy_allocator_disable, METH_NOARGS,
     disable_numpy_allocator_doc},
    {NULL, NULL, 0, NULL}};
