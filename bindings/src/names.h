/* names.h - what the files of the type Names share. Private to bindings/src. */
#ifndef HFI_NAMES_H
#define HFI_NAMES_H

#include "entry_sink.h"
#include "entry_source.h"
#include "record.h"
#include "store_python.h"

/* Keys that users can't write: a group of names, a class of the notebook, process
 * state. */
#define HFI_KEY_GROUP '\0'
#define HFI_KEY_EXTRA '\1'

/* Flags of an entry. */
enum {
    HFI_ENTRY_GROUP = 1u << 0,  /* the value is a dict: member key -> value */
    HFI_ENTRY_MAPPED = 1u << 1, /* binding costs a mapping, whatever its size */
};

typedef struct hfi_names {
    PyObject_HEAD hfi_attachment *attachment;
    hfi_records records; /* as of `snapshot` */
    hfi_records pending; /* what differs in what is prepared, if `is_pending` */
    int is_pending;
    PyObject *reasons;        /* declined name -> why */
    PyObject *declined;       /* declined name -> the object that was declined */
    PyObject *beside;         /* set: names that share objects with declined ones */
    PyObject *watched;        /* the namespace whose functions are counted; or NULL */
    Py_ssize_t watched_base;  /* references to it before there was user code; or -1 */
    Py_ssize_t declined_refs; /* those of functions behind declined names */
    hf_snapshot *snapshot;    /* the generation that `records` speaks of */
    uint64_t group_seed;      /* random, then counting: names new groups */
    struct hfi_binding *binding; /* the bind or adopt that runs now; or NULL */
} hfi_names;

/* Encode with the first codec that carries the value. HF_DECLINED with words.
 * `subject`: what it is for people and in shared memory, while code that isn't ours
 * encodes it: a key, or a dict with the names of a group; NULL for a stream. */
HF_CHECK hf_status hfi_names_encode(hfi_state *state, hfi_entry_sink *sink,
                                    PyObject *value, PyObject *subject,
                                    const hf_codec **ret_codec, hf_error *reterr);
/* Whether encoding and decoding by this codec runs no code but ours (names_turn.c). */
int hfi_codec_is_quiet(uint32_t codec);
/* The turn of encoding `subject`, or of decoding `entry` for it (NULL: what its key
 * says). */
void hfi_turn_begin(hf_session *session, PyObject *subject, const hf_entry *entry,
                    hf_turn *ret_before);
/* 0 where `entry` may be decoded, -1 with an exception where it is in quarantine. */
int hfi_turn_check(hfi_state *state, hf_session *session, const hf_entry *entry);

/* Key of an entry as a str, new reference. */
PyObject *hfi_key_decode(const hf_entry *entry);
/* First character of a key, 'n' for a user's name. Inline: it is asked often. */
static inline int
hfi_key_kind(PyObject *key) {
    if (PyUnicode_GET_LENGTH(key) < 2)
        return 'n';
    Py_UCS4 first = PyUnicode_READ_CHAR(key, 0);
    if (first > (Py_UCS4)HFI_KEY_EXTRA)
        return 'n';
    return first == HFI_KEY_EXTRA ? 'x' : (int)PyUnicode_READ_CHAR(key, 1);
}

/* The bytes of a key: most are ASCII, and lie in the object. NULL with an exception. */
static inline const char *
hfi_key_bytes(PyObject *key, Py_ssize_t *ret_size) {
    if (!PyUnicode_IS_COMPACT_ASCII(key))
        return PyUnicode_AsUTF8AndSize(key, ret_size);
    *ret_size = PyUnicode_GET_LENGTH(key);
    return (const char *)PyUnicode_DATA(key);
}
/* Encode "the value of this name is in that group". -1 with an exception. */
int hfi_member_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *value,
                      PyObject *group);
/* The group key in a member's meta, new reference; NULL with an exception. */
PyObject *hfi_member_group(const hf_entry *entry);
/* The class identifiers in an entry's meta: a tuple, perhaps empty, new reference. */
PyObject *hfi_entry_classes(const hf_entry *entry);

/* Tell holdfast._context about the namespace and the classes that are encoded by value.
 * Gives what was told before, for hfi_context_leave. `own`: a set of classes or None.
 */
PyObject *hfi_context_enter(PyObject *names, PyObject *namespace, PyObject *own);
void hfi_context_leave(PyObject *before);

/* The record that has a name's buffers: its own, or its group's. NULL if none. */
hfi_record *hfi_names_record_of(const hfi_names *names, PyObject *key);
/* Forget what was prepared. */
void hfi_names_drop_pending(hfi_names *names);
/* Hold the current generation in place of the one held. -1 with an exception. */
int hfi_names_advance(hfi_state *state, hfi_names *names);

/* Methods in other files than names_type.c. */
PyObject *hfi_names_watch(PyObject *self, PyObject *namespace);
PyObject *hfi_names_strays(PyObject *self, PyObject *ignored);
PyObject *hfi_names_save(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *hfi_names_bind(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *hfi_names_adopt(PyObject *self, PyObject *namespace);
PyObject *hfi_names_extra(PyObject *self, PyObject *name);
PyObject *hfi_names_load_class(PyObject *self, PyObject *identifier);
PyObject *hfi_names_discard(PyObject *self, PyObject *name);
PyObject *hfi_names_readmit(PyObject *self, PyObject *name);
PyObject *hfi_names_listing(PyObject *self, PyObject *ignored);

#endif
