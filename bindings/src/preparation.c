/* preparation.c - a buffer made ready before a cell runs that is known to use it.
 *
 * _prepare(session, address, touched, write) finds the region that holds an address. To
 * be written, it is unsealed: copied in bulk to memory of this process's own, so that
 * no page faults when the cell writes to it. To be read, its page tables are filled.
 * Both cost the whole region; so they are done only where enough of it will be touched.
 * The bounds:
 *
 * - a fault that copies a page takes 4 to 7 us, a page of a bulk copy 0.5 to 0.7:
 * unsealing pays from an eighth of the region on;
 * - a fault that reads maps 16 pages around, and filling them beforehand is as many
 * faults, shared among some threads: from a half of the region on, to have it outside
 * of what is measured.
 *
 * A region that is already this process's own, or mostly copied, needs nothing. Where
 * the arena is full, private copies are made in bulk instead.
 *
 * A cell may go another way than its code let expect. So what was unsealed is compared
 * after it, and undone where nothing was written: else the home would get a new object
 * for a variable that didn't change.
 *
 * The interpreter stays attached while a region is unsealed, so that no other Python
 * thread writes to it meanwhile; threads that hold no GIL are the caller's to exclude.
 */
#include "store_python.h"

#include <unistd.h>

enum { WRITE_SHARE = 8, READ_SHARE = 2 }; /* one in so many must be touched */

/* Whether most of the region's pages are private copies already. */
static int
is_mostly_copied(hf_region *region, size_t page) {
    uint64_t pages = 0;
    hf_error error = HF_ERROR_INIT;
    return hf_region_changed_pages(region, &pages, &error) != HF_OK ||
           pages * page * 2 > hf_region_size(region);
}

static int
prepare(hf_region *region, int write) {
    hf_error error = HF_ERROR_INIT;
    if (write) {
        if (is_mostly_copied(region, (size_t)sysconf(_SC_PAGESIZE)))
            return 0;
        if (hf_region_unseal(region, &error) != HF_OK)
            hf_region_populate(region, 1);
    } else {
        Py_BEGIN_ALLOW_THREADS hf_region_populate(region, 0);
        Py_END_ALLOW_THREADS
    }
    return 1;
}

/* The region that holds an address, acquired, or NULL; an exception only with NULL. */
static hf_region *
region_at(PyObject *module, PyObject *session, unsigned long long address) {
    hfi_attachment *attachment =
        hfi_session_attachment(PyModule_GetState(module), session);
    return attachment
               ? hf_region_find(attachment->session, (const void *)(uintptr_t)address)
               : NULL;
}

PyObject *
hfi_prepare(PyObject *module, PyObject *args) {
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
        size_t size = hf_region_size(region);
        if (!hf_region_is_own(region) &&
            touched >= size / (write ? WRITE_SHARE : READ_SHARE) &&
            prepare(region, write))
            bytes = size;
        hf_region_release(region);
    }
    return PyLong_FromUnsignedLongLong(bytes);
}

/* _copied(session, address): the region's bytes that are private copies, and its size.
 */
PyObject *
hfi_copied(PyObject *module, PyObject *args) {
    PyObject *session;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "OK:_copied", &session, &address))
        return NULL;
    hf_region *region = region_at(module, session, address);
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

/* _reseal(session, address): whether a region that was unsealed is as it was before,
 * since nothing was written to it. */
PyObject *
hfi_reseal(PyObject *module, PyObject *args) {
    PyObject *session;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "OK:_reseal", &session, &address))
        return NULL;
    hf_region *region = region_at(module, session, address);
    if (!region && PyErr_Occurred())
        return NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = region ? hf_region_reseal(region, &error) : HF_BUSY;
    hf_region_release(region);
    return PyBool_FromLong(status == HF_OK);
}
