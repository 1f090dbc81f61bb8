/* registry.h - the list of codecs that a process knows, in the order they are asked.
 *
 * A registry owns nothing but its list; codecs must outlive it. No lock: the owner
 * fills it at start and reads it afterwards, under a lock of its own (the extension:
 * the GIL).
 */
#ifndef HOLDFAST_REGISTRY_H
#define HOLDFAST_REGISTRY_H

#include "holdfast/codec.h"

typedef struct hfi_registry hfi_registry;

/* HF_E_NOMEM. */
HF_CHECK hf_status hfi_registry_create(hfi_registry **ret_registry, hf_error *reterr);
void hfi_registry_close(hfi_registry *registry); /* NULL is fine */
/* Keep `codec`, which is read in place. HF_E_INVALID: number or name is taken, a
 * function is missing, or struct_size is wrong; HF_E_NOMEM. */
HF_CHECK hf_status hfi_registry_add(hfi_registry *registry, const hf_codec *codec,
                                    hf_error *reterr);
/* NULL if no codec has the number. */
const hf_codec *hfi_registry_find(const hfi_registry *registry, uint32_t number);
/* The codecs by order: index 0 .. count-1; NULL past the end. */
const hf_codec *hfi_registry_at(const hfi_registry *registry, size_t index);

#endif
