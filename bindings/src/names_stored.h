/* names_stored.h - is a value still what the store has?
 *
 * With the interpreter attached; it may decode an entry a second time, which runs any
 * code of Python.
 */
#ifndef HFI_NAMES_STORED_H
#define HFI_NAMES_STORED_H

#include "names.h"

/* 1 where the sink's encoding says what the record of `key` speaks of, and no page of
 * its regions was written; 0 where it differs; -1 with an exception. Adds to
 * `decoded_again` the entries that had to be decoded for the answer. A save must be
 * going on: then the record stays where it is. */
int hfi_stored_matches(hfi_state *state, hfi_names *names, PyObject *key,
                       hfi_record *record, hfi_entry_sink *sink, uint32_t codec,
                       uint64_t *decoded_again);

#endif
