/* names_scan.h - the first stage of a save: which names it looks at.
 *
 * With the interpreter attached. Nothing here runs code of the user's but a `hidden` or
 * a namespace with strange keys would; what allocates may start the collector.
 */
#ifndef HFI_NAMES_SCAN_H
#define HFI_NAMES_SCAN_H

#include "names.h"

/* What a save is asked for. All borrowed. */
typedef struct hfi_scan_request {
    PyObject *namespace; /* a dict */
    PyObject *hidden;    /* frozenset of names that are not carried */
    PyObject *touched;   /* set of names that code may have changed; NULL: any */
    PyObject *holders;   /* tuple of dicts whose references are known; or NULL */
    int verify;          /* look at what would be passed over, too */
} hfi_scan_request;

/* A name whose value is looked at, or a class of the notebook that the walk found
 * (names_group.h). What later stages learn of it stands here, too. */
typedef struct hfi_member {
    PyObject *key;             /* owned */
    PyObject *value;           /* owned */
    PyObject *group;           /* owned: key of the group that has the value; or NULL */
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
    PyObject **others; /* owned: what names that are not carried and holders refer to,
                        * once for each reference */
    size_t other_count;
    PyObject *classes; /* list: the known classes, where `touched` is set */
} hfi_scan;

/* -1 with an exception. Fini it also then. */
int hfi_scan_init(hfi_scan *ret_scan, const hfi_names *names,
                  const hfi_scan_request *wanted);
void hfi_scan_fini(hfi_scan *scan);

#endif
