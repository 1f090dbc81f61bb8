/* names_stages.h - the stages of a save, and the plain structs between them.
 *
 *     scan -> group -> encode -> commit (compare, put, remove, prepare)
 *
 * Each stage is one file, names_<stage>.c, and names_save.c runs them. All need the
 * interpreter attached. Functions that return an int return -1 with an exception, if
 * their comment doesn't say otherwise. A struct is to be finished after a failed init,
 * too. A save must be going on: nothing changes the table of records then, so pointers
 * to its records stay good; those to pending ones are good until the next key is put or
 * removed.
 *
 * Threads: the interpreter is attached, and one save runs at a time in each Names.
 */
#ifndef HFI_NAMES_STAGES_H
#define HFI_NAMES_STAGES_H

#include "names.h"

/* ---- scan: which names a save looks at ------------------------------------------ */

/* Nothing here runs code of the user's, unless `hidden` or the namespace has keys of a
 * class of its own; allocations may start the collector. */

/* The request of a save. All borrowed. */
typedef struct hfi_scan_request {
    PyObject *namespace;  /* a dict */
    PyObject *hidden;     /* frozenset of names that are not carried */
    PyObject *given_back; /* set of hidden names that were the notebook's; or NULL */
    PyObject *touched;    /* set of names that code may have changed; NULL: any */
    PyObject *holders;    /* tuple of dicts whose references are known; or NULL */
    PyObject *stand_ins; /* dict: by the id of a value, what is saved for it; or NULL */
    int verify;          /* look also at names that would be passed over */
} hfi_scan_request;

/* A name whose value is looked at, or a class of the notebook that the walk found
 * (names_group.c). Later stages note their results here, too. */
typedef struct hfi_member {
    PyObject *key;             /* owned */
    PyObject *value;           /* owned */
    PyObject *group;           /* owned: key of the group that has the value; or NULL */
    PyObject *meta;            /* owned: with `group`, of the member's own entry */
    Py_ssize_t namespace_refs; /* that functions behind it hold */
    uint8_t is_class;
    uint8_t is_untouched; /* looked at for its group's sake, perhaps */
    uint8_t is_verified;  /* would be passed over, but `verify` asks to look */
    uint8_t is_closed;    /* nobody else can change it: graph.h */
    uint8_t is_unserializable;
    uint8_t is_saved; /* put, or its group */
} hfi_member;

typedef struct hfi_scan {
    hfi_member *members; /* in the namespace's order; classes behind the names */
    size_t count;
    PyObject **others; /* owned: objects that names that are not carried and holders
                        * refer to, once for each reference */
    size_t other_count;
    PyObject *classes; /* list: the known classes, if `touched` is set */
} hfi_scan;

int hfi_scan_init(hfi_scan *ret_scan, const hfi_names *names,
                  const hfi_scan_request *wanted);
void hfi_scan_fini(hfi_scan *scan);

/* ---- group: which members belong together --------------------------------------- */

/* The walk may run any code of Python (graph.h). */

/* Members that share objects, or a class of the notebook alone. */
typedef struct hfi_group {
    size_t first, count; /* in hfi_grouping.order */
} hfi_group;

typedef struct hfi_grouping {
    hfi_group *groups; /* those with classes first */
    size_t count;
    uint32_t *order;   /* indices of members, one group after the other */
    PyObject *code;    /* dict: key -> list of functions and classes behind it */
    PyObject *held;    /* list of keys with code that somebody else holds */
    PyObject *numbers; /* dict: key -> list of numbers that may be addresses */
} hfi_grouping;

/* Walk from the members; note for each whether it is closed, and the references to the
 * namespace behind it. Classes that the walk found become members behind the names. */
int hfi_grouping_init(hfi_grouping *ret_grouping, hfi_scan *scan, PyObject *namespace,
                      hf_session *session);
void hfi_grouping_fini(hfi_grouping *grouping);

/* ---- commit: put the values that differ from the store --------------------------- */

/* The interpreter is detached while the store writes to the arena. */

typedef struct hfi_changes {
    hfi_state *state;
    hfi_names *names;       /* borrowed */
    hf_commit *commit;      /* begun with the first change */
    PyObject *removed;      /* list of the names that the user deleted */
    uint64_t decoded_again; /* entries, to compare a pickle with */
    int is_trial;           /* only compare: nothing is put */
    hfi_records aside;      /* with `is_trial`: what was pending, until fini */
} hfi_changes;

/* `pending` of the names is empty then. Fini aborts a commit that wasn't prepared. */
int hfi_changes_init(hfi_changes *ret_changes, hfi_state *state, hfi_names *names,
                     int is_trial);
void hfi_changes_fini(hfi_changes *changes);

/* Room for a first save of this many keys. */
int hfi_changes_expect(hfi_changes *changes, size_t count);
/* Put the sink's encoding of `value` if it differs from the record of `key`: 1 if so, 0
 * if not. `group`: the key of the group that it says the value is in, or NULL.
 * `ret_record` (or NULL) is the record that will hold. */
int hfi_changes_put(hfi_changes *changes, PyObject *key, hfi_entry_sink *sink,
                    uint32_t codec, PyObject *value, PyObject *group,
                    hfi_record **ret_record);
/* The store's entry under this key, if any, is not the value any more. */
int hfi_changes_drop(hfi_changes *changes, PyObject *key);
/* Remove the names that the user deleted or gave back, and the groups and classes that
 * nothing refers to any more. Call it after all other entries were put. */
int hfi_changes_sweep(hfi_changes *changes, const hfi_scan_request *wanted);
/* Prepare the commit: its token as bytes, None if nothing changed, NULL with an
 * exception. New reference. */
PyObject *hfi_changes_prepare(hfi_changes *changes, hf_commit_stats *ret_stats);

/* names_stored.c: is a value still equal to its entry? May decode an entry a second
 * time, which runs any code of Python. 1 if the sink's encoding equals the one of
 * `key`'s record, and no page of its regions was written; 0 if it differs; -1 with an
 * exception. Adds to `decoded_again` the entries that had to be decoded for the
 * answer. */
int hfi_stored_matches(hfi_state *state, hfi_names *names, PyObject *key,
                       hfi_record *record, hfi_entry_sink *sink, uint32_t codec,
                       uint64_t *decoded_again);

/* ---- encode: encode and put the members, or note them as unserializable ---------- */

/* Encoding runs any code of Python. A value that no codec encodes is no failure: it is
 * unserializable, and the reason kept with the names. */

typedef struct hfi_encoder {
    hfi_changes *changes; /* borrowed: where encodings are put */
    hfi_member *members;  /* borrowed */
    size_t count;
    PyObject *own;          /* set of the classes that are encoded by value now */
    PyObject *groups_used;  /* set of group keys of this save */
    PyObject *lost_classes; /* set of identifiers of unserializable classes */
    hfi_entry_sink sink;
    uint64_t encoded; /* values */
    hf_error error;   /* of the last call that failed or declined */
} hfi_encoder;

/* `own` must be current in holdfast.carry.context until fini. */
int hfi_encoder_init(hfi_encoder *ret_encoder, hfi_changes *changes);
void hfi_encoder_fini(hfi_encoder *encoder);

/* The groups, then the names in their order. Each member notes whether it was put or is
 * unserializable, and its group. */
int hfi_encoder_members(hfi_encoder *encoder, hfi_scan *scan,
                        const hfi_grouping *grouping);
/* Process state by word, a dict or NULL. Here a value that no codec encodes fails. */
int hfi_encoder_extra(hfi_encoder *encoder, PyObject *extra);

#endif
