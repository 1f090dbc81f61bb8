/* names_decode.h - entries of the store become values, to be bound.
 *
 * The first stage of a bind. Its results are the lists in hfi_decoding, and in the
 * records the values that wait to be bound (hfi_record.is_new); names_bind.c takes them
 * into the namespace.
 *
 * With the interpreter attached. All functions but note_absent, find and fini may run
 * any code of Python, which may decode a class meanwhile: lists grow then, and records
 * move. All return -1 or NULL with an exception.
 */
#ifndef HFI_NAMES_DECODE_H
#define HFI_NAMES_DECODE_H

#include "names.h"

/* Keys, each with a reference. */
typedef struct hfi_keys {
    PyObject **items;
    size_t count, room;
} hfi_keys;

int hfi_keys_add(hfi_keys *keys, PyObject *key);
void hfi_keys_fini(hfi_keys *keys);

typedef struct hfi_decoding {
    hfi_state *state;
    hfi_names *names;    /* borrowed */
    PyObject *namespace; /* borrowed */
    PyObject *before;    /* the value in holdfast.carry.context before this one */
    PyObject *own;       /* set: classes encoded by value while a baseline is taken */
    PyObject *subject;   /* the name that is decoded now, or NULL. Borrowed */
    PyObject *asked;     /* set: a bind before has met all names, and these are asked
                          * for now; or NULL. Borrowed */
    /* results */
    PyObject *absent;  /* name -> reason */
    PyObject *decoded; /* key -> value: the groups and classes that were decoded */
    hfi_keys bound;    /* the names whose values were decoded; the records have them */
    PyObject *open;    /* list of names bound to values with code behind them */
    PyObject *classes; /* list of the classes that were decoded */
    uint64_t bytes_mapped;
    uint64_t entry_count; /* without those that were only mapped */
} hfi_decoding;

/* Fini it also after a failure. It becomes the current one of `names` until then. */
int hfi_decoding_init(hfi_decoding *at, hfi_state *state, hfi_names *names,
                      PyObject *namespace);
void hfi_decoding_fini(hfi_decoding *at);

/* Make this current in holdfast.carry.context, once: before Python code can ask it. */
int hfi_decoding_enter(hfi_decoding *at);
/* A record in the table, new; borrowed, good until the next one is put. */
hfi_record *hfi_decoding_set_record(hfi_decoding *at, PyObject *key,
                                    const hf_entry *entry, hfi_record_state state);
/* Decode the value of `key`, with its whole group if it is in one. 0 if the value can't
 * be decoded: `absent` says why. -1: an error that no value causes. */
int hfi_decoding_take(hfi_decoding *at, PyObject *key, const hf_entry *entry);
/* The same for a group, of which only the members' names are taken. */
int hfi_decoding_take_group(hfi_decoding *at, PyObject *key, const hf_entry *entry);

/* Make this process's own encodings of the classes that were decoded, and of their
 * groups, as baselines. */
int hfi_decoding_take_baselines(hfi_decoding *at);

#endif
