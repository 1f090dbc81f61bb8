/* names.h - what the files of the type Names share. Private to bindings/src. */
#ifndef HFI_NAMES_H
#define HFI_NAMES_H

#include "entry_sink.h"
#include "entry_source.h"
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

typedef enum hfi_record_state {
    HFI_SKIPPED, /* in the store, not bound here */
    HFI_BOUND,   /* what the namespace (or the class table) has was in the store */
} hfi_record_state;

/* What this process knows of one key. */
typedef struct hfi_record {
    PyObject_HEAD hfi_record_state state;
    uint32_t codec;
    int is_stored;      /* no digest was taken: the baseline is the store's own entry */
    uint64_t digest[2]; /* of this process's own encoding */
    int is_closed;      /* nobody else can change it: names_collect.c */
    uintptr_t bound;    /* where the object is that was looked at last; not held */
    Py_ssize_t namespace_refs; /* that functions behind it hold */
    PyObject *object;          /* an unchangeable value, to be known again; or NULL */
    PyObject *group;           /* key of the group that holds the value; or NULL */
    PyObject *classes; /* tuple of identifiers that the encoding refers to; or NULL */
    hfi_attachment *attachment; /* held while there are regions */
    hf_region **regions; /* the buffers, each with a reference; NULL where not a region:
                          * by the encoding's order, or the entry's where `is_stored` */
    uint32_t region_count;
} hfi_record;

typedef struct hfi_names {
    PyObject_HEAD hfi_attachment *attachment;
    PyObject *records;  /* key -> hfi_record: as of `snapshot` */
    PyObject *pending;  /* key -> hfi_record or None (removed): prepared; or NULL */
    PyObject *reasons;  /* declined name -> why */
    PyObject *declined; /* declined name -> the object that was declined */
    PyObject *beside;   /* set: names that share objects with declined ones */
    PyObject *watched;  /* the namespace whose functions are counted; or NULL */
    Py_ssize_t watched_base;  /* references to it before there was user code; or -1 */
    Py_ssize_t declined_refs; /* those of functions behind declined names */
    hf_snapshot *snapshot;    /* the generation that `records` speaks of */
    uint64_t group_seed;      /* random, then counting: names new groups */
    struct hfi_binding *binding; /* the bind or adopt that runs now; or NULL */
} hfi_names;

hfi_record *hfi_record_new(hfi_state *state);
/* Take over digest and regions of an encoding. -1 with MemoryError. */
int hfi_record_take(hfi_record *record, hfi_attachment *attachment,
                    hfi_entry_sink *sink, uint32_t codec);
/* Remember the regions that a decoding mapped. -1 with MemoryError. */
int hfi_record_keep_regions(hfi_record *record, hfi_attachment *attachment,
                            const hfi_entry_source *source);
/* 1: no page of the record's regions was written. 0: one was. -1 with an exception. */
int hfi_record_pages_unchanged(hfi_state *state, const hfi_record *record);
/* For a record with a digest. 1: the encoding is what the record has, and no page of
 * its regions was written. 0: it differs. -1 with an exception. */
int hfi_record_matches(hfi_state *state, const hfi_record *record, hfi_entry_sink *sink,
                       uint32_t codec);

/* Encode with the first codec that carries the value. HF_DECLINED with words. */
HF_CHECK hf_status hfi_names_encode(hfi_state *state, hfi_entry_sink *sink,
                                    PyObject *value, const hf_codec **ret_codec,
                                    hf_error *reterr);

/* Key of an entry as a str, new reference. */
PyObject *hfi_key_decode(const hf_entry *entry);
/* First character of a key, 'n' for a user's name. */
int hfi_key_kind(PyObject *key);
/* Encode "the value of this name is in that group". -1 with an exception. */
int hfi_member_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *value,
                      PyObject *group);
/* The group key in a member's meta, new reference; NULL with an exception. */
PyObject *hfi_member_group(const hf_entry *entry);
/* The class identifiers in an entry's meta: a tuple, perhaps empty, new reference. */
PyObject *hfi_entry_classes(const hf_entry *entry);

/* Tell holdfast._carry about the namespace and the classes that are encoded by value.
 * Gives what was told before, for hfi_carry_leave. `own`: a set of classes or None. */
PyObject *hfi_carry_enter(PyObject *names, PyObject *namespace, PyObject *own);
void hfi_carry_leave(PyObject *before);

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
PyObject *hfi_names_listing(PyObject *self, PyObject *ignored);

#endif
