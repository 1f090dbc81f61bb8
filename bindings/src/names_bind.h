/* names_bind.h - what the files of Names.bind() share. Private to bindings/src. */
#ifndef HFI_NAMES_BIND_H
#define HFI_NAMES_BIND_H

#include "entry_source.h"
#include "names.h"

/* Keys, each with a reference. */
typedef struct hfi_keys {
    PyObject **items;
    size_t count, room;
} hfi_keys;

typedef struct hfi_binding {
    hfi_state *state;
    hfi_names *names;
    PyObject *namespace;
    PyObject *before;  /* what holdfast._context had, once this binding is told there */
    PyObject *own;     /* set: classes encoded by value while a baseline is taken */
    PyObject *wanted;  /* set of names, or NULL for all */
    int64_t budget;    /* for what nobody asked for (names_cheap.c) */
    PyObject *subject; /* the name that is decoded now, or NULL. Borrowed */
    PyObject *absent;  /* name -> reason */
    PyObject *decoded; /* key -> value: the groups and classes that were decoded */
    hfi_keys order;    /* the names that were met, in the store's order */
    hfi_keys bound;    /* the names whose values were decoded; the records have them */
    PyObject *open;    /* list of names bound to what code may be behind */
    PyObject *classes; /* list of the classes that were decoded */
    uint64_t bytes_mapped;
    uint64_t skipped;
    uint64_t decoded_count; /* entries, without those that were only mapped */
    hf_error error;         /* of the call that failed last */
} hfi_binding;

/* All give -1 or NULL with an exception set. */

/* names_decode.c: one entry at a time. */

/* Tell holdfast._context of this binding, once: before code in Python can ask it. */
int hfi_binding_enter(hfi_binding *at);

/* On success the source is the caller's to end: it has the regions that were mapped. */
PyObject *hfi_binding_decode(hfi_binding *at, const hf_entry *entry,
                             hfi_entry_source *ret_source);
/* 1 found, 0 not. */
int hfi_binding_find(hfi_binding *at, PyObject *key, hf_entry *ret_entry);
hfi_record *hfi_binding_record(hfi_binding *at, PyObject *key);
/* A record in the table, new; borrowed. */
hfi_record *hfi_binding_set_record(hfi_binding *at, PyObject *key,
                                   const hf_entry *entry, hfi_record_state state);
/* Decode what `key` says, its whole group where it is in one. New reference. */
PyObject *hfi_binding_key(hfi_binding *at, PyObject *key, const hf_entry *entry);
/* Decode a group: its dict, new reference. */
PyObject *hfi_binding_group(hfi_binding *at, PyObject *key);
/* Take the exception away and remember why `key` is absent. */
int hfi_binding_note_absent(hfi_binding *at, PyObject *key, const hf_entry *entry);

/* names_cheap.c: whether it is decoded though nobody asked for it. */
int hfi_binding_affords(hfi_binding *at, const hf_entry *entry);

/* names_baseline.c: what this process's own encodings of classes are. */
int hfi_binding_take_baselines(hfi_binding *at);

/* names_code.c: as `code` of Names.save(), of what was bound but plain data and arrays.
 * New reference. */
PyObject *hfi_binding_code(hfi_binding *at);

/* In names_bind.c. */
int hfi_keys_add(hfi_keys *keys, PyObject *key);
void hfi_keys_fini(hfi_keys *keys);

#endif
