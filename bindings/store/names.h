/* names.h - Names: one process's knowledge of the names in the store.
 *
 * The data of the type, and functions that more than one stage of a save or a bind
 * uses. The stages are above it: out by scan, group, encode, commit (names_save.c); in
 * by decode, bind (names_bind.c).
 *
 * One thread at a time, with the interpreter attached. While a save or a bind is going
 * on, Python code that it calls can't begin another one (hfi_names_begin). It can make
 * a binding decode a class (names_decode.h), which puts records: a pointer to a record
 * isn't good any more after a call that may run Python code.
 */
#ifndef HFI_NAMES_H
#define HFI_NAMES_H

#include "record.h"

typedef struct hfi_names {
    PyObject_HEAD hfi_attachment *attachment;
    hfi_records records; /* as of `snapshot` */
    hfi_records pending; /* what differs in what is prepared, if `is_pending` */
    int is_pending;
    uint64_t published; /* the generation that `pending` is in, if it has been published
                           and `records` don't have it yet; or 0 */
    hf_generation published_name; /* its name, if its publisher gave one */
    Py_ssize_t published_size;    /* of the name, or 0 */
    int is_busy;                  /* with a save or a bind */
    PyObject *reasons;            /* unserializable name -> why */
    PyObject *unserializable;     /* name -> its object's address: no reference, so that
                                   * `del` ends the object at once */
    PyObject *beside;  /* set: names that share objects with unserializable values */
    PyObject *watched; /* the namespace whose functions are counted; or NULL */
    Py_ssize_t watched_base; /* references to it before there was user code; or -1 */
    Py_ssize_t unserializable_refs; /* those of functions behind unserializable names */
    hf_snapshot *snapshot;          /* the generation that `records` speaks of */
    int is_named;                   /* the first one was chosen by its name */
    uint64_t group_seed;            /* random, then counting: names new groups */
    struct hfi_decoding *decoding;  /* of the bind that runs now; or NULL */
} hfi_names;

static inline hfi_names *
hfi_names_of(PyObject *self) {
    return (hfi_names *)(void *)self;
}

/* All that return an int: -1 with an exception. */

/* A save or a bind begins: RuntimeError if another one is going on. */
int hfi_names_begin(hfi_names *names);
void hfi_names_end(hfi_names *names);

/* The entry of a key in the snapshot that is held: 1, or 0 if there is none. */
int hfi_names_find(hfi_state *state, const hfi_names *names, PyObject *key,
                   hf_entry *ret_entry);
/* The record that has a name's buffers: its own, or its group's. NULL if none. */
hfi_record *hfi_names_record_of(const hfi_names *names, PyObject *key);
/* A lease of the current generation; NULL with an exception. */
hf_snapshot *hfi_names_current(hfi_state *state, const hfi_names *names);
/* The same of the generation that another process leases under this name; of the
 * current one if `size` is 0. */
hf_snapshot *hfi_names_named(hfi_state *state, const hfi_names *names, const char *name,
                             Py_ssize_t size);
/* The same, as long as there are no records and the generation wasn't chosen. */
int hfi_names_begin_with_current(hfi_state *state, hfi_names *names);
/* The same if it has just the entries of the one held: 1, else 0. */
int hfi_names_follow(hfi_state *state, hfi_names *names);
/* If the prepared commit was published, and there was no memory to note that: note it
 * now. Does nothing if its generation has no name and another one was published since:
 * that one must be adopted. */
int hfi_names_take_published(hfi_state *state, hfi_names *names);
/* Forget what was prepared. */
void hfi_names_drop_pending(hfi_names *names);

/* Note that a name isn't carried, for this reason; and that it is, or is gone. */
int hfi_names_set_unserializable(hfi_names *names, PyObject *key, PyObject *value,
                                 PyObject *reason);
int hfi_names_remove_unserializable(hfi_names *names, PyObject *key);
static inline int
hfi_names_forget_unserializable(hfi_names *names, PyObject *key) {
    /* inline: as a rule there are none */
    return PyDict_GET_SIZE(names->reasons) ? hfi_names_remove_unserializable(names, key)
                                           : 0;
}

/* Make this namespace current for holdfast.carry.context, and the classes that are encoded
 * by value now (`own`, a set or None). Returns what was current before, a new reference
 * that hfi_context_leave consumes, or NULL with an exception. */
PyObject *hfi_context_enter(hfi_names *names, PyObject *namespace, PyObject *own);
/* An exception that is set stays. */
void hfi_context_leave(PyObject *before);

#endif
