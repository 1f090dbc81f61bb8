/* store_python.h - what the files of the extension `holdfast._store` share.
 *
 * Private to bindings/src. Everything here is called with the interpreter attached
 * unless its comment says otherwise.
 */
#ifndef HFI_STORE_PYTHON_H
#define HFI_STORE_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>

#include <holdfast/codec.h>
#include <holdfast/store.h>

/* One attachment of this process to a session, shared by everything that uses it: the
 * Session object, its regions, its Names, blocks of NumPy's allocator. The last release
 * detaches. Counted by atomics, since allocators run on every thread. */
typedef struct hfi_attachment {
    hf_session *session;
    atomic_size_t uses;
} hfi_attachment;

hfi_attachment *hfi_attachment_acquire(hfi_attachment *attachment);
void hfi_attachment_release(hfi_attachment *attachment); /* NULL is fine */

/* The module's state: no static objects, so that subinterpreters stay apart. */
typedef struct hfi_state {
    PyTypeObject *session_type;
    PyTypeObject *region_type;
    PyTypeObject *memory_type;
    PyTypeObject *names_type;
    PyObject *error; /* Error and those derived from it */
    PyObject *not_found_error;
    PyObject *conflict_error;
    PyObject *no_space_error;
    PyObject *corrupt_error;
    PyObject *gone_error;
    hf_registry *registry; /* the codecs, in the order in which they are asked */
    PyObject *plugins;     /* list: capsules of those of other modules */
} hfi_state;

hfi_state *hfi_state_of(PyTypeObject *type);

/* Raise what `status` and `error` say; an exception that is already set stays. Always
 * gives NULL, so that `return hfi_raise(...)` reads well. */
void *hfi_raise(hfi_state *state, hf_status status, const hf_error *error);

/* A type's slot that is a function: CPython keeps it as a void *, which POSIX allows
 * and ISO C doesn't know. */
#define HFI_SLOT(number, function)                                                     \
    { (number), __extension__(void *)(function) }

/* ---- session_type.c -------------------------------------------------------------- */

typedef struct hfi_session_object {
    PyObject_HEAD hfi_attachment *attachment; /* NULL once closed */
} hfi_session_object;

extern PyType_Spec hfi_session_spec;
/* The attachment, borrowed, or NULL with an exception where the session is closed or
 * `object` is no session. */
hfi_attachment *hfi_session_attachment(hfi_state *state, PyObject *object);

/* ---- region_type.c --------------------------------------------------------------- */

extern PyType_Spec hfi_region_spec;
/* A new object that exports the region's memory and releases it when it is freed.
 * Consumes the reference to `region`, on failure too. */
PyObject *hfi_region_new_consume(hfi_state *state, hfi_attachment *attachment,
                                 hf_region *region);
/* The region of a Region, borrowed. */
hf_region *hfi_region_of(PyObject *object);

/* ---- memory_type.c --------------------------------------------------------------- */

extern PyType_Spec hfi_memory_spec;
/* `size` bytes at `address`, which `owner` keeps there: a new Memory. */
PyObject *hfi_memory_new(hfi_state *state, PyObject *owner, void *address,
                         Py_ssize_t size);
/* _array_memory(array): see the method table of the module. */
PyObject *hfi_memory_of_array(PyObject *module, PyObject *array);
/* _memory_at(address, size, owner): see there, too. */
PyObject *hfi_memory_at(PyObject *module, PyObject *args);

/* ---- names_listing.c ------------------------------------------------------------- */

/* _entries(session, generation, most): see the method table of the module. */
/* modules.c */
PyObject *hfi_modules_digest(PyObject *module, PyObject *ignored);
PyObject *hfi_modules_with(PyObject *module, PyObject *attribute);

PyObject *hfi_entries(PyObject *module, PyObject *args);

/* ---- save_file.c ----------------------------------------------------------------- */

/* _save_file(session, path), _load_file(session, path): see there, too. */
PyObject *hfi_save_file(PyObject *module, PyObject *args);
PyObject *hfi_load_file(PyObject *module, PyObject *args);

/* ---- object_array.c: the elements of arrays of objects --------------------------- */

/* _pack_elements(array), _fill_elements(array, meta, payload, outside): see there. */
PyObject *hfi_elements_pack(PyObject *module, PyObject *array);
PyObject *hfi_elements_fill(PyObject *module, PyObject *args);

/* ---- numpy_allocator.c ----------------------------------------------------------- */

PyObject *hfi_numpy_allocator_enable(PyObject *module, PyObject *args,
                                     PyObject *kwargs);
PyObject *hfi_numpy_allocator_disable(PyObject *module, PyObject *ignored);

/* ---- json_text.c ----------------------------------------------------------------- */

/* _json_text: see the method table of the module. */
PyObject *hfi_json_text(PyObject *module, PyObject *text);

/* ---- pipes_written.c ------------------------------------------------------------- */

/* _pipes_written: see the method table of the module. */
PyObject *hfi_pipes_written(PyObject *module, PyObject *const *arguments,
                            Py_ssize_t count);

/* ---- own_pages.c ----------------------------------------------------------------- */

/* _own_pages, _file_pages, _copy_pages: see the method table of the module. */
PyObject *hfi_own_pages(PyObject *module, PyObject *ranges);
PyObject *hfi_file_pages(PyObject *module, PyObject *ranges);
PyObject *hfi_copy_pages(PyObject *module, PyObject *wanted);

/* ---- preparation.c --------------------------------------------------------------- */

/* _fork, _succeed: see the method table of the module. */
PyObject *hfi_fork(PyObject *module, PyObject *args);
PyObject *hfi_succeed(PyObject *module, PyObject *object);
/* _prepare, _reseal and _copied: see the method table of the module. */
PyObject *hfi_prepare(PyObject *module, PyObject *args);
PyObject *hfi_reseal(PyObject *module, PyObject *args);
PyObject *hfi_copied(PyObject *module, PyObject *args);

/* ---- session_stock.c ------------------------------------------------------------- */

/* _taken, _stock, _provide and _provide_some: see the method table of the module. */
PyObject *hfi_taken(PyObject *module, PyObject *session);
PyObject *hfi_stock(PyObject *module, PyObject *args);
PyObject *hfi_provide(PyObject *module, PyObject *args);
PyObject *hfi_provide_some(PyObject *module, PyObject *args);

/* ---- names_turn.c ---------------------------------------------------------------- */

/* _quarantine and _renew_turn: see the method table of the module. */
PyObject *hfi_quarantine(PyObject *module, PyObject *args);
PyObject *hfi_renew_turn(PyObject *module, PyObject *session);

/* ---- library_allocator.c --------------------------------------------------------- */

PyObject *hfi_library_allocator_enable(PyObject *module, PyObject *args,
                                       PyObject *kwargs);

/* ---- arrow_pool.c -----------------------------------------------------------------
 */

PyObject *hfi_arrow_pool_enable(PyObject *module, PyObject *session);

/* ---- codec_plugin.c -------------------------------------------------------------- */

/* register_codec(capsule): see the method table of the module. */
PyObject *hfi_codec_register(PyObject *module, PyObject *capsule);
/* The codec of a number, of a package that is loaded for it now where need be; or NULL,
 * without an exception. */
const hf_codec *hfi_codec_find(hfi_state *state, uint32_t number);

/* ---- stream_codec.c: encodings outside the store, for the marshaller --------------
 */

PyObject *hfi_stream_encode(PyObject *module, PyObject *value);
PyObject *hfi_stream_decode(PyObject *module, PyObject *args);

/* ---- names_type.c ---------------------------------------------------------------- */

extern PyType_Spec hfi_names_spec;

#endif
