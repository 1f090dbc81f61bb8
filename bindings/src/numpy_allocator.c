/* numpy_allocator.c - new arrays are born in the arena (NEP 49).
 *
 * With this handler set, array data of `threshold` bytes or more is an own region of
 * the store: a save publishes it by reference, and no byte of it is ever copied.
 * Smaller data, and whatever the arena has no room for, comes from malloc: running out
 * of /dev/shm must not fail a computation that would have fitted into memory.
 *
 * Which of the two a block came from is told by its address, not its size, since NumPy
 * may report another size when it frees (resize, zero-sized arrays): regions start on a
 * page, so a block that doesn't is malloc's, and for the few others the store is asked.
 * realloc within the same kind keeps the block where it can: a region is a whole number
 * of pages and may be grown into; else it copies, since the arena can't remap.
 *
 * NumPy's headers are not used: the package is built without NumPy and runs with 1.22
 * and later. PyDataMem_SetHandler is taken from the C API table that NumPy exports as a
 * capsule, by its index, which is part of NumPy's binary interface (it only grows); the
 * feature version in the same table is checked first. The alternative, building against
 * the headers, would tie a wheel to the presence of NumPy for nothing.
 *
 * The handler is a context variable in NumPy: it holds in the context of the caller and
 * those copied from it (asyncio tasks). A new thread starts with an empty context, so
 * its arrays come from malloc and a save copies them: right, but not free. Whoever
 * starts threads may call enable there, which is cheap. No hook of NumPy's makes it the
 * default of new threads. Rejected: to wrap threading.Thread's start, which pools of
 * libraries don't pass through and which shows in the user's tracebacks; and to set
 * another pointer in the capsule of NumPy's default handler, which arrays that were
 * made before share, and which could never be given back. Interpreters whose threads
 * inherit their starter's context (3.14, an option) need neither. NumPy keeps with each
 * array the handler that it came from, so arrays may outlive disable().
 *
 * Locks: none here. The allocator may be called on any thread; hf_region_* may too.
 */
#include "store_python.h"

#include <stdlib.h>
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

typedef struct arena_handler {
    handler handler; /* first: the capsule points to it */
    hfi_attachment *attachment;
    size_t threshold; /* bytes */
} arena_handler;

enum {
    API_FEATURE_VERSION = 211,
    API_SET_HANDLER = 304,
    FEATURE_1_22 = 0x0f,
    PAGE_MIN = 4096, /* a region's alignment, at least */
};

static const char capsule_name[] = "mem_handler";

/* The own region that starts at `block`, acquired, or NULL. */
static hf_region *
region_of(const arena_handler *self, const void *block) {
    if (!block || (uintptr_t)block % PAGE_MIN != 0)
        return NULL;
    return hf_region_find(self->attachment->session, block);
}

static void *
arena_allocate(arena_handler *self, size_t size, int zeroed) {
    hf_region *region = NULL;
    if (size < self->threshold ||
        hf_region_reserve(self->attachment->session, size, zeroed, &region, NULL,
                          NULL) != HF_OK)
        return zeroed ? calloc(1, size ? size : 1) : malloc(size ? size : 1);
    hfi_attachment_acquire(self->attachment);
    return hf_region_address(region);
}

static void *
arena_malloc(void *context, size_t size) {
    return arena_allocate(context, size, 0);
}

static void *
arena_calloc(void *context, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return arena_allocate(context, bytes, 1);
}

static void
arena_free(void *context, void *block, size_t size) {
    arena_handler *self = context;
    (void)size;
    hf_region *region = region_of(self, block);
    if (!region) {
        free(block);
        return;
    }
    hf_region_release(region); /* what hf_region_find acquired */
    hf_region_release(region); /* what arena_allocate kept */
    hfi_attachment_release(self->attachment);
}

static void *
arena_realloc(void *context, void *block, size_t size) {
    arena_handler *self = context;
    hf_region *region = region_of(self, block);
    if (!region) {
        if (size < self->threshold)
            return realloc(block, size ? size : 1);
        /* malloc'ed memory that has grown into the arena's range stays malloc's: its
         * old size isn't known, so it could not be copied. */
        return realloc(block, size);
    }
    size_t old = hf_region_size(region);
    hf_region_release(region);
    void *moved = arena_allocate(self, size, 0);
    if (!moved)
        return NULL;
    memcpy(moved, block, old < size ? old : size);
    arena_free(self, block, old);
    return moved;
}

static void
handler_free(PyObject *capsule) {
    arena_handler *self = PyCapsule_GetPointer(capsule, capsule_name);
    if (!self)
        return;
    hfi_attachment_release(self->attachment);
    free(self);
}

static PyObject *
handler_new(hfi_attachment *attachment, size_t threshold) {
    arena_handler *self = calloc(1, sizeof *self);
    if (!self)
        return PyErr_NoMemory();
    *self = (arena_handler){.handler = {.name = "holdfast_arena",
                                        .version = 1,
                                        .allocator = {self, arena_malloc, arena_calloc,
                                                      arena_realloc, arena_free}},
                            .attachment = hfi_attachment_acquire(attachment),
                            .threshold = threshold};
    PyObject *capsule = PyCapsule_New(self, capsule_name, handler_free);
    if (!capsule) {
        hfi_attachment_release(attachment);
        free(self);
    }
    return capsule;
}

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

/* PyDataMem_SetHandler(capsule or NULL): gives the one before. */
static PyObject *
set_handler(PyObject *capsule) {
    void **api = numpy_api();
    if (!api)
        return NULL;
    unsigned (*feature_version)(void);
    PyObject *(*set)(PyObject *);
    memcpy(&feature_version, &api[API_FEATURE_VERSION], sizeof feature_version);
    if (feature_version() < FEATURE_1_22) {
        PyErr_SetString(PyExc_ImportError,
                        "NumPy 1.22 or later is needed for arrays in shared memory");
        return NULL;
    }
    memcpy(&set, &api[API_SET_HANDLER], sizeof set);
    return set(capsule);
}

PyObject *
hfi_numpy_allocator_enable(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"session", "threshold", NULL};
    PyObject *session;
    Py_ssize_t threshold = 65536;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|n:enable_numpy_allocator", words,
                                     &session, &threshold))
        return NULL;
    hfi_attachment *attachment =
        hfi_session_attachment(PyModule_GetState(module), session);
    if (!attachment)
        return NULL;
    if (threshold < 1) {
        PyErr_SetString(PyExc_ValueError,
                        "the threshold is a positive number of bytes");
        return NULL;
    }
    PyObject *capsule = handler_new(attachment, (size_t)threshold);
    PyObject *before = capsule ? set_handler(capsule) : NULL;
    Py_XDECREF(capsule);
    if (!before)
        return NULL;
    Py_DECREF(before);
    Py_RETURN_NONE;
}

PyObject *
hfi_numpy_allocator_disable(PyObject *module, PyObject *ignored) {
    (void)module;
    (void)ignored;
    PyObject *before = set_handler(NULL);
    if (!before)
        return NULL;
    Py_DECREF(before);
    Py_RETURN_NONE;
}
