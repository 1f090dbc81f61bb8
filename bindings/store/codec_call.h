/* codec_call.h - encoding a value and decoding an entry by the codecs of this process.
 *
 * With the interpreter attached. Encoding and decoding run any code of Python: keep no
 * borrowed reference and no pointer to a record over these calls.
 */
#ifndef HFI_CODEC_CALL_H
#define HFI_CODEC_CALL_H

#include "entry.h"

/* Encode with the first codec that accepts the value, into the sink, which is emptied
 * first. `subject` is what the encoding is for, in messages to people: a key, a dict
 * with the names of a group, or NULL for a stream.
 *
 * HF_DECLINED with a message if no codec encodes the value. Other statuses are the
 * codec's; it may have left an exception as well. */
HF_CHECK hf_status hfi_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *value,
                              PyObject *subject, const hf_codec **ret_codec,
                              hf_error *reterr);

/* Decode an entry of a snapshot: a new reference, or NULL with an exception (an entry
 * in quarantine, a codec that this process doesn't have, and whatever the codec
 * raises). `subject`: the name that it is decoded for, or NULL for the entry's own. On
 * success `ret_source` is the caller's to fini: it has the regions that were mapped.
 * Its `bytes_mapped` counts also after a failure. */
PyObject *hfi_decode(hfi_state *state, hfi_attachment *attachment,
                     hf_snapshot *snapshot, const hf_entry *entry, PyObject *subject,
                     hfi_entry_source *ret_source);

/* The codec of a number, from a package that is loaded for it now if necessary; or
 * NULL, without an exception. */
const hf_codec *hfi_codec_find(hfi_state *state, uint32_t number);
/* Whether its decoder may ask holdfast.carry.context for which namespace it decodes. */
int hfi_codec_asks_context(const hf_entry *entry);

#endif
