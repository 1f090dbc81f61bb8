/* names_commit.h - the last stage of a save: the commit of what differs.
 *
 * With the interpreter attached; it is detached while the store writes to the arena.
 * A save must be going on: nothing changes the table of records then, so pointers to
 * its records stay good; those to pending ones are good until the next key is put or
 * removed. All that return an int: -1 with an exception.
 */
#ifndef HFI_NAMES_COMMIT_H
#define HFI_NAMES_COMMIT_H

#include "names.h"

typedef struct hfi_changes {
    hfi_state *state;
    hfi_names *names;       /* borrowed */
    hf_commit *commit;      /* begun with the first change */
    PyObject *removed;      /* list of the names that the user deleted */
    uint64_t decoded_again; /* entries, to compare a pickle with */
} hfi_changes;

/* `pending` of the names is empty then. Fini it also after a failure; fini aborts what
 * wasn't prepared. */
int hfi_changes_init(hfi_changes *ret_changes, hfi_state *state, hfi_names *names);
void hfi_changes_fini(hfi_changes *changes);

/* Room for a first save of this many keys. */
int hfi_changes_expect(hfi_changes *changes, size_t count);
/* Put what the sink has where it differs from the record of `key`: 1 if so, 0 if not.
 * `group`: the key of the group that it says the value is in, or NULL. `ret_record`
 * (or NULL) is the record that will hold. */
int hfi_changes_put(hfi_changes *changes, PyObject *key, hfi_entry_sink *sink,
                    uint32_t codec, PyObject *group, hfi_record **ret_record);
/* What the store has under this key, if anything, is not the value any more. */
int hfi_changes_drop(hfi_changes *changes, PyObject *key);
/* Remove what the user deleted, and what nothing refers to any more. Once all that
 * stays was put. */
int hfi_changes_sweep(hfi_changes *changes, PyObject *namespace);
/* Prepare the commit: its token as bytes, None where nothing changed, NULL with an
 * exception. New reference. */
PyObject *hfi_changes_prepare(hfi_changes *changes, hf_commit_stats *ret_stats);

#endif
