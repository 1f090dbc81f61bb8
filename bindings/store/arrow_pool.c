/* arrow_pool.c - new data of Arrow is allocated in the arena.
 *
 * Arrow allocates through a C++ object, arrow::default_memory_pool(). From C, pyarrow
 * has no way to replace it, and we don't depend on its headers. So three functions of
 * that object (Allocate, Reallocate, Free) are replaced in a copy of its table of
 * virtual functions. All else stays, also what the pool counts of small blocks. Large
 * blocks come from the arena: a save publishes them by reference. If the arena is full,
 * Arrow's own allocator gets them.
 *
 * This depends on the C++ ABI of x86-64 (Itanium's), so it is done there only. Nothing
 * is guessed. Arrow exports another pool, arrow::ProxyMemoryPool, with its table and
 * its functions by their mangled names, which contain the arguments' types. A place in
 * the table is used only if that table has the function of that name there. A version
 * of Arrow with another interface lacks one of the names, and keeps its pool. Its data
 * is then copied once by a save, which is correct but costs time. A status is returned
 * through a pointer to its place, as for every C++ class with a destructor. It is
 * always one that Arrow itself has made, by allocating nothing.
 *
 * Rejected: the import table, as for PyTorch (library_allocator.c), since Arrow has its
 * own allocator, which takes whole segments from the system; extent hooks of jemalloc,
 * and arenas given to mimalloc, where many buffers lie side by side in a block, so that
 * privatizing one would privatize its neighbours; a C++ extension built against Arrow's
 * headers, which would fit one version of pyarrow.
 *
 * The table is set once and stays, since Arrow may free a block at any time. Without an
 * arena all calls go to the original functions. Any thread may run these functions,
 * with or without the interpreter.
 */
#include "arena_allocator.h"
#include "module_functions.h"

#if defined(__linux__) && defined(__x86_64__)

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT_MAX = 4096, SLOTS_MAX = 64, TABLE_HEAD = 2 };

typedef void *allocate_function(void *ret_status, void *pool, int64_t size,
                                int64_t alignment, uint8_t **ret_block);
typedef void *reallocate_function(void *ret_status, void *pool, int64_t old_size,
                                  int64_t size, int64_t alignment, uint8_t **block);
typedef void free_function(void *pool, uint8_t *block, int64_t size, int64_t alignment);

/* Arrow's own functions. They are written once, before the table is set. */
static allocate_function *own_allocate;
static reallocate_function *own_reallocate;
static free_function *own_free;
static void *table[TABLE_HEAD + SLOTS_MAX];

/* A block of the arena, with Arrow's status for it; NULL: take Arrow's own. */
static uint8_t *
arena_block(void *status, void *pool, int64_t size, int64_t alignment) {
    uint8_t *block = size > 0 && alignment <= ALIGNMENT_MAX
                         ? hfi_arena_allocate((size_t)size, 0)
                         : NULL;
    uint8_t *nothing = NULL;
    if (!block)
        return NULL;
    own_allocate(status, pool, 0, alignment, &nothing);
    return block;
}

static void *
pool_allocate(void *status, void *pool, int64_t size, int64_t alignment,
              uint8_t **ret_block) {
    uint8_t *block = arena_block(status, pool, size, alignment);
    if (!block)
        return own_allocate(status, pool, size, alignment, ret_block);
    *ret_block = block;
    return status;
}

static void
pool_free(void *pool, uint8_t *block, int64_t size, int64_t alignment) {
    if (!hfi_arena_free(block))
        own_free(pool, block, size, alignment);
}

/* Builders grow by doubling, and at the end cut off what is too much. If that is up to
 * a quarter, it stays. More is worth a copy. */
static void *
pool_reallocate(void *status, void *pool, int64_t old_size, int64_t size,
                int64_t alignment, uint8_t **block) {
    uint8_t *before = *block, *after = NULL, *nothing = NULL;
    int64_t room = (int64_t)hfi_arena_size(before);
    if (room && size <= room && size >= room - room / 4)
        return own_allocate(status, pool, 0, alignment, &nothing);
    after = arena_block(status, pool, size, alignment);
    if (!after && !room)
        return own_reallocate(status, pool, old_size, size, alignment, block);
    if (!after) {
        own_allocate(status, pool, size, alignment, &after);
        if (!after)
            return status;
    }
    memcpy(after, before, (size_t)(old_size < size ? old_size : size));
    *block = after;
    pool_free(pool, before, old_size, alignment);
    return status;
}

/* ---- the table ------------------------------------------------------------------- */

static int
note_library(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    const char *base = strrchr(info->dlpi_name, '/');
    if (!base || strncmp(base, "/libarrow.so", strlen("/libarrow.so")) != 0)
        return 0;
    *(void **)context = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return 1;
}

/* The index of the function of this name in the exported table of another pool, or
 * -1. */
static int
function_index(void *library, void *const *known, size_t count, const char *name) {
    void *function = dlsym(library, name);
    int slot = -1;
    for (size_t i = 0; function && i < count; i++)
        if (known[i] == function)
            slot = slot < 0 ? (int)i : SLOTS_MAX; /* twice: not understood */
    return slot < SLOTS_MAX ? slot : -1;
}

/* How many functions the exported table has. */
static size_t
count_functions(void *symbol) {
    Dl_info info;
    const ElfW(Sym) *entry = NULL;
    if (!symbol || !dladdr1(symbol, &info, (void **)&entry, RTLD_DL_SYMENT) || !entry ||
        info.dli_saddr != symbol)
        return 0;
    size_t count = entry->st_size / sizeof(void *);
    return count > TABLE_HEAD && count - TABLE_HEAD <= SLOTS_MAX ? count - TABLE_HEAD
                                                                 : 0;
}

/* 1: in place; 0: this Arrow isn't understood. */
static int
put_table(void *library) {
    void **known = dlsym(library, "_ZTVN5arrow15ProxyMemoryPoolE");
    size_t count = count_functions(known);
    int allocate = -1, reallocate = -1, release = -1;
    if (count) {
        known += TABLE_HEAD;
        allocate = function_index(library, known, count,
                                  "_ZN5arrow15ProxyMemoryPool8AllocateEllPPh");
        reallocate = function_index(library, known, count,
                                    "_ZN5arrow15ProxyMemoryPool10ReallocateElllPPh");
        release = function_index(library, known, count,
                                 "_ZN5arrow15ProxyMemoryPool4FreeEPhll");
    }
    void *(*default_pool)(void);
    void *symbol = dlsym(library, "_ZN5arrow19default_memory_poolEv");
    memcpy(&default_pool, &symbol, sizeof symbol);
    if (allocate < 0 || reallocate < 0 || release < 0 || !symbol)
        return 0;
    void ***pool = default_pool();
    void **before = *pool;
    memcpy(table, before - TABLE_HEAD, (TABLE_HEAD + count) * sizeof *table);
    void **after = table + TABLE_HEAD;
    memcpy(&own_allocate, &after[allocate], sizeof own_allocate);
    memcpy(&own_reallocate, &after[reallocate], sizeof own_reallocate);
    memcpy(&own_free, &after[release], sizeof own_free);
    allocate_function *new_allocate = pool_allocate;
    reallocate_function *new_reallocate = pool_reallocate;
    free_function *new_free = pool_free;
    memcpy(&after[allocate], &new_allocate, sizeof new_allocate);
    memcpy(&after[reallocate], &new_reallocate, sizeof new_reallocate);
    memcpy(&after[release], &new_free, sizeof new_free);
    __atomic_store_n(pool, after, __ATOMIC_RELEASE);
    return 1;
}

static int
take_pool(void) {
    static int taken; /* under the interpreter's lock */
    void *library = NULL;
    if (!taken && dl_iterate_phdr(note_library, &library) && library)
        taken = put_table(library);
    return taken;
}

#else

static int
take_pool(void) {
    return 0;
}

#endif

static PyObject *
arrow_pool_enable(PyObject *module, PyObject *session) {
    hfi_attachment *attachment =
        hfi_arena_attachment(module, session, HFI_ARENA_THRESHOLD);
    if (!attachment)
        return NULL;
    if (!take_pool())
        Py_RETURN_FALSE;
    if (hfi_arena_begin(attachment, HFI_ARENA_THRESHOLD) < 0)
        return PyErr_NoMemory();
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(enable_arrow_pool_doc,
             "enable_arrow_pool(session)\n"
             "--\n\n"
             "Let Arrow allocate new buffers in a session's arena.\n\n"
             "`disable_numpy_allocator` ends it.\n\n"
             "Parameters\n"
             "----------\n"
             "session : Session\n"
             "    The session.\n\n"
             "Returns\n"
             "-------\n"
             "bool\n"
             "    Whether pyarrow is imported and its pool is understood. Otherwise "
             "nothing is changed.");

PyMethodDef hfi_arrow_pool_functions[] = {
    {"enable_arrow_pool", arrow_pool_enable, METH_O, enable_arrow_pool_doc},
    {NULL, NULL, 0, NULL}};
