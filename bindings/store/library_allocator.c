/* library_allocator.c - large blocks of a native library are allocated in the arena.
 *
 * PyTorch's tensors come from its own allocator. It can be replaced from C++ only, by
 * an object whose layout and virtual functions change from version to version, and
 * whose header needs PyTorch's. Those of TensorFlow and JAX can't be replaced at all.
 * But the functions that these allocators call don't change: libc10,
 * libtensorflow_framework and libjax_common take every block by posix_memalign and give
 * it back by free (both of XLA's in tsl/platform's AlignedMalloc and AlignedFree). So
 * these calls are redirected: in the library's import table, the slots of those names
 * get the addresses of the functions below. A block of the arena's threshold or more is
 * a region then, and all others come from the C library as before. PyTorch's own
 * interface isn't used, and no other library sees a difference.
 *
 * The table is ELF's: the relocations of kind "jump slot" and "global data" in the
 * dynamic section. The dynamic linker has filled it in, and we read it in the same way
 * (System V ABI, chapter 5). With full RELRO its pages are read-only by now, and are
 * made writable for the moment of the store. A slot is one aligned word. So a thread
 * that calls through it meanwhile gets the old function or the new one. Both are right
 * for any block, since our functions recognize a block's owner by its address
 * (arena_allocator.c). For the same reason the slots are never set back: without an
 * arena the functions are the C library's. `free` is set before those that allocate.
 *
 * Only libraries are chosen whose blocks are freed by the same library, or by another
 * one that is chosen before: libtensorflow_cc frees blocks of the framework. If the
 * table isn't understood (another system or machine), or a name isn't in it, nothing is
 * changed, tensors come from malloc, and a save copies them. A tool that sets the same
 * slots later, as some memory profilers do, must call the functions that it finds
 * there.
 *
 * Rejected: c10::SetCPUAllocator with an object made by hand, as described above; a C++
 * extension against PyTorch's headers, which would have to be built for each version;
 * interposing malloc in the whole process (LD_PRELOAD), which slows everything; and a
 * TorchDispatchMode or wrapped functions, which only see what is made from Python, and
 * cost microseconds for each operation.
 */
#include "arena_allocator.h"
#include "module_functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__) && defined(__LP64__)
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

static void *
memory_aligned(size_t alignment, size_t size) {
    static const size_t page_min = 4096; /* what regions are aligned to */
    return alignment <= page_min ? hfi_arena_allocate(size, 0) : NULL;
}

static int
arena_posix_memalign(void **ret_block, size_t alignment, size_t size) {
    void *block = memory_aligned(alignment, size);
    if (!block)
        return posix_memalign(ret_block, alignment, size);
    *ret_block = block;
    return 0;
}

static void
arena_free(void *block) {
    int kept = errno; /* free leaves it alone */
    if (!hfi_arena_free(block))
        free(block);
    errno = kept;
}

/* An arena's block becomes one of malloc's, whatever its new size. */
static void *
arena_realloc(void *block, size_t size) {
    size_t old = hfi_arena_size(block);
    if (!old)
        return realloc(block, size);
    void *moved = malloc(size);
    if (!moved)
        return NULL;
    memcpy(moved, block, old < size ? old : size);
    arena_free(block);
    return moved;
}

/* In this order: the functions that free are set before those that allocate. */
static const struct replacement {
    const char *name;
    void (*function)(void);
    int is_needed;
} replacements[] = {
    {"free", (void (*)(void))arena_free, 1},
    {"realloc", (void (*)(void))arena_realloc, 0},
    {"posix_memalign", (void (*)(void))arena_posix_memalign, 1},
};
enum { REPLACEMENTS = sizeof replacements / sizeof *replacements };

/* ---- the import table ----------------------------------------------------------- */

#if defined(__linux__) && defined(__LP64__)

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOBAL_DATA = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOBAL_DATA = R_AARCH64_GLOB_DAT };
#else
enum { JUMP_SLOT = -1, GLOBAL_DATA = -1 };
#endif

typedef struct import_table {
    const char *file; /* the library's file name */
    uintptr_t base;   /* where it is loaded */
    const ElfW(Rela) * relocations[2];
    size_t counts[2];
    const ElfW(Sym) * symbols;
    const char *strings;
    size_t strings_size;
    uintptr_t relro, relro_end; /* read-only once loaded; whole pages */
} import_table;

/* glibc has added the base to the addresses of the dynamic section; musl hasn't. */
static const void *
table_address(const import_table *at, ElfW(Addr) address) {
    return (const void *)(address < at->base ? address + at->base : address);
}

static void
read_dynamic(import_table *at, const ElfW(Dyn) * dynamic) {
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        ElfW(Addr) value = dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_RELA:
            at->relocations[0] = table_address(at, value);
            break;
        case DT_RELASZ:
            at->counts[0] = value / sizeof(ElfW(Rela));
            break;
        case DT_JMPREL:
            at->relocations[1] = table_address(at, value);
            break;
        case DT_PLTRELSZ:
            at->counts[1] = value / sizeof(ElfW(Rela));
            break;
        case DT_SYMTAB:
            at->symbols = table_address(at, value);
            break;
        case DT_STRTAB:
            at->strings = table_address(at, value);
            break;
        case DT_STRSZ:
            at->strings_size = value;
            break;
        default:
            break;
        }
    }
}

/* For dl_iterate_phdr: 1 once the library is found. */
static int
find_library(struct dl_phdr_info *info, size_t size, void *context) {
    import_table *at = context;
    const char *slash = strrchr(info->dlpi_name, '/');
    (void)size;
    if (strcmp(slash ? slash + 1 : info->dlpi_name, at->file) != 0)
        return 0;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    at->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = at->base + header->p_vaddr;
        if (header->p_type == PT_DYNAMIC)
            read_dynamic(at, (const ElfW(Dyn) *)start);
        if (header->p_type == PT_GNU_RELRO) {
            at->relro = start & ~(page - 1);
            at->relro_end = (start + header->p_memsz) & ~(page - 1);
        }
    }
    return 1;
}

static const char *
symbol_name(const import_table *at, const ElfW(Rela) * relocation) {
    size_t name = at->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
    return name < at->strings_size ? at->strings + name : "";
}

/* Point the slots of one name to `function`. -1 if one can't be. */
static int
set_slots(const import_table *at, const char *name, void (*function)(void)) {
    for (int table = 0; table < 2; table++)
        for (size_t i = 0; i < at->counts[table]; i++) {
            const ElfW(Rela) *relocation = &at->relocations[table][i];
            int kind = (int)ELF64_R_TYPE(relocation->r_info);
            if ((kind != JUMP_SLOT && kind != GLOBAL_DATA) ||
                strcmp(symbol_name(at, relocation), name) != 0)
                continue;
            uintptr_t slot = at->base + relocation->r_offset;
            size_t size = at->relro_end - at->relro;
            int is_locked = slot >= at->relro && slot < at->relro_end;
            if (is_locked &&
                mprotect((void *)at->relro, size, PROT_READ | PROT_WRITE) < 0)
                return -1;
            __atomic_store_n((uintptr_t *)slot, (uintptr_t)function, __ATOMIC_RELEASE);
            if (is_locked)
                (void)mprotect((void *)at->relro, size, PROT_READ);
        }
    return 0;
}

static int
has_slot(const import_table *at, const char *name) {
    for (int table = 0; table < 2; table++)
        for (size_t i = 0; i < at->counts[table]; i++)
            if (strcmp(symbol_name(at, &at->relocations[table][i]), name) == 0)
                return 1;
    return 0;
}

/* 1 if the library's blocks come from the arena from now on. */
static int
take_library(const char *file) {
    import_table at = {.file = file};
    if (JUMP_SLOT < 0 || dl_iterate_phdr(find_library, &at) != 1 || !at.symbols ||
        !at.strings || !at.relocations[0] || !at.relocations[1])
        return 0;
    /* Code that asks malloc for the size of a block would ask it about our blocks, too.
     * */
    if (has_slot(&at, "malloc_usable_size"))
        return 0;
    for (int i = 0; i < REPLACEMENTS; i++)
        if (replacements[i].is_needed && !has_slot(&at, replacements[i].name))
            return 0;
    int taken = 1;
    for (int i = 0; i < REPLACEMENTS && taken; i++)
        taken = set_slots(&at, replacements[i].name, replacements[i].function) == 0;
    return taken;
}

#else

static int
take_library(const char *file) {
    (void)file;
    (void)replacements;
    return 0;
}

#endif

static PyObject *
library_allocator_enable(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"session", "file", "threshold", NULL};
    PyObject *session;
    const char *file;
    Py_ssize_t threshold = HFI_ARENA_THRESHOLD;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Os|n:enable_library_allocator",
                                     words, &session, &file, &threshold))
        return NULL;
    hfi_attachment *attachment = hfi_arena_attachment(module, session, threshold);
    if (!attachment)
        return NULL;
    if (!take_library(file))
        Py_RETURN_FALSE;
    if (hfi_arena_begin(attachment, (size_t)threshold) < 0)
        return PyErr_NoMemory();
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(
    enable_library_allocator_doc,
    "enable_library_allocator(session, file, threshold=65536)\n"
    "--\n\n"
    "Let a loaded native library allocate its large blocks in a session's arena.\n\n"
    "Its imports of malloc and its kin are replaced.\n\n"
    "Parameters\n"
    "----------\n"
    "session : Session\n"
    "    The session.\n"
    "file : str\n"
    "    The library's file name, such as \"libc10.so\".\n"
    "threshold : int\n"
    "    Smaller blocks, in bytes, are allocated as before.\n\n"
    "Returns\n"
    "-------\n"
    "bool\n"
    "    Whether that could be done. Otherwise nothing is changed.");

PyMethodDef hfi_library_allocator_functions[] = {
    {"enable_library_allocator", HFI_METHOD(library_allocator_enable),
     METH_VARARGS | METH_KEYWORDS, enable_library_allocator_doc},
    {NULL, NULL, 0, NULL}};
