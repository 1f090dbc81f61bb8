/* names_encode.h - the third stage of a save: members are encoded and put, or unserializable.
 *
 * With the interpreter attached; encoding runs any code of Python. All that return an
 * int: -1 with an exception. A value that no codec encodes is no failure: it is
 * unserializable, and the reason kept with the names.
 */
#ifndef HFI_NAMES_ENCODE_H
#define HFI_NAMES_ENCODE_H

#include "names_commit.h"
#include "names_group.h"

typedef struct hfi_encoder {
    hfi_changes *changes; /* borrowed: where encodings are put */
    hfi_member *members;  /* borrowed */
    size_t count;
    PyObject *own;          /* set of the classes that are encoded by value now */
    PyObject *groups_used;  /* set of group keys of this save */
    PyObject *lost_classes; /* set of identifiers of classes that were unserializable */
    hfi_entry_sink sink;
    uint64_t encoded; /* values */
    hf_error error;   /* of the call that failed or unserializable last */
} hfi_encoder;

/* Fini it also after a failure. `own` must be current in
 * holdfast._context meanwhile. */
int hfi_encoder_init(hfi_encoder *ret_encoder, hfi_changes *changes);
void hfi_encoder_fini(hfi_encoder *encoder);

/* The groups, then the names in their order. Members learn whether they were put,
 * unserializable, and in which group. */
int hfi_encoder_members(hfi_encoder *encoder, hfi_scan *scan,
                        const hfi_grouping *grouping);
/* Process state by word, a dict or NULL. Here a value that no codec encodes fails. */
int hfi_encoder_extra(hfi_encoder *encoder, PyObject *extra);

#endif
