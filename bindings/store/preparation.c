/* preparation.c - preparing memory before a cell that is known to use it: buffers that
 * it will touch, and blocks for its new data.
 *
 * *Buffers.* _prepare(session, address, touched, write) finds the region of an address.
 * If the cell will write to it, it is unshared: copied in bulk to this process's own
 * memory, so that the writes cause no page faults. If the cell will read it, its page
 * tables are filled. Both cost time for the whole region. So they are done only if
 * enough of it will be touched. The bounds:
 *
 * - a fault that copies a page takes 2 to 4 us, a page of a bulk copy 0.4 to 1.3 where
 * the arena has recycled pages: unsharing pays from a quarter of the region on. Fresh
 * pages take 3 to 4 us each, so they are taken only if all of it is written, to have
 * that outside of what is measured;
 * - a fault that reads maps 16 pages around, and filling them beforehand is as many
 * faults, shared among some threads: from a half of the region on, to have it outside
 * of what is measured.
 *
 * A region that is already this process's own, or mostly copied, needs nothing. If the
 * arena is full, private copies are made in bulk instead.
 *
 * A cell may do something else than its code let expect. So after it, unshared regions
 * are compared, and undone if nothing was written. Otherwise the main worker would get
 * a new object for a variable that didn't change.
 *
 * The interpreter stays attached while a region is unshared, so that no other Python
 * thread writes to it meanwhile. The caller must exclude threads without the GIL.
 *
 * *Blocks.* _taken returns the sizes that a cell asked for. _preallocate prepares such
 * blocks for the next cell, in the process that will run it. _prefill and _prefill_some
 * prepare the arena in a process that waits. See shm_store/engine/preallocate.c and
 * prefill.c. The worker's preallocation.py decides for which process. Sizes are in
 * bytes, as native 64-bit words, as they are in memory that workers share.
 */
#include "module_functions.h"
#include "attachment.h"
#include "tuning/tuning.h"

#include <unistd.h>

enum { WRITE_SHARE = 4, READ_SHARE = 2 }; /* at least 1 / this must be touched */
enum { LEFT_SHARE = 8 };                  /* at most 1 / this may stay unwritten */

/* Whether most of the region's pages are private copies already. */
static int
is_mostly_copied(hf_region *region, size_t page) {
    uint64_t pages = 0;
    hf_error error = HF_ERROR_INIT;
    return hf_region_changed_pages(region, &pages, &error) != HF_OK ||
           pages * page * 2 > hf_region_size(region);
}

/* Whether it was done. */
static int
prepare_write(hf_region *region, uint64_t touched) {
    hf_error error = HF_ERROR_INIT;
    size_t size = hf_region_size(region);
    if (touched < size / WRITE_SHARE ||
        is_mostly_copied(region, (size_t)sysconf(_SC_PAGESIZE)))
        return 0;
    if (touched < size - size / LEFT_SHARE)
        return hfi_region_unshare_recycled(region, &error) == HF_OK;
    if (hf_region_unshare(region, &error) != HF_OK)
        hf_region_populate(region, 1);
    return 1;
}

static int
prepare_read(hf_region *region, uint64_t touched) {
    if (touched < hf_region_size(region) / READ_SHARE)
        return 0;
    Py_BEGIN_ALLOW_THREADS
    hf_region_populate(region, 0);
    Py_END_ALLOW_THREADS
    return 1;
}

/* The region that holds an address, acquired, or NULL; an exception only with NULL. */
static hf_region *
region_at(PyObject *module, PyObject *session, unsigned long long address) {
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    return attachment
               ? hf_region_find(attachment->session, (const void *)(uintptr_t)address)
               : NULL;
}

/* The same for the arguments of a method: a session and an address. */
static hf_region *
region_of(PyObject *module, PyObject *args, const char *format) {
    PyObject *session;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, format, &session, &address))
        return NULL;
    return region_at(module, session, address);
}

static PyObject *
prepare_region(PyObject *module, PyObject *args) {
    PyObject *session;
    unsigned long long address, touched;
    int write;
    if (!PyArg_ParseTuple(args, "OKKp:_prepare", &session, &address, &touched, &write))
        return NULL;
    hf_region *region = region_at(module, session, address);
    if (!region && PyErr_Occurred())
        return NULL;
    unsigned long long bytes = 0;
    if (region) {
        if (!hf_region_is_own(region) &&
            (write ? prepare_write(region, touched) : prepare_read(region, touched)))
            bytes = hf_region_size(region);
        hf_region_release(region);
    }
    return PyLong_FromUnsignedLongLong(bytes);
}

/* _copied(session, address): the region's bytes that are private copies, and its
 * size. */
static PyObject *
copied_bytes(PyObject *module, PyObject *args) {
    hf_region *region = region_of(module, args, "OK:_copied");
    if (!region && PyErr_Occurred())
        return NULL;
    uint64_t pages = 0, size = 0;
    hf_error error = HF_ERROR_INIT;
    if (region && !hf_region_is_own(region)) {
        size = hf_region_size(region);
        if (hf_region_changed_pages(region, &pages, &error) != HF_OK)
            pages = 0;
    }
    hf_region_release(region);
    return Py_BuildValue("KK",
                         (unsigned long long)pages * (size_t)sysconf(_SC_PAGESIZE),
                         (unsigned long long)size);
}

static PyObject *
compare_pages(PyObject *module, PyObject *session) {
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    if (!attachment)
        return NULL;
    hfi_session_compare_pages(attachment->session);
    Py_RETURN_NONE;
}

static PyObject *
drop_aside(PyObject *module, PyObject *args) {
    PyObject *session;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "On:_drop_aside", &session, &bytes))
        return NULL;
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    return attachment ? PyBool_FromLong(
                            hfi_session_drop_aside(attachment->session, (size_t)bytes))
                      : NULL;
}

static PyObject *
leave_cache(PyObject *module, PyObject *session) {
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    if (!attachment)
        return NULL;
    uint64_t ready;
    Py_BEGIN_ALLOW_THREADS
    ready = hfi_session_leave_cache(attachment->session);
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLongLong(ready);
}

static PyObject *
has_large_regions(PyObject *module, PyObject *session) {
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    return attachment
               ? PyBool_FromLong(hfi_session_has_large_regions(attachment->session))
               : NULL;
}

static PyObject *
prefill_means(PyObject *module, PyObject *session) {
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    uint64_t huge_size;
    int way;
    if (!attachment)
        return NULL;
    hfi_session_means(attachment->session, &huge_size, &way);
    return Py_BuildValue("(Ki)", (unsigned long long)huge_size, way);
}

/* _reshare(session, address): whether a region that was unshared is as it was before,
 * since nothing was written to it. */
static PyObject *
reshare_region(PyObject *module, PyObject *args) {
    hf_region *region = region_of(module, args, "OK:_reshare");
    if (!region && PyErr_Occurred())
        return NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = region ? hf_region_reshare(region, &error) : HF_BUSY;
    hf_region_release(region);
    return PyBool_FromLong(status == HF_OK);
}

/* ---- blocks for new data ------------------------------------------------------- */

static PyObject *
taken_sizes(PyObject *module, PyObject *session) {
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    if (!attachment)
        return NULL;
    size_t sizes[HFI_TAKEN_MAX];
    uint64_t words[HFI_TAKEN_MAX];
    size_t count = hfi_session_taken(attachment->session, sizes);
    for (size_t i = 0; i < count; i++)
        words[i] = sizes[i];
    return PyBytes_FromStringAndSize((const char *)words,
                                     (Py_ssize_t)(count * sizeof *words));
}

/* The session of the arguments, and the first sizes that they name. */
static hfi_attachment *
with_sizes(PyObject *module, PyObject *args, size_t ret_sizes[HFI_TAKEN_MAX],
           size_t *ret_count) {
    PyObject *session;
    Py_buffer given;
    if (!PyArg_ParseTuple(args, "Oy*", &session, &given))
        return NULL;
    size_t count = (size_t)given.len / sizeof(uint64_t);
    *ret_count = count < HFI_TAKEN_MAX ? count : HFI_TAKEN_MAX;
    for (size_t i = 0; i < *ret_count; i++) {
        uint64_t word;
        memcpy(&word, (const char *)given.buf + i * sizeof word, sizeof word);
        ret_sizes[i] = (size_t)word;
    }
    PyBuffer_Release(&given);
    return hfi_attachment_of(module, session);
}

static PyObject *
preallocate_sizes(PyObject *module, PyObject *args) {
    size_t sizes[HFI_TAKEN_MAX], count;
    hfi_attachment *attachment = with_sizes(module, args, sizes, &count);
    if (!attachment)
        return NULL;
    uint64_t bytes = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hfi_session_preallocate(attachment->session, sizes, count, &bytes, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(PyModule_GetState(module), status, &error);
    return PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *
prefill_sizes(PyObject *module, PyObject *args) {
    size_t sizes[HFI_TAKEN_MAX], count;
    hfi_attachment *attachment = with_sizes(module, args, sizes, &count);
    if (!attachment)
        return NULL;
    hfi_session_prefill(attachment->session, sizes, count);
    Py_RETURN_NONE;
}

static PyObject *
prefill_some(PyObject *module, PyObject *args) {
    PyObject *session;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "On:_prefill_some", &session, &bytes))
        return NULL;
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    if (!attachment)
        return NULL;
    int more = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status =
        hfi_session_prefill_some(attachment->session, (size_t)bytes, &more, &error);
    return status == HF_OK ? PyBool_FromLong(more)
                           : hfi_raise(PyModule_GetState(module), status, &error);
}

PyMethodDef hfi_preparation_functions[] = {
    {"_prepare", prepare_region, METH_VARARGS,
     "_prepare(session, address, touched, write): make the region at `address` ready "
     "for `touched` bytes of it to be written or read; its size, or 0 if nothing "
     "was "
     "to be done."},
    {"_has_large_regions", has_large_regions, METH_O,
     "_has_large_regions(session): whether memory of a MiB or more in one piece lies "
     "in "
     "the session and is mapped here."},
    {"_means", prefill_means, METH_O,
     "_means(session): the size of huge pages, or 0; how written pages are found (1: "
     "PAGEMAP_SCAN, 2: pagemap, 3: comparing them)."},
    {"_compare_pages", compare_pages, METH_O,
     "_compare_pages(session): commits leave out pages that were written with the "
     "bytes "
     "that they had; for a process that makes one and leaves."},
    {"_leave_cache", leave_cache, METH_O,
     "_leave_cache(session): memory that was freed, and is kept for later, isn't in "
     "the "
     "process's page tables any more; how many bytes of it, made ready for a cell, "
     "are."},
    {"_drop_aside", drop_aside, METH_VARARGS,
     "_drop_aside(session, bytes): give up page tables of so much memory that was made "
     "private; whether there are more."},
    {"_reshare", reshare_region, METH_VARARGS,
     "_reshare(session, address): undo what _prepare did for writing, if nothing "
     "was "
     "written; whether it did."},
    {"_copied", copied_bytes, METH_VARARGS,
     "_copied(session, address): how many bytes of the region there are private "
     "copies, and its size; zeros if it isn't a committed one."},
    {"_taken", taken_sizes, METH_O,
     "_taken(session): the sizes of the new blocks that were asked for since the last "
     "call, as native 64-bit words."},
    {"_preallocate", preallocate_sizes, METH_VARARGS,
     "_preallocate(session, sizes): have blocks of these sizes ready; how many bytes "
     "there "
     "are."},
    {"_prefill", prefill_sizes, METH_VARARGS,
     "_prefill(session, sizes): begin to give free space memory for blocks of these "
     "sizes, or end it if there are none."},
    {"_prefill_some", prefill_some, METH_VARARGS,
     "_prefill_some(session, bytes): do so much of it; whether there may be more to "
     "do."},
    {NULL, NULL, 0, NULL}};
