/* record.h - this process's knowledge of each key of the store, in a table.
 *
 * The table owns its records; a record owns its objects, except `bound` if it isn't
 * held. A pointer to a record is good until the next put, remove or merge: keep none
 * over a call that may run Python code, which may put others. With the interpreter
 * attached. To put over, remove or bind over a record that holds an object may run that
 * object's finalizer; nothing else here runs code of Python.
 *
 * Threads: the interpreter is attached; it protects the table.
 */
#ifndef HFI_RECORD_H
#define HFI_RECORD_H

#include "entry.h"

typedef enum hfi_record_state {
    HFI_SKIPPED, /* in the store, not bound here */
    HFI_BOUND,   /* the value in the namespace (or the class table) was in the store */
    HFI_REMOVED, /* in a prepared commit: gone once it is published */
} hfi_record_state;

/* The baseline with which a bound value is compared at the next save. */
typedef enum hfi_baseline {
    HFI_BY_ENTRY,  /* the stored entry, which was decoded */
    HFI_BY_OWN,    /* the stored entry, which is this process's own encoding */
    HFI_BY_DIGEST, /* the digest of an encoding that is stored, or says the same */
} hfi_baseline;

/* Fields that few records have. */
typedef struct hfi_record_rest {
    hf_digest digest;          /* with HFI_BY_DIGEST */
    Py_ssize_t namespace_refs; /* that functions behind the value hold */
    PyObject *group;           /* key of the group that holds the value; or NULL */
    PyObject *classes; /* tuple of identifiers that the encoding refers to; or NULL */
    hfi_attachment *attachment; /* held while there are regions */
    hf_region **regions; /* the buffers, each with a reference; NULL if not a region: by
                          * the entry's order, or the encoding's with a digest */
    uint32_t region_count;
} hfi_record_rest;

/* This process's knowledge of one key. */
typedef struct hfi_record {
    PyObject *key;         /* owned, an exact str; NULL: this place is given up */
    PyObject *bound;       /* the object that was looked at last; or NULL */
    hfi_record_rest *rest; /* or NULL */
    uint16_t codec;
    uint8_t state;     /* hfi_record_state */
    uint8_t baseline;  /* hfi_baseline */
    uint8_t is_closed; /* nobody else can change it: names_scan.c */
    uint8_t is_held;   /* `bound` is owned: it is unchangeable, or new */
    uint8_t is_new;    /* `bound` waits to be bound: names_bind.c */
} hfi_record;

/* Records by key, in the order in which keys were first put. All zero: empty. */
typedef struct hfi_records {
    hfi_record *items;
    uint32_t *index; /* by hash: place + 1; 0: none */
    uint32_t count;  /* places in use, given up ones too */
    uint32_t live;   /* records */
    uint32_t room;
    uint32_t mask; /* slots of the index - 1 */
} hfi_records;

/* NULL if there is none; sets no exception. Good until the next put. */
hfi_record *hfi_records_find(const hfi_records *records, PyObject *key);
/* An empty record in the place of the present one. NULL with MemoryError. */
hfi_record *hfi_records_put(hfi_records *records, PyObject *key);
void hfi_records_remove(hfi_records *records, PyObject *key);
/* Room for this many more, so that the next ones need no memory. -1 with
 * MemoryError. */
int hfi_records_reserve(hfi_records *records, size_t more);
/* One after the other, from position 0 on; NULL at the end. */
hfi_record *hfi_records_next(const hfi_records *records, size_t *position);
/* Take over the records of a prepared commit. Afterwards `from` is empty. -1 with
 * MemoryError. */
int hfi_records_merge(hfi_records *records, hfi_records *from);
void hfi_records_fini(hfi_records *records);

static inline PyObject *
hfi_record_group(const hfi_record *record) {
    return record->rest ? record->rest->group : NULL;
}
static inline PyObject *
hfi_record_classes(const hfi_record *record) {
    return record->rest ? record->rest->classes : NULL;
}
static inline uint32_t
hfi_record_region_count(const hfi_record *record) {
    return record->rest ? record->rest->region_count : 0;
}

/* The object that a key is bound to; owned by the record if `is_held`. */
void hfi_record_bind(hfi_record *record, PyObject *object, int is_held);
/* All four: -1 with MemoryError. */
int hfi_record_set_namespace_refs(hfi_record *record, Py_ssize_t count);
int hfi_record_set_group(hfi_record *record, PyObject *group);
/* Consumes the reference to `classes`, a tuple or NULL with an exception. */
int hfi_record_set_classes_consume(hfi_record *record, PyObject *classes);
/* Remember the regions that a decoding mapped. */
int hfi_record_keep_regions(hfi_record *record, hfi_attachment *attachment,
                            const hfi_entry_source *source);

/* An encoding that is stored: take over its regions, and the digest of a large one.
 * -1 with MemoryError. */
int hfi_record_take(hfi_record *record, hfi_attachment *attachment,
                    hfi_entry_sink *sink, uint32_t codec);
/* The same for an encoding that is equal to the stored one, perhaps in other bytes;
 * keeps its digest. */
int hfi_record_take_digest(hfi_record *record, hfi_attachment *attachment,
                           hfi_entry_sink *sink, uint32_t codec);
/* 1: no page of the record's regions was written. 0: one was. -1 with an exception. */
int hfi_record_pages_unchanged(hfi_state *state, const hfi_record *record);
/* For a record with a digest. 1: the encoding equals the record's, and no page of its
 * regions was written. 0: it differs. -1 with an exception. */
int hfi_record_matches(hfi_state *state, const hfi_record *record, hfi_entry_sink *sink,
                       uint32_t codec);

#endif
