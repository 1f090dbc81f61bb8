/* names_group.h - the second stage of a save: which members belong together.
 *
 * With the interpreter attached; the walk may run any code of Python (graph.h).
 */
#ifndef HFI_NAMES_GROUP_H
#define HFI_NAMES_GROUP_H

#include "names_scan.h"

/* Members that share objects, or a class of the notebook alone. */
typedef struct hfi_group {
    size_t first, count; /* in hfi_grouping.order */
} hfi_group;

typedef struct hfi_grouping {
    hfi_group *groups; /* those with classes first */
    size_t count;
    uint32_t *order; /* indices of members, one group after the other */
    PyObject *code;  /* dict: key -> list of functions and classes behind it */
    PyObject *held;  /* list of keys with code that somebody else holds */
} hfi_grouping;

/* Walk from the members, and learn of each whether it is closed and what refers to the
 * namespace behind it. Classes that the walk found become members behind the names. -1
 * with an exception. Fini it also then. */
int hfi_grouping_init(hfi_grouping *ret_grouping, hfi_scan *scan, PyObject *namespace,
                      hf_session *session);
void hfi_grouping_fini(hfi_grouping *grouping);

#endif
